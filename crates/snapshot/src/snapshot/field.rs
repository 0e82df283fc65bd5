//! The keys of a snapshot's dictionaries, as small numbers.

use super::{StringId, Tables};

macro_rules! keys {
    ($($name:ident = $text:literal),* $(,)?) => {
        /// A key that the model knows. The builder interns them first, in this order, so that a key in the file
        /// is recognised by its number.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub(super) enum Key {
            $($name),*
        }

        const ALL: &[(Key, &str)] = &[$((Key::$name, $text)),*];
    };
}

keys! {
    // Events.
    Action = "action",
    Addr = "addr",
    DeviceFree = "device_free",
    Size = "size",
    Stream = "stream",
    TimeUs = "time_us",
    CompileContext = "compile_context",
    UserMetadata = "user_metadata",
    PoolId = "pool_id",
    // Everywhere.
    Frames = "frames",
    ForwardFrames = "forward_frames",
    // Frames.
    Name = "name",
    Filename = "filename",
    Line = "line",
    FxOriginalTrace = "fx_original_trace",
    // Segments.
    Device = "device",
    Address = "address",
    TotalSize = "total_size",
    AllocatedSize = "allocated_size",
    ActiveSize = "active_size",
    SegmentType = "segment_type",
    SegmentPoolId = "segment_pool_id",
    IsExpandable = "is_expandable",
    Blocks = "blocks",
    // Blocks and their history.
    RequestedSize = "requested_size",
    State = "state",
    History = "history",
    RealSize = "real_size",
    // Annotations.
    Stage = "stage",
    // The top level.
    Segments = "segments",
    DeviceTraces = "device_traces",
    AllocatorSettings = "allocator_settings",
    ExternalAnnotations = "external_annotations",
    TraceAllocOverflowed = "trace_alloc_overflowed",
    Ptmem = "ptmem",
    PtmemExit = "ptmem_exit",
}

impl Key {
    pub(super) fn intern_all(tables: &mut Tables) {
        for (index, (_, text)) in ALL.iter().enumerate() {
            let id = tables.intern_string(text);
            debug_assert_eq!(id.index(), index);
        }
    }

    #[inline]
    pub(super) fn of(id: StringId) -> Option<Self> {
        ALL.get(id.index()).map(|&(key, _)| key)
    }

    /// The kind of record that a dictionary with this key becomes.
    pub(super) fn kind(self) -> Option<super::build::Kind> {
        use super::build::Kind;
        match self {
            Self::Action => Some(Kind::Event),
            Self::Filename => Some(Kind::Frame),
            _ => None,
        }
    }

    pub(super) fn text(self) -> &'static str {
        ALL.iter().find(|(key, _)| *key == self).map_or("", |(_, text)| text)
    }
}
