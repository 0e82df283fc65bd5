//! A saved profile stands in for its snapshot: the same figures, stacks, labels and verdict.

use std::path::{Path, PathBuf};

use crate::support::fixtures::{changes, recorded, snapshots as fixtures, some};
use crate::support::signed;
use ptmem::diff::{self, Diff, Row};
use ptmem::profile::saved::text_of;
use ptmem::profile::{self, InputKind, Moment, Profile, ReadOptions};
use ptmem::stack::GroupBy;

fn options(group_by: GroupBy) -> ReadOptions {
    ReadOptions { group_by, ..ReadOptions::default() }
}

fn load(path: &Path, group_by: GroupBy) -> Profile {
    profile::read(std::fs::File::open(path).unwrap(), &path.display().to_string(), options(group_by)).unwrap()
}

fn whole(profile: &Profile) -> String {
    text_of(profile, &[]).unwrap()
}

fn text(path: &Path) -> String {
    whole(&load(path, GroupBy::Stack))
}

fn parse(text: &str, options: ReadOptions) -> Profile {
    profile::read(text.as_bytes(), "saved.json", options).unwrap()
}

/// Everything that a report says of a comparison.
fn told(diff: &Diff) -> String {
    let row = |row: &Row| format!("{:?}", (&row.label, &row.key, row.change, row.highest, row.moved, row.held));
    let device = |device: &diff::DeviceDiff| {
        (device.device, device.metrics.clone(), device.rows.iter().map(row).collect::<Vec<_>>())
    };
    format!("{:#?}\n{:#?}", diff.devices.iter().map(device).collect::<Vec<_>>(), diff.diagnostics)
}

fn compare_both_ways(before: &Path, after: &Path, by: GroupBy) {
    let compare = |before, after| told(&diff::compare(before, after, diff::DiffOptions::default()));
    let saved = |path| parse(&text(path), options(by));
    let expected = compare(load(before, by), load(after, by));
    let place = format!("{} {} by {by}", before.display(), after.display());
    assert_eq!(compare(saved(before), saved(after)), expected, "{place}: two profiles");
    assert_eq!(compare(saved(before), load(after, by)), expected, "{place}: a profile and a snapshot");
}

/// Each file with the next one.
fn neighbours(paths: Vec<PathBuf>) -> impl Iterator<Item = [PathBuf; 2]> {
    let next = paths.clone().into_iter().skip(1);
    paths.into_iter().zip(next).map(<[PathBuf; 2]>::from)
}

#[test]
fn profiles_compare_as_their_snapshots_do() {
    for [before, after] in some(neighbours(fixtures()).chain(changes())) {
        compare_both_ways(&before, &after, GroupBy::Stack);
    }
    // Stacks that differ in C++ frames alone, of which one moved.
    let of = |name: &str| {
        changes().into_iter().map(|[_, after]| after).find(|path| path.to_str().unwrap().contains(name)).unwrap()
    };
    compare_both_ways(&of("graphs-kept"), &of("moved-and-fused"), GroupBy::Stack);
}

#[test]
#[ignore = "every night: cargo test exhaustively -- --ignored"]
fn profiles_compare_exhaustively_as_their_snapshots_do() {
    // Each grouping with a fifth of them.
    for (by, some) in GroupBy::ALL.iter().copied().zip((0..5).cycle()) {
        for [before, after] in neighbours(fixtures()).chain(neighbours(recorded())).skip(some).step_by(5) {
            compare_both_ways(&before, &after, by);
        }
    }
}

#[test]
fn a_profile_says_what_its_snapshot_says() {
    for path in some(fixtures().into_iter().chain(recorded())) {
        let (live, saved) = (load(&path, GroupBy::Stack), parse(&text(&path), options(GroupBy::Stack)));
        assert_eq!(saved.source.kind, InputKind::Profile);
        // The name of the snapshot is kept, not the folder that it was typed with.
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        assert_eq!(saved.recorded, Some(profile::Source { path: name, ..live.source.clone() }));
        // The command line has made words of all advice before it saves a profile.
        let mut told = live.diagnostics.clone();
        told.iter_mut().for_each(|diagnostic| diagnostic.advice = None);
        assert_eq!(saved.diagnostics, told);
        for (saved, live) in saved.devices.iter().zip(&live.devices) {
            let place = format!("{}, device {}", path.display(), live.device);
            let figures = |device: &profile::DeviceProfile| {
                let figures = &device.figures;
                format!(
                    "{:?}",
                    (
                        figures.history,
                        figures.allocated,
                        figures.active,
                        figures.requested,
                        figures.reserved,
                        figures.checks
                    )
                ) + &format!("{:?}", (&figures.ooms, figures.allocation_count, figures.free_count, &device.actions))
            };
            assert_eq!(figures(saved), figures(live), "{place}");
            assert_eq!(format!("{:?}", saved.recorded_frames), format!("{:?}", live.recorded_frames), "{place}");
            // Which stack it is has another number in another file.
            let stacks = |device: &profile::DeviceProfile| {
                let total = |total: &profile::StackTotal| {
                    format!(
                        "{:?}",
                        (
                            &total.label,
                            &total.key,
                            total.bucket,
                            total.baseline,
                            total.peak,
                            total.end,
                            total.oom,
                            total.allocations
                        )
                    )
                };
                device.stacks.iter().map(total).collect::<Vec<_>>()
            };
            assert_eq!(stacks(saved), stacks(live), "{place}");
        }
    }
}

