//! Snapshots without a part of their head or tail, compared with the whole: the missing part is found, unless a whole
//! step is left.

use ptmem::device::DeviceId;
use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use ptmem::align::End;
use ptmem::diff;
use ptmem::profile::{self, InputKind, Opened, Profile, ReadOptions, Source};
use ptmem::snapshot::Snapshot;
use ptmem::trace::Origin;

use crate::support::cut::cut as cut_to;
use crate::support::fixtures;

/// Shares of the events that are cut off, in percent.
const SHARES: [usize; 4] = [15, 40, 70, 90];

/// With fewer allocations than these a history is too short to tell.
const LEAST_ALLOCATIONS: usize = 20;

/// With fewer stacks than these the order of allocations tells nothing without their sizes.
const LEAST_STACKS: usize = 4;

/// The result of looking for a cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Found,
    /// Not found, and one of the steps is left.
    WholeStepLeft,
    /// The rest allocates nothing, which gates nothing.
    NothingLeft,
    /// Neither stacks nor sizes tell, which is said.
    Unknown,
    /// At most one allocation in twenty is gone.
    NearlyAllLeft,
    Missed,
}

impl Outcome {
    const ALL: [Self; 6] =
        [Self::Found, Self::WholeStepLeft, Self::NothingLeft, Self::Unknown, Self::NearlyAllLeft, Self::Missed];
}

/// A cut and its result.
#[derive(Debug)]
struct Cut {
    name: String,
    end: End,
    share: usize,
    outcome: Outcome,
    /// Allocations of the whole.
    whole: usize,
    /// Allocations of the rest.
    left: usize,
    stacks: usize,
}

fn open(path: &Path) -> Option<Snapshot> {
    match profile::open(File::open(path).unwrap(), "whole", ReadOptions::default()) {
        Ok(Opened::Snapshot(snapshot, _)) => Some(*snapshot),
        Ok(Opened::Profile(_)) | Err(_) => None,
    }
}

fn measured(snapshot: Snapshot) -> Profile {
    let source = Source { path: String::new(), bytes: 0, kind: InputKind::Snapshot };
    profile::measure(snapshot, source, ReadOptions::default()).unwrap()
}

/// The file that a recording of one device would have left that began later, or ended earlier.
fn cut(snapshot: Snapshot, device: DeviceId, end: End, share: usize) -> Profile {
    let events = snapshot.events_of(&snapshot.devices[&device]).len();
    let window = match end {
        End::Head => events * share / 100..events,
        End::Tail => 0..events * (100 - share) / 100,
    };
    measured(cut_to(snapshot, device, window))
}

/// The stacks that allocate, in order, grouped as in comparisons; their sizes as well where they are few.
fn allocations(profile: &Profile, device: DeviceId) -> Vec<u32> {
    let Some(device) = profile.devices.iter().find(|other| other.device == device) else { return Vec::new() };
    let grouper = profile.grouper();
    let keys = device.trace.classes.iter().map(|class| match class.origin {
        Origin::Stack(stack) => grouper.key(stack).0,
        _ => String::new(),
    });
    let keys: Vec<String> = keys.collect();
    let begun: Vec<usize> = device.trace.begun().into_iter().map(|(_, class)| class as usize).collect();
    let stacks: HashSet<&String> = begun.iter().map(|&class| &keys[class]).collect();
    let is_by_size = stacks.len() < LEAST_STACKS;
    let mut known = HashMap::new();
    let symbols = begun.iter().map(|&class| {
        let next = u32::try_from(known.len()).unwrap();
        *known.entry((&keys[class], is_by_size.then_some(device.trace.classes[class].requested))).or_insert(next)
    });
    symbols.collect()
}

/// The length of a step: the least distance at which four in five allocations are made by the same stack again.
fn step(symbols: &[u32]) -> Option<usize> {
    (1..=symbols.len() / 2).find(|&period| {
        let most = (symbols.len() - period) / 5;
        let changes = symbols.iter().zip(&symbols[period..]).filter(|(one, other)| one != other);
        changes.take(most + 1).count() <= most
    })
}

