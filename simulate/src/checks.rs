//! Kernels that compute whether a check passes: `all()` and the `&` of conditions.
//!
//! Nothing is computed, so their result is not known. Programs ask for it to refuse wrong input ("all probabilities are
//! valid") and go on only if it is true. So a single byte that is read right after such a kernel reads as true.

use alloc::collections::BTreeSet;
use core::ffi::CStr;
use core::sync::atomic::{AtomicBool, Ordering};

use crate::device::thread;
use crate::ffi::Opaque;
use crate::sys::lock::Mutex;
use crate::sys::memory;

/// Parts of the names of PyTorch's kernels that compute a conjunction.
const CONJUNCTIONS: [&CStr; 2] = [c"and_kernel_cuda", c"BitwiseAndFunctorIbE"];

/// Functions of the host that launch such a kernel.
static KERNELS: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());
/// Set with the first of them, so that other programs pay nothing.
static ANY: AtomicBool = AtomicBool::new(false);

/// Notes the kernel that a function of the host launches.
pub(crate) fn register(function: Opaque, name: &CStr) {
    if CONJUNCTIONS.iter().any(|part| memory::contains(name, part)) {
        KERNELS.lock().insert(function.addr());
        ANY.store(true, Ordering::Relaxed);
    }
}

/// Notes that this thread launched a kernel.
pub(crate) fn note_launch(function: Opaque) {
    let checks = ANY.load(Ordering::Relaxed) && KERNELS.lock().contains(&function.addr());
    thread(|state| state.checks.set(checks));
}

/// True if the last kernel of this thread computed whether a check passes.
pub(crate) fn computed_last() -> bool {
    thread(|state| state.checks.get())
}
