//! A trace for Perfetto (<https://perfetto.dev>): a process per device, with its counters, phases and steps.
//!
//! The fields are those of `protos/perfetto/trace` in its repository: `trace_packet.proto` and, in `track_event`,
//! `track_descriptor.proto`, `process_descriptor.proto`, `counter_descriptor.proto` and `track_event.proto`.

mod clock;
mod lanes;
mod message;

use std::io::{self, BufWriter, Write};

use ptmem_base::text::printable;
use ptmem_trace::phase::Source;
use ptmem_trace::phase::steps::{self, Course, How, Wanted};
use ptmem_trace::profile::{Counter, DeviceProfile, Figures, HistoryKind, Profile};
use ptmem_trace::replay::Position;
use ptmem_trace::trace::{Measure, Window};

use super::Subject;
use clock::Clock;
use lanes::{Edge, Lanes};
use message::Message;

/// Fields and values of `TracePacket`, and of `Trace`, which is a list of them.
mod packet {
    pub(super) const PACKET: u32 = 1;
    pub(super) const TIMESTAMP: u32 = 8;
    pub(super) const SEQUENCE: u32 = 10;
    pub(super) const TRACK_EVENT: u32 = 11;
    pub(super) const TRACK_DESCRIPTOR: u32 = 60;
}

/// Fields and values of `TrackDescriptor` and the descriptors within it.
mod descriptor {
    pub(super) const UUID: u32 = 1;
    pub(super) const NAME: u32 = 2;
    pub(super) const PROCESS: u32 = 3;
    pub(super) const PROCESS_PID: u32 = 1;
    pub(super) const PROCESS_NAME: u32 = 6;
    pub(super) const PARENT_UUID: u32 = 5;
    pub(super) const COUNTER: u32 = 8;
    pub(super) const COUNTER_UNIT: u32 = 3;
    pub(super) const COUNTER_Y_AXIS: u32 = 7;
    pub(super) const UNIT_SIZE_BYTES: u64 = 3;
}

/// Fields and values of `TrackEvent`.
mod event {
    pub(super) const TYPE: u32 = 9;
    pub(super) const TRACK_UUID: u32 = 11;
    pub(super) const NAME: u32 = 23;
    pub(super) const COUNTER_VALUE: u32 = 30;
    pub(super) const SLICE_BEGIN: u64 = 1;
    pub(super) const SLICE_END: u64 = 2;
    pub(super) const COUNTER: u64 = 4;
}

/// Writes the histories of one snapshot, or of both sides of comparisons. Other reports keep no histories: their trace is
/// empty.
pub(super) fn write(subject: Subject<'_>, out: &mut dyn Write) -> io::Result<()> {
    let mut trace = Trace { out: BufWriter::new(out), tracks: 0, processes: 0 };
    match subject {
        Subject::Profile(profile, _) => trace.profile("", profile)?,
        Subject::Gate(gate) => {
            let several = gate.only().is_none();
            for comparison in gate.singles() {
                let name = comparison.name.iter().filter(|_| several).map(|name| format!("{name}: "));
                let name: String = name.collect();
                for (side, profile) in comparison.diff.profiles.each() {
                    trace.profile(&format!("{name}{side}: "), profile)?;
                }
            }
        }
        Subject::Leaks(_) | Subject::Ranks(_) | Subject::Study(_) => {}
    }
    trace.out.flush()
}

/// The reason for which the history of a device is not shown.
fn lack(device: &DeviceProfile) -> Option<&'static str> {
    match device.figures.history {
        HistoryKind::Recorded if device.has_moves() => None,
        HistoryKind::Recorded | HistoryKind::StateOnly | HistoryKind::Empty => Some("no recorded history"),
        HistoryKind::NoAllocations => Some("no recorded allocations"),
        HistoryKind::NumbersOnly => Some("only figures"),
    }
}

fn counter(figures: &Figures, measure: Measure) -> &Counter {
    match measure {
        Measure::Allocated => &figures.allocated,
        Measure::Active => &figures.active,
        Measure::Requested => &figures.requested,
        Measure::Reserved => &figures.reserved,
    }
}

/// How far a counter can be trusted, behind its name.
fn reliability(counter: &Counter) -> String {
    match counter.max_error() {
        _ if counter.is_least => " (at least)".to_owned(),
        Some(0) => String::new(),
        Some(error) => format!(" (± {error} bytes)"),
        None => " (unknown error)".to_owned(),
    }
}

/// A track within a process. The packets of each have a sequence of their own, in which time never goes back.
#[derive(Clone, Copy)]
struct Track(u64);

/// A trace that is being written.
struct Trace<'o> {
    out: BufWriter<&'o mut dyn Write>,
    /// Number of tracks so far.
    tracks: u64,
    /// Number of processes so far.
    processes: u64,
}

