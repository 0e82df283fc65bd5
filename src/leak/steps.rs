//! Leaks within one snapshot: what nearly every step leaves behind.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::slope::{rounded, slope};
use super::{
    DeviceLeaks, FRAGMENTATION, Failure, Growth, Leak, LeakMetric, Mode, Options, Point, Search, WORTH_TELLING,
};
use crate::diagnostic::{self, Diagnostic};
use crate::phase::steps::{self, How, Step, Steps, Wanted};
use crate::phase::{Phase, phases};
use crate::profile::{Held, Identity, Origins, Source, identity};
use crate::replay::{self, Allocation, History, Level, Origin, Position, Replay};
use crate::snapshot::{Action, Device, Event, Snapshot, StackId, StringId, Tables};
use crate::stack::{Code, GroupBy, Grouper, Key, Rules, distinct_labels};
use crate::units::Size;

/// Unless something else is asked for, the first step is warm-up: caches fill and the optimizer makes its state.
const WARM_UP: usize = 1;

/// Fewer steps than these tell a leak from nothing.
const FEWEST: usize = 3;

/// Looks for leaks in one snapshot.
///
/// A block counts as left behind if it is held at the dump and has already outlived, in steps, every block of the
/// same stack that was freed: what lives for some steps by design is no leak, nor are the last step's own tensors. A
/// stack leaks if it left blocks behind in nearly every step that can tell, and still does.
///
/// # Errors
/// Where the file holds sums that no memory could hold.
pub fn search(mut snapshot: Snapshot, source: Source, options: &Options) -> Result<Search, replay::Error> {
    let mut origins = Origins::of_devices(&mut snapshot, options.group_by);
    let grouper = Grouper::new(&snapshot.tables, options.group_by, &options.rules);
    let (mut devices, mut diagnostics) = (Vec::new(), Vec::new());
    for (&id, device) in &snapshot.devices {
        let events = snapshot.events_of(device);
        let phases = phases(&snapshot, events);
        let steps = steps::find(events, &phases, grouper.code(), &options.steps);
        let borders = steps.as_ref().map(Steps::borders).unwrap_or_default();
        let replay = replay::run(&snapshot, id, device, &borders)?;
        if events.is_empty() && replay.figures.active.end == 0 {
            continue;
        }
        diagnostics.extend(replay.diagnostics.iter().cloned());
        let request = failed_request(&snapshot, events, &options.rules);
        let failure = Failure::new(&replay.figures.ooms, request, options);
        let has_history = replay.figures.history == History::Recorded;
        let found = match steps.filter(|_| has_history) {
            Some(steps) => {
                let of_device = origins.remove(&id).unwrap_or_default();
                let view = StepsView { snapshot: &snapshot, device, id, replay: &replay, origins: &of_device };
                let mut found = of_steps(&view, &steps, &grouper, options);
                let peak = replay.figures.allocated.peak;
                if found.unclear.is_none() {
                    found.growth = growth(&found, peak, options);
                    diagnostics.extend(found.add_fragmentation(options));
                    diagnostics.extend(unexplained(&found, options));
                }
                found
            }
            None => DeviceLeaks {
                failure: None,
                device: id,
                how: None,
                points: Vec::new(),
                skip: 0,
                judged: 0,
                leaks: Vec::new(),
                growth: Growth::default(),
                unclear: Some(no_steps(has_history, &phases, &snapshot.tables, &options.steps)),
            },
        };
        devices.push(DeviceLeaks { failure, ..found });
    }
    drop(grouper);
    // Without a leak there is no stack to show.
    let leaks = devices.iter().any(|device| !device.leaks.is_empty());
    Ok(Search {
        name: None,
        rank: None,
        sources: vec![source],
        mode: Mode::Steps,
        devices,
        diagnostics,
        group_by: options.group_by,
        tables: Arc::new(if leaks { snapshot.tables } else { Tables::default() }),
        rules: options.rules.clone(),
    })
}

