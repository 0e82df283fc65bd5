//! The programs of a repository that use a GPU: what people run is what a gate had better record.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::commands::{self, CommandTarget, TextCommand};
use super::imports::Imports;
use super::{install, options};
use crate::cli::checkout;

/// What a program does, as far as its text says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ProgramKind {
    /// It takes steps of an optimizer.
    Trains,
    /// It samples, predicts or evaluates: it has no steps.
    Runs,
}

/// Why a program does not become a gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Obstacle {
    /// It cannot start without arguments that no command in a text gives.
    Requires(Vec<String>),
    /// It reads a file that the repository does not have.
    Lacks(String),
    /// It waits for what a user types.
    Asks,
    /// Neither its text nor that of what it imports names a GPU.
    NoGpu,
    /// A notebook of Jupyter. Many install packages, download data, or take another course in CI.
    Notebook,
    /// Nothing makes it an entry point, and others are.
    Aside,
    /// The commands that run it have arguments to fill in.
    Placeholders,
    /// A try failed, with these words.
    Failed(String),
    /// It cannot be tried in this environment, which lacks a module.
    Untried(String),
    /// It had not recorded after these seconds.
    Unfinished(&'static str),
}

impl Obstacle {
    /// Whether a gate may record a program of this kind all the same: nothing went wrong. One that does not train may as well be
    /// downloading data.
    pub(super) fn is_unknown(&self, kind: ProgramKind) -> bool {
        match self {
            Self::Untried(_) => true,
            Self::Unfinished(_) => kind == ProgramKind::Trains,
            Self::Requires(_)
            | Self::Lacks(_)
            | Self::Asks
            | Self::NoGpu
            | Self::Notebook
            | Self::Aside
            | Self::Placeholders
            | Self::Failed(_) => false,
        }
    }

    pub(super) fn described(&self) -> String {
        match self {
            Self::Requires(names) => format!("no README or docstring gives the required {}", names.join(", ")),
            Self::Lacks(path) => format!("it reads {path}, which is not in the repository"),
            Self::Asks => "it waits for input".to_owned(),
            Self::NoGpu => "neither it nor what it imports names a GPU".to_owned(),
            Self::Notebook => "a notebook; record a script instead".to_owned(),
            Self::Aside => "no README runs it, and its name does not say that it trains".to_owned(),
            Self::Placeholders => "READMEs run it with arguments to fill in, or on several machines".to_owned(),
            Self::Failed(words) => format!("tried, and not recorded: {words}"),
            Self::Untried(module) => format!("not tried: this environment lacks the module {module}"),
            Self::Unfinished(seconds) => format!("tried, and not recorded after {seconds} s"),
        }
    }
}

/// A program of the repository.
#[derive(Debug)]
pub(super) struct FoundProgram {
    /// Its path from the root.
    pub(super) path: String,
    text: String,
    pub(super) imports: Imports,
    /// The name under which an installation puts it on the path.
    named: Option<String>,
    pub(super) kind: ProgramKind,
    /// The place of the first command that runs it among those of the READMEs and its docstring, if there is one.
    place: Option<usize>,
    /// The command of a text that is taken over.
    command: Option<TextCommand>,
    /// How it is started.
    start: CommandTarget,
    pub(super) obstacle: Option<Obstacle>,
    /// The seconds that a try took to record it.
    pub(super) recorded: Option<u64>,
}

impl FoundProgram {
    /// The program at a path, unless nothing says that it is for a GPU.
    fn of(root: &Path, path: &str, scripts: &[(String, String)], documented: &[TextCommand]) -> Option<Self> {
        let text = fs::read_to_string(root.join(path)).ok()?;
        let script = scripts.iter().find(|(_, module)| is_module(&module.replace('.', "/"), path));
        let mut program = Self {
            path: path.to_owned(),
            imports: Imports::of(root, path),
            named: script.map(|(name, _)| name.clone()),
            kind: ProgramKind::Runs,
            place: None,
            command: None,
            start: CommandTarget::File(path.to_owned()),
            obstacle: None,
            recorded: None,
            text,
        };
        program.take_command(root, documented);
        if !program.is_on_torch() {
            return None;
        }
        program.start = program.started(root);
        program.obstacle = program.obstacle(root);
        (program.kind == ProgramKind::Trains || program.place.is_some()).then_some(program)
    }