/// True if what is gone occurs again in the rest, in the same order but for one row in ten.
fn is_repeated(whole: &[u32], left: usize, end: End) -> bool {
    const IN_A_ROW: usize = 8;
    let gone = whole.len() - left;
    let (rest, gone) = match end {
        End::Head => (&whole[gone..], &whole[..gone]),
        End::Tail => (&whole[..left], &whole[left..]),
    };
    let known: HashSet<&[u32]> = rest.windows(IN_A_ROW).collect();
    let unknown = gone.windows(IN_A_ROW).filter(|row| !known.contains(row)).count();
    rest.len() >= IN_A_ROW && unknown * 10 <= gone.len()
}

/// Cuts each device of a snapshot in each way.
fn cuts_of(path: &Path, shares: &[usize]) -> Vec<Cut> {
    let Some(snapshot) = open(path) else { return Vec::new() };
    let whole = measured(open(path).unwrap());
    let mut cuts = Vec::new();
    for &device in snapshot.devices.keys() {
        let symbols = allocations(&whole, device);
        if symbols.len() < LEAST_ALLOCATIONS {
            continue;
        }
        let stacks = symbols.iter().collect::<HashSet<_>>().len();
        for (end, &share) in
            [End::Head, End::Tail].into_iter().flat_map(|end| shares.iter().map(move |share| (end, share)))
        {
            let part = cut(open(path).unwrap(), device, end, share);
            let left = allocations(&part, device).len();
            let told = told_of(measured(open(path).unwrap()), part, device);
            let outcome = match told == Told::Missing {
                true => Outcome::Found,
                false if left == 0 => Outcome::NothingLeft,
                false if told == Told::Unknown => Outcome::Unknown,
                false if left + left / 20 >= symbols.len() => Outcome::NearlyAllLeft,
                false if has_whole_step(&symbols, left, end) => Outcome::WholeStepLeft,
                false => Outcome::Missed,
            };
            let name = format!("{} device {device}", path.display());
            cuts.push(Cut { name, end, share, outcome, whole: symbols.len(), left, stacks });
        }
    }
    cuts
}

/// What a comparison says of parts that are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    Missing,
    Unknown,
    Nothing,
}

/// What the comparison of a device tells of the part.
fn told_of(whole: Profile, part: Profile, device: DeviceId) -> Told {
    let diff = diff::compare(whole, part, diff::DiffOptions::default());
    let mut of_device = diff.devices.iter().filter(|compared| compared.id() == Some(device));
    of_device.next().map_or(Told::Nothing, |compared| {
        match (compared.missing.is_empty(), compared.parts_unclear.is_some()) {
            (false, _) => Told::Missing,
            (true, true) => Told::Unknown,
            (true, false) => Told::Nothing,
        }
    })
}

/// True if a whole step is left, or rounds of all that is gone.
fn has_whole_step(whole: &[u32], left: usize, end: End) -> bool {
    is_repeated(whole, left, end) || step(whole).is_some_and(|step| step >= LEAST_STACKS && step <= left)
}

/// A table of the cuts that were missed, and the number of each outcome.
fn table(cuts: &[Cut]) -> String {
    let mut text = String::new();
    for cut in cuts.iter().filter(|cut| cut.outcome == Outcome::Missed) {
        let Cut { name, end, share, outcome, whole, left, stacks } = cut;
        let _ = writeln!(
            text,
            "{outcome:?}: {name}: {share} % of the {end:?}: {left} of {whole} allocations left, {stacks} stacks"
        );
    }
    for outcome in Outcome::ALL {
        let _ = writeln!(text, "{outcome:?}: {}", count(cuts, outcome));
    }
    text
}

fn count(cuts: &[Cut], outcome: Outcome) -> usize {
    cuts.iter().filter(|cut| cut.outcome == outcome).count()
}

