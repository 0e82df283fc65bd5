//! The named parts of a history: between the annotations of `record_function`, and while events carry one
//! `user_metadata` or `compile_context`.

pub mod steps;

use std::collections::HashMap;

use rustc_hash::FxHashMap;

use crate::replay::Position;
use crate::snapshot::{Annotation, Event, Snapshot, StackId, StringId, Tables, Tags};
use crate::stack::is_python;

/// Source of a phase's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// A pair of `external_annotations`.
    Annotation,
    /// `user_metadata` of events.
    Metadata,
    /// `compile_context` of events.
    CompileContext,
}

impl Source {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Annotation, Self::Metadata, Self::CompileContext];

    /// Its name in machine-readable output.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Annotation => "annotation",
            Self::Metadata => "metadata",
            Self::CompileContext => "compile-context",
        }
    }
}

/// One occurrence of a phase in the history of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Phase {
    /// Name of the phase.
    pub name: StringId,
    /// Source of the name.
    pub source: Source,
    /// Which one of that name it is, from 0, in the order in which they begin.
    pub occurrence: u32,
    /// Just before its first event.
    pub from: Position,
    /// Just after its last event.
    pub to: Position,
    /// Whether its beginning was recorded. Else it is taken to begin with the history.
    pub begins: bool,
    /// Whether its end was recorded. Else it is taken to last until the dump.
    pub ends: bool,
    /// Whether it begins in another annotated phase and ends after it.
    pub overlaps: bool,
}

/// The phases of one device, in the order in which they begin, outer ones first.
///
/// Annotations do not say which device they are about (their `device` is the current one of the thread, often another),
/// so they count for all. Where the file has no times, there are no phases by annotations.
#[must_use]
pub fn phases(snapshot: &Snapshot, events: &[Event]) -> Vec<Phase> {
    let mut phases = annotated(&snapshot.annotations, events);
    let tables = &snapshot.tables;
    let says = |tag: fn(&Tags) -> Option<StringId>| tables.all_tags().iter().map(tag).collect::<Vec<_>>();
    phases.extend(tagged(events, Source::Metadata, tables, &says(|tags| tags.user_metadata)));
    phases.extend(tagged(events, Source::CompileContext, tables, &says(|tags| tags.compile_context)));
    phases.sort_by_key(|phase| (phase.from, std::cmp::Reverse(phase.to), phase.source));
    let mut seen: HashMap<(Source, StringId), u32> = HashMap::new();
    for phase in &mut phases {
        let count = seen.entry((phase.source, phase.name)).or_default();
        phase.occurrence = *count;
        *count += 1;
    }
    phases
}

/// Pairs the starts and ends of annotations. They do not say which thread they are of; of one name the latest start
/// belongs to the first end, as they nest within a thread.
fn annotated(annotations: &[Annotation], events: &[Event]) -> Vec<Phase> {
    if annotations.is_empty() || !events.iter().any(|event| event.time().is_some()) {
        return Vec::new();
    }
    let mut marks: Vec<&Annotation> = annotations.iter().collect();
    marks.sort_by_key(|mark| mark.time_us);
    let end = Position::of_count(events.len());
    let mut open: HashMap<StringId, Vec<usize>> = HashMap::new();
    // Those that began and have not ended, and some that have.
    let mut nest: Vec<usize> = Vec::new();
    let mut found: Vec<Phase> = Vec::new();
    // How many events lie before a mark. An event of the same microsecond is inside.
    let (mut before, mut until) = (0, 0);
    let mut latest = (i64::MIN, i64::MIN);
    let earlier = |count: &mut usize, latest: &mut i64, holds: &dyn Fn(i64) -> bool| {
        while let Some(event) = events.get(*count) {
            // A clock that goes back does not bring events back.
            let time = event.time().unwrap_or(*latest).max(*latest);
            if !holds(time) {
                break;
            }
            *latest = time;
            *count += 1;
        }
    };
    for mark in marks {
        let phase = |from, to, begins, ends| Phase {
            name: mark.name,
            source: Source::Annotation,
            occurrence: 0,
            from,
            to,
            begins,
            ends,
            overlaps: false,
        };
        earlier(&mut before, &mut latest.0, &|time| time < mark.time_us);
        earlier(&mut until, &mut latest.1, &|time| time <= mark.time_us);
        if mark.starts {
            open.entry(mark.name).or_default().push(found.len());
            nest.push(found.len());
            found.push(phase(Position::of_count(before), end, true, false));
        } else if let Some(index) = open.get_mut(&mark.name).and_then(Vec::pop) {
            (found[index].to, found[index].ends) = (Position::of_count(until), true);
            // Drop phases that ended before this one, and phases that began inside it but go on after it.
            while nest.last().is_some_and(|&last| found[last].ends) {
                nest.pop();
            }
            if let Some(&inner) = nest.last().filter(|&&last| last > index) {
                found[inner].overlaps = true;
            }
        } else {
            found.push(phase(Position::START, Position::of_count(until), false, true));
        }
    }
    // The annotations may reach back further than the events: what was over before them is no part of the history.
    found.retain(|phase| !(phase.ends && phase.to == Position::START));
    // Whether one that never ends would have is not known.
    found.iter_mut().for_each(|phase| phase.overlaps &= phase.ends);
    found
}

/// Runs of events that carry the same tag; `says` has the tag for each [`Event::tags`]. Tags belong to a thread: an event
/// without one ends a run only if it comes from a thread that runs Python, as autograd's do not, whose events belong to
/// what goes on around them.
fn tagged(events: &[Event], source: Source, tables: &Tables, says: &[Option<StringId>]) -> Vec<Phase> {
    let mut found: Vec<Phase> = Vec::new();
    // Most histories carry none.
    if says.iter().all(Option::is_none) {
        return found;
    }
    let mut runs_python: FxHashMap<StackId, bool> = FxHashMap::default();
    let mut open = false;
    for (index, event) in events.iter().enumerate() {
        let to = Position::after(index);
        match (says[event.tags.index()], found.last_mut()) {
            (Some(name), Some(phase)) if open && phase.name == name => phase.to = to,
            (Some(name), _) => {
                let from = Position::of_count(index);
                found.push(Phase {
                    name,
                    source,
                    occurrence: 0,
                    from,
                    to,
                    begins: index > 0,
                    ends: true,
                    overlaps: false,
                });
                open = true;
            }
            (None, _) if open => {
                // Without the frames of the forward pass, which anomaly mode records on autograd's threads.
                let has_python = |stack| tables.stack(stack).iter().any(|&frame| is_python(tables, frame));
                let runs = |stack| *runs_python.entry(stack).or_insert_with(|| has_python(stack));
                open = !event.stack.is_some_and(runs);
            }
            (None, _) => {}
        }
    }
    if let Some(last) = found.last_mut().filter(|last| open && last.to == Position::of_count(events.len())) {
        last.ends = false;
    }
    found
}
