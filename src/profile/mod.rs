//! The figures of one snapshot, per device: what is left of it once it is replayed.

mod moment;
mod totals;

use std::collections::BTreeMap;

pub use moment::{Moment, ParseMomentError};
pub use totals::{Bucket, Held, Member, StackTotal};

use crate::diagnostic::Diagnostic;
use crate::replay::{self, Figures, Position, Replay};
use crate::snapshot::{AllocatorSettings, Event, Snapshot, Tables};
use crate::stack::{Code, GroupBy, Grouper, Languages};

/// Where a snapshot came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// Path as the user gave it.
    pub path: String,
    /// Size of the input.
    pub bytes: u64,
}

/// How to compute a profile.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Options {
    /// What counts as one stack.
    pub group_by: GroupBy,
    /// For which moment [`StackTotal::at`] is computed.
    pub at: Moment,
    /// Folders of the user's code, stripped from its paths, see [`crate::stack::Code::new`].
    pub strip_prefix: Vec<String>,
}

/// The figures of one snapshot.
#[derive(Debug)]
pub struct Profile {
    /// Where it came from.
    pub source: Source,
    /// Whether the file has a history at all, or only segments.
    pub has_traces: bool,
    /// How it was computed.
    pub options: Options,
    /// Allocator settings at the dump.
    pub settings: AllocatorSettings,
    /// Per device, in order of their numbers.
    pub devices: Vec<DeviceProfile>,
    /// What a reader must know.
    pub diagnostics: Vec<Diagnostic>,
    /// The frames that [`Member::stack`] refers to.
    pub tables: Tables,
}

impl Profile {
    /// What is known of the frames.
    #[must_use]
    pub fn code(&self) -> Code<'_> {
        Code::new(&self.tables, &self.options.strip_prefix)
    }

    /// What gave the stacks their keys and labels.
    #[must_use]
    pub fn grouper(&self) -> Grouper<'_> {
        Grouper::new(&self.tables, self.options.group_by, &self.options.strip_prefix)
    }
}

/// The figures of one device.
#[derive(Debug)]
pub struct DeviceProfile {
    /// Device ordinal.
    pub device: u32,
    /// Number of events.
    pub events: u64,
    /// Microseconds from the first event to the last, where the release wrote times.
    pub duration_us: Option<u64>,
    /// Number of events by the name of their action.
    pub actions: BTreeMap<String, u64>,
    /// The figures, from the replay.
    pub figures: Figures,
    /// Languages of the stacks that events carry.
    pub recorded_frames: Languages,
    /// The position that [`Options::at`] means on this device; `None` where there is no such moment.
    pub at: Option<Position>,
    /// Allocated bytes by stack, the most at the peak first. At every moment they add up to `allocated`.
    pub stacks: Vec<StackTotal>,
}

impl DeviceProfile {
    /// Whether anything was recorded or is held: snapshots list devices that did nothing.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.events > 0 || self.figures.active.end > 0
    }

    /// Allocated bytes at the moment of [`Options::at`].
    #[must_use]
    pub fn allocated_at(&self) -> u64 {
        self.stacks.iter().map(|total| total.at.bytes).sum()
    }
}

/// Computes the profile of a snapshot, device by device.
///
/// # Errors
/// Where the file holds sums that no memory could hold.
pub fn profile(snapshot: Snapshot, source: Source, options: Options) -> Result<Profile, replay::Error> {
    let grouper = Grouper::new(&snapshot.tables, options.group_by, &options.strip_prefix);
    let mut devices = Vec::with_capacity(snapshot.devices.len());
    let mut diagnostics = Vec::new();
    for (&id, device) in &snapshot.devices {
        let events = snapshot.events_of(device);
        let replay = replay::replay(&snapshot, id, device)?;
        let at = options.at.position(events, &replay);
        let stacks = totals::by_stack(&snapshot, device, &grouper, &replay, at);
        let mut recorded_frames = Languages::default();
        for total in stacks.iter().filter(|total| total.allocations > 0) {
            if let Some(stack) = total.stack() {
                recorded_frames |= grouper.languages(stack);
            }
        }
        let Replay { diagnostics: found, .. } = &replay;
        diagnostics.extend(found.iter().cloned());
        devices.push(DeviceProfile {
            device: id,
            events: events.len() as u64,
            duration_us: duration(events),
            actions: actions(&replay, &snapshot.tables),
            figures: replay.figures,
            recorded_frames,
            at,
            stacks,
        });
    }
    if !devices.iter().any(DeviceProfile::is_active) {
        diagnostics.push(Diagnostic::warning(
            "empty-recording",
            None,
            "nothing is recorded and nothing is held on any device. Call \
             torch.cuda.memory._record_memory_history() in this process before the step, and dump before disabling it",
        ));
    }
    Ok(Profile {
        source,
        has_traces: snapshot.has_traces,
        options,
        settings: snapshot.settings,
        devices,
        diagnostics,
        tables: snapshot.tables,
    })
}

fn actions(replay: &Replay, tables: &Tables) -> BTreeMap<String, u64> {
    let mut actions = BTreeMap::new();
    for (action, count) in &replay.actions {
        *actions.entry(action.name(tables).to_owned()).or_insert(0) += count;
    }
    actions
}

fn duration(events: &[Event]) -> Option<u64> {
    let (first, last) = (events.first()?.time()?, events.last()?.time()?);
    u64::try_from(last.checked_sub(first)?).ok()
}
