//! The figures of one snapshot, per device: what is left of it once it is replayed. Saved to a file, they stand in for
//! the snapshot.

pub mod course;
mod every;
mod exact;
mod highest;
mod history;
mod lines;
mod metric;
mod moment;
mod origins;
mod phases;
pub mod saved;
mod totals;

use std::cell::{Cell, LazyCell};
use std::collections::BTreeMap;
use std::io::{self, Cursor, Read};
use std::sync::Arc;

pub use every::{Every, Interval, MOST_INTERVALS, ParseEveryError};
pub use highest::Highest;
pub use lines::{HeldLine, HeldLines};
pub use metric::Metric;
pub(crate) use moment::Recording;
pub use moment::{Moment, ParseMomentError, PhaseMoment, PhasePoint, Places};
pub(crate) use origins::Origins;
pub use phases::{MOST_PHASES, Occurrence, Phases};
pub use totals::{Bucket, Held, Identity, Member, StackTotal, identity, others};

use crate::container;
use crate::diagnostic::{self, Diagnostic};
use crate::replay::{self, Replay};
pub use crate::replay::{Checks, Counter, Figures, FreeBlocks, History, Oom, Position, Timeline};
use crate::snapshot::{self, Copier, Event, Snapshot, StackId};
pub use crate::snapshot::{AllocatorSettings, Tables};
use crate::stack::{Code, Facts, GroupBy, Grouper, Languages, Rules};
use crate::text::nearest;
use course::Course;
pub(crate) use exact::Whose;
use exact::{Attributed, Totals};
pub(crate) use history::{History as Lifetimes, Owned, Point};
use phases::Plan;

/// The kind of input that a profile was computed from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// A snapshot.
    Snapshot,
    /// A list of segments without a history.
    Segments,
    /// A saved profile.
    Profile,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Snapshot, Self::Segments, Self::Profile];

    /// Its name in machine-readable output.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Snapshot => "snapshot",
            Self::Segments => "segments",
            Self::Profile => "profile",
        }
    }
}

/// Where a profile came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// Path as the user gave it.
    pub path: String,
    /// Size of the input.
    pub bytes: u64,
    /// Its kind.
    pub kind: Kind,
}

/// How to compute a profile.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Options {
    /// The grouping of stacks.
    pub group_by: GroupBy,
    /// For which moment [`StackTotal::at`] is computed.
    pub at: Moment,
    /// Rules of the user about the code.
    pub rules: Rules,
    /// How long the parts are that [`DeviceProfile::intervals`] tells about.
    pub every: Option<Every>,
    /// The most that a compressed input may expand to, in bytes; [`container::DEFAULT_MAX_BYTES`] where nothing is set.
    pub max_input: Option<u64>,
    /// The allocator settings of the run, for snapshots of releases before 2.3, which do not state them.
    pub allocator_settings: Option<AllocatorSettings>,
    /// The only device to look at; without it all.
    pub device: Option<u32>,
    /// Keeps the data for pictures: the curve of each device in many points, and the life of every allocation.
    pub history: bool,
    /// Leaves out [`DeviceProfile::course`], which only comparisons and saved profiles need.
    pub skip_course: bool,
}

/// The reason for which the figures of a stored before were raised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Raise {
    /// The reason that the user gave.
    pub reason: String,
    /// Which figures, and by how much.
    pub changes: Vec<String>,
}

/// The figures of one snapshot.
#[derive(Debug)]
#[non_exhaustive]
pub struct Profile {
    /// Where it came from.
    pub source: Source,
    /// Where a saved profile came from when it was saved.
    pub recorded: Option<Source>,
    /// Why its figures were raised since it was first stored.
    pub raises: Vec<Raise>,
    /// The limits of what a saved profile keeps of it.
    pub bound: saved::Bound,
    /// The rules by which stacks were grouped where a saved profile does not list all of them, as
    /// [`Rules::of_groups`] has them.
    pub grouped_by: Option<[Vec<String>; 3]>,
    /// The moment that a saved profile keeps beside baseline, peak and end.
    pub kept: Option<Moment>,
    /// How it was computed.
    pub options: Options,
    /// Allocator settings at the dump.
    pub settings: AllocatorSettings,
    /// Per device, in order of their numbers.
    pub devices: Vec<DeviceProfile>,
    /// Notes and warnings about it.
    pub diagnostics: Vec<Diagnostic>,
    /// The frames that [`Member::stack`] refers to; profiles of one job may share them.
    pub tables: Arc<Tables>,
    /// Facts about these frames, where the tables are still its own.
    facts: Option<Arc<Facts>>,
}

