//! Elements that a kernel copies.

use alloc::vec::Vec;

use super::{Effect, Trust};

/// Copies, with those that lie next to each other in one.
#[derive(Default)]
pub(super) struct Copies(Vec<Copy>);

struct Copy {
    to: u64,
    from: u64,
    size: u64,
}

impl Copies {
    pub(super) fn add(&mut self, to: u64, from: u64, size: u64) {
        match self.0.last_mut() {
            Some(last) if last.to + last.size == to && last.from + last.size == from => last.size += size,
            _ => self.0.push(Copy { to, from, size }),
        }
    }

    /// The effects of the copies; `trust` is how certain it is which elements are copied.
    pub(super) fn effects(self, trust: Trust) -> Vec<Effect> {
        let mut effects = Vec::new();
        for Copy { to, from, size } in self.0 {
            effects.push(Effect::Copy(to, from, size));
            if trust > Trust::Known {
                effects.push(Effect::Doubt(to, size));
            }
        }
        effects
    }
}
