//! From a profile to the text of its file.

use std::collections::{BTreeMap, HashMap};

use ptmem_base::diagnostic::{Code as Kind, Diagnostic};
use ptmem_base::interner::Interner;
use ptmem_snapshot::snapshot::{Frame, FrameId, Tables};

use super::super::{DeviceProfile, Profile, Raise, Source};
use super::format::*;
use super::layout::laid_out;
use super::trace::{self, Kept, MOST_MOVES};
use super::{DIGEST, Error, SCHEMA, digest, phases};
use crate::replay::Origin;
use crate::stack::{Code, CppDigest, ExactKeys, GroupBy, Grouper, Owner};
use crate::trace::fold::{MOST_ITEMS, free_name};
use crate::trace::{Position, Trace, Window};

/// The text of a file.
#[derive(Debug)]
pub struct Written {
    /// The text.
    pub text: String,
    /// A note for every device whose history is kept coarsely: the file cannot answer every question.
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
/// If it has more events than a file can represent.
pub fn write(profile: &Profile, raises: &[Raise]) -> Result<Written, Error> {
    if let Some(long) = profile.devices.iter().find(|device| device.events >= MOST_MOVES) {
        return Err(Error::TooLong { device: long.device, events: long.events });
    }
    let (saved, notes) = saved_profile(profile, raises);
    // Strings, numbers, and maps with string keys: that cannot fail.
    let mut text = laid_out(&serde_json::to_string(&saved).unwrap_or_default());
    // The digest is that of all lines before its own.
    if let Some(end) = text.rfind(DIGEST) {
        text.truncate(end);
    }
    let digest = digest(&text);
    Ok(Written { text: text + DIGEST + &digest + "\"\n}\n", notes })
}

fn saved_profile<'p>(profile: &'p Profile, raises: &[Raise]) -> (SavedProfile<&'p DeviceProfile>, Vec<Diagnostic>) {
    let grouper = profile.grouper_by(GroupBy::Stack);
    let names = FrameNames::new(grouper.code(), &profile.devices);
    let source = profile.recorded.as_ref().unwrap_or(&profile.source);
    // Only the name: a repository should not keep the folders of one machine.
    let path = source.path.rsplit(['/', '\\']).next().unwrap_or_default().to_owned();
    let writer = Writer { grouper: &grouper, keys: ExactKeys::new(&profile.tables), names: &names };
    let devices: Vec<SavedDevice<_>> = profile.devices.iter().map(|device| writer.device(device)).collect();
    // The notes about coarse histories are added again below, for a loaded profile too.
    let known = profile.diagnostics.iter().filter(|found| found.code != Kind::HistoryCoarse);
    let coarse = devices.iter().filter(|device| device.coarse.is_some());
    let notes: Vec<Diagnostic> = coarse.map(|device| note(device.device.device)).collect();
    let diagnostics =
        known.chain(&notes).map(|found| SavedDiagnostic { found: found.clone(), severity: found.severity() });
    let saved = SavedProfile {
        schema: SCHEMA.to_owned(),
        tool: Tool { name: "ptmem".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() },
        source: Source { path, ..source.clone() },
        raises: raises.to_vec(),
        settings: profile.settings.present.then(|| profile.settings.all.clone()),
        keeps_annotations: profile.keeps_annotations,
        run: profile.run.clone(),
        devices,
        diagnostics: diagnostics.collect(),
        frames: names.functions.iter().map(|(name, frames)| (name.clone(), writer.function(frames))).collect(),
        sha1: String::new(),
    };
    (saved, notes)
}

