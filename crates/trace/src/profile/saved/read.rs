//! From the text of a file to a profile, which is checked as far as it can be.

use std::collections::BTreeMap;
use std::sync::Arc;

use ptmem_base::device::DeviceId;
use ptmem_base::diagnostic::{Code, Severity};
use ptmem_snapshot::input::JsonDocument;
use ptmem_snapshot::snapshot::{AllocatorSettings, Frame, FrameId, StackId, Tables};

use super::super::{DeviceProfile, Moment, Phases, Profile, ReadOptions, Source};
use super::error::require_room;
use super::format::*;
use super::{DIGEST, SavedError, digest, phases, trace};
use crate::replay::Timeline;
use crate::trace::{Class, StartBlocks, Trace};

/// Reads a saved profile, whose file is `source`, and whose events may take `max_bytes`.
///
/// # Errors
/// If the text is not a saved profile, contradicts itself, or does not have the moment.
pub(in crate::profile) fn read(
    text: Vec<u8>,
    max_bytes: u64,
    source: Source,
    options: ReadOptions,
) -> Result<Profile, SavedError> {
    let text = String::from_utf8(text).map_err(|error| SavedError::Json(error.to_string()))?;
    let saved = parse(&text)?;
    require_room(saved.devices.iter().map(SavedDevice::moves).fold(0, u64::saturating_add), max_bytes)?;
    if options.unfold > 0 {
        return Err(SavedError::Unfold);
    }
    drop(text);
    if options.at.needs_times() {
        return Err(SavedError::Times(options.at));
    }
    let counted = saved.run.iter().flat_map(|run| &run.counters).map(|counters| counters.device).collect();
    let mut reader = SavedReader {
        tables: Tables::default(),
        frames: Vec::new(),
        texts: saved.texts,
        asked: options.at.clone(),
        counted,
    };
    reader.frames(&saved.frames)?;
    let devices = saved.devices.into_iter().map(|device| reader.device(device)).collect::<Result<_, _>>()?;
    let mut profile = Profile {
        source,
        recorded: Some(saved.source),
        raises: saved.raises,
        options,
        settings: settings(saved.settings),
        keeps_annotations: saved.keeps_annotations,
        ended_us: saved.ended_us,
        devices,
        run: saved.run,
        ignored: saved.ignored,
        // A note of a newer version affects no figure.
        diagnostics: saved
            .diagnostics
            .into_iter()
            .filter(|saved| saved.found.code != Code::UnknownDiagnostic || saved.severity != Severity::Note)
            .map(|saved| saved.found)
            .collect(),
        tables: Arc::new(reader.tables),
        ..Profile::default()
    };
    profile.judge_guesses();
    profile.add_passes();
    profile.group();
    Ok(profile)
}

/// The file as it is, once its schema and its digest are verified.
fn parse(text: &str) -> Result<SavedProfile<DeviceProfile>, SavedError> {
    let document = JsonDocument::of(text)?;
    if document != JsonDocument::SavedProfile {
        return Err(SavedError::NotAProfile(document));
    }
    let saved: SavedProfile<DeviceProfile> = serde_json::from_str(text)?;
    // A figure that was changed would move every verdict after it.
    let is_whole = text.rfind(DIGEST).is_some_and(|at| digest(&text[..at]) == saved.sha1);
    if !is_whole {
        return Err(SavedError::Damaged("the digest in the last line is not that of the text".to_owned()));
    }
    Ok(saved)
}

fn settings(saved: Option<BTreeMap<String, String>>) -> AllocatorSettings {
    AllocatorSettings { present: saved.is_some(), all: saved.unwrap_or_default(), ..AllocatorSettings::default() }
}

impl SavedDevice<DeviceProfile> {
    /// The number of events and of blocks that it stands for.
    fn moves(&self) -> u64 {
        let start: Vec<StartBlocks> = self.classes.iter().map(|SavedClass(.., rest)| rest.start).collect();
        trace::moves_of(self.device.events, self.trace.implied, &start)
    }
}

