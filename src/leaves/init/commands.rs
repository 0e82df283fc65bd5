//! Commands in READMEs and docstrings: what people run, and with which arguments.

use std::path::Path;

/// What a command runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CommandTarget {
    /// A file of Python.
    File(String),
    /// A module: `python -m NAME`.
    Module(String),
    /// A shell script.
    Shell(String),
    /// A program on the path.
    Named(String),
}

/// A command in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TextCommand {
    /// Where it stands: `README.md, line 12`.
    pub(super) place: String,
    /// The folder in which it is run, from the root; empty for the root.
    pub(super) directory: String,
    pub(super) target: CommandTarget,
    /// Assignments of variables before it, with a space behind each.
    pub(super) variables: String,
    pub(super) arguments: String,
    /// Number of processes that a launcher starts.
    pub(super) ranks: Option<u32>,
}

impl TextCommand {
    /// The path of its file, or of its module without an end, from the root.
    pub(super) fn path(&self) -> Option<String> {
        match &self.target {
            CommandTarget::File(path) | CommandTarget::Shell(path) => within(&self.directory, path),
            CommandTarget::Module(name) => within(&self.directory, &name.replace('.', "/")),
            CommandTarget::Named(_) => None,
        }
    }

    /// Finds a file that is not where the command is run, if only one has that name: READMEs leave folders out.
    pub(super) fn resolve(&mut self, root: &Path, paths: &[&str]) {
        let CommandTarget::File(file) = &self.target else { return };
        if self.path().is_none_or(|path| root.join(path).is_file()) {
            return;
        }
        let mut ends = paths.iter().filter(|other| other.ends_with(&format!("/{}", file.trim_start_matches("./"))));
        if let (Some(found), None) = (ends.next(), ends.next()) {
            self.target = CommandTarget::File((*found).to_owned());
            self.directory.clear();
        }
    }

    /// Whether an argument stands for something that the reader has to fill in.
    pub(super) fn has_placeholders(&self) -> bool {
        self.arguments.split_whitespace().any(is_placeholder)
    }
}

/// Parts of words that stand for something else, or for one of several machines.
const PLACEHOLDERS: [&str; 13] =
    ["<", "{", "$", "...", "…", "path/to", "/path", "your", "my_", "xxx", "nnodes", "num_nodes", "num_machines"];

fn is_placeholder(word: &str) -> bool {
    let value = word.rsplit('=').next().unwrap_or(word).trim_matches(['"', '\'']);
    let is_shouted = value.len() > 2 && value.chars().all(|c| c.is_ascii_uppercase() || c == '_');
    let word = word.to_ascii_lowercase();
    let is_choice = word.starts_with('[') && word.contains(|c: char| c.is_ascii_alphabetic());
    is_shouted || is_choice || PLACEHOLDERS.iter().any(|part| word.contains(part))
}

/// A path below a folder, both from the root, without `.` and `..`; `None` outside of the root.
pub(super) fn within(folder: &str, path: &str) -> Option<String> {
    let mut parts = Vec::new();
    for part in folder.split('/').chain(path.split('/')) {
        match part {
            ".." => drop(parts.pop()?),
            "" | "." => {}
            name => parts.push(name),
        }
    }
    (!path.starts_with('/')).then(|| parts.join("/"))
}

/// The commands of a text in `folder`: in lines of their own, or between backticks. `name` is that of the text.
pub(super) fn of_text(root: &Path, folder: &str, name: &str, text: &str) -> Vec<TextCommand> {
    let mut found = Vec::new();
    let mut directory = folder.to_owned();
    let mut number = 1;
    // Lines that end with a backslash go on.
    for line in text.replace("\\\n", "\0").lines() {
        if line.starts_with("```") {
            folder.clone_into(&mut directory);
        }
        for part in parts(&line.replace('\0', " ")) {
            if let Some(other) = part.strip_prefix("cd ") {
                let other = within(&directory, other.trim()).filter(|other| root.join(other).is_dir());
                directory = other.unwrap_or(directory);
            } else if let Some(command) = of_words(part) {
                let place = format!("{name}, line {number}");
                found.push(TextCommand { place, directory: directory.clone(), ..command });
            }
        }
        number += 1 + line.matches('\0').count();
    }
    found
}

/// The commands of a line, without prompts and comments.
fn parts(line: &str) -> Vec<&str> {
    let spans: Vec<&str> = if line.contains('`') { line.split('`').skip(1).step_by(2).collect() } else { vec![line] };
    let whole = spans.into_iter().filter_map(|span| span.split(" #").next());
    let each = whole.flat_map(|span| span.split("&&")).flat_map(|span| span.split(';'));
    each.map(|part| part.trim().trim_start_matches("$ ").trim()).collect()
}

/// What runs other commands as they are.
const WRAPPERS: [&str; 4] = ["uv run ", "poetry run ", "pipenv run ", "pixi run "];

/// What starts a program once for each rank.
const LAUNCHERS: [&str; 3] = ["torchrun", "accelerate launch", "deepspeed"];

