//! Computing the profile of a snapshot.

use std::collections::BTreeMap;
use std::sync::Arc;

use ptmem_base::diagnostic::{self, Diagnostic};
use ptmem_base::pattern::Pattern;
use ptmem_base::text::{count, cut};
use ptmem_snapshot::snapshot::{Action, Copier, Device, Event, OwnPackage, RunFacts, Snapshot, StackId, Tables};
use strum::IntoEnumIterator;

use super::{DeviceProfile, Profile, ProfileError, ReadOptions, Source, collected, guesses, phases};
use crate::replay::{self, Benchmarks, Oom, Origin, Position, PrivatePool, Replay, WantedResults, merged_pools};
use crate::stack::SnapshotCode;
use crate::tags::{DeviceTags, count_modules};
use crate::trace::Bucket;

/// Computes the profile of a snapshot, device by device.
///
/// # Errors
/// Where the file holds sums that no memory could hold, or its history cannot be divided as requested.
pub fn measure(mut snapshot: Snapshot, source: Source, options: ReadOptions) -> Result<Profile, ProfileError> {
    let mut devices = Vec::with_capacity(snapshot.devices.len());
    let mut diagnostics = Vec::new();
    let mut ignores = true;
    let tags = DeviceTags::of_devices(&mut snapshot, options.unfold);
    let first_us = snapshot.first_time();
    let ended_us = snapshot.devices.values().filter_map(|device| last_time(&snapshot, device)).max();
    let benchmarks = Benchmarks::of(&snapshot.tables);
    for (&id, device) in &snapshot.devices {
        let events = snapshot.events_of(device);
        let wanted = WantedResults {
            tags: tags.get(&id),
            layout: options.layout,
            ignore: &options.ignore,
            benchmarks: Some(&benchmarks),
        };
        let replay = replay::run_with(&snapshot, id, device, wanted)?;
        diagnostics.extend(replay.diagnostics.iter().cloned());
        ignores &= replay.ignores;
        let mut device = DeviceProfile {
            device: id,
            events: events.len() as u64,
            duration_us: duration(&snapshot, device),
            has_times: snapshot.times_of(device).any(|time| time.is_some()),
            ran_over: device.overflowed == Some(true),
            collected: collected::allocations(&snapshot, id, events),
            actions: actions(&replay, events, &snapshot.tables),
            times: times(&snapshot, device, first_us),
            failed_stacks: failed_stacks(&snapshot.tables, events, &replay.figures.ooms),
            phases: phases::measured(&snapshot, (id, device), &replay, &mut diagnostics),
            layout: replay.layout,
            private_pools: replay.private_pools,
            figures: replay.figures,
            trace: replay.trace,
            ..DeviceProfile::default()
        };
        device.at = device.place_of(&options.at, Some(&snapshot));
        devices.push(device);
    }
    diagnostics.extend(nothing_recorded(&devices));
    diagnostics.extend(not_ignored(&options.ignore, &devices));
    diagnostics.extend(not_read(&snapshot, &devices));
    let known_guesses = &options.rules.known_guesses;
    diagnostics.extend(snapshot.run.iter().flat_map(|run| remarks(run, known_guesses)));
    let tables = Arc::new(compact(&snapshot.tables, &mut devices));
    let settings = std::mem::take(&mut snapshot.settings);
    let mut run = snapshot.run.take();
    run.iter_mut().for_each(|run| count_modules(run, options.unfold));
    let ignored = if ignores { options.ignored() } else { Vec::new() };
    let mut profile = Profile {
        source,
        ignored,
        settings,
        keeps_annotations: snapshot.keeps_annotations,
        ended_us,
        devices,
        run,
        diagnostics,
        options,
        tables,
        ..Profile::default()
    };
    profile.with_devices(|profile, devices| {
        devices.iter_mut().for_each(|device| name_pools(&mut device.private_pools, &profile.code()));
    });
    let impossible = profile.impossible_figures();
    profile.diagnostics.extend(impossible);
    profile.add_passes();
    profile.divide(Some(&snapshot))?;
    // Frees the events first, so that grouping does not add to the peak.
    drop(snapshot);
    profile.group();
    Ok(profile)
}

