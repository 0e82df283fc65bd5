//! Cuts a snapshot to a part of it that PyTorch's own viewer opens: a window of the history, some devices, or as much as a
//! size allows.
//!
//! The result is the file that a recording from the beginning of the window would have left at its end: its final state
//! is the state there, and memory that is older than the window has no event, but its stack.

mod between;

use std::collections::HashMap;

use ptmem_base::device::{self, DeviceId};
use ptmem_base::units::Size;
use ptmem_snapshot::snapshot::{self, Annotation, Contents, Device, Event, Snapshot, StringId};

use crate::profile::{self, DeviceProfile, Moment};
use crate::replay::{self, Position, Replay, Wanted, state_at};
use crate::trace::{Highest, Window};

pub use between::{ParseBetweenError, between};

/// Part of a snapshot to keep.
#[derive(Debug, Clone, Default)]
pub struct TrimOptions {
    /// The window of the history; `None` keeps all of it.
    pub between: Option<[Moment; 2]>,
    /// The devices; empty selects all of them.
    pub devices: Vec<DeviceId>,
    /// The largest file: where more would be left, the longest window around the peak that fits.
    pub max_bytes: Option<u64>,
}

/// A snapshot that was cut.
#[derive(Debug)]
pub struct Trimmed {
    /// The file.
    pub bytes: Vec<u8>,
    /// Contents left on each device.
    pub devices: Vec<TrimmedDevice>,
}

/// Contents left on a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrimmedDevice {
    /// Its ordinal.
    pub device: DeviceId,
    /// The events that are kept.
    pub window: std::ops::Range<usize>,
    /// Events in the snapshot.
    pub events: usize,
    /// The allocated peak of the whole history; `None` where it cannot be known.
    pub peak: Option<u64>,
    /// The allocated peak within the window.
    pub peak_within: u64,
}

/// Why a snapshot cannot be cut as requested.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The history cannot be replayed.
    #[error(transparent)]
    Replay(#[from] replay::Error),
    /// There is no such device.
    #[error("there is no {device} in the snapshot; it has {}", device::listed(.there))]
    NoDevice {
        /// The requested device.
        device: DeviceId,
        /// Those that are there.
        there: Vec<DeviceId>,
    },
    /// No device has a moment.
    #[error("no device has the moment '{0}'")]
    NoMoment(Moment),
    /// The window ends before it begins.
    #[error("the window ends before it begins: on {device}, {to} is after {end} events, {from} after {start}")]
    Backwards {
        /// Device ordinal.
        device: DeviceId,
        /// The first moment.
        from: Moment,
        /// The second one.
        to: Moment,
        /// Events before the first moment.
        start: usize,
        /// Events before the second one.
        end: usize,
    },
    /// Even without any event the file would be too large.
    #[error("the state at the peak takes {}; expected a larger size", Size(*least as u64))]
    TooSmall {
        /// Size of the smallest file.
        least: usize,
    },
}

/// Cuts a snapshot.
///
/// # Errors
/// Where a device or a moment is not there, or the size too small.
pub fn trim(snapshot: &Snapshot, options: &TrimOptions) -> Result<Trimmed, Error> {
    let histories = histories(snapshot, options)?;
    let whole: Vec<Window> = histories.iter().map(|history| history.window).collect();
    let all = cut(snapshot, &histories, &whole);
    let Some(most) = options.max_bytes.filter(|&most| all.bytes.len() as u64 > most) else { return Ok(all) };
    let mut best = cut_around_peaks(snapshot, &histories, 0);
    if best.bytes.len() as u64 > most {
        return Err(Error::TooSmall { least: best.bytes.len() });
    }
    let mut fits = 0;
    let mut too_large = WHOLE;
    while too_large - fits > 1 {
        let middle = u32::midpoint(fits, too_large);
        let trimmed = cut_around_peaks(snapshot, &histories, middle);
        if trimmed.bytes.len() as u64 <= most {
            fits = middle;
            best = trimmed;
        } else {
            too_large = middle;
        }
    }
    Ok(best)
}

/// Cuts the devices to a share of their windows, around the peaks there.
fn cut_around_peaks(snapshot: &Snapshot, histories: &[DeviceCut<'_>], share: u32) -> Trimmed {
    let windows: Vec<Window> = histories.iter().map(|history| history.around_peak(share)).collect();
    cut(snapshot, histories, &windows)
}

/// The whole of a window, in the parts that its share is counted in.
const WHOLE: u32 = 1 << 12;

/// A device with its history, replayed.
struct DeviceCut<'s> {
    id: DeviceId,
    device: &'s Device,
    events: &'s [Event],
    replay: Replay,
    window: Window,
}