    /// Whether it starts something on PyTorch.
    fn is_on_torch(&self) -> bool {
        let is_notebook = self.path.ends_with(".ipynb") && self.text.contains("import torch");
        // READMEs also run what only installs.
        let is_in_text = self.place.is_some() && !self.path.ends_with("setup.py");
        let is_called = self.named.is_some() || self.path.ends_with("/__main__.py") || is_in_text;
        let is_started = is_called || self.starts();
        is_notebook || is_started && FRAMEWORKS.iter().any(|name| self.imports.packages.contains(*name))
    }

    /// True if lines run when the file does: the usual condition, and a loop, the reading of arguments, the call of a trainer or of `main`
    /// outside of any function.
    fn starts(&self) -> bool {
        let parts = [".parse_args(", "trainer.fit(", "__name__ =="];
        let mut outside = self.text.lines().filter(|line| !line.starts_with([' ', '\t', '#']));
        outside.any(|line| {
            BEGINNINGS.iter().any(|begin| line.starts_with(begin)) || parts.iter().any(|part| line.contains(part))
        })
    }

    /// Takes over the first command without arguments to fill in, preferably of one process that trains on a GPU.
    fn take_command(&mut self, root: &Path, documented: &[TextCommand]) {
        let head = ["\nimport ", "\nfrom "].iter().filter_map(|word| self.text.find(word)).min().unwrap_or(0);
        let mut docstring = commands::of_text(root, "", "its docstring", &self.text[..head]);
        docstring.iter_mut().for_each(|command| command.resolve(root, &[&self.path]));
        let all = documented.iter().chain(&docstring).enumerate();
        let known: Vec<(usize, &TextCommand)> = all.filter(|(_, command)| self.is_run_by(command)).collect();
        let whole = known.iter().map(|(_, command)| command).filter(|command| !command.has_placeholders());
        let first = whole.min_by_key(|command| {
            (command.ranks, Reverse(PREFERRED.iter().filter(|word| command.arguments.contains(**word)).count()))
        });
        let command = first.map(|command| (*command).clone());
        self.place = known.first().map(|(place, _)| *place);
        self.command = command;
        self.kind = if self.trains() { ProgramKind::Trains } else { ProgramKind::Runs };
    }

    /// Whether a command runs it.
    fn is_run_by(&self, command: &TextCommand) -> bool {
        let path = command.path();
        match &command.target {
            CommandTarget::File(_) => path.as_ref() == Some(&self.path),
            CommandTarget::Module(_) => path.is_some_and(|stem| is_module(&stem, &self.path)),
            CommandTarget::Named(name) => Some(name) == self.named.as_ref(),
            CommandTarget::Shell(_) => false,
        }
    }

    /// Whether it trains: by its own text, or by what it imports if it calls that or is named so.
    fn trains(&self) -> bool {
        let own = [".backward(", "trainer.fit(", "trainer.train(", ".learn(", "LightningCLI("];
        let calls = ["train(", "train_", "training(", ".fit("].iter().any(|call| self.text.contains(call));
        let others = [".backward(", "Trainer(", "trainer.fit("];
        own.iter().any(|call| self.text.contains(call))
            || (calls || is_named_so(&self.path)) && others.iter().any(|call| self.imports.text.contains(call))
    }

    /// How it is started: as a text says, otherwise so that it finds what it imports.
    fn started(&self, root: &Path) -> CommandTarget {
        let is_relative = self.text.lines().any(|line| line.starts_with("from ."));
        let lacks_root = self.imports.needs_root && install::package_above(root, &self.path).is_none();
        let stem = self.path.trim_end_matches(".py").trim_end_matches("/__main__").trim_start_matches("src/");
        match (&self.command, &self.named) {
            (Some(command), _) => command.target.clone(),
            (None, Some(name)) if !self.starts() => CommandTarget::Named(name.clone()),
            (None, _) if is_relative || lacks_root || self.path.ends_with("/__main__.py") => {
                CommandTarget::Module(stem.replace('/', "."))
            }
            (None, _) => CommandTarget::File(self.path.clone()),
        }
    }

