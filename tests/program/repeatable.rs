//! Two runs of one program that differ: a warning within the limits, inconclusive beyond them, and no claim where it is not
//! known that the program is the same.

use std::fs;
#[cfg(target_os = "linux")]
use std::path::Path;

use serde_json::{Value as Json, json};

use crate::support::history::{A, MIB, Tensors, event, frames, free, segment, snapshot, train};
use crate::support::pickle;
#[cfg(target_os = "linux")]
use crate::support::tool::python;
use crate::support::tool::{git, ptmem, text, verdict};

/// What a program ran: its code, and the files that it opened.
fn program(code: &str, opened: Option<&str>) -> Json {
    json!({"code": code, "opened": opened, "arguments": "a", "environment": "e"})
}

/// The exit code of a comparison of two runs whose batches have these sizes, and its report.
fn compared(batches: [u64; 2], programs: [Json; 2], options: &[&str]) -> (i32, String) {
    let place = tempfile::tempdir().unwrap();
    for ((name, batch), program) in ["before.pkl", "after.pkl"].into_iter().zip(batches).zip(programs) {
        let facts = json!({"format": 1, "program": program});
        let value = train(Tensors { batch, loss: MIB, sum: MIB, sums: "add" }).with("ptmem", facts);
        fs::write(place.path().join(name), pickle::write(&value, pickle::Options::default())).unwrap();
    }
    let output = ptmem(place.path(), &[&["diff", "before.pkl", "after.pkl", "-v"], options].concat());
    (verdict(&output).0, text(&output.stdout).to_owned())
}

/// Batches that let the peak grow by about 3.7 %, and 37 %.
const NEARLY: [u64; 2] = [4 * MIB, 5 * MIB];
const FAR: [u64; 2] = [4 * MIB, 14 * MIB];

fn same() -> [Json; 2] {
    [program("c", Some("o")), program("c", Some("o"))]
}

#[test]
fn within_the_limits_it_is_a_warning_with_the_first_allocation_that_differs() {
    let (code, report) = compared(NEARLY, same(), &["--max-growth", "5%"]);
    assert_eq!(code, 0, "{report}");
    assert!(report.contains("warning[not-repeatable]"), "{report}");
    let first = "the first difference is allocation 1: 4.00 MiB before and 5.00 MiB after, in step (train.py:12)";
    assert!(report.contains(first), "{report}");
    assert_eq!(compared(NEARLY, same(), &["--max-growth", "5%", "--strict"]).0, 0);
}

#[test]
fn beyond_the_limits_it_is_inconclusive_whichever_side_is_larger() {
    let (code, report) = compared(FAR, same(), &["--max-growth", "5%"]);
    assert_eq!(code, 3, "{report}");
    assert!(report.contains("both sides ran the same program, and differ by more than the limit allows"), "{report}");
    let [few, many] = FAR;
    assert_eq!(compared([many, few], same(), &["--max-growth", "5%"]).0, 3);
    // An absolute limit is about the after alone.
    assert_eq!(compared(FAR, same(), &["--max", "10MiB"]).0, 1);
}

/// A limit that many stacks or phases pass has the figures of none.
#[test]
fn limits_on_parts_are_inconclusive_whichever_side_is_larger() {
    let [few, many] = FAR;
    for limit in ["stack=5%", "stack:step*=5%", "stack-highest=5%", "phase:forward=5%"] {
        for batches in [[few, many], [many, few]] {
            let (code, report) = compared(batches, same(), &["--max-growth", limit]);
            assert_eq!(code, 3, "{limit}: {report}");
            assert!(report.contains("both sides ran the same program, and differ by more than"), "{limit}: {report}");
        }
    }
    for limit in ["stack=500%", "stack=20MiB", "stack:forward*=0"] {
        assert_eq!(compared([many, few], same(), &["--max-growth", limit]).0, 0, "{limit}");
    }
    assert_eq!(compared([many, few], same(), &["--max-growth", "stack=0", "--min-delta", "20MiB"]).0, 0);
    // Of two limits on all stacks, each is judged by its own.
    for limits in [["stack=1GiB", "stack=5%"], ["stack=5%", "stack=1GiB"]] {
        let options = ["--max-growth", limits[0], "--max-growth", limits[1]];
        assert_eq!(compared([many, few], same(), &options).0, 3, "{limits:?}");
    }
}

/// Steps that leave a block in a reference cycle each. Python's garbage collector frees it in that step, or all of them at the end.
fn steps_with_cycles(in_each: bool) -> pickle::Value {
    let mut events = vec![event("segment_alloc", A, 20 * MIB)];
    let mut left = Vec::new();
    for step in 0..4 {
        events.push(event("alloc", A + step * 5 * MIB, 5 * MIB).with("frames", frames("step")));
        left.extend(free(A + step * 5 * MIB, 5 * MIB));
        if in_each {
            events.append(&mut left);
        }
    }
    events.extend(left);
    let collected = json!([{"device": 0, "blocks": [], "frees": [[0, 4]], "freed": 4}]);
    let facts = json!({"format": 1, "program": program("c", Some("o")), "collected": collected});
    snapshot(vec![segment(A, &[(20 * MIB, false)])], events).with("ptmem", facts)
}

