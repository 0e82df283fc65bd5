//! The line and the stacks by which annotations, test reports and comments explain a check: of the moment that it is about.

use std::fs;
use std::path::Path;

use serde_json::Value as Json;

use crate::support::fixtures;
use crate::support::program::Program;
use crate::support::tool::{ptmem, text};

/// A folder with fixtures.
fn with(names: &[&str]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in names {
        fs::copy(fixtures::folder().join(name), folder.path().join(name)).unwrap();
    }
    folder
}

fn report(folder: &Path, arguments: &[&str], format: &str) -> String {
    text(&ptmem(folder, &[arguments, &["--format", format]].concat()).stdout)
}

/// Attention holds most at the peak, and nothing at the end.
#[test]
fn a_limit_on_the_end_is_explained_by_what_is_held_there() {
    let folder = with(&["before.pkl", "after.pkl"]);
    let place = folder.path();
    assert_reads!(report(place, &["check", "after.pkl", "--max", "end=100MiB"], "junit") => str![[r#"
<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="ptmem" tests="1" failures="1" errors="0">
  <testsuite name="device 0" tests="1" failures="1" errors="0" skipped="0">
    <testcase name="end within 100.00 MiB" classname="ptmem.device 0"><failure type="regression" message="end is 125.98 MiB, allowed 100.00 MiB">end is 125.98 MiB, allowed 100.00 MiB

  92.55 MiB  &lt;before recording&gt;
  18.50 MiB  backward: AddmmBackward0 (aten::mm)
   7.33 MiB  backward: EmbeddingBackward0 (aten::embedding_dense_backward)
   7.33 MiB  backward: MmBackward0
 234.50 KiB  backward: AddBackward0 (aten::sum)
  27.00 KiB  backward: AddmmBackward0 (aten::sum)
  14.00 KiB  backward: NativeLayerNormBackward0</failure></testcase>
  </testsuite>
</testsuites>
"#]]);
    let grown = ["diff", "before.pkl", "after.pkl", "--max-growth", "25%", "--max-growth", "end=1MiB"];
    assert_reads!(report(place, &grown, "github") => str!["::error title=GPU memory%3A end::end grew 1.77 MiB (+1.4 %25), allowed 1.00 MiB (largest growth there: backward: AddmmBackward0 (aten::mm) +1.77 MiB)%0A   +1.77 MiB  backward: AddmmBackward0 (aten::mm)"]);
    let comment = report(place, &grown, "markdown");
    assert!(!comment.lines().any(|line| line.starts_with("`attention")), "{comment}");
}

/// Its blocks are those that no stack holds.
#[test]
fn stacks_do_not_explain_fragmentation() {
    let folder = with(&["before.pkl", "after.pkl"]);
    let place = folder.path();
    let grown = ["diff", "before.pkl", "after.pkl", "--max-growth", "fragmentation=1MiB"];
    assert_reads!(report(place, &grown, "github") => str!["::error title=GPU memory%3A fragmentation::fragmentation grew 67.47 MiB (+53.2 %25), allowed 1.00 MiB"]);
    assert_reads!(report(place, &["check", "after.pkl", "--max", "fragmentation=1MiB"], "github") => str!["::error title=GPU memory%3A fragmentation::fragmentation is 194.42 MiB, allowed 1.00 MiB"]);
}

#[test]
fn a_limit_on_stacks_is_explained_by_each() {
    let folder = with(&["after.pkl"]);
    assert_reads!(report(folder.path(), &["check", "after.pkl", "--max", "stack=20MiB"], "github") => str![[r#"
::error file=model.py,line=40,title=GPU memory%3A stack::stack attention (model.py:40) aten::_softmax (+3 more lines) is 96.40 MiB, allowed 20.00 MiB
::error title=GPU memory%3A stack::stack <before recording> is 92.55 MiB, allowed 20.00 MiB
::error file=train.py,line=26,title=GPU memory%3A stack::stack train_step (train.py:26) aten::_log_softmax (+1 more operator) is 22.92 MiB, allowed 20.00 MiB
::error file=model.py,line=81,title=GPU memory%3A stack::stack forward (model.py:81) aten::mm is 22.91 MiB, allowed 20.00 MiB
::error title=GPU memory%3A stack::stack backward: LogSoftmaxBackward0 is 22.91 MiB, allowed 20.00 MiB
::error title=GPU memory%3A stack::stack backward: NllLossBackward0 is 22.91 MiB, allowed 20.00 MiB
"#]]);
}

/// The line below the verdict is of its gate.
#[test]
fn a_warning_of_another_gate_does_not_explain_the_verdict() {
    let folder = with(&["before.pkl", "after.pkl", "empty.pkl"]);
    let rules = "[gate.grown]\nbefore = 'before.pkl'\nafter = 'after.pkl'\nmax-growth = '50%'\nwarn-growth = '1%'\n\
                 [gate.empty]\nbefore = 'empty.pkl'\nafter = 'empty.pkl'\nmax-growth = '5%'\n";
    fs::write(folder.path().join("ptmem.toml"), rules).unwrap();
    let comment = report(folder.path(), &["gate", "grown", "empty"], "markdown");
    assert!(comment.contains("INCONCLUSIVE: empty"), "{comment}");
    assert!(!comment.lines().any(|line| line.starts_with("`attention")), "{comment}");
}

/// The message and the file of each result of code scanning, and of each issue of GitLab.
fn located(folder: &Path, arguments: &[&str]) -> Vec<String> {
    let [sarif, gitlab] =
        ["sarif", "gitlab"].map(|format| serde_json::from_str::<Json>(&report(folder, arguments, format)).unwrap());
    let results = sarif["runs"][0]["results"].as_array().unwrap().iter();
    let uri = "/locations/0/physicalLocation/artifactLocation/uri";
    let results = results.map(|of| format!("{} {}", of.pointer(uri).unwrap(), of["message"]["text"]));
    let issues = gitlab.as_array().unwrap().iter();
    results.chain(issues.map(|of| format!("{} {}", of["location"]["path"], of["description"]))).collect()
}

/// The checkout has no files of libraries.
#[test]
fn only_frames_of_the_user_are_located_in_the_checkout() {
    let folder = tempfile::tempdir().unwrap();
    let mut program = Program::default();
    let linear = "/env/lib/python3.11/site-packages/torch/nn/modules/linear.py:forward:134";
    program.alloc_under("x".to_owned(), &[linear, "/repo/train.py:main:9"], 8 << 20);
    fs::write(folder.path().join("a.pkl"), program.snapshot()).unwrap();
    let sarif = report(folder.path(), &["check", "a.pkl", "--max", "end=1MiB"], "sarif");
    let sarif: Json = serde_json::from_str(&sarif).unwrap();
    let frames = sarif.pointer("/runs/0/results/0/stacks/0/frames").unwrap().as_array().unwrap().iter();
    let frames = frames.map(|frame| {
        let uri = frame.pointer("/location/physicalLocation/artifactLocation/uri").unwrap_or(&Json::Null);
        format!("{} {uri}", frame["location"]["message"]["text"])
    });
    assert_reads!(frames.collect::<Vec<_>>().join("\n") => str![[r#"
"forward (torch/nn/modules/linear.py:134)" null
"main (train.py:9)" "train.py"
"#]]);
}

/// Without a line of the user, the place is the examined file.
#[test]
fn a_check_is_located_at_the_file_of_its_own_comparison() {
    let folder = with(&["before.pkl", "phases-before.pkl", "phases-after.pkl"]);
    let place = folder.path();
    let rules = "[gate.first]\nbefore = 'before.pkl'\nafter = 'before.pkl'\nmax-growth = '5%'\n\
                 [gate.second]\nbefore = 'phases-before.pkl'\nafter = 'phases-after.pkl'\n\
                 max-growth = { 'phase:forward' = '5%' }\n";
    fs::write(place.join("ptmem.toml"), rules).unwrap();
    assert_reads!(located(place, &["gate", "first", "second"]).join("\n") => str![[r#"
"phases-after.pkl" "second: phase forward #0 grew 4.00 MiB (+22.2 %), allowed 5 % (4 of 4 occurrences exceed it; largest growth there: forward (model.py:94) aten::mul +4.00 MiB)"
"phases-after.pkl" "GPU memory: second: phase forward #0 grew 4.00 MiB (+22.2 %), allowed 5 % (4 of 4 occurrences exceed it; largest growth there: forward (model.py:94) aten::mul +4.00 MiB)"
"#]]);
    fs::write(place.join("b.csv"), "case,peak\nsame,100\ngrown,100\n").unwrap();
    fs::write(place.join("a.csv"), "case,peak\nsame,100\ngrown,200\n").unwrap();
    assert_reads!(located(place, &["diff", "b.csv", "a.csv", "--max-growth", "5%"]).join("\n") => str![[r#"
"a.csv%23grown" "grown: peak grew 100 B (+100.0 %), allowed 5 %"
"a.csv#grown" "GPU memory: grown: peak grew 100 B (+100.0 %), allowed 5 %"
"#]]);
}
