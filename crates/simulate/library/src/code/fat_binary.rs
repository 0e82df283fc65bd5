//! Fat binaries: device code for several kinds of cards, as the compiler links it into a program.

use alloc::borrow::Cow;
use alloc::vec::Vec;
use core::ffi::CStr;

use super::kernel::Resources;
use super::{cubin, lz4, zstd};
use crate::ffi::In;
use crate::little_endian::number_at;
use crate::settings::settings;
use crate::sys::memory;

const MAGIC: u64 = 0xBA55_ED50;
/// Offset of the code in the structure that a program registers.
const CODE_IN_WRAPPER: usize = 8;
const HEADER: usize = 16;
/// Machine code; the other kind is PTX, which the driver compiles.
const MACHINE_CODE: u64 = 2;
const PACKED_WITH_LZ4: u64 = 0x2000;
const PACKED_WITH_ZSTANDARD: u64 = 0x8000;
/// Code that runs on cards of exactly its compute capability.
const FOR_ONE_CAPABILITY: u64 = 0x10_0000;
/// Most bytes that packed code may become: a few bytes can announce and give any number.
const LARGEST: usize = 1 << 30;

/// Code for one kind of card.
#[derive(Clone, Copy)]
pub(crate) struct CardCode<'a> {
    capability: i32,
    flags: u64,
    code: &'a [u8],
    unpacked: usize,
}

impl<'a> CardCode<'a> {
    fn is_for_one_capability(&self) -> bool {
        self.flags & FOR_ONE_CAPABILITY != 0
    }

    fn runs_on(&self, card: i32) -> bool {
        let same_generation = self.capability / 10 == card / 10 && self.capability <= card;
        same_generation && (!self.is_for_one_capability() || self.capability == card)
    }

    pub(crate) fn unpacked(&self) -> Option<Cow<'a, [u8]>> {
        let size = self.unpacked.min(LARGEST);
        if self.flags & PACKED_WITH_ZSTANDARD != 0 {
            return zstd::unpack(self.code, size).map(Cow::Owned);
        }
        if self.flags & PACKED_WITH_LZ4 != 0 {
            return lz4::unpack(self.code, size).map(Cow::Owned);
        }
        Some(Cow::Borrowed(self.code))
    }

    fn resources(&self, name: &CStr) -> Option<Resources> {
        cubin::resources(&self.unpacked()?, name, self.capability)
    }
}

/// The fat binary that a program registered, up to the end stated in its header. `None` if it is not a fat binary.
fn at(wrapper: In<u8>) -> Option<&'static [u8]> {
    let at = wrapper.field::<u64>(CODE_IN_WRAPPER)?;
    let header = memory::bytes(at, HEADER);
    if number_at::<4>(header, 0)? != MAGIC {
        return None;
    }
    Some(memory::bytes(at, HEADER.checked_add(number_at::<8>(header, 8)? as usize)?))
}

/// Machine code in a fat binary. `None` if an entry points outside of it.
fn entries(bytes: &[u8]) -> Option<Vec<CardCode<'_>>> {
    let mut rest = bytes.get(number_at::<2>(bytes, 6)? as usize..)?;
    let mut found = Vec::new();
    while !rest.is_empty() {
        let header = number_at::<4>(rest, 4)? as usize;
        let padded = number_at::<8>(rest, 8)? as usize;
        if number_at::<2>(rest, 0)? == MACHINE_CODE {
            let packed = number_at::<4>(rest, 16)? as usize;
            let size = if packed > 0 { packed } else { padded };
            found.push(CardCode {
                capability: number_at::<4>(rest, 28)? as i32,
                flags: number_at::<8>(rest, 40)?,
                code: rest.get(header..)?.get(..size)?,
                unpacked: number_at::<8>(rest, 56)? as usize,
            });
        }
        // An entry of no bytes would go on for ever.
        rest = rest.get(header.checked_add(padded).filter(|&passed| passed > 0)?..)?;
    }
    Some(found)
}

/// Resources of a kernel in the code that the driver would choose for the card: the newest and most specific that runs
/// on it. `None` where there is no such code.
pub(crate) fn resources(wrapper: In<u8>, name: &CStr) -> Option<Resources> {
    let mut entries = entries_by_choice(at(wrapper)?)?;
    entries.retain(|entry| entry.runs_on(settings().capability));
    entries.iter().find_map(|entry| entry.resources(name))
}

/// Parameters of all kernels in the code for the card; where there is none, in other code: they are the same for all
/// cards.
pub(crate) fn parameters(wrapper: In<u8>) -> Option<cubin::ParametersByName> {
    let entries = entries_by_choice(at(wrapper)?)?;
    let of_card = entries.iter().filter(|entry| entry.runs_on(settings().capability));
    of_card.chain(&entries).find_map(|entry| cubin::parameters(&entry.unpacked()?))
}

/// Machine code in the bytes of a fat binary, the newest and most specific first.
pub(crate) fn entries_by_choice(bytes: &[u8]) -> Option<Vec<CardCode<'_>>> {
    let mut entries = entries(bytes)?;
    entries.sort_by_key(|entry| core::cmp::Reverse((entry.capability, entry.is_for_one_capability())));
    Some(entries)
}
