//! Counts of what happened in the run: facts, and calls that were only answered.
//!
//! The counters are in a file that all processes of a run map, so that they survive the killing of a process. `ptmem
//! simulate` creates the file and reads it at the end: first a counter for each [`CountedFact`], then one for each of
//! [`NAMES`].

use alloc::ffi::CString;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};

use crate::cuda_error::CudaError;
pub(crate) use crate::fact::CountedFact;
use crate::names::{KIND, NAMES};
use crate::python;
use crate::settings::{Unsupported, settings};
use crate::sys::lock::Lazy;
use crate::sys::{self, memory, message};

static COUNTERS: Lazy<&'static [AtomicU64]> = Lazy::new(open);

fn open() -> &'static [AtomicU64] {
    let count = CountedFact::COUNT + NAMES.len();
    let path = CString::new(settings().ledger).unwrap_or_default();
    let shared = if path.is_empty() { None } else { memory::map_counters(&path, count) };
    shared.unwrap_or_else(|| Vec::leak((0..count).map(|_| AtomicU64::new(0)).collect()))
}

/// Opens the counters when the process starts, so that each process is counted.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = start;

extern "C" fn start() {
    count(CountedFact::Processes);
    sys::end_with(settings().parent);
    python::keep_hook_first();
}

/// Counts a fact once.
pub(crate) fn count(fact: CountedFact) {
    COUNTERS.get()[fact as usize].fetch_add(1, Ordering::Relaxed);
}

/// Raises the highest use of memory.
pub(crate) fn count_use(bytes: u64) {
    COUNTERS.get()[CountedFact::HighestUse as usize].fetch_max(bytes, Ordering::Relaxed);
}

/// Way to answer a function that only has a name here.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnswerKind {
    /// It computes or sets something: success is the whole answer.
    Done,
    /// It makes a handle, which its first argument is a place for.
    Makes,
    /// A result was requested that is not known here.
    Asks,
    /// It shares memory or divides a device: it returns "not supported" to the program.
    Refuses,
}

/// Answers a call of a function that only has a name here, given by its index in [`NAMES`]; `first` is its first
/// argument.
pub(crate) fn answer(index: usize, first: crate::ffi::Out<u64>) -> usize {
    let calls = COUNTERS.get()[CountedFact::COUNT + index].fetch_add(1, Ordering::Relaxed);
    match KIND[index] {
        AnswerKind::Done => 0,
        AnswerKind::Makes => {
            first.set(crate::handles::new_handle());
            0
        }
        AnswerKind::Refuses => CudaError::NotSupported as usize,
        AnswerKind::Asks => refuse_or_allow(NAMES[index], calls == 0),
    }
}

fn refuse_or_allow(name: &'static str, first: bool) -> usize {
    match settings().unsupported {
        Unsupported::Allow => 0,
        Unsupported::Warn => {
            if first {
                message::print(format_args!(
                    "{name} is not simulated: the program goes on with whatever it finds in the result"
                ));
            }
            0
        }
        Unsupported::Error => {
            message::print(format_args!("{name} is not simulated: it returns an error (--unsupported error)"));
            1
        }
    }
}
