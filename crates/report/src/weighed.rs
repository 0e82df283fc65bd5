//! The stacks of a result with their bytes, as flame graphs draw them, and as folded stacks.

use std::io::{self, Write};

use ptmem_base::text::printable;
use ptmem_compare::diff::{Row, RowKind, Sides};
use ptmem_compare::tree::{self, Frame};
use ptmem_judge::verdict::{Gate, LeakGate};
use ptmem_trace::profile::Profile;
use ptmem_trace::stack::Code;

use super::Subject;
use super::place::Codes;

/// The bytes of a stack.
#[derive(Clone, Copy)]
pub(super) enum Weight {
    /// Bytes that it holds.
    Held(u64),
    /// Bytes that it holds before and after a change.
    Compared(Sides<u64>),
    /// Bytes that it gains from each snapshot or step to the next.
    Grows(u64),
}

/// Takes the stacks of a result, those of one device after those of another: the rank or comparison of each, where there are several,
/// and its device; its frames, the outermost first, or a name in their place.
pub(super) type Visit<'v> = &'v mut dyn FnMut(&[String], Vec<Frame>, Weight);

/// Shows each stack that has bytes. There may be many with many frames: those of one are made at a time.
pub(super) fn visit(subject: Subject<'_>, visit: Visit<'_>) {
    match subject {
        Subject::Gate(gate) => of_gate(gate, visit),
        Subject::Profile(profile, _) => of_profile(None, profile, visit),
        Subject::Ranks(readings) => {
            readings.readings.iter().for_each(|of| of_profile(Some(&of.member.label), &of.profile, visit));
        }
        Subject::Leaks(gate) => of_leaks(gate, visit),
        Subject::History(_) | Subject::Scale(_) => {}
    }
}

fn of_gate(gate: &Gate, visit: Visit<'_>) {
    let several = gate.comparisons.len() > 1 || !gate.ranks.is_empty();
    let mut known = Codes::default();
    for comparison in &gate.comparisons {
        let codes = known.of(&comparison.diff);
        for device in &comparison.diff.devices {
            let name = comparison.name.iter().filter(|_| several).cloned();
            let owner: Vec<String> = name.chain([device.name()]).collect();
            for row in device.rows.iter().filter(|row| row.kind != RowKind::PeakElsewhere) {
                let held = row.held.map(|held| held.bytes);
                if held != Sides::default() {
                    visit(&owner, frames_of_row(row, &codes), Weight::Compared(held));
                }
            }
        }
    }
}

fn of_profile(name: Option<&str>, profile: &Profile, visit: Visit<'_>) {
    let code = profile.code();
    for device in &profile.devices {
        let name = name.map(str::to_owned).into_iter();
        let owner: Vec<String> = name.chain([format!("device {}", device.device)]).collect();
        for total in device.listed(0, 1) {
            if total.members.is_empty() {
                visit(&owner, vec![Frame::named(&*total.label)], Weight::Held(total.at.bytes));
            }
            for member in total.members.iter().filter(|member| member.at.bytes > 0) {
                visit(&owner, tree::frames(&code, member.stack), Weight::Held(member.at.bytes));
            }
        }
    }
}

fn of_leaks(gate: &LeakGate, visit: Visit<'_>) {
    let several = gate.findings.len() > 1;
    for search in gate.findings.iter().map(|finding| &finding.search) {
        let code = search.code();
        for (device, leak) in search.leaks() {
            let name = search.name.iter().filter(|_| several).cloned();
            let owner: Vec<String> = name.chain([format!("device {}", device.device)]).collect();
            let frames = leak.stack.map(|stack| tree::frames(&code, stack));
            let frames = frames.unwrap_or_else(|| vec![Frame::named(&*leak.label)]);
            visit(&owner, frames, Weight::Grows(u64::try_from(leak.bytes_per_step).unwrap_or(0)));
        }
    }
}

/// The frames of a row, as in the after where it exists there.
fn frames_of_row(row: &Row, codes: &Sides<Code<'_>>) -> Vec<Frame> {
    match (row.stack.after, row.stack.before) {
        (Some(stack), _) => tree::frames(&codes.after, stack),
        (None, Some(stack)) => tree::frames(&codes.before, stack),
        (None, None) => vec![Frame::named(&*row.label)],
    }
}

/// Folded stacks, as flame graph tools read them: frames from the outermost inwards, and then bytes; of a comparison
/// those of the before and those of the after; of leaks those per snapshot or step.
pub(super) fn write_folded(subject: Subject<'_>, out: &mut dyn Write) -> io::Result<()> {
    let mut lines = Vec::new();
    visit(subject, &mut |owner, frames, bytes| lines.push(line(owner, &frames, bytes)));
    lines.sort_unstable();
    lines.iter().try_for_each(|line| out.write_all(line.as_bytes()))
}

/// The outermost frames are the name of the rank or comparison, where there are several, and the device.
fn line(owner: &[String], frames: &[Frame], bytes: Weight) -> String {
    let parts = owner.iter().map(|name| folded(name)).chain(frames.iter().map(|frame| folded(&frame.text())));
    format!("{} {}\n", parts.collect::<Vec<_>>().join(";"), amount(bytes))
}

fn amount(bytes: Weight) -> String {
    match bytes {
        Weight::Held(bytes) | Weight::Grows(bytes) => bytes.to_string(),
        Weight::Compared(Sides { before, after }) => format!("{before} {after}"),
    }
}

/// A frame without the character that ends one.
fn folded(text: &str) -> String {
    printable(text).replace(';', ":")
}
