//! Blocks of PyTorch's allocator: reused memory has no value, whatever was copied there before.
//!
//! The allocator reports every block to c10's profiler, through a function that one of its libraries defines and
//! another calls. A preloaded definition takes precedence: it discards the values and passes the call on. Without it, a
//! counter that a kernel should have written would read as the bytes of the last owner.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ffi::c_void;
use core::mem;

use super::{MOST_DEVICES, addresses, memory, thread, values, virtual_memory};
use crate::sys::loader;
use crate::sys::lock::{Lazy, Mutex};

/// `c10::reportMemoryUsageToProfiler`; the last argument is a `c10::Device`, its kind and its number, passed in a register.
type Report = extern "C" fn(*const c_void, i64, usize, usize, u16);

struct Next(Option<Report>);

static NEXT: Lazy<Next> = Lazy::new(find_next);

fn find_next() -> Next {
    let found = loader::next_definition(c"_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE");
    // SAFETY: the mangled name fixes the arguments, so the address is that of such a function; NULL becomes None.
    Next(unsafe { mem::transmute::<*mut c_void, Option<Report>>(found) })
}

/// An allocation: its device, and its number among those of the device.
type Allocation = (usize, u64);

/// A block in use.
struct CardBlock {
    size: u64,
    allocation: Allocation,
}

/// Blocks in use by address, the allocations of each device so far, and of those whose size follows from a supposed one, the
/// number of the place that supposed it.
struct CardBlocks {
    by_address: BTreeMap<u64, CardBlock>,
    allocated: [u64; MOST_DEVICES],
    supposed: BTreeMap<Allocation, u32>,
}

static BLOCKS: Mutex<CardBlocks> =
    Mutex::new(CardBlocks { by_address: BTreeMap::new(), allocated: [0; MOST_DEVICES], supposed: BTreeMap::new() });

/// Marks the block at an address: its size follows from a size that a place supposed. 0 removes the mark.
pub(crate) fn mark(at: u64, place: u32) {
    let mut blocks = BLOCKS.lock();
    let Some(&CardBlock { allocation, .. }) = blocks.by_address.get(&at) else { return };
    blocks.supposed.remove(&allocation);
    if place > 0 {
        blocks.supposed.insert(allocation, place);
    }
}

/// The place with which the block at an address is marked, or 0.
pub(crate) fn mark_of(at: u64) -> u32 {
    let blocks = BLOCKS.lock();
    let block = blocks.by_address.get(&at);
    block.and_then(|block| blocks.supposed.get(&block.allocation)).copied().unwrap_or_default()
}

/// All allocations that were marked: the device, how many of its allocations came later, and the place.
pub(crate) fn marks() -> Vec<[u64; 3]> {
    let CardBlocks { supposed, allocated, .. } = &*BLOCKS.lock();
    let marks = supposed.iter();
    marks.map(|(&(device, number), &place)| [device as u64, allocated[device] - 1 - number, place.into()]).collect()
}

/// Notes that a block of a device was handed out, or given back.
fn note(at: u64, change: i64, device: usize) {
    let size = change.unsigned_abs();
    values::forget(at, size);
    let mut blocks = BLOCKS.lock();
    if change < 0 {
        blocks.by_address.remove(&at);
        return;
    }
    let Some(allocated) = blocks.allocated.get_mut(device) else { return };
    let allocation = (device, *allocated);
    *allocated += 1;
    blocks.by_address.insert(at, CardBlock { size, allocation });
    drop(blocks);
    mark(at, thread(|state| state.marks.get()));
}

/// Address and size of what holds an address: a block of PyTorch's, or else an allocation of the device that has no
/// blocks. Arguments of kernels have bytes that nobody wrote, so an address can be one of a block that was given back.
pub(crate) fn holding(address: u64) -> Option<(u64, u64)> {
    let blocks = &BLOCKS.lock().by_address;
    let block = blocks.range(..=address).next_back().map(|(&start, block)| (start, block.size));
    if let Some((start, size)) = block.filter(|(start, size)| address - start < *size) {
        return Some((start, size));
    }
    let allocation = memory::find(address).or_else(|| virtual_memory::find(address));
    allocation.filter(|(start, size)| blocks.range(start..&(start + size)).next().is_none())
}

#[unsafe(export_name = "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE")]
pub extern "C" fn report_memory_usage(at: *const c_void, change: i64, allocated: usize, reserved: usize, device: u16) {
    if addresses::is_device(at as u64) {
        note(at as u64, change, usize::from(device >> 8));
    }
    if let Some(next) = NEXT.get().0 {
        next(at, change, allocated, reserved, device);
    }
}