/// The label of the stack whose request was the first to fail, where it was captured.
fn failed_request(snapshot: &Snapshot, events: &[Event], rules: &Rules) -> Option<String> {
    let failed = events.iter().find(|event| event.action == Action::Oom)?;
    let stack = failed.stack.filter(|stack| snapshot.tables.has_frames(*stack))?;
    Some(Grouper::new(&snapshot.tables, GroupBy::Stack, rules).label(stack))
}

impl DeviceLeaks {
    /// A total at the end of each step that counts; `None` where one of them is not known. The last step is still in use.
    fn totals(&self, value: fn(&Point) -> Option<u64>) -> Option<Vec<u64>> {
        let until = self.points.len().saturating_sub(1);
        self.points.get(self.skip..until).unwrap_or_default().iter().map(value).collect()
    }
}

/// How the totals grow from step to step.
fn growth(found: &DeviceLeaks, peak: Option<u64>, options: &Options) -> Growth {
    let slope_of = |value: fn(&Point) -> Option<u64>| slope(&found.totals(value)?);
    let growth = Growth {
        allocated: slope_of(|point| point.allocated),
        reserved: slope_of(|point| point.reserved),
        fragmentation: slope_of(|point| point.fragmentation),
        runs_out_after: None,
    };
    let last = found.points.len().checked_sub(2).and_then(|last| found.points.get(last));
    growth.with_end(options, last, peak)
}

impl DeviceLeaks {
    /// Adds reserved memory that nothing uses and that grows, as a series has it, and a remark on it. There is the remark alone where
    /// the steps are nothing but equal parts of the history, in which something may be built up, and where the steps need the pool.
    fn add_fragmentation(&mut self, options: &Options) -> Option<Diagnostic> {
        let reserved = steady_gain(&self.totals(|point| point.reserved)?, options)?;
        let unused = self.totals(|point| point.fragmentation)?;
        let gain = steady_gain(&unused, options)?;
        let per_step = self.growth.fragmentation.filter(|_| gain.bytes * 2 > reserved.bytes)?;
        let message = format!(
            "reserved bytes that nothing uses grow by {} per step, {} in all. The pool grows although what is allocated does \
             not; look at sizes that vary, or set expandable_segments",
            crate::units::Delta(per_step).to_string().trim_start_matches('+'),
            Size(gain.bytes),
        );
        if self.how != Some(How::Windows) && self.pool_outgrows_need(options) {
            self.leaks.push(Leak {
                metric: LeakMetric::Fragmentation,
                label: FRAGMENTATION.to_owned(),
                key: FRAGMENTATION.to_owned(),
                bucket: None,
                stack: None,
                also: Vec::new(),
                bytes: gain.bytes.into(),
                blocks: 0,
                bytes_per_step: per_step,
                since: None,
                grew: gain.grew,
                judged: unused.len() - 1,
                end: Held { bytes: unused.last().copied().unwrap_or_default(), blocks: 0 },
                course: unused,
            });
        }
        Some(Diagnostic::new(diagnostic::Code::FragmentationGrows, Some(self.device), message))
    }
}

impl DeviceLeaks {
    /// True if the pool grows beyond the most that any step needs: what steps of growing size leave free at their end is used within
    /// them.
    fn pool_outgrows_need(&self, options: &Options) -> bool {
        let unneeded = self.totals(|point| Some(point.reserved?.saturating_sub(point.active_peak?)));
        let reserved = self.totals(|point| point.reserved);
        let gains = unneeded.zip(reserved).filter(|(values, _)| values.len() > FEWEST);
        gains.is_some_and(|(unneeded, reserved)| {
            let gains = steady_gain(&unneeded, options).zip(steady_gain(&reserved, options));
            gains.is_some_and(|(unneeded, reserved)| unneeded.bytes * 2 > reserved.bytes)
        })
    }
}

/// The growth of something that grew in nearly every step.
struct Gain {
    bytes: u64,
    /// In so many steps it grew.
    grew: usize,
}