impl Trace<'_> {
    /// Writes the devices of a profile that did or hold anything.
    fn profile(&mut self, owner: &str, profile: &Profile) -> io::Result<()> {
        for device in profile.devices.iter().filter(|device| device.is_active()) {
            let name = format!("{owner}{}", device.device);
            if let Some(lack) = lack(device) {
                let process = self.process(&format!("{name} ({lack})"))?;
                self.final_values(process, device)?;
                continue;
            }
            let clock = Clock::new(device);
            let process = self.process(&format!("{name} ({})", clock.source))?;
            self.counters(process, device, &clock)?;
            self.phases(process, device, &clock)?;
            self.steps(process, profile, device, &clock)?;
        }
        Ok(())
    }

    /// Writes what is held at the dump.
    fn final_values(&mut self, process: Track, device: &DeviceProfile) -> io::Result<()> {
        for measure in Measure::ALL {
            if let Some(end) = counter(&device.figures, measure).end {
                let track = self.counter_track(process, &format!("{} at the dump", <&str>::from(measure)))?;
                self.value(track, 0, end.into())?;
            }
        }
        Ok(())
    }

    /// Writes the counters that are known: each value where it changes, and the last one.
    fn counters(&mut self, process: Track, device: &DeviceProfile, clock: &Clock) -> io::Result<()> {
        for measure in Measure::ALL {
            let counter = counter(&device.figures, measure);
            if counter.peak.is_none() {
                continue;
            }
            let name = format!("{}{}", <&str>::from(measure), reliability(counter));
            let track = self.counter_track(process, &name)?;
            let mut last = None;
            for (events, value) in device.trace.values(measure).enumerate() {
                if last.replace(value) != Some(value) {
                    self.value(track, clock.nanos_at(Position::of_count(events)), value)?;
                }
            }
            let dump = device.trace.dump();
            self.value(track, clock.nanos_at(dump), device.trace.value_at(measure, dump))?;
        }
        Ok(())
    }

    /// Writes the phases: those of each source on their own tracks.
    fn phases(&mut self, process: Track, device: &DeviceProfile, clock: &Clock) -> io::Result<()> {
        for source in Source::ALL {
            let phases = device.phases.all.iter().filter(|phase| phase.source == source);
            let slices = phases.map(|phase| (&*phase.name, phase.window));
            self.slices(process, &format!("phases: {}", source.name()), slices, clock)?;
        }
        Ok(())
    }

    /// Writes the steps, as `ptmem leak` finds them. Each lasts until the next.
    fn steps(&mut self, process: Track, profile: &Profile, device: &DeviceProfile, clock: &Clock) -> io::Result<()> {
        let course = Course::new(&device.trace);
        let found = steps::find(&course, &device.phases.marks(), &profile.code(), &Wanted::Any);
        // Equal parts would not be steps.
        let Some(found) = found.filter(|found| found.how != How::Windows) else { return Ok(()) };
        let ends = found.borders().into_iter().skip(1).chain([device.trace.end()]);
        let slices = found.steps.iter().zip(ends).map(|(step, to)| (&*step.name, Window { from: step.from, to }));
        self.slices(process, "steps", slices, clock)
    }

    /// Writes slices, each from its first event to its last.
    fn slices<'n>(
        &mut self,
        process: Track,
        name: &str,
        slices: impl Iterator<Item = (&'n str, Window)>,
        clock: &Clock,
    ) -> io::Result<()> {
        for edges in Lanes::of(slices) {
            let track = self.child_track(process, Message::default().text(descriptor::NAME, name))?;
            let mut latest = 0;
            for Edge { at, begins } in edges {
                // One without events would end at the event before it.
                latest = latest.max(if begins.is_some() { clock.nanos_after(at) } else { clock.nanos_at(at) });
                let kind = if begins.is_some() { event::SLICE_BEGIN } else { event::SLICE_END };
                let event = Message::default().number(event::TYPE, kind);
                let event = match begins {
                    Some(name) => event.text(event::NAME, &printable(name)),
                    None => event,
                };
                self.event(track, latest, event)?;
            }
        }
        Ok(())
    }

    fn process(&mut self, name: &str) -> io::Result<Track> {
        self.processes += 1;
        let process = Message::default().number(descriptor::PROCESS_PID, self.processes);
        let process = process.text(descriptor::PROCESS_NAME, &printable(name));
        self.track(Message::default().message(descriptor::PROCESS, &process))
    }

    /// A track of bytes. Those of one process share their scale.
    fn counter_track(&mut self, process: Track, name: &str) -> io::Result<Track> {
        let counter = Message::default().number(descriptor::COUNTER_UNIT, descriptor::UNIT_SIZE_BYTES);
        let counter = counter.text(descriptor::COUNTER_Y_AXIS, "bytes");
        let track = Message::default().text(descriptor::NAME, name).message(descriptor::COUNTER, &counter);
        self.child_track(process, track)
    }

    fn child_track(&mut self, process: Track, track: Message) -> io::Result<Track> {
        self.track(track.number(descriptor::PARENT_UUID, process.0))
    }

    fn track(&mut self, descriptor: Message) -> io::Result<Track> {
        self.tracks += 1;
        let track = Track(self.tracks);
        let descriptor = descriptor.number(descriptor::UUID, track.0);
        self.packet(track, 0, packet::TRACK_DESCRIPTOR, &descriptor)?;
        Ok(track)
    }

    /// Writes a value of a counter; below 0 it is where the history does not add up.
    fn value(&mut self, track: Track, nanos: u64, value: i128) -> io::Result<()> {
        // Readers take it as a signed number.
        let value = u64::try_from(value.clamp(0, i64::MAX.into())).unwrap_or(0);
        let event = Message::default().number(event::TYPE, event::COUNTER);
        self.event(track, nanos, event.number(event::COUNTER_VALUE, value))
    }

    fn event(&mut self, track: Track, nanos: u64, event: Message) -> io::Result<()> {
        self.packet(track, nanos, packet::TRACK_EVENT, &event.number(event::TRACK_UUID, track.0))
    }

    fn packet(&mut self, track: Track, nanos: u64, field: u32, content: &Message) -> io::Result<()> {
        let packet = Message::default().number(packet::TIMESTAMP, nanos).number(packet::SEQUENCE, track.0);
        let packet = packet.message(field, content);
        self.out.write_all(Message::default().message(packet::PACKET, &packet).encoded())
    }
}
