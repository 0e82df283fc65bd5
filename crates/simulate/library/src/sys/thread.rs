//! Values that each thread has of its own.

use alloc::boxed::Box;
use core::ffi::{c_uint, c_void};
use core::marker::PhantomData;

use super::c;
use super::lock::Lazy;

/// One `T` for each thread, made on first use and dropped when the thread ends.
pub(crate) struct PerThread<T: Default + 'static> {
    key: Lazy<c_uint>,
    kind: PhantomData<fn() -> T>,
}

impl<T: Default + 'static> PerThread<T> {
    pub(crate) const fn new() -> Self {
        Self { key: Lazy::new(make_key::<T>), kind: PhantomData }
    }

    /// Uses the value of this thread. `T` has cells where it changes.
    pub(crate) fn with<R>(&self, read: impl FnOnce(&T) -> R) -> R {
        let key = *self.key.get();
        // SAFETY: the key exists. The value stored under it is NULL or comes from the lines below, in this thread, and
        // lives until the thread ends.
        if let Some(value) = unsafe { c::pthread_getspecific(key).cast::<T>().as_ref() } {
            return read(value);
        }
        let made = Box::into_raw(Box::<T>::default());
        // SAFETY: the key exists. The thread's end drops the box.
        unsafe { c::pthread_setspecific(key, made.cast()) };
        // SAFETY: the box was just made and only the end of this thread drops it.
        read(unsafe { &*made })
    }
}

fn make_key<T>() -> c_uint {
    extern "C" fn drop_box<T>(value: *mut c_void) {
        // SAFETY: the thread that ends stored a box of this type, and nothing uses it any more.
        drop(unsafe { Box::from_raw(value.cast::<T>()) });
    }
    let mut key = 0;
    // SAFETY: `key` is a place for a key.
    unsafe { c::pthread_key_create(&mut key, drop_box::<T>) };
    key
}
