//! The programs of a repository that train: what a gate had better record is what people run.

use std::fs;
use std::path::Path;

use super::devices;
use super::packages;
use super::readiness::Readiness;
use crate::cli::checkout;

/// How a program takes its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::EnumIter)]
pub(super) enum Interface {
    LightningCli,
    Hydra,
    Tyro,
    Fire,
    HuggingFace,
    Click,
    Argparse,
    /// A notebook of Jupyter, which IPython runs.
    Notebook,
    /// By none that is known.
    Plain,
}

impl Interface {
    /// The name that people know, and a part of the text of a program that has it.
    fn evidence(self) -> (&'static str, &'static [&'static str]) {
        match self {
            Self::LightningCli => ("LightningCLI", &["LightningCLI("]),
            Self::Hydra => ("Hydra", &["@hydra.main"]),
            Self::Tyro => ("tyro", &["tyro.cli("]),
            Self::Fire => ("fire", &["fire.Fire("]),
            Self::HuggingFace => ("HfArgumentParser", &["HfArgumentParser("]),
            Self::Click => ("click", &["@click.command", "typer.run(", "typer.Typer("]),
            Self::Argparse => ("argparse", &["ArgumentParser("]),
            Self::Notebook => ("notebook", &["\"nbformat\""]),
            Self::Plain => ("no arguments", &[""]),
        }
    }

    fn of(text: &str) -> Self {
        let mut all = <Self as strum::IntoEnumIterator>::iter();
        all.find(|interface| interface.evidence().1.iter().any(|part| text.contains(part))).unwrap_or(Self::Plain)
    }
}

/// A program that trains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Program {
    /// Its path from the root.
    pub(super) path: String,
    pub(super) interface: Interface,
    /// Arguments with which it trains on a GPU.
    arguments: String,
    /// Arguments that it requires and nobody can guess.
    pub(super) required: Vec<String>,
    /// The line of the README with the first command that runs it, if there is one.
    place: Option<usize>,
    pub(super) readiness: Readiness,
}

/// Programs that are recorded; the others are named.
pub(super) const MOST_RECORDED: usize = 3;

/// The programs of a repository, those that people most likely run first.
pub(super) fn find(root: &Path) -> Vec<Program> {
    let paths = checkout::list(root);
    let mut programs: Vec<Program> = paths
        .iter()
        .filter(|path| is_candidate(path))
        .filter_map(|path| {
            let text = fs::read_to_string(root.join(path)).ok()?;
            is_program(path, &text).then(|| Program::new(root, path.clone(), &text))
        })
        .collect();
    // Beside programs, notebooks are their examples.
    if programs.iter().any(|program| program.interface != Interface::Notebook) {
        programs.retain(|program| program.interface != Interface::Notebook);
    }
    programs.sort_by_key(|program| {
        let path = &program.path;
        let needs = !program.required.is_empty();
        // What the README runs first needs least.
        let place = program.place.unwrap_or(usize::MAX);
        let folder = BESIDE.iter().position(|folder| path.contains(folder));
        (program.readiness.clone(), folder, !is_training(path), needs, place, path.matches('/').count(), path.clone())
    });
    programs
}

/// Folders of programs beside those that a repository is for.
const BESIDE: [&str; 5] = ["example", "tutorial", "docs/", "benchmark", "extension"];

/// Folders of tests, and of programs that others wrote.
const NOT_OURS: [&str; 6] = ["tests", "test", "third_party", "thirdparty", "vendor", "external"];

fn is_candidate(path: &str) -> bool {
    let is_for_tests = path.split('/').any(|part| NOT_OURS.contains(&part) || part.starts_with("test_"));
    // Neither a shell nor YAML must take a part of it for something else.
    let is_plain = path.chars().all(|c| c.is_ascii_alphanumeric() || "._/-".contains(c));
    (path.ends_with(".py") || path.ends_with(".ipynb")) && is_plain && !is_for_tests && path != "record_memory.py"
}