impl Profile {
    /// Why groups of stacks are not whole, where a saved profile does not list all stacks.
    #[must_use]
    pub fn broken_groups(&self) -> Option<String> {
        if self.devices.iter().all(|device| device.cut.is_none()) {
            return None;
        }
        let by = self.options.group_by;
        if by != GroupBy::Stack {
            return Some(format!("which cannot be compared by {by}"));
        }
        let differ = self.grouped_by.as_ref().is_some_and(|rules| *rules != self.options.rules.of_groups());
        differ.then(|| "by other rules (strip-prefix, own, foreign) than those of this run".to_owned())
    }

    /// Leaves nothing but what a report shows of one profile among many, and moves the stacks to tables that these
    /// share, which [`Profile::tables`] has to be set to in the end.
    pub fn pool(&mut self, shared: &mut Tables) {
        let mut copy = Copier::new(&self.tables, shared);
        for device in &mut self.devices {
            device.totals = Totals::default();
            device.lifetimes = None;
            device.copy_failed_stacks(&mut copy);
            for total in &mut device.stacks {
                for member in &mut total.members {
                    member.stack = copy.stack(member.stack);
                }
                total.members.shrink_to_fit();
            }
            device.stacks.shrink_to_fit();
        }
        self.tables = Arc::default();
        self.facts = None;
    }

    /// The place of the allocation that made the peak of a device, where it is known and no start.
    #[must_use]
    pub fn peak_allocation(&self, device: u32) -> Option<u64> {
        let device = self.devices.iter().find(|known| known.device == device)?;
        device.course.as_ref()?.peak.map(|peak| peak.place)
    }

    /// The names of phases that are most like a mistyped one, as the end of a sentence.
    #[must_use]
    pub fn nearest_phases(&self, name: &str) -> String {
        nearest(name, "phase", self.devices.iter().flat_map(|device| &device.phases.all).map(|phase| &*phase.name))
    }

    /// Leaves out all devices but one, and what is said of the others.
    fn restrict_to(&mut self, device: u32) -> Result<(), Error> {
        if !self.devices.iter().any(|known| known.device == device) {
            return Err(Error::NoDevice { device, known: self.devices.iter().map(|known| known.device).collect() });
        }
        self.devices.retain(|known| known.device == device);
        self.diagnostics.retain(|found| found.device.is_none_or(|of| of == device));
        Ok(())
    }

    /// Leaves nothing but what a report shows of one side of a comparison among many.
    pub(crate) fn forget_stacks(&mut self) {
        for device in &mut self.devices {
            device.totals = Totals::default();
            device.lifetimes = None;
            device.stacks = Vec::new();
        }
        self.tables = Arc::default();
        self.facts = None;
    }

    /// The position of a device by its number.
    pub(crate) fn position(&self, device: u32) -> Option<usize> {
        self.devices.iter().position(|known| known.device == device)
    }

    /// The position of the only active device, if there is one alone.
    pub(crate) fn only_active(&self) -> Option<usize> {
        let mut active = (0..self.devices.len()).filter(|&at| self.devices[at].is_active());
        active.next().filter(|_| active.next().is_none())
    }

