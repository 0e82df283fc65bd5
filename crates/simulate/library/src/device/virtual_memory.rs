//! Virtual memory: reserved addresses, physical memory, and mappings of one to the other. PyTorch's expandable segments
//! are made of it.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::addresses::{self, GRAIN, Ranges};
use super::{memory, values};
use crate::cuda_error::CudaError;
use crate::ffi::Handle;
use crate::handles::new_handle;
use crate::sys::lock::Mutex;

/// Physical memory: it is given back when nobody has its handle and nothing maps it.
struct Physical {
    size: u64,
    device: usize,
    owners: u32,
    mappings: u32,
}

/// A range of reserved addresses that is backed by physical memory.
#[derive(Clone, Copy)]
struct Mapping {
    size: u64,
    physical: Handle,
}

struct VirtualMemory {
    reserved: Ranges,
    physical: BTreeMap<Handle, Physical>,
    mappings: BTreeMap<u64, Mapping>,
}

static MEMORY: Mutex<VirtualMemory> = Mutex::new(VirtualMemory {
    reserved: Ranges::of_virtual_memory(),
    physical: BTreeMap::new(),
    mappings: BTreeMap::new(),
});

impl VirtualMemory {
    fn drop_unused(&mut self, handle: Handle) {
        if self.physical.get(&handle).is_some_and(|physical| physical.owners == 0 && physical.mappings == 0)
            && let Some(physical) = self.physical.remove(&handle)
        {
            memory::give_back(physical.device, physical.size);
        }
    }

    /// The mapping that contains an address.
    fn mapping_at(&self, address: u64) -> Option<Mapping> {
        let (&start, &mapping) = self.mappings.range(..=address).next_back()?;
        (address - start < mapping.size).then_some(mapping)
    }
}

/// Reserves addresses.
pub(crate) fn reserve(size: u64) -> Result<u64, CudaError> {
    let size = size.checked_next_multiple_of(GRAIN).ok_or(CudaError::InvalidValue)?;
    MEMORY.lock().reserved.take(size).ok_or(CudaError::OutOfMemory)
}

/// Gives addresses of [`reserve`] back.
pub(crate) fn unreserve(address: u64) -> Result<(), CudaError> {
    MEMORY.lock().reserved.give_back(address).map(|_| ()).ok_or(CudaError::InvalidValue)
}

/// Takes physical memory of a device.
pub(crate) fn create(device: usize, size: u64) -> Result<Handle, CudaError> {
    memory::take(device, size)?;
    let handle = new_handle();
    MEMORY.lock().physical.insert(handle, Physical { size, device, owners: 1, mappings: 0 });
    Ok(handle)
}

/// Gives a handle of physical memory back. The memory stays as long as something maps it.
pub(crate) fn release(handle: Handle) -> Result<(), CudaError> {
    let mut memory = MEMORY.lock();
    let physical = memory.physical.get_mut(&handle).ok_or(CudaError::InvalidValue)?;
    physical.owners = physical.owners.saturating_sub(1);
    memory.drop_unused(handle);
    Ok(())
}

/// Puts physical memory behind reserved addresses.
pub(crate) fn map(address: u64, size: u64, handle: Handle) -> Result<(), CudaError> {
    let mut memory = MEMORY.lock();
    if memory.reserved.find(address).is_none() {
        return Err(CudaError::InvalidValue);
    }
    memory.physical.get_mut(&handle).ok_or(CudaError::InvalidValue)?.mappings += 1;
    memory.mappings.insert(address, Mapping { size, physical: handle });
    Ok(())
}

/// Takes the physical memory away from a range of addresses.
pub(crate) fn unmap(address: u64, size: u64) -> Result<(), CudaError> {
    let end = address.checked_add(size).ok_or(CudaError::InvalidValue)?;
    values::forget(address, size);
    let mut memory = MEMORY.lock();
    let starts: Vec<u64> = memory.mappings.range(address..end).map(|(&start, _)| start).collect();
    for start in &starts {
        let Some(mapping) = memory.mappings.remove(start) else { continue };
        if let Some(physical) = memory.physical.get_mut(&mapping.physical) {
            physical.mappings -= 1;
        }
        memory.drop_unused(mapping.physical);
    }
    if starts.is_empty() { Err(CudaError::InvalidValue) } else { Ok(()) }
}

/// One more handle of the memory behind an address.
pub(crate) fn retain(address: u64) -> Result<Handle, CudaError> {
    let mut memory = MEMORY.lock();
    let mapping = memory.mapping_at(address).ok_or(CudaError::InvalidValue)?;
    let physical = memory.physical.get_mut(&mapping.physical).ok_or(CudaError::InvalidValue)?;
    physical.owners += 1;
    Ok(mapping.physical)
}

/// Device whose memory a handle stands for.
pub(crate) fn device_of(handle: Handle) -> Option<usize> {
    MEMORY.lock().physical.get(&handle).map(|physical| physical.device)
}

/// Device that backs an address.
pub(crate) fn device_at(address: u64) -> Option<usize> {
    if let Some(device) = addresses::device_at(address) {
        return Some(device);
    }
    let memory = MEMORY.lock();
    let mapping = memory.mapping_at(address)?;
    memory.physical.get(&mapping.physical).map(|physical| physical.device)
}

/// Start and size of the reservation that holds an address.
pub(crate) fn find(address: u64) -> Option<(u64, u64)> {
    MEMORY.lock().reserved.find(address)
}
