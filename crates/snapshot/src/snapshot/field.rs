//! The keys of a snapshot's dictionaries, as small numbers, and the records that they identify.

use strum::VariantArray;

use super::{StringId, Tables};

/// The kinds of dictionaries that become records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RecordKind {
    Frame,
    Event,
}

impl RecordKind {
    pub(super) const ALL: [Self; 2] = [Self::Frame, Self::Event];
}

/// A key that the model knows. The builder interns them first, in this order, so that a key in the file is recognised by
/// its number.
#[derive(Clone, Copy, PartialEq, Eq, Debug, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
pub(super) enum FieldKey {
    // Events.
    Action,
    Addr,
    DeviceFree,
    Size,
    Stream,
    TimeUs,
    CompileContext,
    UserMetadata,
    PoolId,
    // Everywhere.
    Frames,
    ForwardFrames,
    // Frames.
    Name,
    Filename,
    Line,
    FxOriginalTrace,
    // Segments.
    Device,
    Address,
    TotalSize,
    AllocatedSize,
    ActiveSize,
    SegmentType,
    SegmentPoolId,
    IsExpandable,
    Blocks,
    // Blocks and their history.
    RequestedSize,
    State,
    History,
    RealSize,
    // Annotations.
    Stage,
    // The top level.
    Segments,
    DeviceTraces,
    AllocatorSettings,
    ExternalAnnotations,
    TraceAllocOverflowed,
    HostSegments,
    HostTraces,
    SourceCode,
    Ptmem,
    PtmemExit,
}

impl FieldKey {
    /// Their number.
    pub(super) const COUNT: usize = Self::VARIANTS.len();

    pub(super) fn intern_all(tables: &mut Tables) {
        for (index, key) in Self::VARIANTS.iter().enumerate() {
            let id = tables.intern_string(key.into());
            debug_assert_eq!(id.index(), index);
        }
    }

    #[inline]
    pub(super) fn of(id: StringId) -> Option<Self> {
        Self::VARIANTS.get(id.index()).copied()
    }

    /// The kind of record that a dictionary with this key becomes, if it also has a key that [confirms](Self::confirms) it.
    pub(super) fn kind(self) -> Option<RecordKind> {
        match self {
            Self::Action => Some(RecordKind::Event),
            Self::Filename => Some(RecordKind::Frame),
            _ => None,
        }
    }

    /// True for a key that every record of this kind has beside the one that identifies it: the top level and metadata may have that
    /// one, too.
    pub(super) fn confirms(self, kind: RecordKind) -> bool {
        match kind {
            RecordKind::Event => matches!(self, Self::Addr | Self::DeviceFree | Self::Size),
            RecordKind::Frame => matches!(self, Self::Name | Self::Line),
        }
    }

    /// True for a key that only the top level has, to which a program may have added any others.
    pub(super) fn is_of_top_level(self) -> bool {
        matches!(self, Self::Segments | Self::DeviceTraces)
    }
}
