//! Verdict on leaks.

use std::str::FromStr;

use ptmem_base::device::DeviceId;
use ptmem_base::diagnostic::{Advice, Code};
use ptmem_base::text::count;
use ptmem_base::units::{Size, parse_size};
use ptmem_compare::leak::{DeviceLeaks, Leak, LeakMetric, Mode, Search, UnclearLeaks};
use ptmem_trace::profile::{Bucket, InputKind};
use strum::IntoEnumIterator;

use super::headline::{Badness, Doubt};
use super::judge::Judge;
use super::{
    Beside, Check, CheckedFigures, CheckedRow, Judged, Judgement, Level, LimitKind, Member, Outcome, Sided, Suite,
    doubts,
};

/// Leaks of one snapshot or series, with the verdict.
#[derive(Debug)]
pub struct JudgedSearch {
    /// Result of the search.
    pub search: Search,
    /// Verdict by the limit.
    pub judgement: Judgement,
}

/// Searches that have one verdict.
pub type LeakGate = Suite<JudgedSearch>;

impl Judged for JudgedSearch {
    fn noun(&self) -> &'static str {
        if self.search.rank.is_some() { "rank" } else { "case" }
    }

    fn name(&self) -> Option<&str> {
        self.search.name.as_deref()
    }

    fn member(&self) -> Option<&Member> {
        None
    }

    fn source(&self) -> &str {
        self.search.sources.last().map_or("", |source| &source.path)
    }

    fn judgement(&self) -> Option<&Judgement> {
        Some(&self.judgement)
    }

    fn judgement_mut(&mut self) -> Option<&mut Judgement> {
        Some(&mut self.judgement)
    }

    fn diagnostics(&self) -> Vec<Sided<'_>> {
        self.search.diagnostics.iter().chain(&self.judgement.diagnostics).map(|found| (None, found)).collect()
    }

    /// The verdict, then what it does not tell, then the most that a device leaks per snapshot or step.
    fn badness(&self) -> Option<Badness> {
        let leaked = self.search.devices.iter().map(DeviceLeaks::bytes_per_step);
        Some((self.judgement.verdict, Doubt::of(&self.judgement), leaked.max().unwrap_or(i128::MIN)))
    }
}

/// Bytes that may leak on a device per snapshot or step; `None` is any amount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeakLimits {
    /// All stacks together.
    pub allocated: Option<u64>,
    /// Reserved memory that nothing uses.
    pub fragmentation: Option<u64>,
    /// Memory that only reference cycles hold.
    pub cycles: Option<u64>,
}

impl Default for LeakLimits {
    fn default() -> Self {
        Self { allocated: Some(0), fragmentation: Some(0), cycles: None }
    }
}

impl From<u64> for LeakLimits {
    fn from(allocated: u64) -> Self {
        Self { allocated: Some(allocated), ..Self::default() }
    }
}

impl LeakLimits {
    fn of(&mut self, metric: LeakMetric) -> &mut Option<u64> {
        match metric {
            LeakMetric::Allocated => &mut self.allocated,
            LeakMetric::Fragmentation => &mut self.fragmentation,
            LeakMetric::Cycles => &mut self.cycles,
        }
    }
}

impl FromIterator<LeakLimit> for LeakLimits {
    fn from_iter<T: IntoIterator<Item = LeakLimit>>(limits: T) -> Self {
        let mut all = Self::default();
        for LeakLimit { metric, bytes } in limits {
            *all.of(metric) = Some(bytes);
        }
        all
    }
}

/// One of the limits: `8MiB`, `fragmentation=8MiB`, `cycles=8MiB`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeakLimit {
    metric: LeakMetric,
    bytes: u64,
}

impl FromStr for LeakLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, size) = text.rsplit_once('=').unwrap_or(("allocated", text));
        let metric = LeakMetric::from_str(name);
        let metric =
            metric.map_err(|_| format!("unknown '{name}'; expected SIZE, fragmentation=SIZE or cycles=SIZE"))?;
        Ok(Self { metric, bytes: parse_size(size).map_err(|error| error.to_string())? })
    }
}

