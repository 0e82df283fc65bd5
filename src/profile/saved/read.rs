//! From the text of a file to a profile, which is checked as far as it can be.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::super::course::{self, Course, SavedCourse};
use super::super::exact::{Attribution, Exact, Sums, Totals};
use super::super::totals::{Bucket, Held, by_saved_group};
use super::super::{DeviceProfile, Moment, Options, Profile, Source};
use super::figures::*;
use super::format::*;
use super::{DIGEST, Error, digest, phases};
use crate::input::Document;
use crate::replay::{Counter, Figures, History, Oom, Position};
use crate::snapshot::{AllocatorSettings, Frame, FrameId, RunFacts, StackId, Tables};
use crate::stack::{Grouper, Languages};
use crate::text::cut;

/// Reads a saved profile, whose file is `source`.
///
/// # Errors
/// Where the text is no saved profile, contradicts itself, or does not know the moment.
pub(in crate::profile) fn read(text: Vec<u8>, source: Source, options: Options) -> Result<Profile, Error> {
    let text = String::from_utf8(text).map_err(|error| Error::Json(error.to_string()))?;
    let saved = parse(&text)?;
    if options.group_by.is_origin() {
        return Err(Error::Grouping(options.group_by));
    }
    drop(text);
    let kept: Moment =
        saved.at.parse().map_err(|error: super::super::ParseMomentError| Error::Damaged(format!("\"at\": {error}")))?;
    let asked = options.at.clone();
    require_moment(&saved, &asked, &kept)?;
    let mut reader =
        Reader { tables: Tables::default(), frames: HashMap::new(), moment: asked.clone(), asked, kept: kept.clone() };
    reader.frames(&saved.frames)?;
    let devices = reader.devices(saved.devices)?;
    let mut profile = Profile {
        source,
        recorded: Some(saved.source.into_source()?),
        bound: saved.bound,
        grouped_by: Some([saved.rules.strip_prefix, saved.rules.own, saved.rules.foreign]),
        kept: Some(kept).filter(Moment::is_kept_on_request),
        raises: saved.raises.into_iter().map(SavedRaise::into_raise).collect(),
        options,
        settings: settings(saved.settings),
        devices,
        run: saved.run.map(RunFacts::bounded),
        diagnostics: saved.diagnostics.into_iter().filter_map(SavedDiagnostic::into_diagnostic).collect(),
        tables: Arc::new(reader.tables),
        facts: None,
    };
    let grouper = Grouper::new(&profile.tables, profile.options.group_by, &profile.options.rules);
    for device in &mut profile.devices {
        let exact = device.totals.of(profile.options.group_by);
        device.stacks = by_saved_group(exact, &grouper, device.cut.map_or(0, |cut| cut.stacks));
    }
    profile.facts = Some(grouper.code().facts());
    Ok(profile)
}

/// The file as it stands, once its schema and its digest are right.
fn parse(text: &str) -> Result<SavedProfile, Error> {
    let document = Document::of(text)?;
    if document != Document::SavedProfile {
        return Err(Error::NotAProfile(document));
    }
    let saved: SavedProfile = serde_json::from_str(text)?;
    // A figure that was changed would move every verdict after it.
    let is_whole = text.rfind(DIGEST).is_some_and(|at| digest(&text[..at]) == saved.sha1);
    if !is_whole {
        return Err(Error::Damaged("the text does not have the digest that stands in its last line".to_owned()));
    }
    Ok(saved)
}

/// Refuses a moment that the file does not know.
fn require_moment(saved: &SavedProfile, asked: &Moment, kept: &Moment) -> Result<(), Error> {
    if asked == kept || !asked.is_kept_on_request() {
        return Ok(());
    }
    let mut known = vec!["baseline".to_owned(), "peak".to_owned(), "end".to_owned()];
    if saved.devices.iter().any(|device| !device.ooms.is_empty()) {
        known.push(Moment::Oom.to_string());
    }
    if kept.is_kept_on_request() {
        known.push(kept.to_string());
    }
    let last = known.pop().unwrap_or_default();
    Err(Error::Moment { known: format!("{} and {last}", known.join(", ")), asked: asked.clone() })
}

fn settings(saved: Option<BTreeMap<String, String>>) -> AllocatorSettings {
    AllocatorSettings { present: saved.is_some(), all: saved.unwrap_or_default(), ..AllocatorSettings::default() }
}

struct Reader {
    tables: Tables,
    frames: HashMap<String, FrameId>,
    asked: Moment,
    /// The moment that is shown of the device that is read.
    moment: Moment,
    kept: Moment,
}

