//! From a profile to the text of its file.

use std::collections::HashMap;

use serde::Serialize;

use super::super::{DeviceProfile, Profile, Raise, Source};
use super::format::*;
use super::layout::Layout;
use super::names::FrameNames;
use super::trace::{self, Kept, MOST_MOVES};
use super::{DIGEST, Error, SCHEMA, coarse, digest, phases};
use crate::diagnostic::{Code, Diagnostic};
use crate::replay::Origin;
use crate::snapshot::{FrameId, StackId};
use crate::stack::{CppDigest, ExactKeys, GroupBy, Grouper};
use crate::trace::Trace;

/// The text of a file.
#[derive(Debug)]
pub struct Written {
    /// The text.
    pub text: String,
    /// What the file cannot answer: a note for every device whose history is kept coarsely.
    pub notes: Vec<Diagnostic>,
}

/// The profile as the text of a file.
///
/// # Errors
/// Those of [`write()`].
pub fn text_of(profile: &Profile, raises: &[Raise]) -> Result<String, Error> {
    write(profile, raises).map(|written| written.text)
}

/// The profile as a file, with the reasons for which figures were raised.
///
/// # Errors
/// Where it has more events than a file can stand for.
pub fn write(profile: &Profile, raises: &[Raise]) -> Result<Written, Error> {
    if let Some(long) = profile.devices.iter().find(|device| device.events >= MOST_MOVES) {
        return Err(Error::TooLong { device: long.device, events: long.events });
    }
    let mut out = Vec::new();
    // Strings, numbers, and maps with string keys, written to memory: that cannot fail.
    let (saved, notes) = saved_profile(profile, raises);
    let _ = saved.serialize(&mut serde_json::Serializer::with_formatter(&mut out, Layout::default()));
    let mut text = String::from_utf8(out).unwrap_or_default();
    // The digest is that of all lines before its own.
    if let Some(end) = text.rfind(DIGEST) {
        text.truncate(end);
    }
    let digest = digest(&text);
    Ok(Written { text: text + DIGEST + &digest + "\"\n}\n", notes })
}

fn saved_profile(profile: &Profile, raises: &[Raise]) -> (SavedProfile, Vec<Diagnostic>) {
    let grouper = profile.grouper_by(GroupBy::Stack);
    let names = FrameNames::new(grouper.code(), &profile.devices);
    let source = profile.recorded.as_ref().unwrap_or(&profile.source);
    // Only the name: a repository should not keep the folders of one machine.
    let path = source.path.rsplit(['/', '\\']).next().unwrap_or_default().to_owned();
    let writer = Writer { profile, grouper: &grouper, keys: ExactKeys::new(&profile.tables), names: &names };
    let devices: Vec<SavedDevice> = profile.devices.iter().map(|device| writer.device(device)).collect();
    // Those of a profile which is saved again are added anew.
    let known = profile.diagnostics.iter().filter(|found| found.code != Code::HistoryCoarse);
    let notes: Vec<Diagnostic> =
        devices.iter().filter(|device| device.coarse.is_some()).map(|device| coarse::note(device.device)).collect();
    let diagnostics = known.chain(&notes).map(SavedDiagnostic::new).collect();
    let saved = SavedProfile {
        schema: SCHEMA.to_owned(),
        tool: Tool { name: "ptmem".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() },
        source: Source { path, ..source.clone() },
        group_by: GroupBy::Stack.name().to_owned(),
        raises: raises.to_vec(),
        settings: profile.settings.present.then(|| profile.settings.all.clone()),
        keeps_annotations: profile.keeps_annotations,
        run: profile.run.clone(),
        devices,
        diagnostics,
        frames: names.functions.iter().map(|(name, frames)| (name.clone(), writer.function(frames))).collect(),
        sha1: String::new(),
    };
    (saved, notes)
}

/// Everything that devices and stacks are written with.
struct Writer<'p> {
    profile: &'p Profile,
    grouper: &'p Grouper<'p>,
    keys: ExactKeys<'p>,
    names: &'p FrameNames,
}

