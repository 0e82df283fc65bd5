//! A profile under absolute limits: the stacks that they are about, and what is not known of it.

use std::cell::OnceCell;

use ptmem_base::diagnostic;
use ptmem_base::pattern::{Naming, Pattern, Selector};
use ptmem_base::sides::Side;
use ptmem_compare::diff::Diff;
use ptmem_trace::profile::{DeviceProfile, HeldLines, Profile, StackTotal};
use ptmem_trace::stack::SnapshotCode;

use super::kind::NeededPart;
use super::partial::{in_words, missing_of};
use super::{LimitKind, Maximum, Thresholds};

/// A profile under absolute limits.
pub(super) struct Limited<'p> {
    pub(super) profile: &'p Profile,
    pub(super) thresholds: &'p Thresholds,
    /// For the names of the lines that stacks sum.
    pub(super) code: OnceCell<SnapshotCode<'p>>,
}

/// The reason why a figure may be another one than is recorded: the ring buffer dropped the beginning of a history, or the other
/// side of a comparison, if that counts, records more.
pub(super) fn lost_part(profile: &Profile, diff: Option<&Diff>, of: &DeviceProfile, kind: LimitKind) -> Option<String> {
    let mut of_device = profile.diagnostics.iter().filter(|found| found.device == Some(of.device));
    let is_truncated = of_device.any(|found| found.code == diagnostic::Code::HistoryTruncated);
    let hidden = match kind.needs() {
        NeededPart::History => Some("and the peak may be among them"),
        NeededPart::Start => Some("and what was held before them is not known"),
        NeededPart::Dump | NeededPart::Nothing => None,
    };
    if let Some(hidden) = hidden.filter(|_| is_truncated) {
        return Some(format!("the ring buffer was full: the oldest events are missing, {hidden}"));
    }
    let of_device = diff?.devices.iter().find(|other| other.device.after == Some(of.device))?;
    let missing = missing_of(of_device, kind).find(|missing| missing.side == Side::After)?;
    Some(in_words(*missing, of))
}

impl Limited<'_> {
    /// Whether a pattern names any stack of devices.
    pub(super) fn has(&self, devices: &[&DeviceProfile], pattern: &Pattern) -> bool {
        let mut stacks = devices.iter().flat_map(|device| &device.stacks);
        stacks.any(|total| self.naming(total, pattern).is_some())
    }

    /// The way in which a pattern names a stack.
    fn naming(&self, total: &StackTotal, pattern: &Pattern) -> Option<Naming> {
        let lines = std::iter::once_with(|| self.lines(total).all).flatten();
        pattern.naming(&total.label, lines.map(|line| line.label))
    }

    /// The lines that a stack sums.
    pub(super) fn lines(&self, total: &StackTotal) -> HeldLines {
        if total.bucket.is_some() || total.members.len() <= 1 {
            return HeldLines::default();
        }
        let code = self.code.get_or_init(|| self.profile.code());
        total.lines(self.profile.options.group_by, code)
    }

    /// For each stack of a device, whether a pattern selects it.
    fn selected(&self, device: &DeviceProfile, pattern: &Pattern) -> Vec<bool> {
        let namings: Vec<_> = device.stacks.iter().map(|total| self.naming(total, pattern)).collect();
        let selector = Selector::new(pattern, namings.iter().copied());
        namings.into_iter().map(|naming| selector.selects(naming)).collect()
    }

    /// For each stack of a device, whether a limit concerns it: one on all stacks does unless another one is on that
    /// stack.
    pub(super) fn concerned(&self, device: &DeviceProfile, maximum: &Maximum) -> Vec<bool> {
        if let Some(pattern) = maximum.pattern() {
            return self.selected(device, pattern);
        }
        let mut concerned = vec![true; device.stacks.len()];
        let of_device = self.thresholds.maximum.iter().filter(|other| other.target.of_host == maximum.target.of_host);
        for pattern in of_device.filter_map(Maximum::pattern) {
            for (concerned, is_replaced) in concerned.iter_mut().zip(self.selected(device, pattern)) {
                *concerned &= !is_replaced;
            }
        }
        concerned
    }
}
