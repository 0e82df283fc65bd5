//! Stacks that do not leak by themselves over a series of snapshots.

use std::cmp::Reverse;

use ptmem_base::diagnostic::{Code, Diagnostic};
use ptmem_base::text::count;
use ptmem_base::units::Size;
use ptmem_trace::profile::{Bucket, Held};

use super::device::PausedGrowth;
use super::leaking::MOST_NAMES;
use super::trend::Growing;
use super::{DeviceLeaks, Leak, LeakOptions};

/// Stacks that do not leak by themselves, which may leak together; or the totals of snapshots without stacks.
pub(super) struct Together {
    /// What they hold together in each snapshot that counts.
    sum: Vec<Held>,
    /// The name of the sum.
    label: &'static str,
    /// The names of those that grew, with the bytes gained.
    grown: Vec<(i128, String)>,
    /// The stacks that grew until lately, with their names.
    paused: Vec<(PausedGrowth, String)>,
}

impl Together {
    /// No stacks yet.
    pub(super) fn of_stacks(snapshots: usize) -> Self {
        let sum = vec![Held::default(); snapshots];
        Self { sum, label: "<several stacks together>", grown: Vec::new(), paused: Vec::new() }
    }

    /// The allocated bytes of snapshots without stacks.
    pub(super) fn of_totals(totals: Vec<u64>) -> Self {
        let sum = totals.into_iter().map(|bytes| Held { bytes, blocks: 0 }).collect();
        Self { sum, label: "allocated memory", grown: Vec::new(), paused: Vec::new() }
    }

    /// Adds a stack.
    pub(super) fn add(&mut self, label: String, held: Vec<Held>, found: &DeviceLeaks, options: &LeakOptions) {
        self.paused.extend(found.paused_growth(&held, options).map(|paused| (paused, label.clone())));
        self.grown.extend(Some((gained(&held), label)).filter(|(bytes, _)| *bytes > 0));
        self.sum.iter_mut().zip(held).for_each(|(sum, held)| *sum += held);
    }

    /// The leak of all of them together: a little in each of many stacks, or in new ones every time.
    pub(super) fn leak(&mut self, found: &DeviceLeaks, options: &LeakOptions) -> Option<Leak> {
        let leak = found.leak(&self.sum, Growing::Yes, options)?;
        self.grown.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        Some(Leak {
            label: self.label.to_owned(),
            key: Bucket::Others.label().to_owned(),
            bucket: Some(Bucket::Others),
            also: self.grown.iter().take(MOST_NAMES).map(|(_, label)| label.clone()).collect(),
            ..leak
        })
    }

    /// Remarks on growth that cannot be judged yet.
    pub(super) fn remarks(&mut self, found: &DeviceLeaks, options: &LeakOptions) -> Vec<Diagnostic> {
        let recent = found.leak(&self.sum, Growing::TooSoon, options);
        if self.paused.is_empty() {
            let together = found.paused_growth(&self.sum, options);
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
