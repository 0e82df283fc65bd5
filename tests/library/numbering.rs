//! Equal contents give equal reports: the order in which strings, frames and stacks are first read decides nothing.

use std::path::{Path, PathBuf};

use crate::support::edit::Edited;
use crate::support::fixtures::{changes, recorded, snapshots};
use crate::support::program::Program;
use ptmem::leak;
use ptmem::profile::saved::text_of;
use ptmem::profile::{self, InputKind, Profile, ReadOptions, Source};
use ptmem::report::{self, Format, Report};
use ptmem::snapshot;
use ptmem::stack::GroupBy;
use ptmem::verdict::{JudgedSearch, LeakGate, Thresholds, judge_leaks};

/// A recording as it is, and with other numbers.
fn both(mut edited: Edited, seed: u64) -> Option<[Vec<u8>; 2]> {
    if !edited.is_dict() {
        return None;
    }
    // A note names unknown keys: both files have the one whose list numbers everything anew.
    let mut plain = edited.clone();
    plain.put_first(Vec::new());
    let plain = plain.bytes();
    edited.renumber(seed);
    Some([plain, edited.bytes()])
}

/// Both files have one name and one size.
fn read(pickle: &[u8], path: &Path, group_by: GroupBy) -> Profile {
    let source = Source { path: path.display().to_string(), bytes: 0, kind: InputKind::Snapshot };
    profile::measure(snapshot::read(pickle).unwrap(), source, ReadOptions { group_by, ..ReadOptions::default() })
        .unwrap()
}

fn json(report: &dyn Report) -> String {
    let options =
        report::RenderOptions { top: Some(0), unchanged: true, explain: true, ..report::RenderOptions::default() };
    Format::Json.render(report, &options).unwrap()
}

/// What is said of one recording.
fn told(pickle: &[u8], path: &Path, by: GroupBy) -> Vec<String> {
    let profile = read(pickle, path, by);
    let search = leak::search(&profile, &leak::LeakOptions::default());
    let judgement = judge_leaks(&search, 0, false);
    let leaks = LeakGate::from(JudgedSearch { search, judgement });
    vec![json(&profile), json(&leaks), text_of(&profile, &[]).unwrap()]
}

fn require_the_same(paths: impl Iterator<Item = PathBuf>, groupings: &[GroupBy]) {
    for (seed, path) in (0..).zip(paths) {
        let Some([plain, other]) = both(Edited::open(&path), seed) else { continue };
        for &by in groupings {
            let reports = told(&plain, &path, by).into_iter().zip(told(&other, &path, by));
            for (report, (expected, found)) in reports.enumerate() {
                require_equal(&expected, &found, &format!("{}, by {by}, report {report}", path.display()));
            }
        }
    }
}

/// Names the first line that differs: the whole texts are long.
fn require_equal(expected: &str, found: &str, place: &str) {
    let different = expected.lines().zip(found.lines()).find(|(expected, found)| expected != found);
    assert_eq!(different, None, "{place}");
    assert_eq!(expected.len(), found.len(), "{place}");
}

#[test]
fn a_recording_reads_the_same_however_it_is_numbered() {
    let all = snapshots().into_iter().chain(recorded());
    require_the_same(all.step_by(9), &[GroupBy::Stack]);
}

#[test]
#[ignore = "every night: cargo test exhaustively -- --ignored"]
fn recordings_exhaustively_read_the_same_however_they_are_numbered() {
    // Each grouping with a third of them.
    for (&by, some) in GroupBy::ALL.iter().zip((0..3).cycle()) {
        let all = snapshots().into_iter().chain(recorded());
        require_the_same(all.skip(some).step_by(3), &[by]);
    }
}

#[test]
fn of_stacks_that_leak_alike_the_same_one_is_named() {
    let mut program = Program::default();
    for step in 0..8 {
        program.mark("START", &format!("ProfilerStep#{step}"));
        program.work();
        for caller in ["/work/job.py:first:30", "/work/job.py:second:40", "/work/job.py:third:50"] {
            program.alloc_under(format!("{caller} {step}"), &["/work/log.py:keep:7", caller], 4096);
        }
        program.mark("END", &format!("ProfilerStep#{step}"));
    }
    let recording = program.snapshot();
    for (seed, by) in [GroupBy::Stack, GroupBy::Line, GroupBy::Function].into_iter().flat_map(|by| [(1, by), (2, by)]) {
        let [plain, other] = both(Edited::of(&recording), seed).unwrap();
        let path = Path::new("program.pkl");
        for (expected, found) in told(&plain, path, by).iter().zip(told(&other, path, by)) {
            require_equal(expected, &found, &format!("by {by}, seed {seed}"));
        }
    }
}

/// All reports of a comparison.
fn compared(before: &[u8], after: &[u8]) -> Vec<(&'static str, String)> {
    let read = |pickle, name| read(pickle, Path::new(name), GroupBy::Stack);
    let limits = Thresholds::default().max_growth("0").unwrap().max_growth("stack=0").unwrap();
    let gate = ptmem::compare(read(before, "before.pkl"), read(after, "after.pkl"), &limits);
    let options =
        report::RenderOptions { top: Some(0), unchanged: true, explain: true, ..report::RenderOptions::default() };
    let render = |format: Format| (format.name(), format.render(&gate, &options).unwrap());
    Format::ALL.iter().copied().map(render).collect()
}

#[test]
fn a_comparison_reads_the_same_however_its_sides_are_numbered() {
    let fixture = |name| crate::support::fixtures::folder().join(name);
    let pair = [fixture("before.pkl"), fixture("after.pkl")];
    for (seed, [before, after]) in (0..).zip(changes().into_iter().step_by(5).chain([pair])) {
        let place = after.display().to_string();
        let [before, before_anew] = both(Edited::open(&before), seed).unwrap();
        let [after, after_anew] = both(Edited::open(&after), seed + 1).unwrap();
        let expected = compared(&before, &after);
        for found in [compared(&before_anew, &after), compared(&before, &after_anew)] {
            for ((format, expected), (_, found)) in expected.iter().zip(&found) {
                require_equal(expected, found, &format!("{place}: {format}"));
            }
        }
    }
}