#[test]
fn profiles_are_small_and_always_the_same() {
    for path in some(fixtures().into_iter().chain(recorded())) {
        let first = text(&path);
        assert_eq!(text(&path), first, "{}", path.display());
        assert!(first.len() < 110_000, "{}: {} bytes", path.display(), first.len());
        assert!(first.ends_with("}\n") && !first.contains('\r'));
        // Reading and writing gives the same file.
        assert_eq!(whole(&parse(&first, ReadOptions::default())), first, "{}", path.display());
    }
}

#[test]
fn a_line_that_moves_changes_the_lines_of_its_frames_alone() {
    let fixture = |name: &str| text(&Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name));
    let (before, moved) = (fixture("before.pkl"), fixture("moved.pkl"));
    let parts = |text: &str| text.split_once("  \"frames\": [").map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
    let (before, moved) = (parts(&before), parts(&moved));
    let differing = |a: &str, b: &str| a.lines().zip(b.lines()).filter(|(a, b)| a != b).count();
    assert_eq!(differing(&before.0, &moved.0), 4, "the source, the end, the duration and the times alone");
    assert_eq!(before.1.lines().count(), moved.1.lines().count());
    let lines = differing(&before.1, &moved.1);
    assert!(lines > 3 && lines < 15, "{lines}");
}

#[test]
fn when_memory_ran_out_is_kept() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/oom.pkl");
    let at = |at: Moment| ReadOptions { at, ..ReadOptions::default() };
    let live = profile::read(std::fs::File::open(&path).unwrap(), "oom.pkl", at(Moment::Oom)).unwrap();
    let text = whole(&live);
    let saved = parse(&text, at(Moment::Oom));
    assert_eq!(saved.devices[0].figures.ooms, live.devices[0].figures.ooms);
    assert_eq!(saved.devices[0].allocated_at(), live.devices[0].allocated_at());
    assert_eq!(saved.devices[0].at, live.devices[0].at);
    assert_reads!(profile::read(text.as_bytes(), "saved.json", at(Moment::Time(7))).unwrap_err().to_string() => str!["a saved profile keeps the times of few events, so that 'time:0.000007' is not known; give the snapshot itself, or event:N"]);
    // Where memory did not run out, the report does not mention it.
    let other = self::text(&path.with_file_name("before.pkl"));
    assert!(!other.contains("\"oom\":"), "{other}");
    assert_eq!(parse(&other, at(Moment::Oom)).devices[0].at, None);
}

#[test]
fn profiles_that_were_changed_are_refused() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/before.pkl");
    let good = text(&path);
    assert_eq!(signed(&good), good);
    let refusal =
        |text: &str| profile::read(text.as_bytes(), "x.json", ReadOptions::default()).unwrap_err().to_string();
    // The value of the first key of a name, replaced.
    let with = |text: &str, key: &str, value: &str| {
        let at = text.find(key).unwrap() + key.len();
        let end = text[at..].find([',', '}']).unwrap() + at;
        format!("{}{value}{}", &text[..at], &text[end..])
    };
    let lowered = with(&good, "\"peak\":", "1");
    assert!(refusal(&lowered).contains("the digest in the last line is not that of the text"), "{}", refusal(&lowered));
    for (from, to, expected) in [
        ("ptmem.profile/3", "ptmem.profile/9", "its schema is 'ptmem.profile/9'"),
        ("ptmem.profile/3", "ptmem.profile/2", "saved by an older release"),
        ("\"history\": \"recorded\"", "\"history\": \"none\"", "unknown variant `none`"),
        ("\"kind\":\"snapshot\"", "\"kind\":\"dream\"", "unknown variant `dream`"),
        ("\"implied\": 0", "\"implied\": 1", "has not one move for each event"),
        ("\"implied\": 0", "\"implied\": 99999999", "events and blocks, which count as"),
        ("[{\"alloc\":0},0]", "[{\"alloc\":0,\"free\":1},0]", "expected value"),
        ("[{\"alloc\":0},0]", "[{\"alloc\":99999},0]", "has a block of no class"),
        ("        [0,", "        [99999,", "has a class of no stack or text"),
        ("\"allocated\":18,", "\"allocated\":99999999,", "64.00 MiB are allowed for a file of its size"),
        ("\"events\": ", "\"events\": -", "invalid value"),
        ("\"frames\":[", "\"frames\":[99999,", "there is no frame 99999"),
        ("\"peak\":", "\"peak\":1,\"peak\":", "duplicate field"),
        (
            ",1440256,1440000",
            ",1440256,18446744073709551615",
            "the figure 'requested' of device 0 is not the one of its history; the file was changed by hand, merged or damaged, \
             or another version saved it",
        ),
        ("\"history\": \"recorded\"", "\"history\": \"empty\"", "the figure 'history'"),
        ("\"history\": \"recorded\"", "\"history\": \"numbers-only\"", "the figure 'history'"),
    ] {
        assert!(good.contains(from), "{from}");
        let message = refusal(&signed(&good.replacen(from, to, 1)));
        assert!(message.contains(expected), "{from}: {message}");
    }
    // A newer version may know more diagnostics: its warnings count, its notes do not, and its names are not repeated.
    let newer = "\"diagnostics\": [{\"code\":\"a\\n::b\",\"severity\":\"warning\",\"message\":\"x\"},\
                 {\"code\":\"c\",\"severity\":\"note\",\"message\":\"y\"}]";
    let newer = signed(&good.replace("\"diagnostics\": []", newer));
    let read = profile::read(newer.as_bytes(), "x.json", ReadOptions::default()).unwrap();
    let codes: Vec<_> = read.diagnostics.iter().map(|diagnostic| diagnostic.code.name()).collect();
    assert_eq!(codes, ["unknown-diagnostic"]);
    // Version control may change the line ends, and an editor put a mark in front.
    let other = format!("\u{feff}{}", good.replace('\n', "\r\n"));
    assert_eq!(whole(&parse(&other, ReadOptions::default())), good);
    // Cut anywhere, it is an error and nothing worse.
    for end in (0..good.len()).step_by(997) {
        assert!(profile::read(&good.as_bytes()[..end], "x.json", ReadOptions::default()).is_err(), "{end}");
    }
}

