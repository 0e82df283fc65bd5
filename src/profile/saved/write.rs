//! From a profile to the text of its file.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;

use serde::Serialize;
use sha1::{Digest, Sha1};

use super::super::exact::{Exact, Sums, Totals, Whose, merged};
use super::super::totals::{Bucket, Held, others};
use super::super::{Cut, DeviceProfile, Moment, Profile, Raise};
use super::format::*;
use super::{Bound, DIGEST, SCHEMA, digest, is_kept, phases};
use crate::diagnostic::Diagnostic;
use crate::replay::{Counter, Oom, Position};
use crate::snapshot::{Frame, FrameId, Tables};
use crate::stack::{Code, ExactKeys, GroupBy, Grouper, Owner};

/// So many points of a curve are kept.
const MOST_POINTS: usize = 120;
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
    let [strip_prefix, own, foreign] = profile.options.rules.of_groups();
    writeln!(out, "  \"rules\": {},", json(&SavedRules { strip_prefix, own, foreign }))?;
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
            code: found.code,
            severity: found.severity(),
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
        let Some(family) = totals.kept(by) else { continue };
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
            GroupBy::Metadata => totals.metadata = Some(kept),
            GroupBy::CompileContext => totals.compile_contexts = Some(kept),
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

fn saved_counter(counter: &Counter) -> SavedCounter {
    SavedCounter {
        baseline: counter.baseline,
        peak: counter.peak,
        peak_event: counter.peak_at.map(Position::event_index),
        end: counter.end,
        exact: counter.exact(),
        max_error: counter.max_error(),
        baseline_error: counter.baseline_error,
        peak_error: counter.peak_error,
    }
}

/// `is_kept`: whether the moment that was asked for is one more than those that are always kept.
fn saved_sums(sums: &Sums, is_kept: bool) -> SavedSums {
    let Sums { baseline, peak, end, oom, at, allocations, allocated_total } = *sums;
    let at = if is_kept { at } else { Held::default() };
    SavedSums {
        baseline: baseline.bytes,
        peak: peak.bytes,
        end: end.bytes,
        oom: oom.bytes,
        at: at.bytes,
        baseline_blocks: baseline.blocks,
        peak_blocks: peak.blocks,
        end_blocks: end.blocks,
        oom_blocks: oom.blocks,
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
        active: oom.active,
        reserved: oom.reserved,
        demand: oom.demand(),
        fragmentation: oom.fragmentation(),
        pool_free: oom.pool.map(|pool| pool.bytes),
        largest_free: oom.pool.map(|pool| pool.largest),
        max_error: oom.max_error,
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
    let at = if is_kept(stacks.profile.options.at) { device.at } else { figures.allocated.peak_at };
    field("at_event", json(&at.map(Position::event_index)))?;
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
        let tags = saved_tags(family.as_deref().unwrap_or_default(), &stacks.profile.tables, stacks.profile.options.at);
        write_list(out, "      ", name, tags.iter().map(json), ",")?;
    }
    write_list(out, "      ", "phases", phases::saved(&device.phases).iter().map(json), ",")?;
    write!(out, "      \"phases_cut\": {}\n    }}", device.phases.cut)
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

/// The totals by tag, whichever the stack.
fn saved_tags(family: &[Exact], tables: &Tables, at: Moment) -> Vec<SavedTag> {
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
