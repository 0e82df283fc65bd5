//! From the text of a file to a profile, which is checked as far as it can be.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use ptmem_base::diagnostic::{Code, Severity};
use ptmem_base::text::cut;
use ptmem_snapshot::input::Document;
use ptmem_snapshot::snapshot::{AllocatorSettings, Frame, FrameId, StackId, Tables};

use super::super::{DeviceProfile, Moment, Phases, Profile, ReadOptions, Source};
use super::format::*;
use super::trace::Classes;
use super::write::frame_name;
use super::{DIGEST, Error, digest, phases};
use crate::replay::{Origin, Timeline};

/// Reads a saved profile, whose file is `source`.
///
/// # Errors
/// If the text is not a saved profile, contradicts itself, or does not have the moment.
pub(in crate::profile) fn read(text: Vec<u8>, source: Source, options: ReadOptions) -> Result<Profile, Error> {
    let text = String::from_utf8(text).map_err(|error| Error::Json(error.to_string()))?;
    let saved = parse(&text)?;
    if options.group_by.is_origin() {
        return Err(Error::Grouping(options.group_by));
    }
    if options.unfold > 0 {
        return Err(Error::Unfold);
    }
    drop(text);
    if options.at.needs_times() {
        return Err(Error::Times(options.at));
    }
    let coarse = saved.devices.iter().find(|device| device.coarse.is_some());
    coarse.map_or(Ok(()), |saved| require_known(saved.device.device, &options))?;
    let mut reader = Reader { tables: Tables::default(), frames: HashMap::new(), asked: options.at.clone() };
    reader.frames(&saved.frames)?;
    let devices = saved.devices.into_iter().map(|device| reader.device(device)).collect::<Result<_, _>>()?;
    let mut profile = Profile {
        source,
        recorded: Some(saved.source),
        raises: saved.raises,
        options,
        settings: settings(saved.settings),
        keeps_annotations: saved.keeps_annotations,
        devices,
        run: saved.run,
        // A note of a newer version affects no figure.
        diagnostics: saved
            .diagnostics
            .into_iter()
            .filter(|saved| saved.found.code != Code::UnknownDiagnostic || saved.severity != Severity::Note)
            .map(|saved| saved.found)
            .collect(),
        tables: Arc::new(reader.tables),
        facts: None,
    };
    profile.judge_guesses();
    profile.add_passes();
    profile.group();
    Ok(profile)
}

/// Refuses questions that a coarse history cannot answer.
fn require_known(device: u32, options: &ReadOptions) -> Result<(), Error> {
    let asked = match &options.at {
        _ if options.group_by.is_tag() => format!("groups by {}", options.group_by),
        Moment::Baseline | Moment::Peak | Moment::End | Moment::Oom | Moment::Aligned(_) => return Ok(()),
        at @ (Moment::Event(_) | Moment::Time(_) | Moment::Phase(_) | Moment::Between(_)) => {
            format!("the stacks at '{at}'")
        }
    };
    Err(Error::Coarse { device, asked })
}

/// The file as it is, once its schema and its digest are verified.
fn parse(text: &str) -> Result<SavedProfile<DeviceProfile>, Error> {
    let document = Document::of(text)?;
    if document != Document::SavedProfile {
        return Err(Error::NotAProfile(document));
    }
    let saved: SavedProfile<DeviceProfile> = serde_json::from_str(text)?;
    // A figure that was changed would move every verdict after it.
    let is_whole = text.rfind(DIGEST).is_some_and(|at| digest(&text[..at]) == saved.sha1);
    if !is_whole {
        return Err(Error::Damaged("the digest in the last line is not that of the text".to_owned()));
    }
    Ok(saved)
}

fn settings(saved: Option<BTreeMap<String, String>>) -> AllocatorSettings {
    AllocatorSettings { present: saved.is_some(), all: saved.unwrap_or_default(), ..AllocatorSettings::default() }
}

struct Reader {
    tables: Tables,
    frames: HashMap<String, FrameId>,
    asked: Moment,
}

impl Reader {
    /// Takes in all frames, first those that others were generated from.
    fn frames(&mut self, saved: &BTreeMap<String, SavedFunction>) -> Result<(), Error> {
        for is_generated in [false, true] {
            for (id, SavedFunction(name, filename, lines)) in saved {
                let name = self.tables.intern_string(name);
                let filename = self.tables.intern_string(filename);
                for (number, line) in lines.iter().enumerate() {
                    let (line, original) = match line {
                        SavedLine::Plain(line) => (*line, None),
                        SavedLine::Generated(line, original) => (*line, Some(original)),
                    };
                    if original.is_some() == is_generated {
                        let original = original.map(|original| self.frame(original)).transpose()?;
                        let frame = Frame { name, filename, line: line.into(), original };
                        self.frames.insert(frame_name(id, number), self.tables.intern_frame(frame));
                    }
                }
            }
        }
        Ok(())
    }

    fn frame(&self, id: &str) -> Result<FrameId, Error> {
        let found = self.frames.get(id).copied();
        found.ok_or_else(|| Error::Damaged(format!("there is no frame '{}'", cut(id, 64))))
    }

    /// The frames of a list of names.
    fn frame_list(&self, names: &str) -> Result<Vec<FrameId>, Error> {
        names.split_ascii_whitespace().map(|id| self.frame(id)).collect()
    }

    fn stack(&mut self, saved: &SavedStack) -> Result<StackId, Error> {
        let frames = self.frame_list(&saved.frames)?;
        let forward = self.frame_list(&saved.forward_frames)?;
        let stack = self.tables.intern_stack(&frames);
        Ok(if forward.is_empty() { stack } else { self.tables.intern_forward(stack, &forward) })
    }

    /// The classes of the stacks.
    fn classes(&mut self, saved: &[SavedStack]) -> Result<Classes, Error> {
        let mut classes = Classes::default();
        for stack in saved {
            let origin = match stack.bucket {
                Some(bucket) => Origin::Bucket(bucket),
                None => Origin::Stack(self.stack(stack)?),
            };
            for (name, class) in &stack.classes {
                classes.add(name, class, (origin, stack.cpp), &mut self.tables);
            }
        }
        Ok(classes)
    }

    /// The stack of a failed request.
    fn failed_stack(&mut self, saved: &SavedOom) -> Result<Option<StackId>, Error> {
        let frames = self.frame_list(&saved.frames)?;
        Ok((!frames.is_empty()).then(|| self.tables.intern_stack(&frames)))
    }

    fn device(&mut self, saved: SavedDevice<DeviceProfile>) -> Result<DeviceProfile, Error> {
        let mut device = saved.device;
        let place = format!("device {}", device.device);
        device.trace = self.classes(&saved.stacks)?.trace(&saved.trace, device.events, &place)?;
        device.failed_stacks = saved.ooms.iter().map(|oom| self.failed_stack(oom)).collect::<Result<_, _>>()?;
        device.figures.ooms = saved.ooms.iter().map(|saved| saved.oom).collect();
        device.coarse = saved.coarse.is_some();
        device.figures.timeline = saved.coarse.unwrap_or_else(|| Timeline::of(&device.trace));
        let phases = phases::read(&saved.phases, device.trace.symbols.len(), &place)?;
        device.phases = Phases::new(phases, saved.phases_cut, &device.figures, &device.trace);
        device.at = match self.asked {
            Moment::Aligned(_) if device.coarse => device.figures.allocated.peak_at,
            _ => device.place_of(&self.asked, None),
        };
        Ok(device)
    }
}