/// Bytes gained by something that grew in nearly every step; `None` where that is not worth a remark.
fn steady_gain(values: &[u64], options: &Options) -> Option<Gain> {
    let bytes = values.last()?.checked_sub(*values.first()?)?;
    let grew = values.windows(2).filter(|pair| pair[1] > pair[0]).count();
    let is_leak = bytes >= options.min_growth.unwrap_or(WORTH_TELLING) && options.is_steady(grew, values.len() - 1);
    is_leak.then_some(Gain { bytes, grew })
}

/// A remark where more grows than what leaks, such as one buffer that is made anew and larger in every step.
fn unexplained(found: &DeviceLeaks, options: &Options) -> Option<Diagnostic> {
    let until = found.points.len().checked_sub(1)?;
    let counted = found.points.get(found.skip..until)?;
    let held = counted.iter().map(|point| point.allocated).collect::<Option<Vec<u64>>>()?;
    let gained = i128::from(*held.last()?) - i128::from(*held.first()?);
    let of_stacks: Vec<&Leak> = found.leaks.iter().filter(|leak| leak.metric == LeakMetric::Allocated).collect();
    let rest = gained - of_stacks.iter().map(|leak| leak.bytes).sum::<i128>();
    let grew = held.windows(2).filter(|pair| pair[1] > pair[0]).count();
    let never_falls = held.windows(2).all(|pair| pair[1] >= pair[0]);
    // Steps are not all alike to the byte.
    let matters = rest > i128::from(*held.iter().max()?) / 100 || of_stacks.is_empty() && rest > 0;
    // Memory that fills and then stays is a cache.
    let goes_on = held.last() > held.get(held.len() / 2);
    if !matters || !goes_on || !never_falls && !options.is_steady(grew, held.len() - 1) {
        return None;
    }
    let step = found.nouns(Mode::Steps).one;
    let message = format!(
        "allocated bytes grow by {} from {step} to {step} that no stack leaves behind: something may be made anew and \
         larger each time, or grow in fewer of them. A series of snapshots shows what",
        Size(u64::try_from(rounded(rest, (held.len() - 1).max(1) as i128)).unwrap_or_default()),
    );
    Some(Diagnostic::new(diagnostic::Code::AllocatedGrows, found.device, message))
}

/// Why there are no steps.
fn no_steps(has_history: bool, phases: &[Phase], tables: &Tables, wanted: &Wanted) -> String {
    let pattern = match wanted {
        Wanted::Named(pattern) if has_history => pattern,
        _ => return "the snapshot has no history of allocations; give two or more snapshots".to_owned(),
    };
    let names: BTreeSet<&str> = phases.iter().map(|phase| crate::text::cut(tables.string(phase.name), 64)).collect();
    let near = crate::text::nearest(pattern.as_str(), "name", names.iter().copied());
    let near = if near.is_empty() { "; there are none".to_owned() } else { near };
    format!("no annotation or metadata matches the step '{}'{near}", pattern.as_str())
}

/// The memory that one group of stacks left behind.
#[derive(Default)]
struct Left {
    identity: Option<Identity>,
    /// By exact stack.
    stacks: FxHashMap<Origin, Held>,
    /// By step.
    steps: BTreeMap<usize, Held>,
    /// The longest, in steps, that blocks of these stacks live by design.
    lifetime: usize,
    end: Held,
}

/// A device whose steps are looked at.
struct StepsView<'s> {
    snapshot: &'s Snapshot,
    device: &'s Device,
    /// Its ordinal.
    id: u32,
    replay: &'s Replay,
    origins: &'s Origins,
}