impl Writer<'_> {
    fn device(&self, device: &DeviceProfile) -> SavedDevice {
        let whole = Kept::new(&device.trace);
        let is_coarse = device.coarse || whole.is_none();
        let thin = (is_coarse && !device.coarse).then(|| coarse::thinned(device));
        let trace = thin.as_ref().unwrap_or(&device.trace);
        let kept = whole.unwrap_or_else(|| Kept::of_any(trace));
        let History { stacks, trace } = History::new(self, trace, &kept);
        SavedDevice {
            device: device.device,
            events: device.events,
            duration_us: device.duration_us,
            ran_over: device.ran_over,
            actions: device.actions.clone(),
            languages: languages(device),
            figures: device.figures.clone(),
            ooms: self.ooms(device),
            coarse: is_coarse.then(|| device.figures.timeline.clone()),
            phases: phases::saved(&device.phases),
            stacks,
            trace,
            times: device.times.clone(),
            phases_cut: device.phases.cut,
            failed_request: device.failed_request.clone(),
        }
    }

    fn ooms(&self, device: &DeviceProfile) -> Vec<SavedOom> {
        let mut saved = Vec::with_capacity(device.figures.ooms.len());
        for (index, oom) in device.figures.ooms.iter().enumerate() {
            let stack = device.failed_stacks.get(index).copied().flatten();
            let frames = stack.map(|stack| self.frame_list(&self.grouper.code().essential(stack)));
            saved.push(SavedOom { oom: *oom, frames: frames.unwrap_or_default() });
        }
        saved
    }

    /// A stack without its classes and totals.
    fn stack(&self, origin: Origin, cpp: Option<CppDigest>) -> SavedStack {
        let nothing = SavedStack::default();
        match origin {
            Origin::Stack(stack) => SavedStack {
                label: self.grouper.code().label_without_line(stack),
                key: self.grouper.key(stack).0,
                cpp: self.digest(stack, cpp).map(|digest| format!("{digest:016x}")),
                frames: self.frame_list(&self.grouper.code().essential(stack)),
                forward_frames: self.frame_list(self.profile.tables.forward(stack)),
                ..nothing
            },
            Origin::Bucket(bucket) => SavedStack {
                label: bucket.label().to_owned(),
                key: bucket.label().to_owned(),
                bucket: Some(bucket.code().to_owned()),
                ..nothing
            },
        }
    }

    /// The digest of the C++ frames of a stack, where some of them are not in the file.
    fn digest(&self, stack: StackId, known: Option<CppDigest>) -> Option<CppDigest> {
        let is_cut = self.grouper.code().essential(stack).len() < self.profile.tables.stack(stack).len();
        known.or_else(|| is_cut.then(|| self.keys.cpp(stack)))
    }

    /// The names of frames, those that have one.
    fn frame_list(&self, frames: &[FrameId]) -> String {
        let names: Vec<&str> = frames.iter().filter_map(|&frame| self.names.get(frame)).collect();
        names.join(" ")
    }

    /// The frames of a function.
    fn function(&self, frames: &[FrameId]) -> SavedFunction {
        let tables = &self.profile.tables;
        let first = tables.frame(frames[0]);
        let lines = frames.iter().map(|&frame| {
            let frame = tables.frame(frame);
            let line = line_number(frame.line);
            match frame.original.and_then(|original| self.names.get(original)) {
                Some(original) => SavedLine::Generated(line, original.to_owned()),
                None => SavedLine::Plain(line),
            }
        });
        let [name, filename] = [first.name, first.filename].map(|text| tables.string(text).to_owned());
        SavedFunction(name, filename, lines.collect())
    }
}

/// The stacks of a device with their classes, and what happened.
struct History {
    stacks: Vec<SavedStack>,
    trace: SavedTrace,
}

impl History {
    fn new(writer: &Writer<'_>, trace: &Trace, kept: &Kept) -> Self {
        let tables = &writer.profile.tables;
        let classes = &trace.classes;
        let mut places: HashMap<(Origin, Option<CppDigest>), usize> = HashMap::new();
        let mut stacks: Vec<SavedStack> = Vec::new();
        let mut of_class = Vec::with_capacity(classes.len());
        for class in classes {
            let place = *places.entry((class.origin, class.cpp)).or_insert_with(|| {
                stacks.push(writer.stack(class.origin, class.cpp));
                stacks.len() - 1
            });
            of_class.push(place);
        }
        let contents: Vec<String> = of_class.iter().map(|&place| stacks[place].content()).collect();
        let names = trace::names(classes, &contents, tables);
        let saved = kept.saved(trace, &names);
        for ((name, place), (class, start)) in names.into_iter().zip(of_class).zip(classes.iter().zip(&trace.start)) {
            stacks[place].classes.insert(name, SavedClass::new(class, *start, tables));
        }
        // By name, so that a change of size leaves the order alone.
        stacks.sort_by(|a, b| a.order().cmp(&b.order()));
        for at in (1..stacks.len()).rev() {
            if stacks[at].label == stacks[at - 1].label {
                stacks[at].label.clear();
            }
        }
        Self { stacks, trace: saved }
    }
}

impl SavedStack {
    fn order(&self) -> impl Ord + '_ {
        (&self.label, &self.key, &self.forward_frames, &self.cpp, &self.frames)
    }

    /// What tells it from other stacks.
    fn content(&self) -> String {
        let Self { key, cpp, bucket, frames, forward_frames, .. } = self;
        format!("{key} {cpp:?} {bucket:?} {frames} / {forward_frames}")
    }
}

/// The languages of the frames that were recorded.
fn languages(device: &DeviceProfile) -> Vec<String> {
    let recorded = device.recorded_frames;
    let languages = [("python", recorded.python), ("c++", recorded.cpp)];
    languages.into_iter().filter(|(_, is_recorded)| *is_recorded).map(|(name, _)| name.to_owned()).collect()
}

/// A line as JSON; beyond 64 bits it is no line.
fn line_number(line: i128) -> serde_json::Number {
    let unsigned = u64::try_from(line).map(serde_json::Number::from);
    let number = unsigned.or_else(|_| i64::try_from(line).map(serde_json::Number::from));
    number.unwrap_or_else(|_| 0.into())
}
