//! The file format of speedscope: a profile per device whose samples are stacks and whose weights are bytes. A
//! comparison has three: the before, the after, and what grew.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::io::{self, Write};

use ptmem_base::sides::Sides;
use ptmem_base::text::printable;
use ptmem_compare::tree::Frame;

use super::Subject;
use super::weighed::{Weight, visit};
use ptmem_base::json_writer::{self as json, list, object, one};

object! {
    File<'a>(frames: &'a [Frame], profiles: &'a [ProfileReport<'a>]) {
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        name: "ptmem",
        exporter: concat!("ptmem ", env!("CARGO_PKG_VERSION")),
        activeProfileIndex: 0,
        // Frames that all profiles refer to.
        shared: one("frames", list(frames.iter().map(FrameReport))),
        profiles,
    }
}

object! {
    FrameReport<'a>(frame: &'a Frame) {
        name: printable(&frame.name),
        file?: frame.path.as_deref().map(printable),
        line?: frame.line,
    }
}

object! {
    /// The stacks of a device under an aspect: the bytes and the number of each.
    ProfileReport<'a>(name: &'a str, weighed: &'a [(u64, usize)], stacks: &'a [Vec<usize>]) {
        "type": "sampled",
        name,
        unit: "bytes",
        startValue: 0,
        endValue: weighed.iter().fold(0_u64, |sum, (bytes, _)| sum.saturating_add(*bytes)),
        // The frames of each, the outermost first.
        samples: list(weighed.iter().map(|(_, stack)| &stacks[*stack])),
        weights: list(weighed.iter().map(|(bytes, _)| bytes)),
    }
}

/// The bytes of a stack under the aspects that there are of it, with their names.
fn aspects(weight: Weight) -> Vec<(&'static str, u64)> {
    match weight {
        Weight::Held(bytes) => vec![("", bytes)],
        Weight::Compared(Sides { before, after }) => {
            vec![(", before", before), (", after", after), (", growth", after.saturating_sub(before))]
        }
        Weight::Grows(bytes) => vec![(", growth", bytes)],
    }
}

pub(super) fn write(subject: Subject<'_>, out: &mut dyn Write) -> io::Result<()> {
    let mut shared = Shared::default();
    let mut stacks: Vec<Vec<usize>> = Vec::new();
    let mut profiles: Vec<(String, Vec<(u64, usize)>)> = Vec::new();
    visit(subject, &mut |owner, frames, weight| {
        for (aspect, bytes) in aspects(weight) {
            let name = printable(&owner.join(", ")) + aspect;
            let known = profiles.iter().rposition(|(other, _)| *other == name);
            let at = known.unwrap_or(profiles.len());
            if known.is_none() {
                profiles.push((name, Vec::new()));
            }
            profiles[at].1.extend((bytes > 0).then_some((bytes, stacks.len())));
        }
        stacks.push(frames.into_iter().map(|frame| shared.place(frame)).collect());
    });
    // speedscope opens no file without a profile.
    if profiles.is_empty() {
        profiles.push(("nothing is held".to_owned(), Vec::new()));
    }
    profiles.iter_mut().for_each(|(_, weighed)| weighed.sort_by_key(|(bytes, _)| Reverse(*bytes)));
    let reports: Vec<_> = profiles.iter().map(|(name, weighed)| ProfileReport(name, weighed, &stacks)).collect();
    json::write_line(&File(&shared.frames, &reports), out)
}

/// The frames of all profiles, each once.
#[derive(Default)]
struct Shared {
    frames: Vec<Frame>,
    places: HashMap<Frame, usize>,
}

impl Shared {
    /// The place of a frame in the list of all.
    fn place(&mut self, frame: Frame) -> usize {
        let next = self.frames.len();
        let place = *self.places.entry(frame.clone()).or_insert(next);
        if place == next {
            self.frames.push(frame);
        }
        place
    }
}
