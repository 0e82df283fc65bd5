//! Arguments that make a program compute on a GPU where it computes on the host without them, and with made-up data
//! where it offers that.

use std::fs;
use std::path::Path;

use super::programs::{Interface, call};

/// An option of a program, as its text declares it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Declared {
    /// Its name on the command line: `--device`.
    name: String,
    /// The default as code, if one is given.
    default: String,
    /// Values that it takes, as code.
    choices: String,
    /// Its description, as code.
    help: String,
    /// Whether it takes no value, and is false without it.
    is_flag: bool,
    /// Whether it takes True or False.
    is_truth: bool,
}

/// Options whose value names a device, a kind of device, the numbers of devices, or counts them; and those that turn GPUs on.
const DEVICES: [&str; 3] = ["device", "dev", "device_type"];
const ACCELERATORS: [&str; 1] = ["accelerator"];
const NUMBERS: [&str; 4] = ["gpu", "gpu_id", "gpu_ids", "cuda_device"];
const COUNTS: [&str; 5] = ["gpus", "num_gpus", "n_gpus", "n_gpu", "ngpu"];
const TRUTHS: [&str; 7] = ["cuda", "use_cuda", "gpu", "use_gpu", "accel", "use_accel", "enable_cuda"];
const DENIALS: [&str; 5] = ["no_cuda", "no_gpu", "use_cpu", "cpu", "no_accel"];
/// Parts of names of flags that replace a data set.
const FAKES: [&str; 3] = ["dummy", "fake", "synthetic"];

impl Declared {
    /// The value that selects a GPU; `None` if the default does, or if it is not known whether it does. Flags have an empty one.
    fn value(&self) -> Option<&'static str> {
        let default = self.default.trim_matches(['"', '\'']);
        if self.is_flag {
            // Shapes decide about memory, not the values of data.
            let name = self.plain_name();
            let makes_data = FAKES.iter().any(|fake| name.contains(fake)) && (name + &self.help).contains("data");
            return (self.is_one_of(&TRUTHS) || makes_data).then_some("");
        }
        if self.is_truth {
            let value = if self.is_one_of(&TRUTHS) { ("False", "True") } else { ("True", "False") };
            return (self.is_one_of(&TRUTHS) || self.is_one_of(&DENIALS))
                .then_some(value.1)
                .filter(|_| default == value.0);
        }
        let is_host = ["cpu", "auto"].contains(&default);
        if self.is_one_of(&DEVICES) {
            let value = ["cuda", "gpu"].into_iter().find(|value| self.takes(value)).filter(|_| is_host);
            return value.or((default == "-1").then_some("0"));
        }
        match default {
            _ if self.is_one_of(&ACCELERATORS) => is_host.then_some(if self.takes("gpu") { "gpu" } else { "cuda" }),
            "-1" if self.is_one_of(&NUMBERS) => Some("0"),
            "0" if self.is_one_of(&COUNTS) => Some("1"),
            _ => None,
        }
    }

    /// The name without dashes: `device_type`.
    fn plain_name(&self) -> String {
        self.name.trim_start_matches('-').replace('-', "_").to_ascii_lowercase()
    }

    fn is_one_of(&self, names: &[&str]) -> bool {
        names.contains(&&*self.plain_name())
    }

    fn takes(&self, value: &str) -> bool {
        self.choices.is_empty() || self.choices.contains(value)
    }
}

/// The arguments for a program of `root` with this text.
pub(super) fn arguments(root: &Path, path: &str, interface: Interface, text: &str) -> Vec<String> {
    let declared = match interface {
        Interface::Argparse => of_calls(text, "add_argument("),
        Interface::Click => of_calls(text, "click.option("),
        Interface::Tyro | Interface::HuggingFace => of_fields(text, interface),
        Interface::Hydra => return of_hydra(&root.join(path), text),
        Interface::Fire | Interface::LightningCli | Interface::Notebook | Interface::Plain => Vec::new(),
    };
    let mut found = Vec::new();
    for option in &declared {
        let Some(value) = option.value() else { continue };
        found.push(if value.is_empty() { option.name.clone() } else { format!("{} {value}", option.name) });
        // One card, where an accelerator has several by default.
        if option.name == "--accelerator" && declared.iter().any(|other| other.name == "--devices") {
            found.push("--devices 1".to_owned());
        }
    }
    found
}

