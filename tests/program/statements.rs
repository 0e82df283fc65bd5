//! What a report says of growth is true of the blocks that grew.

use std::fs;

use tempfile::TempDir;

use crate::support::fixtures;
use crate::support::history::{A, KIB, MIB, event, file, free, segment, snapshot};
use crate::support::pickle::{self, Value};
use crate::support::tool::{judged, ptmem, text, verdict};

/// An operator of `forward`, called at a line.
fn called(operator: &str, line: u64) -> Value {
    let frame = |name: &str, filename: &str, line: u64| {
        Value::dict([("name", name.into()), ("filename", filename.into()), ("line", line.into())])
    };
    vec![
        frame(&format!("at::_ops::{operator}::call(at::Tensor const&)"), "??", 0),
        frame("forward", "/repo/net.py", line),
        frame("<module>", "/repo/train.py", 7),
    ]
    .into()
}

/// A recording in which blocks are allocated one after the other, and none is freed.
fn held(blocks: &[(&str, u64, u64)]) -> Vec<u8> {
    let mut next = A;
    let mut events = Vec::new();
    let mut segments = Vec::new();
    for &(operator, line, size) in blocks {
        events.push(event("segment_alloc", next, size));
        events.push(event("alloc", next, size).with("frames", called(operator, line)));
        segments.push(segment(next, &[(size, true)]));
        next += 1 << 32;
    }
    file(segments, events)
}

/// Two recordings of blocks: operator, line and size of each.
fn compared(before: &[(&str, u64, u64)], after: &[(&str, u64, u64)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("before.pkl"), held(before)).unwrap();
    fs::write(folder.path().join("after.pkl"), held(after)).unwrap();
    folder
}

