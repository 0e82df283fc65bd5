//! The gates of a repository's workflows: the steps that run the Action. Their inputs are the change's own, as its `ptmem.toml` is.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::path::Path;

use anyhow::Result;
use ptmem::diagnostic::{Code, Diagnostic};
use ptmem::sides::Sides;
use ptmem::verdict::Excuse;

use super::git::Base;
use super::workflow::Gates;

/// The gates of the base and of the checked-out commit.
fn gates(base: &Base) -> Result<Sides<Gates>> {
    let running = running();
    Ok(base.workflows()?.map(|files| Gates::of(files, running.as_deref())))
}

/// The path of the workflow that runs now: `owner/name/PATH@ref`.
fn running() -> Option<String> {
    let whole = env::var("GITHUB_WORKFLOW_REF").ok()?;
    let path = whole.split('@').next()?.splitn(3, '/').nth(2)?;
    Some(path.to_owned())
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
    let steps = differing(gates.map(|gates| &*gates.steps));
    let jobs = differing(gates.map(|gates| &*gates.jobs));
    let gone = [&steps.before[..], &jobs.before].concat();
    let new = [&steps.after[..], &jobs.after].concat();
    match (steps.before.is_empty(), steps.after.is_empty()) {
        (true, true) if gone.is_empty() && new.is_empty() => None,
        (true, true) => Some(format!(
            "this change edits the jobs that run ptmem: {} instead of {}",
            quoted(&new, &gone),
            quoted(&gone, &new)
        )),
        (true, false) => Some(format!("this change adds a gate to the workflows: {}", quoted(&new, &gone))),
        (false, true) => Some(format!("this change removes a gate from the workflows: {}", quoted(&gone, &new))),
        (false, false) => Some(format!(
            "this change edits what the workflows give to ptmem: {} instead of {}",
            quoted(&new, &gone),
            quoted(&gone, &new)
        )),
    }
}

/// The lines of the parts of each side that the other one lacks.
fn differing(parts: Sides<&[Vec<String>]>) -> Sides<Vec<&String>> {
    let mut counts: BTreeMap<&Vec<String>, i64> = BTreeMap::new();
    parts.before.iter().for_each(|part| *counts.entry(part).or_default() -= 1);
    parts.after.iter().for_each(|part| *counts.entry(part).or_default() += 1);
    let lines = |is_wanted: fn(i64) -> bool| -> Vec<&String> {
        counts.iter().filter(|(_, count)| is_wanted(**count)).flat_map(|(part, _)| part.iter()).collect()
    };
    Sides { before: lines(|count| count < 0), after: lines(|count| count > 0) }
}

