//! Where blocks and segments lie: what pictures of the memory need, and no figure.

use ptmem_snapshot::snapshot::Action;

use super::Position;
use super::backing::Backing;
use super::census::Census;
use super::device::DeviceView;
use super::rounding::SplitRule;
use super::segment_map::{Home, Range};

/// The addresses of the blocks and segments of a device.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Layout {
    /// The address of every block, by the number that the trace gives it.
    pub blocks: Vec<u64>,
    /// The segments before the first event.
    pub segments: Vec<SegmentPart>,
    /// The segments, or parts of one, that come and go, in the order of their events.
    pub changes: Vec<SegmentPart>,
}

/// A segment, or a mapped part of an expandable one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentPart {
    /// Its first byte.
    pub address: u64,
    /// Its size.
    pub bytes: u64,
    /// True if parts that touch are one segment.
    pub is_mapped: bool,
    /// Which requests it serves; of a part that goes nothing is known.
    pub home: Home,
}

impl Layout {
    /// `numbered` are the numbers that the trace gives the block of every allocation, with their addresses.
    pub(super) fn new(view: DeviceView<'_>, census: &Census, mut numbered: Vec<(u32, u64)>) -> Self {
        numbered.sort_unstable();
        let blocks = numbered.into_iter().map(|(_, address)| address).collect();
        let start = Backing::at(view.snapshot, view.device, census, Position::START);
        let segments = start.segments.iter().map(|(address, Range { end, pool, home })| SegmentPart {
            address,
            bytes: end - address,
            is_mapped: pool == SplitRule::Expandable,
            home,
        });
        let mut homes = start.homes.iter().rev().copied();
        let changes = census.of_segments.iter().map(|&place| {
            let event = &view.events()[place as usize];
            let home = if event.action.adds_segment() { homes.next() } else { None };
            SegmentPart {
                address: event.addr,
                bytes: event.size,
                is_mapped: matches!(event.action, Action::SegmentMap | Action::SegmentUnmap),
                home: home.unwrap_or_default(),
            }
        });
        Self { blocks, segments: segments.collect(), changes: changes.collect() }
    }
}
