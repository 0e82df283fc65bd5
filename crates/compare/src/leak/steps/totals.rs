//! Growth of the totals from step to step, beside that of stacks.

use ptmem_base::diagnostic::{Code, Diagnostic};
use ptmem_base::text::count;
use ptmem_base::units::Size;
use ptmem_trace::phase::steps::FoundBy;

use super::FEWEST;
use crate::leak::found::fragmentation_grows;
use crate::leak::trend::rises;
use crate::leak::{DeviceLeaks, LeakMetric, LeakOptions, Mode, SeriesPoint};

impl DeviceLeaks {
    /// Adds the growth of the totals, and returns remarks on it. `peak` is that of allocated bytes.
    pub(super) fn add_totals(&mut self, peak: Option<u64>, options: &LeakOptions) -> Vec<Diagnostic> {
        let mut remarks: Vec<Diagnostic> = self.add_fragmentation(options).into_iter().collect();
        self.add_growth(peak, options);
        remarks.extend(self.began_late().or_else(|| self.unexplained(options)));
        remarks
    }

    /// Adds reserved memory that nothing uses and that grows, as a series has it, and a remark on it. There is the
    /// remark alone where the steps are nothing but equal parts of the history, in which something may be built up, and
    /// where the steps need the pool.
    fn add_fragmentation(&mut self, options: &LeakOptions) -> Option<Diagnostic> {
        let leak = self.fragmentation(SeriesPoint::active, options)?;
        let remark = fragmentation_grows(self.device, self.noun(Mode::Steps), &leak);
        // Memory that steps of growing size leave free at their end is used within them.
        let unneeded = self.fragmentation(|point| point.active_peak, options);
        if self.how != Some(FoundBy::Windows) && self.counted().len() > FEWEST && unneeded.is_some() {
            self.leaks.push(leak);
        }
        Some(remark)
    }

    /// Allocated bytes at the end of each step that counts for all leaks, without those that leak, and those that Python's garbage
    /// collector freed later.
    pub(super) fn unexplained_bytes(&self) -> Option<Vec<i128>> {
        let held = self.totals(|point| point.allocated)?;
        let leaked = self.leaked(&[LeakMetric::Allocated]);
        let mut rest: Vec<i128> = held.iter().zip(leaked).map(|(&held, leaked)| i128::from(held) - leaked).collect();
        let collected = self.collected_later.get(self.skip..).unwrap_or_default();
        rest.iter_mut().zip(collected).for_each(|(rest, &collected)| *rest -= i128::from(collected));
        Some(rest)
    }

    /// A diagnostic if more memory grows than the leaks explain, such as one buffer that is replaced by a larger one in
    /// every step.
    fn unexplained(&self, options: &LeakOptions) -> Option<Diagnostic> {
        let held = self.unexplained_bytes()?;
        let gained = held.last()? - held.first()?;
        // Steps are not equal to the byte.
        let matters = gained > held.iter().max()? / 100 || self.explained().is_none() && gained > 0;
        // Memory that fills and then stays is a cache.
        let goes_on = held.last() > held.get(held.len() / 2);
        let is_steady = held.is_sorted() || options.is_steady(rises(&held), held.len() - 1);
        let is_ignored = gained < options.min_growth.unwrap_or_default().into();
        if !matters || is_ignored || !goes_on || !is_steady || self.sizes_grow || falls_back(&held) {
            return None;
        }
        let step = self.noun(Mode::Steps);
        let explained =
            self.explained().map_or(", but no stack leaks".to_owned(), |explained| format!(" beside {explained}"));
        let message = format!(
            "allocated bytes grow by {} over {}{explained}: a buffer may be replaced by a larger \
             one each time, or memory may grow in too few {step}s to count. A series of snapshots shows what grows",
            Size(u64::try_from(gained).unwrap_or_default()),
            count(held.len() as u64 - 1, step, &format!("{step}s")),
        );
        Some(Diagnostic::new(Code::AllocatedGrows, self.device, message))
    }
}

