//! Some bytes of a valid file that are changed.

/// Places and what is written there.
pub struct Damage<'d>(&'d [u8]);

impl<'d> Damage<'d> {
    /// The first byte says how many changes are described by the next three each. Most inputs begin with none.
    pub fn take(bytes: &'d [u8]) -> (Self, &'d [u8]) {
        let Some((&count, rest)) = bytes.split_first() else { return (Self(&[]), bytes) };
        let (changes, rest) = rest.split_at_checked(usize::from(count % 8) * 3).unwrap_or((&[], rest));
        (Self(changes), rest)
    }

    /// Changes the bytes.
    pub fn apply(&self, bytes: &mut [u8]) {
        for change in self.0.chunks_exact(3) {
            let length = bytes.len().max(1);
            let place = usize::from(u16::from_le_bytes([change[0], change[1]])) % length;
            if let Some(byte) = bytes.get_mut(place) {
                *byte ^= change[2];
            }
        }
    }
}
