//! The gates of a repository's workflows: the steps that run the Action. Their inputs are the change's own, as its `ptmem.toml` is.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Result;
use ptmem::diagnostic::{Code, Diagnostic};
use ptmem::sides::Sides;
use ptmem::verdict::Excuse;

use super::git::Base;

/// Keys of a step that decide nothing.
const NAMES: [&str; 3] = ["uses", "name", "id"];

/// Inputs of the Action that decide nothing, but how results are shown.
const SHOWN: [&str; 8] =
    ["token", "summary", "annotations", "page", "sarif", "pictures", "comment-key", "comment-artifact"];

/// Expressions whose values are set elsewhere in the file.
const ELSEWHERE: [&str; 5] = ["matrix.", "env.", "steps.", "needs.", "inputs."];

/// The steps of some workflows that run the Action, each by the lines that decide something.
struct Gates {
    steps: Vec<Vec<String>>,
    /// Whether values of some of them are set elsewhere in the file.
    have_expressions: bool,
}

impl Gates {
    fn of(files: &[String]) -> Self {
        let mut gates = Self { steps: Vec::new(), have_expressions: false };
        for text in files {
            let steps = steps_of(text);
            if steps.iter().flatten().any(|line| is_decided_elsewhere(line)) {
                gates.have_expressions = true;
                let lines = text.lines().map(str::trim).filter(|line| !is_blank(line) && !line.contains("uses:"));
                gates.steps.push(lines.map(str::to_owned).collect());
            }
            gates.steps.extend(steps);
        }
        gates
    }

    /// Whether a step has every line of a command.
    fn have(&self, command: &str) -> bool {
        let wanted: Vec<&str> = command.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        self.steps.iter().any(|step| wanted.iter().all(|wanted| step.iter().any(|line| line.contains(wanted))))
    }
}

