//! A profile as a file: deterministic text that version control can compare line by line.
//!
//! Part of the contract `ptmem.profile/1`. Frames are kept once, under names that depend on the function and its
//! file alone: a line that moves changes one line of the file, and new code leaves the rest as it is. C++ frames that
//! say nothing about the operation are left out; of all of them a digest is kept, which `--group-by frames` compares.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::io::Read;

use serde::{Deserialize, Serialize};
use sha1::{Digest, Sha1};

use super::exact::{Exact, Sums, Totals, Whose, merged};
use super::totals::{Bucket, Held, by_group, others};
use super::{Cut, DeviceProfile, Kind, Moment, Options, Profile, Raise, Source};
use crate::diagnostic::{Diagnostic, Severity};
use crate::replay::{Checks, Counter, Figures, History, Oom, Position, Timeline};
use crate::snapshot::{AllocatorSettings, Frame, FrameId, StackId, StringId, Tables};
use crate::stack::{Code, ExactKeys, GroupBy, Grouper, Languages, Owner};

/// The contract that a saved profile follows.
pub const SCHEMA: &str = "ptmem.profile/1";

const EXPECTED: &str =
    "expected a pickle from torch.cuda.memory._dump_snapshot(), or what 'ptmem profile SNAPSHOT -o FILE' writes";

/// So many points of a curve are kept.
const MOST_POINTS: usize = 120;

/// Whether a moment is one more than those that every profile keeps.
fn is_kept(moment: Moment) -> bool {
    !matches!(moment, Moment::Baseline | Moment::Peak | Moment::End)
}

/// What of a profile is worth its place in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Bound {
    /// The most stacks per device (as grouped by default); 0 is all.
    pub top: usize,
    /// Only stacks that hold at least so many bytes at one of the moments.
    pub min_bytes: u64,
}

impl Bound {
    /// The tighter of both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let tops = [self.top, other.top].into_iter().filter(|&top| top > 0);
        Self { top: tops.min().unwrap_or(0), min_bytes: self.min_bytes.max(other.min_bytes) }
    }
}

impl From<serde_json::Error> for Error {
    fn from(error: serde_json::Error) -> Self {
        Self::Json(error.to_string())
    }
}

/// Why a file cannot be read as a saved profile.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No JSON, or not of the shape.
    #[error("this looks like JSON, but cannot be read as a saved profile: {0}; {EXPECTED}")]
    Json(String),
    /// JSON of something else.
    #[error("this looks like JSON, but no saved profile: {0}; {EXPECTED}")]
    NotAProfile(String),
    /// A profile that contradicts itself.
    #[error(
        "{0}; the file was changed by hand, merged or damaged. Write it again with 'ptmem profile SNAPSHOT -o FILE'"
    )]
    Damaged(String),
    /// A moment that the profile does not know.
    #[error(
        "a saved profile knows the stacks at {known}, not at '{asked}'; give the snapshot itself, or save the profile \
         with --at {asked}"
    )]
    Moment {
        /// What it knows.
        known: String,
        /// What was asked for.
        asked: Moment,
    },
}

