//! cuDNN.

mod handle;
mod workspace;

const SUCCESS: i32 = 0;
