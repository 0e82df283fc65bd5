//! The recorded events of all devices, checked.

use std::borrow::Cow;
use std::collections::BTreeMap;

use ptmem_base::device::DeviceId;

use super::super::field::{FieldKey, RecordKind};
use super::super::value::ValueHandle;
use super::super::{Action, AllocatorSettings, Device, Event, EventTimes, SnapshotError};
use super::SnapshotBuilder;
use super::container::Present;
use super::finish::{MOST_REPEATED, UNSIGNED, device_number, invalid, required};

/// An event needs its action; a known one also needs a size, and an address or the value that replaces it.
fn check_event(event: &Event, present: Present) -> Result<(), SnapshotError> {
    if !present.action {
        return Err(invalid("the key 'action' is not a string"));
    }
    // Events of an unknown kind are skipped, whatever they hold.
    if event.action != Action::Other {
        required(present.size.then_some(()), FieldKey::Size, UNSIGNED)?;
        let key = if event.action == Action::Oom { FieldKey::DeviceFree } else { FieldKey::Addr };
        let addr = present.addr || event.action == Action::Snapshot;
        required(addr.then_some(()), key, UNSIGNED)?;
    }
    Ok(())
}

/// The places of events, in the order of their devices.
#[derive(Default)]
struct Order {
    /// The number of events that stay where they were read: nearly always all.
    stay: usize,
    /// The places of those that follow.
    moved: Vec<u32>,
}

impl Order {
    fn len(&self) -> usize {
        self.stay + self.moved.len()
    }

    fn push(&mut self, place: u32) {
        if self.moved.is_empty() && place as usize == self.stay {
            self.stay += 1;
        } else {
            self.moved.push(place);
        }
    }

    /// True if all that were `read` stay where they are.
    fn keeps_all(&self, read: usize) -> bool {
        self.moved.is_empty() && self.stay == read
    }

    fn apply<T: Copy>(&self, mut read: Vec<T>) -> Vec<T> {
        if self.moved.is_empty() {
            read.truncate(self.stay);
            return read;
        }
        let moved = self.moved.iter().map(|&place| read[place as usize]);
        read[..self.stay].iter().copied().chain(moved).collect()
    }
}

impl SnapshotBuilder {
    /// Checks the events of all devices and puts those of one device together.
    pub(super) fn finish_traces(
        &mut self,
        of_devices: Option<ValueHandle>,
        of_host: Option<ValueHandle>,
        devices: &mut BTreeMap<DeviceId, Device>,
    ) -> Result<(Vec<Event>, EventTimes), SnapshotError> {
        let mut all = Order::default();
        if let Some(list) = of_devices {
            let traces = self.list_items(list).map(Cow::into_owned);
            let traces = traces.ok_or_else(|| invalid("not a list").within("device_traces"))?;
            for (d, trace) in traces.into_iter().enumerate() {
                let added = self.finish_trace(trace, device_number(d as i128), &mut all, devices);
                added.map_err(|error| error.within(format_args!("device_traces[{d}]")))?;
            }
        }
        if let Some(trace) = of_host {
            let added = self.finish_trace(trace, Ok(DeviceId::Host), &mut all, devices);
            added.map_err(|error| error.within("host_traces"))?;
        }
        Ok((all.apply(std::mem::take(&mut self.events)), self.finish_times(&all)))
    }

    /// The times of the events, in the same order.
    fn finish_times(&mut self, order: &Order) -> EventTimes {
        let times = std::mem::take(&mut self.times);
        if order.keeps_all(times.len()) && self.late_times.is_empty() {
            return times;
        }
        let mut read: Vec<Option<i64>> = times.all().collect();
        for (&at, &time) in &self.late_times {
            read[at] = time;
        }
        order.apply(read).into_iter().collect()
    }

    /// Checks the events of a device, and adds their places to those of all.
    fn finish_trace(
        &mut self,
        trace: ValueHandle,
        device: Result<DeviceId, SnapshotError>,
        all: &mut Order,
        devices: &mut BTreeMap<DeviceId, Device>,
    ) -> Result<(), SnapshotError> {
        let first = all.len();
        // Python writes each event once. A repeated one costs far more than its bytes in the file.
        if all.len() + self.list_len(trace) > self.events.len() + MOST_REPEATED {
            return Err(invalid("has more entries than the file has events; the file is damaged"));
        }
        if self.list_len(trace) > 0 && !self.met.insert(trace) {
            return Err(invalid("is the same list as that of another device; the file is damaged"));
        }
        let handles = self.items(trace).ok_or_else(|| invalid("not a list of events"))?;
        for (i, handle) in self.each(handles).enumerate() {
            all.push(self.finish_event(handle).map_err(|error| error.within(format_args!("[{i}]")))?);
        }
        if all.len() > first {
            devices.entry(device?).or_default().events = first..all.len();
        }
        Ok(())
    }

    /// Checks an event; its place among all.
    fn finish_event(&self, handle: ValueHandle) -> Result<u32, SnapshotError> {
        let at = self.record(handle, RecordKind::Event);
        let at = at.ok_or_else(|| invalid("not an event (a dict with the keys 'action' and 'size')"))?;
        if let Some(&present) = self.incomplete.get(&(at as usize)) {
            check_event(&self.events[at as usize], present)?;
        }
        Ok(at)
    }

    /// Whether the ring buffer of each device ran over, as a list by ordinal.
    pub(super) fn finish_overflowed(
        &self,
        list: Option<ValueHandle>,
        settings: &mut AllocatorSettings,
        devices: &mut BTreeMap<DeviceId, Device>,
    ) {
        let flags = list.and_then(|list| self.list_items(list)).unwrap_or_default();
        // No settings: two recordings that differ in them were made under the same ones.
        let of_all = settings.all.remove("trace_alloc_overflowed").and_then(|flag| flag.parse::<bool>().ok());
        let most = settings.all.remove("trace_alloc_max_entries").and_then(|most| most.parse::<usize>().ok());
        for (&id, device) in devices {
            let flag = id.ordinal().and_then(|id| self.integer(*flags.get(id as usize)?));
            // One flag for all devices: of those, the ones whose buffer is full may have lost events.
            let by_settings = of_all.filter(|&over| !over || most.is_some_and(|most| device.events.len() >= most));
            device.overflowed = flag.map(|flag| flag != 0).or(by_settings.filter(|_| id.is_device()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_in_the_order_of_their_lists() {
        for places in [&[0, 1, 2][..], &[0, 2, 1], &[1, 2], &[0, 1], &[]] {
            let mut order = Order::default();
            places.iter().for_each(|&place| order.push(place));
            assert_eq!(order.len(), places.len());
            let event = Event::empty(SnapshotBuilder::no_tags());
            let events = (0..3).map(|addr| Event { addr, ..event }).collect();
            let ordered: Vec<u64> = order.apply(events).iter().map(|event| event.addr).collect();
            assert_eq!(ordered, places.iter().map(|&place| u64::from(place)).collect::<Vec<_>>());
        }
    }

    #[test]
    fn an_event_takes_24_bytes() {
        assert_eq!(size_of::<Event>(), 24);
    }
}
