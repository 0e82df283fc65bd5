//! What a picture shows: a device of one side, or of both.

use ptmem_base::sides::Sides;
use ptmem_compare::align::Alignment;
use ptmem_compare::diff::Row;
use ptmem_trace::profile::{DeviceProfile, Profile};

/// Inputs of a picture.
#[derive(Clone, Copy)]
pub(super) struct Pictured<'p> {
    pub(super) profiles: Sides<Option<&'p Profile>>,
    pub(super) devices: Sides<Option<&'p DeviceProfile>>,
    /// The stacks of a comparison.
    pub(super) rows: Option<&'p [Row]>,
    /// How the histories of a comparison correspond, where they do.
    pub(super) alignment: Option<&'p Alignment>,
    /// Whether frames that only pass calls on are shown.
    pub(super) internals: bool,
}
