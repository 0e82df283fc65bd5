//! From a profile to the text of its file.

use std::collections::BTreeMap;

use serde::Serialize;

use super::super::exact::{Attribution, Exact, merged};
use super::super::totals::{Bucket, others};
use super::super::{DeviceProfile, Moment, Profile, Raise};
use super::bounded::{Kept, bounded};
use super::figures::*;
use super::format::*;
use super::layout::Layout;
use super::names::frame_names;
use super::{Bound, DIGEST, SCHEMA, digest, phases};
use crate::replay::Position;
use crate::snapshot::{FrameId, Tables};
use crate::stack::{ExactKeys, GroupBy, Grouper};

/// The profile as the text of a file, within a bound, with the reasons for which figures were raised.
#[must_use]
pub fn text_of(profile: &Profile, bound: Bound, raises: &[Raise]) -> String {
    let mut out = Vec::new();
    let saved = saved_profile(profile, bound, raises);
    // Strings, numbers, and maps with string keys, written to memory: that cannot fail.
    let _ = saved.serialize(&mut serde_json::Serializer::with_formatter(&mut out, Layout::default()));
    let mut text = String::from_utf8(out).unwrap_or_default();
    // The digest is that of all lines before its own.
    if let Some(end) = text.rfind(DIGEST) {
        text.truncate(end);
    }
    let digest = digest(&text);
    text + DIGEST + &digest + "\"\n}\n"
}

fn saved_profile(profile: &Profile, bound: Bound, raises: &[Raise]) -> SavedProfile {
    let grouper = profile.grouper_by(GroupBy::Stack);
    let kept: Vec<_> = profile.devices.iter().map(|device| bounded(device, &grouper, bound)).collect();
    let names = frame_names(grouper.code(), &profile.devices, &kept);
    let writer = Writer { profile, grouper: &grouper, keys: ExactKeys::new(&profile.tables), names: &names };
    let [strip_prefix, own, foreign] = profile.options.rules.of_groups();
    let at = if writer.keeps_moment() { &profile.options.at } else { &Moment::Peak };
    SavedProfile {
        schema: SCHEMA.to_owned(),
        tool: Tool { name: "ptmem".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() },
        source: SavedSource::new(profile.recorded.as_ref().unwrap_or(&profile.source)),
        group_by: GroupBy::Stack.name().to_owned(),
        bound,
        rules: SavedRules { strip_prefix, own, foreign },
        at: at.to_string(),
        raises: raises.iter().map(SavedRaise::new).collect(),
        settings: profile.settings.present.then(|| profile.settings.all.clone()),
        run: profile.run.clone(),
        devices: profile.devices.iter().zip(&kept).map(|(device, kept)| writer.device(device, kept)).collect(),
        diagnostics: profile.diagnostics.iter().map(SavedDiagnostic::new).collect(),
        frames: names.iter().map(|(&frame, name)| (name.clone(), writer.frame(frame))).collect(),
        sha1: String::new(),
    }
}

/// Everything that devices and stacks are written with.
struct Writer<'p> {
    profile: &'p Profile,
    grouper: &'p Grouper<'p>,
    keys: ExactKeys<'p>,
    names: &'p BTreeMap<FrameId, String>,
}

