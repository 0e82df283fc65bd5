//! A device of a snapshot, as the stages of a replay read it.

use ptmem_base::device::DeviceId;
use ptmem_snapshot::snapshot::{Device, Event, Snapshot};

/// A device of a snapshot.
#[derive(Clone, Copy)]
pub(super) struct DeviceView<'s> {
    pub(super) snapshot: &'s Snapshot,
    /// Its ordinal.
    pub(super) id: DeviceId,
    pub(super) device: &'s Device,
}

impl<'s> DeviceView<'s> {
    /// Its recorded history, oldest first.
    pub(super) fn events(&self) -> &'s [Event] {
        self.snapshot.events_of(self.device)
    }
}
