//! The programs of a repository that train: what a gate had better record is what people run.

use std::collections::BTreeSet;
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
            Self::Plain => ("no arguments", &[""]),
        }
    }

    fn of(text: &str) -> Self {
        let mut all = <Self as strum::IntoEnumIterator>::iter();
        all.find(|interface| interface.evidence().1.iter().any(|part| text.contains(part))).unwrap_or(Self::Plain)
    }

    /// An argument that sets a value, of a program whose text names it.
    fn argument(self, name: &str, value: u32) -> String {
        match self {
            Self::LightningCli => format!("--trainer.{name} {value}"),
            Self::Hydra => format!("{name}={value}"),
            Self::Tyro => format!("--{} {value}", name.replace('_', "-")),
            Self::Fire | Self::HuggingFace | Self::Click | Self::Argparse | Self::Plain => format!("--{name} {value}"),
        }
    }
}

/// A program that trains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Program {
    /// Its path from the root.
    pub(super) path: String,
    pub(super) interface: Interface,
    /// Arguments that end it early.
    arguments: Vec<String>,
    /// Arguments that it requires and nobody can guess.
    pub(super) required: Vec<String>,
}

/// Programs that are recorded; the others are named.
pub(super) const MOST_RECORDED: usize = 3;

/// Optimizer steps after which a program may end: as many as are recorded, and one more.
const STEPS: u32 = 4;

/// Names of arguments that bound optimizer steps.
const STEP_NAMES: [&str; 9] = [
    "max_steps",
    "max_train_steps",
    "num_train_steps",
    "train_steps",
    "total_steps",
    "max_iters",
    "num_iters",
    "num_iterations",
    "iterations",
];

/// Names of arguments that bound epochs.
const EPOCH_NAMES: [&str; 5] = ["epochs", "num_epochs", "max_epochs", "num_train_epochs", "n_epochs"];

/// The programs of a repository, those that people most likely run first.
pub(super) fn find(root: &Path) -> Vec<Program> {
    let paths = checkout::list(root).into_iter().filter(|path| is_candidate(path));
    let mut programs: Vec<Program> = paths
        .filter_map(|path| {
            let text = fs::read_to_string(root.join(&path)).ok()?;
            is_program(&path, &text).then(|| Program::new(path, &text))
        })
        .collect();
    programs.sort_by_key(|program| {
        let path = &program.path;
        (path.contains("example"), !is_training(path), path.matches('/').count(), path.clone())
    });
    programs
}

fn is_candidate(path: &str) -> bool {
    let is_for_tests = path.split('/').any(|part| part == "tests" || part == "test" || part.starts_with("test_"));
    // Neither a shell nor YAML must take a part of it for something else.
    let is_plain = path.chars().all(|c| c.is_ascii_alphanumeric() || "._/-".contains(c));
    path.ends_with(".py") && is_plain && !is_for_tests && path != "record_memory.py"
}

/// True for a file whose name says that it trains.
pub(super) fn is_training(path: &str) -> bool {
    let stem = path.rsplit('/').next().and_then(|name| name.strip_suffix(".py"));
    stem.is_some_and(|stem| stem.contains("train") || stem == "main" || stem.contains("finetune"))
}

/// True for a file that starts something by itself, and trains with PyTorch or says so by its name.
fn is_program(path: &str, text: &str) -> bool {
    let starts = has(text, &["__name__ == \"__main__\"", "__name__ == '__main__'"]);
    let trains = has(text, &[".backward(", ".fit(", "trainer.train(", "LightningCLI("]) || is_training(path);
    starts && trains && text.lines().any(imports_framework)
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
    fn new(path: String, text: &str) -> Self {
        let interface = Interface::of(text);
        let arguments = match interface {
            Interface::Plain => Vec::new(),
            Interface::LightningCli => vec!["fit".to_owned(), interface.argument("max_steps", STEPS)],
            Interface::Hydra
            | Interface::Tyro
            | Interface::Fire
            | Interface::HuggingFace
            | Interface::Click
            | Interface::Argparse => shortened(interface, text),
        };
        Self { path, interface, arguments, required: required(text) }
    }

    /// The command that runs it.
    pub(super) fn command(&self) -> String {
        let words = ["python", &self.path].into_iter().chain(self.arguments.iter().map(String::as_str));
        words.collect::<Vec<_>>().join(" ")
    }

    /// A name for its gate.
    pub(super) fn name(&self) -> String {
        let stem = self.path.strip_suffix(".py").unwrap_or(&self.path);
        stem.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '-' }).collect()
    }

    pub(super) fn described(&self) -> String {
        format!("{} ({})", self.path, self.interface.evidence().0)
    }
}