#[derive(Debug, Serialize, Deserialize)]
struct Tool {
    name: String,
    version: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct SavedSource {
    path: String,
    bytes: u64,
    kind: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct SavedRaise {
    reason: String,
    changes: Vec<String>,
}

#[derive(Debug, Serialize, Deserialize)]
struct SavedDiagnostic {
    code: String,
    severity: Severity,
    device: Option<u32>,
    message: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct SavedCounter {
    baseline: Option<u64>,
    peak: Option<u64>,
    peak_event: Option<i64>,
    end: u64,
    exact: bool,
    max_error: Option<u64>,
    baseline_error: Option<u64>,
    peak_error: Option<u64>,
}

#[derive(Debug, Serialize, Deserialize)]
struct SavedFragmentation {
    peak: Option<u64>,
    end: u64,
}

#[derive(Debug, Serialize, Deserialize)]
struct Recovered {
    recovered: u64,
    total: u64,
}

#[derive(Debug, Serialize, Deserialize)]
struct Matched {
    matched: u64,
    total: u64,
}

#[derive(Debug, Serialize, Deserialize)]
struct SavedChecks {
    sizes: Recovered,
    checkpoints: Matched,
    end_matches: bool,
}

#[derive(Debug, Serialize, Deserialize)]
struct SavedOom {
    event: u32,
    requested: u64,
    device_free: u64,
    allocated: u64,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct SavedTimeline {
    allocated: Vec<u64>,
    reserved: Vec<u64>,
}

#[derive(Debug, Serialize, Deserialize)]
struct SavedCut {
    stacks: usize,
    largest: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// What is 0 is left out.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
#[serde(default)]
struct SavedSums {
    #[serde(skip_serializing_if = "is_zero")]
    baseline: u64,
    #[serde(skip_serializing_if = "is_zero")]
    peak: u64,
    #[serde(skip_serializing_if = "is_zero")]
    end: u64,
    #[serde(skip_serializing_if = "is_zero")]
    at: u64,
    #[serde(skip_serializing_if = "is_zero")]
    baseline_blocks: u64,
    #[serde(skip_serializing_if = "is_zero")]
    peak_blocks: u64,
    #[serde(skip_serializing_if = "is_zero")]
    end_blocks: u64,
    #[serde(skip_serializing_if = "is_zero")]
    at_blocks: u64,
    #[serde(skip_serializing_if = "is_zero")]
    allocations: u64,
    #[serde(skip_serializing_if = "is_zero")]
    allocated_total: u64,
}

/// A stack. Label and key, by the default grouping, are for readers: they follow from the frames.
#[derive(Debug, Serialize, Deserialize)]
struct SavedStack {
    label: String,
    key: String,
    /// The digest of its C++ frames, in hexadecimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cpp: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bucket: Option<String>,
    #[serde(flatten)]
    sums: SavedSums,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    frames: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    forward_frames: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct SavedTag {
    tag: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bucket: Option<String>,
    #[serde(flatten)]
    sums: SavedSums,
}

/// Function, file, line; and for generated code the frame that it was generated from.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum SavedFrame {
    Plain(String, String, serde_json::Number),
    Generated(String, String, serde_json::Number, String),
}

/// What is read of a device; what is written stands in [`write_device`].
#[derive(Debug, Deserialize)]
struct SavedDevice {
    device: u32,
    events: u64,
    duration_us: Option<u64>,
    actions: BTreeMap<String, u64>,
    history: String,
    languages: Vec<String>,
    allocated: SavedCounter,
    active: SavedCounter,
    requested: SavedCounter,
    reserved: SavedCounter,
    fragmentation: SavedFragmentation,
    checks: SavedChecks,
    allocations: u64,
    frees: u64,
    allocated_total: u64,
    ooms: Vec<SavedOom>,
    at_event: Option<i64>,
    timeline: SavedTimeline,
    cut: Option<SavedCut>,
    stacks: Vec<SavedStack>,
    metadata: Vec<SavedTag>,
    compile_contexts: Vec<SavedTag>,
}

/// What tells a saved profile from other JSON.
#[derive(Debug, Deserialize)]
struct SavedKind {
    schema: Option<String>,
    frames: Option<serde::de::IgnoredAny>,
}

#[derive(Debug, Deserialize)]
struct SavedProfile {
    source: SavedSource,
    bound: Bound,
    at: String,
    raises: Vec<SavedRaise>,
    settings: Option<BTreeMap<String, String>>,
    devices: Vec<SavedDevice>,
    diagnostics: Vec<SavedDiagnostic>,
    frames: BTreeMap<String, SavedFrame>,
    sha1: String,
}

/// The profile as the text of a file, within a bound, with the reasons for which figures were raised.
#[must_use]
pub fn text_of(profile: &Profile, bound: Bound, raises: &[Raise]) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write_profile(&mut out, profile, bound, raises);
    out
}

fn json(value: &impl Serialize) -> String {
    // Strings, numbers, and maps with string keys: that cannot fail.
    serde_json::to_string(value).unwrap_or_default()
}

fn write_profile(out: &mut String, profile: &Profile, bound: Bound, raises: &[Raise]) -> std::fmt::Result {
    let grouper = Grouper::new(&profile.tables, GroupBy::Stack, &profile.options.rules);
    let kept: Vec<_> = profile.devices.iter().map(|device| bounded(device, &grouper, bound)).collect();
    let names = frame_names(profile, grouper.code(), &kept);
    let stacks = Stacks { profile, grouper: &grouper, keys: ExactKeys::new(&profile.tables), names: &names };
    let source = profile.recorded.as_ref().unwrap_or(&profile.source);
    let source = SavedSource { path: source.path.clone(), bytes: source.bytes, kind: source.kind.name().to_owned() };
    let tool = Tool { name: "ptmem".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() };
    let settings = profile.settings.present.then_some(&profile.settings.all);
    writeln!(out, "{{")?;
    writeln!(out, "  \"schema\": {},", json(&SCHEMA))?;
    writeln!(out, "  \"tool\": {},", json(&tool))?;
    writeln!(out, "  \"source\": {},", json(&source))?;
    writeln!(out, "  \"group_by\": {},", json(&GroupBy::Stack.name()))?;
    writeln!(out, "  \"bound\": {},", json(&bound))?;
    let at = if is_kept(profile.options.at) { profile.options.at } else { Moment::Peak };
    writeln!(out, "  \"at\": {},", json(&at.to_string()))?;
    let raise = |raise: &Raise| json(&SavedRaise { reason: raise.reason.clone(), changes: raise.changes.clone() });
    write_list(out, "  ", "raises", raises.iter().map(raise), ",")?;
    writeln!(out, "  \"settings\": {},", json(&settings))?;
    writeln!(out, "  \"devices\": [")?;
    for (i, (device, kept)) in profile.devices.iter().zip(&kept).enumerate() {
        write_device(out, device, kept, &stacks)?;
        writeln!(out, "{}", if i + 1 < profile.devices.len() { "," } else { "" })?;
    }
    writeln!(out, "  ],")?;
    let diagnostic = |found: &Diagnostic| {
        json(&SavedDiagnostic {
            code: found.code.to_string(),
            severity: found.severity,
            device: found.device,
            message: found.message.clone(),
        })
    };
    write_list(out, "  ", "diagnostics", profile.diagnostics.iter().map(diagnostic), ",")?;
    let mut frames: Vec<_> = names.iter().collect();
    frames.sort_by_key(|(_, name)| *name);
    writeln!(out, "  \"frames\": {{")?;
    for (i, &(&frame, name)) in frames.iter().enumerate() {
        let comma = if i + 1 < frames.len() { "," } else { "" };
        writeln!(out, "    {}: {}{comma}", json(name), json(&saved_frame(&profile.tables, frame, &names)))?;
    }
    writeln!(out, "  }},")?;
    let digest = digest(out);
    writeln!(out, "{DIGEST}{digest}\"\n}}")
}

/// What the last line but one begins with.
const DIGEST: &str = "  \"sha1\": \"";

/// A digest of the text, whatever its line ends: version control may change those.
fn digest(text: &str) -> String {
    let mut hash = Sha1::new();
    text.split('\r').for_each(|part| hash.update(part));
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// One item per line.
fn write_list(
    out: &mut String,
    indent: &str,
    key: &str,
    items: impl Iterator<Item = String>,
    end: &str,
) -> std::fmt::Result {
    let items: Vec<String> = items.map(|item| format!("\n{indent}  {item}")).collect();
    let close = if items.is_empty() { String::new() } else { format!("\n{indent}") };
    writeln!(out, "{indent}\"{key}\": [{}{close}]{end}", items.join(","))
}

/// The stacks and tags of a device that fit the bound, and what was left out.
struct Kept {
    totals: Totals,
    cut: Option<Cut>,
}

fn bounded(device: &DeviceProfile, grouper: &Grouper<'_>, bound: Bound) -> Kept {
    let mut totals = device.totals.clone();
    let mut cut = device.cut;
    for by in [GroupBy::Stack, GroupBy::Metadata, GroupBy::CompileContext] {
        let family = totals.of(by);
        let group = |exact: &Exact| match exact.whose {
            Whose::Stack(stack) if by == GroupBy::Stack => grouper.key(stack).0,
            Whose::Bucket(bucket) if by == GroupBy::Stack || bucket != Bucket::NoFrames => bucket.label().to_owned(),
            _ => exact.tag.map_or_else(String::new, |tag| grouper.code().tables().string(tag).to_owned()),
        };
        let mut groups: Vec<_> = merged(family.iter().map(|exact| (group(exact), &exact.sums))).into_iter().collect();
        groups.sort_by(|(a, x), (b, y)| y.largest().cmp(&x.largest()).then_with(|| a.cmp(b)));
        let named = |key: &String| Bucket::ALL.iter().any(|bucket| bucket.label() == key);
        let top = if bound.top == 0 { usize::MAX } else { bound.top };
        let mut stacks = 0;
        let gone: HashMap<String, u64> = groups
            .into_iter()
            .filter(|(key, _)| !named(key))
            .filter(|(_, sums)| {
                stacks += 1;
                stacks > top || sums.largest() < bound.min_bytes
            })
            .map(|(key, sums)| (key, sums.largest()))
            .collect();
        if gone.is_empty() {
            continue;
        }
        let (kept, rest): (Vec<Exact>, Vec<Exact>) = family.iter().partition(|exact| !gone.contains_key(&group(exact)));
        let whose = Whose::Bucket(Bucket::Others);
        let mut others = Exact { whose, tag: None, cpp: None, sums: Sums::default() };
        rest.iter().for_each(|exact| others.sums.add(&exact.sums));
        let mut kept = kept;
        match kept.iter_mut().find(|exact| exact.whose == others.whose) {
            Some(earlier) => earlier.sums.add(&others.sums),
            None => kept.push(others),
        }
        if by == GroupBy::Stack {
            let before = cut.unwrap_or(Cut { stacks: 0, largest: 0 });
            let largest = gone.values().copied().max().unwrap_or(0).max(before.largest);
            cut = Some(Cut { stacks: before.stacks + gone.len(), largest });
        }
        match by {
            GroupBy::Metadata => totals.metadata = kept,
            GroupBy::CompileContext => totals.compile_contexts = kept,
            _ => totals.stacks = kept,
        }
    }
    Kept { totals, cut }
}

/// Names for the frames of the stacks that are kept. Those of the user stay in any case: the names of files depend
/// on what other files there are.
fn frame_names(profile: &Profile, code: &Code<'_>, kept: &[Kept]) -> BTreeMap<FrameId, String> {
    let tables = &profile.tables;
    let mut wanted = vec![false; tables.frames().len()];
    for exact in kept.iter().flat_map(|kept| &kept.totals.stacks) {
        if let Whose::Stack(stack) = exact.whose {
            for frame in code.essential(stack).into_iter().chain(tables.forward(stack).iter().copied()) {
                wanted[frame.index()] = true;
                if let Some(original) = tables.frame(frame).original {
                    wanted[original.index()] = true;
                }
            }
        }
    }
    let frames = (0..wanted.len()).map(FrameId::from_index);
    let mut frames: Vec<_> =
        frames.filter(|&frame| wanted[frame.index()] || code.owner(frame) == Owner::User).collect();
    let content = |frame: FrameId| {
        let Frame { name, filename, line, original } = *tables.frame(frame);
        (tables.string(name), tables.string(filename), line, original.is_some())
    };
    frames.sort_by(|&a, &b| content(a).cmp(&content(b)));
    let mut taken: HashMap<String, FrameId> = HashMap::new();
    let (mut last, mut ordinal) = (None, 0);
    for frame in frames {
        let (name, filename, ..) = content(frame);
        ordinal = if last == Some((name, filename)) { ordinal + 1 } else { 0 };
        last = Some((name, filename));
        let digest = base_36(&Sha1::new().chain_update(name).chain_update([0]).chain_update(filename).finalize());
        let suffix = if ordinal == 0 { String::new() } else { format!(".{ordinal}") };
        let candidates = (4..=digest.len()).map(|length| format!("{}{suffix}", &digest[..length]));
        let free = candidates.into_iter().find(|name| !taken.contains_key(name));
        taken.insert(free.unwrap_or_else(|| format!("{digest}.{}", taken.len())), frame);
    }
    taken.into_iter().map(|(name, frame)| (frame, name)).collect()
}

fn base_36(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
    bytes.iter().map(|byte| char::from(DIGITS[usize::from(*byte) % DIGITS.len()])).collect()
}

fn saved_frame(tables: &Tables, id: FrameId, names: &BTreeMap<FrameId, String>) -> SavedFrame {
    let frame = tables.frame(id);
    let (name, filename) = (tables.string(frame.name).to_owned(), tables.string(frame.filename).to_owned());
    // Beyond 64 bits it is no line.
    let line = u64::try_from(frame.line).map(serde_json::Number::from);
    let line = line.or_else(|_| i64::try_from(frame.line).map(serde_json::Number::from));
    let line = line.unwrap_or_else(|_| 0.into());
    match frame.original.and_then(|original| names.get(&original)) {
        Some(original) => SavedFrame::Generated(name, filename, line, original.clone()),
        None => SavedFrame::Plain(name, filename, line),
    }
}

fn event_index(position: Position) -> i64 {
    position.event().map_or(-1, i64::from)
}

fn saved_counter(counter: &Counter) -> SavedCounter {
    SavedCounter {
        baseline: counter.baseline,
        peak: counter.peak,
        peak_event: counter.peak_at.map(event_index),
        end: counter.end,
        exact: counter.exact(),
        max_error: counter.max_error(),
        baseline_error: counter.baseline_error,
        peak_error: counter.peak_error,
    }
}

/// `is_kept`: whether the moment that was asked for is one more than those that are always kept.
fn saved_sums(sums: &Sums, is_kept: bool) -> SavedSums {
    let Sums { baseline, peak, end, at, allocations, allocated_total } = *sums;
    let at = if is_kept { at } else { Held::default() };
    SavedSums {
        baseline: baseline.bytes,
        peak: peak.bytes,
        end: end.bytes,
        at: at.bytes,
        baseline_blocks: baseline.blocks,
        peak_blocks: peak.blocks,
        end_blocks: end.blocks,
        at_blocks: at.blocks,
        allocations,
        allocated_total,
    }
}

/// The highest values in equal parts of a curve.
fn coarse(values: &[u64]) -> Vec<u64> {
    let count = MOST_POINTS.min(values.len());
    let part = |i: usize| &values[i * values.len() / count..(i + 1) * values.len() / count];
    (0..count).map(|i| part(i).iter().copied().max().unwrap_or(0)).collect()
}

fn write_device(out: &mut String, device: &DeviceProfile, kept: &Kept, stacks: &Stacks<'_>) -> std::fmt::Result {
    let figures = &device.figures;
    writeln!(out, "    {{")?;
    let mut field = |name: &str, value: String| writeln!(out, "      \"{name}\": {value},");
    let languages =
        [("python", device.recorded_frames.python), ("c++", device.recorded_frames.cpp)].into_iter().filter(|l| l.1);
    let oom = |oom: &Oom| SavedOom {
        event: oom.event,
        requested: oom.requested,
        device_free: oom.device_free,
        allocated: oom.allocated,
    };
    let checks = figures.checks;
    let cut = kept.cut.map(|Cut { stacks, largest }| SavedCut { stacks, largest });
    field("device", json(&device.device))?;
    field("events", json(&device.events))?;
    field("duration_us", json(&device.duration_us))?;
    field("actions", json(&device.actions))?;
    field("history", json(&figures.history.name()))?;
    field("languages", json(&languages.map(|(name, _)| name).collect::<Vec<_>>()))?;
    field("allocated", json(&saved_counter(&figures.allocated)))?;
    field("active", json(&saved_counter(&figures.active)))?;
    field("requested", json(&saved_counter(&figures.requested)))?;
    field("reserved", json(&saved_counter(&figures.reserved)))?;
    let fragmentation = SavedFragmentation { peak: figures.fragmentation_at_peak, end: figures.fragmentation_at_end };
    field("fragmentation", json(&fragmentation))?;
    let checks = SavedChecks {
        sizes: Recovered { recovered: checks.sizes_recovered, total: checks.sizes_total },
        checkpoints: Matched { matched: checks.checkpoints_matched, total: checks.checkpoints_total },
        end_matches: checks.end_matches,
    };
    field("checks", json(&checks))?;
    field("allocations", json(&figures.allocation_count))?;
    field("frees", json(&figures.free_count))?;
    field("allocated_total", json(&figures.allocated_total))?;
    field("ooms", json(&figures.ooms.iter().map(oom).collect::<Vec<_>>()))?;
    field("at_event", json(&device.at.map(event_index)))?;
    let timeline =
        SavedTimeline { allocated: coarse(&figures.timeline.allocated), reserved: coarse(&figures.timeline.reserved) };
    field("timeline", json(&timeline))?;
    field("cut", json(&cut))?;
    let cut = kept.cut.map_or(0, |cut| cut.stacks);
    let mut rows: Vec<_> = kept.totals.stacks.iter().map(|exact| stacks.saved(exact, cut)).collect();
    // By name, so that a change of size leaves the order alone.
    rows.sort_by(|a, b| (&a.label, &a.key, &a.forward_frames).cmp(&(&b.label, &b.key, &b.forward_frames)));
    write_list(out, "      ", "stacks", rows.iter().map(json), ",")?;
    for (name, family) in [("metadata", &kept.totals.metadata), ("compile_contexts", &kept.totals.compile_contexts)] {
        // Without any tag, the stacks say it all.
        let tags = saved_tags(family, &stacks.profile.tables, stacks.profile.options.at);
        write_list(out, "      ", name, tags.iter().map(json), ",")?;
    }
    write!(out, "      \"phases\": []\n    }}")
}

/// What stacks are written with.
struct Stacks<'p> {
    profile: &'p Profile,
    grouper: &'p Grouper<'p>,
    keys: ExactKeys<'p>,
    names: &'p BTreeMap<FrameId, String>,
}

impl Stacks<'_> {
    fn saved(&self, exact: &Exact, cut: usize) -> SavedStack {
        let ids = |frames: &[FrameId]| {
            let names: Vec<_> = frames.iter().filter_map(|frame| self.names.get(frame)).map(String::as_str).collect();
            names.join(" ")
        };
        let sums = saved_sums(&exact.sums, is_kept(self.profile.options.at));
        match exact.whose {
            Whose::Stack(stack) => SavedStack {
                label: self.grouper.code().label_without_line(stack),
                key: self.grouper.key(stack).0,
                cpp: Some(format!("{:016x}", exact.cpp.unwrap_or_else(|| self.keys.cpp(stack)))),
                bucket: None,
                sums,
                frames: ids(&self.grouper.code().essential(stack)),
                forward_frames: ids(self.profile.tables.forward(stack)),
            },
            Whose::Bucket(bucket) => SavedStack {
                label: if bucket == Bucket::Others { others(cut) } else { bucket.label().to_owned() },
                key: bucket.label().to_owned(),
                cpp: None,
                bucket: Some(bucket.code().to_owned()),
                sums,
                frames: String::new(),
                forward_frames: String::new(),
            },
        }
    }
}

/// The totals by tag, whichever the stack; nothing where no allocation has a tag.
fn saved_tags(family: &[Exact], tables: &Tables, at: Moment) -> Vec<SavedTag> {
    if family.iter().all(|exact| exact.tag.is_none()) {
        return Vec::new();
    }
    let owner = |exact: &Exact| match exact.whose {
        Whose::Stack(_) => None,
        Whose::Bucket(bucket) => Some(bucket).filter(|&bucket| bucket != Bucket::NoFrames),
    };
    let tags = merged(family.iter().map(|exact| ((owner(exact), exact.tag), &exact.sums)));
    let mut tags: Vec<_> = tags
        .into_iter()
        .map(|((bucket, tag), sums)| SavedTag {
            tag: tag.map(|tag| tables.string(tag).to_owned()),
            bucket: bucket.map(|bucket| bucket.code().to_owned()),
            sums: saved_sums(&sums, is_kept(at)),
        })
        .collect();
    tags.sort_by(|a, b| (&a.bucket, &a.tag).cmp(&(&b.bucket, &b.tag)));
    tags
}

/// Reads a saved profile, whose file is `source`.
///
/// # Errors
/// Where the text is no saved profile, contradicts itself, or does not know the moment.
pub(super) fn read(mut input: impl Read, source: impl FnOnce() -> Source, options: Options) -> Result<Profile, Error> {
    let mut text = String::new();
    input.read_to_string(&mut text).map_err(|error| Error::Json(error.to_string()))?;
    let kind: SavedKind = serde_json::from_str(&text)?;
    match kind.schema.as_deref() {
        Some(SCHEMA) if kind.frames.is_none() => {
            return Err(Error::NotAProfile("it is the report of 'ptmem show --format json'".to_owned()));
        }
        Some(SCHEMA) => {}
        Some(other) => {
            let other = crate::text::printable(crate::text::cut(other, 64));
            return Err(Error::NotAProfile(format!("its schema is '{other}', not '{SCHEMA}'")));
        }
        None => return Err(Error::NotAProfile("it has no \"schema\"".to_owned())),
    }
    let saved: SavedProfile = serde_json::from_str(&text)?;
    // A figure that was changed would move every verdict after it.
    let whole = text.rfind(DIGEST).is_some_and(|at| digest(&text[..at]) == saved.sha1);
    if !whole {
        return Err(Error::Damaged("the text does not have the digest that stands in its last line".to_owned()));
    }
    drop(text);
    let damaged = |what: String| Error::Damaged(what);
    let kept: Moment = saved.at.parse().map_err(|error| damaged(format!("\"at\": {error}")))?;
    let asked = options.at;
    if asked != kept && is_kept(asked) {
        let others = if is_kept(kept) { format!(" and {kept}") } else { String::new() };
        return Err(Error::Moment { known: format!("baseline, peak, end{others}"), asked });
    }
    let mut reader = Reader { tables: Tables::default(), frames: HashMap::new(), asked, kept };
    reader.frames(&saved.frames)?;
    let mut devices = Vec::with_capacity(saved.devices.len());
    for device in saved.devices {
        devices.push(reader.device(device)?);
    }
    devices.sort_by_key(|device| device.device);
    if devices.windows(2).any(|pair| pair[0].device == pair[1].device) {
        return Err(damaged("a device is there twice".to_owned()));
    }
    let settings = AllocatorSettings {
        present: saved.settings.is_some(),
        all: saved.settings.unwrap_or_default(),
        ..AllocatorSettings::default()
    };
    let kind = Kind::ALL.into_iter().find(|kind| kind.name() == saved.source.kind);
    let kind = kind.ok_or_else(|| damaged(format!("unknown kind of source '{}'", saved.source.kind)))?;
    let is_code =
        |code: &str| !code.is_empty() && code.len() < 64 && code.bytes().all(|b| b.is_ascii_lowercase() || b == b'-');
    if let Some(found) = saved.diagnostics.iter().find(|found| !is_code(&found.code)) {
        return Err(damaged(format!(
            "'{}' is no diagnostic",
            crate::text::printable(crate::text::cut(&found.code, 64))
        )));
    }
    let diagnostic = |found: SavedDiagnostic| Diagnostic {
        code: found.code.into(),
        severity: found.severity,
        device: found.device,
        message: found.message,
    };
    let mut profile = Profile {
        source: source(),
        recorded: Some(Source { path: saved.source.path, bytes: saved.source.bytes, kind }),
        bound: saved.bound,
        kept: Some(kept).filter(|kept| is_kept(*kept)),
        raises: saved.raises.into_iter().map(|SavedRaise { reason, changes }| Raise { reason, changes }).collect(),
        options,
        settings,
        devices,
        diagnostics: saved.diagnostics.into_iter().map(diagnostic).collect(),
        tables: reader.tables,
    };
    let grouper = Grouper::new(&profile.tables, profile.options.group_by, &profile.options.rules);
    for device in &mut profile.devices {
        let exact = device.totals.of(profile.options.group_by);
        device.stacks = by_group(exact, &grouper, device.cut.map_or(0, |cut| cut.stacks));
    }
    Ok(profile)
}

struct Reader {
    tables: Tables,
    frames: HashMap<String, FrameId>,
    asked: Moment,
    kept: Moment,
}

impl Reader {
    fn frames(&mut self, saved: &BTreeMap<String, SavedFrame>) -> Result<(), Error> {
        // Those first that others were generated from.
        let generated = |frame: &SavedFrame| matches!(frame, SavedFrame::Generated(..));
        let (later, first): (Vec<_>, Vec<_>) = saved.iter().partition(|(_, frame)| generated(frame));
        for (id, frame) in first.into_iter().chain(later) {
            let (SavedFrame::Plain(name, filename, line) | SavedFrame::Generated(name, filename, line, _)) = frame;
            let original = match frame {
                SavedFrame::Generated(.., original) => Some(self.frame(original)?),
                SavedFrame::Plain(..) => None,
            };
            let line = line.as_u64().map(i128::from).or_else(|| line.as_i64().map(i128::from)).unwrap_or(0);
            let (name, filename) = (self.tables.intern_string(name), self.tables.intern_string(filename));
            self.frames.insert(id.clone(), self.tables.intern_frame(Frame { name, filename, line, original }));
        }
        Ok(())
    }

    fn frame(&self, id: &str) -> Result<FrameId, Error> {
        let found = self.frames.get(id).copied();
        found.ok_or_else(|| Error::Damaged(format!("there is no frame '{}'", crate::text::cut(id, 64))))
    }

    fn stack(&mut self, frames: &str, forward: &str) -> Result<StackId, Error> {
        let ids = |reader: &Self, text: &str| -> Result<Vec<FrameId>, Error> {
            text.split_ascii_whitespace().map(|id| reader.frame(id)).collect()
        };
        let (frames, forward) = (ids(self, frames)?, ids(self, forward)?);
        let stack = self.tables.intern_stack(&frames);
        Ok(if forward.is_empty() { stack } else { self.tables.intern_forward(stack, &forward) })
    }

    fn sums(&self, saved: &SavedSums) -> Sums {
        let held = |bytes, blocks| Held { bytes, blocks };
        let (baseline, peak, end) = (
            held(saved.baseline, saved.baseline_blocks),
            held(saved.peak, saved.peak_blocks),
            held(saved.end, saved.end_blocks),
        );
        let at = match self.asked {
            Moment::Baseline => baseline,
            Moment::Peak => peak,
            Moment::End => end,
            _ => held(saved.at, saved.at_blocks),
        };
        Sums { baseline, peak, end, at, allocations: saved.allocations, allocated_total: saved.allocated_total }
    }

    fn bucket(code: &str) -> Result<Bucket, Error> {
        let found = Bucket::ALL.into_iter().find(|bucket| bucket.code() == code);
        found.ok_or_else(|| Error::Damaged(format!("there is no bucket '{}'", crate::text::cut(code, 64))))
    }

    fn tags(&mut self, saved: &[SavedTag]) -> Result<Vec<Exact>, Error> {
        let mut tags = Vec::with_capacity(saved.len());
        for tag in saved {
            // Which stacks it was is not kept: what has a tag goes by that.
            let bucket = tag.bucket.as_deref().map_or(Ok(Bucket::NoFrames), Self::bucket)?;
            let name: Option<StringId> = tag.tag.as_deref().map(|tag| self.tables.intern_string(tag));
            let sums = self.sums(&tag.sums);
            tags.push(Exact { whose: Whose::Bucket(bucket), tag: name, cpp: None, sums });
        }
        Ok(tags)
    }

    fn device(&mut self, saved: SavedDevice) -> Result<DeviceProfile, Error> {
        let place = format!("device {}", saved.device);
        let mut stacks = Vec::with_capacity(saved.stacks.len());
        for stack in &saved.stacks {
            let whose = match &stack.bucket {
                Some(bucket) => Whose::Bucket(Self::bucket(bucket)?),
                None => Whose::Stack(self.stack(&stack.frames, &stack.forward_frames)?),
            };
            let cpp = stack.cpp.as_deref().map(|cpp| u64::from_str_radix(cpp, 16));
            let cpp = cpp.transpose().map_err(|_| Error::Damaged("\"cpp\" is no digest".to_owned()))?;
            stacks.push(Exact { whose, tag: None, cpp, sums: self.sums(&stack.sums) });
        }
        let (metadata, compile_contexts) = (self.tags(&saved.metadata)?, self.tags(&saved.compile_contexts)?);
        // Without any tag, the stacks say it all.
        let or_stacks = |tags: Vec<Exact>| if tags.is_empty() { stacks.clone() } else { tags };
        let mut totals = Totals {
            metadata: or_stacks(metadata),
            compile_contexts: or_stacks(compile_contexts),
            stacks: stacks.clone(),
        };
        for family in totals.all_mut() {
            require_sums(family, &saved.allocated, &place)?;
        }
        totals.sort(&self.tables);
        let history = History::ALL.into_iter().find(|history| history.name() == saved.history);
        let history = history.ok_or_else(|| Error::Damaged(format!("{place} has an unknown kind of history")))?;
        let allocated = counter(&saved.allocated);
        let at = match self.asked {
            Moment::Baseline => Some(Position::START),
            Moment::Peak => allocated.peak_at,
            Moment::End => Some(Position::after(usize::try_from(saved.events).unwrap_or(usize::MAX))),
            _ if self.asked == self.kept => saved.at_event.map(position),
            _ => None,
        };
        let oom = |oom: &SavedOom| Oom {
            event: oom.event,
            requested: oom.requested,
            device_free: oom.device_free,
            allocated: oom.allocated,
        };
        let checks = saved.checks;
        let says = |language: &str| saved.languages.iter().any(|name| name == language);
        Ok(DeviceProfile {
            device: saved.device,
            events: saved.events,
            duration_us: saved.duration_us,
            actions: saved.actions,
            recorded_frames: Languages { python: says("python"), cpp: says("c++") },
            at,
            totals,
            cut: saved.cut.map(|SavedCut { stacks, largest }| Cut { stacks, largest }),
            stacks: Vec::new(),
            figures: Figures {
                history,
                allocated,
                active: counter(&saved.active),
                requested: counter(&saved.requested),
                reserved: counter(&saved.reserved),
                fragmentation_at_peak: saved.fragmentation.peak,
                fragmentation_at_end: saved.fragmentation.end,
                allocation_count: saved.allocations,
                free_count: saved.frees,
                allocated_total: saved.allocated_total,
                ooms: saved.ooms.iter().map(oom).collect(),
                checks: Checks {
                    sizes_recovered: checks.sizes.recovered,
                    sizes_total: checks.sizes.total,
                    checkpoints_matched: checks.checkpoints.matched,
                    checkpoints_total: checks.checkpoints.total,
                    end_matches: checks.end_matches,
                },
                timeline: Timeline { allocated: saved.timeline.allocated, reserved: saved.timeline.reserved },
            },
        })
    }
}

/// Where a figure is known, the rows are what is allocated.
fn require_sums(family: &[Exact], allocated: &SavedCounter, place: &str) -> Result<(), Error> {
    let sum = |held: fn(&Sums) -> Held| family.iter().map(|exact| u128::from(held(&exact.sums).bytes)).sum::<u128>();
    let moments = [
        ("baseline", allocated.baseline, sum(|sums| sums.baseline)),
        ("peak", allocated.peak, sum(|sums| sums.peak)),
        ("end", Some(allocated.end), sum(|sums| sums.end)),
    ];
    match moments.into_iter().find(|(_, total, sum)| total.is_some_and(|total| u128::from(total) != *sum)) {
        Some((moment, total, sum)) => {
            let total = total.unwrap_or_default();
            Err(Error::Damaged(format!("the stacks of {place} hold {sum} bytes at the {moment}, not {total}")))
        }
        None => Ok(()),
    }
}

/// The position just after an event, -1 for the start.
fn position(event: i64) -> Position {
    usize::try_from(event).map_or(Position::START, Position::after)
}

fn counter(saved: &SavedCounter) -> Counter {
    Counter {
        baseline: saved.baseline,
        peak: saved.peak,
        peak_at: saved.peak_event.map(position),
        end: saved.end,
        baseline_error: saved.baseline_error,
        peak_error: saved.peak_error,
    }
}
