//! The named parts of a history: between the annotations of `record_function`, while events carry one `user_metadata` or
//! `compile_context`, and the passes of training that call stacks show.

mod evaluation;
mod inputs;
mod passes;
pub mod steps;

pub use inputs::{Made, inputs};
pub use passes::passes;

use serde::{Deserialize, Serialize};

use std::collections::HashMap;
use std::iter::Peekable;
use std::sync::Arc;

use ptmem_base::text::cut;
use ptmem_snapshot::snapshot::{Annotation, Device, Event, Snapshot, StackId, StringId, Tables, Tags};
use rustc_hash::FxHashMap;

use crate::stack::is_python;
use crate::trace::{Position, Trace, Window, WindowCounters};

/// Source of a phase's name.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, strum::IntoStaticStr, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum PhaseSource {
    /// A pair of `external_annotations`.
    #[default]
    Annotation,
    /// `user_metadata` of events.
    Metadata,
    /// `compile_context` of events.
    CompileContext,
    /// A pass of training that call stacks show.
    Pass,
}

ptmem_base::named!(PhaseSource);

impl PhaseSource {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Annotation, Self::Metadata, Self::CompileContext, Self::Pass];

    /// True if the program itself gave a name of this source.
    pub fn is_of_program(self, name: &str) -> bool {
        match self {
            Self::Annotation => !ANNOTATED_BY_PYTORCH.iter().any(|start| name.starts_with(start)),
            Self::Metadata | Self::CompileContext => true,
            Self::Pass => false,
        }
    }
}

/// One occurrence of a phase in the history of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Phase {
    /// Name of the phase.
    pub name: StringId,
    /// Source of the name.
    pub source: PhaseSource,
    /// Just before its first event.
    pub from: Position,
    /// Just after its last event.
    pub to: Position,
    /// Whether its beginning was recorded. Else it is taken to begin with the history.
    pub begins: bool,
    /// Whether its end was recorded. Else it is taken to last until the dump.
    pub ends: bool,
    /// Its marks, if it is annotated.
    pub marks: Option<PhaseMarks>,
}

/// The places of the marks of an annotated phase among all marks. They show which of two phases comes first, or is in the
/// other, where no event is between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhaseMarks {
    /// From 1; 0 where the beginning was not recorded.
    pub begin: u32,
    /// The highest number where the end was not recorded.
    pub end: u32,
}

/// One occurrence of a phase, and the bytes allocated in it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Occurrence {
    /// Name of the phase.
    pub name: Arc<str>,
    /// Source of the name.
    pub source: PhaseSource,
    /// Its number among those of that name and source, from 0, in the order in which they begin.
    pub number: u32,
    /// Number of other phases around it.
    pub depth: u32,
    /// True if only passes of training lie around it, and it is none itself.
    pub is_outermost: bool,
    /// Its place in the history.
    pub window: Window,
    /// The memory held in it.
    pub held: WindowCounters,
    /// How far its highest allocated bytes may be from the truth, because the sizes of blocks are not certain.
    pub error: u64,
    /// True if it allocates beyond the bytes at its beginning, or may: otherwise its peak shows only what other code holds.
    pub allocates: bool,
    /// True if its beginning was recorded. Else it is taken to begin with the history.
    pub begins: bool,
    /// True if its end was recorded. Else it is taken to last until the dump.
    pub ends: bool,
    /// The number behind its name, which is that of a step of the profiler.
    pub(crate) step: Option<u64>,
    /// Its marks, if the events of phases do not give their order.
    pub(crate) marks: Option<PhaseMarks>,
}

impl Occurrence {
    /// True if PyTorch named it as a step of an optimizer.
    pub(crate) fn is_step_of_optimizer(&self) -> bool {
        self.is_annotated(OPTIMIZER)
    }

    /// True for an annotation whose name begins so.
    pub(crate) fn is_annotated(&self, start: &str) -> bool {
        self.source == PhaseSource::Annotation && self.whole_name().starts_with(start)
    }

    /// Its name, with the number of a step of the profiler.
    pub fn whole_name(&self) -> Arc<str> {
        self.step.map_or_else(|| Arc::clone(&self.name), |number| format!("{}#{number}", self.name).into())
    }

    /// True if both are steps of optimizers of one name, and nothing is allocated between them.
    pub(crate) fn follows(&self, earlier: &Self, trace: &Trace) -> bool {
        if !(self.is_step_of_optimizer() && earlier.is_step_of_optimizer() && self.name == earlier.name) {
            return false;
        }
        let between = Window { from: earlier.window.to, to: self.window.from };
        between.from <= between.to && !trace.allocates_within(between)
    }

    /// Bytes gained from its beginning to its end.
    pub fn change(&self) -> i128 {
        i128::from(self.held.end.allocated) - i128::from(self.held.start.allocated)
    }

    /// True if it was recorded from its beginning to its end.
    pub fn is_whole(&self) -> bool {
        self.begins && self.ends
    }
}

/// The longest name in bytes; the rest is cut off. Metadata can be any text.
const LONGEST_NAME: usize = 512;

/// The name of the steps of `torch.profiler`.
const PROFILER_STEP: &str = "ProfilerStep";

/// The names of calls of an optimizer begin so.
const OPTIMIZER: &str = "Optimizer.step#";

/// The names of the calls that PyTorch annotates in every program begin so.
const ANNOTATED_BY_PYTORCH: [&str; 3] = [OPTIMIZER, ZERO_GRAD, "enumerate(DataLoader)#"];

/// The names of calls that free gradients begin so.
const ZERO_GRAD: &str = "Optimizer.zero_grad#";

