//! Properties of the simulated card: those in the settings, and those that follow from the compute capability.

use crate::settings::settings;

/// Limits that all cards of a compute capability share.
pub(crate) struct CapabilityLimits {
    pub(crate) threads_per_processor: i32,
    pub(crate) blocks_per_processor: i32,
    /// Shared memory of a processor, in bytes.
    pub(crate) shared_per_processor: i32,
    /// Most shared memory that a block can ask for.
    pub(crate) shared_per_block: i32,
    /// Shared memory that the system keeps of each block.
    pub(crate) reserved_shared: i32,
}

/// Shared memory that a block has without asking for more.
pub(crate) const SHARED_PER_BLOCK: i32 = 49_152;
pub(crate) const REGISTERS: i32 = 65_536;
pub(crate) const THREADS_PER_BLOCK: i32 = 1024;
pub(crate) const WARP: i32 = 32;

const KIB: i32 = 1024;

impl CapabilityLimits {
    /// Limits in threads and blocks of a processor, and in KiB of shared memory of a processor and of a block.
    const fn new(threads: i32, blocks: i32, shared: i32, of_block: i32) -> Self {
        Self {
            threads_per_processor: threads,
            blocks_per_processor: blocks,
            shared_per_processor: shared * KIB,
            shared_per_block: of_block * KIB,
            reserved_shared: 0,
        }
    }

    /// The same for cards from 8.0, whose system reserves some shared memory per block.
    const fn with_reserve(self) -> Self {
        Self { reserved_shared: KIB, ..self }
    }
}

/// Limits of the card's compute capability, after the CUDA programming guide.
pub(crate) fn limits() -> CapabilityLimits {
    match settings().capability {
        ..=60 => CapabilityLimits::new(2048, 32, 64, 48),
        61..=69 => CapabilityLimits::new(2048, 32, 96, 48),
        70..=74 => CapabilityLimits::new(2048, 32, 96, 96),
        75..=79 => CapabilityLimits::new(1024, 16, 64, 64),
        80 => CapabilityLimits::new(2048, 32, 164, 163).with_reserve(),
        87 => CapabilityLimits::new(1536, 16, 164, 163).with_reserve(),
        81..=86 | 88 => CapabilityLimits::new(1536, 16, 100, 99).with_reserve(),
        89 => CapabilityLimits::new(1536, 24, 100, 99).with_reserve(),
        90..=119 => CapabilityLimits::new(2048, 32, 228, 227).with_reserve(),
        120.. => CapabilityLimits::new(1536, 24, 100, 99).with_reserve(),
    }
}

/// Identity of a device: 16 bytes that differ from device to device.
pub(crate) fn uuid(device: usize) -> [u8; 16] {
    let mut uuid = *b"ptmem simulate\0\0";
    uuid[15] = device as u8;
    uuid
}

/// Attribute of a device by CUDA's number; 0 if it has none.
pub(crate) fn attribute(number: i32, device: usize) -> i32 {
    let card = settings();
    let limits = limits();
    match number {
        1..=3 => THREADS_PER_BLOCK,
        4 => 64, // block dimension z
        5 => i32::MAX,
        6 | 7 => 65_535, // grid dimensions y and z
        8 => SHARED_PER_BLOCK,
        9 => 65_536, // constant memory
        10 => WARP,
        11 => i32::MAX, // pitch
        12 | 82 => REGISTERS,
        13 => card.clock_khz,
        14 => 512, // texture alignment
        16 => card.processors,
        15 | 19 | 31 | 41 | 78 | 79 | 80 => 1, // overlap, mapping, concurrent kernels, unified addresses, caches
        33 => device as i32 + 1,               // PCI bus
        36 => card.memory_clock_khz,
        37 => card.bus_width,
        38 => card.l2_cache,
        39 => limits.threads_per_processor,
        40 => 3, // copy engines
        75 => card.capability / 10,
        76 => card.capability % 10,
        81 => limits.shared_per_processor,
        83 | 90 | 95 | 96 | 99 => 1, // managed memory, preemption, cooperative launches, registered host memory
        97 => limits.shared_per_block,
        102 | 103 | 115 => 1, // virtual memory, file descriptors as handles, memory pools
        106 => limits.blocks_per_processor,
        111 => limits.reserved_shared,
        _ => 0,
    }
}