/// True for a file whose name says that it trains.
fn is_training(path: &str) -> bool {
    let stem = path.rsplit('/').next().and_then(|name| name.strip_suffix(".py"));
    stem.is_some_and(|stem| stem.contains("train") || stem == "main" || stem.contains("finetune"))
}

/// True for a file that starts something by itself, and trains with PyTorch on a GPU, or says so by its name.
fn is_program(path: &str, text: &str) -> bool {
    let is_notebook = path.ends_with(".ipynb");
    let starts = is_notebook || text.lines().any(is_start);
    let fits = text.split(".fit(").skip(1).any(|rest| !rest.starts_with(')'));
    let trains = fits || has(text, &[".backward(", "trainer.train(", "trainer.run(", "LightningCLI("]);
    // A module of a library may try itself, on the host.
    let is_on_gpu = fits || has(text, &["cuda", "ccelerator", "Trainer", "LightningCLI("]);
    let imports = text.contains("LightningCLI(") || text.lines().any(imports_framework);
    starts && (trains && is_on_gpu || is_training(path)) && imports
}

/// True for a line that runs when the file does: the usual condition, and a loop, the reading of arguments or the call of a trainer
/// outside of any function.
fn is_start(line: &str) -> bool {
    let is_outside = !line.starts_with([' ', '\t', '#']);
    let reads = line.contains(".parse_args(") && line.contains('=');
    let loops = line.starts_with("for ") || line.starts_with("while ");
    is_outside && (loops || reads || line.contains("trainer.fit(") || line.contains("__name__ =="))
}

fn has(text: &str, parts: &[&str]) -> bool {
    parts.iter().any(|part| text.contains(part))
}

/// Packages that train on PyTorch.
const FRAMEWORKS: [&str; 6] = ["torch", "lightning", "pytorch_lightning", "transformers", "accelerate", "diffusers"];

fn imports_framework(line: &str) -> bool {
    packages::modules_of(line).into_iter().any(|module| FRAMEWORKS.contains(&packages::top(module)))
}

impl Program {
    /// `root` is that of the repository.
    fn new(root: &Path, path: String, text: &str) -> Self {
        let interface = if path.ends_with(".ipynb") { Interface::Notebook } else { Interface::of(text) };
        let own = match interface {
            Interface::Hydra if trains_on_host(root, &path, text) => "trainer=gpu",
            Interface::LightningCli => "fit",
            Interface::Hydra
            | Interface::Tyro
            | Interface::Fire
            | Interface::HuggingFace
            | Interface::Click
            | Interface::Argparse
            | Interface::Notebook
            | Interface::Plain => "",
        };
        let documented = documented(root, &path).filter(|arguments| arguments.starts_with(own));
        let mut required = required(text);
        required.retain(|name| documented.is_none() || name.starts_with('-'));
        let mut arguments = documented.unwrap_or_else(|| own.to_owned());
        if !arguments.contains("trainer=gpu") {
            for argument in devices::arguments(root, &path, interface, text) {
                let name = argument.split([' ', '=']).next().unwrap_or_default();
                if !arguments.split([' ', '=']).any(|word| word == name) {
                    arguments = format!("{arguments} {argument}");
                }
            }
        }
        let arguments = arguments.trim_start().to_owned();
        required.retain(|name| !arguments.split([' ', '=']).any(|word| word == name));
        let place = commands(root, &path).first().map(|(place, _)| *place);
        Self { readiness: Readiness::of(root, text), required, path, interface, arguments, place }
    }

    /// The command that runs it. It needs no argument to end early: it does so after the recorded steps.
    pub(super) fn command(&self) -> String {
        let runner = if self.interface == Interface::Notebook { "ipython" } else { "python" };
        format!("{runner} {} {}", self.path, self.arguments).trim_end().to_owned()
    }

    /// A name for its gate.
    pub(super) fn name(&self) -> String {
        let stem = self.path.rsplit_once('.').map_or(&*self.path, |(stem, _)| stem);
        stem.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '-' }).collect()
    }

    pub(super) fn described(&self) -> String {
        format!("{} ({}{})", self.path, self.interface.evidence().0, self.readiness.obstacle())
    }
}

