//! The file format of speedscope: a profile per device whose samples are stacks and whose weights are bytes. A
//! comparison has three: the before, the after, and what grew.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::io::{self, Write};

use serde::{Serialize, Serializer};

use super::Subject;
use super::weighed::{Owner, Weight, visit};
use crate::json_writer::{self as json, list, object, one};
use crate::text::printable;
use crate::tree;

object! {
    File<'a>(frames: &'a [Frame], profiles: &'a [Profile<'a>]) {
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        name: "ptmem",
        exporter: concat!("ptmem ", env!("CARGO_PKG_VERSION")),
        activeProfileIndex: 0,
        // Frames that all profiles refer to.
        shared: one("frames", frames),
        profiles,
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
struct Frame {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
}

/// The stacks of a device under an aspect, the largest first.
struct Profile<'a> {
    name: String,
    /// Bytes and frames of each, the outermost frame first.
    stacks: Vec<(u64, &'a [usize])>,
}

impl Serialize for Profile<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        ProfileReport(&self.name, &self.stacks).serialize(serializer)
    }
}

object! {
    ProfileReport<'a>(name: &'a str, stacks: &'a [(u64, &'a [usize])]) {
        "type": "sampled",
        name,
        unit: "bytes",
        startValue: 0,
        endValue: stacks.iter().fold(0_u64, |sum, (bytes, _)| sum.saturating_add(*bytes)),
        samples: list(stacks.iter().map(|(_, frames)| frames)),
        weights: list(stacks.iter().map(|(bytes, _)| bytes)),
    }
}

/// One of the profiles of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Aspect {
    Held,
    Before,
    After,
    Growth,
}

impl Aspect {
    const ALL: [Self; 4] = [Self::Held, Self::Before, Self::After, Self::Growth];

    fn suffix(self) -> &'static str {
        match self {
            Self::Held => "",
            Self::Before => ", before",
            Self::After => ", after",
            Self::Growth => ", growth",
        }
    }

    /// The bytes of a stack under this aspect; `None` where it has none.
    fn bytes(self, weight: Weight) -> Option<u64> {
        match (self, weight) {
            (Self::Held, Weight::Held(bytes)) => Some(bytes),
            (Self::Before, Weight::Compared(sides)) => Some(sides.before),
            (Self::After, Weight::Compared(sides)) => Some(sides.after),
            (Self::Growth, Weight::Compared(sides)) => Some(sides.after.saturating_sub(sides.before)),
            (Self::Growth, Weight::Grows(bytes)) => Some(u64::try_from(bytes).unwrap_or(0)),
            (Self::Held | Self::Before | Self::After, _) | (Self::Growth, Weight::Held(_)) => None,
        }
    }
}

pub(super) fn write(subject: Subject<'_>, out: &mut dyn Write) -> io::Result<()> {
    let mut shared = Shared::default();
    let mut devices: Vec<Device> = Vec::new();
    visit(subject, &mut |owner, frames, bytes| {
        if devices.last().is_none_or(|device| device.owner != *owner) {
            devices.push(Device { owner: owner.clone(), stacks: Vec::new() });
        }
        if let Some(device) = devices.last_mut() {
            device.stacks.push((frames.iter().map(|frame| shared.place(frame)).collect(), bytes));
        }
    });
    let profiles =
        devices.iter().flat_map(|device| Aspect::ALL.into_iter().filter_map(|aspect| device.profile(aspect)));
    let mut profiles: Vec<Profile<'_>> = profiles.collect();
    // speedscope opens no file without a profile.
    if profiles.is_empty() {
        profiles.push(Profile { name: "nothing is held".to_owned(), stacks: Vec::new() });
    }
    json::write_line(&File(&shared.frames, &profiles), out)
}

/// The stacks of a device.
struct Device {
    owner: Owner,
    /// The numbers of their frames, and their bytes.
    stacks: Vec<(Vec<usize>, Weight)>,
}

impl Device {
    /// Its stacks under an aspect; `None` where it does not apply.
    fn profile(&self, aspect: Aspect) -> Option<Profile<'_>> {
        let stacks = self.stacks.iter().filter_map(|(frames, bytes)| Some((aspect.bytes(*bytes)?, &**frames)));
        let mut stacks: Vec<(u64, &[usize])> = stacks.collect();
        if stacks.is_empty() {
            return None;
        }
        stacks.retain(|(bytes, _)| *bytes > 0);
        stacks.sort_by_key(|(bytes, _)| Reverse(*bytes));
        let scope: String = self.owner.name.iter().map(|name| format!("{}, ", printable(name))).collect();
        Some(Profile { name: format!("{scope}{}{}", printable(&self.owner.device), aspect.suffix()), stacks })
    }
}

/// The frames of all profiles, each once.
#[derive(Default)]
struct Shared {
    frames: Vec<Frame>,
    places: HashMap<Frame, usize>,
}

impl Shared {
    /// The place of a frame in the list of all.
    fn place(&mut self, frame: &tree::Frame) -> usize {
        let frame =
            Frame { name: printable(&frame.name), file: frame.path.as_deref().map(printable), line: frame.line };
        let next = self.frames.len();
        let place = *self.places.entry(frame.clone()).or_insert(next);
        if place == next {
            self.frames.push(frame);
        }
        place
    }
}
