//! Folded stacks, as flame graph tools read them.

use std::io::{self, Write};

use ptmem_base::text::printable;
use ptmem_compare::diff::{Row, RowKind, Sides};
use ptmem_compare::tree::{self, Frame};
use ptmem_judge::verdict::{Gate, LeakGate};
use ptmem_trace::profile::Profile;
use ptmem_trace::stack::Code;

use super::Subject;
use super::place::Codes;

/// Writes a line per stack that has bytes: frames from the outermost inwards, and then bytes; of a comparison those of the
/// before and those of the after; of leaks those per snapshot or step.
pub(super) fn write(subject: Subject<'_>, out: &mut dyn Write) -> io::Result<()> {
    let mut lines = match subject {
        Subject::Gate(gate) => of_gate(gate),
        Subject::Profile(profile, _) => of_profile(None, profile),
        Subject::Ranks(readings) => {
            readings.readings.iter().flat_map(|of| of_profile(Some(&of.member.label), &of.profile)).collect()
        }
        Subject::Leaks(gate) => of_leaks(gate),
        Subject::History(_) | Subject::Scale(_) | Subject::Settings(_) => Vec::new(),
    };
    lines.sort_unstable();
    lines.iter().try_for_each(|line| out.write_all(line.as_bytes()))
}

fn of_gate(gate: &Gate) -> Vec<String> {
    let mut lines = Vec::new();
    let several = gate.only_pair().is_none();
    let mut known = Codes::default();
    for comparison in gate.comparisons() {
        let codes = known.of(&comparison.diff);
        for device in &comparison.diff.devices {
            let name = comparison.name.iter().filter(|_| several).cloned();
            let owner: Vec<String> = name.chain([device.name()]).collect();
            for row in device.rows.iter().filter(|row| row.kind != RowKind::PeakElsewhere) {
                let held = row.held.map(|held| held.bytes);
                if held != Sides::default() {
                    let bytes = format!("{} {}", held.before, held.after);
                    lines.push(line(&owner, &frames_of_row(row, &codes), &bytes));
                }
            }
        }
    }
    lines
}

fn of_profile(name: Option<&str>, profile: &Profile) -> Vec<String> {
    let mut lines = Vec::new();
    let code = profile.code();
    for device in &profile.devices {
        let name = name.map(str::to_owned).into_iter();
        let owner: Vec<String> = name.chain([format!("device {}", device.device)]).collect();
        for total in device.listed(0, 1) {
            if total.members.is_empty() {
                lines.push(line(&owner, &[Frame::named(&*total.label)], &total.at.bytes.to_string()));
            }
            for member in total.members.iter().filter(|member| member.at.bytes > 0) {
                lines.push(line(&owner, &tree::frames(&code, member.stack), &member.at.bytes.to_string()));
            }
        }
    }
    lines
}

fn of_leaks(gate: &LeakGate) -> Vec<String> {
    let mut lines = Vec::new();
    let several = gate.findings.len() > 1;
    for search in gate.findings.iter().map(|finding| &finding.search) {
        let code = search.code();
        for (device, leak) in search.leaks() {
            let name = search.name.iter().filter(|_| several).cloned();
            let owner: Vec<String> = name.chain([format!("device {}", device.device)]).collect();
            let frames = leak.stack.map(|stack| tree::frames(&code, stack));
            let frames = frames.unwrap_or_else(|| vec![Frame::named(&*leak.label)]);
            lines.push(line(&owner, &frames, &leak.bytes_per_step.max(0).to_string()));
        }
    }
    lines
}

/// The frames of a row, as in the after where it exists there.
fn frames_of_row(row: &Row, codes: &Sides<Code<'_>>) -> Vec<Frame> {
    match (row.stack.after, row.stack.before) {
        (Some(stack), _) => tree::frames(&codes.after, stack),
        (None, Some(stack)) => tree::frames(&codes.before, stack),
        (None, None) => vec![Frame::named(&*row.label)],
    }
}

/// The outermost frames are the name of the rank or comparison, where there are several, and the device.
fn line(owner: &[String], frames: &[Frame], bytes: &str) -> String {
    let parts = owner.iter().map(|name| folded(name)).chain(frames.iter().map(|frame| folded(&frame.text())));
    format!("{} {}\n", parts.collect::<Vec<_>>().join(";"), bytes)
}

/// A frame without the character that ends one.
fn folded(text: &str) -> String {
    printable(text).replace(';', ":")
}