/// Judges what was found on each device: more than a limit allows is too much.
pub fn judge_leaks(search: &Search, limits: impl Into<LeakLimits>, strict: bool) -> Judgement {
    let mut judge = Judge::default();
    let mut limits = limits.into();
    for device in &search.devices {
        judge.out_of_memory_of_leaks(device, search.mode);
        for metric in LeakMetric::iter() {
            judge.leaks(device, search.mode, metric, *limits.of(metric));
            judge.longer_steps(device, search.mode, metric, *limits.of(metric));
        }
        judge.cycles_unknown(device, search, limits.cycles);
        judge.no_leaks(device, search, limits.allocated);
    }
    if search.devices.is_empty() {
        let has_history = search.sources.iter().any(|source| source.kind != InputKind::Numbers);
        let reason = match has_history {
            true if search.has_host => "leaks are searched on devices, and only pinned host memory was examined",
            true => "nothing is recorded and nothing is held",
            false => "figures without a history have no steps",
        };
        let check = check(None, search.mode.noun(), limits.allocated);
        judge.checks.push(Check { reason: Some(reason.to_owned()), ..check });
    }
    doubts::apply(doubts::of_run(search.failure.clone()), &mut judge.checks);
    let recent = search.devices.iter().find(|device| search.says(device, Code::GrowthTooRecent));
    let beside = recent.map(|device| Beside::Recent { device: device.device, explained: device.explained() });
    Judgement { beside, ..judge.finish(search.diagnostics.iter(), strict, search.devices.len() > 1) }
}

/// A check of the limit on leaks, without a result yet.
fn check(device: Option<DeviceId>, noun: &str, limit: Option<u64>) -> Check {
    let words = limit.map_or("any amount".to_owned(), |limit| format!("{} per {noun}", Size(limit)));
    let mut check = Check { device, ..Check::new(LimitKind::Leaks, words, Level::Fail) };
    check.limit.allowed = limit.map(u128::from);
    check
}

fn row(leak: &Leak) -> CheckedRow {
    CheckedRow { label: leak.label.clone(), more: leak.more, key: Some(leak.key.clone()) }
}

impl Judge {
    /// A check for what leaks together of one metric.
    fn leaks(&mut self, device: &DeviceLeaks, mode: Mode, metric: LeakMetric, limit: Option<u64>) {
        let noun = device.noun(mode);
        let leaked: i128 = device.leaks_of(metric).map(|leak| leak.bytes_per_step).sum();
        let is_exceeded = limit.is_some_and(|limit| leaked > i128::from(limit));
        let outcome = if is_exceeded { Outcome::Exceeded } else { Outcome::Pass };
        let findings = device.findings(metric);
        let words_of_sum =
            format!(", all leaks together {} per {noun}", Size(u64::try_from(leaked).unwrap_or_default()));
        // The limit is on the sum, which a single finding does not show.
        let sum = if limit > Some(0) && findings.len() > 1 { &*words_of_sum } else { "" };
        self.checks.extend(findings.into_iter().map(|leaks| Check {
            row: Some(row(leaks[0])),
            figures: CheckedFigures {
                delta: Some(leaks.iter().map(|leak| leak.bytes_per_step).sum()),
                words: Some(sentence(&leaks, mode, noun) + sum),
                ..CheckedFigures::default()
            },
            outcome,
            ..check(Some(device.device), noun, limit)
        }));
    }

    /// A check that is inconclusive, where a limit allows what leaks, but steps may have more calls of optimizers, and leak more.
    fn longer_steps(&mut self, device: &DeviceLeaks, mode: Mode, metric: LeakMetric, limit: Option<u64>) {
        let Some(calls) = device.calls_of_step().filter(|calls| calls.may_be_more) else { return };
        let leaked: i128 = device.leaks_of(metric).map(|leak| leak.bytes_per_step).sum();
        if leaked > 0 && limit.is_some_and(|limit| leaked <= i128::from(limit)) {
            let leaked = Size(u64::try_from(leaked).unwrap_or_default());
            let calls = match calls.count {
                1 => "call of an optimizer".to_owned(),
                several => format!("{several} calls of optimizers"),
            };
            let reason = format!("{leaked} leak per {calls}, and the recording leaves open if a step has more");
            let check = check(Some(device.device), device.noun(mode), limit);
            self.cannot_tell(Check { advice: Some(Advice::CountCalls), ..check }, reason);
        }
    }

    /// A check that is inconclusive, where reference cycles may hold more of what leaks than a limit allows.
    fn cycles_unknown(&mut self, device: &DeviceLeaks, search: &Search, limit: Option<u64>) {
        let leaked: i128 = device.leaks_of(LeakMetric::Allocated).map(|leak| leak.bytes_per_step).sum();
        let is_more = limit.is_some_and(|limit| leaked > i128::from(limit));
        if is_more && search.says(device, Code::CyclesUnknown) {
            let reason = "the recording does not say how much of what leaks reference cycles hold";
            self.cannot_tell(check(Some(device.device), device.noun(search.mode), limit), reason);
        }
    }