    /// True if another profile has the same frames under the same rules.
    pub(crate) fn shares_frames(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.tables, &other.tables) && self.options.rules == other.options.rules
    }

    /// The frames of its stacks.
    #[must_use]
    pub fn code(&self) -> Code<'_> {
        match &self.facts {
            Some(facts) => Code::with(&self.tables, facts),
            None => Code::new(&self.tables, &self.options.rules),
        }
    }

    /// The grouper that gave the stacks their keys and labels.
    #[must_use]
    pub fn grouper(&self) -> Grouper<'_> {
        self.grouper_by(self.options.group_by)
    }

    /// The same for another grouping.
    pub(crate) fn grouper_by(&self, by: GroupBy) -> Grouper<'_> {
        Grouper::of(self.code(), by)
    }
}

/// Stacks that a saved profile does not list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// How many groups of them there were.
    pub stacks: usize,
    /// The most bytes that one of them held.
    pub largest: u64,
}

/// The figures of one device.
#[derive(Debug)]
#[non_exhaustive]
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
    /// The stacks that [`Bucket::Others`] stands for.
    pub cut: Option<Cut>,
    /// The named parts of the history.
    pub phases: Phases,
    /// The history in equal parts, where [`Options::every`] asks for them.
    pub intervals: Vec<Interval>,
    /// The order in which the stacks allocate; `None` where nothing does, where nothing repeats, where a profile was saved
    /// before that was kept, or where it was left out ([`Options::skip_course`]).
    pub course: Option<Course>,
    /// The life of every allocation, where [`Options::history`] asks for it and the input has a history.
    pub(crate) lifetimes: Option<Lifetimes>,
    /// The label of the stack whose request was the first to fail for lack of memory, where it is known.
    pub failed_request: Option<String>,
    /// The stacks of the requests that failed for lack of memory, in the order of [`Figures::ooms`]; `None` where one was
    /// not captured.
    pub failed_stacks: Vec<Option<StackId>>,
    totals: Totals,
}

impl DeviceProfile {
    /// True if anything was recorded or is held: snapshots list devices that did nothing, and every dump leaves a
    /// `snapshot` event on all of them.
    #[must_use]
    pub fn is_active(&self) -> bool {
        let markers = self.actions.get("snapshot").copied().unwrap_or(0);
        self.events > markers || self.figures.active.end > 0
    }

    /// The stack of the first request that failed for lack of memory, where it is known.
    #[must_use]
    pub fn failed_stack(&self) -> Option<StackId> {
        self.failed_stacks.first().copied().flatten()
    }

    /// Moves the stacks of failed requests to other tables.
    pub(crate) fn copy_failed_stacks(&mut self, copy: &mut Copier<'_, '_>) {
        for stack in self.failed_stacks.iter_mut().flatten() {
            *stack = copy.stack(*stack);
        }
    }

    /// True if an allocation failed for lack of memory.
    #[must_use]
    pub fn ran_out_of_memory(&self) -> bool {
        !self.figures.ooms.is_empty()
    }

    /// Puts the stacks into groups.
    fn group(&mut self, attributed: Attributed, grouper: &Grouper<'_>) {
        let (totals, stacks) = attributed.into_groups(grouper);
        self.totals = totals;
        self.stacks = stacks;
        self.failed_request = self.failed_stack().map(|stack| grouper.code().label(stack));
        let recorded = self.totals.stacks.iter().filter(|exact| exact.sums.allocations > 0);
        for stack in recorded.filter_map(|exact| exact.whose.stack()) {
            self.recorded_frames |= grouper.languages(stack);
        }
    }

    /// The stacks in the groups of another grouping.
    pub(crate) fn grouped(&self, grouper: &Grouper<'_>) -> Vec<StackTotal> {
        totals::by_group(self.totals.of(grouper.by()), grouper, self.cut.map_or(0, |cut| cut.stacks))
    }

    /// Allocated bytes at the moment of [`Options::at`].
    #[must_use]
    pub fn allocated_at(&self) -> u64 {
        self.stacks.iter().fold(0, |sum: u64, total| sum.saturating_add(total.at.bytes))
    }

    /// The stacks that hold most at the moment of [`Options::at`], at most `top` of them (0 is all) and none with
    /// fewer bytes than `least`, and one that stands for the rest, so that they still add up. Those that hold nothing
    /// then are there only if `least` is 0.
    #[must_use]
    pub fn listed(&self, top: usize, least: u64) -> Vec<StackTotal> {
        self.listed_by(|total| total.at, top, least)
    }

