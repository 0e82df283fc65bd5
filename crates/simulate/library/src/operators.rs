//! Operators of PyTorch whose results the hook in the child's Python computes on the host.
//!
//! The hook is below autograd and above the kernels: it asks here for the known values of the operands, lets the
//! operator run for its allocations, and writes the values of the results. In between, launches change no values, and
//! sizes that the operator reads from the device are those that the hook has computed.

use core::ffi::{c_int, c_void};
use core::ptr;

use crate::device::values::{self, ValueTrust};
use crate::device::{blocks, thread};
use crate::ffi::Out;
use crate::ledger::{self, CountedFact};
use crate::sys::memory;

/// An object of Python.
type Object = *mut c_void;
/// Functions of Python's interface for C, which the hook hands over.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct PythonInterface {
    call: unsafe extern "C" fn(Object, Object, Object) -> Object,
    call_with: unsafe extern "C" fn(Object, ...) -> Object,
    item: unsafe extern "C" fn(Object, isize) -> Object,
    release: unsafe extern "C" fn(Object),
    fetch: unsafe extern "C" fn(*mut Object, *mut Object, *mut Object),
    restore: unsafe extern "C" fn(Object, Object, Object),
    none: Object,
}

static PYTHON: crate::sys::lock::Mutex<Option<PythonInterface>> = crate::sys::lock::Mutex::new(None);

// SAFETY: the functions may be called by any thread that holds Python's lock, and None lives as long as the process.
unsafe impl Send for PythonInterface {}