    /// A check that is inconclusive, where it is not clear what grows, or that passes, where nothing leaks.
    fn no_leaks(&mut self, device: &DeviceLeaks, search: &Search, limit: Option<u64>) {
        let mode = search.mode;
        let check = check(Some(device.device), device.noun(mode), limit);
        if let Some(UnclearLeaks { reason, advice, .. }) = &device.unclear {
            self.checks.push(Check { reason: Some(reason.clone()), advice: *advice, ..check });
        } else if search.says(device, Code::AllocatedGrows) {
            // Limits on what leaks say nothing about the rest; beside a failure, it does not matter.
            let of_device = self.checks.iter().filter(|check| check.device == Some(device.device));
            if of_device.map(|check| check.outcome).max() < Some(Outcome::Exceeded) {
                self.checks.push(Check { reason: Some(unexplained(device, mode)), ..check });
            }
        } else if device.leaks.is_empty() {
            let is_open = search.says(device, Code::GrowthTooRecent);
            let words = if is_open { "nothing leaks so far".to_owned() } else { nothing_leaks(device, mode) };
            let none = CheckedFigures { delta: Some(0), ..CheckedFigures::default() };
            self.checks.push(check.with(none).passed(words));
        }
    }
}

/// Growth of allocated bytes that leaks do not explain, in words.
fn unexplained(device: &DeviceLeaks, mode: Mode) -> String {
    let grow = match device.explained() {
        Some(explained) => format!("allocated bytes grow beside {explained}"),
        None => format!("{}, but allocated bytes grow", no_leak(device, mode)),
    };
    let most = device.grows_most.as_deref().map(|label| format!("; the stack that grew most is {label}"));
    grow + &most.unwrap_or_default()
}

/// The absence of leaks in words.
fn nothing_leaks(device: &DeviceLeaks, mode: Mode) -> String {
    match mode {
        Mode::Series if device.points.len() == 1 => {
            "the first snapshot of a series has no earlier one to compare with".to_owned()
        }
        _ if device.sizes_grow => {
            format!("nothing leaks: {}; the last steps end with more memory because sizes grow", no_leak(device, mode))
        }
        _ => format!("nothing leaks: {}", no_leak(device, mode)),
    }
}

fn no_leak(device: &DeviceLeaks, mode: Mode) -> String {
    match mode {
        Mode::Steps => {
            let what = device.min_growth.map_or("blocks".to_owned(), |least| Size(least).to_string());
            let often = match device.left_in {
                0 => "in".to_owned(),
                most => format!("steadily, at most in {most} of"),
            };
            format!("no stack leaves {what} behind {often} {}", steps(device.judged, device.noun(mode)))
        }
        Mode::Series => {
            let what = if device.has_totals_only { "allocated memory does not grow" } else { "no stack grows" };
            let least = device.min_growth.filter(|least| *least > 0);
            let least = least.map(|least| format!(" by a total of {} or more", Size(least))).unwrap_or_default();
            format!("{what} steadily{least}")
        }
    }
}

/// What leaks together in words, the fastest first.
fn sentence(leaks: &[&Leak], mode: Mode, noun: &str) -> String {
    let leaked: i128 = leaks.iter().map(|leak| leak.bytes_per_step).sum();
    let bytes = Size(u64::try_from(leaked).unwrap_or_default());
    let leak = leaks[0];
    let Leak { grew, judged, .. } = leak;
    let since = leak.since.as_deref().map(|name| format!(" since {name}")).unwrap_or_default();
    let often = format!("in {grew} of {}", steps(*judged, noun));
    let names = names(leaks);
    match (leak.metric, mode) {
        (LeakMetric::Fragmentation, _) => {
            format!("reserved memory that nothing uses grows {bytes} per {noun}{since}, {often}")
        }
        (LeakMetric::Cycles, _) => format!(
            "{names}: {bytes} per {noun} are held by reference cycles until Python's garbage collector runs, {often}"
        ),
        (LeakMetric::Allocated, Mode::Steps) => {
            format!("{names} {} {bytes} per {noun}, {often}", if leaks.len() == 1 { "leaks" } else { "leak" })
        }
        // A single change is not a trend.
        (LeakMetric::Allocated, Mode::Series) if *judged == 1 => {
            format!("{names} grew {bytes} from one {noun} to the next{}", most(leak))
        }
        (LeakMetric::Allocated, Mode::Series) => {
            let verb = if leaks.len() == 1 { "grows" } else { "grow" };
            format!("{names} {verb} {bytes} per {noun}{since}, {grew} of {judged} times{}", most(leak))
        }
    }
}

/// The fastest of what leaks together, and the number of the others.
fn names(leaks: &[&Leak]) -> String {
    let Leak { label, more, .. } = leaks[0];
    match leaks.len() - 1 {
        0 => format!("{label}{more}"),
        others => format!("{label}{more} and {} together", count(others as u64, "other", "others")),
    }
}

/// The stack that grew most of those that grow only together, as the rest of a sentence.
fn most(leak: &Leak) -> String {
    let first = leak.also.first().filter(|_| leak.bucket == Some(Bucket::Others));
    first.map(|label| format!(", most in {label}")).unwrap_or_default()
}

/// A number of steps, or of what a search goes through in their place.
fn steps(number: usize, noun: &str) -> String {
    count(number as u64, noun, &format!("{noun}s"))
}