    /// The same for when an allocation failed for the first time.
    #[must_use]
    pub fn listed_at_oom(&self, top: usize, least: u64) -> Vec<StackTotal> {
        self.listed_by(|total| total.oom, top, least)
    }

    /// True if what was held at the moment of [`Options::at`] is what was held when an allocation failed for the first
    /// time.
    #[must_use]
    pub fn at_is_oom(&self) -> bool {
        self.at.is_some() && !self.figures.ooms.is_empty() && self.stacks.iter().all(|total| total.at == total.oom)
    }

    fn listed_by(&self, held: fn(&StackTotal) -> Held, top: usize, least: u64) -> Vec<StackTotal> {
        let counts =
            |total: &&StackTotal| total.bucket != Some(Bucket::Others) && (least == 0 || held(total).blocks > 0);
        let mut stacks: Vec<_> = self.stacks.iter().filter(counts).collect();
        stacks.sort_by_key(|total| std::cmp::Reverse(held(total).bytes));
        let limit = if top == 0 { usize::MAX } else { top };
        let large = stacks.iter().take_while(|total| held(total).bytes >= least).count();
        let (shown, rest) = stacks.split_at(large.min(limit));
        let mut listed: Vec<StackTotal> = shown.iter().map(|&total| total.clone()).collect();
        let cut = self.stacks.iter().filter(|total| total.bucket == Some(Bucket::Others));
        let mut others = StackTotal::others(rest.len() + self.cut.map_or(0, |cut| cut.stacks));
        let mut left = rest.iter().copied().chain(cut).peekable();
        if left.peek().is_some() {
            left.for_each(|total| others.add(&total.sums()));
            listed.push(others);
        }
        listed
    }
}

/// Why an input gives no profile.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It cannot be read at all, or what it is wrapped in is damaged.
    #[error(transparent)]
    Input(#[from] io::Error),
    /// It cannot be read as a snapshot.
    #[error(transparent)]
    Snapshot(#[from] snapshot::Error),
    /// Its history cannot be replayed.
    #[error(transparent)]
    Replay(#[from] replay::Error),
    /// It looks like a saved profile and cannot be read as one.
    #[error(transparent)]
    Saved(#[from] saved::Error),
    /// A history in so many parts that nobody could read them.
    #[error(
        "device {device}: --every {every} makes {parts} parts of the history, and at most {MOST_INTERVALS} are shown; try \
         --every {better}"
    )]
    TooManyIntervals {
        /// Device ordinal.
        device: u32,
        /// The length that was asked for.
        every: String,
        /// How many parts that would be.
        parts: u64,
        /// A length that would do.
        better: String,
    },
    /// A history without times, which releases before 2.2 write.
    #[error(
        "device {device}: the events have no times (PyTorch before 2.2), which --every {every} needs; try --every 1000events"
    )]
    NoTimes {
        /// Device ordinal.
        device: u32,
        /// The length that was asked for.
        every: String,
    },
    /// A history without the steps that were asked for.
    #[error(
        "device {device}: {}, which --every {every} needs; name them with --step PATTERN, or try --every 1000events",
        pattern.as_ref().map_or("no steps are found".to_owned(), |pattern| format!("no step is named '{pattern}'"))
    )]
    NoSteps {
        /// Device ordinal.
        device: u32,
        /// The length that was asked for.
        every: String,
        /// How they were to be named, where that was said.
        pattern: Option<String>,
    },
    /// The device that was asked for is not there.
    #[error("there is no device {device} (--device) in it; it has {}", list_devices(known))]
    NoDevice {
        /// Device ordinal.
        device: u32,
        /// Those that are there.
        known: Vec<u32>,
    },
    /// A saved profile where a history is needed.
    #[error("a saved profile has no history that --every {every} could divide; give the snapshot itself")]
    NoHistory {
        /// The length that was asked for.
        every: String,
    },
}