/// A command without its place.
fn of_words(text: &str) -> Option<TextCommand> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let (set, words) = words.split_at(words.iter().take_while(|word| is_assignment(word)).count());
    let rest = words.join(" ").replacen("python3 ", "python ", 1);
    let rest = WRAPPERS.iter().find_map(|wrapper| rest.strip_prefix(wrapper)).unwrap_or(&rest);
    let rest = rest
        .replace("python -m torch.distributed.run", "torchrun")
        .replace("python -m torch.distributed.launch", "torchrun");
    let launched = LAUNCHERS.iter().find_map(|launcher| rest.strip_prefix(launcher)?.strip_prefix(' '));
    let run = launched.or_else(|| rest.strip_prefix("python "));
    let mut words: Vec<&str> = run.unwrap_or(&rest).split_whitespace().collect();
    let begin = words.iter().position(|word| *word == "-m" || word.ends_with(".py")).filter(|_| run.is_some());
    let options: Vec<&str> = words.drain(..begin.unwrap_or(0)).collect();
    let (target, arguments) = target(&words, run.is_some())?;
    let kept = set.iter().filter(|word| !word.starts_with("CUDA_VISIBLE_DEVICES="));
    Some(TextCommand {
        place: String::new(),
        directory: String::new(),
        target,
        variables: kept.map(|word| format!("{word} ")).collect(),
        arguments: without_optional(arguments),
        ranks: launched.and(ranks(&options)),
    })
}

/// True for an assignment of a variable.
fn is_assignment(word: &str) -> bool {
    let name = word.split_once('=').map_or("-", |(name, _)| name);
    name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
}

/// What words run, and the arguments.
fn target<'w>(words: &'w [&'w str], is_python: bool) -> Option<(CommandTarget, &'w [&'w str])> {
    let (first, rest) = words.split_first()?;
    let second = rest.first().map(|word| (*word).to_owned());
    Some(match *first {
        "-m" if is_python => (CommandTarget::Module(second?), &rest[1..]),
        path if is_python && path.ends_with(".py") => (CommandTarget::File(path.to_owned()), rest),
        _ if is_python => return None,
        "bash" | "sh" => (CommandTarget::Shell(second?), &rest[1..]),
        path if path.ends_with(".sh") => (CommandTarget::Shell(path.to_owned()), rest),
        name => (CommandTarget::Named(name.to_owned()), rest),
    })
}

/// Arguments without what stands in brackets, as in `[--cache]`, and without the `--` of a launcher.
fn without_optional(arguments: &[&str]) -> String {
    let arguments: Vec<&str> = arguments.iter().skip_while(|word| **word == "--").copied().collect();
    let mut text = arguments.join(" ");
    while let Some(begin) = text.find("[-") {
        let Some(end) = text[begin..].find(']') else { break };
        text.replace_range(begin..=begin + end, "");
    }
    text.trim().to_owned()
}

/// The number of processes among the options of a launcher.
fn ranks(options: &[&str]) -> Option<u32> {
    let words: Vec<&str> = options.iter().flat_map(|word| word.split('=')).collect();
    let at = words.iter().position(|word| {
        let name = word.trim_start_matches('-').replace('_', "-");
        ["nproc-per-node", "num-processes", "num-gpus"].contains(&&*name)
    })?;
    words.get(at + 1)?.parse().ok().filter(|ranks| *ranks > 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(line: &str) -> Option<TextCommand> {
        of_text(Path::new("."), "", "README.md", line).into_iter().next()
    }

    #[test]
    fn a_command_is_taken_apart() {
        let file = |path: &str| CommandTarget::File(path.to_owned());
        let module = |name: &str| CommandTarget::Module(name.to_owned());
        for (line, target, arguments, ranks) in [
            ("python train.py", file("train.py"), "", None),
            ("$ python3 -u ./train.py --lr 1 # fast", file("./train.py"), "--lr 1", None),
            ("uv run python -m a.train -d 8 -o [--cache]", module("a.train"), "-d 8 -o", None),
            (
                "torchrun --standalone --nproc_per_node=8 -m a.train -- --depth=4",
                module("a.train"),
                "--depth=4",
                Some(8),
            ),
            ("accelerate launch --num_processes 2 a.py x", file("a.py"), "x", Some(2)),
            ("python -m torch.distributed.run --nproc-per-node 4 a.py", file("a.py"), "", Some(4)),
            ("Run `python a.py --x` now.", file("a.py"), "--x", None),
            ("bash runs/all.sh", CommandTarget::Shell("runs/all.sh".to_owned()), "", None),
            ("x-train --config a.yaml", CommandTarget::Named("x-train".to_owned()), "--config a.yaml", None),
        ] {
            let found = command(line).unwrap();
            assert_eq!((found.target, &*found.arguments, found.ranks), (target, arguments, ranks), "{line}");
        }
        assert_eq!(command("CUDA_VISIBLE_DEVICES=0 PYTHONPATH=. python a.py").unwrap().variables, "PYTHONPATH=. ");
        assert_eq!(command("python setup.cfg"), None);
    }

    #[test]
    fn lines_that_go_on_are_one_command_and_cd_leads_to_another_folder() {
        let place = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(place.path().join("examples/a")).unwrap();
        let text = "```\ncd examples/a\npython x.py \\\n  --lr 1\n```\ncd gone && python y.py\n";
        let found = of_text(place.path(), "", "README.md", text);
        assert_eq!(found[0].path().as_deref(), Some("examples/a/x.py"));
        assert_eq!((&*found[0].arguments, &*found[0].place), ("--lr 1", "README.md, line 3"));
        assert_eq!((&*found[1].directory, found[1].path().as_deref()), ("", Some("y.py")));
        assert_eq!((within("a", "../../b.py"), within("", "/b.py")), (None, None));
    }

    #[test]
    fn what_the_reader_has_to_fill_in_is_a_placeholder() {
        for word in ["<data>", "$DATA", "--x=/path/to/y", "DATA_DIR", "--out={dir}", "[cpu/gpu]", "your.pth", "..."] {
            assert!(is_placeholder(word), "{word}");
        }
        for word in ["--lr", "0.1", "[1,2]", "a/b.yaml", "trainer=gpu", "tcp://1.2.3.4:5", "SGD1", "--n", "8"] {
            assert!(!is_placeholder(word), "{word}");
        }
    }
}
