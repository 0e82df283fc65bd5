//! Inputs that hold only figures.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::fixtures;
use crate::support::tool::{judged, ptmem, text, verdict};

/// A folder with a file.
fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    files.iter().for_each(|(name, content)| fs::write(folder.path().join(name), content).unwrap());
    folder
}

fn report(folder: &Path, arguments: &[&str]) -> Value {
    let output = ptmem(folder, &[arguments, &["--format", "json"]].concat());
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output.stderr)))
}

/// Peak and end of allocated bytes, and the peak of reserved bytes, of each device.
fn figures(content: &str, name: &str) -> Vec<[Value; 3]> {
    let folder = folder(&[(name, content)]);
    let report = report(folder.path(), &["show", name]);
    assert_eq!(report["source"]["kind"], "numbers");
    let devices = report["devices"].as_array().unwrap().iter();
    let figures = |device: &Value| {
        let [allocated, reserved] = [&device["allocated"], &device["reserved"]];
        [&allocated["peak"], &allocated["end"], &reserved["peak"]].map(Value::clone)
    };
    devices.map(figures).collect()
}

#[test]
fn kinds_of_numbers_are_read() {
    let flat = r#"{"allocated_bytes.all.peak": 4096, "allocated_bytes.all.current": 512, "reserved_bytes.all.peak": 2097152,
        "allocated_bytes.large_pool.peak": 7, "num_ooms": 0}"#;
    let nested = r#"{"allocated_bytes": {"all": {"peak": 4096, "current": 512}, "large_pool": {"peak": 7}},
        "reserved_bytes": {"all": {"peak": 2097152}}}"#;
    let named = r#"{"max_memory_allocated": "4 KiB", "memory_allocated": 512, "max_memory_reserved": "2MiB"}"#;
    let table = "model, peak, end, reserved, note\nbert, 4096, 512, 2 MiB, x\n";
    let expected = vec![[json!(4096), json!(512), json!(2_097_152)]];
    for (content, name) in [(flat, "a.json"), (nested, "a.json"), (named, "a.json")] {
        assert_eq!(figures(content, name), expected, "{content}");
    }
    let folder = folder(&[("a.csv", table)]);
    let device = report(folder.path(), &["show", "a.csv#bert"])["devices"][0].take();
    assert_eq!(device["allocated"]["peak"], 4096);
    for counter in ["allocated", "active", "requested", "reserved"] {
        assert_eq!(
            [&device[counter]["exact"], &device[counter]["max_error"]],
            [&json!(false), &json!(null)],
            "{counter}"
        );
    }
}