fn lines_with(report: &str, words: &str) -> String {
    report.lines().filter(|line| line.contains(words)).collect::<Vec<_>>().join("\n")
}

#[test]
fn runs_that_differ_by_what_the_garbage_collector_freed_are_not_advised_to_draw_other_numbers() {
    let place = tempfile::tempdir().unwrap();
    for (name, in_each) in [("before.pkl", true), ("after.pkl", false)] {
        let value = pickle::write(&steps_with_cycles(in_each), pickle::Options::default());
        fs::write(place.path().join(name), value).unwrap();
    }
    let output = ptmem(place.path(), &["diff", "before.pkl", "after.pkl", "-v", "--max-growth", "5%"]);
    assert_eq!(verdict(&output).0, 3);
    assert_reads!(lines_with(&text(&output.stdout), "garbage collector") => str![[r#"
INCONCLUSIVE peak: both sides ran the same program, and differ by more than the limit allows, as Python's garbage collector ran at other moments: call gc.collect() in each step, or allow more
warning[not-repeatable] both sides ran the same code and opened the same files of the repository from Python, with the same arguments, environment and versions, and their figures differ: the allocations are the same, and Python's garbage collector, which freed 20.00 MiB before and 20.00 MiB after, ran at other moments
"#]]);
    let again = ptmem(place.path(), &["doctor", "before.pkl", "--again", "after.pkl"]);
    assert_reads!(lines_with(&text(&again.stdout), "collect") => str!["                  -> call gc.collect() in each step, or set limits above the difference: the allocations are the same, and Python's garbage collector ran at other moments"]);
}

#[test]
fn equal_figures_and_programs_that_are_not_known_to_be_the_same_are_told_nothing_of() {
    assert!(!compared([MIB, MIB], same(), &[]).1.contains("not-repeatable"));
    for programs in [
        [program("c", Some("o")), program("d", Some("o"))],
        [program("c", Some("o")), program("c", Some("p"))],
        [program("c", None), program("c", None)],
        [Json::Null, Json::Null],
    ] {
        let (code, report) = compared(FAR, programs, &["--max-growth", "5%"]);
        assert_eq!((code, report.contains("not-repeatable")), (1, false), "{report}");
    }
}

/// A program whose batches have other sizes in each run.
#[cfg(target_os = "linux")]
const DRAWS: &str = "
import json, random, torch
size = json.load(open('config.json')) + json.load(open('local.json')) + random.randrange(1 << 16)
torch.zeros(1 << 20, device='cuda')
torch.zeros(size, device='cuda')
";

/// A change of notes leaves the program the same, and one of a configuration does not.
#[cfg(target_os = "linux")]
#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn a_program_of_torch_that_draws_its_sizes_is_not_repeatable() {
    let place = tempfile::tempdir().unwrap();
    let write = |name: &str, content: &str| fs::write(place.path().join(name), content).unwrap();
    let python = python();
    let record_in = |folder: &Path, name: &str| {
        let file = place.path().join(name);
        let words = ["simulate", "--record", file.to_str().unwrap(), "--", python.to_str().unwrap(), "train.py"];
        let output = ptmem(folder, &words);
        assert!(output.status.success(), "{}", text(&output.stderr));
    };
    let record = |name: &str| record_in(place.path(), name);
    write("train.py", DRAWS);
    write("config.json", "1048576");
    write("NOTES.md", "notes");
    write("local.json", "0");
    write(".gitignore", "local.json");
    git(place.path(), &["init", "--quiet"]);
    git(place.path(), &["add", "."]);
    record("before.pkl");
    write("NOTES.md", "more notes");
    record("after.pkl");
    // A second checkout of the repository, whose .git is a file.
    git(place.path(), &["commit", "--quiet", "--message", "the program"]);
    let linked = tempfile::tempdir().unwrap();
    git(place.path(), &["worktree", "add", "--quiet", "--detach", linked.path().to_str().unwrap()]);
    fs::write(linked.path().join("local.json"), "0").unwrap();
    record_in(linked.path(), "linked.pkl");
    write("config.json", "2097152");
    record("configured.pkl");
    write("config.json", "1048576");
    write("local.json", "1048576");
    record("untracked.pkl");
    let told = |after: &str| text(&ptmem(place.path(), &["diff", "before.pkl", after]).stdout).to_owned();
    for after in ["after.pkl", "linked.pkl"] {
        assert!(told(after).contains("the first difference is allocation 2"), "{}", told(after));
    }
    for after in ["configured.pkl", "untracked.pkl"] {
        assert!(!told(after).contains("not-repeatable"), "{}", told(after));
    }
}
