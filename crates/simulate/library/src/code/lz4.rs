//! A reader of LZ4 blocks, in which NVIDIA's compiler packed device code before CUDA 12.8.

use alloc::vec::Vec;

/// Decompresses a block of at most `size` bytes. `None` if it is invalid.
pub(crate) fn unpack(bytes: &[u8], size: usize) -> Option<Vec<u8>> {
    let mut output = Vec::new();
    let mut rest = bytes.iter();
    while let Some(&token) = rest.next() {
        let literals = length(token >> 4, &mut rest)?;
        let (now, later) = rest.as_slice().split_at_checked(literals)?;
        output.extend_from_slice(now);
        rest = later.iter();
        // The last sequence has literals only.
        let Some(&low) = rest.next() else { return Some(output) };
        let offset = usize::from(low) | usize::from(*rest.next()?) << 8;
        super::repeat::repeat(&mut output, offset, length(token & 15, &mut rest)? + 4)?;
        if output.len() > size {
            return None;
        }
    }
    None
}

/// A length of half a byte. If that is 15, further bytes are added, up to the first that is not 255.
fn length(start: u8, rest: &mut core::slice::Iter<'_, u8>) -> Option<usize> {
    let mut length = usize::from(start);
    if start < 15 {
        return Some(length);
    }
    loop {
        let byte = *rest.next()?;
        length += usize::from(byte);
        if byte < 255 {
            return Some(length);
        }
    }
}
