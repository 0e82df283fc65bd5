//! Blocks of PyTorch's allocator: reused memory has no value, whatever was copied there before.
//!
//! The allocator reports every block to c10's profiler, through a function that one of its libraries defines and
//! another calls. A preloaded definition takes precedence: it discards the values and passes the call on. Without it, a
//! counter that a kernel should have written would read as the bytes of the last owner.

use alloc::collections::BTreeMap;
use core::ffi::c_void;
use core::mem;

use super::{addresses, memory, thread, values, virtual_memory};
use crate::sys::loader;
use crate::sys::lock::{Lazy, Mutex};

/// `c10::reportMemoryUsageToProfiler`; the last argument is a `c10::Device`, two bytes passed in a register.
type Report = extern "C" fn(*const c_void, i64, usize, usize, u16);

struct Next(Option<Report>);

static NEXT: Lazy<Next> = Lazy::new(find_next);

fn find_next() -> Next {
    let found = loader::next_definition(c"_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE");
    // SAFETY: the mangled name fixes the arguments, so the address is that of such a function; NULL becomes None.
    Next(unsafe { mem::transmute::<*mut c_void, Option<Report>>(found) })
}

/// A block in use.
struct Block {
    size: u64,
    /// Whether its size follows from a supposed one.
    supposed: bool,
}

/// Blocks in use by address, and the bytes of those whose size follows from a supposed one.
struct Blocks {
    by_address: BTreeMap<u64, Block>,
    supposed: u64,
    highest: u64,
}

static BLOCKS: Mutex<Blocks> = Mutex::new(Blocks { by_address: BTreeMap::new(), supposed: 0, highest: 0 });

impl Blocks {
    fn mark(&mut self, at: u64, supposed: bool) {
        let Some(block) = self.by_address.get_mut(&at) else { return };
        if block.supposed != supposed {
            block.supposed = supposed;
            self.supposed = if supposed { self.supposed + block.size } else { self.supposed - block.size };
            self.highest = self.highest.max(self.supposed);
        }
    }
}

/// Marks the block at an address as one whose size follows from a supposed one, or not.
pub(crate) fn mark(at: u64, supposed: bool) {
    BLOCKS.lock().mark(at, supposed);
}

/// Whether the block at an address is marked.
pub(crate) fn is_marked(at: u64) -> bool {
    BLOCKS.lock().by_address.get(&at).is_some_and(|block| block.supposed)
}

/// Most bytes of marked blocks that were in use at once.
pub(crate) fn most_marked() -> u64 {
    BLOCKS.lock().highest
}

/// Notes that a block was handed out, or given back.
fn note(at: u64, change: i64) {
    values::forget(at, change.unsigned_abs());
    let marks = thread(|state| state.marks.get());
    let mut blocks = BLOCKS.lock();
    if change > 0 {
        blocks.by_address.insert(at, Block { size: change.unsigned_abs(), supposed: false });
        blocks.mark(at, marks);
    } else {
        blocks.mark(at, false);
        blocks.by_address.remove(&at);
    }
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
        note(at as u64, change);
    }
    if let Some(next) = NEXT.get().0 {
        next(at, change, allocated, reserved, device);
    }
}
