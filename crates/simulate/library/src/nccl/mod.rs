//! NCCL: every rank is like this one.
//!
//! No other process is asked, so nothing waits, and one process can be rank 0 of 512. Small values, which are doubtful, are
//! moved as if all ranks had sent the same: an all-gather repeats mine, a reduction leaves mine.

mod group;

use core::sync::atomic::{AtomicI32, Ordering};

use crate::calls::calls;
use crate::device::{copy, memory, values};
use crate::ffi::{Handle, Opaque, Out, StaticText};
use crate::handles::{Registry, new_handle};
use crate::ledger::{self, CountedFact};
use crate::streams;

const SUCCESS: i32 = 0;
const UNHANDLED_CUDA_ERROR: i32 = 1;
const INVALID_ARGUMENT: i32 = 4;
const VERSION: i32 = 22_703;
/// Colour of a rank that takes no part in a split.
const NO_COLOR: i32 = -1;

/// Identity of a communicator: 128 bytes, passed by value.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct UniqueId([u8; 128]);

#[derive(Clone, Copy)]
struct Communicator {
    ranks: i32,
    rank: i32,
}

static COMMUNICATORS: Registry<Communicator> = Registry::new();

fn make(communicator: Out<Handle>, ranks: i32, rank: i32) -> i32 {
    if ranks < 1 || rank < 0 || rank >= ranks {
        return INVALID_ARGUMENT;
    }
    communicator.set(COMMUNICATORS.insert(Communicator { ranks, rank }));
    SUCCESS
}

/// Bytes of `count` elements of a type of NCCL's.
fn bytes(count: usize, kind: i32) -> u64 {
    let width = match kind {
        2 | 3 | 7 => 4,
        4 | 5 | 8 => 8,
        6 | 9 => 2,
        _ => 1,
    };
    (count as u64).saturating_mul(width)
}

/// Notes a collective operation and does the part of it that is known.
fn collective(communicator: Handle, stream: Handle, act: impl FnOnce(Communicator)) -> i32 {
    let Some(communicator) = COMMUNICATORS.get(communicator) else { return INVALID_ARGUMENT };
    ledger::count(CountedFact::Collectives);
    streams::note_work(stream);
    act(communicator);
    SUCCESS
}

fn copy_apart(to: u64, from: u64, size: u64) {
    if to != from {
        copy::copy(to, from, size);
    }
}

/// Writes what other ranks would send if they were like this one.
fn guess(to: u64, from: u64, size: u64) {
    copy_apart(to, from, size);
    values::doubt(to, size);
}

impl Communicator {
    /// Writes what follows from what all ranks send. It is known where there is only this one.
    fn receive(self, to: u64, from: u64, size: u64) {
        if self.ranks > 1 {
            guess(to, from, size);
        } else {
            copy_apart(to, from, size);
        }
    }

