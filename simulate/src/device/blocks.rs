//! Blocks of PyTorch's allocator: memory that it hands out anew has no value, whatever was copied there before.
//!
//! The allocator tells c10's profiler of every block, by a function that one of its libraries defines and another calls. A
//! preloaded definition comes first: it forgets the values and passes the call on. Without it, a counter that a kernel
//! should have written would read as the bytes of the last owner.

use core::ffi::c_void;
use core::mem;

use super::{addresses, values};
use crate::sys::loader;
use crate::sys::lock::Lazy;

/// `c10::reportMemoryUsageToProfiler`; the last argument is a `c10::Device`, two bytes passed in a register.
type Report = extern "C" fn(*const c_void, i64, usize, usize, u16);

struct Next(Option<Report>);

static NEXT: Lazy<Next> = Lazy::new(find_next);

fn find_next() -> Next {
    let found = loader::next_definition(c"_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE");
    // SAFETY: the mangled name fixes the arguments, so the address is that of such a function; NULL becomes None.
    Next(unsafe { mem::transmute::<*mut c_void, Option<Report>>(found) })
}

#[unsafe(export_name = "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE")]
pub extern "C" fn report_memory_usage(at: *const c_void, change: i64, allocated: usize, reserved: usize, device: u16) {
    if change > 0 && addresses::is_device(at as u64) {
        values::forget(at as u64, change.unsigned_abs());
    }
    if let Some(next) = NEXT.get().0 {
        next(at, change, allocated, reserved, device);
    }
}