#[test]
fn figures_that_no_history_has_are_refused() {
    let good = text(&Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/before.pkl"));
    let refusal = |from: &str, to: &str| {
        assert!(good.contains(from), "{from}");
        let changed = signed(&good.replacen(from, to, 1));
        profile::read(changed.as_bytes(), "x.json", ReadOptions::default()).unwrap_err().to_string()
    };
    let counter = good.split_once("\"allocated\": {").unwrap().1.split_once('}').unwrap().0;
    let peak = counter.split_once("\"peak\":").unwrap().1.split_once(",\"end\"").unwrap().0;
    for (from, to, expected) in [
        ("\"end_matches\":true", "\"end_matches\":false", "end"),
        ("\"recovered\":", "\"recovered\":9", "checks"),
        ("\"matched\":", "\"matched\":9", "checks"),
        ("\"peak_error\":0", "\"peak_error\":18446744073709551615", "allocated"),
        ("\"at_least\":false", "\"at_least\":true", "at_least"),
        (peak, "null,\"peak_event\":null", "allocated"),
    ] {
        let expected = format!("the figure '{expected}' of device 0 is not the one of its history");
        assert!(refusal(from, to).starts_with(&expected), "{from}: {}", refusal(from, to));
    }
}

/// The places of the numbers under some keys of a device.
fn figures_of(text: &str) -> Vec<std::ops::Range<usize>> {
    const KEYS: [&str; 14] = [
        "\"baseline\":",
        "\"peak\":",
        "\"peak_event\":",
        "\"end\":",
        "\"allocations\": ",
        "\"frees\": ",
        "\"allocated_total\": ",
        "\"alloc\":",
        "\"allocated\":",
        "\"active\":",
        "\"reserved\":",
        "\"event\":",
        "\"events\": ",
        "\"duration_us\": ",
    ];
    // Behind them are stacks, classes and moves, which are the history itself.
    let histories = text.match_indices("\"stacks\": [").map(|(at, _)| at);
    let heads = std::iter::once(0).chain(text.match_indices("\"phases_cut\"").map(|(at, _)| at)).zip(histories);
    let mut found = Vec::new();
    for (from, to) in heads {
        for (at, key) in KEYS.iter().flat_map(|key| text[from..to].match_indices(key)) {
            let start = from + at + key.len();
            let digits = text[start..].bytes().take_while(u8::is_ascii_digit).count();
            found.extend((digits > 0).then_some(start..start + digits));
        }
    }
    found
}

/// A file with the right digest is not taken at its word: its figures are those of its history.
#[test]
fn figures_of_another_history_are_refused() {
    let mut tried = 0;
    for path in fixtures().into_iter().chain(recorded()).step_by(11) {
        let good = text(&path);
        let knows_end = !good.contains("\"end_matches\":false");
        for place in figures_of(&good).into_iter().filter(|_| knows_end) {
            // The history does not tell pools apart.
            if good[..place.start].rsplit('\n').next().is_some_and(|line| line.contains("\"private_pools\"")) {
                continue;
            }
            let figure: u64 = good[place.clone()].parse().unwrap();
            let other = format!("{}{}{}", &good[..place.start], figure + 1, &good[place.end..]);
            let read = profile::read(signed(&other).as_bytes(), "x.json", ReadOptions::default());
            assert!(read.is_err(), "{}: {}", path.display(), &good[place.start - 30..place.end]);
            tried += 1;
        }
    }
    assert!(tried > 200, "{tried}");
}
