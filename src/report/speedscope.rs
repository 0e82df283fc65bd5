//! The file format of speedscope: a profile per device whose samples are stacks and whose weights are bytes. A
//! comparison has three: the before, the after, and what grew.

use std::collections::HashMap;

use serde::Serialize;

use super::weighed::{Flames, Weighed, Weight, flames};
use super::{Error, Subject};
use crate::text::printable;
use crate::tree;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct File {
    #[serde(rename = "$schema")]
    schema: &'static str,
    name: &'static str,
    exporter: String,
    active_profile_index: usize,
    shared: Shared,
    profiles: Vec<Profile>,
}

/// Frames that all profiles refer to.
#[derive(Debug, Default, Serialize)]
struct Shared {
    frames: Vec<Frame>,
    #[serde(skip)]
    places: HashMap<Frame, usize>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
struct Frame {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Profile {
    #[serde(rename = "type")]
    kind: &'static str,
    name: String,
    unit: &'static str,
    start_value: u64,
    end_value: u64,
    /// Stacks, the outermost frame first.
    samples: Vec<Vec<usize>>,
    /// Bytes of each.
    weights: Vec<u64>,
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

pub(super) fn render(subject: Subject<'_>) -> Result<String, Error> {
    let mut shared = Shared::default();
    let mut profiles = Vec::new();
    for device in flames(subject) {
        for aspect in Aspect::ALL {
            profiles.extend(profile(&device, aspect, &mut shared));
        }
    }
    // speedscope opens no file without a profile.
    if profiles.is_empty() {
        profiles.push(Profile::new("nothing is held".to_owned()));
    }
    let exporter = format!("ptmem {}", env!("CARGO_PKG_VERSION"));
    let schema = "https://www.speedscope.app/file-format-schema.json";
    let file = File { schema, name: "ptmem", exporter, active_profile_index: 0, shared, profiles };
    Ok(crate::text::printable_json(serde_json::to_string(&file)?) + "\n")
}

/// The stacks of a device under an aspect, the largest first; `None` where it does not apply.
fn profile(device: &Flames, aspect: Aspect, shared: &mut Shared) -> Option<Profile> {
    let mut stacks: Vec<(u64, &Weighed)> =
        device.stacks.iter().filter_map(|stack| Some((aspect.bytes(stack.bytes)?, stack))).collect();
    if stacks.is_empty() {
        return None;
    }
    stacks.retain(|(bytes, _)| *bytes > 0);
    stacks.sort_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
    let name = device.name.as_deref().map_or(String::new(), |name| format!("{}, ", printable(name)));
    let mut profile = Profile::new(format!("{name}{}{}", printable(&device.device), aspect.suffix()));
    for (bytes, stack) in stacks {
        profile.samples.push(stack.frames.iter().map(|frame| shared.place(frame)).collect());
        profile.weights.push(bytes);
        profile.end_value = profile.end_value.saturating_add(bytes);
    }
    Some(profile)
}

impl Profile {
    fn new(name: String) -> Self {
        Self {
            kind: "sampled",
            name,
            unit: "bytes",
            start_value: 0,
            end_value: 0,
            samples: Vec::new(),
            weights: Vec::new(),
        }
    }
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