    /// Writes what one rank sends to the place of each rank.
    fn repeat(self, to: u64, from: u64, size: u64) {
        for rank in 0..self.ranks as u64 {
            self.receive(to + rank * size, from, size);
        }
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn ncclGetVersion(version: Out<i32>) -> i32 {
    version.set(VERSION);
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn ncclGetUniqueId(id: Out<UniqueId>) -> i32 {
    id.set(UniqueId([1; 128]));
    SUCCESS
}

calls! { i32;
    ncclCommGetUniqueId(_communicator: Handle, id: Out<UniqueId>) = ncclGetUniqueId(id);
    ncclCommInitRank(communicator: Out<Handle>, ranks: i32, _id: UniqueId, rank: i32) = make(communicator, ranks, rank);
}

#[unsafe(no_mangle)]
pub extern "C" fn ncclCommInitRankConfig(
    communicator: Out<Handle>,
    ranks: i32,
    _id: UniqueId,
    rank: i32,
    _configuration: Opaque,
) -> i32 {
    make(communicator, ranks, rank)
}

#[unsafe(no_mangle)]
pub extern "C" fn ncclCommInitRankScalable(communicator: Out<Handle>, ranks: i32, rank: i32) -> i32 {
    make(communicator, ranks, rank)
}

/// One communicator for each device of this process.
#[unsafe(no_mangle)]
pub extern "C" fn ncclCommInitAll(communicators: Out<Handle>, count: i32, _devices: Opaque) -> i32 {
    (0..count).map(|rank| make(communicators.at(rank as usize), count, rank)).max().unwrap_or(INVALID_ARGUMENT)
}

/// Ranks of the communicators that the next splits make. 0 where nobody said.
static RANKS_OF_SPLIT: AtomicI32 = AtomicI32::new(0);

/// Sets how many ranks share a color in the next splits. Not a function of NCCL: the hook in Python calls it.
#[unsafe(no_mangle)]
pub extern "C" fn ptmem_simulate_split_into(ranks: i32) {
    RANKS_OF_SPLIT.store(ranks, Ordering::Relaxed);
}

/// Only all ranks together know how many share a colour: if nobody said, the new communicator keeps the ranks of the
/// old one.
#[unsafe(no_mangle)]
pub extern "C" fn ncclCommSplit(
    parent: Handle,
    color: i32,
    key: i32,
    communicator: Out<Handle>,
    _configuration: Opaque,
) -> i32 {
    if color == NO_COLOR {
        communicator.set(0);
        return SUCCESS;
    }
    let Some(Communicator { ranks, .. }) = COMMUNICATORS.get(parent) else { return INVALID_ARGUMENT };
    let said = RANKS_OF_SPLIT.load(Ordering::Relaxed);
    let ranks = if said > 0 { said } else { ranks };
    make(communicator, ranks, key.clamp(0, ranks - 1))
}

#[unsafe(no_mangle)]
pub extern "C" fn ncclCommShrink(parent: Handle, _excluded: Opaque, count: i32, communicator: Out<Handle>) -> i32 {
    let Some(Communicator { ranks, rank }) = COMMUNICATORS.get(parent) else { return INVALID_ARGUMENT };
    make(communicator, ranks - count, rank.min(ranks - count - 1))
}

calls! { i32;
    ncclCommDestroy(communicator: Handle) = COMMUNICATORS.remove(communicator).map_or(INVALID_ARGUMENT, |_| SUCCESS);
    ncclCommAbort(communicator: Handle) = ncclCommDestroy(communicator);
}

#[unsafe(no_mangle)]
pub extern "C" fn ncclCommCount(communicator: Handle, count: Out<i32>) -> i32 {
    COMMUNICATORS.get(communicator).map_or(INVALID_ARGUMENT, |found| {
        count.set(found.ranks);
        SUCCESS
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn ncclCommUserRank(communicator: Handle, rank: Out<i32>) -> i32 {
    COMMUNICATORS.get(communicator).map_or(INVALID_ARGUMENT, |found| {
        rank.set(found.rank);
        SUCCESS
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn ncclCommCuDevice(_communicator: Handle, device: Out<i32>) -> i32 {
    device.set(crate::device::current() as i32);
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn ncclCommGetAsyncError(_communicator: Handle, error: Out<i32>) -> i32 {
    error.set(SUCCESS);
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn ncclGetErrorString(code: i32) -> StaticText {
    if code == SUCCESS { c"no error".into() } else { c"invalid argument (simulated NCCL)".into() }
}

#[unsafe(no_mangle)]
pub extern "C" fn ncclGetLastError(_communicator: Handle) -> StaticText {
    c"".into()
}

#[unsafe(no_mangle)]
pub extern "C" fn ncclMemAlloc(address: Out<u64>, size: u64) -> i32 {
    match memory::allocate(crate::device::current(), size) {
        Ok(found) => {
            address.set(found);
            SUCCESS
        }
        Err(_) => UNHANDLED_CUDA_ERROR,
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn ncclMemFree(address: u64) -> i32 {
    if memory::free(address).is_ok() { SUCCESS } else { INVALID_ARGUMENT }
}

#[unsafe(no_mangle)]
pub extern "C" fn ncclCommRegister(_communicator: Handle, _buffer: u64, _size: usize, handle: Out<Handle>) -> i32 {
    handle.set(new_handle());
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn ncclCommWindowRegister(
    _communicator: Handle,
    _buffer: u64,
    _size: usize,
    window: Out<Handle>,
) -> i32 {
    window.set(new_handle());
    SUCCESS
}

/// Numbers of the built-in operations end at 4.
#[unsafe(no_mangle)]
pub extern "C" fn ncclRedOpCreatePreMulSum(operation: Out<i32>) -> i32 {
    operation.set(5);
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn ncclAllReduce(
    from: u64,
    to: u64,
    count: usize,
    kind: i32,
    _operation: i32,
    communicator: Handle,
    stream: Handle,
) -> i32 {
    collective(communicator, stream, |mine| mine.receive(to, from, bytes(count, kind)))
}

#[unsafe(no_mangle)]
pub extern "C" fn ncclReduce(
    from: u64,
    to: u64,
    count: usize,
    kind: i32,
    _operation: i32,
    root: i32,
    communicator: Handle,
    stream: Handle,
) -> i32 {
    collective(communicator, stream, |mine| {
        if mine.rank == root {
            mine.receive(to, from, bytes(count, kind));
        }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn ncclBcast(
    _buffer: u64,
    _count: usize,
    _kind: i32,
    _root: i32,
    communicator: Handle,
    stream: Handle,
) -> i32 {
    collective(communicator, stream, |_| {})
}

#[unsafe(no_mangle)]
pub extern "C" fn ncclAllGather(
    from: u64,
    to: u64,
    count: usize,
    kind: i32,
    communicator: Handle,
    stream: Handle,
) -> i32 {
    collective(communicator, stream, |mine| mine.repeat(to, from, bytes(count, kind)))
}

#[unsafe(no_mangle)]
pub extern "C" fn ncclGather(
    from: u64,
    to: u64,
    count: usize,
    kind: i32,
    root: i32,
    communicator: Handle,
    stream: Handle,
) -> i32 {
    collective(communicator, stream, |mine| {
        if mine.rank == root {
            mine.repeat(to, from, bytes(count, kind));
        }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn ncclReduceScatter(
    from: u64,
    to: u64,
    count: usize,
    kind: i32,
    _operation: i32,
    communicator: Handle,
    stream: Handle,
) -> i32 {
    let size = bytes(count, kind);
    collective(communicator, stream, |mine| mine.receive(to, from + mine.rank as u64 * size, size))
}

/// Each rank sends me the part that I send to myself.
#[unsafe(no_mangle)]
pub extern "C" fn ncclAlltoAll(
    from: u64,
    to: u64,
    count: usize,
    kind: i32,
    communicator: Handle,
    stream: Handle,
) -> i32 {
    let size = bytes(count, kind);
    collective(communicator, stream, |mine| mine.repeat(to, from + mine.rank as u64 * size, size))
}
