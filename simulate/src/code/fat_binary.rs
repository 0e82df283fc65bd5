//! Fat binaries: device code for several kinds of cards, as the compiler links it into a program.

use alloc::borrow::Cow;
use alloc::vec::Vec;
use core::ffi::CStr;

use super::{Resources, cubin, lz4, zstd};
use crate::ffi::In;
use crate::settings::settings;
use crate::sys::memory;

const MAGIC: u32 = 0xBA55_ED50;
/// Offset of the code in the structure that a program registers.
const CODE_IN_WRAPPER: usize = 8;
const HEADER: u64 = 16;
/// Machine code; the other kind is PTX, which the driver compiles.
const MACHINE_CODE: u16 = 2;
const PACKED_WITH_LZ4: u64 = 0x2000;
const PACKED_WITH_ZSTANDARD: u64 = 0x8000;
/// Code that runs on cards of exactly its compute capability.
const FOR_ONE_CAPABILITY: u64 = 0x10_0000;

/// Code for one kind of card.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    capability: i32,
    flags: u64,
    at: u64,
    size: usize,
    unpacked: usize,
}

impl Entry {
    fn is_for_one_capability(&self) -> bool {
        self.flags & FOR_ONE_CAPABILITY != 0
    }

    fn runs_on(&self, card: i32) -> bool {
        let same_generation = self.capability / 10 == card / 10 && self.capability <= card;
        same_generation && (!self.is_for_one_capability() || self.capability == card)
    }

    fn unpacked(&self) -> Option<Cow<'static, [u8]>> {
        let code = memory::bytes(self.at, self.size);
        if self.flags & PACKED_WITH_ZSTANDARD != 0 {
            return zstd::unpack(code, self.unpacked).map(Cow::Owned);
        }
        if self.flags & PACKED_WITH_LZ4 != 0 {
            return lz4::unpack(code, self.unpacked).map(Cow::Owned);
        }
        Some(Cow::Borrowed(code))
    }

    fn resources(&self, name: &CStr) -> Option<Resources> {
        cubin::resources(&self.unpacked()?, name, self.capability)
    }
}

/// Machine code in a fat binary at an address.
fn entries(at: u64) -> Option<Vec<Entry>> {
    let header = In::<u8>::at_address(at);
    if header.field::<u32>(0)? != MAGIC {
        return None;
    }
    let end = at + HEADER + header.field::<u64>(8)?;
    let mut at = at + u64::from(header.field::<u16>(6)?);
    let mut found = Vec::new();
    while at < end {
        let entry = In::<u8>::at_address(at);
        let code = at + u64::from(entry.field::<u32>(4)?);
        let padded = entry.field::<u64>(8)?;
        let packed = u64::from(entry.field::<u32>(16)?);
        if entry.field::<u16>(0)? == MACHINE_CODE {
            found.push(Entry {
                capability: entry.field(28)?,
                flags: entry.field(40)?,
                at: code,
                size: if packed > 0 { packed } else { padded } as usize,
                unpacked: entry.field::<u64>(56)? as usize,
            });
        }
        let next = code.checked_add(padded)?;
        if next <= at {
            return None; // It is damaged: this would go on for ever.
        }
        at = next;
    }
    Some(found)
}

/// Resources of a kernel in the code that the driver would choose for the card: the newest and most specific that runs
/// on it. `None` where there is no such code.
pub(super) fn resources(wrapper: In<u8>, name: &CStr) -> Option<Resources> {
    let mut entries = entries_by_choice(wrapper)?;
    entries.retain(|entry| entry.runs_on(settings().capability));
    entries.iter().find_map(|entry| entry.resources(name))
}

/// Parameters of all kernels in the code for the card; where there is none, in other code: they are the same for all
/// cards.
pub(super) fn parameters(wrapper: In<u8>) -> Option<cubin::ParametersByName> {
    let entries = entries_by_choice(wrapper)?;
    let of_card = entries.iter().filter(|entry| entry.runs_on(settings().capability));
    of_card.chain(&entries).find_map(|entry| cubin::parameters(&entry.unpacked()?))
}

/// Machine code in a fat binary, the newest and most specific first.
pub(super) fn entries_by_choice(wrapper: In<u8>) -> Option<Vec<Entry>> {
    let mut entries = entries(wrapper.field(CODE_IN_WRAPPER)?)?;
    entries.sort_by_key(|entry| core::cmp::Reverse((entry.capability, entry.is_for_one_capability())));
    Some(entries)
}
