//! cuSPARSELt: matrices of which two of four values are kept.

use crate::ffi::{In, Opaque, Out};

const SUCCESS: i32 = 0;

/// Extents and type of a matrix, kept where the caller has room for its description.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Matrix {
    rows: u64,
    columns: u64,
    kind: i32,
}

impl Matrix {
    /// Bytes of the half that is kept, and of two bits for each of its values that say where it was.
    fn compressed(self) -> u64 {
        let values = self.rows.saturating_mul(self.columns);
        values / 2 * self.width() + values / 8
    }

    /// Bytes of a value, by the number of its type in CUDA.
    fn width(self) -> u64 {
        match self.kind {
            0 => 4,
            2 | 14 => 2, // half, bfloat16
            _ => 1,
        }
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn cusparseLtStructuredDescriptorInit(
    _handle: Opaque,
    description: Out<Matrix>,
    rows: u64,
    columns: u64,
    _leading: u64,
    _alignment: u32,
    kind: i32,
) -> i32 {
    description.set(Matrix { rows, columns, kind });
    SUCCESS
}

/// The work of compressing has no memory of its own.
#[unsafe(no_mangle)]
pub extern "C" fn cusparseLtSpMMACompressedSize2(
    _handle: Opaque,
    description: In<Matrix>,
    compressed: Out<u64>,
    buffer: Out<u64>,
) -> i32 {
    compressed.set(description.at(0).map_or(0, Matrix::compressed));
    buffer.set(0);
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn cusparseLtMatmulGetWorkspace(_handle: Opaque, _plan: Opaque, size: Out<u64>) -> i32 {
    size.set(0);
    SUCCESS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compressed_matrix_has_half_of_its_values_and_their_places() {
        assert_eq!(Matrix { rows: 128, columns: 64, kind: 2 }.compressed(), 128 * 64 * 9 / 8);
        assert_eq!(Matrix { rows: 128, columns: 64, kind: 3 }.compressed(), 128 * 64 * 10 / 16);
    }
}
