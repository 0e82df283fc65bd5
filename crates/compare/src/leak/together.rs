//! Stacks that do not leak by themselves over a series of snapshots.

use std::cmp::Reverse;

use ptmem_base::diagnostic::{Code, Diagnostic};
use ptmem_base::text::count;
use ptmem_base::units::Size;
use ptmem_trace::phase::steps::FEWEST_CHANGES;
use ptmem_trace::profile::{Bucket, Held};

use super::device::PausedGrowth;
use super::leaking::MOST_NAMES;
use super::trend::Growing;
use super::{DeviceLeaks, Leak, LeakOptions};

/// Stacks that do not leak by themselves, which may leak together; or the totals of snapshots without stacks.
pub(super) struct Together {
    /// All of them.
    all: Sum,
    /// Those alone that changed by less than what counts as growth: the changes of larger ones would hide theirs.
    small: Sum,
    /// The name of a sum.
    label: &'static str,
    /// The stacks that grew until lately, with their names.
    paused: Vec<(PausedGrowth, String)>,
}

/// The sum of some stacks.
#[derive(Default)]
struct Sum {
    /// What they hold in each snapshot that counts.
    held: Vec<Held>,
    /// The names of those that grew, with the bytes gained.
    grown: Vec<(i128, String)>,
}

impl Sum {
    fn add(&mut self, label: &str, held: &[Held]) {
        self.grown.extend(Some((gained(held), label.to_owned())).filter(|(bytes, _)| *bytes > 0));
        self.held.resize(held.len(), Held::default());
        self.held.iter_mut().zip(held).for_each(|(sum, held)| *sum += *held);
    }

    /// The names of those that grew most.
    fn grew_most(&self) -> Vec<String> {
        let mut grown: Vec<&(i128, String)> = self.grown.iter().collect();
        grown.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        grown.into_iter().take(MOST_NAMES).map(|(_, label)| label.clone()).collect()
    }
}

impl Together {
    /// No stacks yet.
    pub(super) fn of_stacks() -> Self {
        Self { all: Sum::default(), small: Sum::default(), label: "<several stacks together>", paused: Vec::new() }
    }

    /// The allocated bytes of snapshots without stacks.
    pub(super) fn of_totals(totals: Vec<u64>) -> Self {
        let held = totals.into_iter().map(|bytes| Held { bytes, blocks: 0 }).collect();
        Self { all: Sum { held, grown: Vec::new() }, label: "allocated memory", ..Self::of_stacks() }
    }

    /// Adds a stack, with growth of which it is open whether it has ended.
    pub(super) fn add(&mut self, label: String, held: &[Held], paused: Option<PausedGrowth>, options: &LeakOptions) {
        self.all.add(&label, held);
        let bytes = held.iter().map(|held| held.bytes);
        let [lowest, highest] = [bytes.clone().min(), bytes.max()].map(Option::unwrap_or_default);
        if highest - lowest < options.least_growth() {
            self.small.add(&label, held);
        }
        self.paused.extend(paused.map(|paused| (paused, label)));
    }

    /// The leak of all of them together, or of the small ones: a little in each of many stacks, or in new ones every time.
    pub(super) fn leak(&self, found: &DeviceLeaks, options: &LeakOptions) -> Option<Leak> {
        // A large stack that becomes several small ones, as by a change of the code, is a single change.
        let leaks = [(&self.all, 1), (&self.small, FEWEST_CHANGES)].into_iter();
        let mut leaks = leaks.filter_map(|(sum, fewest)| {
            let leak = found.leak(&sum.held, Growing::Yes, options).filter(|leak| leak.grew >= fewest)?;
            Some(Leak { also: sum.grew_most(), ..leak })
        });
        Some(Leak {
            label: self.label.to_owned(),
            key: Bucket::Others.label().to_owned(),
            bucket: Some(Bucket::Others),
            ..leaks.next()?
        })
    }

    /// Remarks on growth that cannot be judged yet.
    pub(super) fn remarks(&mut self, found: &DeviceLeaks, options: &LeakOptions) -> Vec<Diagnostic> {
        let sums = [&self.all, &self.small];
        let recent = sums.iter().find_map(|sum| found.leak(&sum.held, Growing::TooSoon, options));
        if self.paused.is_empty() {
            let mut latest = sums.iter().filter_map(|sum| found.latest(&sum.held, options));
            let together = latest.find_map(|latest| found.paused_growth(latest));
            self.paused.extend(together.map(|paused| (paused, self.label.to_owned())));
        }
        self.paused.sort_by_key(|(paused, _)| Reverse(paused.per_snapshot));
        let remarks = [recent.map(|leak| too_soon(found, leak)), paused(found, &self.paused)];
        remarks.into_iter().flatten().collect()
    }
}

/// Bytes by which the last of some moments exceeds the first.
fn gained(held: &[Held]) -> i128 {
    let [first, last] = [held.first(), held.last()].map(|held| held.map_or(0, |held| i128::from(held.bytes)));
    last - first
}

/// A remark where something rose in the last snapshots, too few to be called a leak.
fn too_soon(found: &DeviceLeaks, leak: Leak) -> Diagnostic {
    let explained = found.explained().map(|explained| format!(" beside {explained}"));
    let message = format!(
        "allocated bytes rose by {}{} since {}, in each of the last {}: too few to distinguish a leak from a single \
         increase; the next ones will show it",
        Size(u64::try_from(leak.bytes).unwrap_or_default()),
        explained.unwrap_or_default(),
        leak.since.unwrap_or_default(),
        count(leak.judged as u64, "snapshot", "snapshots"),
    );
    Diagnostic::new(Code::GrowthTooRecent, found.device, message)
}

/// A remark where the fastest of some growth, or more of it, was level or slower in the last snapshots, too few to show that it has
/// ended.
fn paused(found: &DeviceLeaks, all: &[(PausedGrowth, String)]) -> Option<Diagnostic> {
    let ((first, label), others) = all.split_first()?;
    let others = match others.len() {
        0 => String::new(),
        others => format!(", as did {}", count(others as u64, "more stack", "more stacks")),
    };
    let message = format!(
        "{label} grew by {} per snapshot until {} and did not clearly fall since{others}: {} too few to show that the growth \
         has ended; the next ones will show it",
        Size(u64::try_from(first.per_snapshot).unwrap_or_default()),
        first.until,
        count(first.later as u64, "later snapshot is", "later snapshots are"),
    );
    Some(Diagnostic::new(Code::GrowthTooRecent, found.device, message))
}