/// The options that calls declare.
fn of_calls(text: &str, function: &str) -> Vec<Declared> {
    text.split(function).skip(1).filter_map(|rest| of_call(call(rest))).collect()
}

/// The option that a call of argparse or click declares.
fn of_call(call: &str) -> Option<Declared> {
    let parts = parts(call);
    let names = parts.iter().map(|part| part.trim_matches(['"', '\'']));
    let name = names.filter(|name| is_option(name)).max_by_key(|name| name.starts_with("--"))?;
    let action = keyword(&parts, "action");
    let kind = keyword(&parts, "type");
    let default = keyword(&parts, "default");
    Some(Declared {
        name: name.to_owned(),
        is_flag: (action.contains("store_true") || keyword(&parts, "is_flag") == "True") && default != "True",
        is_truth: action.is_empty() && !kind.is_empty() && kind.to_ascii_lowercase().contains("bool"),
        default: default.to_owned(),
        choices: keyword(&parts, "choices").to_owned(),
        help: keyword(&parts, "help").to_owned(),
    })
}

/// True for a plain name of an option, which no shell takes for something else.
fn is_option(name: &str) -> bool {
    name.starts_with('-') && name.len() > 1 && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c))
}

/// The value of a named argument of a call, as code; empty without it.
fn keyword<'t>(parts: &[&'t str], name: &str) -> &'t str {
    let value =
        |part: &&'t str| part.split_once('=').filter(|(key, _)| key.trim() == name).map(|(_, value)| value.trim());
    parts.iter().find_map(value).unwrap_or_default()
}

