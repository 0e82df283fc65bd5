//! Operators of PyTorch whose results the hook in the child's Python computes on the host.
//!
//! The hook is below autograd and above the kernels: it asks here for the known values of the operands, lets the
//! operator run for its allocations, and writes the values of the results. In between, launches change no values, and
//! sizes that the operator reads from the device are those that the hook has computed.

use core::ffi::{c_int, c_void};
use core::ptr;

use crate::device::thread;
use crate::device::values::{self, Trust};
use crate::ledger::{self, Fact};
use crate::sys::memory;

/// An object of Python.
type Object = *mut c_void;
/// A place where nothing was ever set, among the numbers of [`Trust`].
const ABSENT: u8 = 3;

/// Functions of Python's interface for C, which the hook hands over.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Python {
    call: unsafe extern "C" fn(Object, Object, Object) -> Object,
    call_with: unsafe extern "C" fn(Object, ...) -> Object,
    item: unsafe extern "C" fn(Object, isize) -> Object,
    release: unsafe extern "C" fn(Object),
    fetch: unsafe extern "C" fn(*mut Object, *mut Object, *mut Object),
    restore: unsafe extern "C" fn(Object, Object, Object),
    none: Object,
}

static PYTHON: crate::sys::lock::Mutex<Option<Python>> = crate::sys::lock::Mutex::new(None);

// SAFETY: the functions may be called by any thread that holds Python's lock, and None lives as long as the process.
unsafe impl Send for Python {}

#[unsafe(no_mangle)]
pub extern "C" fn ptmem_simulate_python(python: crate::ffi::In<Python>) {
    *PYTHON.lock() = python.at(0);
}

/// Runs an operator as a function of Python that leaves no frame, so that recorded stacks are those of the program.
/// `plan` is called with the arguments and gives the operator to call, what to call with its result (with nothing where
/// it failed) or None, and the arguments without names.
#[unsafe(no_mangle)]
pub extern "C" fn ptmem_simulate_operator(plan: Object, arguments: Object, named: Object) -> Object {
    let Some(python) = *PYTHON.lock() else { return ptr::null_mut() };
    // SAFETY: Python calls this with its lock held and valid objects, as it calls any function with named arguments, and
    // `plan` gives a tuple of three.
    unsafe {
        let planned = (python.call)(plan, arguments, named);
        if planned.is_null() {
            return planned;
        }
        let result = (python.call)((python.item)(planned, 0), (python.item)(planned, 2), named);
        let after = (python.item)(planned, 1);
        if after != python.none {
            finish(&python, after, result);
        }
        (python.release)(planned);
        result
    }
}

/// Calls `after` with a result, or with nothing where an error was raised, which stays.
unsafe fn finish(python: &Python, after: Object, result: Object) {
    let end: Object = ptr::null_mut();
    let [mut kind, mut value, mut trace] = [end; 3];
    // SAFETY: as in the caller; the list of arguments ends with NULL.
    unsafe {
        (python.fetch)(&mut kind, &mut value, &mut trace);
        let done = (python.call_with)(after, result, end);
        if !done.is_null() {
            (python.release)(done);
        }
        (python.restore)(kind, value, trace);
    }
}

fn trust_of(number: u8) -> Option<Trust> {
    [Trust::Known, Trust::Doubtful, Trust::Unset].get(usize::from(number)).copied()
}

/// Certainty of the values of a range: the number of a [`Trust`], or [`ABSENT`] where a part was never set.
#[unsafe(no_mangle)]
pub extern "C" fn ptmem_simulate_trust(at: u64, size: u64) -> c_int {
    values::trust_if_set(at, size).map_or(ABSENT, |trust| trust as u8).into()
}

/// Values of a range, and the certainty of each byte.
#[unsafe(no_mangle)]
pub extern "C" fn ptmem_simulate_read(at: u64, size: u64, to: u64, trusts: u64) {
    memory::fill(trusts, ABSENT, size as usize);
    values::read(to, at, size);
    for (offset, length, trust) in values::trusts(at, size) {
        memory::fill(trusts + offset, trust as u8, length as usize);
    }
}

/// Sets a range to values of one certainty.
#[unsafe(no_mangle)]
pub extern "C" fn ptmem_simulate_write(at: u64, size: u64, from: u64, trust: c_int) {
    let trust = u8::try_from(trust).ok().and_then(trust_of);
    match trust {
        Some(trust) => {
            values::set_computed(at, memory::bytes(from, size as usize), trust);
        }
        None => values::forget(at, size),
    }
}