#[unsafe(no_mangle)]
pub extern "C" fn ptmem_simulate_python(python: crate::ffi::In<PythonInterface>) {
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
unsafe fn finish(python: &PythonInterface, after: Object, result: Object) {
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

/// Certainty of the values of a range: the number of a [`ValueTrust`], also where a part was never set.
#[unsafe(no_mangle)]
pub extern "C" fn ptmem_simulate_trust(at: u64, size: u64) -> c_int {
    values::trust_if_set(at, size).unwrap_or(ValueTrust::Absent) as c_int
}

/// Makes the memory of a range readable; 0 where that is beyond the limit.
#[unsafe(no_mangle)]
pub extern "C" fn ptmem_simulate_view(at: u64, size: u64) -> c_int {
    values::view(at, size).into()
}

/// Has rows of a range hold values of one certainty, which the caller writes there; 0 where that is beyond the limit.
#[unsafe(no_mangle)]
pub extern "C" fn ptmem_simulate_hold(at: u64, size: u64, pitch: u64, rows: u64, trust: c_int) -> c_int {
    let trust = ValueTrust::of(trust as u8);
    let mut holds_all = true;
    for row in 0..rows {
        holds_all &= values::hold(at + row * pitch, size, trust);
    }
    holds_all.into()
}

/// The same for some elements of a range, which lie apart.
#[unsafe(no_mangle)]
pub extern "C" fn ptmem_simulate_cover(at: u64, size: u64, trust: c_int) -> c_int {
    values::cover(at, size, ValueTrust::of(trust as u8)).into()
}

/// Notes that the values of rows of a range are not kept.
#[unsafe(no_mangle)]
pub extern "C" fn ptmem_simulate_drop(at: u64, size: u64, pitch: u64, rows: u64, trust: c_int) {
    (0..rows).for_each(|row| values::drop_values(at + row * pitch, size, ValueTrust::of(trust as u8)));
}

/// Sets a range to an element of the host, over and over.
#[unsafe(no_mangle)]
pub extern "C" fn ptmem_simulate_repeat(at: u64, size: u64, from: u64, element: u64, trust: c_int) {
    values::repeat(at, memory::bytes(from, element as usize), size, ValueTrust::of(trust as u8));
}

/// Writes the element that a range was filled with to the host; its certainty, or -1 where it was not filled.
#[unsafe(no_mangle)]
pub extern "C" fn ptmem_simulate_uniform(at: u64, size: u64, element: u64, to: u64) -> c_int {
    let Some((bytes, trust)) = values::uniform(at, size, element) else { return -1 };
    memory::copy(to, bytes.as_ptr() as u64, bytes.len());
    trust as c_int
}

/// Begins an operator whose results the hook writes: launches of this thread change nothing, and what it reads from the
/// device that has no value reads as `answer`, if that is not negative; `place` is the one that supposed a size from which
/// that of what it allocates follows, or 0. Gives the earlier answer.
#[unsafe(no_mangle)]
pub extern "C" fn ptmem_simulate_begin(answer: i64, place: u32) -> i64 {
    thread(|state| {
        state.operators.set(state.operators.get() + 1);
        state.marks.set(if place > 0 { place } else { state.marks.get() });
        state.answer.replace(u64::try_from(answer).ok()).map_or(-1, |answer| answer as i64)
    })
}

/// Ends an operator; `answer` is the earlier answer.
#[unsafe(no_mangle)]
pub extern "C" fn ptmem_simulate_end(answer: i64) {
    thread(|state| {
        state.operators.set(state.operators.get().saturating_sub(1));
        state.marks.set(if state.operators.get() > 0 { state.marks.get() } else { 0 });
        state.answer.set(u64::try_from(answer).ok());
    });
}

/// Marks the block at an address: its size follows from a size that a place supposed. 0 removes the mark.
#[unsafe(no_mangle)]
pub extern "C" fn ptmem_simulate_mark(at: u64, place: u32) {
    blocks::mark(at, place);
}

/// The place with which a block is marked, or 0.
#[unsafe(no_mangle)]
pub extern "C" fn ptmem_simulate_marked(at: u64) -> u32 {
    blocks::mark_of(at)
}

/// Writes device, number of later allocations and place of marked allocations, as many as there is room for, and gives how
/// many there are.
#[unsafe(no_mangle)]
pub extern "C" fn ptmem_simulate_marks(to: Out<[u64; 3]>, room: usize) -> usize {
    let all = blocks::marks();
    all.iter().take(room).enumerate().for_each(|(index, mark)| to.at(index).set(*mark));
    all.len()
}

/// Counts a size, a condition or a whole number that followed from values which are not known.
#[unsafe(no_mangle)]
pub extern "C" fn ptmem_simulate_followed(kind: c_int) {
    match kind {
        0 => ledger::count(CountedFact::Sizes),
        1 => ledger::count(CountedFact::Conditions),
        _ => ledger::count(CountedFact::Numbers),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_their_own_certainty() {
        let at = 0x1114_0000_0000;
        assert_eq!(ptmem_simulate_hold(at, 2, 4, 3, ValueTrust::Known as c_int), 1);
        ptmem_simulate_drop(at + 4, 2, 4, 2, ValueTrust::Absent as c_int);
        let trusts = [(0, 2), (4, 2), (8, 1)].map(|(from, size)| ptmem_simulate_trust(at + from, size));
        assert_eq!(trusts, [0, 4, 4]);
    }

    #[test]
    fn what_an_operator_reads_has_the_answer_until_it_ends() {
        let at = 0x1114_1000_0000;
        let read = || {
            let mut number = 0_i64;
            crate::device::copy::copy(&raw mut number as u64, at, 8);
            number
        };
        let outer = ptmem_simulate_begin(7, 0);
        let inner = ptmem_simulate_begin(-1, 0);
        assert_eq!((outer, inner, read()), (-1, 7, 0));
        ptmem_simulate_end(inner);
        assert_eq!(read(), 7);
        ptmem_simulate_end(outer);
        assert_eq!(read(), 0);
        // Counts of parts add up to it.
        let outer = ptmem_simulate_begin(3 << 30, 0);
        let mut counts = [0_i32; 3];
        crate::device::copy::copy(counts.as_mut_ptr() as u64, at, 12);
        assert_eq!(counts, [i32::MAX, (1 << 30) + 1, 0]);
        ptmem_simulate_end(outer);
    }

    #[test]
    fn what_an_operator_on_a_supposed_size_allocates_is_marked() {
        let report = |at: u64, change| blocks::report_memory_usage(at as *const _, change, 0, 0, 63 << 8);
        let [first, second] = [0x1000_7000_0000, 0x1000_7000_1000];
        let outer = ptmem_simulate_begin(-1, 7);
        ptmem_simulate_end(ptmem_simulate_begin(-1, 0));
        report(first, 512);
        ptmem_simulate_end(outer);
        report(second, 512);
        assert_eq!([ptmem_simulate_marked(first), ptmem_simulate_marked(second)], [7, 0]);
        report(first, -512);
        assert_eq!(ptmem_simulate_marked(first), 0);
        let mut marks = [[0; 3]; 1];
        assert_eq!(ptmem_simulate_marks(Out::to(&mut marks), 1), 1);
        assert_eq!(marks, [[63, 1, 7]], "of a block that was given back, before another");
    }
}