/// The trace of a device with only the blocks that are held at the moments which every profile knows, where phases
/// begin, end and hold the most, and where their stack does.
fn thinned(device: &DeviceProfile) -> Trace {
    let DeviceProfile { trace, figures, phases, .. } = device;
    let mut places: Vec<Position> =
        phases.known_or_not().flat_map(|phase| [phase.window.from, phase.window.to]).collect();
    places.sort_unstable();
    let stretches: Vec<Window> = places.windows(2).map(|ends| Window { from: ends[0], to: ends[1] }).collect();
    places.extend(trace.peaks_within(&stretches).iter().map(|peak| peak.at));
    places.extend([figures.allocated.peak_at, figures.first_oom(), Some(trace.dump())].into_iter().flatten());
    places.sort_unstable();
    let mut stacks = Interner::default();
    let of_class: Vec<u32> = trace.classes.iter().map(|class| stacks.number(&(class.origin, class.cpp))).collect();
    let highest = trace.highest(&of_class, stacks.items().len());
    trace.thinned(|life| {
        let next = places.get(places.partition_point(|&place| place < life.born));
        let highest = highest[of_class[life.class as usize] as usize].at;
        next.is_some_and(|&next| next < life.freed) || (life.born..life.freed).contains(&highest)
    })
}

/// The note on a device whose history is kept coarsely.
fn note(device: u32) -> Diagnostic {
    let message = "the history repeats too little to be kept whole. The saved profile does not know the stacks at other \
                   moments than baseline, peak, end and the first failed allocation, nor steps, parts of the history, the \
                   corresponding place of a comparison, groups by tags, and how often stacks allocate; keep the snapshot \
                   for these";
    Diagnostic::new(Kind::HistoryCoarse, Some(device), message.to_owned())
}

/// Everything that devices and stacks are written with.
struct Writer<'p> {
    grouper: &'p Grouper<'p>,
    keys: ExactKeys<'p>,
    names: &'p FrameNames,
}

impl Writer<'_> {
    fn device<'d>(&self, device: &'d DeviceProfile) -> SavedDevice<&'d DeviceProfile> {
        let whole = Kept::new(&device.trace, MOST_ITEMS);
        let is_coarse = device.coarse || whole.is_none();
        let thin = (is_coarse && !device.coarse).then(|| thinned(device));
        let trace = thin.as_ref().unwrap_or(&device.trace);
        let kept = whole.or_else(|| Kept::new(trace, usize::MAX)).unwrap_or_default();
        let (stacks, trace) = self.history(trace, &kept);
        SavedDevice {
            device,
            ooms: self.ooms(device),
            coarse: is_coarse.then(|| device.figures.timeline.clone()),
            stacks,
            trace,
            phases: phases::saved(&device.phases),
            phases_cut: device.phases.cut,
        }
    }

    fn ooms(&self, device: &DeviceProfile) -> Vec<SavedOom> {
        let ooms = device.figures.ooms.iter().zip(&device.failed_stacks).map(|(&oom, stack)| {
            let frames = stack.map(|stack| self.frame_list(&self.grouper.code().essential(stack)));
            SavedOom { oom, frames: frames.unwrap_or_default() }
        });
        ooms.collect()
    }

    /// The stacks with their classes, and what happened.
    fn history(&self, trace: &Trace, kept: &Kept) -> (Vec<SavedStack>, SavedTrace) {
        let tables = self.grouper.code().tables();
        let mut known = Interner::default();
        let of_class: Vec<u32> = trace.classes.iter().map(|class| known.number(&(class.origin, class.cpp))).collect();
        let mut stacks: Vec<SavedStack> = known.items().iter().map(|&(origin, cpp)| self.stack(origin, cpp)).collect();
        let contents: Vec<String> = of_class.iter().map(|&stack| stacks[stack as usize].content()).collect();
        let names = trace::names(&trace.classes, &contents, tables);
        let saved = kept.saved(trace, &names);
        for ((name, stack), (class, start)) in
            names.into_iter().zip(of_class).zip(trace.classes.iter().zip(&trace.start))
        {
            stacks[stack as usize].classes.insert(name, SavedClass::new(class, *start, tables));
        }
        // By name, so that a change of size leaves the order alone.
        stacks.sort_by(|a, b| a.order().cmp(&b.order()));
        for at in (1..stacks.len()).rev() {
            if stacks[at].label == stacks[at - 1].label {
                stacks[at].label.clear();
            }
        }
        (stacks, saved)
    }

    /// A stack without its classes.
    fn stack(&self, origin: Origin, cpp: Option<CppDigest>) -> SavedStack {
        let code = self.grouper.code();
        match origin {
            Origin::Stack(stack) => {
                let essential = code.essential(stack);
                // Where some C++ frames are not in the file, it has a digest of all.
                let is_cut = essential.len() < code.tables().stack(stack).len();
                SavedStack {
                    label: code.label_without_line(stack),
                    key: self.grouper.key(stack).0,
                    cpp: cpp.or_else(|| is_cut.then(|| self.keys.cpp(stack))),
                    frames: self.frame_list(&essential),
                    forward_frames: self.frame_list(code.tables().forward(stack)),
                    ..SavedStack::default()
                }
            }
            Origin::Bucket(bucket) => SavedStack {
                label: bucket.label().to_owned(),
                key: bucket.label().to_owned(),
                bucket: Some(bucket),
                ..SavedStack::default()
            },
        }
    }

    /// The names of frames, those that have one.
    fn frame_list(&self, frames: &[FrameId]) -> String {
        let names: Vec<&str> = frames.iter().filter_map(|&frame| self.names.get(frame)).collect();
        names.join(" ")
    }

    /// The frames of a function.
    fn function(&self, frames: &[FrameId]) -> SavedFunction {
        let tables = self.grouper.code().tables();
        let lines = frames.iter().map(|&frame| {
            let frame = tables.frame(frame);
            match frame.original.and_then(|original| self.names.get(original)) {
                Some(original) => SavedLine::Generated(line(frame), original.to_owned()),
                None => SavedLine::Plain(line(frame)),
            }
        });
        let [name, filename] = function(tables, frames[0]).map(str::to_owned);
        SavedFunction(name, filename, lines.collect())
    }
}