fn of_steps(view: &StepsView<'_>, steps: &Steps, grouper: &Grouper<'_>, options: &Options) -> DeviceLeaks {
    let &StepsView { snapshot, device, id, replay, .. } = view;
    let events = snapshot.events_of(device);
    let known = replay.figures.reserved.peak.is_some();
    let parts: FxHashMap<Position, _> = replay.parts.iter().map(|part| (part.from, part)).collect();
    let point = |step: &Step| {
        let part = parts.get(&step.from);
        let end = part.map(|part| part.end);
        Point {
            name: step.name.clone(),
            allocated: end.map(|level| level.allocated),
            reserved: end.filter(|_| known).map(|level| level.reserved),
            fragmentation: end.filter(|_| known).map(Level::fragmentation),
            active_peak: part.map(|part| part.peak.active),
        }
    };
    let count = steps.steps.len();
    let skip = options.skip.unwrap_or(WARM_UP);
    let last = count.saturating_sub(1);
    let judged = last.saturating_sub(skip);
    let mut found = DeviceLeaks {
        device: id,
        how: Some(steps.how.clone()),
        points: steps.steps.iter().map(point).collect(),
        skip,
        judged,
        leaks: Vec::new(),
        growth: Growth::default(),
        unclear: None,
        failure: None,
    };
    if judged < FEWEST {
        found.unclear = Some(format!(
            "the history has {}, of which {} can tell: neither warm-up nor the last one. {FEWEST} are needed; record \
             more steps, or give two or more snapshots",
            crate::text::count(count as u64, "step", "steps"),
            if judged == 0 { "none".to_owned() } else { judged.to_string() },
        ));
        return found;
    }
    if !steps.are_plausible(events, grouper.code()) {
        found.unclear = Some(
            "no steps were found in the history: it looks like less than a few steps. Record more of them, annotate them \
             (torch.profiler.record_function) and name them with --step, or give two or more snapshots"
                .to_owned(),
        );
        return found;
    }
    let (leaks, short) = leaks(view, steps, grouper, options, skip);
    let leaked: i128 = leaks.iter().map(|leak| leak.bytes).sum();
    if leaked > 0 && steps.are_guessed(events, grouper.code()) && steps.go_through_sizes(events) {
        found.unclear = Some(
            "the steps are a guess, and nearly all they allocate gets larger or smaller from one to the next: what stays may \
             belong to one size each, such as graphs that are captured. Annotate the steps (torch.profiler.record_function) \
             and name them with --step, or give two or more snapshots"
                .to_owned(),
        );
        return found;
    }
    if leaked * 4 > allocated_in(replay, steps, skip..last) && steps.are_guessed(events, grouper.code()) {
        found.unclear = Some(
            "the steps are a guess, and much of what they allocate stays: something is built up, such as the layers of a \
             model or an answer, or leaks. Annotate the steps (torch.profiler.record_function) and name them with --step, \
             or give two or more snapshots"
                .to_owned(),
        );
        return found;
    }
    found.leaks = leaks;
    if let (Some(label), true) = (short, found.leaks.is_empty()) {
        found.unclear = Some(format!(
            "{label} leaves blocks behind that live for some steps, and fewer than {FEWEST} steps are left that can tell; \
             record more steps, or give two or more snapshots"
        ));
    }
    found
}

/// Bytes that are allocated in some of the steps.
fn allocated_in(replay: &Replay, steps: &Steps, judged: std::ops::Range<usize>) -> i128 {
    let inside = replay.allocations.iter().filter(|allocation| allocation.born != Position::START);
    let counted = inside.filter(|allocation| steps.at(allocation.born).is_some_and(|step| judged.contains(&step)));
    counted.map(|allocation| i128::from(allocation.bytes)).sum()
}

/// The identity of blocks: their stack, and the tag that they are grouped by.
type Attribution = (Origin, Option<StringId>);

