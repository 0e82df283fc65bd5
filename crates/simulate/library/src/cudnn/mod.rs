//! cuDNN: one plan for every operation, with the workspace of the settings.

mod backend;
mod descriptor;
mod handle;
mod network;
mod recurrent;
mod workspace;

const SUCCESS: i32 = 0;
const BAD_PARAMETER: i32 = 2000;

/// Bytes of an element of a data type, by cuDNN's number.
fn element_size(kind: i32) -> u64 {
    match kind {
        1 => 8,     // double
        2 | 9 => 2, // half, bfloat16
        3 => 1,     // bytes
        _ => 4,
    }
}
