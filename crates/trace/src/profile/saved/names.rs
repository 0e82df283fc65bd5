//! Names for the frames in the file.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::super::DeviceProfile;
use crate::snapshot::{Frame, FrameId, Tables};
use crate::stack::{Code, Owner};
use crate::trace::fold::free_name;

/// The frames of the file: those of each function under the name that it has there.
#[derive(Default)]
pub(super) struct FrameNames {
    pub(super) functions: BTreeMap<String, Vec<FrameId>>,
    names: HashMap<FrameId, String>,
}

/// The name of a frame of a function: those that differ in their line alone are numbered.
pub(super) fn frame_name(function: &str, number: usize) -> String {
    if number == 0 { function.to_owned() } else { format!("{function}.{number}") }
}

impl FrameNames {
    /// Names for the frames of the stacks. Frames of the user always stay: the names of files depend on
    /// which other files there are.
    pub(super) fn new(code: &Code<'_>, devices: &[DeviceProfile]) -> Self {
        let tables = code.tables();
        let mut frames = kept_frames(code, devices);
        frames.sort_by_cached_key(|&frame| Content::new(tables, frame));
        let mut all = Self::default();
        let mut taken = HashSet::new();
        for frames in frames.chunk_by(|&a, &b| Content::new(tables, a).function() == Content::new(tables, b).function())
        {
            let (name, filename) = Content::new(tables, frames[0]).function();
            let function = free_name(&[name, filename], 4, |name| taken.contains(name));
            taken.insert(function.clone());
            let names = frames.iter().enumerate().map(|(number, &frame)| (frame, frame_name(&function, number)));
            all.names.extend(names);
            all.functions.insert(function, frames.to_vec());
        }
        all
    }

    pub(super) fn get(&self, frame: FrameId) -> Option<&str> {
        self.names.get(&frame).map(String::as_str)
    }
}

/// The frames that get a name.
fn kept_frames(code: &Code<'_>, devices: &[DeviceProfile]) -> Vec<FrameId> {
    let tables = code.tables();
    let mut wanted = vec![false; tables.frames().len()];
    let failed = devices.iter().flat_map(|device| device.failed_stacks.iter().flatten().copied());
    let classes = devices.iter().flat_map(|device| &device.trace.classes);
    let totals = classes.filter_map(|class| class.origin.stack());
    for stack in totals.chain(failed) {
        for frame in code.essential(stack).into_iter().chain(tables.forward(stack).iter().copied()) {
            wanted[frame.index()] = true;
            if let Some(original) = tables.frame(frame).original {
                wanted[original.index()] = true;
            }
        }
    }
    let frames = (0..wanted.len()).map(FrameId::from_index);
    frames.filter(|&frame| wanted[frame.index()] || code.owner(frame) == Owner::User).collect()
}

/// A frame apart from its number, which differs from file to file.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Content<'t> {
    name: &'t str,
    filename: &'t str,
    line: i128,
    is_generated: bool,
}

impl<'t> Content<'t> {
    fn function(&self) -> (&'t str, &'t str) {
        (self.name, self.filename)
    }

    fn new(tables: &'t Tables, frame: FrameId) -> Self {
        let Frame { name, filename, line, original } = *tables.frame(frame);
        Self { name: tables.string(name), filename: tables.string(filename), line, is_generated: original.is_some() }
    }
}