fn leaks(
    view: &StepsView<'_>,
    steps: &Steps,
    grouper: &Grouper<'_>,
    options: &Options,
    skip: usize,
) -> (Vec<Leak>, Option<String>) {
    let &StepsView { snapshot, device, replay, origins, .. } = view;
    let events = snapshot.events_of(device);
    let last = steps.steps.len().saturating_sub(1);
    let inside = |allocation: &&Allocation| allocation.born != Position::START && allocation.born < replay.dump;
    let attribution = |allocation: &Allocation| -> Attribution {
        let event = allocation.born.event().and_then(|index| events.get(index as usize));
        let tags = event.map(|event| snapshot.tables.tags(event.tags));
        let tag = tags.and_then(|tags| options.group_by.tag(tags));
        (allocation.origin(snapshot), tag.or_else(|| origins.name(allocation, event, snapshot)))
    };
    // How long, in steps, blocks of a stack live that are freed.
    let mut lifetimes: FxHashMap<Attribution, usize> = FxHashMap::default();
    let mut survivors: FxHashMap<Attribution, BTreeMap<usize, Held>> = FxHashMap::default();
    for allocation in replay.allocations.iter().filter(inside) {
        let Some(step) = steps.at(allocation.born) else { continue };
        if allocation.allocated_at(replay.dump) {
            let held = survivors.entry(attribution(allocation)).or_default().entry(step).or_default();
            *held = held.plus(Held { bytes: allocation.bytes, blocks: 1 });
        } else {
            // Blocks that are given up at the very end say nothing about how long such blocks live.
            let Some(freed) = steps.at(allocation.freed).filter(|&freed| freed < last) else { continue };
            let lifetime = lifetimes.entry(attribution(allocation)).or_default();
            *lifetime = (*lifetime).max(freed.saturating_sub(step));
        }
    }
    let replaced = Replaced::new(replay, steps, skip, last);
    let mut groups: BTreeMap<Key, Left> = BTreeMap::new();
    for (&(origin, tag), by_step) in &survivors {
        if matches!(origin, Origin::Stack(stack) if is_state_of_optimizer(grouper.code(), stack)) {
            continue;
        }
        let lifetime = lifetimes.get(&(origin, tag)).copied().unwrap_or(0);
        let group = identity(origin, tag, grouper);
        let left = groups.entry(group.key.clone()).or_default();
        left.end = by_step.values().fold(left.end, |sum, &held| sum.plus(held));
        // Those of the last steps may still be freed as the others were.
        let until = last.saturating_sub(lifetime);
        let evidence: Vec<_> = by_step.range(skip..until.max(skip)).collect();
        if evidence.is_empty() || replaced.replaces(&evidence, until.saturating_sub(skip), options) {
            continue;
        }
        left.lifetime = left.lifetime.max(lifetime);
        left.identity.get_or_insert(group);
        for (&step, &held) in evidence {
            let (sum, stack) = (left.steps.entry(step).or_default(), left.stacks.entry(origin).or_default());
            (*sum, *stack) = (sum.plus(held), stack.plus(held));
        }
    }
    let few = |left: &Left| {
        let judged = last.saturating_sub(left.lifetime).saturating_sub(skip);
        left.lifetime > 0 && judged < FEWEST && left.steps.len() >= judged.max(1)
    };
    let short = groups.values().find(|left| few(left)).and_then(|left| Some(left.identity.as_ref()?.label.clone()));
    let mut leaks: Vec<Leak> =
        groups.into_values().filter_map(|left| left.leak(grouper, last, skip, options)).collect();
    tell_apart(&mut leaks, grouper);
    super::sort(&mut leaks);
    (leaks, short)
}

/// The bytes that steps and those before them left behind.
fn course(steps: &[(usize, Held)], judged: std::ops::Range<usize>) -> Vec<u64> {
    let by_step: BTreeMap<usize, u64> = steps.iter().map(|(step, held)| (*step, held.bytes)).collect();
    let mut sum: u64 = 0;
    let mut course = Vec::with_capacity(judged.len());
    for step in judged {
        sum = sum.saturating_add(by_step.get(&step).copied().unwrap_or(0));
        course.push(sum);
    }
    course
}

/// Gives leaks of one label different ones.
fn tell_apart(leaks: &mut [Leak], grouper: &Grouper<'_>) {
    let mut by_label: BTreeMap<String, Vec<(usize, StackId)>> = BTreeMap::new();
    for (index, leak) in leaks.iter().enumerate() {
        by_label.entry(leak.label.clone()).or_default().extend(leak.stack.map(|stack| (index, stack)));
    }
    for (label, alike) in by_label.into_iter().filter(|(_, alike)| alike.len() > 1) {
        let stacks: Vec<_> = alike.iter().map(|(_, stack)| (grouper, *stack)).collect();
        for ((index, _), label) in alike.iter().zip(distinct_labels(&label, &stacks)) {
            leaks[*index].label = label;
        }
    }
}

