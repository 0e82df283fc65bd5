//! Folded stacks, as flame graph tools read them: frames from the outermost inwards, and then bytes; of a comparison
//! those of the before and those of the after; of leaks those per snapshot or step.

use std::io::{self, Write};

use super::Subject;
use super::weighed::{Owner, Weight, visit};
use crate::diff::Sides;
use crate::text::printable;
use crate::tree::Frame;

pub(super) fn write(subject: Subject<'_>, out: &mut dyn Write) -> io::Result<()> {
    let mut lines = Vec::new();
    visit(subject, &mut |owner, frames, bytes| lines.push(line(owner, &frames, bytes)));
    lines.sort_unstable();
    lines.iter().try_for_each(|line| out.write_all(line.as_bytes()))
}

/// The outermost frames are the name of the rank or comparison, where there are several, and the device.
fn line(owner: &Owner, frames: &[Frame], bytes: Weight) -> String {
    let mut line: String = owner.name.iter().map(|name| folded(name) + ";").collect();
    line += &folded(&owner.device);
    frames.iter().for_each(|frame| line += &format!(";{}", folded(&frame.text())));
    line + &format!(" {}\n", amount(bytes))
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