/// The devices that are kept.
fn histories<'s>(snapshot: &'s Snapshot, options: &TrimOptions) -> Result<Vec<DeviceCut<'s>>, Error> {
    let there: Vec<DeviceId> = snapshot.devices.keys().copied().collect();
    if let Some(&device) = options.devices.iter().find(|device| !there.contains(device)) {
        return Err(Error::NoDevice { device, there });
    }
    let mut histories = Vec::new();
    for (&id, device) in &snapshot.devices {
        if !options.devices.is_empty() && !options.devices.contains(&id) {
            continue;
        }
        let events = snapshot.events_of(device);
        let mut replay = replay::run_with(snapshot, id, device, Wanted { layout: true, ..Wanted::default() })?;
        let whole = Window { from: Position::START, to: replay.trace.dump() };
        let window = match &options.between {
            None => Some(whole),
            Some(ends) => {
                let phases = profile::phases_of(snapshot, id, events, &replay, &mut Vec::new());
                let figures = replay.figures.clone();
                let trace = std::mem::take(&mut replay.trace);
                let whole = DeviceProfile { device: id, figures, trace, phases, ..DeviceProfile::default() };
                let [from, to] = ends.each_ref().map(|end| whole.place_of(end, Some(snapshot)));
                replay.trace = whole.trace;
                // After the last event nothing is left to keep.
                let from = from.map(|from| from.min(replay.trace.end()));
                from.zip(to).map(|(from, to)| Window { from, to })
            }
        };
        let Some(window) = window else { continue };
        if let Some([from, to]) = options.between.clone().filter(|_| window.from > window.to) {
            return Err(Error::Backwards { device: id, from, to, start: window.from.count(), end: window.to.count() });
        }
        histories.push(DeviceCut { id, device, events, replay, window });
    }
    if let Some([from, to]) = options.between.clone().filter(|_| histories.is_empty()) {
        let is_always_there = matches!(from, Moment::Baseline | Moment::End);
        return Err(Error::NoMoment(if is_always_there { to } else { from }));
    }
    Ok(histories)
}

impl DeviceCut<'_> {
    /// The peak within a window.
    fn peak_within(&self, Window { from, to }: Window) -> Highest {
        let trace = &self.replay.trace;
        trace.peaks_within(&[Window { from, to: to.min(trace.end()) }]).remove(0)
    }

    /// The part of the window around its peak that has this share of both sides.
    fn around_peak(&self, share: u32) -> Window {
        let Window { from, to } = self.window;
        let peak = self.peak_within(self.window).at.count();
        let end = to.count().min(self.events.len());
        let first = peak - part_of(peak - from.count(), share);
        let last = peak + part_of(end - peak, share);
        Window { from: Position::of_count(first), to: if last == end { to } else { Position::of_count(last) } }
    }

    /// The state at the end of a window.
    fn state(&self, snapshot: &Snapshot, window: Window) -> Vec<snapshot::Segment> {
        if window.to == self.replay.trace.dump() {
            return self.device.segments.clone();
        }
        let Replay { allocations, addresses, .. } = &self.replay;
        let allocations: Vec<_> = addresses.iter().copied().zip(allocations).collect();
        state_at(snapshot, self.device, &allocations, window.to)
    }
}

/// A share of a length.
fn part_of(length: usize, share: u32) -> usize {
    usize::try_from(length as u64 * u64::from(share) / u64::from(WHOLE)).unwrap_or(length)
}

/// Cuts the devices to these windows.
fn cut(snapshot: &Snapshot, histories: &[DeviceCut<'_>], windows: &[Window]) -> Trimmed {
    let mut events = Vec::new();
    let mut devices = Vec::new();
    let mut trimmed = Vec::new();
    for (history, &window) in histories.iter().zip(windows) {
        let first = events.len();
        let kept = window.from.count()..window.to.count().min(history.events.len());
        events.extend_from_slice(&history.events[kept.clone()]);
        let segments = history.state(snapshot, window);
        devices.push((history.id, Device { segments, events: first..events.len(), overflowed: None }));
        trimmed.push(TrimmedDevice {
            device: history.id,
            window: kept,
            events: history.events.len(),
            peak: history.replay.figures.allocated.peak,
            peak_within: history.peak_within(window).bytes,
        });
    }
    let is_whole = trimmed.iter().all(|device| device.window == (0..device.events));
    let annotations = if is_whole { snapshot.annotations.clone() } else { annotations_within(snapshot, &events) };
    let bytes =
        snapshot::write(Contents { snapshot, events: &events, devices: &devices, annotations: &annotations, is_whole });
    Trimmed { bytes, devices: trimmed }
}

/// The annotations from the first of these events to the last: those that begin or end in between, and the beginnings of
/// those that are open at its start.
fn annotations_within(snapshot: &Snapshot, events: &[Event]) -> Vec<Annotation> {
    let times = events.iter().filter_map(Event::time);
    let Some(first) = times.clone().min() else { return Vec::new() };
    let last = times.fold(first, i64::max);
    let mut is_kept: Vec<bool> =
        snapshot.annotations.iter().map(|annotation| (first..=last).contains(&annotation.time_us)).collect();
    // By name and device, as nested ranges of one name close.
    let mut open: HashMap<(StringId, DeviceId), Vec<usize>> = HashMap::new();
    for (at, annotation) in snapshot.annotations.iter().enumerate().filter(|(_, known)| known.time_us <= last) {
        let begun = open.entry((annotation.name, annotation.device)).or_default();
        if annotation.starts {
            begun.push(at);
        } else if let Some(start) = begun.pop() {
            is_kept[start] |= is_kept[at];
        }
    }
    for start in open.into_values().flatten() {
        is_kept[start] = true;
    }
    let kept = snapshot.annotations.iter().zip(is_kept).filter(|(_, is_kept)| *is_kept);
    kept.map(|(annotation, _)| annotation.clone()).collect()
}
