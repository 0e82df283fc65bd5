//! The places of moments in the history of a device.

use std::cmp::Reverse;

use ptmem_snapshot::snapshot::Snapshot;

use super::device::DeviceProfile;
use super::moment::{Moment, PhaseMoment, PhasePoint};
use super::phases::are_known;
use crate::phase::{PhaseSource, running};
use crate::replay::{HistoryKind, Position};
use crate::trace::Window;

impl DeviceProfile {
    /// The place of a moment; `None` if the history has no such moment, and for one by its time without the snapshot.
    pub fn place_of(&self, moment: &Moment, times: Option<&Snapshot>) -> Option<Position> {
        let figures = &self.figures;
        match moment {
            Moment::Baseline => Some(Position::START),
            // Where only the state at the dump is known, that one is shown.
            Moment::Peak if figures.history == HistoryKind::StateOnly => Some(self.trace.dump()),
            Moment::Peak => figures.allocated.peak_at,
            Moment::End => Some(self.trace.dump()),
            Moment::Oom => figures.first_oom(),
            &Moment::Event(index) => {
                ((index as usize) < self.trace.symbols.len()).then(|| Position::after(index as usize))
            }
            &Moment::Time(us) => self.at_time(us, times?),
            Moment::Phase(phase) => self.in_phase(phase),
            Moment::Between(ends) => {
                let window = Window { from: self.place_of(&ends[0], times)?, to: self.place_of(&ends[1], times)? };
                if window.from <= window.to { self.highest_of(&[window]) } else { None }
            }
            Moment::Aligned => self.peak_of_after.or_else(|| self.place_of(&Moment::Peak, times)),
        }
    }

    /// Just before the first event that is later.
    fn at_time(&self, us: i64, snapshot: &Snapshot) -> Option<Position> {
        let device = snapshot.devices.get(&self.device)?;
        let last = snapshot.times.all().flatten().max()?;
        let until = snapshot.first_time()?.checked_add(us).filter(|&until| until <= last)?;
        let later = running(snapshot.times_of(device)).position(|time| time > until);
        let before = later.unwrap_or(device.events.len());
        Some(Position::of_count(before))
    }

    fn in_phase(&self, wanted: &PhaseMoment) -> Option<Position> {
        let window = self.occurrence(wanted)?;
        match wanted.point {
            PhasePoint::Start => Some(window.from),
            PhasePoint::Peak => self.highest_of(&[window]),
            PhasePoint::End => Some(window.to),
        }
    }

    fn occurrence(&self, wanted: &PhaseMoment) -> Option<Window> {
        let windows = PhaseSource::ALL.into_iter().map(|source| self.phases.windows(source, &wanted.name));
        let windows = windows.into_iter().find(|windows| !windows.is_empty())?;
        match wanted.number {
            Some(number) => windows.get(usize::try_from(number).ok()?).copied(),
            None => {
                let at = self.highest_of(&windows)?;
                windows.into_iter().find(|window| window.from <= at && at <= window.to)
            }
        }
    }

    /// Where the allocated bytes are highest within any of the windows, for the first time.
    fn highest_of(&self, windows: &[Window]) -> Option<Position> {
        if !are_known(&self.figures) {
            return None;
        }
        let peaks = self.trace.peaks_within(windows).into_iter();
        peaks.max_by_key(|peak| (peak.bytes, Reverse(peak.at))).map(|peak| peak.at)
    }
}
