//! The number of blocks of a kernel that a processor runs at once, after NVIDIA's occupancy calculator.

use super::kernel::Resources;
use crate::card;
use crate::settings::settings;

/// Registers are given to warps in units.
const REGISTER_UNIT: i32 = 256;
/// Most registers of a thread.
const REGISTERS_PER_THREAD: i32 = 255;

/// Parts of a processor, each with its own registers.
fn partitions() -> i32 {
    if settings().capability == 60 { 2 } else { 4 }
}

/// Unit in which shared memory is given to blocks.
fn shared_unit() -> i32 {
    if settings().capability >= 80 { 128 } else { 256 }
}

fn round_up(value: i32, unit: i32) -> i32 {
    (value + unit - 1) / unit * unit
}

/// Warps of a kernel for which a processor has registers.
fn warps_by_registers(registers: i32) -> i32 {
    let of_warp = round_up(registers.clamp(1, REGISTERS_PER_THREAD) * card::WARP, REGISTER_UNIT);
    card::REGISTERS / partitions() / of_warp * partitions()
}

/// Most threads that a block of the kernel can have.
pub(crate) fn threads_per_block(resources: Resources) -> i32 {
    (warps_by_registers(resources.registers) * card::WARP).min(card::THREADS_PER_BLOCK)
}

/// Blocks of a kernel that fit on a processor.
pub(crate) fn active_blocks(resources: Resources, threads: i32, shared: usize) -> i32 {
    let limits = card::limits();
    if !(1..=card::THREADS_PER_BLOCK).contains(&threads) {
        return 0;
    }
    let asked = i32::try_from(shared).unwrap_or(i32::MAX).saturating_add(resources.shared);
    if asked > limits.shared_per_block {
        return 0;
    }
    let warps = round_up(threads, card::WARP) / card::WARP;
    let of_block = round_up(asked + limits.reserved_shared, shared_unit());
    let by_shared = limits.shared_per_processor.checked_div(of_block).unwrap_or(i32::MAX);
    let by_threads = limits.threads_per_processor / card::WARP / warps;
    let by_registers = warps_by_registers(resources.registers) / warps;
    by_threads.min(by_registers).min(by_shared).min(limits.blocks_per_processor)
}
