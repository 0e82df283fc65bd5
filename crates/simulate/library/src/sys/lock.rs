//! A lock around a value, and a value that is made on first use.

use alloc::boxed::Box;
use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};

use super::c;

/// Room for a `pthread_mutex_t`: 40 bytes on x86-64, 48 on aarch64. All zeros is an unlocked mutex.
#[repr(C, align(16))]
struct RawMutex(UnsafeCell<[u64; 8]>);

/// A value that one thread at a time can use.
pub(crate) struct Mutex<T> {
    raw: RawMutex,
    value: UnsafeCell<T>,
}

// SAFETY: the value is only reached through `lock`, by one thread at a time.
unsafe impl<T: Send> Sync for Mutex<T> {}

impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self { raw: RawMutex(UnsafeCell::new([0; 8])), value: UnsafeCell::new(value) }
    }

    /// Waits until no other thread uses the value. Not to be called again by the thread that holds it.
    pub(crate) fn lock(&self) -> Guard<'_, T> {
        // SAFETY: zeros are a valid mutex (PTHREAD_MUTEX_INITIALIZER), and it never moves while it is borrowed.
        unsafe { c::pthread_mutex_lock(self.raw.0.get().cast()) };
        Guard(self)
    }
}

/// The right to use the value of a [`Mutex`].
pub(crate) struct Guard<'a, T>(&'a Mutex<T>);

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the guard holds the lock.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard holds the lock, and is borrowed alone.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        // SAFETY: this thread locked it.
        unsafe { c::pthread_mutex_unlock(self.0.raw.0.get().cast()) };
    }
}

/// A value that is made on first use and kept for the life of the process.
pub(crate) struct Lazy<T: 'static>(Mutex<Option<&'static T>>, fn() -> T);

impl<T> Lazy<T> {
    pub(crate) const fn new(make: fn() -> T) -> Self {
        Self(Mutex::new(None), make)
    }

    pub(crate) fn get(&self) -> &'static T {
        let mut made = self.0.lock();
        made.get_or_insert_with(|| Box::leak(Box::new((self.1)())))
    }
}