/// `torch.profiler` numbers its steps from when it was started, so the number does not name the phase.
pub(crate) fn step_of_profiler(text: &str) -> Option<u64> {
    let number = text.strip_prefix(PROFILER_STEP)?.strip_prefix('#')?;
    number.parse().ok().filter(|_| number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The name of a phase in reports and limits.
pub(crate) fn folded_name(text: &str) -> &str {
    if step_of_profiler(text).is_some() { PROFILER_STEP } else { cut(text, LONGEST_NAME) }
}

/// The phases of one device, in the order of the events before which they begin.
///
/// Annotations do not state their device (`device` is the thread's current one, often another), so they apply to all
/// devices. Without times in the file, phases cannot be derived from annotations.
pub fn phases(snapshot: &Snapshot, device: &Device) -> Vec<Phase> {
    let events = snapshot.events_of(device);
    let mut phases = annotated(&snapshot.annotations, snapshot.times_of(device), Position::of_count(events.len()));
    let tables = &snapshot.tables;
    phases.extend(tagged(events, PhaseSource::Metadata, tables, |tags| tags.user_metadata));
    phases.extend(tagged(events, PhaseSource::CompileContext, tables, |tags| tags.compile_context));
    phases.sort_by_key(|phase| (phase.from, phase.marks.map(|marks| marks.begin)));
    phases
}

/// Pairs the starts and ends of annotations. They do not say which thread they are of; of one name the latest start
/// belongs to the first end, as they nest within a thread.
fn annotated(
    annotations: &[Annotation],
    times: impl Iterator<Item = Option<i64>> + Clone,
    end: Position,
) -> Vec<Phase> {
    if annotations.is_empty() || times.clone().flatten().next().is_none() {
        return Vec::new();
    }
    let mut marks: Vec<&Annotation> = annotations.iter().collect();
    marks.sort_by_key(|mark| mark.time_us);
    let mut open: HashMap<StringId, Vec<usize>> = HashMap::new();
    let mut found: Vec<Phase> = Vec::new();
    let mut times = running(times).peekable();
    let mut count = 0;
    let mut number = 0;
    for marks in marks.chunk_by(|a, b| a.time_us == b.time_us) {
        // An event of the same microsecond as a mark is inside.
        let from = behind(&mut times, &mut count, |time| time < marks[0].time_us);
        let to = behind(&mut times, &mut count, |time| time <= marks[0].time_us);
        for mark in marks {
            number += 1;
            let phase = Phase {
                name: mark.name,
                source: PhaseSource::Annotation,
                from: Position::START,
                to,
                begins: false,
                ends: true,
                marks: Some(PhaseMarks { begin: 0, end: number }),
            };
            if mark.starts {
                open.entry(mark.name).or_default().push(found.len());
                let marks = Some(PhaseMarks { begin: number, end: u32::MAX });
                found.push(Phase { from, to: end, begins: true, ends: false, marks, ..phase });
            } else if let Some(index) = open.get_mut(&mark.name).and_then(Vec::pop) {
                let marks = found[index].marks.map(|marks| PhaseMarks { end: number, ..marks });
                found[index] = Phase { to, ends: true, marks, ..found[index] };
            } else {
                found.push(phase);
            }
        }
    }
    found
}

/// The place behind the next events whose times are early enough, after `count` of them.
fn behind(
    times: &mut Peekable<impl Iterator<Item = i64>>,
    count: &mut usize,
    is_early: impl Fn(i64) -> bool,
) -> Position {
    while times.next_if(|time| is_early(*time)).is_some() {
        *count += 1;
    }
    Position::of_count(*count)
}

/// The times of events, which go on where one is missing. A clock that goes back does not bring events back.
pub(crate) fn running(times: impl Iterator<Item = Option<i64>>) -> impl Iterator<Item = i64> {
    times.scan(i64::MIN, |latest, time| {
        *latest = time.unwrap_or(*latest).max(*latest);
        Some(*latest)
    })
}

/// Runs of events that carry the same tag. Tags belong to a thread: an event without one ends a run only if it comes
/// from a thread that runs Python, as autograd's do not, whose events belong to what goes on around them.
fn tagged(events: &[Event], source: PhaseSource, tables: &Tables, tag: fn(&Tags) -> Option<StringId>) -> Vec<Phase> {
    let mut found: Vec<Phase> = Vec::new();
    // The tag for each value of `Event::tags`. Most histories carry none.
    let tags: Vec<Option<StringId>> = tables.all_tags().map(tag).collect();
    if tags.iter().all(Option::is_none) {
        return found;
    }
    let mut run_python: FxHashMap<StackId, bool> = FxHashMap::default();
    let mut open = false;
    for (index, event) in events.iter().enumerate() {
        let to = Position::after(index);
        match (tags[event.tags.index()], found.last_mut()) {
            (Some(name), Some(phase)) if open && phase.name == name => phase.to = to,
            (Some(name), _) => {
                let from = Position::of_count(index);
                found.push(Phase { name, source, from, to, begins: index > 0, ends: true, marks: None });
                open = true;
            }
            // Frames of the forward pass, which anomaly mode records on autograd's threads, do not count.
            (None, _) if open => {
                open = !event.stack.is_some_and(|stack| {
                    let frames = tables.stack(stack);
                    *run_python.entry(stack).or_insert_with(|| frames.iter().any(|&frame| is_python(tables, frame)))
                });
            }
            (None, _) => {}
        }
    }
    if let Some(last) = found.last_mut().filter(|last| open && last.to == Position::of_count(events.len())) {
        last.ends = false;
    }
    found
}
