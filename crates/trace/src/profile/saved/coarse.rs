//! What is saved of a history that repeats too little to be folded: the same events, with few of the blocks.

use super::super::DeviceProfile;
use super::super::phases::place;
use crate::diagnostic::{Code, Diagnostic};
use crate::interner::Interner;
use crate::trace::{Position, Trace, Window};

/// The trace of a device with those blocks alone that are held at the moments which every profile knows, where phases begin,
/// end and hold the most, and where their stack does.
pub(super) fn thinned(device: &DeviceProfile) -> Trace {
    let DeviceProfile { trace, figures, phases, .. } = device;
    let mut places: Vec<Position> =
        phases.known_or_not().flat_map(|phase| [place(phase.from), place(phase.to)]).collect();
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
pub(super) fn note(device: u32) -> Diagnostic {
    let message = "the history repeats too little to be kept whole. The saved profile does not know the stacks at other \
                   moments than baseline, peak, end and the first failed allocation, nor steps, parts of the history, the \
                   corresponding place of a comparison, groups by tags, and how often stacks allocate; keep the snapshot \
                   for these";
    Diagnostic::new(Code::HistoryCoarse, Some(device), message.to_owned())
}
