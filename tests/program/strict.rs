//! Results that are inconclusive with `--strict` alone.

use crate::support::fixtures;
use crate::support::tool::{judged, ptmem, text, verdict};
use serde_json::Value as Json;

/// The report in a format, on what the exit code says is inconclusive.
fn report(format: &str, arguments: &[&str]) -> String {
    let output =
        ptmem(&fixtures::folder(), &[arguments, &["--strict", "--config", "none", "--format", format]].concat());
    assert_eq!(output.status.code(), Some(3), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn formats_for_machines_have_the_warnings_that_make_a_result_untrustworthy() {
    let wrapped = ["check", "wrapped.pkl", "--max", "end=1TiB"];
    assert_reads!(report("junit", &wrapped) => str![[r#"
<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="ptmem" tests="2" failures="0" errors="1">
  <testsuite name="all devices" tests="1" failures="0" errors="1" skipped="0">
    <testcase name="trust within no distrusted warning" classname="ptmem.all devices"><error type="inconclusive" message="a warning makes the result untrustworthy (history-truncated)">a warning makes the result untrustworthy (history-truncated)</error></testcase>
  </testsuite>
  <testsuite name="device 0" tests="1" failures="0" errors="0" skipped="0">
    <testcase name="end within 1.00 TiB" classname="ptmem.device 0"><system-out>end is 53.17 MiB, allowed 1.00 TiB</system-out></testcase>
  </testsuite>
</testsuites>
"#]]);
    assert_reads!(report("gitlab", &wrapped) => str![[r#"
[
  {
    "description": "GPU memory: a warning makes the result untrustworthy (history-truncated)",
    "check_name": "ptmem/trust",
    "fingerprint": "9a66943c4570ae7d613f08ab5ded63d5c18a4191",
    "severity": "major",
    "location": {
      "path": "wrapped.pkl",
      "lines": {
        "begin": 1
      }
    }
  }
]
"#]]);
    assert_reads!(report("github", &wrapped).lines().next().unwrap() => str!["::error title=GPU memory%3A trust::a warning makes the result untrustworthy (history-truncated)"]);
    let sarif: Json = serde_json::from_str(&report("sarif", &wrapped)).unwrap();
    let result = &sarif["runs"][0]["results"][0];
    assert_reads!(format!("{} {}: {}", result["level"], result["ruleId"], result["message"]["text"]) => str![[r#""error" "trust": "a warning makes the result untrustworthy (history-truncated)""#]]);
    // No limit is about it.
    let json: Json = serde_json::from_str(&report("json", &wrapped)).unwrap();
    assert_eq!(json["checks"].as_array().unwrap().len(), 1);
}

#[test]
fn a_limit_that_only_warns_and_cannot_be_judged_is_an_error() {
    let unmatched = ["diff", "before.pkl", "after.pkl", "--max-growth", "50%", "--warn-growth", "stack:nosuch=0"];
    assert_reads!(report("junit", &unmatched) => str![[r#"
<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="ptmem" tests="2" failures="0" errors="1">
  <testsuite name="all devices" tests="1" failures="0" errors="1" skipped="0">
    <testcase name="stack:nosuch within 0 B (warning)" classname="ptmem.all devices"><error type="inconclusive" message="stack:nosuch: the pattern matches no stack on either side; the nearest stacks are 'forward (model.py:81) aten::native_layer_norm', 'forward (model.py:55) aten::native_layer_norm' and 'train_step (train.py:26) aten::_log_softmax'">stack:nosuch: the pattern matches no stack on either side; the nearest stacks are 'forward (model.py:81) aten::native_layer_norm', 'forward (model.py:55) aten::native_layer_norm' and 'train_step (train.py:26) aten::_log_softmax'</error></testcase>
  </testsuite>
  <testsuite name="device 0" tests="1" failures="0" errors="0" skipped="0">
    <testcase name="peak within 50 %" classname="ptmem.device 0"><system-out>peak grew 53.80 MiB (+19.2 %), allowed 50 %</system-out></testcase>
  </testsuite>
</testsuites>
"#]]);
    assert_reads!(report("gitlab", &unmatched) => str![[r#"
[
  {
    "description": "GPU memory: stack:nosuch: the pattern matches no stack on either side; the nearest stacks are 'forward (model.py:81) aten::native_layer_norm', 'forward (model.py:55) aten::native_layer_norm' and 'train_step (train.py:26) aten::_log_softmax'",
    "check_name": "ptmem/stack",
    "fingerprint": "0a18cf5f4126e78a31f847a2aae4c1ac8fbb7e30",
    "severity": "major",
    "location": {
      "path": "after.pkl",
      "lines": {
        "begin": 1
      }
    }
  }
]
"#]]);
}

#[test]
fn the_verdict_names_a_limit_that_only_warns_and_cannot_be_judged() {
    let line = |before: &str, after: &str| {
        let limits = ["--max-growth", "500%", "--warn-growth", "stack:nosuch=0", "--strict", "--config", "none"];
        judged(verdict(&ptmem(&fixtures::folder(), &[&["diff", before, after], &limits[..]].concat())))
    };
    assert_reads!(line("before.pkl", "after.pkl") => str!["3: INCONCLUSIVE stack:nosuch: the pattern matches no stack on either side; the nearest stacks are 'forward (model.py:81) aten::native_layer_norm', 'forward (model.py:55) aten::native_layer_norm' and 'train_step (train.py:26) aten::_log_softmax'"]);
    assert_reads!(line("ranks-before", "ranks-after") => str!["3: INCONCLUSIVE stack:nosuch: the pattern matches no stack of any rank; the nearest stacks are 'backward: AddmmBackward0 (aten::sum)', 'backward: ReluBackward0 (aten::threshold_backward)' and 'dispatch (model.py:133) aten::new_empty'"]);
}
