//! Operations that NCCL does at the end of their group: sends, receives and broadcasts.

use alloc::vec::Vec;
use core::cell::RefCell;

use super::{SUCCESS, bytes, collective, copy_apart, guess};
use crate::ffi::Handle;
use crate::sys::thread::PerThread;

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
struct NcclGroup {
    depth: u32,
    rank: i32,
    sends: Vec<Transfer>,
    receives: Vec<Transfer>,
    broadcasts: Vec<Broadcast>,
}

impl NcclGroup {
    /// A send of this size to a peer.
    fn find_send(&self, peer: i32, size: u64) -> Option<&Transfer> {
        self.sends.iter().find(|send| send.peer == peer && send.size == size)
    }
}

static GROUP: PerThread<RefCell<NcclGroup>> = PerThread::new();

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

fn in_group(rank: i32, add: impl FnOnce(&mut NcclGroup)) {
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

fn finish(group: &mut NcclGroup) {
    group.receives.iter().for_each(|receive| receive_like_mine(group, receive));
    group.broadcasts.iter().for_each(|broadcast| broadcast_like_mine(group, broadcast));
    group.sends.clear();
    group.receives.clear();
    group.broadcasts.clear();
}

/// A peer that is like me sends me what I send to a rank of my number; without such a send, what I send to it.
fn receive_like_mine(group: &NcclGroup, receive: &Transfer) {
    let send = group.find_send(group.rank, receive.size).or_else(|| group.find_send(receive.peer, receive.size));
    if let Some(send) = send {
        guess(receive.address, send.address, receive.size);
    }
}

/// A root that is like me broadcasts what I do where I am the root: a gather is made of one broadcast for each rank.
fn broadcast_like_mine(group: &NcclGroup, broadcast: &Broadcast) {
    if broadcast.root == group.rank {
        copy_apart(broadcast.to, broadcast.from, broadcast.size);
        return;
    }
    let mine = group.broadcasts.iter().find(|other| other.root == group.rank && other.size == broadcast.size);
    guess(broadcast.to, mine.unwrap_or(broadcast).from, broadcast.size);
}
