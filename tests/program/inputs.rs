//! Inputs of another size are told of, and nothing else is called an input.

use std::fs;

use crate::support::history::{MIB, Tensors, train};
use crate::support::pickle;
use crate::support::tool::{ptmem, text};

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
    let expected =
        "step (train.py:12) aten::_to_copy, probably an input, differs in size: 4.00 MiB before and 5.00 MiB";
    assert!(line.contains(expected), "{line}");
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
    let expected = "step (train.py:12) aten::_to_copy with 1 other stack of its row, probably an input, differs in size: \
                    7.00 MiB before and 8.00 MiB";
    assert!(line.contains(expected), "{line}");
}