/// The arguments of a program that end it after a few steps.
fn shortened(interface: Interface, text: &str) -> Vec<String> {
    if interface == Interface::Hydra {
        let paths = paths_of_configuration(text);
        return shortest(paths).map(|(path, value)| interface.argument(path, value)).into_iter().collect();
    }
    let names = names(text);
    let Some((name, value)) = shortest(names.iter().map(String::as_str).collect()) else { return Vec::new() };
    let dashed = name.replace('_', "-");
    let is_dashed = text.contains(&format!("--{dashed}"));
    vec![interface.argument(if is_dashed { &dashed } else { name }, value)]
}

/// The name of these that bounds a run, with a small value: steps before epochs.
fn shortest(names: Vec<&str>) -> Option<(&str, u32)> {
    let bounds = [(&STEP_NAMES[..], STEPS), (&EPOCH_NAMES[..], 1)];
    bounds
        .into_iter()
        .find_map(|(bounding, value)| Some((*names.iter().find(|name| bounds_by(name, bounding))?, value)))
}

/// True for a name, or a path of one, that is among these.
fn bounds_by(name: &str, bounding: &[&str]) -> bool {
    name.rsplit('.').next().is_some_and(|name| bounding.contains(&name))
}

/// The paths under which a program reads a configuration of Hydra.
fn paths_of_configuration(text: &str) -> Vec<&str> {
    let reads = text.split("cfg.").skip(1);
    reads.filter_map(|rest| rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '.').next()).collect()
}

/// Names that may be those of arguments: of options, of fields with a type or a value, with underscores.
fn names(text: &str) -> BTreeSet<String> {
    let options = text.split("--").skip(1).map(|rest| word_of(rest).replace('-', "_"));
    let fields = text.lines().map(str::trim).filter_map(|line| {
        let name = word_of(line);
        line[name.len()..].trim_start().starts_with([':', '=']).then(|| name.to_owned())
    });
    options.chain(fields).collect()
}

fn word_of(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '-').unwrap_or(text.len());
    &text[..end]
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
        let text = format!("import torch\nloss.backward()\n{text}\n{MAIN}");
        assert!(is_program("ppo.py", &text));
        Program::new("src/ppo.py".to_owned(), &text)
    }

    #[test]
    fn each_interface_gets_arguments_that_end_the_program_early() {
        for (text, command) in [
            ("p = ArgumentParser()\np.add_argument('--max-steps', type=int)", "python src/ppo.py --max-steps 4"),
            ("p = argparse.ArgumentParser()\np.add_argument('--epochs', '-e')", "python src/ppo.py --epochs 1"),
            (
                "class Args:\n    max_train_steps: int = 100\nargs = tyro.cli(Args)",
                "python src/ppo.py --max-train-steps 4",
            ),
            ("def main(\n    max_iters=100,\n): ...\nfire.Fire(main)", "python src/ppo.py --max_iters 4"),
            ("@hydra.main()\ndef main(cfg):\n    cfg.run.max_steps)", "python src/ppo.py run.max_steps=4"),
            ("LightningCLI(Model)", "python src/ppo.py fit --trainer.max_steps 4"),
            ("HfArgumentParser(Args)", "python src/ppo.py"),
            ("", "python src/ppo.py"),
            // Steps of an environment are not those of an optimizer.
            ("class Args:\n    total_timesteps: int = 1\ntyro.cli(Args)", "python src/ppo.py"),
        ] {
            assert_eq!(program(text).command(), command, "{text}");
        }
        assert_eq!(program("").name(), "src-ppo");
    }

    #[test]
    fn arguments_without_which_a_program_does_not_start_are_named() {
        let text = "ArgumentParser()\na.add_argument('data', help=f(1))\na.add_argument('--config', required=True)\n\
                    a.add_argument('--lr', default=f(1))\na.add_argument('out', nargs='?')\n";
        assert_eq!(program(text).required, ["data", "--config"]);
    }

    #[test]
    fn only_what_starts_and_trains_is_a_program() {
        let text = format!("import torch\nloss.backward()\n{MAIN}");
        assert!(is_program("a.py", &text));
        assert!(is_program("train.py", &format!("from torch import nn\nfrom engine import fit\n{MAIN}")));
        assert!(!is_program("a.py", "import torch\nloss.backward()\n"), "nothing starts");
        assert!(!is_program("a.py", &format!("import torch\n{MAIN}")), "nothing trains");
        assert!(!is_program("train.py", &format!("import jax\nloss.backward()\n{MAIN}")), "another framework");
        assert!(!is_candidate("tests/train.py") && !is_candidate("test_train.py") && is_candidate("train.py"));
    }
}