/// True if an optimizer makes its state there, once for each parameter, however many steps that takes.
fn is_state_of_optimizer(code: &Code<'_>, stack: StackId) -> bool {
    code.python(stack).any(|frame| code.function(frame) == "_init_group" && code.file(frame).contains("torch/optim/"))
}

/// Blocks from before the history that are freed in it. Where each step frees as many of them as it leaves behind of the
/// same size, a window is full that was filled before the recording began: nothing grows.
struct Replaced {
    /// By size: in how many steps, and how many blocks.
    sizes: FxHashMap<u64, (BTreeSet<usize>, u64)>,
}

impl Replaced {
    fn new(replay: &Replay, steps: &Steps, skip: usize, last: usize) -> Self {
        let mut sizes: FxHashMap<u64, (BTreeSet<usize>, u64)> = FxHashMap::default();
        for old in replay.allocations.iter().filter(|allocation| allocation.born == Position::START) {
            let Some(step) = steps.at(old.freed).filter(|step| (skip..=last).contains(step)) else { continue };
            if old.freed < replay.dump {
                let (steps, blocks) = sizes.entry(old.bytes).or_default();
                steps.insert(step);
                *blocks += 1;
            }
        }
        Self { sizes }
    }

    /// True if such blocks make up for what was left behind.
    fn replaces(&self, left: &[(&usize, &Held)], judged: usize, options: &Options) -> bool {
        // The blocks that one stack leaves behind are nearly always equal.
        let (bytes, blocks) = left.iter().fold((0, 0), |(a, b), (_, held)| (a + held.bytes, b + held.blocks));
        let Some(size) = bytes.checked_div(blocks).filter(|size| size * blocks == bytes) else { return false };
        let Some((steps, freed)) = self.sizes.get(&size) else { return false };
        options.is_steady(steps.len(), judged) && freed * 10 >= blocks * 8
    }
}

impl Left {
    /// The leak that this is, if it is one.
    fn leak(self, grouper: &Grouper<'_>, last: usize, skip: usize, options: &Options) -> Option<Leak> {
        let identity = self.identity?;
        let until = last.saturating_sub(self.lifetime);
        let judged = until.checked_sub(skip).filter(|&judged| judged >= FEWEST)?;
        let steps: Vec<(usize, Held)> = self.steps.into_iter().filter(|(step, _)| *step < until).collect();
        let held = steps.iter().fold(Held::default(), |sum, (_, held)| sum.plus(*held));
        // Growth that stopped is no leak.
        let goes_on = steps.last().is_some_and(|(step, _)| step + 2 >= until);
        if !goes_on || !options.is_steady(steps.len(), judged) || held.bytes < options.min_growth.unwrap_or(1) {
            return None;
        }
        // The stack that left most names the group; of equal ones the first by name.
        let stack_of = |origin: &Origin| match origin {
            Origin::Stack(stack) => Some(*stack),
            _ => None,
        };
        let mut stacks: Vec<(Held, String, StackId)> = self
            .stacks
            .iter()
            .filter_map(|(origin, held)| stack_of(origin).map(|stack| (*held, grouper.label(stack), stack)))
            .collect();
        stacks.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)).then_with(|| a.2.cmp(&b.2)));
        let stack = stacks.first().map(|(_, _, stack)| *stack);
        let names = Leak::names(stacks.into_iter().map(|(_, label, _)| label));
        let (label, also) = names.filter(|_| !grouper.by().is_tag()).unwrap_or((identity.label, Vec::new()));
        Some(Leak {
            metric: LeakMetric::Allocated,
            label,
            key: identity.key.0,
            bucket: identity.bucket,
            stack,
            also,
            bytes: i128::from(held.bytes),
            blocks: i128::from(held.blocks),
            bytes_per_step: rounded(i128::from(held.bytes), judged as i128),
            since: None,
            grew: steps.len(),
            judged,
            end: self.end,
            course: course(&steps, skip..until),
        })
    }
}
