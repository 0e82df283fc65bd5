//! Types of what C passes: places to write results to, structures to read, text.
//!
//! They are used in the signatures of the exported functions, so that those need no unsafe code of their own.

use core::ffi::{CStr, c_char, c_void};
use core::ptr;

/// A place for a result: a pointer to a `T`, or NULL where the caller does not want it.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Out<T>(*mut T);

impl<T> Out<T> {
    /// Writes the result, if it is wanted.
    pub(crate) fn set(self, value: T) {
        if !self.0.is_null() {
            // SAFETY: only C makes such a value: the interface demands NULL or a place for a `T`. C may not align it.
            unsafe { self.0.write_unaligned(value) };
        }
    }

    pub(crate) fn is_null(&self) -> bool {
        self.0.is_null()
    }

    /// Place of the element with this index in an array of results.
    pub(crate) fn at(self, index: usize) -> Self {
        Self(self.0.wrapping_add(index))
    }

    /// Place of the field at an offset in bytes.
    pub(crate) fn field<F>(self, offset: usize) -> Out<F> {
        Out(self.0.wrapping_byte_add(offset).cast())
    }

    pub(crate) fn cast<F>(self) -> Out<F> {
        Out(self.0.cast())
    }
}

impl<T: Copy> Out<T> {
    /// The value in that place, for results that are also arguments.
    pub(crate) fn get(self) -> Option<T> {
        // SAFETY: as in `set`; the interface says that the caller has written it.
        (!self.0.is_null()).then(|| unsafe { self.0.read_unaligned() })
    }
}

#[cfg(test)]
impl<T> Out<T> {
    /// A structure that a caller passes, or an array.
    pub(crate) fn to(structure: &mut [T]) -> Self {
        Self(structure.as_mut_ptr())
    }
}

impl Out<u8> {
    /// Writes bytes one after the other.
    pub(crate) fn set_bytes(self, bytes: &[u8]) {
        for (index, &byte) in bytes.iter().enumerate() {
            self.at(index).set(byte);
        }
    }

    /// Sets `count` bytes to zero.
    pub(crate) fn clear(self, count: usize) {
        if !self.0.is_null() {
            // SAFETY: the interface demands room for a structure of this size.
            unsafe { ptr::write_bytes(self.0, 0, count) };
        }
    }

    /// Writes text that ends in NUL, cut to `room` bytes.
    pub(crate) fn set_text(self, text: &str, room: usize) {
        if room > 0 {
            let length = text.len().min(room - 1);
            self.set_bytes(&text.as_bytes()[..length]);
            self.at(length).set(0);
        }
    }
}

/// A structure or array to read: a pointer to `T`s, or NULL.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct In<T>(*const T);

impl<T> In<T> {
    /// A structure at an address that another structure of the program holds.
    pub(crate) fn at_address(address: u64) -> Self {
        Self(address as *const T)
    }
}

impl<T: Copy> In<T> {
    /// The element with this index, or `None` without an array.
    pub(crate) fn at(self, index: usize) -> Option<T> {
        // SAFETY: only C makes such a value: the interface demands NULL or as many elements as the callers read.
        (!self.0.is_null()).then(|| unsafe { self.0.add(index).read_unaligned() })
    }

    /// The field at an offset in bytes.
    pub(crate) fn field<F: Copy>(self, offset: usize) -> Option<F> {
        In(self.0.wrapping_byte_add(offset).cast::<F>()).at_unless(self.0.is_null())
    }

    fn at_unless(self, absent: bool) -> Option<T> {
        if absent { None } else { self.at(0) }
    }
}

/// Text of the caller.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Text(*const c_char);

impl Text {
    pub(crate) fn get(self) -> Option<&'static CStr> {
        // SAFETY: only C makes such a value: the interface demands NULL or text that ends in NUL. It is used within the
        // call.
        (!self.0.is_null()).then(|| unsafe { CStr::from_ptr(self.0) })
    }
}

/// Text of this library, which lives for ever.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct StaticText(*const c_char);

impl From<&'static CStr> for StaticText {
    fn from(text: &'static CStr) -> Self {
        Self(text.as_ptr())
    }
}

/// A pointer that is passed on but not followed.
pub type Opaque = *const c_void;

/// A handle that this library gave out, or one of the numbers that CUDA reserves (0, 1, 2 for streams).
pub type Handle = u64;
