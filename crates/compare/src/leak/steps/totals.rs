//! Growth of the totals from step to step, beside that of stacks.

use super::FEWEST;
use crate::diagnostic::{Code, Diagnostic};
use crate::leak::slope::{rounded, slope};
use crate::leak::{DeviceLeaks, Growth, Leak, LeakMetric, Mode, Options, Point, WORTH_TELLING, fragmentation_grows};
use crate::phase::steps::How;
use crate::profile::Held;
use crate::units::Size;

impl DeviceLeaks {
    /// Adds the growth of the totals, and returns remarks on it. `peak` is that of allocated bytes.
    pub(super) fn add_totals(&mut self, peak: Option<u64>, options: &Options) -> Vec<Diagnostic> {
        self.growth = self.growth_per_step(peak);
        let mut remarks: Vec<Diagnostic> = self.add_fragmentation(options).into_iter().collect();
        remarks.extend(self.unexplained(options));
        remarks
    }

    /// A total at the end of each step that counts; `None` where one of them is not known. The last step is still in
    /// use.
    fn totals(&self, value: fn(&Point) -> Option<u64>) -> Option<Vec<u64>> {
        let until = self.points.len().saturating_sub(1);
        self.points.get(self.skip..until).unwrap_or_default().iter().map(value).collect()
    }

    fn slope_of(&self, value: fn(&Point) -> Option<u64>) -> Option<i128> {
        slope(&self.totals(value)?)
    }

    fn growth_per_step(&self, peak: Option<u64>) -> Growth {
        let growth = Growth {
            allocated: self.slope_of(|point| point.allocated),
            reserved: self.slope_of(|point| point.reserved),
            fragmentation: self.slope_of(|point| point.fragmentation),
            runs_out_after: None,
        };
        let last = self.points.len().checked_sub(2).and_then(|last| self.points.get(last));
        growth.with_end(self.budget, last, peak)
    }

    /// Adds reserved memory that nothing uses and that grows, as a series has it, and a remark on it. There is the
    /// remark alone where the steps are nothing but equal parts of the history, in which something may be built up, and
    /// where the steps need the pool.
    fn add_fragmentation(&mut self, options: &Options) -> Option<Diagnostic> {
        let reserved = steady_gain(&self.totals(|point| point.reserved)?, options)?;
        let unused = self.totals(|point| point.fragmentation)?;
        let gain = steady_gain(&unused, options)?;
        let per_step = self.growth.fragmentation.filter(|_| gain.bytes * 2 > reserved.bytes)?;
        if self.how != Some(How::Windows) && self.pool_outgrows_need(options) {
            self.leaks.push(Leak::fragmentation(Leak {
                bytes: gain.bytes.into(),
                bytes_per_step: per_step,
                grew: gain.grew,
                judged: unused.len() - 1,
                end: Held { bytes: unused.last().copied().unwrap_or_default(), blocks: 0 },
                course: unused,
                ..Leak::default()
            }));
        }
        Some(fragmentation_grows(self.device, Mode::Steps.nouns(), per_step, gain.bytes.into()))
    }

    /// True if the pool grows beyond the most that any step needs: memory that steps of growing size leave free at
    /// their end is used within them.
    fn pool_outgrows_need(&self, options: &Options) -> bool {
        let unneeded = self.totals(|point| Some(point.reserved?.saturating_sub(point.active_peak?)));
        let reserved = self.totals(|point| point.reserved);
        let gains = unneeded.zip(reserved).filter(|(values, _)| values.len() > FEWEST);
        gains.is_some_and(|(unneeded, reserved)| {
            let gains = steady_gain(&unneeded, options).zip(steady_gain(&reserved, options));
            gains.is_some_and(|(unneeded, reserved)| unneeded.bytes * 2 > reserved.bytes)
        })
    }

    /// A remark where more grows than what leaks, such as one buffer that is made anew and larger in every step.
    fn unexplained(&self, options: &Options) -> Option<Diagnostic> {
        let until = self.points.len().checked_sub(1)?;
        let counted = self.points.get(self.skip..until)?;
        let held = counted.iter().map(|point| point.allocated).collect::<Option<Vec<u64>>>()?;
        let gained = i128::from(*held.last()?) - i128::from(*held.first()?);
        let of_stacks: Vec<&Leak> = self.leaks.iter().filter(|leak| leak.metric == LeakMetric::Allocated).collect();
        let rest = gained - of_stacks.iter().map(|leak| leak.bytes).sum::<i128>();
        let grew = held.windows(2).filter(|pair| pair[1] > pair[0]).count();
        let never_falls = held.windows(2).all(|pair| pair[1] >= pair[0]);
        // Steps are not all alike to the byte.
        let matters = rest > i128::from(*held.iter().max()?) / 100 || of_stacks.is_empty() && rest > 0;
        // Memory that fills and then stays is a cache.
        let goes_on = held.last() > held.get(held.len() / 2);
        let is_steady = never_falls || options.is_steady(grew, held.len() - 1);
        if !matters || !goes_on || !is_steady || falls_back(&held) {
            return None;
        }
        let step = self.nouns(Mode::Steps).one;
        let message = format!(
            "allocated bytes grow by {} from {step} to {step} that no stack leaves behind: something may be made anew and \
             larger each time, or grow in fewer of them. A series of snapshots shows what",
            Size(u64::try_from(rounded(rest, (held.len() - 1).max(1) as i128)).unwrap_or_default()),
        );
        Some(Diagnostic::new(Code::AllocatedGrows, self.device, message))
    }
}

/// True if what was held falls again and again to where it was, as a cache that grows within each request and is then
/// freed.
fn falls_back(held: &[u64]) -> bool {
    let (earlier, later) = held.split_at(held.len() / 2);
    earlier.iter().min() >= later.iter().min()
}

/// The growth of something that grew in nearly every step.
struct Gain {
    bytes: u64,
    /// The number of steps in which it grew.
    grew: usize,
}

/// Bytes gained by something that grew in nearly every step; `None` where that is not worth a remark.
fn steady_gain(values: &[u64], options: &Options) -> Option<Gain> {
    let bytes = values.last()?.checked_sub(*values.first()?)?;
    let grew = values.windows(2).filter(|pair| pair[1] > pair[0]).count();
    let is_leak = bytes >= options.min_growth.unwrap_or(WORTH_TELLING) && options.is_steady(grew, values.len() - 1);
    is_leak.then_some(Gain { bytes, grew })
}