/// The report, its lines joined.
fn report(folder: &TempDir, arguments: &[&str]) -> String {
    let output = ptmem(folder.path(), &[&["diff", "before.pkl", "after.pkl"], arguments].concat());
    text(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn the_place_of_the_peak_is_the_line_of_its_event() {
    // The row of `forward` is named by line 308, where most was allocated; its last event is at line 319.
    let lines = [("softmax", 308, 60 * MIB), ("softmax", 319, 20 * MIB)];
    let folder = compared(&lines[..1], &lines);
    let all = report(&folder, &["--max-growth", "5%"]);
    assert!(all.contains("peak now at forward (net.py:319)"), "{all}");
    let headline = all.split("FAIL ").last().unwrap();
    assert!(headline.starts_with("peak grew 20.00 MiB (+33.3 %), allowed 5 %"), "{all}");
    // One that shrank has no place.
    let folder = compared(&lines, &lines[..1]);
    assert!(!report(&folder, &["--max-growth", "5%"]).contains("peak now at"));
}

#[test]
fn a_ratio_of_sizes_is_told_of_blocks_that_correspond_one_to_one() {
    let one = ("relu", 3, 16 * MIB);
    let other = ("relu", 5, 4 * MIB);
    // Each line allocates twice as much.
    let folder = compared(&[one, other], &[("relu", 3, 32 * MIB), ("relu", 5, 8 * MIB)]);
    assert!(report(&folder, &[]).contains("twice as large"), "{}", report(&folder, &[]));
    for (before, after) in [
        // One more block, none of which is smaller.
        (vec![one, other], vec![one, other, other]),
        // One line of two.
        (vec![one, other], vec![("relu", 3, 32 * MIB), other]),
        // Another operator.
        (vec![("cos", 3, 4 * MIB)], vec![("relu", 3, 16 * MIB)]),
        // Nearly nothing.
        (vec![("relu", 3, 512)], vec![("relu", 3, 16 * MIB)]),
    ] {
        let all = report(&compared(&before, &after), &["--group-by", "function"]);
        assert!(all.contains("grew") && !all.contains(" as large") && !all.contains("smaller"), "{all}");
    }
    // Blocks of one size, of which there are more, and two small ones.
    let mut many = vec![("relu", 3, MIB); 32];
    many.extend([("relu", 4, 4 * KIB); 2]);
    let all = report(&compared(&many[31..], &many), &["--group-by", "function"]);
    assert!(all.contains("11 times as many") && !all.contains("large"), "{all}");
}

#[test]
fn a_limit_that_fails_names_rows_however_small() {
    let blocks: Vec<(String, u64)> = (0..20).map(|at| (format!("op{at}"), 1 + at)).collect();
    let of = |size: u64| -> Vec<(&str, u64, u64)> {
        blocks.iter().map(|(operator, line)| (operator.as_str(), *line, size + line * KIB)).collect()
    };
    let folder = compared(&of(4 * MIB)[..10], &of(4 * MIB));
    let small = ["--group-by", "line", "--min-delta", "8MiB"];
    let all = report(&folder, &[&small[..], &["--max-growth", "5%"]].concat());
    // Half of the growth is that of five of ten rows.
    assert!(all.contains("net.py:20") && all.contains("net.py:16") && all.contains("[5 others]"), "{all}");
    let passes = report(&folder, &[&small[..], &["--max-growth", "200%"]].concat());
    assert!(!passes.contains("net.py:20 ") && passes.contains("[10 others]"), "{passes}");
}

#[test]
fn growth_away_from_the_peak_is_named_by_its_stacks() {
    let peak = [("relu", 3, 64 * MIB)];
    let folder = tempfile::tempdir().unwrap();
    for (name, kept) in [("before.pkl", 0), ("after.pkl", 3 * MIB)] {
        let mut events = vec![event("segment_alloc", A, 200 * MIB)];
        events.push(event("alloc", A, peak[0].2).with("frames", called("relu", 3)));
        events.extend(free(A, peak[0].2));
        let small = [("cos", 8, 2 * MIB), ("sin", 9, kept)];
        let mut blocks = Vec::new();
        for (operator, line, size) in small.into_iter().filter(|(.., size)| *size > 0) {
            let at = A + blocks.iter().map(|(size, _)| size).sum::<u64>();
            events.push(event("alloc", at, size).with("frames", called(operator, line)));
            blocks.push((size, true));
        }
        blocks.push((200 * MIB - blocks.iter().map(|(size, _)| size).sum::<u64>(), false));
        fs::write(folder.path().join(name), file(vec![segment(A, &blocks)], events)).unwrap();
    }
    let all = report(&folder, &["--max-growth", "end=1%"]);
    let expected =
        "end grew 3.00 MiB (+150.0 %), allowed 1 % (largest growth there: forward (net.py:9) aten::sin +3.00 MiB)";
    assert!(all.contains(expected), "{all}");
    assert!(all.contains("no stack changed at the peak") && !all.contains("categories"), "{all}");
}

/// The diagnostics of a snapshot.
fn remarks(snapshot: &Value) -> String {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("made.pkl"), pickle::write(snapshot, pickle::Options::default())).unwrap();
    let output = ptmem(folder.path(), &["show", "made.pkl", "-v"]);
    text(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn keys_and_actions_that_are_not_known_are_named() {
    let whole = segment(A, &[(20 * MIB, true)]).with("new_of_segment", 1);
    let made = |action| vec![event("segment_alloc", A, 20 * MIB), event("alloc", A, 20 * MIB).with(action, 3)];
    let known = snapshot(vec![segment(A, &[(20 * MIB, true)])], made("internal_metadata")).with("categories", 3);
    assert!(!remarks(&known).contains("not-read"), "{}", remarks(&known));
    let mut events = made("new_of_event");
    events.extend([event("rename", A, 0), event("rename", A, 0), event("annotate", A, 0)]);
    let all = remarks(&snapshot(vec![whole], events).with("new_of_file", 2));
    let expected = "note[not-read] not read, because this version does not know it or its form: key 'new_of_file' of the file, \
                    key 'new_of_segment' of segments, key 'new_of_event' of events, action 'rename' of 2 events";
    assert!(all.contains(expected), "{all}");
    // A frame without a name and a line.
    let frames = Value::List(vec![Value::dict([("filename", "a.py".into())])]);
    let events = vec![event("segment_alloc", A, 20 * MIB), event("alloc", A, 20 * MIB).with("frames", frames)];
    let all = remarks(&snapshot(vec![segment(A, &[(20 * MIB, true)])], events));
    assert!(all.contains("or its form: key 'frames' of events"), "{all}");
}

#[test]
fn a_file_of_pinned_host_memory_alone_has_no_device() {
    let host = snapshot(vec![], vec![]).with("host_segments", vec![segment(A, &[(20 * MIB, true)])]);
    let all = remarks(&host);
    assert!(all.contains("pinned host memory") && !all.contains("device 0"), "{all}");
    assert!(all.contains("reserved unknown unknown unknown 20.00 MiB"), "{all}");
}

#[test]
fn the_change_that_explains_most_of_a_growth_comes_first() {
    // 2 blocks of 4 MiB, then 3 of 16 MiB in all but one.
    let folder =
        compared(&[("relu", 3, 4 * MIB); 2], &[("relu", 3, 16 * MIB), ("relu", 3, 16 * MIB), ("relu", 3, 13 * MIB)]);
    let all = report(&folder, &["--group-by", "function", "--max-growth", "5%"]);
    assert!(all.contains("blocks on average 3.75 times as large, 1.5 times as many"), "{all}");
    // The last line names what grew most.
    let line = ptmem(folder.path(), &["diff", "before.pkl", "after.pkl", "--max-growth", "5%"]);
    assert_reads!(judged(verdict(&line)) => str!["1: FAIL peak grew 37.00 MiB (+462.5 %), allowed 5 %, most by forward (net.py:3) aten::relu (+37.00 MiB)"]);
}

#[test]
fn a_figure_that_reads_like_its_limit_says_by_how_much_it_is_beyond() {
    let judge = |arguments: &[&str]| judged(verdict(&ptmem(&fixtures::folder(), arguments)));
    assert_reads!(judge(&["leak", "drip.pkl", "--max-leak", "4095B"]) => str!["1: FAIL train_step (train.py:32) aten::stack leaks 4.00 KiB per step, in 18 of 18 steps, allowed 4.00 KiB per step, 1 B too much"]);
    assert_reads!(judge(&["diff", "before.pkl", "after.pkl", "--max-growth", "19.2%"]) => str!["1: FAIL peak grew 53.80 MiB (+19.2 %), allowed 19.2 %, 14.44 KiB too much, most by attention (model.py:40) aten::_softmax (+53.74 MiB)"]);
    let headroom = ["check", "after.pkl", "--device-memory", "400MiB", "--min-headroom", "27262977B"];
    assert_reads!(judge(&headroom) => str!["1: FAIL headroom is 26.00 MiB: 374.00 MiB of 400.00 MiB reserved at the peak, overhead unknown, at least 26.00 MiB must be left, 1 B too little"]);
}
