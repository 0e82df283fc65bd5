//! A CUDA device that exists only as addresses.
//!
//! `ptmem simulate` preloads this library into a program: its functions have the names of NVIDIA's libraries and come
//! first. PyTorch then runs all its own code, the allocator included. Memory is taken and given back as a device of the
//! chosen size would do it, kernels do nothing, and small values that the host sends can be read back.
//!
//! * `sys`: the C library; `ffi`: types of C's arguments; `settings`, `ledger`: in from and out to `ptmem simulate`.
//! * `device`, `streams`, `handles`: the model; `fact`: the counters.
//! * `cudart`, `driver`, `cublas`, …: one module for each of NVIDIA's libraries, which answers from the model.
//! * `code`: what the program's own kernels take of a processor, and their parameters. `kernels`: what launches do to values.
//! * `operators`: what PyTorch's operators write, which the hook in the child's Python computes.
//! * `python`: the hook for Python stays first on its path, whatever the program does to `PYTHONPATH`.
//! * `exit_status`: how a recorded process ends, which its Python does not know when it writes the recording.
//! * `names`: functions for which success is the whole answer, or that have none; a script writes it.
//!
//! Functions are exported under the names of NVIDIA's functions, on purpose: that is the reason for each `no_mangle`.
//! Their arguments are those of NVIDIA's headers, as far as they are needed: C callers may pass more than a function
//! takes.

#![cfg_attr(not(test), no_std)]
#![allow(non_snake_case, reason = "the names are NVIDIA's")]
#![allow(clippy::missing_safety_doc)]

extern crate alloc;

mod calls;
mod card;
mod code;
mod cublas;
mod cuda_error;
mod cudart;
mod cudnn;
mod cufft;
mod cupti;
mod cusparselt;
mod device;
mod driver;
mod exit_status;
mod fact;
mod ffi;
mod handles;
mod kernels;
mod ledger;
mod linear_algebra;
mod little_endian;
mod names;
mod nccl;
mod nvml;
mod nvrtc;
mod operators;
mod products;
mod python;
mod settings;
mod streams;
mod sys;
mod version;
mod written;

/// An instruction that ends the process.
#[cfg(all(not(test), target_arch = "x86_64"))]
macro_rules! trap {
    () => {
        "ud2"
    };
}

#[cfg(all(not(test), target_arch = "aarch64"))]
macro_rules! trap {
    () => {
        "brk #1"
    };
}

// The compiled core library mentions the routines that unwind panics, which this library never does: a panic aborts.
// They are not exported, so that no other library finds them.
#[cfg(not(test))]
core::arch::global_asm!(
    ".globl rust_eh_personality",
    ".hidden rust_eh_personality",
    ".globl _Unwind_Resume",
    ".hidden _Unwind_Resume",
    "rust_eh_personality:",
    "_Unwind_Resume:",
    trap!(),
);
