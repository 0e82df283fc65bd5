//! Host memory that CUDA allocated or registered.

use alloc::collections::BTreeMap;

use crate::cuda_error::CudaError;
use crate::sys::lock::Mutex;
use crate::sys::memory;

/// How CUDA knows a piece of host memory; the numbers are those of `cudaMemoryType`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum HostKind {
    /// Allocated, page-locked.
    Allocated = 1,
    /// Allocated, reachable from host and devices.
    Managed = 3,
    /// The program's own memory, page-locked.
    Registered = 0,
}

#[derive(Clone, Copy)]
struct HostRange {
    size: u64,
    kind: HostKind,
}

static RANGES: Mutex<BTreeMap<u64, HostRange>> = Mutex::new(BTreeMap::new());

/// Allocates host memory.
pub(crate) fn allocate(size: u64, kind: HostKind) -> Result<u64, CudaError> {
    let bytes = usize::try_from(size).map_err(|_| CudaError::OutOfMemory)?;
    let address = memory::allocate_pages(bytes).ok_or(CudaError::OutOfMemory)?;
    RANGES.lock().insert(address, HostRange { size, kind });
    Ok(address)
}

/// Frees memory of [`allocate`]; `None` if it is not such memory.
pub(crate) fn free(address: u64) -> Option<()> {
    let mut ranges = RANGES.lock();
    if ranges.get(&address)?.kind == HostKind::Registered {
        return None;
    }
    ranges.remove(&address);
    memory::free_pages(address);
    Some(())
}

/// Notes the program's own memory as page-locked.
pub(crate) fn register(address: u64, size: u64) {
    RANGES.lock().insert(address, HostRange { size, kind: HostKind::Registered });
}

/// Forgets memory of [`register`].
pub(crate) fn unregister(address: u64) -> Result<(), CudaError> {
    let mut ranges = RANGES.lock();
    if ranges.get(&address).is_some_and(|range| range.kind == HostKind::Registered) {
        ranges.remove(&address);
        return Ok(());
    }
    Err(CudaError::InvalidValue)
}

/// How CUDA knows the memory at an address. `None` for memory unknown to CUDA.
pub(crate) fn kind_at(address: u64) -> Option<HostKind> {
    let ranges = RANGES.lock();
    let (&start, range) = ranges.range(..=address).next_back()?;
    (address - start < range.size).then_some(range.kind)
}
