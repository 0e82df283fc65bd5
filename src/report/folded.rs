//! Folded stacks, as flame graph tools read them: frames from the outermost inwards, and then bytes; of a comparison
//! those of the before and those of the after; of leaks those per snapshot or step.

use super::Subject;
use super::place::Codes;
use crate::diff::{Row, Sides};
use crate::profile::{DeviceProfile, Profile};
use crate::snapshot::StackId;
use crate::stack::Code;
use crate::text::printable;
use crate::tree;
use crate::verdict::{Gate, LeakGate};

pub(super) fn render(subject: Subject<'_>) -> String {
    let mut lines = Vec::new();
    match subject {
        Subject::Gate(gate) => add_gate(&mut lines, gate),
        Subject::Profile(profile, _) => add_profile(&mut lines, None, profile),
        Subject::Ranks(readings) => {
            for reading in &readings.readings {
                add_profile(&mut lines, Some(&reading.member.label), &reading.profile);
            }
        }
        Subject::Leaks(gate) => add_leaks(&mut lines, gate),
    }
    lines.sort();
    lines.iter().map(|line| format!("{line}\n")).collect()
}

fn add_gate(lines: &mut Vec<String>, gate: &Gate) {
    let several = gate.comparisons.len() > 1 || !gate.ranks.is_empty();
    let mut known = Codes::default();
    for comparison in &gate.comparisons {
        let codes = known.of(&comparison.diff);
        let name = comparison.name.as_deref().filter(|_| several);
        for device in &comparison.diff.devices {
            let root = root(name, &device.name());
            for row in &device.rows {
                let (before, after) = (row.held.before.bytes, row.held.after.bytes);
                if before > 0 || after > 0 {
                    lines.push(format!("{root};{} {before} {after}", path_of_row(row, &codes)));
                }
            }
        }
    }
}

fn add_profile(lines: &mut Vec<String>, name: Option<&str>, profile: &Profile) {
    let code = profile.code();
    for device in &profile.devices {
        let root = root(name, &device_name(device));
        for total in device.listed(0, 1) {
            if total.members.is_empty() {
                lines.push(format!("{root};{} {}", folded(&total.label), total.at.bytes));
            }
            for member in total.members.iter().filter(|member| member.at.bytes > 0) {
                lines.push(format!("{root};{} {}", path(&code, member.stack), member.at.bytes));
            }
        }
    }
}

fn add_leaks(lines: &mut Vec<String>, gate: &LeakGate) {
    let several = gate.findings.len() > 1;
    for finding in &gate.findings {
        let search = &finding.search;
        let code = search.code();
        let name = search.name.as_deref().filter(|_| several);
        for (device, leak) in search.leaks() {
            let root = root(name, &format!("device {}", device.device));
            let path = leak.stack.map_or_else(|| folded(&leak.label), |stack| path(&code, stack));
            lines.push(format!("{root};{path} {}", leak.bytes_per_step));
        }
    }
}

fn device_name(device: &DeviceProfile) -> String {
    format!("device {}", device.device)
}

/// The outermost frames: the name of the comparison where there are several, and the device.
fn root(name: Option<&str>, device: &str) -> String {
    match name {
        Some(name) => format!("{};{}", folded(name), folded(device)),
        None => folded(device),
    }
}

/// The frames of a row, as in the after where it exists there.
fn path_of_row(row: &Row, codes: &Sides<Code<'_>>) -> String {
    match (row.stack.after, row.stack.before) {
        (Some(stack), _) => path(&codes.after, stack),
        (None, Some(stack)) => path(&codes.before, stack),
        (None, None) => folded(&row.label),
    }
}

fn path(code: &Code<'_>, stack: StackId) -> String {
    let frames: Vec<_> = tree::frames(code, stack).iter().map(|frame| folded(&frame.text())).collect();
    frames.join(";")
}

/// A frame without the character that ends one.
fn folded(text: &str) -> String {
    printable(text).replace(';', ":")
}
