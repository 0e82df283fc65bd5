//! Launches of kernels, and the values that they may change.
//!
//! Device code does not run. Results of PyTorch's operators are computed on the host (`operators`). For all other
//! kernels, the memory whose addresses they have is known: its contents may have changed.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;

use crate::code::{self, Parameter};
use crate::device::{addresses, blocks, thread, values};
use crate::ffi::{Handle, In, Opaque};
use crate::little_endian::number_at;
use crate::streams;
use crate::sys::lock::Mutex;
use crate::sys::memory;

/// Parameters of a kernel. None stands for those of code that is not known.
type Parameters = Option<Arc<Box<[Parameter]>>>;

/// Parameters of kernels by the function of the host that launches them.
static KERNELS: Mutex<BTreeMap<usize, Parameters>> = Mutex::new(BTreeMap::new());
/// Stands for all addresses, of which a kernel of unknown parameters may have any.
const ANYWHERE: u64 = 0;
/// Most bytes that are read of an array of addresses.
const LARGEST_ARRAY: u64 = 1 << 20;
/// Addresses that kernels in graphs have: each replay may write there.
static IN_GRAPHS: Mutex<BTreeSet<u64>> = Mutex::new(BTreeSet::new());

fn parameters(function: Opaque) -> Parameters {
    let mut kernels = KERNELS.lock();
    let known = kernels.entry(function.addr()).or_insert_with(|| code::parameters(function).map(Arc::new));
    known.clone()
}

/// Notes a launch of the kernel behind a function of the host.
pub(crate) fn launched(function: Opaque, arguments: In<u64>, stream: Handle) {
    if !is_computed(stream)
        && let Some(parameters) = parameters(function)
    {
        launched_with(&parameters, arguments, stream);
    }
}

/// True where the results of the operator that runs are computed: its kernels change nothing else. Those of a graph run
/// later.
fn is_computed(stream: Handle) -> bool {
    runs_operator() && !is_captured(stream)
}

/// True while an operator runs whose results are computed.
fn runs_operator() -> bool {
    thread(|state| state.operators.get()) > 0
}

fn is_captured(stream: Handle) -> bool {
    matches!(streams::capture(stream), Ok(Some(_)))
}

/// Notes a launch of a kernel of which only the parameters are known. Operators of PyTorch may also be written in Triton.
pub(crate) fn launched_with(parameters: &[Parameter], arguments: In<u64>, stream: Handle) {
    let captured = is_captured(stream);
    words(parameters, arguments).for_each(|word| may_write(word, captured));
}

/// Notes a launch of a kernel of which nothing is known.
pub(crate) fn launched_unknown(stream: Handle) {
    if is_captured(stream) {
        IN_GRAPHS.lock().insert(ANYWHERE);
    } else if !is_computed(stream) {
        doubt(ANYWHERE);
    }
}

/// Word of eight bytes in an argument.
fn long(bytes: &[u8], at: usize) -> Option<u64> {
    number_at::<8>(bytes, at)
}

/// All words of eight bytes in all arguments, each of which may be an address: addresses are multiples of eight.
fn words(parameters: &[Parameter], arguments: In<u64>) -> impl Iterator<Item = u64> {
    let all = parameters.iter().enumerate().filter_map(move |(place, parameter)| {
        let address = arguments.at(0).and_then(|_| arguments.at(place))?;
        Some(memory::bytes(address, parameter.size))
    });
    all.flat_map(|bytes| bytes.chunks_exact(8).filter_map(|bytes| long(bytes, 0)))
}

/// Notes that a graph was launched: its kernels run again.
pub(crate) fn replayed() {
    IN_GRAPHS.lock().iter().for_each(|&address| doubt(address));
}

/// Notes that a library may have written to memory of a device, or of the host. A library does not say which of its
/// arguments it only reads, such as the weights of a convolution.
pub(crate) fn wrote(address: u64) {
    may_write(address, streams::is_any_captured());
}

/// Notes work that may write to memory of a device: now, or whenever the graph that captures it is replayed.
fn may_write(address: u64, captured: bool) {
    if !addresses::is_device(address) || runs_operator() && !captured {
        return;
    }
    if captured {
        IN_GRAPHS.lock().insert(address);
    }
    doubt(address);
}

/// Notes that a library wrote there, or to where an array there points to.
pub(crate) fn wrote_through(address: u64) {
    let Some((start, size)) = blocks::holding(address).filter(|_| addresses::is_device(address)) else { return };
    let array = (start + size - address).min(LARGEST_ARRAY);
    let mut words = alloc::vec![0; array as usize];
    values::read(words.as_mut_ptr() as u64, address, array);
    words.chunks_exact(8).filter_map(|word| long(word, 0)).for_each(wrote);
    wrote(address);
}

fn doubt(address: u64) {
    if address == ANYWHERE {
        values::doubt(0, u64::MAX);
    } else if let Some((at, size)) = blocks::holding(address) {
        values::doubt(at, size);
    }
}
