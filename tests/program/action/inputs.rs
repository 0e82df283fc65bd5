//! The inputs on their way to the tool.

use std::fs;

use serde_json::Value;

use super::run::{arguments, could_not_run, gate, recorded, verdict};
use super::{root, skipped};

#[test]
fn every_input_becomes_one_argument() {
    if skipped() {
        return;
    }
    let mut job = recorded("exit 2");
    job.set("PTMEM_BEFORE", "main run/before.pkl")
        .set("PTMEM_AFTER", "--exit-zero")
        .set("PTMEM_MAX_GROWTH", "\n  5%\t\r\n\nreserved=5%+128MiB  \n stack:*a b*=0")
        .set("PTMEM_CONFIG", "a b.toml")
        .set("PTMEM_EXIT_ZERO", "true")
        .set("PTMEM_ARGS", "--strict --grep 'a  b' \\\n --grep \"it's\"\\ x\n--top 5 ''\r\n")
        .set("PTMEM_SARIF", "out/a b.sarif")
        .set("PTMEM_COMMENT_KEY", "large/v2");
    job.run("run.sh").says(0, "could not run");
    assert_eq!(
        arguments(&job),
        "[diff][main run/before.pkl][./--exit-zero][--max-growth][5%][--max-growth][reserved=5%+128MiB]\
         [--max-growth][stack:*a b*=0][--config][a b.toml][--exit-zero][--strict][--grep][a  b]\
         [--grep][it's x][--top][5][]"
    );
    let all = job.read("arguments");
    let exports: Vec<_> = all.lines().filter(|line| line.contains('=') && line.contains("/ptmem.")).collect();
    assert_eq!(exports.len(), 5, "{all}");
    assert!(all.ends_with("[--export]\n[sarif=out/a b.sarif]\n[--comment-key]\n[large/v2]\n"), "{all}");
}

#[test]
fn nothing_of_an_input_is_evaluated() {
    if skipped() {
        return;
    }
    let name = "a $(touch pwned) `touch pwned` ; touch pwned & \"q\" 'r' *.pkl";
    // The real tool reads a file of this name and finds the regression.
    let mut job = gate("before.pkl", "after.pkl");
    fs::rename(job.path("workspace/after.pkl"), job.path("workspace").join(name)).unwrap();
    job.set("PTMEM_AFTER", name).run("run.sh").says(0, "device 0");
    assert_eq!(job.outputs()["verdict"], "regression");
    assert!(!job.path("workspace/pwned").exists());
    // All inputs at once, as they reach the tool.
    let mut job = recorded("exit 2");
    let words = "--grep $(touch${IFS}pwned) `touch pwned` ; touch pwned & *";
    job.set("PTMEM_BEFORE", name).set("PTMEM_AFTER", name).set("PTMEM_MAX_GROWTH", name);
    job.set("PTMEM_CONFIG", name).set("PTMEM_SARIF", name).set("PTMEM_ARGS", words).run("run.sh");
    assert_eq!(
        arguments(&job),
        format!(
            "[diff][{name}][{name}][--max-growth][{name}][--config][{name}][--grep][$(touch${{IFS}}pwned)]\
             [`touch][pwned`][;][touch][pwned][&][*]"
        )
    );
    assert!(!job.path("workspace/pwned").exists());
}

#[test]
fn the_text_of_the_tool_commands_nothing() {
    if skipped() {
        return;
    }
    let script = "echo '::add-mask::out'\necho '::error::err' >&2\nprintf '::warning::no end of line'\nexit 2";
    let mut job = recorded(script);
    job.set("PTMEM_BEFORE", "a").set("PTMEM_AFTER", "b").set("GITHUB_ACTIONS", "true");
    let mut seen = Vec::new();
    for _ in 0..2 {
        let finished = job.run("run.sh");
        let lines: Vec<_> = finished.log.lines().collect();
        let word = lines[0].strip_prefix("::stop-commands::").unwrap();
        assert_eq!(lines[1..4], ["::add-mask::out", "::error::err", "::warning::no end of line"]);
        assert_eq!(lines[4], format!("::{word}::"));
        assert!(word.len() > 32, "{word}");
        seen.push(word.to_owned());
    }
    assert_ne!(seen[0], seen[1]);
}

#[test]
fn no_input_makes_an_output() {
    if skipped() {
        return;
    }
    let more = "after.pkl\nexit-code=0\nverdict=pass\napproved=true\nverdict<<x\npass\nx";
    let mut job = gate("before.pkl", "after.pkl");
    fs::copy(root().join("fixtures/after.pkl"), job.path("workspace").join(more)).unwrap();
    job.set("PTMEM_AFTER", more).run("run.sh").says(0, "device 0");
    let outputs = job.outputs();
    assert_eq!([&outputs["verdict"], &outputs["exit-code"], &outputs["approved"]], ["regression", "1", "false"]);
    assert_eq!(verdict(&mut job), 1);
    // Neither does one of a run that cannot take place.
    let mut job = gate("before.pkl", "after.pkl");
    job.set("PTMEM_BEFORE", "a\nverdict=pass\nexit-code=0").run("run.sh");
    could_not_run(&job);
}

