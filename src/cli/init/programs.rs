//! The programs of a repository that train: what a gate had better record is what people run.

use std::fs;
use std::path::Path;

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
    /// The argument without which it does not train on a GPU.
    argument: Option<&'static str>,
    /// Arguments that it requires and nobody can guess.
    pub(super) required: Vec<String>,
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
            is_program(path, &text).then(|| Program::new(path.clone(), &text, &paths))
        })
        .collect();
    // Beside programs, notebooks are their examples.
    if programs.iter().any(|program| program.interface != Interface::Notebook) {
        programs.retain(|program| program.interface != Interface::Notebook);
    }
    programs.sort_by_key(|program| {
        let path = &program.path;
        let needs = !program.required.is_empty();
        (path.contains("example"), !is_training(path), needs, path.matches('/').count(), path.clone())
    });
    programs
}

fn is_candidate(path: &str) -> bool {
    let is_for_tests = path.split('/').any(|part| part == "tests" || part == "test" || part.starts_with("test_"));
    // Neither a shell nor YAML must take a part of it for something else.
    let is_plain = path.chars().all(|c| c.is_ascii_alphanumeric() || "._/-".contains(c));
    (path.ends_with(".py") || path.ends_with(".ipynb")) && is_plain && !is_for_tests && path != "record_memory.py"
}

/// True for a file whose name says that it trains.
pub(super) fn is_training(path: &str) -> bool {
    let stem = path.rsplit('/').next().and_then(|name| name.strip_suffix(".py"));
    stem.is_some_and(|stem| stem.contains("train") || stem == "main" || stem.contains("finetune"))
}

/// True for a file that starts something by itself, and trains with PyTorch on a GPU, or says so by its name.
fn is_program(path: &str, text: &str) -> bool {
    let is_notebook = path.ends_with(".ipynb");
    let starts = is_notebook || text.lines().any(is_start);
    let fits = text.split(".fit(").skip(1).any(|rest| !rest.starts_with(')'));
    let trains = fits || has(text, &[".backward(", "trainer.train(", "LightningCLI("]);
    // A module of a library may try itself, on the host.
    let is_on_gpu = fits || has(text, &["cuda", "ccelerator", "Trainer", "LightningCLI("]);
    let imports = match is_notebook {
        true => has(text, &["import torch", "from torch", "import lightning", "import pytorch_lightning"]),
        false => text.lines().any(imports_framework),
    };
    starts && (trains && is_on_gpu || is_training(path)) && imports
}

/// True for a line that runs when the file does: the usual condition, and a loop or the reading of arguments outside of any function.
fn is_start(line: &str) -> bool {
    let is_outside = !line.starts_with([' ', '\t', '#']);
    let reads = line.contains(".parse_args(") && line.contains('=');
    is_outside && (line.starts_with("for ") || line.starts_with("while ") || reads || line.contains("__name__ =="))
}

fn has(text: &str, parts: &[&str]) -> bool {
    parts.iter().any(|part| text.contains(part))
}

/// Packages that train on PyTorch.
const FRAMEWORKS: [&str; 6] = ["torch", "lightning", "pytorch_lightning", "transformers", "accelerate", "diffusers"];

fn imports_framework(line: &str) -> bool {
    let module = line.strip_prefix("import ").or_else(|| line.strip_prefix("from "));
    module.is_some_and(|module| FRAMEWORKS.contains(&module.split(['.', ' ', ',']).next().unwrap_or_default()))
}

impl Program {
    /// `paths` are those of the repository.
    fn new(path: String, text: &str, paths: &[String]) -> Self {
        let interface = if path.ends_with(".ipynb") { Interface::Notebook } else { Interface::of(text) };
        let argument = match interface {
            Interface::LightningCli => Some("fit"),
            // A widespread template, whose default is the host.
            Interface::Hydra => paths.iter().any(|path| path.ends_with("/trainer/gpu.yaml")).then_some("trainer=gpu"),
            Interface::Tyro
            | Interface::Fire
            | Interface::HuggingFace
            | Interface::Click
            | Interface::Argparse
            | Interface::Notebook
            | Interface::Plain => None,
        };
        Self { required: required(text), path, interface, argument }
    }

    /// The command that runs it. It needs no argument to end early: it does so after the recorded steps.
    pub(super) fn command(&self) -> String {
        let runner = if self.interface == Interface::Notebook { "ipython" } else { "python" };
        let argument = self.argument.map_or(String::new(), |argument| format!(" {argument}"));
        format!("{runner} {}{argument}", self.path)
    }

    /// A name for its gate.
    pub(super) fn name(&self) -> String {
        let stem = self.path.rsplit_once('.').map_or(&*self.path, |(stem, _)| stem);
        stem.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '-' }).collect()
    }

    pub(super) fn described(&self) -> String {
        format!("{} ({})", self.path, self.interface.evidence().0)
    }
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
fn call(text: &str) -> &str {
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
        Program::new("src/ppo.py".to_owned(), &text, &[])
    }

    #[test]
    fn each_interface_gets_what_it_needs_to_train_on_a_gpu() {
        for (text, command) in [
            ("p = ArgumentParser()", "python src/ppo.py"),
            ("LightningCLI(Model)", "python src/ppo.py fit"),
            ("@hydra.main()", "python src/ppo.py"),
            ("", "python src/ppo.py"),
        ] {
            assert_eq!(program(text).command(), command, "{text}");
        }
        let configurations = ["configs/trainer/gpu.yaml".to_owned()];
        let hydra = Program::new("train.py".to_owned(), "@hydra.main()", &configurations);
        assert_eq!(hydra.command(), "python train.py trainer=gpu");
        assert_eq!(program("").name(), "src-ppo");
    }

    #[test]
    fn a_notebook_that_trains_is_a_program_of_ipython() {
        let text = "{\"cells\": [{\"source\": [\"import torch\\n\", \"model.to('cuda')\", \"loss.backward()\"]}]}";
        assert!(is_candidate("1_mlp.ipynb") && is_program("1_mlp.ipynb", text));
        assert!(!is_program("1_mlp.ipynb", &text.replace("backward", "forward")));
        let notebook = Program::new("1_mlp.ipynb".to_owned(), text, &[]);
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
        let documented = text.replace("loss.backward()", "# before `trainer.fit()`");
        assert!(!is_program("a.py", &documented), "only documentation trains");
        assert!(is_program("train.py", &format!("from torch import nn\nfrom engine import fit\n{MAIN}")));
        assert!(!is_program("a.py", "import torch\nloss.backward()\n"), "nothing starts");
        assert!(!is_program("a.py", &format!("import torch\n{MAIN}")), "nothing trains");
        assert!(!is_program("train.py", &format!("import jax\nloss.backward()\n{MAIN}")), "another framework");
        assert!(!is_candidate("tests/train.py") && !is_candidate("test_train.py") && is_candidate("train.py"));
    }
}
