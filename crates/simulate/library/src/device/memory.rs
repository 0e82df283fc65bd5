//! Memory of the devices: allocations and remaining bytes.

use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};

use super::addresses::{self, Ranges};
use super::{MOST_DEVICES, values};
use crate::cuda_error::CudaError;
use crate::ledger::{self, CountedFact};
use crate::python;
use crate::settings::settings;
use crate::sys::lock::Mutex;

/// Memory of one device.
struct Memory {
    ranges: Ranges,
    used: u64,
}

/// True once this process has memory of a device.
static ALLOCATES: AtomicBool = AtomicBool::new(false);

static DEVICES: Mutex<Vec<Memory>> = Mutex::new(Vec::new());

fn with<R>(device: usize, change: impl FnOnce(&mut Memory) -> R) -> R {
    let mut devices = DEVICES.lock();
    while devices.len() <= device.min(MOST_DEVICES) {
        let ranges = Ranges::of_device(devices.len(), settings().addresses);
        devices.push(Memory { ranges, used: 0 });
    }
    change(&mut devices[device])
}

impl Memory {
    fn use_more(&mut self, size: u64) -> Result<(), CudaError> {
        match self.used.checked_add(size) {
            Some(used) if used <= usable() => {
                if !ALLOCATES.swap(true, Ordering::Relaxed) {
                    ledger::count(CountedFact::AllocatingProcesses);
                    if python::lacks_hook() {
                        ledger::count(CountedFact::ProcessesWithoutHook);
                    }
                }
                self.used = used;
                ledger::count_use(used);
                Ok(())
            }
            _ => {
                ledger::count(CountedFact::OutOfMemory);
                Err(CudaError::OutOfMemory)
            }
        }
    }
}

/// Takes memory of a device without addresses: virtual memory has its own.
pub(crate) fn take(device: usize, size: u64) -> Result<(), CudaError> {
    with(device, |memory| memory.use_more(size))
}

/// Gives memory of [`take`] back.
pub(crate) fn give_back(device: usize, size: u64) {
    with(device, |memory| memory.used -= size);
}

/// Memory of a device, in bytes.
pub(crate) struct MemorySizes {
    pub(crate) free: u64,
    pub(crate) total: u64,
}

/// Bytes that a program can have: all but those of the CUDA context.
fn usable() -> u64 {
    settings().memory.saturating_sub(settings().context)
}

/// Free and total memory of a device.
pub(crate) fn sizes(device: usize) -> MemorySizes {
    MemorySizes { free: usable().saturating_sub(with(device, |memory| memory.used)), total: settings().memory }
}

/// Takes addresses of a device, without memory: a pool has taken it.
pub(crate) fn take_addresses(device: usize, size: u64) -> Result<u64, CudaError> {
    let size = addresses::whole_grains(size).ok_or(CudaError::OutOfMemory)?;
    with(device, |memory| memory.ranges.take(size)).ok_or(CudaError::OutOfMemory)
}

/// Gives addresses of [`take_addresses`] back; their size.
pub(crate) fn give_addresses_back(address: u64) -> Result<u64, CudaError> {
    let device = addresses::device_at(address).ok_or(CudaError::InvalidValue)?;
    let size = with(device, |memory| memory.ranges.give_back(address)).ok_or(CudaError::InvalidValue)?;
    values::forget(address, size);
    Ok(size)
}

/// Allocates device memory.
pub(crate) fn allocate(device: usize, size: u64) -> Result<u64, CudaError> {
    if size == 0 {
        return Ok(0);
    }
    let size = addresses::whole_grains(size).ok_or(CudaError::OutOfMemory)?;
    with(device, |memory| {
        memory.use_more(size)?;
        let address = memory.ranges.take(size);
        if address.is_none() {
            memory.used -= size;
        }
        address.ok_or(CudaError::OutOfMemory)
    })
}

/// Frees memory of [`allocate`].
pub(crate) fn free(address: u64) -> Result<(), CudaError> {
    if address == 0 {
        return Ok(());
    }
    let device = addresses::device_at(address).ok_or(CudaError::InvalidValue)?;
    let size = give_addresses_back(address)?;
    give_back(device, size);
    Ok(())
}

/// Start and size of the allocation that holds an address.
pub(crate) fn find(address: u64) -> Option<(u64, u64)> {
    let device = addresses::device_at(address)?;
    with(device, |memory| memory.ranges.find(address))
}