#[test]
#[ignore = "every night: cargo test exhaustively -- --ignored"]
fn cuts_of_recorded_snapshots_are_exhaustively_found() {
    let all = fixtures::recorded();
    let halves = all.split_at(all.len() / 2);
    let cuts: Vec<Cut> = std::thread::scope(|scope| {
        let workers = [halves.0, halves.1]
            .map(|paths| scope.spawn(move || paths.iter().flat_map(|path| cuts_of(path, &SHARES)).collect::<Vec<_>>()));
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    let _ = writeln!(std::io::stderr(), "{}", table(&cuts));
    assert!(count(&cuts, Outcome::Missed) * 20 <= count(&cuts, Outcome::Found), "{}", table(&cuts));
}

#[test]
fn cuts_of_fixtures_are_found() {
    let names = ["before.pkl", "after.pkl", "mid-forward.pkl", "wrapped.pkl"];
    let cuts: Vec<Cut> = names.iter().flat_map(|name| cuts_of(&fixtures::folder().join(name), &SHARES)).collect();
    assert_eq!(cuts.len(), 8 * names.len());
    assert!(cuts.iter().all(|cut| matches!(cut.outcome, Outcome::Found | Outcome::WholeStepLeft)), "{}", table(&cuts));
    assert!(count(&cuts, Outcome::Found) >= 20, "{}", table(&cuts));
}

/// A batch of twice the size, and numbers of twice the bytes, on the side that is cut off or on the other one.
#[test]
fn cuts_are_found_where_all_sizes_changed() {
    for change in ["batch-doubled", "float32"] {
        let side = |side| fixtures::folder().join(format!("recorded/changes/{change}-{side}-2.11.0.pkl.zst"));
        for (whole, rest) in [("before", "after"), ("after", "before")] {
            let whole = measured(open(&side(whole)).unwrap());
            let rest = cut(open(&side(rest)).unwrap(), DeviceId::FIRST, End::Tail, 60);
            let diff = diff::compare(whole, rest, diff::DiffOptions::default());
            let found: Vec<End> = diff.devices[0].missing.iter().map(|missing| missing.end).collect();
            assert_eq!(found, [End::Tail], "{change}");
        }
    }
}

/// The first allocations after the cut also occur at the beginning of the whole.
#[test]
fn what_is_left_keeps_its_place_where_stacks_recur() {
    let path = fixtures::folder().join("mid-forward.pkl");
    let whole = measured(open(&path).unwrap());
    let rest = cut(open(&path).unwrap(), DeviceId::FIRST, End::Head, 40);
    let [all, left] = [&whole, &rest].map(|profile| allocations(profile, DeviceId::FIRST).len());
    let diff = diff::compare(whole, rest, diff::DiffOptions::default());
    let device = &diff.devices[0];
    let shares: Vec<u64> = device.missing.iter().map(|missing| missing.share).collect();
    assert_eq!(shares, [((all - left) * 1000 / all) as u64]);
    assert_eq!(device.alignment.as_ref().unwrap().map.before_of(0), Some(all - left));
}

/// With the graphs of three parts of a batch alive at once, all forward passes come first. The recording ends within a step.
#[test]
fn a_cut_is_found_where_passes_have_another_order() {
    let side =
        |side| open(&fixtures::folder().join(format!("recorded/changes/graphs-kept-{side}-2.11.0.pkl.zst"))).unwrap();
    let rest = cut(side("after"), DeviceId::FIRST, End::Tail, 36);
    let diff = diff::compare(rest, measured(side("before")), diff::DiffOptions::default());
    let found: Vec<End> = diff.devices[0].missing.iter().map(|missing| missing.end).collect();
    assert_eq!(found, [End::Tail]);
}

/// Each makes more of everything than the other one has.
#[test]
fn programs_that_make_more_of_everything_lack_no_part() {
    for names in [["metadata-phases.pkl", "mid-forward.pkl"], ["mid-forward.pkl", "metadata-phases.pkl"]] {
        let [before, after] = names.map(|name| measured(open(&fixtures::folder().join(name)).unwrap()));
        let diff = diff::compare(before, after, diff::DiffOptions::default());
        assert!(diff.devices[0].missing.is_empty(), "{names:?}");
    }
}