/// The arguments of the first command in the README that runs a program. Whatever stands for something else is none.
fn documented(root: &Path, path: &str) -> Option<String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || " ._/=:,-+".contains(c);
    let mut arguments = commands(root, path).into_iter().map(|(_, arguments)| arguments);
    arguments.find(|words| words.chars().all(is_plain) && !has(words, &["path", "...", "_name"]))
}

/// The commands in the README that run a program: the number of the line, and the arguments.
fn commands(root: &Path, path: &str) -> Vec<(usize, String)> {
    let text = fs::read_to_string(root.join("README.md")).unwrap_or_default();
    let commands = text.lines().enumerate().filter_map(|(number, line)| {
        let line = line.trim().trim_start_matches("$ ");
        let line = line.strip_prefix("uv run ").unwrap_or(line);
        let rest = line.strip_prefix("python ").or_else(|| line.strip_prefix("python3 "))?;
        let arguments = rest.trim_start_matches("./").strip_prefix(path)?;
        (arguments.is_empty() || arguments.starts_with(' ')).then(|| (number, arguments.trim().to_owned()))
    });
    commands.collect()
}

/// True for a program of Hydra with a configuration for a GPU beside its default, as in a widespread template: in the folder that
/// it names, or in the usual one.
fn trains_on_host(root: &Path, path: &str, text: &str) -> bool {
    let named = devices::quoted(text, "config_path=").map(|folder| root.join(path).with_file_name(folder));
    named.into_iter().chain([root.join("configs")]).any(|folder| folder.join("trainer/gpu.yaml").is_file())
}

/// Arguments of argparse without which the program does not start.
fn required(text: &str) -> Vec<String> {
    let calls = text.split("add_argument(").skip(1).map(call);
    calls
        .filter_map(|call| {
            let quote = call.trim_start().chars().next().filter(|c| matches!(c, '"' | '\''))?;
            let name = call.trim_start()[1..].split(quote).next()?;
            let is_optional = name.starts_with('-')
                || call.contains("nargs=\"?\"")
                || call.contains("nargs='?'")
                || call.contains("nargs=\"*\"");
            let is_required = call.replace(' ', "").contains("required=True");
            (is_required || !is_optional).then(|| name.to_owned())
        })
        .collect()
}