/// The first lines that others lack, each once.
fn quoted(lines: &[&String], others: &[&String]) -> String {
    let mut seen: BTreeSet<_> = others.iter().collect();
    let mut quoted: Vec<_> =
        lines.iter().filter(|line| seen.insert(*line)).map(|line| format!("'{}'", super::shortened(line))).collect();
    let more = quoted.len().saturating_sub(MOST_LINES);
    quoted.truncate(MOST_LINES);
    if more > 0 {
        quoted.push(super::many(more, "more line"));
    }
    if quoted.is_empty() { "nothing else".to_owned() } else { quoted.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::super::workflow::Workflow;
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
    needs:
      - made
  made:
    steps:
    - run: make
  comment:
    steps:
      - uses: owner/ptmem/comment@v0
  other:
    steps:
      - run: test
";

    fn gates(files: &[(&str, &str)], running: Option<&str>) -> Gates {
        Gates::of(&files.iter().map(|(path, text)| Workflow::parse(path, text)).collect::<Vec<_>>(), running)
    }

    fn told(after: &str) -> Option<String> {
        changes(&Sides { before: BASE, after }.map(|text| gates(&[("a.yml", text)], None)))
    }

    #[test]
    fn what_decides_is_told_and_nothing_else() {
        for (from, to) in [
            ("@v0 # pinned", "@v1"),
            ("- name: Gate\n        uses", "- uses"),
            ("token: x", "token: x\n          page: false"),
            ("- run: echo", "- name: Say\n        run: echo"),
            ("  other:", "  third: {}\n  other:"),
            ("checkout@v6", "checkout@v7"),
            ("# a comment", "# another"),
        ] {
            assert_eq!(told(&BASE.replace(from, to)), None, "{to}");
        }
        let raised =
            "this change edits what the workflows give to ptmem: 'max-growth: 50%' instead of 'max-growth: 5%'";
        assert_eq!(told(&BASE.replace("5%", "50%")).as_deref(), Some(raised));
        let gone = told("jobs: {}\n").unwrap();
        assert!(gone.starts_with("this change removes a gate from the workflows: 'uses: owner/ptmem'"), "{gone}");
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
            // The next change would not be reported.
            ("token: x", "token: ''"),
            ("/comment@v0", "/comment@v0\n        if: false"),
            // Arguments of the command, not inputs of the Action.
            ("python train.py", "python train.py \\\n            page: --small"),
            // YAML ends a line where few editors do.
            ("# a comment", "# a comment\u{2028}          args: --exit-zero"),
            ("uses: owner/ptmem@v0", "\"uses\" : Owner/PtMem@v0\n        env: { A: b }"),
            // What else the job runs, and when.
            ("run: echo", "run: true"),
            ("run: make", "run: make small"),
            ("uses: actions/checkout", "uses: another/checkout"),
            ("on: pull_request", "on: { pull_request: { branches: [x] } }"),
            ("  memory:", "  memory:\n    env: { PTMEM_TODAY: 2020-01-01 }"),
        ] {
            assert!(told(&BASE.replace(from, to)).is_some(), "{to}");
        }
    }

    #[test]
    fn values_that_stand_elsewhere_are_compared_there() {
        let matrix = BASE.replace("5%", "${{ matrix.limit }}").replace("memory:", "memory:\n    limit: [5%]");
        let sides = Sides { before: matrix.clone(), after: matrix.replace("[5%]", "[50%]") };
        let told = changes(&sides.map(|text| gates(&[("a.yml", text)], None))).unwrap();
        assert!(told.contains("'limit: [50%]' instead of 'limit: [5%]'"), "{told}");
    }

    #[test]
    fn files_that_run_the_action_by_way_of_others_are_compared() {
        let action =
            "runs:\n  steps:\n    - uses: owner/ptmem@v0\n      with: { max-growth: \"${{ inputs.limit }}\" }\n";
        let reusable =
            "on: workflow_call\njobs:\n  a:\n    steps:\n    - uses: ./ci/gate/\n      with: { limit: 4% }\n";
        let caller = "jobs:\n  b:\n    uses: ./.github/workflows/gate.yml\n    with: { limit: 5% }\n";
        let elsewhere = "jobs:\n  c:\n    uses: another/ci/.github/workflows/memory.yml@v1\n    with: { limit: 6% }\n";
        let all = |caller: &str, elsewhere: &str| {
            let files = [
                ("ci/gate/action.yml", action),
                (".github/workflows/gate.yml", reusable),
                (".github/workflows/caller.yml", caller),
                (".github/workflows/elsewhere.yml", elsewhere),
            ];
            gates(&files, Some(".github/workflows/elsewhere.yml"))
        };
        for (limit, other) in [("5%", "50%"), ("6%", "60%")] {
            let after = all(&caller.replace(limit, other), &elsewhere.replace(limit, other));
            let told = changes(&Sides { before: all(caller, elsewhere), after }).unwrap();
            assert!(
                told.contains(&format!("'with: {{ limit: {other} }}' instead of 'with: {{ limit: {limit} }}'")),
                "{told}"
            );
        }
        let edited = |text: &str| gates(&[("ci/gate/action.yml", action), (".github/workflows/gate.yml", text)], None);
        let sides = Sides { before: edited(reusable), after: edited(&reusable.replace("4%", "40%")) };
        assert!(changes(&sides).is_some());
    }
}
