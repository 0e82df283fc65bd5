//! The simulated devices: their memory, the known values in it, and the state of each thread.

pub(crate) mod addresses;
pub(crate) mod blocks;
pub(crate) mod copy;
pub(crate) mod host;
pub(crate) mod memory;
pub(crate) mod pool;
pub(crate) mod values;
pub(crate) mod virtual_memory;

use core::cell::{Cell, RefCell};

use alloc::vec::Vec;

use crate::cuda_error::CudaError;
use crate::ffi::Handle;
use crate::ledger::{self, CountedFact};
use crate::settings::settings;
use crate::sys::thread::PerThread;

/// Most devices that a run can have.
pub(crate) const MOST_DEVICES: usize = 64;

/// State of one thread of the program.
#[derive(Default)]
pub(crate) struct ThreadState {
    pub(crate) device: Cell<usize>,
    pub(crate) last_error: Cell<Option<CudaError>>,
    pub(crate) capture_mode: Cell<i32>,
    /// Operators that run and whose results the hook computes, one within the other.
    pub(crate) operators: Cell<u32>,
    /// The place that supposed a size from which that of what they allocate follows, or 0.
    pub(crate) marks: Cell<u32>,
    /// The number that they read where nothing is known.
    pub(crate) answer: Cell<Option<u64>>,
    pub(crate) launches: RefCell<Vec<LaunchConfiguration>>,
}

/// Shape of a kernel launch, between the two calls that `<<<…>>>` compiles to.
#[derive(Clone, Copy, Default)]
pub(crate) struct LaunchConfiguration {
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) shared: usize,
    pub(crate) stream: Handle,
}

static THREAD: PerThread<ThreadState> = PerThread::new();

/// Uses the state of this thread.
pub(crate) fn thread<R>(read: impl FnOnce(&ThreadState) -> R) -> R {
    THREAD.with(read)
}

/// Number of devices.
pub(crate) fn count() -> usize {
    ledger::count(CountedFact::DeviceCounts);
    settings().gpus.min(MOST_DEVICES)
}

/// Device that this thread uses.
pub(crate) fn current() -> usize {
    thread(|state| state.device.get())
}

/// Checks the number of a device.
pub(crate) fn checked(device: i32) -> Result<usize, CudaError> {
    let device = usize::try_from(device).map_err(|_| CudaError::InvalidDevice)?;
    if device < settings().gpus { Ok(device) } else { Err(CudaError::InvalidDevice) }
}

/// Makes a device the one that this thread uses.
pub(crate) fn make_current(device: i32) -> Result<(), CudaError> {
    let device = checked(device)?;
    thread(|state| state.device.set(device));
    Ok(())
}
