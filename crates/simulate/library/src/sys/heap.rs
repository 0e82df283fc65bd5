//! The heap is that of the process: `posix_memalign` and `free`.

use core::alloc::{GlobalAlloc, Layout};
use core::ptr;

use super::c;

struct Heap;

// SAFETY: posix_memalign returns memory of the size and alignment asked for, that nobody else has, or an error;
// the alignment is a power of two and at least that of a pointer.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let mut memory = ptr::null_mut();
        let alignment = layout.align().max(size_of::<usize>());
        // SAFETY: `memory` is a place for one pointer.
        let failed = unsafe { c::posix_memalign(&mut memory, alignment, layout.size()) } != 0;
        if failed { ptr::null_mut() } else { memory.cast() }
    }

    unsafe fn dealloc(&self, memory: *mut u8, _layout: Layout) {
        // SAFETY: the memory comes from `alloc`.
        unsafe { c::free(memory.cast()) };
    }
}

#[global_allocator]
static HEAP: Heap = Heap;
