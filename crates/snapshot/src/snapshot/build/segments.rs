//! Segments and their blocks, checked.

use ptmem_base::device::DeviceId;
use std::borrow::Cow;
use std::collections::BTreeMap;

use super::super::field::FieldKey;
use super::super::value::ValueHandle;
use super::super::{Block, BlockState, Device, DictKind, Segment, SnapshotError};
use super::SnapshotBuilder;
use super::finish::{MOST_REPEATED, device_number, invalid, repeated, required};

impl SnapshotBuilder {
    /// Checks the segments that a key has, and adds them to their devices.
    pub(super) fn finish_segments(
        &mut self,
        list: ValueHandle,
        key: FieldKey,
        devices: &mut BTreeMap<DeviceId, Device>,
    ) -> Result<(), SnapshotError> {
        let is_host = key == FieldKey::HostSegments;
        let key: &str = key.into();
        if self.list_len(list) > self.dicts.len() + MOST_REPEATED {
            return Err(invalid("has more entries than the file has dictionaries; the file is damaged").within(key));
        }
        let handles = self.list_items(list).map(Cow::into_owned);
        for (i, handle) in handles.ok_or_else(|| invalid("missing or not a list").within(key))?.into_iter().enumerate()
        {
            let segment = self.finish_segment(handle);
            let (device, segment) = segment.map_err(|error| error.within(format_args!("{key}[{i}]")))?;
            let device = if is_host { DeviceId::Host } else { device };
            devices.entry(device).or_default().segments.push(segment);
        }
        Ok(())
    }

    /// A segment, and its device.
    fn finish_segment(&mut self, handle: ValueHandle) -> Result<(DeviceId, Segment), SnapshotError> {
        self.entry(handle, FieldKey::TotalSize)
            .ok_or_else(|| invalid("not a segment (a dict with the key 'total_size')"))?;
        if !self.met.insert(handle) {
            return Err(repeated("segment"));
        }
        self.note_unread(DictKind::Segment, handle);
        let device = self.entry(handle, FieldKey::Device).and_then(|device| self.integer(device));
        let device = device_number(required(device, FieldKey::Device, "an integer")?)?;
        let address = self.required_unsigned(handle, FieldKey::Address)?;
        let total_size = self.required_unsigned(handle, FieldKey::TotalSize)?;
        let list = required(self.entry(handle, FieldKey::Blocks), FieldKey::Blocks, "a list")?;
        if self.list_len(list) > self.dicts.len() + MOST_REPEATED {
            return Err(invalid("has more blocks than the file has dictionaries; the file is damaged"));
        }
        let handles = self.list_items(list).map(Cow::into_owned);
        let handles = handles.ok_or_else(|| invalid("the key 'blocks' is not a list of blocks"))?;
        if !handles.is_empty() && !self.met.insert(list) {
            return Err(invalid("shares its list of blocks with another segment; the file is damaged"));
        }
        let mut blocks = Vec::with_capacity(handles.len());
        let mut next_address = address;
        for (i, block) in handles.into_iter().enumerate() {
            let block = self.finish_block(block, next_address);
            let block = block.map_err(|error| error.within(format_args!("['blocks'][{i}]")))?;
            next_address = block.address.saturating_add(block.size);
            blocks.push(block);
        }
        let kind = self.entry(handle, FieldKey::SegmentType).and_then(|kind| self.string(kind));
        let segment = Segment {
            address,
            total_size,
            allocated_size: self.unsigned_entry(handle, FieldKey::AllocatedSize),
            active_size: self.unsigned_entry(handle, FieldKey::ActiveSize),
            small_pool: kind == Some("small"),
            stream: self.entry(handle, FieldKey::Stream).and_then(|stream| self.integer(stream)),
            pool_id: self.entry(handle, FieldKey::SegmentPoolId).and_then(|pool| self.pool_id(pool)),
            is_expandable: self.unsigned_entry(handle, FieldKey::IsExpandable) == Some(1),
            stack: self.known_stack(DictKind::Segment, handle),
            blocks,
        };
        Ok((device, segment))
    }

    fn finish_block(&mut self, handle: ValueHandle, next_address: u64) -> Result<Block, SnapshotError> {
        let state = self.entry(handle, FieldKey::State);
        let state = state.ok_or_else(|| invalid("not a block (a dict with the key 'state')"))?;
        if !self.met.insert(handle) {
            return Err(repeated("block"));
        }
        self.note_unread(DictKind::Block, handle);
        let size = self.required_unsigned(handle, FieldKey::Size)?;
        let state: Option<BlockState> = self.string(state).and_then(|state| state.parse().ok());
        let expected = "one of active_allocated, active_pending_free, active_awaiting_free, inactive";
        let state = required(state, FieldKey::State, expected)?;
        // Releases before 2.1 wrote no address, and kept the latest occupant in `history`.
        let address = self.unsigned_entry(handle, FieldKey::Address);
        self.lacks_block_addresses |= address.is_none();
        let address = address.unwrap_or(next_address);
        address.checked_add(size).ok_or_else(|| invalid("the block ends past the last address"))?;
        let occupant = self.entry(handle, FieldKey::History).and_then(|history| self.first_item(history));
        let occupant = occupant.unwrap_or(ValueHandle::OPAQUE);
        let requested_size = self.unsigned_entry(handle, FieldKey::RequestedSize);
        Ok(Block {
            address,
            size,
            requested_size: requested_size.or_else(|| self.unsigned_entry(occupant, FieldKey::RealSize)),
            state,
            stack: self.known_stack(DictKind::Block, handle).or_else(|| self.known_stack(DictKind::Block, occupant)),
        })
    }
}