    fn obstacle(&self, root: &Path) -> Option<Obstacle> {
        let given = self.command.as_ref().map(|command| &*command.arguments);
        let required = options::required(&self.text, given);
        let lower = self.imports.text.to_ascii_lowercase();
        let named = given.unwrap_or_default().split([' ', '=']);
        let mut read = named.filter(|word| READ.iter().any(|end| word.ends_with(end)));
        let lacking = read.find(|path| !root.join(self.directory()).join(path).exists());
        match () {
            () if self.path.ends_with(".ipynb") => Some(Obstacle::Notebook),
            () if !required.is_empty() => Some(Obstacle::Requires(required)),
            () if given.is_none() && self.place.is_some() => Some(Obstacle::Placeholders),
            () if self.text.contains("= input(") => Some(Obstacle::Asks),
            () if !OF_GPUS.iter().any(|part| lower.contains(part)) => Some(Obstacle::NoGpu),
            () => lacking.map(|path| Obstacle::Lacks(path.to_owned())),
        }
    }

    /// The script that runs it, from the root.
    pub(super) fn record(&self) -> String {
        let start = match &self.start {
            CommandTarget::File(path) => format!("python {}", word(path)),
            CommandTarget::Module(name) => format!("python -m {name}"),
            CommandTarget::Named(name) | CommandTarget::Shell(name) => name.clone(),
        };
        let Some(TextCommand { variables, arguments, .. }) = &self.command else { return start };
        let directory = if self.directory().is_empty() { "" } else { &*format!("cd {} && ", word(self.directory())) };
        format!("{directory}{variables}{start} {arguments}").trim_end().to_owned()
    }

    /// The folder in which it is run, from the root; empty for the root.
    fn directory(&self) -> &str {
        self.command.as_ref().map_or("", |command| &command.directory)
    }

    pub(super) fn ranks(&self) -> Option<u32> {
        self.command.as_ref().and_then(|command| command.ranks)
    }

    /// Why it was chosen, and why in this way.
    pub(super) fn because(&self) -> String {
        let place = self.command.as_ref().map(|command| format!("as in {}", command.place));
        let mut parts = vec![place.unwrap_or_else(|| "no README or docstring has its command".to_owned())];
        parts.push(match self.kind {
            ProgramKind::Trains => "it seems to train".to_owned(),
            ProgramKind::Runs => "all is recorded, since it seems to take no steps of an optimizer".to_owned(),
        });
        let tried = self.recorded.map(|seconds| format!("a try recorded it within {} s", seconds + 1));
        parts.push(self.obstacle.as_ref().map_or(tried.unwrap_or("not tried".to_owned()), Obstacle::described));
        parts.join("; ")
    }

    /// Whether a text or its name makes it an entry point.
    fn is_entry(&self) -> bool {
        self.place.is_some() || is_named_so(&self.path)
    }
}

/// Beginnings of lines that do something outside of any function.
const BEGINNINGS: [&str; 3] = ["for ", "while ", "main("];

/// Words of arguments that choose what a gate had better record.
const PREFERRED: [&str; 4] = ["gpu", "cuda", "train", "finetune"];

/// Words of programs that can use a GPU.
const OF_GPUS: [&str; 5] = ["cuda", "gpu", "accelerat", "trainer", "device_map"];

/// Packages that run on PyTorch.
const FRAMEWORKS: [&str; 7] =
    ["torch", "lightning", "pytorch_lightning", "transformers", "accelerate", "diffusers", "stable_baselines3"];

/// Ends of names of files that a program reads: weights, configurations, tables.
const READ: [&str; 10] = [".pth", ".pt", ".ckpt", ".safetensors", ".onnx", ".pkl", ".yaml", ".yml", ".csv", ".npy"];

/// Whether a module, as a path without its end, is the file at a path.
fn is_module(stem: &str, path: &str) -> bool {
    let path = path.strip_prefix("src/").unwrap_or(path);
    path.strip_prefix(stem).is_some_and(|rest| [".py", "/__main__.py", "/__init__.py"].contains(&rest))
}

/// A path as a word of a shell; one that begins with a dash is no option.
pub(super) fn word(path: &str) -> String {
    let path = if path.starts_with('-') { format!("./{path}") } else { path.to_owned() };
    let is_plain = path.chars().all(|c| c.is_ascii_alphanumeric() || "._/-".contains(c));
    if is_plain { path } else { format!("'{}'", path.replace('\'', "'\\''")) }
}

