//! Growth of the totals from step to step, beside that of stacks.

use super::{FEWEST, rounded};
use crate::diagnostic::{Code, Diagnostic};
use crate::leak::trend::slope;
use crate::leak::{DeviceLeaks, Leak, LeakMetric, Mode, Options, fragmentation_grows};
use crate::phase::steps::How;
use crate::profile::Held;
use crate::units::Size;

impl DeviceLeaks {
    /// Adds the growth of the totals, and returns remarks on it. `peak` is that of allocated bytes.
    pub(super) fn add_totals(&mut self, peak: Option<u64>, options: &Options) -> Vec<Diagnostic> {
        self.add_growth(peak, slope);
        let mut remarks: Vec<Diagnostic> = self.add_fragmentation(options).into_iter().collect();
        remarks.extend(self.unexplained(options));
        remarks
    }

    /// Adds reserved memory that nothing uses and that grows, as a series has it, and a remark on it. There is the
    /// remark alone where the steps are nothing but equal parts of the history, in which something may be built up, and
    /// where the steps need the pool.
    fn add_fragmentation(&mut self, options: &Options) -> Option<Diagnostic> {
        let pool = steady_gain(&self.totals(|point| point.reserved)?, options)?;
        let unused = steady_gain(&self.totals(|point| point.fragmentation)?, options)?;
        let leak = Leak::fragmentation(&pool, unused)?;
        let remark = fragmentation_grows(self.device, Mode::Steps.nouns(), &leak);
        if self.how != Some(How::Windows) && self.counted().len() > FEWEST && self.pool_outgrows_need(&pool, options) {
            self.leaks.push(leak);
        }
        Some(remark)
    }

    /// True if the pool grows beyond the most that any step needs: memory that steps of growing size leave free at
    /// their end is used within them.
    fn pool_outgrows_need(&self, pool: &Leak, options: &Options) -> bool {
        let unneeded = self.totals(|point| Some(point.reserved?.saturating_sub(point.active_peak?)));
        let unneeded = unneeded.and_then(|values| steady_gain(&values, options));
        unneeded.and_then(|unneeded| Leak::fragmentation(pool, unneeded)).is_some()
    }

    /// A remark where more grows than what leaks, such as one buffer that is made anew and larger in every step.
    fn unexplained(&self, options: &Options) -> Option<Diagnostic> {
        let held = self.totals(|point| point.allocated)?;
        let gained = i128::from(*held.last()?) - i128::from(*held.first()?);
        let of_stacks: Vec<&Leak> = self.leaks.iter().filter(|leak| leak.metric == LeakMetric::Allocated).collect();
        let rest = gained - of_stacks.iter().map(|leak| leak.bytes).sum::<i128>();
        let grew = held.windows(2).filter(|pair| pair[1] > pair[0]).count();
        // Steps are not all alike to the byte.
        let matters = rest > i128::from(*held.iter().max()?) / 100 || of_stacks.is_empty() && rest > 0;
        // Memory that fills and then stays is a cache.
        let goes_on = held.last() > held.get(held.len() / 2);
        let is_steady = held.is_sorted() || options.is_steady(grew, held.len() - 1);
        if !matters || !goes_on || !is_steady || falls_back(&held) {
            return None;
        }
        let step = self.nouns(Mode::Steps).one;
        let message = format!(
            "allocated bytes grow by {} from {step} to {step} that no stack leaves behind: something may be made anew and \
             larger each time, or grow in fewer of them. A series of snapshots shows what",
            Size(u64::try_from(rounded(rest, (held.len() - 1).max(1))).unwrap_or_default()),
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

/// The figures of something that grew in nearly every step, as of a leak without its name; `None` where that is not worth a
/// remark.
fn steady_gain(values: &[u64], options: &Options) -> Option<Leak> {
    let end = *values.last()?;
    let bytes = end.checked_sub(*values.first()?)?;
    let judged = values.len() - 1;
    let grew = values.windows(2).filter(|pair| pair[1] > pair[0]).count();
    (bytes >= options.least_growth() && options.is_steady(grew, judged)).then(|| Leak {
        bytes: bytes.into(),
        bytes_per_step: slope(values).unwrap_or_default(),
        grew,
        judged,
        end: Held { bytes: end, blocks: 0 },
        course: values.to_vec(),
        ..Leak::default()
    })
}