/// The diagnostic of a snapshot in which no device does anything.
fn nothing_recorded(devices: &[DeviceProfile]) -> Option<Diagnostic> {
    let is_empty = !devices.iter().any(DeviceProfile::is_active);
    let message = "nothing is recorded and nothing is held on any device. Call \
                   torch.cuda.memory._record_memory_history() in this process before the step, and dump before disabling it";
    is_empty.then(|| Diagnostic::new(diagnostic::Code::EmptyRecording, None, message))
}

/// The diagnostic of patterns to ignore that match no phase.
fn not_ignored(ignore: &[Pattern], devices: &[DeviceProfile]) -> Option<Diagnostic> {
    let has_phase = |pattern: &&Pattern| {
        let mut phases = devices.iter().flat_map(|device| device.phases.known_or_not());
        phases.any(|phase| pattern.matches(&phase.name))
    };
    let unmatched = ignore.iter().filter(|pattern| !has_phase(pattern));
    let unmatched: Vec<String> = unmatched.map(|pattern| format!("'{}'", pattern.as_str())).collect();
    let message = format!("phases to ignore: no annotated one matches {}", unmatched.join(", "));
    (!unmatched.is_empty()).then(|| Diagnostic::new(diagnostic::Code::PhasesIgnored, None, message))
}

/// The diagnostic of keys and actions that this version does not know.
fn not_read(snapshot: &Snapshot, devices: &[DeviceProfile]) -> Option<Diagnostic> {
    let tables = &snapshot.tables;
    let keys = snapshot.unread.iter().map(|(part, name)| format!("key '{}' of {part}", cut(tables.string(*name), 64)));
    let mut parts: Vec<String> = keys.collect();
    for (name, number) in devices.iter().flat_map(|device| &device.actions) {
        if !KNOWN_ACTIONS.contains(&name.as_str()) && Action::iter().all(|known| name != <&str>::from(known)) {
            parts.push(format!("action '{name}' of {}", count(*number, "event", "events")));
        }
    }
    if parts.is_empty() {
        return None;
    }
    let message = format!("not read, because this version does not know it or its form: {}", parts.join(", "));
    Some(Diagnostic::new(diagnostic::Code::NotRead, None, message))
}

/// Actions that are known and change no memory.
const KNOWN_ACTIONS: [&str; 2] = ["annotate", "user_defined"];

/// The stacks of the requests that failed, where they were captured.
fn failed_stacks(tables: &Tables, events: &[Event], ooms: &[Oom]) -> Vec<Option<StackId>> {
    let stacks = ooms.iter().map(|oom| events.get(oom.event as usize)?.stack);
    stacks.map(|stack| stack.filter(|stack| tables.has_frames(*stack))).collect()
}

/// Maximum number of actions that have a name of their own: reports list them all.
const MOST_ACTIONS: usize = 64;

/// The longest name of an action in bytes.
const LONGEST_ACTION: usize = 64;

/// Number of events by the name of their action.
fn actions(replay: &Replay, events: &[Event], tables: &Tables) -> BTreeMap<String, u64> {
    let mut actions: BTreeMap<String, u64> = BTreeMap::new();
    for (&action, &count) in replay.actions.iter().filter(|&(&action, _)| action != Action::Other) {
        actions.insert(<&str>::from(action).to_owned(), count);
    }
    let has_others = replay.actions.contains_key(&Action::Other);
    for event in events.iter().filter(|event| has_others && event.action == Action::Other) {
        let name = cut(event.action_name(tables), LONGEST_ACTION);
        let is_listed = actions.len() < MOST_ACTIONS || actions.contains_key(name);
        *actions.entry(if is_listed { name } else { "others" }.to_owned()).or_insert(0) += 1;
    }
    actions
}

/// Microseconds from the first event to the last.
fn duration(snapshot: &Snapshot, device: &Device) -> Option<u64> {
    let first = snapshot.time_of(device, 0)?;
    u64::try_from(last_time(snapshot, device)?.checked_sub(first)?).ok()
}

