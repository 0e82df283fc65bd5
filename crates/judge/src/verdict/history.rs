//! Histories that do not show a figure.

use ptmem_trace::profile::{DeviceProfile, Profile};
use ptmem_trace::replay::HistoryKind;

use super::LimitKind;
use super::kind::NeededPart;

/// The reason why a figure that needs a history cannot be known, if there is one.
pub(super) fn no_history(profile: &Profile, device: &DeviceProfile, side: &str, kind: LimitKind) -> Option<String> {
    // A device without allocations held at most what it held at the start, if those of another device were recorded.
    let is_recorded = device.figures.allocation_count > 0 || device.device.is_device() && profile.allocates();
    let why = match device.figures.history {
        HistoryKind::Recorded if is_recorded => return None,
        // The state at the dump has them.
        history if kind.needs() == NeededPart::Dump && history != HistoryKind::NumbersOnly => return None,
        HistoryKind::NumbersOnly if matches!(kind, LimitKind::Metric(_)) => return None,
        HistoryKind::NumbersOnly => {
            "holds only figures, without stacks or a history (record the same run, as with ptmem_gate.record(), and compare \
             snapshots)"
        }
        HistoryKind::Recorded => "allocates nothing in its recorded part",
        HistoryKind::StateOnly | HistoryKind::Empty => "records no allocations, only the state at the dump",
        HistoryKind::NoAllocations => "records frees but no allocations",
    };
    Some(format!("the {side} {why}"))
}