fn list_devices(known: &[u32]) -> String {
    match known {
        [] => "none".to_owned(),
        [only] => format!("device {only}"),
        [first @ .., last] => {
            let first: Vec<String> = first.iter().map(ToString::to_string).collect();
            format!("devices {} and {last}", first.join(", "))
        }
    }
}

/// An opened input.
#[derive(Debug)]
pub enum Opened {
    /// A snapshot, which knows more than its profile, and where it came from.
    Snapshot(Box<Snapshot>, Source),
    /// A saved profile.
    Profile(Box<Profile>),
}

/// Reads a snapshot and computes its profile, or reads a saved profile.
///
/// # Errors
/// Where the input is neither, or damaged.
pub fn read(input: impl Read, path: &str, options: Options) -> Result<Profile, Error> {
    match open(input, path, options.clone())? {
        Opened::Snapshot(snapshot, source) => Ok(measure(*snapshot, source, options)?),
        Opened::Profile(profile) => Ok(*profile),
    }
}

/// Reads a snapshot, or a saved profile.
///
/// # Errors
/// Where the input is neither, or damaged.
pub fn open(input: impl Read, path: &str, options: Options) -> Result<Opened, Error> {
    let count = Cell::new(0);
    let mut input = Counted { input, count: &count };
    let source = |kind| Source { path: path.to_owned(), bytes: count.get(), kind };
    let max_bytes = options.max_input.unwrap_or(container::DEFAULT_MAX_BYTES);
    let opened =
        container::unpack(&mut input, max_bytes, &mut |stream| open_unpacked(stream, &source, options.clone()))?;
    // The rest of the wrapping, behind the pickle, is read last.
    Ok(match opened {
        Opened::Snapshot(snapshot, source) => Opened::Snapshot(snapshot, Source { bytes: count.get(), ..source }),
        Opened::Profile(mut profile) => {
            profile.source.bytes = count.get();
            Opened::Profile(profile)
        }
    })
}

fn open_unpacked(input: &mut dyn Read, source: &dyn Fn(Kind) -> Source, options: Options) -> Result<Opened, Error> {
    // JSON begins with a brace, behind white space, and no pickle does.
    let mut head = Vec::new();
    loop {
        let from = head.len();
        let read = input.take(64).read_to_end(&mut head)?;
        if read == 0 || head[from..].iter().any(|byte| !byte.is_ascii_whitespace()) || head.len() > 1 << 16 {
            break;
        }
    }
    // Some editors put a byte order mark in front of a text.
    let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&head).trim_ascii_start();
    let is_json = text.first() == Some(&b'{');
    let start = if is_json { head.len() - text.len() } else { 0 };
    let input = Cursor::new(head.split_off(start)).chain(input);
    if is_json {
        if let Some(every) = &options.every {
            return Err(Error::NoHistory { every: every.to_string() });
        }
        let wanted = options.device;
        let mut profile = saved::read(io::BufReader::new(input), || source(Kind::Profile), options)?;
        if let Some(device) = wanted {
            profile.restrict_to(device)?;
        }
        return Ok(Opened::Profile(Box::new(profile)));
    }
    let mut snapshot = snapshot::read(input)?;
    if let Some(device) = options.device {
        if !snapshot.devices.contains_key(&device) {
            return Err(Error::NoDevice { device, known: snapshot.devices.into_keys().collect() });
        }
        snapshot.devices.retain(|&id, _| id == device);
    }
    if let Some(settings) = options.allocator_settings.filter(|_| !snapshot.settings.present) {
        snapshot.settings = settings;
    }
    let kind = if snapshot.has_traces { Kind::Snapshot } else { Kind::Segments };
    Ok(Opened::Snapshot(Box::new(snapshot), source(kind)))
}

/// Counts what is read.
struct Counted<'c, R> {
    input: R,
    count: &'c Cell<u64>,
}

impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buffer)?;
        self.count.set(self.count.get() + read as u64);
        Ok(read)
    }
}

