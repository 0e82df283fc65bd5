//! Stacks that begin in the course of the steps to leave blocks behind: a leak has begun, or a cache fills.

use ptmem_base::diagnostic::{Code, Diagnostic};
use ptmem_base::units::Size;
use ptmem_trace::profile::Held;

use super::left::LeftMemory;
use super::{DeviceSteps, FEWEST, rounded};
use crate::leak::device::LateGrowth;
use crate::leak::{DeviceLeaks, Mode};

impl LeftMemory<'_> {
    /// The late growth that this is, if it is that. The oldest of the blocks are at least twice as old as any that was freed
    /// became: requests to a model are of different lengths.
    pub(super) fn late_growth(&self) -> Option<LateGrowth> {
        let &DeviceSteps { judged, options, .. } = self.of;
        let until = judged.until(self.lifetime);
        let steps = self.steps();
        let left: Vec<(usize, Held)> = steps.range(..until).map(|(&step, kept)| (step, kept.held)).collect();
        if options.is_steady(left.len(), until.saturating_sub(judged.from)) {
            return None;
        }
        let fewest = FEWEST.max(self.lifetime + 1);
        let enough = left.iter().take_while(|(step, _)| step + fewest <= until);
        let steady = enough.enumerate().find(|(at, (step, _))| options.is_steady(left.len() - at, until - step));
        let (at, &(since, _)) = steady?;
        let grew = &left[at..];
        let bytes = grew.iter().fold(0, |sum: u64, (_, held)| sum.saturating_add(held.bytes));
        let goes_on = left.last().is_some_and(|(step, _)| step + 2 >= until);
        (goes_on && bytes >= options.min_growth.unwrap_or(1)).then(|| LateGrowth {
            label: self.label(),
            since,
            grew_before: at,
            grew: grew.len(),
            steps: until - since,
            bytes,
        })
    }
}

impl LateGrowth {
    /// True if memory grew by at least half as much in its steps. The bytes that are held at the end of each step begin after
    /// those to skip, and may end early: fewer steps count for other stacks that leak.
    fn is_kept(&self, held: &[i128], skip: usize) -> bool {
        let Some(before) = self.since.checked_sub(skip + 1) else { return false };
        let grew = held.get(before..).unwrap_or_default();
        let steps = grew.len().saturating_sub(1).min(self.steps);
        steps > 0 && (grew[steps] - grew[0]) * 2 >= rounded(self.bytes.into(), self.steps) * steps as i128
    }
}

impl DeviceLeaks {
    /// A diagnostic on the largest late growth, but that of which as much was freed, or which other stacks that leak explain.
    pub(super) fn began_late(&self) -> Option<Diagnostic> {
        let held = self.unexplained_bytes()?;
        let late = self.late.iter().find(|late| late.is_kept(&held, self.skip))?;
        let noun = self.noun(Mode::Steps);
        let message = format!(
            "after {} {noun}s, {} leaves blocks behind in {} of {} {noun}s, {} per {noun}, before that in {} of {}: a leak \
             may have begun, or a cache may be filling. Record more {noun}s, or judge only the later ones (--skip {})",
            late.since,
            late.label,
            late.grew,
            late.steps,
            Size(u64::try_from(rounded(late.bytes.into(), late.steps)).unwrap_or_default()),
            late.grew_before,
            late.since - self.skip,
            late.since,
        );
        Some(Diagnostic::new(Code::AllocatedGrows, self.device, message))
    }
}

#[cfg(test)]
mod tests {
    use ptmem_trace::phase::steps::FoundBy;

    use super::*;
    use crate::leak::{Course, Leak, SeriesPoint};

    const MIB: u64 = 1 << 20;

    /// Nine steps, of which each from the third on leaves 8 MiB behind, beside a leak that only four steps can show.
    #[test]
    fn late_growth_is_judged_by_the_steps_that_can_show_other_leaks() {
        let points = (0..9_u64).map(|step| SeriesPoint {
            name: step.to_string().as_str().into(),
            allocated: Some((1000 + 8 * step.saturating_sub(2)) * MIB),
            reserved: None,
            fragmentation: None,
            active_peak: None,
        });
        let late =
            LateGrowth { label: "cache".to_owned(), since: 3, grew_before: 0, grew: 5, steps: 5, bytes: 40 * MIB };
        let leak = Leak { course: Course::new(4, [(0, 1)]), ..Leak::default() };
        let device = DeviceLeaks {
            how: Some(FoundBy::Windows),
            skip: 1,
            points: points.collect(),
            late: vec![late],
            leaks: vec![leak],
            ..DeviceLeaks::default()
        };
        assert!(device.began_late().is_some());
    }
}
