//! Leaks within one snapshot: what nearly every step leaves behind.

mod cycles;
mod late;
mod left;
mod totals;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ptmem_base::diagnostic::Advice;
use ptmem_trace::phase::Occurrence;
use ptmem_trace::phase::steps::{self, AllocationCourse, BuiltUp, Steps, WantedSteps};
use ptmem_trace::profile::{DeviceProfile, HistoryKind, Identity, Position, Profile, identity};
use ptmem_trace::stack::{Grouper, Key, tell_apart};
use ptmem_trace::trace::{Life, Window};

use super::{DeviceLeaks, FailedRequests, Leak, LeakMetric, LeakOptions, Mode, Search, SeriesPoint, UnclearLeaks};
use crate::leak::leaking::sort;
use left::LeftMemory;

/// By default, the first step is warm-up: caches fill and the optimizer makes its state. Needed for
/// benches/regressions/video_decoder.py.
const WARM_UP: usize = 1;

/// Steps that are needed to recognise a leak: those of the fewest that are neither warm-up nor the last.
const FEWEST: usize = steps::FEWEST - WARM_UP - 1;

/// Where steps are a guess and leave more than this percentage of what they allocate behind, they may build something. Needed for
/// `converted` of crates/simulate/tests/torch/programs.py.
const MOST_LEFT: i128 = 25;

/// Looks for leaks in one snapshot, or in a saved profile.
///
/// A block counts as left behind if it is held at the beginning of the last step and has already outlived, in steps,
/// every block of the same stack that was freed: blocks that live for some steps by design do not leak, nor do the last
/// step's own tensors. A stack leaks if it left blocks behind in nearly every step that counts, or the same after every
/// N of them, and still does.
pub fn search(profile: &Profile, options: &LeakOptions) -> Search {
    let grouper = profile.grouper();
    let mut devices = Vec::new();
    let mut diagnostics = profile.diagnostics.clone();
    for device in &profile.devices {
        if !may_leak(profile, device, options) {
            continue;
        }
        let marks = device.phases.marks();
        let steps = steps::find(&profile.course(device), &marks, grouper.code(), &options.steps);
        let mut found = match steps.filter(|_| device.has_moves()) {
            Some(steps) => {
                let judged = TrustedSteps::new(&steps, options);
                let lives = device.trace.lives();
                DeviceSteps { profile, device, lives, steps: &steps, judged, grouper: &grouper, options }.find_leaks()
            }
            None => DeviceLeaks {
                device: device.device,
                unclear: Some(no_steps(profile, device, &marks, &options.steps).into()),
                ..DeviceLeaks::default()
            },
        };
        found.budget = options.device_memory.map(|memory| memory.budget(profile.run.as_ref(), device.device));
        if found.how.is_some() && found.unclear.is_none() {
            diagnostics.extend(found.add_totals(device.figures.allocated.peak, options));
            diagnostics.extend(cycles::remark(device, &found));
        }
        found.failure = FailedRequests::of(device).filter(|_| !options.allow_oom);
        devices.push(found);
    }
    Search::new(Mode::Steps, profile, devices, diagnostics)
}

/// Whether a device is searched: not one that allocates nothing while another one does, unless memory ran out on it.
fn may_leak(profile: &Profile, device: &DeviceProfile, options: &LeakOptions) -> bool {
    let is_idle = device.is_numbers() || device.allocates_nothing() && profile.allocates();
    let ran_out = device.ran_out_of_memory() && !options.allow_oom;
    device.is_gated() && (!is_idle || ran_out)
}

/// Why there are no steps.
fn no_steps(profile: &Profile, device: &DeviceProfile, marks: &[&Occurrence], wanted: &WantedSteps) -> String {
    if device.figures.allocation_count == 0 && profile.allocates() {
        return "nothing is allocated on this device in the recorded part".to_owned();
    }
    let pattern = match wanted {
        WantedSteps::Named(pattern) if device.figures.history == HistoryKind::Recorded => pattern,
        _ => return "the snapshot has no history of allocations; give two or more snapshots".to_owned(),
    };
    let names: BTreeSet<Arc<str>> = marks.iter().map(|mark| mark.whole_name()).collect();
    let names: BTreeSet<&str> = names.iter().map(|name| ptmem_base::text::cut(name, 64)).collect();
    let near = pattern.unmatched("name", names.into_iter());
    let near = if near.is_empty() { "; there are none".to_owned() } else { near };
    format!("no annotation or metadata matches the step '{}'{near}", pattern.as_str())
}