/// The time of the last event.
fn last_time(snapshot: &Snapshot, device: &Device) -> Option<i64> {
    snapshot.time_of(device, device.events.len().checked_sub(1)?)
}

/// Packages with a remark of their own.
const MOST_PACKAGES: usize = 16;

/// The remarks on the run that a snapshot was recorded from, by the facts that its recorder added.
pub(super) fn remarks(run: &RunFacts, known_guesses: &[String]) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    if let Some(failure) = run.failure() {
        let message = format!("{failure}; the figures are not those of a whole run");
        found.push(Diagnostic::new(diagnostic::Code::RunIncomplete, None, message));
    }
    if let Some(idle @ 1..) = run.steps.map(|steps| steps.idle_optimizers) {
        let idle = count(idle, "optimizer", "optimizers");
        let message = format!("{idle} on the device made no step in the recorded part");
        found.push(Diagnostic::new(diagnostic::Code::OptimizersIdle, None, message));
    }
    let others: Vec<&OwnPackage> = run.packages.iter().filter(|package| !package.same).collect();
    for package in others.iter().take(MOST_PACKAGES) {
        let message = format!(
            "{} was imported from {}, and its files are not those of the checkout that the program ran in",
            package.name, package.path
        );
        found.push(Diagnostic::new(diagnostic::Code::ImportedElsewhere, None, message));
    }
    if let Some(more) = others.len().checked_sub(MOST_PACKAGES).filter(|&more| more > 0) {
        let more = count(more as u64, "more package", "more packages");
        let message = format!("the files of {more} are not those of the checkout that the program ran in");
        found.push(Diagnostic::new(diagnostic::Code::ImportedElsewhere, None, message));
    }
    found.extend(guesses::remarks(run, known_guesses));
    let told = run.to_string();
    if !told.is_empty() {
        found.push(Diagnostic::new(diagnostic::Code::RunFacts, None, told));
    }
    found
}

/// Pairs of a place and its time that are kept: equally far apart, and the last one.
const TIMES: usize = 128;

/// The times of places of a device. `first_us` is that of the first event of any device.
fn times(snapshot: &Snapshot, device: &Device, first_us: Option<i64>) -> Vec<(Position, u64)> {
    let Some(first_us) = first_us else { return Vec::new() };
    let events = device.events.len();
    let count = TIMES.min(events);
    let mut times: Vec<(Position, u64)> = Vec::with_capacity(count + 1);
    let places = (0..count).map(|i| i * events / count).chain(events.checked_sub(1));
    for place in places {
        let time = snapshot.time_of(device, place).and_then(|time| u64::try_from(time.checked_sub(first_us)?).ok());
        let is_later = times.last().is_none_or(|&(last, _)| last < Position::after(place));
        times.extend(time.filter(|_| is_later).map(|time| (Position::after(place), time)));
    }
    times
}

/// Names private pools by their first stacks, and puts those of one name together.
fn name_pools(pools: &mut Vec<PrivatePool>, code: &SnapshotCode<'_>) {
    for pool in pools.iter_mut() {
        let is_older = pool.curve.first().is_some_and(|&(_, bytes)| bytes > 0);
        let unknown = if is_older { Bucket::BeforeRecording } else { Bucket::NoFrames };
        let stack = pool.stack.take();
        pool.name = stack.map_or_else(|| unknown.label().to_owned(), |stack| code.function_label(stack));
    }
    *pools = merged_pools(std::mem::take(pools));
}

/// The tables reduced to the entries that the classes refer to: a profile is small although the
/// snapshot is not, and is the same whether it comes from the snapshot or from a file that it was saved to.
fn compact(from: &Tables, devices: &mut [DeviceProfile]) -> Tables {
    let mut to = Tables::default();
    let mut copy = Copier::new(from, &mut to);
    for device in devices {
        for class in &mut device.trace.classes {
            if let Origin::Stack(stack) = &mut class.origin {
                *stack = copy.stack(*stack);
            }
            class.tags = class.tags.map(|tag| copy.string(*tag));
        }
        device.copy_failed_stacks(&mut copy);
    }
    to
}
