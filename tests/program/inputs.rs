//! Inputs of another size are told of, and nothing else is called an input; what inputs without a history tell.

use std::fs;

use super::git::Checkout;
use crate::support::history::{A, MIB, Tensors, frames, segment, snapshot, train};
use crate::support::pickle::{self, Value};
use crate::support::tool::{explanation, ptmem, text};

/// The warning about inputs of a comparison.
fn told(before: Tensors, after: Tensors) -> Option<String> {
    told_by("stack", before, after)
}

/// The same with another grouping.
fn told_by(grouping: &str, before: Tensors, after: Tensors) -> Option<String> {
    let place = tempfile::tempdir().unwrap();
    for (name, tensors) in [("before.pkl", before), ("after.pkl", after)] {
        fs::write(place.path().join(name), pickle::write(&train(tensors), pickle::Options::default())).unwrap();
    }
    let output = ptmem(place.path(), &["diff", "before.pkl", "after.pkl", "-v", "--group-by", grouping]);
    let lines = text(&output.stdout);
    assert!(lines.contains("peak"), "{lines}");
    lines.lines().find(|line| line.contains("inputs-differ")).map(str::to_owned)
}

const STEP: Tensors = Tensors { batch: 4 * MIB, loss: 2 * MIB, sum: 3 * MIB, sums: "add" };

#[test]
fn a_batch_of_another_size_is_told_of_with_its_line_and_its_bytes_alone() {
    let line = told(STEP, Tensors { batch: 5 * MIB, ..STEP }).unwrap();
    assert_reads!(line => str!["warning[inputs-differ] step (train.py:12) aten::_to_copy, probably an input, differs in size: 4.00 MiB before and 5.00 MiB after, in 1 allocation ahead of the forward pass"]);
    let slightly = told(STEP, Tensors { batch: 4 * MIB + 512, ..STEP }).unwrap();
    assert_reads!(slightly => str!["warning[inputs-differ] step (train.py:12) aten::_to_copy, probably an input, differs in size: 4.00 MiB before and 4.00 MiB after (+512 B), in 1 allocation ahead of the forward pass"]);
}

/// How a report explains that the batch grew from 4 to 5 MiB and the loss by more, where the change edits one number of code.
fn explained(new: &str) -> String {
    let checkout = Checkout::new("m.py");
    checkout.write("sizes.py", "BATCH = 4\n");
    checkout.commit("sizes");
    checkout.git(&["branch", "--force", "main"]);
    checkout.write("sizes.py", format!("BATCH = {new}\n"));
    for (name, tensors) in [("before.pkl", STEP), ("after.pkl", Tensors { batch: 5 * MIB, loss: 5 * MIB, ..STEP })] {
        fs::write(checkout.path().join(name), pickle::write(&train(tensors), pickle::Options::default())).unwrap();
    }
    explanation(&text(&checkout.ptmem(&["--git", "main", "--max-growth", "0"]).stdout))
}

#[test]
fn the_only_edit_of_a_change_explains_inputs_that_grew_as_its_number() {
    assert_reads!(explained("5") => str!["No stack of the growth at the peak leads to an edit. The only edit of the change that can matter is sizes.py:1 (now `BATCH = 5`) (inferred)."]);
    assert_reads!(explained("7") => str!["Stacks lead from less than half of the growth at the peak to one edit. Edits that can matter: sizes.py:1 (now `BATCH = 7`)."]);
}

#[test]
fn what_the_same_function_makes_otherwise_is_no_input() {
    assert_eq!(told(STEP, Tensors { sum: 3 * MIB + MIB / 2, ..STEP }), None);
}

#[test]
fn a_conversion_in_the_loss_is_no_input() {
    assert_eq!(told(STEP, Tensors { loss: 3 * MIB, ..STEP }), None);
}

#[test]
fn inputs_of_several_lines_are_not_attributed_to_one() {
    let both = Tensors { sums: "_to_copy", ..STEP };
    let line = told_by("function", both, Tensors { batch: 5 * MIB, ..both }).unwrap();
    assert_reads!(line => str!["warning[inputs-differ] step (train.py:12) aten::_to_copy with 1 other stack of its row, probably an input, differs in size: 7.00 MiB before and 8.00 MiB after, in 2 allocations ahead of the forward pass"]);
}

/// A snapshot with `include_traces=False`: segments whose first block is held by a function, and no list of events at all.
fn without_traces(bytes: u64) -> Vec<u8> {
    let mut held = segment(A, &[(bytes, true), (64 * MIB - bytes, false)]);
    let Value::Dict(pairs) = &mut held else { unreachable!() };
    let blocks = pairs.iter_mut().find(|(key, _)| *key == "blocks".into()).unwrap();
    let Value::List(blocks) = &mut blocks.1 else { unreachable!() };
    blocks[0] = blocks[0].clone().with("frames", frames("keep"));
    pickle::write(&snapshot(vec![held], vec![]).with("device_traces", Value::List(vec![])), pickle::Options::default())
}

#[test]
fn without_traces_a_comparison_tells_the_state_and_how_to_record_more() {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("before.pkl"), without_traces(8 * MIB)).unwrap();
    fs::write(place.path().join("after.pkl"), without_traces(12 * MIB)).unwrap();
    let told = |limits: &[&str]| {
        let limits = limits.iter().flat_map(|limit| ["--max-growth", limit]);
        let arguments: Vec<&str> = ["diff", "before.pkl", "after.pkl", "-v"].into_iter().chain(limits).collect();
        let output = ptmem(place.path(), &arguments);
        (output.status.code().unwrap(), text(&output.stdout))
    };
    let (code, report) = told(&[]);
    assert_eq!(code, 0, "{report}");
    for line in [
        "end             8.00 MiB  12.00 MiB  +4.00 MiB",
        "at the dump     active 8.00 MiB -> 12.00 MiB, requested 8.00 MiB -> 12.00 MiB, reserved 64.00 MiB",
        "+4.00 MiB  8.00 MiB  12.00 MiB       1  grew  keep (train.py:7)",
    ] {
        assert!(report.contains(line), "{report}");
    }
    let warning = "the list of traces is empty, as include_traces=False leaves it. Peak and baseline are not known. Record with \
                   torch.cuda.memory._record_memory_history(enabled='all') before the step, and dump before disabling it and \
                   without include_traces=False, to get a history";
    assert_eq!(report.matches(warning).count(), 1, "once for both sides: {report}");
    // Limits of the state are judged, those of the history cannot be.
    assert_eq!(told(&["end=4MiB"]).0, 0);
    assert_eq!(told(&["end=1MiB", "peak=1GiB"]).0, 1);
    for limit in ["peak=1GiB", "reserved=1GiB", "fragmentation=1GiB", "baseline=1GiB", "phase:step=1GiB"] {
        let (code, report) = told(&["end=4MiB", limit]);
        assert_eq!(code, 3, "{limit}: {report}");
    }
}
