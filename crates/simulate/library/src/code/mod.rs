//! Device code that a program brings along: nothing of it runs, but its tables say what each kernel takes of a
//! processor.
//!
//! PyTorch asks how many blocks fit on a processor to size the scratch memory of `nonzero`, of masks as indices and of
//! sorts.

pub(crate) mod cubin;
pub(crate) mod fat_binary;
mod kernel;
pub(crate) mod lz4;
pub(crate) mod occupancy;
mod repeat;
#[cfg(test)]
mod tests;
pub(crate) mod zstd;

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ffi::CStr;

use crate::ffi::{In, Opaque};
use crate::settings::settings;
use crate::sys::lock::Mutex;
pub(crate) use kernel::{Parameter, Resources};

/// Registers of a kernel whose code is not known.
const USUAL_REGISTERS: i32 = 32;

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
    /// Parameters of the kernels in each piece of code of which one was launched.
    parameters: BTreeMap<u64, cubin::ParametersByName>,
}

static KERNELS: Mutex<Kernels> =
    Mutex::new(Kernels { registered: Vec::new(), known: BTreeMap::new(), parameters: BTreeMap::new() });

impl Kernels {
    /// The kernel that a function of the host launches. The last comes first: a library can have been loaded where
    /// another had been.
    fn find(&self, function: Opaque) -> Option<&Kernel> {
        self.registered.iter().rev().find(|kernel| kernel.function == function.addr())
    }
}

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
    let found =
        kernels.find(function).and_then(|kernel| fat_binary::resources(In::at_address(kernel.code), kernel.name));
    let usual = Resources { registers: USUAL_REGISTERS, shared: 0, capability: settings().capability };
    let resources = found.unwrap_or(usual);
    kernels.known.insert(function.addr(), resources);
    resources
}

/// Parameters of the kernel that a function of the host launches. `None` if its code is unknown.
pub(crate) fn parameters(function: Opaque) -> Option<Box<[Parameter]>> {
    let mut kernels = KERNELS.lock();
    let &Kernel { name, code, .. } = kernels.find(function)?;
    let in_code = kernels
        .parameters
        .entry(code)
        .or_insert_with(|| fat_binary::parameters(In::at_address(code)).unwrap_or_default());
    in_code.get(&cubin::hash(name)).cloned()
}

/// Parameters of the kernels in machine code that the driver was given, by a hash of their names.
pub(crate) struct Module(cubin::ParametersByName);

impl Module {
    /// Reads machine code at an address. `None` if it is invalid.
    pub(crate) fn at(address: u64) -> Option<Self> {
        cubin::at(address).and_then(cubin::parameters).map(Self)
    }

    /// Parameters of the kernel with a name.
    pub(crate) fn parameters(&self, name: &CStr) -> Option<Box<[Parameter]>> {
        self.0.get(&cubin::hash(name)).cloned()
    }
}