/// Computes the profile of a snapshot, device by device.
///
/// # Errors
/// Where the file holds sums that no memory could hold, or its history cannot be divided as asked.
pub fn measure(mut snapshot: Snapshot, source: Source, options: Options) -> Result<Profile, Error> {
    let mut devices = Vec::with_capacity(snapshot.devices.len());
    let mut attributed = Vec::with_capacity(snapshot.devices.len());
    let mut diagnostics = Vec::new();
    let mut origins = Origins::of_devices(&mut snapshot, options.group_by);
    for ((&id, device), plan) in snapshot.devices.iter().zip(plans(&snapshot, &options)?) {
        let events = snapshot.events_of(device);
        let mut replay = replay::run(&snapshot, id, device, &plan.borders())?;
        let phases = plan.phases();
        let recording = Recording { snapshot: &snapshot, device: id, events, replay: &replay, phases };
        let at = recording.position(&options.at);
        diagnostics.extend(replay.diagnostics.iter().cloned());
        let (phases, intervals) = plan.measure(&snapshot, &replay, &mut diagnostics);
        let course = if options.skip_course { None } else { Course::of(&snapshot, &replay) };
        let lifetimes = options.history.then(|| Lifetimes::of(&snapshot, device, &replay)).flatten();
        let origins = origins.remove(&id).unwrap_or_default();
        attributed.push(exact::attribute(&snapshot, device, &mut replay, at, options.group_by, &origins));
        devices.push(DeviceProfile {
            device: id,
            events: events.len() as u64,
            duration_us: duration(events),
            actions: actions(&replay, &snapshot.tables),
            recorded_frames: Languages::default(),
            at,
            totals: Totals::default(),
            course,
            lifetimes,
            failed_stacks: failed_stacks(&snapshot.tables, events, &replay.figures.ooms),
            figures: replay.figures,
            stacks: Vec::new(),
            cut: None,
            phases,
            intervals,
            failed_request: None,
        });
    }
    if !devices.iter().any(DeviceProfile::is_active) {
        diagnostics.push(Diagnostic::new(
            diagnostic::Code::EmptyRecording,
            None,
            "nothing is recorded and nothing is held on any device. Call \
             torch.cuda.memory._record_memory_history() in this process before the step, and dump before disabling it",
        ));
    }
    let tables = Arc::new(exact::compact(&snapshot.tables, &mut devices, &mut attributed));
    let settings = std::mem::take(&mut snapshot.settings);
    // The memory that grouping takes must not come on top of that of the events.
    drop(snapshot);
    let grouper = Grouper::new(&tables, options.group_by, &options.rules);
    for (device, attributed) in devices.iter_mut().zip(attributed) {
        device.group(attributed, &grouper);
    }
    Ok(Profile {
        source,
        recorded: None,
        raises: Vec::new(),
        bound: saved::Bound::default(),
        grouped_by: None,
        kept: None,
        settings,
        devices,
        diagnostics,
        facts: Some(grouper.code().facts()),
        options,
        tables,
    })
}

/// The stacks of the requests that failed, where they were captured.
fn failed_stacks(tables: &Tables, events: &[Event], ooms: &[Oom]) -> Vec<Option<StackId>> {
    let stack = |oom: &Oom| events.get(oom.event as usize)?.stack.filter(|stack| tables.has_frames(*stack));
    ooms.iter().map(stack).collect()
}

/// The plan for each device.
fn plans(snapshot: &Snapshot, options: &Options) -> Result<Vec<Plan>, Error> {
    // Few need it.
    let code = LazyCell::new(|| Code::new(&snapshot.tables, &options.rules));
    let plan = |(&id, device)| Plan::new(snapshot, id, snapshot.events_of(device), &code, options);
    let mut plans: Vec<Plan> = snapshot.devices.iter().map(plan).collect::<Result<_, _>>()?;
    match plans.iter_mut().find_map(|plan| plan.undivided.take()) {
        Some(error) if !plans.iter().any(Plan::has_intervals) => Err(error),
        _ => Ok(plans),
    }
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