/// The steps that can show a leak.
#[derive(Clone, Copy)]
struct TrustedSteps {
    /// The first of them: those before are warm-up.
    from: usize,
    /// The last step, which is none of them: its tensors are still in use.
    last: usize,
}

impl TrustedSteps {
    fn new(steps: &Steps, options: &LeakOptions) -> Self {
        Self { from: options.skip.unwrap_or(WARM_UP), last: steps.steps.len().saturating_sub(1) }
    }

    fn count(self) -> usize {
        self.last.saturating_sub(self.from)
    }

    /// The step before which blocks have outlived others, of which the longest lives this many steps: later ones may
    /// still be freed.
    fn until(self, lifetime: usize) -> usize {
        self.last.saturating_sub(lifetime)
    }
}

/// A device whose steps are examined.
struct DeviceSteps<'s> {
    profile: &'s Profile,
    device: &'s DeviceProfile,
    lives: Vec<Life>,
    steps: &'s Steps,
    judged: TrustedSteps,
    grouper: &'s Grouper<'s>,
    options: &'s LeakOptions,
}

impl DeviceSteps<'_> {
    /// The allocations of the device. Not kept: beside what steps leave behind they would take most memory.
    fn course(&self) -> AllocationCourse {
        self.profile.course(self.device)
    }

    fn find_leaks(&self) -> DeviceLeaks {
        let mut found = DeviceLeaks {
            how: Some(self.steps.how.clone()),
            points: self.points(),
            skip: self.judged.from,
            judged: self.judged.count(),
            min_growth: self.options.min_growth,
            device: self.device.device,
            in_cycles: self.in_cycles(),
            collected_later: self.collected_later(),
            ..DeviceLeaks::default()
        };
        let usable = self.require_steps();
        let left = self.left_behind();
        let leaking = left.values().filter(|left| left.metric == LeakMetric::Allocated);
        found.left_in = leaking.clone().filter_map(LeftMemory::count).max().unwrap_or_default();
        let late = leaking.filter_map(LeftMemory::late_growth);
        found.late = late.collect();
        found.late.sort_by_key(|late| Reverse(late.bytes));
        let leaks = usable.and_then(|()| self.leaks(left));
        match leaks.and_then(|leaks| self.require_no_guess(&leaks).map(|()| leaks)) {
            Ok(leaks) => {
                found.grows_most = self.grows_most(&leaks);
                if !leaks.iter().any(|leak| leak.metric == LeakMetric::Allocated) {
                    let ends = found.totals(|point| point.allocated);
                    let ends_with_more = ends.is_some_and(|ends| ends.last() > ends.first());
                    found.sizes_grow = ends_with_more
                        && self.steps.sizes_rise(&self.course(), self.grouper.code())
                        && !self.keeps_more();
                }
                found.leaks = leaks;
            }
            Err(unclear) => found.unclear = Some(unclear),
        }
        found
    }

    fn points(&self) -> Arc<[SeriesPoint]> {
        let mut borders = self.steps.borders();
        borders.push(self.device.trace.end());
        let windows: Vec<Window> = borders.windows(2).map(|ends| Window { from: ends[0], to: ends[1] }).collect();
        let parts = self.device.trace.parts(&windows);
        let is_reserved_known = self.device.figures.reserved.peak.is_some();
        let points = self.steps.steps.iter().zip(parts).map(|(step, part)| SeriesPoint {
            name: step.name.clone(),
            allocated: Some(part.end.allocated),
            reserved: is_reserved_known.then_some(part.end.reserved),
            fragmentation: is_reserved_known.then_some(part.end.fragmentation()),
            active_peak: Some(part.peak.active),
        });
        points.collect()
    }

    /// Requires enough steps, and parts of the history that may be steps; the error is the reason why leaks are not
    /// clear.
    fn require_steps(&self) -> Result<(), UnclearLeaks> {
        if self.judged.count() < FEWEST {
            return Err(format!(
                "the history has {}, of which {} count (warm-up and the last one do not). {FEWEST} are needed; record \
                 more steps, or give two or more snapshots",
                ptmem_base::text::count(self.steps.steps.len() as u64, "step", "steps"),
                if self.judged.count() == 0 { "none".to_owned() } else { self.judged.count().to_string() },
            )
            .into());
        }
        let course = self.course();
        if !self.steps.are_plausible(&course, self.grouper.code()) {
            return Err(UnclearLeaks { lacks_steps: true, ..self.unnamed(&self.no_steps_found(&course)) });
        }
        Ok(())
    }

    /// Why the history has no steps. Where calls are not noted and nothing else allocates, calls of a model look like the layers
    /// of one call.
    fn no_steps_found(&self, course: &AllocationCourse) -> String {
        let why = match (&course.called, Steps::recurs_in_calls(course, self.grouper.code())) {
            (Some(module), Some(_)) => format!(
                "{}, the outermost module, is called {}{}",
                module.name,
                ptmem_base::text::count(module.count() as u64, "time", "times"),
                if module.is_called_enough() { ", which does not divide it" } else { "; record more calls" }
            ),
            (None, Some((stack, count))) => format!(
                "{} allocates {count} times within calls of modules, which may be calls of the model, each a step, or layers of one \
                 call: recordings of ptmem_gate.record() and of simulated GPUs say which",
                self.grouper.code().label(stack)
            ),
            (_, None) => "it seems to be shorter than a few steps; record more".to_owned(),
        };
        format!("no steps were found in the history: {why}")
    }

    /// A reason, with the ways to name steps: a release without annotations cannot name any.
    fn unnamed(&self, reason: &str) -> UnclearLeaks {
        if self.profile.keeps_annotations {
            let reason =
                format!("{reason}. Annotate the steps (torch.profiler.record_function), or give two or more snapshots");
            return UnclearLeaks { reason, advice: Some(Advice::NameSteps), lacks_steps: false };
        }
        let reason = format!(
            "{reason}. Give two or more snapshots: only PyTorch 2.5 and later keep the names of annotated steps"
        );
        reason.into()
    }

    /// The stacks that leak, or the reason why that is not clear.
    fn leaks(&self, left: BTreeMap<(LeakMetric, Key), LeftMemory<'_>>) -> Result<Vec<Leak>, UnclearLeaks> {
        let leaking = left.values().filter(|left| left.metric == LeakMetric::Allocated);
        let short = leaking.filter(|left| left.is_too_short()).map(LeftMemory::label).next();
        let leaks = left.into_values().filter_map(LeftMemory::leak);
        let mut leaks: Vec<Leak> = leaks.collect();
        tell_apart(&mut leaks, |leak| &mut leak.label, |leak| Some((Key(leak.key.clone()), self.grouper, leak.stack?)));
        sort(&mut leaks);
        match short {
            Some(label) if leaks.is_empty() => Err(format!(
                "{label} leaves blocks behind that live for some steps, and fewer than {FEWEST} steps remain to judge \
                 them; record more steps, or give two or more snapshots"
            )
            .into()),
            _ => Ok(leaks),
        }
    }

    /// Whether more is held at the end of the last step that counts than at that of the first, by blocks that are older than
    /// that step.
    fn keeps_more(&self) -> bool {
        let [first, last] = [self.judged.from, self.judged.last.saturating_sub(1)].map(|step| self.older_at_end(step));
        first.zip(last).is_none_or(|(first, last)| last > first)
    }

    /// Bytes that are held at the end of a step by older blocks.
    fn older_at_end(&self, step: usize) -> Option<i128> {
        let from = self.steps.steps.get(step)?.from;
        let to = self.steps.steps.get(step + 1)?.from;
        let older = self.lives.iter().filter(|life| life.born <= from && to < life.freed);
        Some(older.map(|life| i128::from(self.device.trace.classes[life.class as usize].bytes)).sum())
    }

    /// The label of the stack that holds more at the end of the last step that counts than at that of the first: the
    /// one that gained most of those that do not leak.
    fn grows_most(&self, leaks: &[Leak]) -> Option<String> {
        let first = self.steps.steps.get(self.judged.from + 1)?.from;
        let last = self.steps.steps.get(self.judged.last)?.from;
        let [first, last] = [first, last].map(|at| self.uncollected_at(at));
        let mut groups: BTreeMap<Key, BTreeMap<String, i128>> = BTreeMap::new();
        for (class, (first, last)) in self.device.trace.classes.iter().zip(first.into_iter().zip(last)) {
            let gain = i128::from(class.bytes) * (i128::from(last) - i128::from(first));
            if gain != 0 {
                let Identity { key, label, .. } = identity(class, self.grouper);
                *groups.entry(key).or_default().entry(label).or_default() += gain;
            }
        }
        leaks.iter().for_each(|leak| _ = groups.remove(&Key(leak.key.clone())));
        let gained = groups.into_values().map(|labels| (labels.values().sum::<i128>(), labels));
        let (_, labels) = gained.max_by_key(|(gain, _)| *gain).filter(|(gain, _)| *gain > 0)?;
        labels.into_iter().rev().max_by_key(|(_, gain)| *gain).map(|(label, _)| label)
    }

    /// Refuses leaks that may belong to something else than steps, where these are a guess.
    fn require_no_guess(&self, leaks: &[Leak]) -> Result<(), UnclearLeaks> {
        // Memory that came back leaks nothing, whatever the rounds are.
        let leaks: Vec<&Leak> = leaks.iter().filter(|leak| leak.metric == LeakMetric::Allocated).collect();
        let leaked: i128 = leaks.iter().map(|leak| leak.bytes).sum();
        if leaked <= 0 {
            return Ok(());
        }
        let course = self.course();
        if !self.steps.are_guessed(&course, self.grouper.code()) {
            return Ok(());
        }
        if self.steps.go_through_sizes(&course, self.grouper.code()) {
            return Err(self.unnamed(
                "the steps are a guess, and many sizes grow or shrink from step to step: memory that stays may belong \
                 to one of the sizes, as that of captured graphs does",
            ));
        }
        if let Some(stack) = self.steps.growing(&course) {
            return Err(self.unnamed(&format!(
                "the steps are a guess, and {} requests more in each step than before: a cache may be growing, as \
                 during generation, or something leaks",
                self.grouper.code().label(stack)
            )));
        }
        let Some(reason) = self.steps.built_up(&course, self.grouper.code()) else { return Ok(()) };
        let stays = if leaked * 100 > self.allocated_in_judged() * MOST_LEFT {
            "much of the memory that they allocate stays"
        } else if reason == BuiltUp::NoCall && self.initialized(&leaks) * 2 > leaked {
            "most of the memory that stays is allocated while objects are initialized or loaded"
        } else {
            return Ok(());
        };
        let most = leaks
            .first()
            .map(|leak| format!(". The stack that leaves most behind is {}{}", leak.label, leak.more))
            .unwrap_or_default();
        Err(self.unnamed(&format!(
            "the steps are a guess, and {stays}: something is being built, or leaks; {reason}{most}"
        )))
    }

    /// The bytes of leaks that are allocated while objects are initialized or loaded.
    fn initialized(&self, leaks: &[&Leak]) -> i128 {
        let code = self.grouper.code();
        let of = leaks.iter().filter(|leak| leak.stack.is_some_and(|stack| steps::initializes(code, stack)));
        of.map(|leak| leak.bytes).sum()
    }

    /// Bytes that are allocated in the steps that count.
    fn allocated_in_judged(&self) -> i128 {
        let judged = self.judged.from..self.judged.last;
        let inside = self.lives.iter().filter(|life| life.born != Position::START);
        let counted = inside.filter(|life| self.steps.at(life.born).is_some_and(|step| judged.contains(&step)));
        counted.map(|life| i128::from(self.device.trace.classes[life.class as usize].bytes)).sum()
    }
}

/// A quotient, rounded to the nearest, halves away from 0.
fn rounded(dividend: i128, divisor: usize) -> i128 {
    let divisor = divisor as i128;
    (dividend * 2 + divisor * dividend.signum()) / (divisor * 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_rounded_away_from_zero() {
        assert_eq!([rounded(5, 2), rounded(-5, 2), rounded(4, 3), rounded(-4, 3), rounded(0, 7)], [3, -3, 1, -1, 0]);
    }
}
