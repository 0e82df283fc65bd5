//! Folded stacks, as flame graph tools read them: frames from the outermost inwards, and then bytes; of a comparison
//! those of the before and those of the after; of leaks those per snapshot or step.

use super::Subject;
use super::weighed::{Flames, Weighed, Weight, flames};
use crate::diff::Sides;
use crate::text::printable;

pub(super) fn render(subject: Subject<'_>) -> String {
    let mut lines: Vec<String> = flames(subject).iter().flat_map(lines).collect();
    lines.sort();
    lines.concat()
}

fn lines(flames: &Flames) -> Vec<String> {
    // The outermost frames: the name of the rank or comparison where there are several, and the device.
    let device = folded(&flames.device);
    let root = flames.name.as_deref().map_or(device.clone(), |name| format!("{};{device}", folded(name)));
    flames.stacks.iter().map(|stack| line(&root, stack)).collect()
}

fn line(root: &str, stack: &Weighed) -> String {
    let frames: Vec<String> = stack.frames.iter().map(|frame| folded(&frame.text())).collect();
    format!("{root};{} {}\n", frames.join(";"), amount(stack.bytes))
}

fn amount(bytes: Weight) -> String {
    match bytes {
        Weight::Held(bytes) => bytes.to_string(),
        Weight::Compared(Sides { before, after }) => format!("{before} {after}"),
        Weight::Grows(bytes) => bytes.to_string(),
    }
}

/// A frame without the character that ends one.
fn folded(text: &str) -> String {
    printable(text).replace(';', ":")
}
