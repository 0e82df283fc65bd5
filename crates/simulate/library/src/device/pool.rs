//! Memory pools of `cudaMallocAsync`: a pool keeps freed memory until it is trimmed.

use alloc::collections::BTreeMap;

use super::{MOST_DEVICES, addresses, memory};
use crate::cuda_error::CudaError;
use crate::ffi::Handle;
use crate::sys::lock::Mutex;

/// Unit in which a pool takes memory from its device.
const POOL_GRAIN: u64 = 32 << 20;
/// Unit in which a pool counts used memory.
const USED_GRAIN: u64 = 512;
/// Default pools have fixed handles: a stranger's handle is taken for that of the first device.
const FIRST_HANDLE: Handle = 0x5000;

#[derive(Clone, Copy)]
struct CardPool {
    used: u64,
    used_high: u64,
    reserved: u64,
    reserved_high: u64,
    threshold: u64,
}

const EMPTY: CardPool = CardPool { used: 0, used_high: 0, reserved: 0, reserved_high: 0, threshold: 0 };

static POOLS: Mutex<[CardPool; MOST_DEVICES]> = Mutex::new([EMPTY; MOST_DEVICES]);

/// Sizes that allocations count as used, by address.
static SIZES: Mutex<BTreeMap<u64, u64>> = Mutex::new(BTreeMap::new());

/// Handle of the pool of a device.
pub(crate) fn handle(device: usize) -> Handle {
    FIRST_HANDLE + device as u64
}

fn device_of(pool: Handle) -> usize {
    let device = pool.wrapping_sub(FIRST_HANDLE) as usize;
    if device < MOST_DEVICES { device } else { 0 }
}

impl CardPool {
    fn give_back_above(&mut self, device: usize, keep: u64) {
        let needed = self.used.next_multiple_of(POOL_GRAIN);
        let kept = needed.max(keep.next_multiple_of(POOL_GRAIN)).min(self.reserved);
        memory::give_back(device, self.reserved - kept);
        self.reserved = kept;
    }
}

/// Allocates from the pool of a device.
pub(crate) fn allocate(device: usize, size: u64) -> Result<u64, CudaError> {
    let mut pools = POOLS.lock();
    let pool = &mut pools[device];
    let address = memory::take_addresses(device, size)?;
    let size = size.next_multiple_of(USED_GRAIN);
    let needed = (pool.used + size).next_multiple_of(POOL_GRAIN);
    if needed > pool.reserved {
        if let Err(error) = memory::take(device, needed - pool.reserved) {
            memory::give_addresses_back(address)?;
            return Err(error);
        }
        pool.reserved = needed;
    }
    SIZES.lock().insert(address, size);
    pool.used += size;
    pool.used_high = pool.used_high.max(pool.used);
    pool.reserved_high = pool.reserved_high.max(pool.reserved);
    Ok(address)
}

/// Frees memory of [`allocate`].
pub(crate) fn free(address: u64) -> Result<(), CudaError> {
    let device = addresses::device_at(address).ok_or(CudaError::InvalidValue)?;
    let mut pools = POOLS.lock();
    memory::give_addresses_back(address)?;
    let size = SIZES.lock().remove(&address).unwrap_or_default();
    let pool = &mut pools[device];
    pool.used -= size.min(pool.used);
    let threshold = pool.threshold;
    if pool.reserved > threshold {
        pool.give_back_above(device, threshold);
    }
    Ok(())
}

/// Returns the memory that a pool holds beyond `keep` bytes back to its device.
pub(crate) fn trim(handle: Handle, keep: u64) {
    let device = device_of(handle);
    POOLS.lock()[device].give_back_above(device, keep);
}

/// Attribute of a pool, by CUDA's number.
pub(crate) fn attribute(handle: Handle, attribute: i32) -> u64 {
    let pool = POOLS.lock()[device_of(handle)];
    match attribute {
        1..=3 => 1, // reuse policies
        4 => pool.threshold,
        5 => pool.reserved,
        6 => pool.reserved_high,
        7 => pool.used,
        8 => pool.used_high,
        _ => 0,
    }
}

/// Sets an attribute of a pool: the release threshold, or a high mark back to the present.
pub(crate) fn set_attribute(handle: Handle, attribute: i32, value: u64) {
    let pool = &mut POOLS.lock()[device_of(handle)];
    match attribute {
        4 => pool.threshold = value.min(u64::MAX - POOL_GRAIN),
        6 => pool.reserved_high = pool.reserved,
        8 => pool.used_high = pool.used,
        _ => {}
    }
}