#[test]
fn several_files_are_one_line_in_the_outputs() {
    if skipped() {
        return;
    }
    let mut job = gate("", "");
    let steps = ["step-100.pkl", "step-200.pkl", "step-300.pkl"];
    for step in steps {
        fs::copy(root().join("fixtures/no-leak-series").join(step), job.path("workspace").join(step)).unwrap();
    }
    job.set("PTMEM_COMMAND", "leak").set("PTMEM_MAX_GROWTH", "").set("PTMEM_AFTER", format!(" {}\n", steps.join("\n")));
    job.run("run.sh").says(0, "PASS nothing leaks");
    let outputs = job.outputs();
    assert_eq!(serde_json::from_str::<Vec<String>>(&outputs["after"]).unwrap(), steps);
    assert_eq!((outputs["verdict"].as_str(), outputs["before"].as_str()), ("pass", ""));
}

#[test]
fn growth_is_approved_by_a_label_alone() {
    if skipped() {
        return;
    }
    let mut job = gate("before.pkl", "after.pkl");
    job.set("PTMEM_ARGS", "--exit-zero").run("run.sh").says(0, "set the input exit-zero to true");
    could_not_run(&job);
    let mut job = gate("before.pkl", "after.pkl");
    job.set("PTMEM_ARGS", "--exit-zero=").run("run.sh");
    assert_ne!(job.outputs().get("approved").map(String::as_str), Some("true"));
}

#[test]
fn annotations_and_summary_can_be_left_out() {
    if skipped() {
        return;
    }
    let mut job = gate("before.pkl", "after.pkl");
    job.set("PTMEM_ANNOTATIONS", "false").set("PTMEM_SUMMARY", "false").set("PTMEM_SARIF", "result.sarif");
    let finished = job.run("run.sh");
    finished.is_quiet();
    assert_eq!(job.read("summary"), "");
    assert_eq!(job.outputs()["verdict"], "regression");
    let sarif: Value = serde_json::from_str(&job.read("workspace/result.sarif")).unwrap();
    assert!(sarif.is_object());
}

#[test]
fn paths_are_relative_to_the_working_directory() {
    if skipped() {
        return;
    }
    let mut job = gate("before.pkl", "after.pkl");
    job.set("PTMEM_WORKING_DIRECTORY", "sub folder").run("run.sh").says(0, "the folder 'sub folder' does not exist");
    assert_eq!(verdict(&mut job), 2);
    fs::create_dir(job.path("workspace/sub folder")).unwrap();
    for name in ["before.pkl", "after.pkl"] {
        fs::rename(job.path("workspace").join(name), job.path("workspace/sub folder").join(name)).unwrap();
    }
    job.run("run.sh").says(0, "device 0");
    assert_eq!(verdict(&mut job), 1);
}

#[test]
fn a_suite_takes_the_place_of_the_files() {
    if skipped() {
        return;
    }
    for words in ["--suite large", "--strict --suite=large"] {
        let mut job = recorded("exit 2");
        job.set("PTMEM_ARGS", words).run("run.sh").says(0, "its message is in the log");
        assert_eq!(arguments(&job), format!("[diff][{}]", words.replace(' ', "][")));
    }
}

#[test]
fn inputs_that_mean_nothing_say_what_is_accepted() {
    if skipped() {
        return;
    }
    let cases = [
        ("PTMEM_COMMENT", "foo", "comment: 'foo' is not accepted; expected one of: auto, always, on-change, never"),
        ("PTMEM_SUMMARY", "yes", "summary: 'yes' is not accepted; expected one of: true, false"),
        ("PTMEM_ANNOTATIONS", "1", "annotations: '1' is not accepted; expected one of: true, false"),
        ("PTMEM_EXIT_ZERO", "a%\n::b", "exit-zero: 'a%25%0A::b' is not accepted; expected one of: true, false"),
        ("PTMEM_COMMENT_KEY", "-->", "comment-key: '-->' is not accepted; expected letters, digits and"),
        ("PTMEM_ARGS", "--at 'peak", "args: cannot be split into words; is a quote not closed?"),
        ("PTMEM_BEFORE", "", "before and after: both are needed"),
    ];
    for (name, value, message) in cases {
        let mut job = recorded("exit 0");
        job.set("PTMEM_BEFORE", "a").set("PTMEM_AFTER", "b").set(name, value);
        job.run("run.sh").says(0, &format!("::error::ptmem: {message}"));
        could_not_run(&job);
        assert_eq!(job.outputs().contains_key("report-markdown"), name != "PTMEM_COMMENT_KEY");
        assert_eq!(verdict(&mut job), 2, "{name}");
        assert!(!job.path("arguments").exists(), "{name}");
    }
    let mut job = recorded("exit 0");
    job.run("run.sh").says(0, "before and after: these inputs are required, unless args holds --suite");
    assert_eq!(verdict(&mut job), 2);
}
