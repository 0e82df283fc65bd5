//! Launches of kernels, and the values that they change.
//!
//! Device code does not run. A few of PyTorch's kernels are so simple that their names and arguments say what they
//! write: fills, ranges, arithmetic, comparisons and copies of whole numbers, their reductions and sums, `nonzero`,
//! and copies to and from other places. Sizes and positions that a program keeps on the device are made of these. They
//! are computed here where all that they read is known. Of all other kernels it is known to which memory they have
//! addresses: what lies there may have changed.

mod arguments;
mod cat;
mod copies;
mod elementwise;
mod extremum;
mod function;
mod index;
mod nonzero;
mod number;
mod offsets;
mod operator;
mod pattern;
mod range;
mod reduce_op;
mod reduction;
mod repeat;
mod scan;
mod tensor_info;
#[cfg(test)]
mod tests;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ffi::CStr;

use arguments::Arguments;

use crate::code::{self, Parameter, Signature};
use crate::device::values::{self, Computed, Trust};
use crate::device::{addresses, blocks};
use crate::ffi::{Handle, In, Opaque};
use crate::streams;
use crate::sys::lock::Mutex;

/// Most bytes that a kernel is computed for: as many as are kept of a copy.
const MOST_COMPUTED: usize = values::LARGEST_KEPT as usize;

/// The same where each element is noted for itself.
const MOST_SCATTERED: usize = 1 << 16;

/// Most elements that are computed of values which are not set: positions and lengths, not tensors of data.
const MOST_UNSET: usize = 1 << 10;

/// Facts about a kernel that is launched.
struct Kernel {
    parameters: Box<[Parameter]>,
    rule: Option<Rule>,
}

/// Kinds of kernels that are computed.
enum Rule {
    Cat(cat::Cat),
    Elementwise(elementwise::Elementwise),
    Extremum(extremum::Extremum),
    Index(index::Index),
    Nonzero(nonzero::Nonzero),
    Range(range::Range),
    Reduction(reduction::Reduction),
    Repeat(repeat::Repeat),
    Scan(scan::Scan),
}

impl Rule {
    fn of(name: &CStr) -> Option<Self> {
        let name = name.to_str().ok()?;
        elementwise::Elementwise::named(name)
            .map(Self::Elementwise)
            .or_else(|| range::Range::named(name).map(Self::Range))
            .or_else(|| nonzero::Nonzero::named(name).map(Self::Nonzero))
            .or_else(|| reduction::Reduction::named(name).map(Self::Reduction))
            .or_else(|| extremum::Extremum::named(name).map(Self::Extremum))
            .or_else(|| cat::Cat::named(name).map(Self::Cat))
            .or_else(|| scan::Scan::named(name).map(Self::Scan))
            .or_else(|| index::Index::named(name).map(Self::Index))
            .or_else(|| repeat::Repeat::named(name).map(Self::Repeat))
    }

    /// The memory that a launch changes. None where that is not known.
    fn effects(&self, arguments: &Arguments<'_>) -> Option<Vec<Effect>> {
        match self {
            Self::Cat(rule) => rule.effects(arguments),
            Self::Elementwise(rule) => rule.effects(arguments),
            Self::Extremum(rule) => rule.effects(arguments),
            Self::Index(rule) => rule.effects(arguments),
            Self::Nonzero(rule) => rule.effects(arguments),
            Self::Range(rule) => rule.effects(arguments).map(|effect| alloc::vec![effect]),
            Self::Reduction(rule) => rule.effects(arguments),
            Self::Repeat(rule) => rule.effects(arguments),
            Self::Scan(rule) => rule.effects(arguments),
        }
    }
}

/// A piece of memory that a kernel writes.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Effect {
    /// These bytes.
    Set(u64, Computed),
    /// The same byte everywhere.
    Fill(u64, u8, u64),
    /// Bytes as they are known at the second address.
    Copy(u64, u64, u64),
    /// Values that may have been changed.
    Doubt(u64, u64),
    /// Values that are not known.
    Forget(u64, u64),
}

impl Effect {
    fn apply(&self) {
        match self {
            Self::Set(at, computed) => values::set_computed(*at, computed),
            Self::Fill(at, byte, size) => values::fill(*at, *byte, *size),
            Self::Copy(to, from, size) => values::copy(*to, *from, *size),
            Self::Doubt(at, size) => values::doubt(*at, *size),
            Self::Forget(at, size) => values::forget(*at, *size),
        }
    }
}

/// Kernels by the function of the host that launches them. None stands for those whose code is not known.
static KERNELS: Mutex<BTreeMap<usize, Option<Arc<Kernel>>>> = Mutex::new(BTreeMap::new());
/// Addresses that kernels in graphs have: each replay may write there.
static IN_GRAPHS: Mutex<BTreeSet<u64>> = Mutex::new(BTreeSet::new());

fn kernel(function: Opaque) -> Option<Arc<Kernel>> {
    let mut kernels = KERNELS.lock();
    let known = kernels.entry(function.addr()).or_insert_with(|| {
        let Signature { name, parameters } = code::signature(function)?;
        Some(Arc::new(Kernel { parameters, rule: Rule::of(name) }))
    });
    known.clone()
}

/// Notes a launch of the kernel behind a function of the host.
pub(crate) fn launched(function: Opaque, blocks: Option<[u32; 3]>, arguments: In<u64>, stream: Handle) {
    if let Some(kernel) = kernel(function)
        && let Some(arguments) = Arguments::new(&kernel.parameters, arguments, blocks)
    {
        run(&arguments, kernel.rule.as_ref(), stream);
    }
}

/// Notes a launch of a kernel of which only the parameters are known.
pub(crate) fn launched_unknown(parameters: &[Parameter], arguments: In<u64>, stream: Handle) {
    if let Some(arguments) = Arguments::new(parameters, arguments, None) {
        run(&arguments, None, stream);
    }
}

fn run(arguments: &Arguments<'_>, rule: Option<&Rule>, stream: Handle) {
    let captured = matches!(streams::capture(stream), Ok(Some(_)));
    let effects = if captured { None } else { rule.and_then(|rule| rule.effects(arguments)) };
    if let Some(effects) = effects {
        effects.iter().for_each(Effect::apply);
        return;
    }
    for address in arguments.words().filter(|&word| addresses::is_device(word)) {
        doubt(address);
        if captured {
            IN_GRAPHS.lock().insert(address);
        }
    }
}

/// Notes that a graph was launched: its kernels run again.
pub(crate) fn replayed() {
    IN_GRAPHS.lock().iter().for_each(|&address| doubt(address));
}

/// Notes that a library wrote to memory of a device, or of the host.
pub(crate) fn wrote(address: u64) {
    if addresses::is_device(address) {
        doubt(address);
    }
}

/// Notes that a library wrote there, or to where an array there points to.
pub(crate) fn wrote_through(address: u64) {
    let Some((start, size)) = blocks::holding(address).filter(|_| addresses::is_device(address)) else { return };
    let array = ((start + size - address) as usize).min(MOST_COMPUTED);
    let words = values::read_all(address, array).unwrap_or_default().bytes;
    words.chunks_exact(8).filter_map(|word| arguments::long(word, 0)).for_each(wrote);
    doubt(address);
}

fn doubt(address: u64) {
    if let Some((at, size)) = blocks::holding(address) {
        values::doubt(at, size);
    }
}