impl Writer<'_> {
    /// True if the moment that was asked for is one more than those that are always kept.
    fn keeps_moment(&self) -> bool {
        self.profile.options.at.is_kept_on_request()
    }

    fn device(&self, device: &DeviceProfile, kept: &Kept) -> SavedDevice {
        let figures = &device.figures;
        let at = if self.keeps_moment() { device.at } else { figures.allocated.peak_at };
        SavedDevice {
            device: device.device,
            events: device.events,
            duration_us: device.duration_us,
            actions: device.actions.clone(),
            history: figures.history.name().to_owned(),
            languages: languages(device),
            allocated: SavedCounter::new(&figures.allocated, figures.history),
            active: SavedCounter::new(&figures.active, figures.history),
            requested: SavedCounter::new(&figures.requested, figures.history),
            reserved: SavedCounter::new(&figures.reserved, figures.history),
            fragmentation: SavedFragmentation::new(figures),
            checks: SavedChecks::new(figures.checks),
            allocations: figures.allocation_count,
            frees: figures.free_count,
            allocated_total: figures.allocated_total,
            ooms: self.ooms(device),
            at_event: at.map(Position::event_index),
            timeline: SavedTimeline::new(&figures.timeline),
            cut: kept.cut.map(SavedCut::new),
            stacks: self.stacks(kept),
            metadata: self.tags(kept.totals.metadata.as_deref()),
            compile_contexts: self.tags(kept.totals.compile_contexts.as_deref()),
            course: device.course.as_ref().map(|course| course.saved(self.grouper)),
            phases: phases::saved(&device.phases),
            phases_cut: device.phases.cut,
            failed_request: device.failed_request.clone(),
        }
    }

    fn ooms(&self, device: &DeviceProfile) -> Vec<SavedOom> {
        let mut saved = Vec::with_capacity(device.figures.ooms.len());
        for (index, oom) in device.figures.ooms.iter().enumerate() {
            let stack = device.failed_stacks.get(index).copied().flatten();
            let frames = stack.map(|stack| self.frame_list(&self.grouper.code().essential(stack)));
            saved.push(SavedOom::new(oom, frames.unwrap_or_default()));
        }
        saved
    }

    /// The stacks by name, so that a change of size leaves the order alone.
    fn stacks(&self, kept: &Kept) -> Vec<SavedStack> {
        let cut = kept.cut.map_or(0, |cut| cut.stacks);
        let mut stacks: Vec<_> = kept.totals.stacks.iter().map(|exact| self.stack(exact, cut)).collect();
        stacks.sort_by(|a, b| (&a.label, &a.key, &a.forward_frames).cmp(&(&b.label, &b.key, &b.forward_frames)));
        stacks
    }

    fn stack(&self, exact: &Exact, cut: usize) -> SavedStack {
        let sums = SavedSums::new(&exact.sums, self.keeps_moment());
        let highest = exact.highest.map(SavedHighest::new);
        match exact.attribution {
            Attribution::Stack(stack) => SavedStack {
                label: self.grouper.code().label_without_line(stack),
                key: self.grouper.key(stack).0,
                cpp: Some(format!("{:016x}", exact.cpp.unwrap_or_else(|| self.keys.cpp(stack)))),
                bucket: None,
                sums,
                highest,
                group_highest: exact.group_highest.map(SavedHighest::new),
                frames: self.frame_list(&self.grouper.code().essential(stack)),
                forward_frames: self.frame_list(self.profile.tables.forward(stack)),
            },
            Attribution::Bucket(bucket) => SavedStack {
                label: if bucket == Bucket::Others { others(cut) } else { bucket.label().to_owned() },
                key: bucket.label().to_owned(),
                cpp: None,
                bucket: Some(bucket.code().to_owned()),
                sums,
                highest,
                group_highest: None,
                frames: String::new(),
                forward_frames: String::new(),
            },
        }
    }

    /// The names of frames, those that have one.
    fn frame_list(&self, frames: &[FrameId]) -> String {
        let names: Vec<_> = frames.iter().filter_map(|frame| self.names.get(frame)).map(String::as_str).collect();
        names.join(" ")
    }

    fn frame(&self, id: FrameId) -> SavedFrame {
        let tables = &self.profile.tables;
        let frame = tables.frame(id);
        let name = tables.string(frame.name).to_owned();
        let filename = tables.string(frame.filename).to_owned();
        let line = line_number(frame.line);
        match frame.original.and_then(|original| self.names.get(&original)) {
            Some(original) => SavedFrame::Generated(name, filename, line, original.clone()),
            None => SavedFrame::Plain(name, filename, line),
        }
    }

    /// The totals by tag, whichever the stack.
    fn tags(&self, family: Option<&[Exact]>) -> Vec<SavedTag> {
        let tables: &Tables = &self.profile.tables;
        let totals = family.unwrap_or_default().iter();
        let tags = merged(totals.map(|exact| ((bucket_of_tag(exact), exact.tag), &exact.sums)));
        let mut saved = Vec::with_capacity(tags.len());
        for ((bucket, tag), sums) in tags {
            saved.push(SavedTag {
                tag: tag.map(|tag| tables.string(tag).to_owned()),
                bucket: bucket.map(|bucket| bucket.code().to_owned()),
                sums: SavedSums::new(&sums, self.keeps_moment()),
            });
        }
        saved.sort_by(|a, b| (&a.bucket, &a.tag).cmp(&(&b.bucket, &b.tag)));
        saved
    }
}

/// The bucket of memory that goes by no tag.
fn bucket_of_tag(exact: &Exact) -> Option<Bucket> {
    match exact.attribution {
        Attribution::Stack(_) | Attribution::Bucket(Bucket::NoFrames) => None,
        Attribution::Bucket(bucket) => Some(bucket),
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