#[test]
fn logs_and_figures_of_servers_are_compared() {
    let log = |tokens| {
        format!("INFO model.py] Model loading took 2.5 GiB memory\nINFO: GPU KV cache size: {tokens} tokens\n")
    };
    let stated = |tokens| format!(r#"{{"server": {{"kv-cache-tokens": {tokens}, "weights": "2.5 GiB"}}}}"#);
    let row = |tokens| format!("case,kv-cache-tokens,weights,graphs\nserver,{tokens},2.5 GiB,nan\n");
    let files = [
        ("a.log", log("1,000")),
        ("b.log", log("900")),
        ("a.json", stated(1000)),
        ("b.json", stated(900)),
        ("a.csv", row(1000)),
        ("b.csv", row(900)),
    ];
    let files = files.each_ref().map(|(name, text)| (*name, text.as_str()));
    let folder = folder(&files);
    let pairs = [
        ("a.log", "b.log", ", line 2 of the output"),
        ("a.json#server", "b.json#server", ""),
        ("a.csv#server", "b.csv#server", ""),
    ];
    for (before, after, line) in pairs {
        let limits = ["--max-growth", "kv-cache-tokens=9%", "--max-growth", "weights=0"];
        let output = ptmem(folder.path(), &[&["diff", before, after], &limits[..]].concat());
        let expected =
            format!("FAIL kv-cache-tokens shrank from 1,000 tokens to 900 tokens (-10.0 %{line}), allowed 9 %");
        assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
        assert!(text(&output.stdout).contains(&expected), "{}", text(&output.stdout));
        let output = ptmem(folder.path(), &["diff", after, before, "--max-growth", "kv-cache-tokens=0"]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
        let output = ptmem(folder.path(), &["diff", before, after, "--max-growth", "graphs=1GiB"]);
        assert_eq!(output.status.code(), Some(3), "{}", text(&output.stdout));
    }
    // A log may begin with a time in brackets, a process in parentheses, or in color.
    for first in ["[2026-08-17 16:52:10] start", "(VllmWorker rank=0 pid=3) INFO", "\u{1b}[1;36mINFO\u{1b}[0m █"] {
        fs::write(folder.path().join("begins.log"), format!("{first}\n{}", log("900"))).unwrap();
        let output = ptmem(folder.path(), &["diff", "a.log", "begins.log", "--max-growth", "kv-cache-tokens=9%"]);
        assert_eq!(output.status.code(), Some(1), "{first}: {}", text(&output.stderr));
    }
    let warned = verdict(&ptmem(folder.path(), &["diff", "a.log", "b.log", "--warn-growth", "kv-cache-tokens=5%"]));
    assert_reads!(judged(warned) => str!["0: PASS only warnings were requested: kv-cache-tokens shrank from 1,000 tokens to 900 tokens (-10.0 %, line 2 of the output), allowed 5 %"]);
    let shown = text(&ptmem(folder.path(), &["show", "a.log"]).stdout);
    assert!(shown.contains("kv-cache-tokens 1,000 tokens\n") && shown.contains("weights 2.50 GiB"), "{shown}");
    for (text_of, expected) in [
        (r#"{"kv-cache-tokens": "many"}"#, "expected a number of bytes, found"),
        (r#"{"peak": 3, "x": {"weights": 3}}"#, "case"),
    ] {
        fs::write(folder.path().join("wrong.json"), text_of).unwrap();
        let output = ptmem(folder.path(), &["show", "wrong.json"]);
        assert_eq!(output.status.code(), Some(2), "{text_of}");
        assert!(text(&output.stderr).contains(expected), "{}", text(&output.stderr));
    }
}

#[test]
fn golden_values_give_their_highest_and_their_last_iteration() {
    let golden = r#"{"lm loss": {"start_step": 1, "end_step": 10, "step_interval": 5, "values": {"1": 10.8, "10": 9.5}},
        "mem-allocated-bytes": {"values": {"1": 1024.0, "10": "nan", "5": 512.0}},
        "mem-max-allocated-bytes": {"values": {"1": 4096.0, "5": 8192.0, "10": 2048.0}}}"#;
    assert_eq!(figures(golden, "golden.json"), [[json!(8192), json!(512), json!(null)]]);
    let listed =
        r#"{"mem-max-allocated-bytes": {"start_step": 0, "end_step": 2, "step_interval": 1, "values": [1, 3, 2]}}"#;
    assert_eq!(figures(listed, "golden.json")[0][0], 3);
}

#[test]
fn devices_of_a_process_are_told_from_cases() {
    let devices = r#"{"cuda:1": {"peak": 2048}, "cuda:0": {"peak": 1024}}"#;
    let found = figures(devices, "a.json");
    assert_eq!(found.iter().map(|device| &device[0]).collect::<Vec<_>>(), [1024, 2048]);
    let host = r#"{"cuda:host": {"peak": 2048}, "cuda:0": {"peak": 1024}}"#;
    assert_eq!(figures(host, "a.json"), [[json!(1024), json!(null), json!(null)]]);
    let cases = r#"{"rank0": {"cuda:0": {"peak": 1024}}, "rank1": {"cuda:0": {"peak": 2048}}}"#;
    let folder = folder(&[("cases.json", cases)]);
    let report = report(folder.path(), &["check", "cases.json", "--max", "1536B"]);
    assert_eq!(report["ranks"].as_array().unwrap().len(), 2);
    assert_eq!(report["verdict"], "regression");
    let one = ptmem(folder.path(), &["check", "cases.json#rank0", "--max", "1536B"]);
    assert_eq!(one.status.code(), Some(0), "{}", text(&one.stdout));
}

/// Numbers in the names of cases are parts of the names, except for ranks, so that different cases are not compared.
#[test]
fn cases_are_paired_by_their_whole_names() {
    let table = |a: &str, b: &str| format!("case,peak,end\n{a},2MiB,1MiB\n{b},4MiB,1MiB\n");
    let files = [
        ("resnet.csv", table("resnet18", "resnet50")),
        ("vit.csv", table("vit18", "vit50")),
        ("both.csv", table("resnet18", "vit50")),
        ("gpu.csv", table("bert_gpu1", "gpt_gpu1")),
        ("one.csv", "case,peak\nresnet18,2MiB\n".to_owned()),
        ("other.csv", "case,peak\nvit18,2MiB\n".to_owned()),
        ("ranks.csv", table("rank0", "RANK_1")),
        ("counted.csv", "rank,peak\n1,4MiB\n0,2MiB\n".to_owned()),
        ("named.csv", "rank,peak\nrank0,2MiB\nrank1,4MiB\n".to_owned()),
    ];
    let folder = folder(&files.each_ref().map(|(name, text)| (*name, text.as_str())));
    fs::create_dir(folder.path().join("files")).unwrap();
    for name in ["resnet18", "resnet50"] {
        fs::write(folder.path().join("files").join(format!("{name}.json")), r#"{"max_memory_allocated": "4MiB"}"#)
            .unwrap();
    }
    let said = |arguments: &[&str]| {
        let output = ptmem(folder.path(), arguments);
        if output.status.code() == Some(2) { text(&output.stderr) } else { judged(verdict(&output)) }
    };
    let compared = |before: &str, after: &str| said(&["diff", before, after, "--max-growth", "5%"]);
    assert_reads!(compared("resnet.csv", "vit.csv") => str!["error: no case of the before is in the after: resnet.csv holds resnet18, resnet50, vit.csv holds vit18, vit50; expected cases of the same names on both sides"]);
    assert_reads!(compared("one.csv", "other.csv") => str!["error: no case of the before is in the after: one.csv holds resnet18, other.csv holds vit18; expected cases of the same names on both sides"]);
    assert_reads!(compared("resnet.csv", "both.csv") => str!["3: INCONCLUSIVE vit50 is missing in the before"]);
    assert_reads!(compared("resnet.csv", "files") => str!["1: FAIL resnet18: peak grew 2.00 MiB (+100.0 %), allowed 5 %"]);
    assert_reads!(compared("gpu.csv", "gpu.csv") => str!["0: PASS all 2 cases: peak did not change, allowed 5 %"]);
    assert_reads!(compared("ranks.csv", "counted.csv") => str!["0: PASS all 2 ranks: peak did not change, allowed 5 %"]);
    assert_reads!(compared("counted.csv", "named.csv") => str!["0: PASS all 2 ranks: peak did not change, allowed 5 %"]);
    assert_reads!(said(&["leak", "resnet.csv"]) => str!["3: INCONCLUSIVE resnet18: leak: figures without a history have no steps; and 1 more case"]);
    assert_reads!(said(&["leak", "resnet.csv", "files/resnet18.json"]) => str!["error: files/resnet18.json: the name states no rank, such as rank3, and others are of ranks or cases; give files of one kind only"]);
    assert_reads!(said(&["leak", "resnet.csv", "both.csv"]) => str!["error: not all ranks or cases have as many snapshots: 2, but 1 of that of resnet.csv#resnet50; expected a series of the same length for each, or one snapshot"]);
}

#[test]
fn limits_apply_to_what_is_known() {
    let folder = folder(&[("a.json", r#"{"peak": "1 GiB"}"#), ("b.json", r#"{"peak": "1.02 GiB"}"#)]);
    for (limit, code) in [
        ("5%", 0),
        ("1%", 1),
        ("reserved=5%", 3),
        ("baseline=0", 3),
        ("fragmentation=0", 3),
        ("end=0", 3),
        ("stack=1MiB", 3),
        ("stack:x=1MiB", 3),
        ("stack-highest=1MiB", 3),
        ("phase=0", 3),
        ("phase:x=0", 3),
        ("module:x=0", 3),
    ] {
        let output = ptmem(folder.path(), &["diff", "a.json", "b.json", "--max-growth", limit]);
        assert_eq!(output.status.code(), Some(code), "{limit}: {}", text(&output.stdout));
    }
    for (limit, code) in [("1.5GiB", 0), ("1MiB", 1), ("reserved=1GiB", 3), ("stack=1GiB", 3), ("module:x=1GiB", 3)] {
        let output = ptmem(folder.path(), &["check", "a.json", "--max", limit]);
        assert_eq!(output.status.code(), Some(code), "{limit}: {}", text(&output.stdout));
    }
    let stacks = ptmem(folder.path(), &["diff", "a.json", "b.json", "--max-growth", "stack=1MiB"]);
    assert!(text(&stacks.stdout).contains("record the same run"), "{}", text(&stacks.stdout));
    // Rules about stacks are not unused where there are none.
    let rule = "[[accept]]\npattern = 'attention'\nbytes = '1MiB'\nreason = 'x'\nexpires = 2999-12-31\n";
    fs::write(folder.path().join("ptmem.toml"), rule).unwrap();
    let quiet = ptmem(folder.path(), &["diff", "a.json", "b.json", "--max-growth", "5%", "-v"]);
    assert!(!text(&quiet.stdout).contains("unused-rule"), "{}", text(&quiet.stdout));
}

#[test]
fn a_case_of_a_file_is_not_rewritten() {
    let folder =
        folder(&[("a.csv", "case,peak\ntrain,100\neval,200\n"), ("b.csv", "case,peak\ntrain,100\neval,180\n")]);
    for (before, after, expected) in
        [("a.csv", "b.csv", "a single file"), ("a.csv#eval", "b.csv#eval", "measure the case 'eval' of a.csv again")]
    {
        let gate = format!("[gate.a]\nbefore = '{before}'\nafter = '{after}'\n");
        fs::write(folder.path().join("ptmem.toml"), gate).unwrap();
        let output = ptmem(folder.path(), &["gate", "--update"]);
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains(expected), "{}", text(&output.stderr));
    }
}

#[test]
fn numbers_are_compared_with_a_recording() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    let folder = folder(&[("a.json", r#"{"peak": "280 MiB"}"#)]);
    fs::copy(fixtures.join("before.pkl"), folder.path().join("b.pkl")).unwrap();
    let report = report(folder.path(), &["diff", "a.json", "b.pkl", "--max-growth", "5%"]);
    assert_eq!(report["verdict"], "pass");
    assert_eq!(report["devices"][0]["metrics"]["peak"]["before"], 280 << 20);
    // Figures have no frames that could differ from those of a recording.
    let codes: Vec<_> = report["diagnostics"].as_array().unwrap().iter().map(|found| &found["code"]).collect();
    assert!(!codes.contains(&&json!("recordings-differ")), "{codes:?}");
}

/// What a recorder writes into a file for counters.
fn measured(commit: &str, ending: &str, same: bool) -> String {
    let package = json!({"name": "model", "path": "/elsewhere/model", "inside": false, "digest": "d", "same": same});
    json!({"cuda:0": {"peak": 1024}, "ptmem": {"commit": commit, "packages": [package], "ending": {"kind": ending}}})
        .to_string()
}

#[test]
fn facts_of_a_recorder_are_read_with_its_counters() {
    let before = measured("a", "whole", true);
    // A program that failed after the file was written.
    let failed = measured("b", "whole", true).replacen('{', "{\"ptmem_exit\": 7, ", 1);
    for (after, code, reason) in [
        (measured("b", "whole", true), 0, ""),
        (failed, 3, "the after is not a whole run: the program failed: exit status 7"),
        (measured("b", "whole", false), 3, "both sides ran the same code of model"),
        (measured("b", "exception", true), 3, "the after is not a whole run: the program failed"),
    ] {
        let folder = folder(&[("a.json", &before), ("b.json", &after)]);
        let output = ptmem(folder.path(), &["diff", "a.json", "b.json", "--max-growth", "5%"]);
        assert_eq!(output.status.code(), Some(code), "{}", text(&output.stdout));
        assert!(text(&output.stdout).contains(reason), "{}", text(&output.stdout));
    }
}

/// A program that goes on after a request failed needs more than it shows.
#[test]
fn requests_that_failed_are_counted_beside_figures() {
    let counted =
        |failed: u64| format!(r#"{{"cuda:0": {{"num_ooms": {failed}, "peak": 1024}}, "cuda:1": {{"peak": 9}}}}"#);
    let nested = r#"{"allocated_bytes": {"all": {"peak": 1024, "current": 0}}, "num_alloc_retries": 4, "num_ooms": 1}"#;
    let (none, two) = (counted(0), counted(2));
    let files = [("none.json", &*none), ("two.json", &two), ("nested.json", nested)];
    let folder = folder(&[&files[..], &[("t.csv", "case,peak,num_ooms\nx,1024,3\ny,9,\n")]].concat());
    let line = |words: &[&str]| judged(verdict(&ptmem(folder.path(), words)));
    assert_reads!(line(&["diff", "none.json", "two.json", "--max-growth", "5%"]) => str!["1: FAIL device 0: out of memory: 2 requests failed"]);
    assert_reads!(line(&["diff", "two.json", "none.json", "--max-growth", "5%"]) => str!["0: PASS device 0: memory ran out in the before and no longer does; peak is now 1.00 KiB"]);
    assert_reads!(line(&["diff", "two.json", "two.json", "--max-growth", "5%"]) => str!["3: INCONCLUSIVE device 0: peak: memory ran out on both sides: the peak is the limit of the device, not the need of the program"]);
    assert_reads!(line(&["check", "nested.json", "--max", "1GiB"]) => str!["1: FAIL out of memory: 1 request failed"]);
    assert_reads!(line(&["check", "t.csv", "--max", "1GiB"]) => str!["1: FAIL x: out of memory: 3 requests failed"]);
    // A saved profile keeps the number.
    assert_eq!(ptmem(folder.path(), &["profile", "two.json", "-o", "saved.json"]).status.code(), Some(0));
    assert_eq!(line(&["check", "saved.json", "--max", "1GiB"]), line(&["check", "two.json", "--max", "1GiB"]));
    // Among objects of other things, or as another value, it is no figure.
    for other in [
        r#"{"num_ooms": 3, "a": {"peak": 9}}"#,
        r#"{"peak": 9, "num_ooms": "many"}"#,
        r#"{"peak": 9, "x": {"num_ooms": 1}}"#,
    ] {
        fs::write(folder.path().join("other.json"), other).unwrap();
        assert_eq!(verdict(&ptmem(folder.path(), &["check", "other.json", "--max", "1GiB"])).0, 0, "{other}");
    }
}

/// As Python, pandas and tools that sum up write the number.
#[test]
fn failed_requests_are_counted_in_any_form() {
    let folder = folder(&[]);
    for failed in ["1.0", "1e0", "\"1\"", "\"1.0\""] {
        fs::write(folder.path().join("form.json"), format!("{{\"num_ooms\": {failed}, \"peak\": 1024.0}}")).unwrap();
        fs::write(folder.path().join("form.csv"), format!("case,peak,num_ooms\nx,9,{failed}\ny,9,\n")).unwrap();
        for file in ["form.json", "form.csv"] {
            assert_eq!(verdict(&ptmem(folder.path(), &["check", file, "--max", "1GiB"])).0, 1, "{file}: {failed}");
        }
    }
}

#[test]
fn failed_requests_of_a_device_that_held_nothing_count() {
    let folder = folder(&[]);
    let line = |words: &[&str]| judged(verdict(&ptmem(folder.path(), words)));
    let alone = |failed: u64| format!(r#"{{"cuda:0": {{"peak": 9}}, "cuda:1": {{"peak": 0, "num_ooms": {failed}}}}}"#);
    for (name, failed) in [("idle.json", 0), ("alone.json", 1)] {
        fs::write(folder.path().join(name), alone(failed)).unwrap();
    }
    assert_reads!(line(&["check", "alone.json", "--max", "1GiB", "--strict"]) => str!["1: FAIL device 1: out of memory: 1 request failed"]);
    assert_reads!(line(&["diff", "idle.json", "alone.json", "--max-growth", "5%"]) => str!["1: FAIL device 1: out of memory: 1 request failed"]);
    fs::write(folder.path().join("ptmem.toml"), "allow-oom = true").unwrap();
    assert_reads!(line(&["diff", "idle.json", "alone.json", "--max-growth", "5%"]) => str!["0: PASS device 0: peak did not change, allowed 5 %"]);
    fs::remove_file(folder.path().join("ptmem.toml")).unwrap();
    assert_reads!(line(&["diff", "alone.json", "idle.json", "--max-growth", "5%"]) => str!["0: PASS device 0: peak did not change, allowed 5 %"]);
}

#[test]
fn failed_requests_are_reported_and_fail_a_search_for_leaks() {
    let folder = folder(&[]);
    let line = |words: &[&str]| judged(verdict(&ptmem(folder.path(), words)));
    for (name, failed) in [("s0.json", 1), ("s1.json", 0), ("s2.json", 0), ("s3.json", 1)] {
        let figures = format!(r#"{{"peak": 2048, "end": 1024, "num_ooms": {failed}}}"#);
        fs::write(folder.path().join(name), figures).unwrap();
    }
    assert_reads!(line(&["leak", "s1.json", "s2.json", "s3.json"]) => str!["1: FAIL out of memory: 1 request failed"]);
    assert_reads!(line(&["leak", "s0.json", "s1.json", "s2.json"]) => str!["0: PASS nothing leaks: allocated memory does not grow steadily by a total of 1.00 MiB or more"]);
    assert_reads!(line(&["leak", "s0.json", "s1.json", "s2.json", "s3.json"]) => str!["3: INCONCLUSIVE oom: out of memory: 1 request failed; it also ran out in the first snapshot, so both runs were cut short"]);
    assert_reads!(line(&["leak", "s3.json"]) => str!["1: FAIL out of memory: 1 request failed"]);
    assert_eq!(report(folder.path(), &["show", "s3.json"])["devices"][0]["failed_count"], 1);
    let shown = text(&ptmem(folder.path(), &["show", "s3.json"]).stdout);
    assert!(shown.contains("\n  out of memory   1 request failed\n"), "{shown}");
}

#[test]
fn figures_do_not_tell_what_is_beside_workspaces() {
    let folder = folder(&[("a.json", r#"{"peak": 1024}"#), ("ptmem.toml", "beside-workspaces = true")]);
    let line =
        |limit: &str| judged(verdict(&ptmem(folder.path(), &["diff", "a.json", "a.json", "--max-growth", limit])));
    assert_reads!(line("5%") => str!["3: INCONCLUSIVE peak: beside cuBLAS workspaces it is not known: the before holds only figures"]);
    assert_reads!(line("end=5%") => str!["3: INCONCLUSIVE end: end is not known on both sides"]);
    assert_reads!(line("5GiB") => str!["3: INCONCLUSIVE peak: beside cuBLAS workspaces it is not known: the before holds only figures"]);
}

#[test]
fn an_update_keeps_the_form_of_numbers() {
    let [old, new] = ["{\"peak\": 4096}\n", "{\"max_memory_allocated\": 2048}\n"];
    let folder = folder(&[("golden.json", old), ("new.json", new), ("more.json", "{\"peak\": 8192}")]);
    let update = |after: &str, rules: &str| {
        let gate = format!("[gate.a]\nbefore = 'golden.json'\nafter = '{after}'\n{rules}");
        fs::write(folder.path().join("ptmem.toml"), gate).unwrap();
        ptmem(folder.path(), &["gate", "--update"])
    };
    let lower = update("new.json", "");
    assert_eq!(lower.status.code(), Some(0), "{}", text(&lower.stderr));
    assert_eq!(fs::read_to_string(folder.path().join("golden.json")).unwrap(), new);
    update("more.json", "max-growth = '500%'");
    assert_eq!(fs::read_to_string(folder.path().join("golden.json")).unwrap(), new, "a raise needs a reason");
}

#[test]
fn what_is_not_a_number_of_bytes_is_named() {
    for (name, content, expected) in [
        ("a.json", r#"{"peak": true}"#, "peak: expected a number of bytes, found true"),
        ("a.json", r#"{"a": {"peak": 1.5}}"#, "a.peak: expected a number of bytes, found 1.5"),
        ("a.json", r#"{"other": 1}"#, "no figure such as"),
        ("a.json", r#"{"peak": 1e400}"#, "this looks like JSON, but cannot be read: number out of range at line 1"),
        ("a.csv", "case,peak\nx,much\n", "line 2, peak: expected a number of bytes, found much"),
        ("a.csv", "case,peak\nx,1\nx,2\n", "'x' occurs twice"),
        ("a.csv", "case,peak\nx,1,2\n", "the table cannot be read"),
        ("a.csv", "case,peak,note\nx,1,\"a\ny,9,b\n", "the table cannot be read: line 2: a cell begins with a quote"),
        ("a.csv", "case,peak,note\nx,1,\"a\ny,9,\"b\"\n", "line 2: a cell begins with a quote"),
        ("a.csv", "case,peak,\"note\nx,1,a\n", "line 1: a cell begins with a quote"),
        ("a.csv", "case,loss\nx,1\n", "its first line names no figure"),
        ("a.csv#z", "case,peak\nx,1\ny,2\n", "there is no case 'z' in it; it has x, y"),
    ] {
        let folder = folder(&[(name.split('#').next().unwrap(), content)]);
        let output = ptmem(folder.path(), &["show", name]);
        assert_eq!(output.status.code(), Some(2), "{content}");
        assert!(text(&output.stderr).contains(expected), "{content}: {}", text(&output.stderr));
    }
}

#[test]
fn a_table_in_another_encoding_is_one() {
    let folder = tempfile::tempdir().unwrap();
    for (content, line) in [(&b"case,peak\nna\xefve,1\n"[..], 2), (b"case,peak,caf\xe9\nx,1,y\n", 1)] {
        fs::write(folder.path().join("a.csv"), content).unwrap();
        let output = ptmem(folder.path(), &["show", "a.csv"]);
        assert_eq!(output.status.code(), Some(2));
        let expected = format!("the table cannot be read: line {line}: not all of it is UTF-8; save it as UTF-8");
        assert!(text(&output.stderr).contains(&expected), "{}", text(&output.stderr));
    }
}

#[test]
fn a_directory_of_numbers_is_one_of_ranks() {
    let stats = |peak: u64| format!(r#"{{"allocated_bytes.all.peak": {peak}}}"#);
    let losses: Vec<String> = (0..2_000).map(|step| format!("\"{step}\": 1.5")).collect();
    let golden = format!(
        r#"{{"lm loss": {{"values": {{{}}}}}, "mem-max-allocated-bytes": {{"values": {{"1": 9}}}}}}"#,
        losses.join(", ")
    );
    // A file that may be that of a rank is read, so that what is wrong with it is an error.
    for (rank, code) in [
        (&*stats(4096), 0),
        ("{\"max_memory_allocated\": 4096}", 0),
        ("\u{feff}{\"peak\": 4096}", 0),
        (&*golden, 0),
        ("{\"peak\": \"much\"}", 2),
        ("{\"peak\": 4096", 2),
        ("", 2),
    ] {
        let files = [("rank0.json", &*stats(1024)), ("rank1.json", rank), ("other.json", "{\"peaks\": 4096}")];
        let folder = folder(&files);
        let output = ptmem(folder.path(), &["check", ".", "--max", "1MiB"]);
        assert_eq!(output.status.code(), Some(code), "{rank}: {}", text(&output.stdout));
        let said = if code == 0 { text(&output.stdout) } else { text(&output.stderr) };
        assert!(said.contains(if code == 0 { "PASS all 2 ranks" } else { "rank1.json" }), "{rank}: {said}");
    }
}

/// Other programs write `start` and `end`, too, and markers of a job may be empty.
#[test]
fn other_files_of_a_job_are_not_ranks() {
    let stats = "{\"max_memory_allocated\": 1}";
    for (name, content, passes) in [
        ("timing.json", "{\"start\": 1732180000, \"end\": 1732180100}", true),
        ("rank1/timing.json", "{\"end\": 1732180100}", true),
        ("timing_1.json", "{\"end\": 1732180100}", true),
        ("done.json", "", true),
        ("progress.json", "{\"end\": 17", true),
        ("stats.json", "{\"max_memory_allocated\": 1732180100}", false),
        ("mem_2.json", "{\"peak\": 1732180100}", false),
        ("rank2.json", "{\"peak\": 1732180100}", false),
    ] {
        let folder = folder(&[("mem_0.json", stats), ("mem_1.json", stats)]);
        fs::create_dir(folder.path().join("rank1")).unwrap();
        fs::write(folder.path().join(name), content).unwrap();
        let output = ptmem(folder.path(), &["check", ".", "--max", "1MiB"]);
        let said = text(&output.stdout) + &text(&output.stderr);
        assert_eq!(output.status.success(), passes, "{name}: {said}");
    }
}

#[test]
fn a_series_of_figures_leaks_where_allocated_bytes_grow_at_its_ends() {
    let figures =
        |end: u64| format!(r#"{{"allocated_bytes.all.peak": 99000000, "allocated_bytes.all.current": {end}}}"#);
    let names = ["1.json", "2.json", "3.json", "4.json", "5.json", "6.json"];
    let judged = |ends: [u64; 6]| {
        let contents = ends.map(figures);
        let files: Vec<_> = names.iter().copied().zip(contents.iter().map(String::as_str)).collect();
        let folder = folder(&files);
        let output = ptmem(folder.path(), &[&["leak"], &names[..]].concat());
        (output.status.code(), text(&output.stdout))
    };
    let (code, leak) = judged([1, 2, 3, 4, 5, 6].map(|number| number << 22));
    assert_eq!(code, Some(1), "{leak}");
    assert!(leak.contains("FAIL allocated memory grows 4.00 MiB per snapshot, 5 of 5 times"), "{leak}");
    assert_eq!(judged([9, 9, 9, 9, 9, 9].map(|number| number << 20)).0, Some(0));

    let folder =
        folder(&[("1.json", r#"{"max_memory_allocated": 4096}"#), ("2.json", r#"{"max_memory_allocated": 8192}"#)]);
    for (arguments, reason) in [
        (&["leak", "1.json", "2.json"][..], "not all of them state the allocated bytes at their end"),
        (&["leak", "1.json"], "figures without a history have no steps"),
    ] {
        let output = ptmem(folder.path(), arguments);
        assert_eq!(output.status.code(), Some(3));
        assert!(text(&output.stdout).contains(reason), "{}", text(&output.stdout));
    }
}

/// Of snapshots and figures, only the totals can be compared: neither knows the stacks of the other.
#[test]
fn a_series_of_snapshots_and_figures_is_judged_by_its_totals() {
    let place = tempfile::tempdir().unwrap();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/leak-series");
    for (name, step) in [("1.pkl", 100), ("2.pkl", 200), ("3.pkl", 300)] {
        fs::copy(fixtures.join(format!("step-{step}.pkl")), place.path().join(name)).unwrap();
    }
    let series = |first: &str, ends: [u64; 2], names: &[&str]| {
        for (name, end) in [("0.json", ends[0]), ("4.json", ends[1])] {
            let figures = format!(r#"{{"max_memory_allocated": 9000000, "memory_allocated": {end}}}"#);
            fs::write(place.path().join(name), figures).unwrap();
        }
        judged(verdict(&ptmem(place.path(), &[&["leak", first], names].concat())))
    };
    let ends = [34_816, 3_516_416];
    assert_reads!(series("1.pkl", ends, &["2.pkl", "3.pkl", "4.json"]) => str!["1: FAIL allocated memory grows 850.00 KiB per snapshot, 3 of 3 times, allowed 0 B per snapshot"]);
    assert_reads!(series("0.json", ends, &["1.pkl", "2.pkl", "3.pkl"]) => str!["1: FAIL allocated memory grows 850.00 KiB per snapshot, 3 of 3 times, allowed 0 B per snapshot"]);
    assert_reads!(series("0.json", [2_600_000, 0], &["3.pkl"]) => str!["0: PASS nothing leaks: allocated memory does not grow steadily by a total of 1.00 MiB or more"]);
    assert_reads!(series("0.json", ends, &["1.pkl", "2.pkl", "3.pkl", "--skip", "1"]) => str!["1: FAIL train_step (train.py:30) (+1 more line) grows 850.00 KiB per snapshot, 2 of 2 times, allowed 0 B per snapshot"]);
}

/// A part of a run holds less, or something else, than the runs around it.
#[test]
fn runs_that_failed_are_left_out_of_a_series() {
    let run = |mib: u64, ending: &str| {
        let ending = json!({"kind": ending, "message": "E: no file"});
        json!({"memory_allocated": mib << 20, "ptmem": {"ending": ending}}).to_string()
    };
    // Negative are those that failed.
    let judged = |ends: &[i64]| {
        let place = tempfile::tempdir().unwrap();
        for (night, &mib) in ends.iter().enumerate() {
            let figures = run(mib.unsigned_abs(), if mib < 0 { "exception" } else { "whole" });
            fs::write(place.path().join(format!("night-{night}.json")), figures).unwrap();
        }
        let output = ptmem(place.path(), &["leak", "."]);
        let report = text(&output.stdout);
        let warnings = report.lines().filter(|line| line.contains("[run-incomplete]"));
        [judged(verdict(&output))].into_iter().chain(warnings.map(str::to_owned)).collect::<Vec<_>>().join("\n")
    };
    assert_reads!(judged(&[-100, 1000]) => str![[r#"
3: INCONCLUSIVE leak: 1 snapshot is too few where 0 are warm-up; two more than those are needed
warning[run-incomplete] 1 of 2 files left out because a part of the run is missing: ./night-0.json (the program failed: E: no file)
"#]]);
    assert_reads!(judged(&[-100, 1000, 1000]) => str![[r#"
0: PASS nothing leaks: allocated memory does not grow steadily by a total of 1.00 MiB or more
warning[run-incomplete] 1 of 3 files left out because a part of the run is missing: ./night-0.json (the program failed: E: no file)
"#]]);
    assert_reads!(judged(&[1000, 1020, 1040, 1060, 1080, 1100, -50, -50, 1120, 1140]) => str![[r#"
1: FAIL allocated memory grows 20.00 MiB per snapshot, 7 of 7 times, allowed 0 B per snapshot
warning[run-incomplete] 2 of 10 files left out because a part of the run is missing: ./night-6.json (the program failed: E: no file); ./night-7.json (the program failed: E: no file)
"#]]);
    assert_reads!(judged(&[1000, 1020, 1040, 1060, 1080, -50]) => str![[r#"
3: INCONCLUSIVE leak: the snapshot is not of a whole run: the program failed: E: no file
warning[run-incomplete] ./night-5.json: the program failed: E: no file; the figures are not those of a whole run
"#]]);
    assert_reads!(judged(&[-100, -120, -140, -160, -180]) => str![[r#"
3: INCONCLUSIVE leak: the snapshot is not of a whole run: the program failed: E: no file
warning[run-incomplete] ./night-4.json: the program failed: E: no file; the figures are not those of a whole run
warning[run-incomplete] 4 of 5 files left out because a part of the run is missing: ./night-0.json (the program failed: E: no file); ./night-1.json (the program failed: E: no file); ./night-2.json (the program failed: E: no file); 1 more
"#]]);
}

/// The noise of a series has a slope, too.
#[test]
fn only_growth_fills_the_device() {
    for (ends, full) in [
        ([60.0, 61.5, 60.2, 61.8, 60.9, 61.4], false),
        ([60.0, 61.0, 62.0, 63.0, 64.0, 65.0], true),
        ([60.0, 60.0, 60.0, 60.0, 60.0, 65.0], false),
    ] {
        let place = tempfile::tempdir().unwrap();
        for (night, end) in ends.iter().enumerate() {
            let figures = format!(r#"{{"memory_allocated": "{end} GiB"}}"#);
            fs::write(place.path().join(format!("{night}.json")), figures).unwrap();
        }
        let report = text(&ptmem(place.path(), &["leak", ".", "--device-memory", "80GiB"]).stdout);
        assert_eq!(report.contains("full after 15 more snapshots"), full, "{report}");
        assert_eq!(report.contains("full after"), full, "{report}");
    }
}

/// A terminal leaves out ranks that pass, but neither their warnings nor growth in the line of the verdict.
#[test]
fn ranks_that_pass_keep_their_warnings() {
    let place = tempfile::tempdir().unwrap();
    for (night, rank) in (1..=6_u64).flat_map(|night| (0..4).map(move |rank| (night, rank))) {
        let grown = if rank == 1 { night.saturating_sub(4) } else { 0 };
        let figures = format!(r#"{{"memory_allocated": {}}}"#, (1000 + 20 * grown) << 20);
        fs::write(place.path().join(format!("n{night}-rank{rank}.json")), figures).unwrap();
    }
    assert_reads!(text(&ptmem(place.path(), &["leak", "."]).stdout) => str![[r#"
              device  leaks per snapshot  what leaks most
  ok  rank 1       0                 0 B
  ok  rank 0       0                 0 B
  ok  rank 2       0                 0 B
  ok  rank 3       0                 0 B

PASS all 4 ranks pass; rank 1: nothing leaks so far, but recent growth cannot be judged yet
warning[growth-too-recent] rank 1: allocated bytes rose by 40.00 MiB since ./n4-rank1.json, in each of the last 2 snapshots: too few to distinguish a leak from a single increase; the next ones will show it
"#]]);
    assert_reads!(text(&ptmem(place.path(), &["leak", ".", "--format", "github"]).stdout) => str![[r#"
::warning title=ptmem%3A growth-too-recent::rank 1: device 0: allocated bytes rose by 40.00 MiB since ./n4-rank1.json, in each of the last 2 snapshots: too few to distinguish a leak from a single increase; the next ones will show it
"#]]);
    fs::write(place.path().join("n2-rank3.json"), "{\"memory_allocated\": 1").unwrap();
    assert_reads!(text(&ptmem(place.path(), &["leak", "."]).stdout) => str![[r#"
              device  leaks per snapshot  what leaks most
  ok  rank 1       0                 0 B
  ok  rank 0       0                 0 B
  ok  rank 2       0                 0 B
  ok  rank 3       0                 0 B

PASS all 4 ranks pass; rank 1: nothing leaks so far, but recent growth cannot be judged yet
warning[growth-too-recent] rank 1: allocated bytes rose by 40.00 MiB since ./n4-rank1.json, in each of the last 2 snapshots: too few to distinguish a leak from a single increase; the next ones will show it
warning[files-skipped] rank 3: 1 of 6 files left out because they cannot be compared: ./n2-rank3.json (this looks like JSON, but cannot be read as a saved profile: EOF while parsing an object at line 1 column 22; expected a pickle from torch.cuda.memory._dump_snapshot(), or a saved profile; 'ptmem profile SNAPSHOT -o FILE' saves one)
"#]]);
}

/// Nothing is dropped: what contradicts itself is refused, whichever figure would pass.
#[test]
fn figures_that_contradict_each_other_are_refused() {
    for (name, content, expected) in [
        ("a.json", r#"{"max_memory_allocated": 10737418240, "peak": 1}"#, "peak is 1 B, but the same figure is stated"),
        ("a.json", r#"{"peak": 1, "allocated_bytes": {"all": {"peak": 2}}}"#, "stated as 1 B as well"),
        ("a.json", r#"{"peak": 1, "mem-max-allocated-bytes": {"values": {"1": 9, "2": 3}}}"#, "is 9 B, but"),
        ("a.json", r#"{"peak": 10737418240, "peak": 10737418240}"#, "'peak' occurs twice"),
        ("a.json", r#"{"cuda:0": {"peak": 9}, "cuda:0": {"peak": 1}}"#, "'cuda:0' occurs twice"),
        ("a.json", r#"{"train": {"peak": 9}, "train": {}}"#, "'train' occurs twice"),
        ("a.json", r#"{"peak": {"values": {"1": 9, "1": 3}}}"#, "'peak.values.1' occurs twice"),
        ("a.json", r#"{"cuda:0": {"peak": 9}, "xpu:0": {"peak": 1}}"#, "'xpu:0' occurs twice"),
        ("a.json", r#"{"cuda:1": {"peak": 9}, "cuda:01": {"peak": 1}}"#, "'cuda:01' occurs twice"),
        ("a.json", r#"{"cuda:0": {"peak": 1}, "peak": 9}"#, "it has figures beside devices"),
        ("a.json", r#"{"train": {"peak": 9}, "cuda:0": {"peak": 1}}"#, "it has cases beside figures"),
        ("a.json", r#"{"peak": 1, "train": {"peak": 9}}"#, "it has cases beside figures"),
        ("a.json", r#"{"": {"peak": 9}, "train": {"peak": 1}}"#, "it has cases beside figures"),
        ("a.json", r#"{"train": {"cuda:0": {"peak": 1}, "peak": 9}}"#, "train: it has figures beside devices"),
        ("a.json", r#"{"train": {"peak": 1, "more": {"peak": 9}}}"#, "train.more: a figure that belongs neither"),
        ("a.json", r#"{"peak": 1, "max_memory_allocated": [9]}"#, "expected a number of bytes, found a list"),
        ("a.json", r#"{"peak": {"values": {"1": {"values": [9]}, "2": 1}}}"#, "found an object"),
        ("a.json", r#"{"peak": 1, "end": 2}"#, "the allocated bytes end at 2 B, above their peak of 1 B"),
        (
            "a.json",
            r#"{"train": {"xpu:1": {"reserved": 1, "memory_reserved": 2}}}"#,
            "train: xpu:1: the reserved bytes",
        ),
        ("a.csv", "peak,max_memory_allocated\n1,9\n", "line 2, max_memory_allocated is 9 B"),
        ("a.csv", "peak,peak\n1,9\n", "line 2, peak is 9 B"),
        ("a.csv", "case,peak\nx,1\n,9\n", "it has cases beside figures"),
        ("a.csv", "device,peak\n0,1\ncuda:0,9\n", "'cuda:0' occurs twice"),
        ("a.csv", "peak,end\n1,9\n", "above their peak"),
    ] {
        let folder = folder(&[(name, content)]);
        let output = ptmem(folder.path(), &["check", name, "--max", "1GiB"]);
        assert_eq!(output.status.code(), Some(2), "{content}: {}", text(&output.stdout));
        assert!(text(&output.stderr).contains(expected), "{content}: {}", text(&output.stderr));
    }
}

#[test]
fn a_device_of_which_nothing_is_known_is_inconclusive() {
    for content in [
        r#"{"cuda:0": {"peak": 1}, "cuda:1": {}}"#,
        r#"{"cuda:0": {"peak": 1}, "cuda:1": {"peak": null}}"#,
        r#"{"cuda:0": {"peak": 1}, "cuda:1": {"end": 0}}"#,
        r#"{"x": {"cuda:0": {"peak": 1}, "cuda:1": {"name": "A100"}}}"#,
        r#"{"peak": null}"#,
    ] {
        let folder = folder(&[("a.json", content)]);
        let output = ptmem(folder.path(), &["check", "a.json", "--max", "1GiB"]);
        assert_eq!(output.status.code(), Some(3), "{content}: {}", text(&output.stdout));
    }
}

/// Statistics of other counters and pools have points of the same names.
#[test]
fn all_of_memory_stats_is_read() {
    let nested = r#"{"oversize_allocations": {"current": 0, "peak": 9}, "active": {"all": {"peak": 7}, "large_pool": {"peak": 8}},
        "allocated_bytes": {"all": {"peak": 5, "current": 5}, "small_pool": {"peak": 6}}, "num_ooms": 0}"#;
    assert_eq!(figures(nested, "a.json")[0], [json!(5), json!(5), json!(null)]);
    let devices = format!(r#"{{"cuda:0": {nested}, "cuda:1": {nested}, "ptmem": {{"commit": "peak", "end": 3}}}}"#);
    assert_eq!(figures(&devices, "a.json").len(), 2);
}

#[test]
fn cases_and_devices_are_counted() {
    let cases =
        |count: usize| format!("case,peak\n{}", (0..count).map(|case| format!("c{case},7\n")).collect::<String>());
    let devices = |count: usize| {
        let devices: Vec<String> = (0..count).map(|device| format!(r#""cuda:{device}": {{"peak": 7}}"#)).collect();
        format!("{{{}}}", devices.join(","))
    };
    let table = |count: usize| {
        let rows = (0..count).map(|row| format!("c{},{},7\n", row / 1_000, row % 1_000));
        format!("case,device,peak\n{}", rows.collect::<String>())
    };
    let objects = |count: usize| {
        let cases: Vec<String> = (0..count).map(|case| format!(r#""c{case}": {}"#, devices(1_000))).collect();
        format!("{{{}}}", cases.join(","))
    };
    for (name, content, expected) in [
        ("a.csv", cases(16_385), "it has more than 16384 cases; divide it into several files"),
        ("a.json", devices(1_025), "it has more than 1024 devices; divide it into several files"),
        ("a.csv", table(16_385), "it has more than 16384 devices in all cases; divide it into several files"),
        ("a.json", objects(17), "it has more than 16384 devices in all cases; divide it into several files"),
    ] {
        let folder = folder(&[(name, &content)]);
        let output = ptmem(folder.path(), &["check", name, "--max", "1GiB"]);
        assert_eq!(output.status.code(), Some(2), "{}", text(&output.stdout));
        assert!(text(&output.stderr).contains(expected), "{}", text(&output.stderr));
    }
    for (content, expected) in [(cases(3_000), "PASS all 3000 cases"), (table(16_384), "PASS all 17 cases")] {
        let folder = folder(&[("a.csv", &content)]);
        let output = ptmem(folder.path(), &["check", "a.csv", "--max", "1GiB"]);
        assert!(text(&output.stdout).contains(expected), "{}", text(&output.stdout));
    }
}

#[test]
fn what_states_no_figures_or_has_no_cases_says_so() {
    let folder = folder(&[
        ("a.csv", "case,peek\na,100\n"),
        ("a.json", r#"{"max_memory_allocated": 100}"#),
        ("b.json", r#"{"x": {"max_memory_allocated": 100}, "y": {"max_memory_allocated": 100}}"#),
    ]);
    let recording = fixtures::folder().join("oom.pkl");
    fs::copy(recording, folder.path().join("a.pkl")).unwrap();
    let error = |arguments: &[&str]| {
        let output = ptmem(folder.path(), arguments);
        assert_eq!(output.status.code(), Some(2), "{}", text(&output.stdout));
        text(&output.stderr)
    };
    assert_reads!(error(&["show", "a.csv"]) => str!["error: a.csv: the table cannot be read: its first line names no figure; expected columns such as case,peak, with commas between them"]);
    assert_reads!(error(&["show", "a.json#x"]) => str!["error: a.json: there is no case 'x' in it; it has none"]);
    assert_reads!(error(&["show", "a.pkl#x"]) => str!["error: a.pkl: there is no case 'x' in it; it has none"]);
    assert_reads!(error(&["diff", "b.json", "b.json#x"]) => str!["error: b.json stands for several files or cases, but b.json#x for one; expected several on both sides (a directory, a glob, or a file with cases), or one on each"]);
}

#[test]
fn growth_that_reads_like_a_whole_percentage_says_by_how_much_it_is_beyond() {
    let table = |peak: u64| format!("model, peak\nbert, {peak}\n");
    let folder = folder(&[("a.csv", table(100_000_000).as_str()), ("b.csv", table(105_020_000).as_str())]);
    let output = ptmem(folder.path(), &["diff", "a.csv", "b.csv", "--max-growth", "5%"]);
    assert!(text(&output.stdout).contains("(+5.0 %), allowed 5 %, 19.53 KiB too much"), "{}", text(&output.stdout));
}
