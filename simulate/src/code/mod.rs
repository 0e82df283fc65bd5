//! Device code that a program brings along: nothing of it runs, but its tables say what each kernel takes of a processor.
//!
//! PyTorch asks how many blocks fit on a processor to size the scratch memory of `nonzero`, of masks as indices and of sorts.

mod cubin;
mod fat_binary;
mod lz4;
pub(crate) mod occupancy;
#[cfg(test)]
mod tests;
mod zstd;

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ffi::CStr;

use crate::ffi::{In, Opaque};
use crate::settings::settings;
use crate::sys::lock::Mutex;

/// Registers of a kernel whose code is not known.
const USUAL_REGISTERS: i32 = 32;

/// Resources that the compiler gave a kernel.
#[derive(Clone, Copy)]
pub(crate) struct Resources {
    /// Registers of each thread.
    pub(crate) registers: i32,
    /// Shared memory of each block, in bytes, without what it asks for at launch.
    pub(crate) shared: i32,
    /// Compute capability that the code is for.
    pub(crate) capability: i32,
}

/// A kernel that a program registered.
struct Kernel {
    /// Address of the function of the host that launches it.
    function: usize,
    name: &'static CStr,
    /// Address of the structure that stands for the code it is part of.
    code: u64,
}

#[derive(Default)]
struct Kernels {
    registered: Vec<Kernel>,
    /// Those that were looked up, by function.
    known: BTreeMap<usize, Resources>,
}

static KERNELS: Mutex<Kernels> = Mutex::new(Kernels { registered: Vec::new(), known: BTreeMap::new() });

/// Notes a kernel in the code of a program.
pub(crate) fn register(function: Opaque, name: &'static CStr, code: Opaque) {
    KERNELS.lock().registered.push(Kernel { function: function.addr(), name, code: code.addr() as u64 });
}

/// Resources of the kernel that a function of the host launches.
pub(crate) fn resources(function: Opaque) -> Resources {
    let mut kernels = KERNELS.lock();
    if let Some(&known) = kernels.known.get(&function.addr()) {
        return known;
    }
    // The last comes first: a library can have been loaded where another had been.
    let kernel = kernels.registered.iter().rev().find(|kernel| kernel.function == function.addr());
    let found = kernel.and_then(|kernel| fat_binary::resources(In::at_address(kernel.code), kernel.name));
    let usual = Resources { registers: USUAL_REGISTERS, shared: 0, capability: settings().capability };
    let resources = found.unwrap_or(usual);
    kernels.known.insert(function.addr(), resources);
    resources
}

/// Appends bytes from `distance` before the end on, which can be bytes that this appends.
fn repeat(output: &mut Vec<u8>, distance: usize, count: usize) -> Option<()> {
    let start = output.len().checked_sub(distance).filter(|_| distance > 0)?;
    for index in start..start + count {
        output.push(output[index]);
    }
    Some(())
}