fn is_blank(line: &str) -> bool {
    line.trim().is_empty() || line.trim_start().starts_with('#')
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// Whether the value of a line is an expression or an alias that another part of the file decides.
fn is_decided_elsewhere(line: &str) -> bool {
    let value = line.split_once(':').map_or("", |(_, value)| value.trim());
    value.starts_with('*') || (line.contains("${{") && ELSEWHERE.iter().any(|context| line.contains(context)))
}

/// Where a line names the Action, but for the one that only posts a comment.
fn names_action(line: &str) -> Option<usize> {
    let at = line.find("uses:").filter(|_| !is_blank(line))?;
    let value = line[at + "uses:".len()..].split([',', '}', '#', '@']).next()?;
    let mut parts = value.trim().trim_matches(['"', '\'']).rsplit('/');
    let is_comment = parts.clone().next() == Some("comment");
    (!is_comment && parts.any(|part| part.contains("ptmem"))).then_some(at)
}

fn steps_of(text: &str) -> Vec<Vec<String>> {
    let lines: Vec<&str> = text.lines().collect();
    let named = lines.iter().enumerate().filter_map(|(at, line)| Some((at, names_action(line)?)));
    let steps = named.filter_map(|(at, column)| {
        let begins = |line: &&str| line.trim_start().starts_with("- ") && indent(line) < column;
        let first = lines[..=at].iter().rposition(begins)?;
        let dash = indent(lines[first]);
        let rest = lines[first + 1..].iter().take_while(|line| is_blank(line) || indent(line) > dash);
        let step = [lines[first].replacen('-', " ", 1)].into_iter().chain(rest.map(|line| (*line).to_owned()));
        Some(deciding(&step.collect::<Vec<_>>()))
    });
    steps.collect()
}

/// The lines of a step without those that decide nothing, and what belongs to these.
fn deciding(step: &[String]) -> Vec<String> {
    let lines = step.iter().filter(|line| !is_blank(line));
    let of_step = lines.clone().map(|line| indent(line)).min().unwrap_or(0);
    let mut left_out = None;
    let mut kept = Vec::new();
    for line in lines {
        if left_out.is_some_and(|above| indent(line) > above) {
            continue;
        }
        let key = line.trim().split(':').next().unwrap_or_default();
        let ignored = if indent(line) == of_step { &NAMES[..] } else { &SHOWN };
        left_out = ignored.contains(&key).then(|| indent(line));
        if left_out.is_none() {
            kept.push(line.trim().to_owned());
        }
    }
    kept
}

/// The gates of the base and of the checked-out commit.
fn gates(base: &Base) -> Result<Sides<Gates>> {
    Ok(base.workflows()?.map(|files| Gates::of(files)))
}

/// The remark on steps that the checked-out commit edits, adds or removes.
pub(super) fn remark(base: &Base) -> Result<Option<Diagnostic>> {
    if !base.edits_workflows()? {
        return Ok(None);
    }
    Ok(changes(&gates(base)?).map(|message| Diagnostic::new(Code::GateChanged, None, message)))
}

/// Why a change need not have a before, or why that is not certain. A gate that workflows of the base lack is new. A base that
/// fails by the same workflows and scripts is broken.
pub(super) fn excuse(base: &Base, command: &str, others: &[String]) -> Result<Result<Excuse, String>> {
    let gates = gates(base)?;
    let doubt = if gates.before.have(command) {
        return broken(base, &gates.before, command, others);
    } else if gates.before.have_expressions {
        "expressions decide what workflows of the base record"
    } else if !gates.after.have(command) {
        "no workflow below .github has the command of this gate as it ran"
    } else if gates.before.steps.iter().any(|step| !gates.after.steps.contains(step)) {
        "the change edits or removes a gate of the base"
    } else {
        return Ok(Ok(Excuse::First));
    };
    Ok(Err(doubt.to_owned()))
}

/// Whether the base fails by its own workflows and scripts.
fn broken(base: &Base, gates: &Gates, command: &str, others: &[String]) -> Result<Result<Excuse, String>> {
    if base.edits_workflows()? {
        return Ok(Err("a workflow of the base has this gate, and the change edits workflows".to_owned()));
    }
    if !others.iter().all(|script| gates.have(script)) {
        return Ok(Err("no workflow of the base has the scripts of this gate as they ran".to_owned()));
    }
    let changed = base.changed_paths()?;
    for script in others.iter().map(String::as_str).chain([command]) {
        let words: Vec<&str> = script.split(|c: char| c.is_whitespace() || "\"'();|&<>=".contains(c)).collect();
        for (at, word) in words.iter().enumerate() {
            let is_module = at > 0 && ["-m", "--module"].contains(&words[at - 1]);
            let file = if is_module { format!("{}.py", word.replace('.', "/")) } else { (*word).to_owned() };
            let path = base.path_below_root(Path::new(&file));
            if let Some(path) = path.filter(|path| is_program(path) && changed.contains(path)) {
                return Ok(Err(format!("the change edits {path}, which the gate runs")));
            }
        }
    }
    Ok(Ok(Excuse::BrokenBase))
}

/// Whether a file that a script names is a program, not data or a list of packages.
fn is_program(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    [".py", ".sh", ".bash", ".ipynb"].iter().any(|ending| name.ends_with(ending)) || !name.contains('.')
}

/// Lines that a remark quotes of each side.
const MOST_LINES: usize = 5;

/// What the workflows of the change do to the gates of the base.
fn changes(gates: &Sides<Gates>) -> Option<String> {
    let mut counts: BTreeMap<&Vec<String>, i64> = BTreeMap::new();
    gates.before.steps.iter().for_each(|step| *counts.entry(step).or_default() -= 1);
    gates.after.steps.iter().for_each(|step| *counts.entry(step).or_default() += 1);
    let lines = |is_wanted: fn(i64) -> bool| -> BTreeSet<&String> {
        counts.iter().filter(|(_, count)| is_wanted(**count)).flat_map(|(step, _)| step.iter()).collect()
    };
    let gone = lines(|count| count < 0);
    let new = lines(|count| count > 0);
    let quoted = |lines: &BTreeSet<&String>, others: &BTreeSet<&String>| {
        let quoted: Vec<_> = lines.difference(others).take(MOST_LINES).map(|line| format!("'{line}'")).collect();
        if quoted.is_empty() { "nothing else".to_owned() } else { quoted.join(", ") }
    };
    match (gone.is_empty(), new.is_empty()) {
        (true, true) => None,
        (true, false) => Some(format!("this change adds a gate to the workflows: {}", quoted(&new, &gone))),
        (false, true) => Some(format!("this change removes a gate from the workflows: {}", quoted(&gone, &new))),
        (false, false) => Some(format!(
            "this change edits what the workflows give to ptmem: {} instead of {}",
            quoted(&new, &gone),
            quoted(&gone, &new)
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: &str = "\
on: pull_request
jobs:
  memory:
    steps:
      - uses: actions/checkout@v6
      - name: Gate
        uses: owner/ptmem@v0 # pinned
        with:
          record: |
            python train.py
            # a comment
          max-growth: 5%
          token: x
      - run: echo
";

    fn told(after: &str) -> Option<String> {
        changes(&Sides { before: BASE, after }.map(|text| Gates::of(&[(*text).to_owned()])))
    }

    #[test]
    fn what_decides_is_told_and_nothing_else() {
        for (from, to) in [
            ("@v0 # pinned", "@v1"),
            ("- name: Gate\n        uses", "- uses"),
            ("token: x", "token: y\n          comment-key: z"),
            ("run: echo", "run: true"),
            ("checkout@v6", "checkout@v7"),
            ("# a comment", "# another"),
        ] {
            assert_eq!(told(&BASE.replace(from, to)), None, "{to}");
        }
        let raised =
            "this change edits what the workflows give to ptmem: 'max-growth: 50%' instead of 'max-growth: 5%'";
        assert_eq!(told(&BASE.replace("5%", "50%")).as_deref(), Some(raised));
        let gone = told("jobs: {}\n").unwrap();
        assert!(gone.starts_with("this change removes a gate from the workflows: 'max-growth: 5%'"), "{gone}");
        let another = BASE.replace("      - run: echo", "      - { uses: owner/ptmem@v0, with: { name: b } }");
        assert!(
            told(&another).unwrap().starts_with("this change adds a gate to the workflows"),
            "{:?}",
            told(&another)
        );
        for (from, to) in [
            ("python train.py", "python train.py --small"),
            ("        with:", "        continue-on-error: true\n        with:"),
            ("max-growth: 5%", "max-growth: 5%\n          simulate-args: --gpus 4"),
        ] {
            assert!(told(&BASE.replace(from, to)).is_some(), "{to}");
        }
    }

    #[test]
    fn values_that_stand_elsewhere_are_compared_there() {
        let matrix = BASE.replace("5%", "${{ matrix.limit }}").replace("memory:", "memory:\n    limit: [5%]");
        let sides = Sides { before: matrix.clone(), after: matrix.replace("[5%]", "[50%]") };
        let told = changes(&sides.map(|text| Gates::of(std::slice::from_ref(text)))).unwrap();
        assert!(told.contains("'limit: [50%]' instead of 'limit: [5%]'"), "{told}");
    }

    #[test]
    fn the_inputs_that_decide_nothing_are_inputs() {
        let action = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/action.yml")).unwrap();
        for input in SHOWN {
            assert!(action.contains(&format!("\n  {input}:\n")), "{input}");
        }
    }
}