/// Sets a range to values, each byte with its own certainty.
#[unsafe(no_mangle)]
pub extern "C" fn ptmem_simulate_write_each(at: u64, size: u64, from: u64, trusts: u64) {
    let trusts = memory::bytes(trusts, size as usize);
    let mut start = 0;
    for run in trusts.chunk_by(|one, next| one == next) {
        let length = run.len() as u64;
        ptmem_simulate_write(at + start, length, from + start, run[0].into());
        start += length;
    }
}

/// Sets a range to bytes of the host, over and over.
#[unsafe(no_mangle)]
pub extern "C" fn ptmem_simulate_repeat(at: u64, size: u64, from: u64, period: u64, trust: c_int) {
    if let Some(trust) = u8::try_from(trust).ok().and_then(trust_of) {
        values::repeat(at, memory::bytes(from, period as usize), size, trust);
    }
}

/// Writes the bytes that a range repeats to the host; their certainty, [`ABSENT`] where it repeats none of this number.
#[unsafe(no_mangle)]
pub extern "C" fn ptmem_simulate_period(at: u64, size: u64, period: u64, to: u64) -> c_int {
    let Some((bytes, trust)) = values::period(at, size, period) else { return ABSENT.into() };
    memory::copy(to, bytes.as_ptr() as u64, bytes.len());
    (trust as u8).into()
}

/// Notes that an operator may have changed a range.
#[unsafe(no_mangle)]
pub extern "C" fn ptmem_simulate_doubt(at: u64, size: u64) {
    values::doubt(at, size);
}

/// Begins an operator whose results the hook writes: launches of this thread change nothing, and what it reads from the
/// device that has no value reads as `answer`, if that is not negative. Gives the earlier answer.
#[unsafe(no_mangle)]
pub extern "C" fn ptmem_simulate_begin(answer: i64) -> i64 {
    thread(|state| {
        state.operators.set(state.operators.get() + 1);
        state.answer.replace(u64::try_from(answer).ok()).map_or(-1, |answer| answer as i64)
    })
}

/// Ends an operator; `answer` is the earlier answer.
#[unsafe(no_mangle)]
pub extern "C" fn ptmem_simulate_end(answer: i64) {
    thread(|state| {
        state.operators.set(state.operators.get().saturating_sub(1));
        state.answer.set(u64::try_from(answer).ok());
    });
}

/// Counts a size, a condition or a whole number that followed from values which are not known.
#[unsafe(no_mangle)]
pub extern "C" fn ptmem_simulate_followed(kind: c_int) {
    match kind {
        0 => ledger::count(Fact::Sizes),
        1 => ledger::count(Fact::Conditions),
        _ => ledger::count(Fact::Numbers),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_has_its_own_certainty() {
        let at = 0x1114_0000_0000;
        let sent = [1_u8, 2, 3, 4, 5, 6];
        let trusts = [0_u8, 0, ABSENT, 2, 2, 1];
        ptmem_simulate_write_each(at, 6, sent.as_ptr() as u64, trusts.as_ptr() as u64);
        let mut values = [9_u8; 7];
        let mut found = [9_u8; 7];
        ptmem_simulate_read(at, 7, values.as_mut_ptr() as u64, found.as_mut_ptr() as u64);
        assert_eq!(values, [1, 2, 0, 4, 5, 6, 0]);
        assert_eq!(found, [0, 0, ABSENT, 2, 2, 1, ABSENT]);
        let trust = |from, size| ptmem_simulate_trust(at + from, size);
        assert_eq!([trust(0, 2), trust(3, 3), trust(1, 3), trust(5, 1)], [0, 2, 3, 1]);
    }

    #[test]
    fn what_an_operator_reads_has_the_answer_until_it_ends() {
        let at = 0x1114_1000_0000;
        let read = || {
            let mut number = 0_i64;
            crate::device::copy::copy(&raw mut number as u64, at, 8);
            number
        };
        let outer = ptmem_simulate_begin(7);
        let inner = ptmem_simulate_begin(-1);
        assert_eq!((outer, inner, read()), (-1, 7, 0));
        ptmem_simulate_end(inner);
        assert_eq!(read(), 7);
        ptmem_simulate_end(outer);
        assert_eq!(read(), 0);
        // Counts of parts add up to it.
        let outer = ptmem_simulate_begin(3 << 30);
        let mut counts = [0_i32; 3];
        crate::device::copy::copy(counts.as_mut_ptr() as u64, at, 12);
        assert_eq!(counts, [i32::MAX, (1 << 30) + 1, 0]);
        ptmem_simulate_end(outer);
    }
}
