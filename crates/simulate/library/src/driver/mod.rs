//! The CUDA driver, `libcuda`.

mod context;
mod device;
mod memory;
mod module;
mod stream;
mod virtual_memory;