/// The programs of a repository, those that people most likely run first.
pub(super) fn find(root: &Path) -> Vec<FoundProgram> {
    let paths = checkout::list(root);
    let paths: Vec<&str> = paths.iter().map(String::as_str).filter(|path| is_ours(path)).collect();
    let commands = documented(root, &paths);
    let scripts = install::scripts(root);
    let found = paths.into_iter().filter_map(|path| FoundProgram::of(root, path, &scripts, &commands));
    let mut programs: Vec<FoundProgram> = found.collect();
    programs.sort_by_cached_key(|program| {
        let is_beside = BESIDE.iter().any(|folder| program.path.contains(folder));
        let order = (program.obstacle.is_some(), program.kind, is_beside, program.place.unwrap_or(usize::MAX));
        (order, !is_named_so(&program.path), program.path.matches('/').count(), program.path.clone())
    });
    let has_entry = programs.iter().any(|program| program.kind == ProgramKind::Trains && program.is_entry());
    let others = programs.iter_mut().filter(|program| has_entry && program.obstacle.is_none() && !program.is_entry());
    others.for_each(|program| program.obstacle = Some(Obstacle::Aside));
    programs
}

/// The package that a repository is for, if it has one in its root or in `src`: the only one, or the one that is called as its folder.
pub(super) fn package(root: &Path) -> Option<String> {
    let paths = checkout::list(root);
    let ours = paths.iter().filter(|path| is_ours(path) && !BESIDE.iter().any(|folder| path.contains(folder)));
    let packages = ours.filter_map(|path| path.strip_prefix("src/").unwrap_or(path).strip_suffix("/__init__.py"));
    let outermost: Vec<&str> = packages.filter(|package| !package.contains('/')).collect();
    let folder = root.file_name()?.to_string_lossy().to_ascii_lowercase().replace(['-', '.'], "_");
    let named = outermost.iter().find(|package| **package == folder || outermost.len() == 1);
    named.map(|package| (*package).to_owned())
}

/// Folders of programs beside those that a repository is for.
const BESIDE: [&str; 6] = ["example", "tutorial", "docs/", "benchmark", "extension", "demo"];

/// Folders of tests, and of programs that others wrote.
const NOT_OURS: [&str; 6] = ["tests", "test", "third_party", "thirdparty", "vendor", "external"];

fn is_ours(path: &str) -> bool {
    let is_for_tests = path.split('/').any(|part| NOT_OURS.contains(&part) || part.starts_with("test_"));
    !is_for_tests && !path.contains(char::REPLACEMENT_CHARACTER)
}

/// True for a file whose name says that it trains.
fn is_named_so(path: &str) -> bool {
    let stem = path.rsplit('/').next().and_then(|name| name.strip_suffix(".py"));
    stem.is_some_and(|stem| stem.contains("train") || stem == "main" || stem.contains("finetune"))
}

/// The commands of the READMEs in the folders of programs and above, those of the root first, and of the shell scripts that they run.
fn documented(root: &Path, paths: &[&str]) -> Vec<TextCommand> {
    let folders: BTreeSet<&Path> = paths.iter().flat_map(|path| Path::new(path).ancestors().skip(1)).collect();
    let of_readmes = folders
        .into_iter()
        .map(|folder| of_file(root, &folder.to_string_lossy(), &folder.join("README.md").to_string_lossy()));
    let mut found: Vec<TextCommand> = of_readmes.flatten().collect();
    let scripts = found.iter().filter(|command| matches!(command.target, CommandTarget::Shell(_)));
    let of_scripts = scripts.filter_map(|script| Some(of_file(root, &script.directory, &script.path()?)));
    let of_scripts: Vec<TextCommand> = of_scripts.flatten().collect();
    found.extend(of_scripts);
    found.iter_mut().for_each(|command| command.resolve(root, paths));
    found
}

fn of_file(root: &Path, folder: &str, path: &str) -> Vec<TextCommand> {
    commands::of_text(root, folder, path, &fs::read_to_string(root.join(path)).unwrap_or_default())
}
