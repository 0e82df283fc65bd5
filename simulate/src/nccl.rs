//! NCCL: every rank is like this one.
//!
//! No other process is asked, so nothing waits, and one process can be rank 0 of 512. Small values are moved as they would
//! be if all ranks had sent the same: an all-gather repeats mine, a reduction leaves mine.

use alloc::vec::Vec;
use core::cell::RefCell;

use crate::device::{copy, memory};
use crate::ffi::{Answer, Handle, Opaque, Out};
use crate::handles::{Registry, new_handle};
use crate::ledger::{self, Fact};
use crate::streams;
use crate::sys::thread::PerThread;

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

/// A send or a receive that waits for the end of its group.
#[derive(Clone, Copy)]
struct Transfer {
    address: u64,
    size: u64,
    peer: i32,
}

/// A broadcast that waits for the end of its group.
#[derive(Clone, Copy)]
struct Broadcast {
    from: u64,
    to: u64,
    size: u64,
    root: i32,
}

/// Operations of the group that this thread has open.
#[derive(Default)]
struct Group {
    depth: u32,
    rank: i32,
    sends: Vec<Transfer>,
    receives: Vec<Transfer>,
    broadcasts: Vec<Broadcast>,
}

impl Group {
    /// A send of this size to a peer.
    fn find_send(&self, peer: i32, size: u64) -> Option<&Transfer> {
        self.sends.iter().find(|send| send.peer == peer && send.size == size)
    }
}

static GROUP: PerThread<RefCell<Group>> = PerThread::new();

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
    ledger::count(Fact::Collectives);
    streams::note_work(stream);
    act(communicator);
    SUCCESS
}

fn move_bytes(to: u64, from: u64, size: u64) {
    if to != from {
        copy::copy(to, from, size);
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

#[unsafe(no_mangle)]
pub extern "C" fn ncclCommGetUniqueId(_communicator: Handle, id: Out<UniqueId>) -> i32 {
    ncclGetUniqueId(id)
}

#[unsafe(no_mangle)]
pub extern "C" fn ncclCommInitRank(communicator: Out<Handle>, ranks: i32, _id: UniqueId, rank: i32) -> i32 {
    make(communicator, ranks, rank)
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

/// Only all ranks together know how many share a colour: the new communicator keeps the ranks of the old one.
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
    make(communicator, ranks, key.clamp(0, ranks - 1))
}

#[unsafe(no_mangle)]
pub extern "C" fn ncclCommShrink(parent: Handle, _excluded: Opaque, count: i32, communicator: Out<Handle>) -> i32 {
    let Some(Communicator { ranks, rank }) = COMMUNICATORS.get(parent) else { return INVALID_ARGUMENT };
    make(communicator, ranks - count, rank.min(ranks - count - 1))
}

#[unsafe(no_mangle)]
pub extern "C" fn ncclCommDestroy(communicator: Handle) -> i32 {
    COMMUNICATORS.remove(communicator).map_or(INVALID_ARGUMENT, |_| SUCCESS)
}

#[unsafe(no_mangle)]
pub extern "C" fn ncclCommAbort(communicator: Handle) -> i32 {
    ncclCommDestroy(communicator)
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
pub extern "C" fn ncclGetErrorString(code: i32) -> Answer {
    if code == SUCCESS { c"no error".into() } else { c"invalid argument (simulated NCCL)".into() }
}

#[unsafe(no_mangle)]
pub extern "C" fn ncclGetLastError(_communicator: Handle) -> Answer {
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
    collective(communicator, stream, |_| move_bytes(to, from, bytes(count, kind)))
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
            move_bytes(to, from, bytes(count, kind));
        }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn ncclBroadcast(
    from: u64,
    to: u64,
    count: usize,
    kind: i32,
    root: i32,
    communicator: Handle,
    stream: Handle,
) -> i32 {
    collective(communicator, stream, |mine| {
        let broadcast = Broadcast { from, to, size: bytes(count, kind), root };
        in_group(mine.rank, |group| group.broadcasts.push(broadcast));
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

/// Writes what one rank sends to the place of each rank.
fn repeat(to: u64, from: u64, size: u64, ranks: i32) {
    for rank in 0..ranks as u64 {
        move_bytes(to + rank * size, from, size);
    }
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
    collective(communicator, stream, |mine| repeat(to, from, bytes(count, kind), mine.ranks))
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
            repeat(to, from, bytes(count, kind), mine.ranks);
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
    collective(communicator, stream, |mine| move_bytes(to, from + mine.rank as u64 * size, size))
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
    collective(communicator, stream, |mine| repeat(to, from + mine.rank as u64 * size, size, mine.ranks))
}

#[unsafe(no_mangle)]
pub extern "C" fn ncclSend(from: u64, count: usize, kind: i32, peer: i32, communicator: Handle, stream: Handle) -> i32 {
    collective(communicator, stream, |mine| {
        let send = Transfer { address: from, size: bytes(count, kind), peer };
        in_group(mine.rank, |group| group.sends.push(send));
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn ncclRecv(to: u64, count: usize, kind: i32, peer: i32, communicator: Handle, stream: Handle) -> i32 {
    collective(communicator, stream, |mine| {
        let receive = Transfer { address: to, size: bytes(count, kind), peer };
        in_group(mine.rank, |group| group.receives.push(receive));
    })
}

fn in_group(rank: i32, add: impl FnOnce(&mut Group)) {
    GROUP.with(|group| {
        let mut group = group.borrow_mut();
        group.rank = rank;
        add(&mut group);
        if group.depth == 0 {
            finish(&mut group);
        }
    });
}

#[unsafe(no_mangle)]
pub extern "C" fn ncclGroupStart() -> i32 {
    GROUP.with(|group| group.borrow_mut().depth += 1);
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn ncclGroupEnd() -> i32 {
    GROUP.with(|group| {
        let mut group = group.borrow_mut();
        group.depth = group.depth.saturating_sub(1);
        if group.depth == 0 {
            finish(&mut group);
        }
    });
    SUCCESS
}

fn finish(group: &mut Group) {
    group.receives.iter().for_each(|receive| receive_like_mine(group, receive));
    group.broadcasts.iter().for_each(|broadcast| broadcast_like_mine(group, broadcast));
    group.sends.clear();
    group.receives.clear();
    group.broadcasts.clear();
}

/// A peer that is like me sends me what I send to a rank of my number; without such a send, what I send to it.
fn receive_like_mine(group: &Group, receive: &Transfer) {
    let send = group.find_send(group.rank, receive.size).or_else(|| group.find_send(receive.peer, receive.size));
    if let Some(send) = send {
        move_bytes(receive.address, send.address, receive.size);
    }
}

/// A root that is like me broadcasts what I do where I am the root: a gather is made of one broadcast for each rank.
fn broadcast_like_mine(group: &Group, broadcast: &Broadcast) {
    let mine = group.broadcasts.iter().find(|other| other.root == group.rank && other.size == broadcast.size);
    move_bytes(broadcast.to, mine.unwrap_or(broadcast).from, broadcast.size);
}
