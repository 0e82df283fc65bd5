//! `cudaDeviceProp`, which CUDA 11 and 12 lay out in one way and CUDA 13 in another.

use super::noted;
use crate::card;
use crate::cuda_error::CudaError;
use crate::device;
use crate::ffi::Out;
use crate::settings::settings;
use crate::version;

/// Offsets of the fields that moved.
struct FieldOffsets {
    size: usize,
    processors: usize,
    can_map_host_memory: usize,
    concurrent_kernels: usize,
    pci_bus: usize,
    copy_engines: usize,
    unified_addressing: usize,
    bus_width: usize,
    l2_cache: usize,
    threads_per_processor: usize,
    stream_priorities: usize,
    shared_per_processor: usize,
    registers_per_processor: usize,
    managed_memory: usize,
    cooperative_launch: usize,
    shared_per_block_optin: usize,
    blocks_per_processor: usize,
    reserved_shared: usize,
    memory_pools: Option<usize>,
    /// Clocks and overlap, which CUDA 13 no longer has.
    clocks: Option<Clocks>,
}

struct Clocks {
    clock: usize,
    overlap: usize,
    memory_clock: usize,
}

const CUDA_12: FieldOffsets = FieldOffsets {
    size: 1032,
    processors: 388,
    can_map_host_memory: 400,
    concurrent_kernels: 576,
    pci_bus: 584,
    copy_engines: 600,
    unified_addressing: 604,
    bus_width: 612,
    l2_cache: 616,
    threads_per_processor: 624,
    stream_priorities: 628,
    shared_per_processor: 640,
    registers_per_processor: 648,
    managed_memory: 652,
    cooperative_launch: 688,
    shared_per_block_optin: 696,
    blocks_per_processor: 712,
    reserved_shared: 720,
    memory_pools: Some(744),
    clocks: Some(Clocks { clock: 348, overlap: 384, memory_clock: 608 }),
};

/// The fields that CUDA 11 has lie where CUDA 12 has them; the structure ends before the later ones.
const CUDA_11: FieldOffsets = FieldOffsets { size: 728, memory_pools: None, ..CUDA_12 };

const CUDA_13: FieldOffsets = FieldOffsets {
    size: 1008,
    processors: 384,
    can_map_host_memory: 392,
    concurrent_kernels: 560,
    pci_bus: 568,
    copy_engines: 584,
    unified_addressing: 588,
    bus_width: 592,
    l2_cache: 596,
    threads_per_processor: 604,
    stream_priorities: 608,
    shared_per_processor: 624,
    registers_per_processor: 632,
    managed_memory: 636,
    cooperative_launch: 668,
    shared_per_block_optin: 672,
    blocks_per_processor: 688,
    reserved_shared: 696,
    memory_pools: Some(720),
    clocks: None,
};

#[unsafe(no_mangle)]
pub extern "C" fn cudaGetDeviceProperties(properties: Out<u8>, device: i32) -> CudaError {
    let layout = if version::is_cuda_13() { CUDA_13 } else { CUDA_11 };
    noted(device::checked(device).map(|device| write(properties, device, &layout)))
}

/// The name that CUDA 12 gives the function.
#[unsafe(no_mangle)]
pub extern "C" fn cudaGetDeviceProperties_v2(properties: Out<u8>, device: i32) -> CudaError {
    noted(device::checked(device).map(|device| write(properties, device, &CUDA_12)))
}

fn write(properties: Out<u8>, device: usize, layout: &FieldOffsets) {
    let card = settings();
    properties.clear(layout.size);
    properties.set_text(card.name, 256);
    properties.field(256).set_bytes(&card::uuid(device));
    write_sizes(properties, layout);
    set_int(properties, layout.pci_bus, device as i32 + 1);
    set_int(properties, layout.processors, card.processors);
    set_int(properties, layout.bus_width, card.bus_width);
    set_int(properties, layout.l2_cache, card.l2_cache);
    set_int(properties, layout.copy_engines, 3);
    if let Some(clocks) = &layout.clocks {
        set_int(properties, clocks.clock, card.clock_khz);
        set_int(properties, clocks.overlap, 1);
        set_int(properties, clocks.memory_clock, card.memory_clock_khz);
    }
    let abilities = [
        layout.can_map_host_memory,
        layout.concurrent_kernels,
        layout.unified_addressing,
        layout.stream_priorities,
        layout.managed_memory,
        layout.cooperative_launch,
    ];
    for offset in abilities.into_iter().chain(layout.memory_pools) {
        set_int(properties, offset, 1);
    }
}

/// Limits, whose offsets up to 384 are the same in all releases.
fn write_sizes(properties: Out<u8>, layout: &FieldOffsets) {
    let card = settings();
    let limits = card::limits();
    set_size(properties, 288, card.memory as usize);
    set_size(properties, 296, card::SHARED_PER_BLOCK as usize);
    set_int(properties, 304, card::REGISTERS);
    set_int(properties, 308, card::WARP);
    set_size(properties, 312, i32::MAX as usize);
    set_int(properties, 320, card::THREADS_PER_BLOCK);
    for (index, extent) in [1024, 1024, 64, i32::MAX, 65_535, 65_535].into_iter().enumerate() {
        set_int(properties, 324 + 4 * index, extent);
    }
    set_size(properties, 352, 65_536);
    set_int(properties, 360, card.capability / 10);
    set_int(properties, 364, card.capability % 10);
    set_size(properties, 368, 512);
    set_size(properties, 376, 32);
    set_int(properties, layout.threads_per_processor, limits.threads_per_processor);
    set_size(properties, layout.shared_per_processor, limits.shared_per_processor as usize);
    set_int(properties, layout.registers_per_processor, card::REGISTERS);
    set_size(properties, layout.shared_per_block_optin, limits.shared_per_block as usize);
    set_int(properties, layout.blocks_per_processor, limits.blocks_per_processor);
    set_size(properties, layout.reserved_shared, limits.reserved_shared as usize);
}

fn set_int(properties: Out<u8>, offset: usize, value: i32) {
    properties.field::<i32>(offset).set(value);
}

fn set_size(properties: Out<u8>, offset: usize, value: usize) {
    properties.field::<usize>(offset).set(value);
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaDeviceGetAttribute(value: Out<i32>, attribute: i32, device: i32) -> CudaError {
    noted(device::checked(device).map(|device| value.set(card::attribute(attribute, device))))
}
