//! Segments and their blocks.

use super::tables::StackId;

/// Memory that the allocator got from the driver: one `cudaMalloc`, or one contiguous mapped range of
/// an expandable segment.
#[derive(Debug, Clone)]
pub struct Segment {
    /// First address.
    pub address: u64,
    /// Bytes.
    pub total_size: u64,
    /// Bytes in blocks of state `active_allocated`, as PyTorch summed them, where the file says.
    pub allocated_size: Option<u64>,
    /// Bytes in active blocks, as PyTorch summed them, where the file says.
    pub active_size: Option<u64>,
    /// `segment_type`: true for the pool of blocks up to 1 MiB.
    pub small_pool: bool,
    /// `stream` that it serves, a raw pointer. `None` where the file does not say.
    pub stream: Option<i128>,
    /// `segment_pool_id`: (0, 0) is the default pool, others are private. `None` before release 2.1.
    pub pool_id: Option<(u64, u64)>,
    /// Mapped piecewise (`cuMemMap`) rather than by one `cudaMalloc`.
    pub is_expandable: bool,
    /// If requested; `None` where nothing was captured.
    pub stack: Option<StackId>,
    /// The blocks, by address and without gaps.
    pub blocks: Vec<Block>,
}

/// Bytes of blocks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BlockSums {
    /// All of them.
    pub total: i128,
    /// Those held by tensors.
    pub allocated: i128,
    /// Those that are not free.
    pub active: i128,
    /// Bytes that the program asked for in them.
    pub requested: i128,
}

impl Segment {
    /// The sums over its blocks.
    #[must_use]
    pub fn sums(&self) -> BlockSums {
        let mut sums = BlockSums::default();
        for block in &self.blocks {
            let size = i128::from(block.size);
            sums.total += size;
            if block.state != BlockState::Inactive {
                sums.active += size;
                sums.requested += i128::from(block.requested_size.unwrap_or(block.size));
            }
            sums.allocated += if block.state == BlockState::ActiveAllocated { size } else { 0 };
        }
        sums
    }
}

/// A part of a segment.
#[derive(Debug, Clone, Copy)]
pub struct Block {
    /// First address (derived from the sizes before it where the release did not write it).
    pub address: u64,
    /// Bytes that the block occupies.
    pub size: u64,
    /// Requested bytes. Stale on inactive blocks; `None` where no release key says it.
    pub requested_size: Option<u64>,
    /// Its use.
    pub state: BlockState,
    /// Where it was allocated; `None` where nothing was captured.
    pub stack: Option<StackId>,
}

/// The state of a [`Block`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::EnumString, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum BlockState {
    /// Held by a tensor.
    ActiveAllocated,
    /// Freed by its tensor, still in use on another stream (`active_pending_free`, which the
    /// documentation calls `active_awaiting_free`).
    #[strum(to_string = "active_pending_free", serialize = "active_awaiting_free")]
    ActivePendingFree,
    /// Free.
    Inactive,
}