impl SavedStack {
    fn order(&self) -> impl Ord + '_ {
        (&self.label, &self.key, &self.forward_frames, &self.cpp, &self.frames)
    }

    /// The key that distinguishes it from other stacks.
    fn content(&self) -> String {
        let Self { key, cpp, bucket, frames, forward_frames, .. } = self;
        format!("{key} {cpp:?} {bucket:?} {frames} / {forward_frames}")
    }
}

/// The frames of the file: those of each function under the name that it has there.
#[derive(Default)]
struct FrameNames {
    functions: BTreeMap<String, Vec<FrameId>>,
    names: HashMap<FrameId, String>,
}

/// The name of a frame of a function: those that differ only in their line are numbered.
pub(super) fn frame_name(function: &str, number: usize) -> String {
    if number == 0 { function.to_owned() } else { format!("{function}.{number}") }
}

impl FrameNames {
    /// Names for the frames of the stacks. Frames of the user always stay: the names of files depend on
    /// which other files there are.
    fn new(code: &Code<'_>, devices: &[DeviceProfile]) -> Self {
        let tables = code.tables();
        let mut frames = kept_frames(code, devices);
        // Their numbers differ from file to file.
        frames.sort_by_cached_key(|&id| {
            let frame = tables.frame(id);
            (function(tables, id), line(frame), frame.original.is_some())
        });
        let mut all = Self::default();
        for frames in frames.chunk_by(|&a, &b| function(tables, a) == function(tables, b)) {
            let name = free_name(&function(tables, frames[0]), 4, |name| all.functions.contains_key(name));
            let names = frames.iter().enumerate().map(|(number, &frame)| (frame, frame_name(&name, number)));
            all.names.extend(names);
            all.functions.insert(name, frames.to_vec());
        }
        all
    }

    fn get(&self, frame: FrameId) -> Option<&str> {
        self.names.get(&frame).map(String::as_str)
    }
}

/// The name and the file of the function of a frame.
fn function(tables: &Tables, frame: FrameId) -> [&str; 2] {
    let frame = tables.frame(frame);
    [frame.name, frame.filename].map(|text| tables.string(text))
}

/// The line of a frame; below 0 and beyond 64 bits it is none.
fn line(frame: &Frame) -> u64 {
    u64::try_from(frame.line).unwrap_or(0)
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