/// The arguments of a call, up to its end.
pub(super) fn call(text: &str) -> &str {
    let mut depth = 1;
    let end = text.find(|c: char| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        depth == 0
    });
    &text[..end.unwrap_or(text.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAIN: &str = "if __name__ == \"__main__\":\n    main()\n";

    fn program(text: &str) -> Program {
        let text = format!("import torch\nloss.backward()\nmodel.cuda()\n{text}\n{MAIN}");
        assert!(is_program("ppo.py", &text));
        Program::new(Path::new("."), "src/ppo.py".to_owned(), &text)
    }

    #[test]
    fn each_interface_gets_what_it_needs_to_train_on_a_gpu() {
        for (text, command) in [
            ("p = ArgumentParser()", "python src/ppo.py"),
            ("p = ArgumentParser()\np.add_argument('--device', default='cpu')\n", "python src/ppo.py --device cuda"),
            ("LightningCLI(Model)", "python src/ppo.py fit"),
            ("@hydra.main()", "python src/ppo.py"),
            ("", "python src/ppo.py"),
        ] {
            assert_eq!(program(text).command(), command, "{text}");
        }
        let place = tempfile::tempdir().unwrap();
        fs::create_dir_all(place.path().join("configs/trainer")).unwrap();
        fs::create_dir(place.path().join("src")).unwrap();
        fs::write(place.path().join("configs/trainer/gpu.yaml"), "").unwrap();
        for text in ["@hydra.main(version_base=None, config_path=\"../configs\")", "@hydra.main(**PARAMETERS)"] {
            let hydra = Program::new(place.path(), "src/train.py".to_owned(), text);
            assert_eq!(hydra.command(), "python src/train.py trainer=gpu", "{text}");
        }
        assert_eq!(program("").name(), "src-ppo");
    }

    #[test]
    fn the_readme_says_how_a_program_is_run() {
        let place = tempfile::tempdir().unwrap();
        let command = |readme: &str| {
            fs::write(place.path().join("README.md"), readme).unwrap();
            let text = "ArgumentParser()\na.add_argument('data')\na.add_argument('--config', required=True)\n";
            let program = Program::new(place.path(), "train.py".to_owned(), text);
            (program.command(), program.required.len())
        };
        let plain = ("python train.py".to_owned(), 2);
        for readme in [
            "",
            "python other_train.py x",
            "python train.py /path/to/data",
            "python train.py <data> --config $C",
            "python train.py x --config=config_name.yaml",
        ] {
            assert_eq!(command(readme), plain, "{readme}");
        }
        assert_eq!(command("python train.py\npython train.py x --config --resume\n").0, "python train.py");
        assert_eq!(command("uv run python train.py x --config=a\n").0, "python train.py x --config=a");
        let readme = "Train:\n```sh\npython train.py <data>\n$ python3 ./train.py fake --config=a.yml\n```\n";
        assert_eq!(command(readme), ("python train.py fake --config=a.yml".to_owned(), 0));
    }

    #[test]
    fn a_notebook_that_trains_is_a_program_of_ipython() {
        let text = "{\"cells\": [{\"source\": [\n\"import torch\\n\",\n\"model.to('cuda')\", \"loss.backward()\"]}]}";
        assert!(is_candidate("1_mlp.ipynb") && is_program("1_mlp.ipynb", text));
        assert!(!is_program("1_mlp.ipynb", &text.replace("backward", "forward")));
        let notebook = Program::new(Path::new("."), "1_mlp.ipynb".to_owned(), text);
        assert_eq!((notebook.command(), notebook.name()), ("ipython 1_mlp.ipynb".to_owned(), "1_mlp".to_owned()));
    }

    #[test]
    fn arguments_without_which_a_program_does_not_start_are_named() {
        let text = "ArgumentParser()\na.add_argument('data', help=f(1))\na.add_argument('--config', required=True)\n\
                    a.add_argument('--lr', default=f(1))\na.add_argument('out', nargs='?')\n";
        assert_eq!(program(text).required, ["data", "--config"]);
    }

    #[test]
    fn only_what_starts_and_trains_is_a_program() {
        let text = format!("import torch\nloss.backward()\nmodel.cuda()\n{MAIN}");
        assert!(is_program("a.py", &text));
        assert!(!is_program("a.py", &text.replace("cuda", "eval")), "a library that tries itself on the host");
        assert!(is_program("a.py", &text.replace(MAIN, "for epoch in range(9):\n    train()\n")), "a script");
        assert!(is_program("a.py", &text.replace(MAIN, "args = parser.parse_args()\n")), "a script with arguments");
        assert!(is_program("a.py", "import torch\ntrainer.fit(model)\n"), "a script of Lightning");
        assert!(!is_program("a.py", "import torch\ndef f():\n    trainer.fit(model)\n"));
        let own_trainer = text.replace("loss.backward()", "trainer.run()");
        assert!(is_program("a.py", &own_trainer), "a trainer of its own");
        assert!(is_program("a.py", &format!("from src import OurLightningCLI\n{MAIN}OurLightningCLI()\n")));
        let documented = text.replace("loss.backward()", "# before `trainer.fit()`");
        assert!(!is_program("a.py", &documented), "only documentation trains");
        assert!(is_program("train.py", &format!("from torch import nn\nfrom engine import fit\n{MAIN}")));
        assert!(!is_program("a.py", "import torch\nloss.backward()\n"), "nothing starts");
        assert!(!is_program("a.py", &format!("import torch\n{MAIN}")), "nothing trains");
        assert!(!is_program("train.py", &format!("import jax\nloss.backward()\n{MAIN}")), "another framework");
        let others = ["tests/train.py", "test_train.py", "x/third_party/sac/train.py"];
        assert!(!others.into_iter().any(is_candidate) && is_candidate("train.py"));
    }
}
