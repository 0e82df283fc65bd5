//! Handles: numbers that stand for streams, events, descriptors. Each is given out once, so no two objects share one.

use alloc::collections::BTreeMap;
use core::sync::atomic::{AtomicU64, Ordering};

use crate::ffi::Handle;
use crate::sys::lock::Mutex;

/// Handles look like pointers, but no address is mapped there.
const FIRST: u64 = 0x0800_0000_0000;
const STEP: u64 = 0x40;

static NEXT: AtomicU64 = AtomicU64::new(FIRST);

/// A number that was never given out.
pub(crate) fn new_handle() -> Handle {
    NEXT.fetch_add(STEP, Ordering::Relaxed)
}

/// Objects of one kind by their handle.
pub(crate) struct Registry<T>(Mutex<BTreeMap<Handle, T>>);

impl<T> Registry<T> {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(BTreeMap::new()))
    }

    /// Keeps an object and gives its handle.
    pub(crate) fn insert(&self, object: T) -> Handle {
        let handle = new_handle();
        self.0.lock().insert(handle, object);
        handle
    }

    /// Changes or reads the object with a handle. `None` if the object does not exist.
    pub(crate) fn with<R>(&self, handle: Handle, change: impl FnOnce(&mut T) -> R) -> Option<R> {
        self.0.lock().get_mut(&handle).map(change)
    }

    /// Forgets the object with a handle.
    pub(crate) fn remove(&self, handle: Handle) -> Option<T> {
        self.0.lock().remove(&handle)
    }
}

impl<T: Clone> Registry<T> {
    /// A copy of the object with a handle.
    pub(crate) fn get(&self, handle: Handle) -> Option<T> {
        self.with(handle, |object| object.clone())
    }
}
