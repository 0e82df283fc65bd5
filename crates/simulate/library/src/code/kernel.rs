//! What the tables of device code say of a kernel.

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

/// Parameter of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parameter {
    /// Bytes that a launch passes.
    pub(crate) size: usize,
}