/// The arguments of a call, divided at its own commas.
fn parts(call: &str) -> Vec<&str> {
    let mut depth = 0;
    let mut quote = None;
    let mut found = Vec::new();
    let mut start = 0;
    for (at, c) in call.char_indices() {
        match c {
            _ if quote == Some(c) => quote = None,
            _ if quote.is_some() => {}
            '"' | '\'' => quote = Some(c),
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            ',' if depth == 0 => {
                found.push(call[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    found.push(call[start..].trim());
    found
}

/// The fields of classes, which tyro and Hugging Face turn into options.
fn of_fields(text: &str, interface: Interface) -> Vec<Declared> {
    let fields = text.lines().filter(|line| line.starts_with([' ', '\t'])).filter_map(typed);
    let declared = fields.map(|(name, kind, default)| Declared {
        name: format!("--{name}"),
        is_flag: kind == "bool" && interface == Interface::Tyro && default == "False",
        is_truth: kind == "bool" && interface != Interface::Tyro,
        default: default.to_owned(),
        choices: if kind.starts_with("Literal") { kind.to_owned() } else { String::new() },
        help: String::new(),
    });
    declared.collect()
}

/// The name, the type and the default in `device: str = "cpu"`.
fn typed(line: &str) -> Option<(&str, &str, &str)> {
    let (name, rest) = line.trim().split_once(':')?;
    let (kind, default) = rest.split_once('=')?;
    let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    is_name.then(|| (name, kind.trim(), default.split(" #").next().unwrap_or_default().trim()))
}

/// The keys of the main configuration of Hydra whose value is the host.
fn of_hydra(program: &Path, text: &str) -> Vec<String> {
    let Some(folder) = quoted(text, "config_path=") else { return Vec::new() };
    let Some(name) = quoted(text, "config_name=") else { return Vec::new() };
    let file = program.with_file_name(folder).join(name.trim_end_matches(".yaml")).with_extension("yaml");
    let mut path: Vec<(usize, String)> = Vec::new();
    let mut found = Vec::new();
    for line in fs::read_to_string(file).unwrap_or_default().lines() {
        let Some((key, value)) = line.split(" #").next().unwrap_or_default().split_once(':') else { continue };
        let depth = key.len() - key.trim_start().len();
        path.retain(|(above, _)| *above < depth);
        path.push((depth, key.trim().to_owned()));
        let option = Declared { name: key.trim().to_owned(), default: value.trim().to_owned(), ..Declared::default() };
        if let Some(value) = option.value() {
            let keys: Vec<&str> = path.iter().map(|(_, key)| key.as_str()).collect();
            found.push(format!("{}={value}", keys.join(".")));
        }
    }
    found
}

/// The text in quotes behind a key.
pub(super) fn quoted<'t>(text: &'t str, key: &str) -> Option<&'t str> {
    text.split(key).nth(1)?.split(['"', '\'']).nth(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(interface: Interface, text: &str) -> String {
        arguments(Path::new("."), "train.py", interface, text).join(" ")
    }

    #[test]
    fn options_of_argparse_select_a_gpu_where_the_default_does_not() {
        for (call, expected) in [
            ("'--device', default='cpu'", "--device cuda"),
            ("\"-d\", \"--device\", type=str, default=\"auto\", help=\"cpu, cuda (first)\"", "--device cuda"),
            ("'--device', default='cpu', choices=['cpu', 'gpu']", "--device gpu"),
            ("'--device', default='cpu', choices=['cpu', 'tpu']", ""),
            ("'--device', default='cuda:0'", ""),
            ("'--device', default='cuda' if torch.cuda.is_available() else 'cpu'", ""),
            ("'--device', default=None", ""),
            ("'--gpu', type=int, default=-1", "--gpu 0"),
            ("'--gpu', type=int, default=None", ""),
            ("'--gpus', type=int, default=0", "--gpus 1"),
            ("'--cuda', action='store_true', default=False, help='use CUDA'", "--cuda"),
            ("'--accel', action=\"store_true\"", "--accel"),
            ("'--no-cuda', action='store_true'", ""),
            ("'--dummy', action='store_true', help=\"use fake data to benchmark\"", "--dummy"),
            ("'--fake-loss', action='store_true'", ""),
            ("'--no_cuda', type=str2bool, default=True", "--no_cuda False"),
            ("'--use_gpu', type=bool, default=False", "--use_gpu True"),
            ("'--lr', default='cpu'", ""),
        ] {
            assert_eq!(of(Interface::Argparse, &format!("p.add_argument({call})\n")), expected, "{call}");
        }
        let lightning =
            "p.add_argument('--accelerator', default='auto')\np.add_argument('--devices', default='auto')\n";
        assert_eq!(of(Interface::Argparse, lightning), "--accelerator gpu --devices 1");
    }

    #[test]
    fn so_do_those_of_other_interfaces() {
        let fields = "class Args:\n    device: str = \"cpu\"  # or cuda\n    cuda: bool = False\n    lr: float = 1.0\n";
        assert_eq!(of(Interface::Tyro, fields), "--device cuda --cuda");
        assert_eq!(of(Interface::HuggingFace, fields), "--device cuda --cuda True");
        assert_eq!(of(Interface::Tyro, "class Args:\n    cuda: bool = True\n"), "");
        assert_eq!(of(Interface::Click, "@click.option(\"--device\", default=\"cpu\")\n"), "--device cuda");
        assert_eq!(of(Interface::Click, "@click.option('--gpu', is_flag=True)\n"), "--gpu");
        assert_eq!(of(Interface::Plain, fields), "");
    }

    #[test]
    fn so_do_keys_of_hydra() {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir(place.path().join("conf")).unwrap();
        fs::write(
            place.path().join("conf/main.yaml"),
            "lr: 1\ntrainer:\n  epochs: 3\n  accelerator: cpu # no GPU\ndevice: 'cpu'\ngpus: 0\nmodel:\n  device: cuda\n",
        )
        .unwrap();
        let text = "@hydra.main(config_path=\"conf\", config_name=\"main\")\n";
        assert_eq!(
            arguments(place.path(), "train.py", Interface::Hydra, text),
            ["trainer.accelerator=gpu", "device=cuda", "gpus=1"]
        );
    }
}
