//! Memory of the host: copies, fills, page-locked allocations, a file that several processes map.

use core::ffi::{CStr, c_void};
use core::sync::atomic::AtomicU64;
use core::{ptr, slice};

use super::c;

const PAGE: usize = 4096;

/// Allocates host memory as `cudaHostAlloc` does: whole pages.
pub(crate) fn allocate_pages(size: usize) -> Option<u64> {
    let mut memory: *mut c_void = ptr::null_mut();
    // SAFETY: `memory` is a place for one pointer, and a page is a power of two.
    let failed = unsafe { c::posix_memalign(&mut memory, PAGE, size.max(1)) } != 0;
    (!failed).then_some(memory as u64)
}

/// Frees memory of [`allocate_pages`].
pub(crate) fn free_pages(address: u64) {
    // SAFETY: callers pass an address that they took out of their table of such allocations, so once.
    unsafe { c::free(address as *mut c_void) };
}

/// Copies between two places in the host's memory that may overlap.
pub(crate) fn copy(to: u64, from: u64, size: usize) {
    // SAFETY: the program asked CUDA for this copy and both ends are the host's, so they are valid for `size`
    // bytes by the contract of cudaMemcpy.
    unsafe { ptr::copy(from as *const u8, to as *mut u8, size) };
}

/// Sets bytes in the host's memory.
pub(crate) fn fill(to: u64, byte: u8, size: usize) {
    // SAFETY: as in `copy`.
    unsafe { ptr::write_bytes(to as *mut u8, byte, size) };
}

/// Sets bytes in the host's memory to a few, over and over, beginning with the one at an offset.
pub(crate) fn repeat(to: u64, bytes: &[u8], offset: usize, size: usize) {
    if let [byte] = bytes {
        return fill(to, *byte, size);
    }
    let mut done = 0;
    for part in [&bytes[offset..], &bytes[..offset]] {
        let length = part.len().min(size - done);
        copy(to + done as u64, part.as_ptr() as u64, length);
        done += length;
    }
    while done < size {
        let length = done.min(size - done);
        copy(to + done as u64, to, length);
        done += length;
    }
}

/// Bytes of the host that a program handed to a call of CUDA; they are not kept beyond that call. None of them where the
/// size is beyond all memory.
pub(crate) fn bytes<'a>(from: u64, size: usize) -> &'a [u8] {
    if from == 0 || size == 0 || isize::try_from(size).is_err() {
        return &[];
    }
    // SAFETY: as in `copy`; the program does not change them while the call runs.
    unsafe { slice::from_raw_parts(from as *const u8, size) }
}

/// Maps memory at an address, which takes none of the host's until it is written. False if the host has none there.
pub(crate) fn map(at: u64, size: usize) -> bool {
    let address = at as *mut c_void;
    // SAFETY: a mapping that replaces none changes no memory in use.
    let mapped = unsafe { c::mmap(address, size, c::PROT_READ | c::PROT_WRITE, c::MAP_LAZILY, -1, 0) };
    if mapped != address && mapped as isize != -1 {
        // SAFETY: an old kernel chose the address of this mapping, which nobody knows.
        unsafe { c::munmap(mapped, size) };
    }
    mapped == address
}

/// Gives the whole pages of a range of [`map`] back to the host: they read as zeros.
pub(crate) fn give_back(at: u64, size: usize) {
    let first = at.next_multiple_of(PAGE as u64);
    let end = (at + size as u64) / PAGE as u64 * PAGE as u64;
    if first < end {
        // SAFETY: the caller discards what is there.
        unsafe { c::madvise(first as *mut c_void, (end - first) as usize, c::MADV_DONTNEED) };
    }
}

/// Maps a file of counters that several processes share. `None` on failure.
pub(crate) fn map_counters(path: &CStr, count: usize) -> Option<&'static [AtomicU64]> {
    // SAFETY: the path ends in NUL.
    let file = unsafe { c::open(path.as_ptr(), c::O_RDWR | c::O_CLOEXEC) };
    if file < 0 {
        return None;
    }
    let size = count * size_of::<AtomicU64>();
    // SAFETY: a new mapping anywhere changes no memory in use.
    let at = unsafe { c::mmap(ptr::null_mut(), size, c::PROT_READ | c::PROT_WRITE, c::MAP_SHARED, file, 0) };
    // SAFETY: the descriptor was just opened; the mapping stays without it.
    unsafe { c::close(file) };
    if at as isize == -1 {
        return None;
    }
    // SAFETY: the mapping is as long, aligned to a page, never unmapped, and only used through atomics. ptmem made the
    // file of this size.
    Some(unsafe { slice::from_raw_parts(at.cast(), count) })
}