/// True if what was held falls again and again to where it was, as a cache that grows within each request and is then
/// freed.
fn falls_back(held: &[i128]) -> bool {
    let (earlier, later) = held.split_at(held.len() / 2);
    earlier.iter().min() >= later.iter().min()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::leak::{Course, Leak};

    const MIB: u64 = 1 << 20;

    fn named() -> FoundBy {
        FoundBy::Named("step".to_owned())
    }

    /// Steps that leave 100 MiB behind in a pool that grows by 8 MiB with each, and need this many MiB beside the growth.
    fn device(how: FoundBy, steps: u64, needed: fn(u64) -> u64) -> DeviceLeaks {
        let points = (0..steps).map(|step| SeriesPoint {
            name: step.to_string().as_str().into(),
            allocated: Some(100 * MIB),
            reserved: Some((200 + 8 * step) * MIB),
            fragmentation: Some((100 + 8 * step) * MIB),
            active_peak: Some(needed(step) * MIB),
        });
        DeviceLeaks { how: Some(how), skip: 1, points: points.collect(), ..DeviceLeaks::default() }
    }

    /// Fourteen steps with a pool that grows by 24 MiB with every third.
    fn stairs(needed: fn(u64) -> u64) -> DeviceLeaks {
        let mut device = device(named(), 14, needed);
        for (step, point) in (0_u64..).zip(Arc::make_mut(&mut device.points)) {
            point.reserved = Some((200 + 24 * (step / 3)) * MIB);
            point.fragmentation = Some((100 + 24 * (step / 3)) * MIB);
        }
        device
    }

    #[test]
    fn stairs_that_the_highest_need_so_far_explains_are_no_leak() {
        assert_eq!(found(stairs(|_| 180)), (vec![(96 << 20) / 10], 1));
        assert_eq!(found(stairs(|step| if step % 3 == 0 { 180 + 8 * step } else { 100 })), (Vec::new(), 1));
    }

    /// Bytes per step of the leaks, and how many remarks there are.
    fn found(mut device: DeviceLeaks) -> (Vec<i128>, usize) {
        let remarks = device.add_totals(Some(200 * MIB), &LeakOptions::default());
        assert!(device.leaks.iter().all(|leak| leak.metric == LeakMetric::Fragmentation));
        (device.leaks.iter().map(|leak| leak.bytes_per_step).collect(), remarks.len())
    }

    #[test]
    fn a_pool_that_outgrows_what_steps_need_is_a_leak() {
        assert_eq!(found(device(named(), 9, |_| 180)), (vec![8 << 20], 1));
    }

    #[test]
    fn a_pool_that_may_be_needed_is_worth_a_remark_alone() {
        assert_eq!(found(device(named(), 9, |step| 180 + 8 * step)), (Vec::new(), 1), "it is needed");
        assert_eq!(found(device(FoundBy::Windows, 9, |_| 180)), (Vec::new(), 1), "equal parts may build something up");
        assert_eq!(found(device(named(), 5, |_| 180)), (Vec::new(), 1), "three steps are few");
        assert_eq!(found(device(named(), 6, |_| 180)), (vec![8 << 20], 1));
    }

    /// The number of remarks on nine steps, each of which holds `more` MiB more than the one before, with leaks of these bytes.
    fn remarks(more: u64, leaks: &[u64]) -> usize {
        let mut device = device(named(), 9, |_| 180);
        for (step, point) in (0_u64..).zip(Arc::make_mut(&mut device.points)) {
            *point = SeriesPoint { allocated: Some((1000 + more * step) * MIB), reserved: None, ..point.clone() };
        }
        device.leaks =
            leaks.iter().map(|bytes| Leak { course: Course::new(7, [(6, *bytes)]), ..Leak::default() }).collect();
        device.add_totals(None, &LeakOptions::default()).len()
    }

    #[test]
    fn leaks_that_few_steps_can_show_explain_the_growth_over_these() {
        let mut device = device(named(), 9, |_| 180);
        for (step, point) in (0_u64..).zip(Arc::make_mut(&mut device.points)) {
            *point = SeriesPoint { allocated: Some((1000 + 8 * step) * MIB), reserved: None, ..point.clone() };
        }
        // Other blocks of this stack live for four steps.
        let course = Course::new(3, [(0, 8 * MIB), (1, 16 * MIB), (2, 24 * MIB)]);
        device.leaks = vec![Leak { course, ..Leak::default() }];
        assert!(device.add_totals(None, &LeakOptions::default()).is_empty());
        assert_eq!(device.growth.beside_leaks, Some(0));
    }

    #[test]
    fn a_little_more_than_what_leaks_is_worth_no_remark() {
        assert_eq!(remarks(1, &[1 << 20]), 0, "5 of 1,007 MiB are not explained");
        assert_eq!(remarks(3, &[1 << 20]), 1, "17 of 1,021 MiB are not explained");
        assert_eq!(remarks(1, &[]), 1, "nothing leaks, and something grows");
        assert_eq!(remarks(0, &[]), 0);
    }
}
