//! From the text of a file to a profile, which is checked as far as it can be.

use std::collections::{BTreeMap, HashMap};
use std::io::Read;
use std::sync::Arc;

use super::super::exact::{Exact, Sums, Totals, Whose};
use super::super::totals::{Bucket, Held, by_group};
use super::super::{Cut, DeviceProfile, Kind, Moment, Options, Profile, Raise, Source};
use super::format::*;
use super::{DIGEST, Error, SCHEMA, digest, is_kept, phases};
use crate::replay::{Checks, Counter, Figures, FreeBlocks, History, Oom, Position, Timeline};
use crate::snapshot::{AllocatorSettings, Frame, FrameId, StackId, StringId, Tables};
use crate::stack::{Grouper, Languages};

/// Reads a saved profile, whose file is `source`.
///
/// # Errors
/// Where the text is no saved profile, contradicts itself, or does not know the moment.
pub(in crate::profile) fn read(
    mut input: impl Read,
    source: impl FnOnce() -> Source,
    options: Options,
) -> Result<Profile, Error> {
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
        let ran_out = saved.devices.iter().any(|device| !device.ooms.is_empty());
        let others = [Some(Moment::Oom).filter(|_| ran_out), Some(kept).filter(|&kept| is_kept(kept))];
        let mut known = vec!["baseline".to_owned(), "peak".to_owned(), "end".to_owned()];
        known.extend(others.into_iter().flatten().map(|moment| moment.to_string()));
        let last = known.pop().unwrap_or_default();
        return Err(Error::Moment { known: format!("{} and {last}", known.join(", ")), asked });
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
    let mut profile = Profile {
        source: source(),
        recorded: Some(Source { path: saved.source.path, bytes: saved.source.bytes, kind }),
        bound: saved.bound,
        grouped_by: Some([saved.rules.strip_prefix, saved.rules.own, saved.rules.foreign]),
        kept: Some(kept).filter(|kept| is_kept(*kept)),
        raises: saved.raises.into_iter().map(|SavedRaise { reason, changes }| Raise { reason, changes }).collect(),
        options,
        settings,
        devices,
        diagnostics: saved.diagnostics.into_iter().filter_map(SavedDiagnostic::into_diagnostic).collect(),
        tables: Arc::new(reader.tables),
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
        let (baseline, peak) = (held(saved.baseline, saved.baseline_blocks), held(saved.peak, saved.peak_blocks));
        let (end, oom) = (held(saved.end, saved.end_blocks), held(saved.oom, saved.oom_blocks));
        let at = match self.asked {
            Moment::Baseline => baseline,
            Moment::Peak => peak,
            Moment::End => end,
            Moment::Oom => oom,
            Moment::Event(_) | Moment::Time(_) => held(saved.at, saved.at_blocks),
        };
        Sums { baseline, peak, end, oom, at, allocations: saved.allocations, allocated_total: saved.allocated_total }
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
        let if_any = |tags: Vec<Exact>| (!tags.is_empty()).then_some(tags);
        let mut totals = Totals { stacks, metadata: if_any(metadata), compile_contexts: if_any(compile_contexts) };
        for family in totals.all_mut() {
            require_sums(family, &saved.allocated, saved.ooms.first(), &place)?;
        }
        totals.sort(&self.tables);
        let history = History::ALL.into_iter().find(|history| history.name() == saved.history);
        let history = history.ok_or_else(|| Error::Damaged(format!("{place} has an unknown kind of history")))?;
        let allocated = counter(&saved.allocated);
        let at = match self.asked {
            Moment::Baseline => Some(Position::START),
            Moment::Peak => allocated.peak_at,
            Moment::End => Some(Position::after(usize::try_from(saved.events).unwrap_or(usize::MAX))),
            Moment::Oom => saved.ooms.first().map(|oom| Position::after(oom.event as usize)),
            _ if self.asked == self.kept => saved.at_event.map(position),
            _ => None,
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
            phases: phases::read(saved.phases, saved.phases_cut, saved.events, &place)?,
            intervals: Vec::new(),
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
                ooms: saved.ooms.iter().map(oom).collect::<Result<_, _>>()?,
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
fn require_sums(family: &[Exact], allocated: &SavedCounter, oom: Option<&SavedOom>, place: &str) -> Result<(), Error> {
    let sum = |held: fn(&Sums) -> Held| family.iter().map(|exact| u128::from(held(&exact.sums).bytes)).sum::<u128>();
    let moments = [
        ("at the baseline", allocated.baseline, sum(|sums| sums.baseline)),
        ("at the peak", allocated.peak, sum(|sums| sums.peak)),
        ("at the end", Some(allocated.end), sum(|sums| sums.end)),
        ("when memory ran out", oom.and_then(|oom| oom.allocated), sum(|sums| sums.oom)),
    ];
    match moments.into_iter().find(|(_, total, sum)| total.is_some_and(|total| u128::from(total) != *sum)) {
        Some((moment, total, sum)) => {
            let total = total.unwrap_or_default();
            Err(Error::Damaged(format!("the stacks of {place} hold {sum} bytes {moment}, not {total}")))
        }
        None => Ok(()),
    }
}

/// A failed allocation. What follows from other figures has to agree with them.
fn oom(saved: &SavedOom) -> Result<Oom, Error> {
    let &SavedOom { event, requested, device_free, allocated, active, reserved, max_error, .. } = saved;
    let pool = saved.pool_free.zip(saved.largest_free).map(|(bytes, largest)| FreeBlocks { bytes, largest });
    let oom = Oom { event, requested, device_free, allocated, active, reserved, pool, max_error };
    if (oom.demand(), oom.fragmentation()) != (saved.demand, saved.fragmentation) {
        return Err(Error::Damaged(format!("the figures of the failed allocation at event {event} do not agree")));
    }
    Ok(oom)
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
