//! The stacks of a result with their bytes, as flame graphs draw them.

use super::Subject;
use super::place::Codes;
use crate::diff::{Row, RowKind, Sides};
use crate::profile::{DeviceProfile, Profile};
use crate::snapshot::StackId;
use crate::stack::Code;
use crate::tree::{self, Frame};
use crate::verdict::{Gate, LeakGate};

/// The stacks of a device.
pub(super) struct Flames {
    /// The rank or comparison, where there are several.
    pub(super) name: Option<String>,
    /// The device, in words.
    pub(super) device: String,
    /// The stacks that have bytes.
    pub(super) stacks: Vec<Weighed>,
}

/// A stack, or a name in its place.
pub(super) struct Weighed {
    /// The outermost frame first.
    pub(super) frames: Vec<Frame>,
    /// Its bytes.
    pub(super) bytes: Weight,
}

/// The bytes of a stack.
#[derive(Clone, Copy)]
pub(super) enum Weight {
    /// Bytes that it holds.
    Held(u64),
    /// Bytes that it holds before and after a change.
    Compared(Sides<u64>),
    /// Bytes that it gains from each snapshot or step to the next.
    Grows(i128),
}

/// The stacks of a result, by device.
pub(super) fn flames(subject: Subject<'_>) -> Vec<Flames> {
    match subject {
        Subject::Gate(gate) => of_gate(gate),
        Subject::Profile(profile, _) => of_profile(None, profile),
        Subject::Ranks(readings) => {
            let all = readings.readings.iter();
            all.flat_map(|reading| of_profile(Some(&reading.member.label), &reading.profile)).collect()
        }
        Subject::Leaks(gate) => of_leaks(gate),
    }
}

fn of_gate(gate: &Gate) -> Vec<Flames> {
    let several = gate.comparisons.len() > 1 || !gate.ranks.is_empty();
    let mut known = Codes::default();
    let mut flames = Vec::new();
    for comparison in &gate.comparisons {
        let codes = known.of(&comparison.diff);
        let name = comparison.name.as_deref().filter(|_| several);
        for device in &comparison.diff.devices {
            let held = device.rows.iter().filter(|row| row.kind != RowKind::PeakElsewhere);
            let stacks = held.map(|row| Weighed {
                frames: frames_of_row(row, &codes),
                bytes: Weight::Compared(Sides { before: row.held.before.bytes, after: row.held.after.bytes }),
            });
            let stacks = stacks.filter(|stack| !matches!(stack.bytes, Weight::Compared(Sides { before: 0, after: 0 })));
            let stacks = stacks.collect();
            flames.push(Flames { name: name.map(str::to_owned), device: device.name(), stacks });
        }
    }
    flames
}

fn of_profile(name: Option<&str>, profile: &Profile) -> Vec<Flames> {
    let code = profile.code();
    let devices = profile.devices.iter();
    devices
        .map(|device| Flames {
            name: name.map(str::to_owned),
            device: format!("device {}", device.device),
            stacks: of_device(device, &code),
        })
        .collect()
}

fn of_device(device: &DeviceProfile, code: &Code<'_>) -> Vec<Weighed> {
    let mut stacks = Vec::new();
    for total in device.listed(0, 1) {
        if total.members.is_empty() {
            stacks.push(Weighed { frames: vec![Frame::named(&*total.label)], bytes: Weight::Held(total.at.bytes) });
        }
        for member in total.members.iter().filter(|member| member.at.bytes > 0) {
            let frames = frames_of(code, member.stack);
            stacks.push(Weighed { frames, bytes: Weight::Held(member.at.bytes) });
        }
    }
    stacks
}

fn of_leaks(gate: &LeakGate) -> Vec<Flames> {
    let several = gate.findings.len() > 1;
    let mut flames = Vec::new();
    for finding in &gate.findings {
        let search = &finding.search;
        let code = search.code();
        for device in &search.devices {
            let stacks = device.leaks.iter().map(|leak| Weighed {
                frames: leak.stack.map_or_else(|| vec![Frame::named(&*leak.label)], |stack| frames_of(&code, stack)),
                bytes: Weight::Grows(leak.bytes_per_step),
            });
            let name = search.name.clone().filter(|_| several);
            flames.push(Flames { name, device: format!("device {}", device.device), stacks: stacks.collect() });
        }
    }
    flames
}

/// The frames of a row, as in the after where it exists there.
fn frames_of_row(row: &Row, codes: &Sides<Code<'_>>) -> Vec<Frame> {
    match (row.stack.after, row.stack.before) {
        (Some(stack), _) => frames_of(&codes.after, stack),
        (None, Some(stack)) => frames_of(&codes.before, stack),
        (None, None) => vec![Frame::named(&*row.label)],
    }
}

fn frames_of(code: &Code<'_>, stack: StackId) -> Vec<Frame> {
    tree::frames(code, stack)
}