impl Reader {
    /// Takes in all frames, first those that others were generated from.
    fn frames(&mut self, saved: &BTreeMap<String, SavedFrame>) -> Result<(), Error> {
        for (id, frame) in saved {
            if let SavedFrame::Plain(name, filename, line) = frame {
                self.add_frame(id, name, filename, line, None);
            }
        }
        for (id, frame) in saved {
            if let SavedFrame::Generated(name, filename, line, original) = frame {
                let original = self.frame(original)?;
                self.add_frame(id, name, filename, line, Some(original));
            }
        }
        Ok(())
    }

    fn add_frame(
        &mut self,
        id: &str,
        name: &str,
        filename: &str,
        line: &serde_json::Number,
        original: Option<FrameId>,
    ) {
        let line = line.as_u64().map(i128::from).or_else(|| line.as_i64().map(i128::from)).unwrap_or(0);
        let name = self.tables.intern_string(name);
        let filename = self.tables.intern_string(filename);
        self.frames.insert(id.to_owned(), self.tables.intern_frame(Frame { name, filename, line, original }));
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

    /// The sums, with those of the moment that is shown.
    fn sums(&self, saved: &SavedSums) -> Sums {
        let sums = saved.sums();
        let at = match self.moment {
            Moment::Baseline => sums.baseline,
            Moment::Peak | Moment::Aligned(_) => sums.peak,
            Moment::End => sums.end,
            Moment::Oom => sums.oom,
            Moment::Event(_) | Moment::Time(_) | Moment::Phase(_) | Moment::Between(_) => sums.at,
        };
        Sums { at, ..sums }
    }

    fn stacks(&mut self, saved: &[SavedStack]) -> Result<Vec<Exact>, Error> {
        let mut stacks = Vec::with_capacity(saved.len());
        for stack in saved {
            let attribution = match &stack.bucket {
                Some(code) => Attribution::Bucket(bucket(code)?),
                None => Attribution::Stack(self.stack(stack)?),
            };
            let cpp = stack.cpp.as_deref().map(cpp_digest).transpose()?;
            let highest = stack.highest.map(SavedHighest::highest);
            let group_highest = stack.group_highest.map(SavedHighest::highest);
            stacks.push(Exact { cpp, highest, group_highest, ..Exact::new(attribution, None, self.sums(&stack.sums)) });
        }
        Ok(stacks)
    }

    /// The totals by tag; nothing where no allocation has one.
    fn tags(&mut self, saved: &[SavedTag]) -> Result<Option<Vec<Exact>>, Error> {
        let mut tags = Vec::with_capacity(saved.len());
        for tag in saved {
            // Which stacks it was is not kept: what has a tag goes by that.
            let bucket = tag.bucket.as_deref().map_or(Ok(Bucket::NoFrames), bucket)?;
            let name = tag.tag.as_deref().map(|tag| self.tables.intern_string(tag));
            tags.push(Exact::new(Attribution::Bucket(bucket), name, self.sums(&tag.sums)));
        }
        Ok((!tags.is_empty()).then_some(tags))
    }

    /// The stacks of failed requests; profiles of earlier releases have none.
    fn failed_stacks(&mut self, saved: &[SavedOom]) -> Result<Vec<Option<StackId>>, Error> {
        let mut stacks = Vec::with_capacity(saved.len());
        for oom in saved {
            let frames = self.frame_list(&oom.frames)?;
            stacks.push((!frames.is_empty()).then(|| self.tables.intern_stack(&frames)));
        }
        Ok(stacks)
    }

    fn devices(&mut self, saved: Vec<SavedDevice>) -> Result<Vec<DeviceProfile>, Error> {
        let mut devices = Vec::with_capacity(saved.len());
        for device in saved {
            devices.push(self.device(device)?);
        }
        devices.sort_by_key(|device| device.device);
        if devices.windows(2).any(|pair| pair[0].device == pair[1].device) {
            return Err(Error::Damaged("a device is there twice".to_owned()));
        }
        Ok(devices)
    }

    fn device(&mut self, saved: SavedDevice) -> Result<DeviceProfile, Error> {
        let place = format!("device {}", saved.device);
        let history = History::ALL.into_iter().find(|history| history.name() == saved.history);
        let history = history.ok_or_else(|| Error::Damaged(format!("{place} has an unknown kind of history")))?;
        self.moment = shown_moment(&self.asked, history);
        let mut totals = Totals {
            stacks: self.stacks(&saved.stacks)?,
            metadata: self.tags(&saved.metadata)?,
            compile_contexts: self.tags(&saved.compile_contexts)?,
            origins: None,
        };
        let course = saved.course.as_ref().map(|course| read_course(course, &saved.stacks, &totals.stacks));
        let course = course.transpose().map_err(|what| Error::Damaged(format!("the course of {place} {what}")))?;
        for family in totals.all_mut() {
            require_sums(family, &saved.allocated, saved.ooms.first(), &place)?;
        }
        totals.sort(&self.tables);
        let failed_stacks = self.failed_stacks(&saved.ooms)?;
        let figures = Figures {
            history,
            allocated: saved.allocated.counter(),
            active: saved.active.counter(),
            requested: saved.requested.counter(),
            reserved: saved.reserved.counter(),
            fragmentation_at_peak: saved.fragmentation.peak,
            fragmentation_at_end: saved.fragmentation.end,
            allocation_count: saved.allocations,
            free_count: saved.frees,
            allocated_total: saved.allocated_total,
            ooms: saved.ooms.iter().map(SavedOom::oom).collect::<Result<Vec<Oom>, Error>>()?,
            checks: saved.checks.checks(),
            timeline: saved.timeline.into_timeline(),
        };
        Ok(DeviceProfile {
            device: saved.device,
            events: saved.events,
            duration_us: saved.duration_us,
            actions: saved.actions,
            recorded_frames: languages(&saved.languages),
            at: self.at(&figures.allocated, figures.first_oom(), saved.events, saved.at_event),
            totals,
            cut: saved.cut.map(|cut| cut.cut()),
            stacks: Vec::new(),
            phases: phases::read(saved.phases, saved.phases_cut, saved.events, &place)?,
            intervals: Vec::new(),
            course,
            lifetimes: None,
            figures,
            failed_request: saved.failed_request,
            failed_stacks,
        })
    }

    /// The position of the moment that is shown.
    fn at(&self, allocated: &Counter, oom: Option<Position>, events: u64, at_event: Option<i64>) -> Option<Position> {
        match &self.moment {
            Moment::Baseline => Some(Position::START),
            Moment::Peak | Moment::Aligned(_) => allocated.peak_at,
            Moment::End => Some(Position::after(usize::try_from(events).unwrap_or(usize::MAX))),
            Moment::Oom => oom,
            Moment::Event(_) | Moment::Time(_) | Moment::Phase(_) | Moment::Between(_) => {
                at_event.filter(|_| self.moment == self.kept).map(position)
            }
        }
    }
}

/// The course, with the stacks that are listed.
fn read_course(course: &SavedCourse, saved: &[SavedStack], stacks: &[Exact]) -> Result<Course, String> {
    let mut listed = BTreeMap::new();
    for (saved, exact) in saved.iter().zip(stacks) {
        if let Attribution::Stack(stack) = exact.attribution {
            listed.insert(saved.key.clone(), stack);
        }
    }
    course::parse(course, &listed)
}

/// The moment that is shown of a device: without a history, the state at the dump in place of the peak.
fn shown_moment(asked: &Moment, history: History) -> Moment {
    match asked {
        Moment::Peak | Moment::Aligned(_) if history == History::StateOnly => Moment::End,
        asked => asked.clone(),
    }
}

fn languages(saved: &[String]) -> Languages {
    Languages {
        python: saved.iter().any(|language| language == "python"),
        cpp: saved.iter().any(|language| language == "c++"),
    }
}

fn bucket(code: &str) -> Result<Bucket, Error> {
    let found = Bucket::ALL.into_iter().find(|bucket| bucket.code() == code);
    found.ok_or_else(|| Error::Damaged(format!("there is no bucket '{}'", cut(code, 64))))
}

fn cpp_digest(text: &str) -> Result<u64, Error> {
    u64::from_str_radix(text, 16).map_err(|_| Error::Damaged("\"cpp\" is no digest".to_owned()))
}

/// Where a figure is known, the rows are what is allocated.
fn require_sums(family: &[Exact], allocated: &SavedCounter, oom: Option<&SavedOom>, place: &str) -> Result<(), Error> {
    require_sum(family, |sums| sums.baseline, allocated.baseline, place, "at the baseline")?;
    let peak = allocated.peak.filter(|_| allocated.peak_event.is_some());
    require_sum(family, |sums| sums.peak, peak, place, "at the peak")?;
    require_sum(family, |sums| sums.end, Some(allocated.end), place, "at the end")?;
    require_sum(family, |sums| sums.oom, oom.and_then(|oom| oom.allocated), place, "when memory ran out")
}

fn require_sum(
    family: &[Exact],
    held: fn(&Sums) -> Held,
    total: Option<u64>,
    place: &str,
    moment: &str,
) -> Result<(), Error> {
    let Some(total) = total else { return Ok(()) };
    let sum: u128 = family.iter().map(|exact| u128::from(held(&exact.sums).bytes)).sum();
    if sum == u128::from(total) {
        return Ok(());
    }
    Err(Error::Damaged(format!("the stacks of {place} hold {sum} bytes {moment}, not {total}")))
}