struct SavedReader {
    tables: Tables,
    /// By their places in the file.
    frames: Vec<FrameId>,
    texts: Vec<String>,
    asked: Moment,
    /// The devices of which PyTorch's own counters are known.
    counted: Vec<DeviceId>,
}

impl SavedReader {
    /// Takes in all frames; one follows that which it was generated from.
    fn frames(&mut self, saved: &[SavedFrame]) -> Result<(), SavedError> {
        for SavedFrame(name, filename, line, original) in saved {
            let [name, filename] = [name, filename].map(|text| text.of(&self.texts));
            let (Some(name), Some(filename)) = (name, filename) else {
                return Err(SavedError::Damaged("a frame has a text that is not there".to_owned()));
            };
            let name = self.tables.intern_string(name);
            let filename = self.tables.intern_string(filename);
            let original = original.map(|original| self.frame(original)).transpose()?;
            self.frames.push(self.tables.intern_frame(Frame { name, filename, line: (*line).into(), original }));
        }
        Ok(())
    }

    fn frame(&self, number: u32) -> Result<FrameId, SavedError> {
        let found = self.frames.get(number as usize).copied();
        found.ok_or_else(|| SavedError::Damaged(format!("there is no frame {number}")))
    }

    fn frame_list(&self, numbers: &[u32]) -> Result<Vec<FrameId>, SavedError> {
        numbers.iter().map(|&number| self.frame(number)).collect()
    }

    /// The stack of these frames, and of those of its forward pass.
    fn stack(&mut self, frames: &[u32], forward: &[u32]) -> Result<StackId, SavedError> {
        let frames = self.frame_list(frames)?;
        let forward = self.frame_list(forward)?;
        let stack = self.tables.intern_stack(&frames);
        Ok(if forward.is_empty() { stack } else { self.tables.intern_forward(stack, &forward) })
    }

    /// The stack of a failed request.
    fn failed_stack(&mut self, saved: &SavedOom) -> Result<Option<StackId>, SavedError> {
        (!saved.frames.is_empty()).then(|| self.stack(&saved.frames, &[])).transpose()
    }

    fn trace(&mut self, saved: &SavedDevice<DeviceProfile>) -> Result<Trace, SavedError> {
        let stacks = saved.stacks.iter().map(|stack| self.stack(&stack.frames, &stack.forward_frames));
        let stacks: Vec<StackId> = stacks.collect::<Result<_, _>>()?;
        let classes =
            saved.classes.iter().map(|class| class.class(&saved.stacks, &stacks, &self.texts, &mut self.tables));
        let classes: Option<Vec<Class>> = classes.collect();
        let start = saved.classes.iter().map(|SavedClass(.., rest)| rest.start).collect();
        let DeviceProfile { device, events, .. } = saved.device;
        let classes = classes.ok_or_else(|| trace::wrong(device, "has a class of no stack or text"))?;
        saved.trace.trace(classes, start, events).map_err(|fault| trace::wrong(device, fault))
    }

    fn device(&mut self, saved: SavedDevice<DeviceProfile>) -> Result<DeviceProfile, SavedError> {
        let trace = self.trace(&saved)?;
        let mut device = saved.device;
        device.trace = trace;
        device.has_times = !device.times.is_empty();
        device.failed_stacks = saved.ooms.iter().map(|oom| self.failed_stack(oom)).collect::<Result<_, _>>()?;
        device.figures.ooms = saved.ooms.iter().map(|saved| saved.oom).collect();
        if let Some(figure) = device.disagreement(self.counted.contains(&device.device)) {
            let words = format!("the figure '{figure}' of {} is not the one of its history", device.device);
            return Err(SavedError::Damaged(words));
        }
        device.figures.timeline = Timeline::of(&device.trace);
        let phases = phases::read(&saved.phases, &self.texts, device.trace.symbols.len(), &device.device.to_string())?;
        device.phases = Phases::new(phases, saved.phases_cut, &device.figures, &device.trace);
        device.at = device.place_of(&self.asked, None);
        Ok(device)
    }
}
