//! Damaged snapshots: an error or a result, never a panic.

use super::{block, event, list, profile_of, segment, snapshot_of};
use std::fs;
use std::ops::Range;
use std::path::PathBuf;

use crate::support::pickle::{Options, Value, write};
use ptmem::budget::DeviceMemory;
use ptmem::diff;
use ptmem::profile::saved::text_of;
use ptmem::profile::{self, InputKind, Source};
use ptmem::report::{self, Format};
use ptmem::snapshot;
use ptmem::stack::GroupBy;
use ptmem::verdict::{self, Comparison, Gate, GrowthLimit, Level, Thresholds};

fn fixtures() -> Vec<(String, Vec<u8>)> {
    let contents = |path: PathBuf| (path.display().to_string(), fs::read(&path).unwrap());
    crate::support::fixtures::snapshots().into_iter().map(contents).collect()
}

/// Everything that the tool does with a file. Returns whether it was a snapshot.
fn survives(bytes: &[u8], group_by: GroupBy) -> bool {
    let Ok(snapshot) = snapshot::read(bytes) else { return false };
    let source = Source { path: "damaged.pkl".to_owned(), bytes: bytes.len() as u64, kind: InputKind::Snapshot };
    let options = profile::ReadOptions { group_by, layout: true, ..profile::ReadOptions::default() };
    let Ok(profile) = profile::measure(snapshot, source, options) else { return false };
    let options = report::RenderOptions {
        device_memory: Some(DeviceMemory { bytes: 1 << 30, overhead: None }),
        ..report::RenderOptions::default()
    };
    for format in Format::ALL.iter().copied() {
        format.render(&profile, &options).unwrap();
    }
    // Every profile that can be computed can be saved and read again.
    let text = text_of(&profile, &[]).unwrap();
    let saved = profile::read(text.as_bytes(), "saved.json", profile::ReadOptions::default()).unwrap();
    assert_eq!(text_of(&saved, &[]).unwrap(), text);
    true
}

/// As [`survives`], compared with what it was made from.
fn compares(bytes: &[u8], whole: &[u8]) {
    let profile = |bytes: &[u8]| profile_of(snapshot::read(bytes).ok()?).ok();
    if let (Some(before), Some(after)) = (profile(whole), profile(bytes)) {
        let diff = diff::compare(before, after, diff::DiffOptions::default());
        let growth = ["0", "stack=0"].map(|limit| GrowthLimit::parse(limit, Level::Fail).unwrap());
        let judgement = verdict::judge_diff(&diff, &Thresholds { growth: growth.into(), ..Thresholds::default() });
        let gate = Gate::from(Comparison { name: None, member: None, diff, judgement, min_delta: 0 });
        let options = report::RenderOptions::default();
        for format in Format::ALL.iter().copied() {
            let text = format.render(&gate, &options).unwrap();
            assert!(format != Format::Markdown || text.len() <= report::MOST_COMMENT_BYTES);
        }
    }
}

#[test]
fn truncated_fixtures_are_called_truncated() {
    for (name, bytes) in fixtures() {
        assert!(survives(&bytes, GroupBy::Stack), "{name}");
        let step = if bytes.len() < 2000 { 1 } else { bytes.len() / 24 };
        for length in (0..bytes.len()).step_by(step).chain(bytes.len() - 4..bytes.len()) {
            let text = snapshot::read(&bytes[..length]).unwrap_err().to_string();
            let expected = if length == 0 { "the file is empty" } else { "the file is truncated" };
            assert!(text.contains(expected), "{name}, {length} bytes: {text}");
        }
    }
}

/// A generator with the constants of Knuth's MMIX.
struct Lcg(u64);

impl Lcg {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % limit
    }
}

/// Changes some bytes: to anything, to a byte from elsewhere, by a bit; or moves a piece.
fn damage(bytes: &[u8], random: &mut Lcg) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len());
        let from = random.below(bytes.len());
        let length = random.below(12).min(bytes.len() - at.max(from));
        match random.below(6) {
            0 => bytes[at] = u8::try_from(random.below(256)).unwrap(),
            1 => bytes[at] = bytes[from],
            2 => bytes[at] ^= 1 << random.below(8),
            3 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][random.below(5)],
            4 => bytes.copy_within(from..from + length, at),
            _ => drop(bytes.drain(at..at + length)),
        }
    }
    bytes
}

fn damaged_fixtures_do_no_harm(seed: u64, sizes: Range<usize>, cases: usize) {
    let mut random = Lcg(seed);
    let mut read = 0;
    let mut tried = 0;
    for (name, bytes) in fixtures().into_iter().filter(|(_, bytes)| sizes.contains(&bytes.len())) {
        for case in 0..cases {
            let damaged = damage(&bytes, &mut random);
            let group_by = if case % 2 == 0 { GroupBy::Stack } else { GroupBy::Frames };
            tried += 1;
            if survives(&damaged, group_by) {
                read += 1;
                if case % 4 == 0 {
                    compares(&damaged, &bytes);
                }
            }
        }
        assert!(tried > 0, "{name}");
    }
    // Damage that the reader does not see must get to the replay, or this tests little.
    assert!(read * 20 > tried, "{read} of {tried}");
}

const SMALL: Range<usize> = 0..20_000;
const MIDDLE: Range<usize> = 20_000..100_000;
const LARGE: Range<usize> = 100_000..usize::MAX;

#[test]
fn damaged_small_fixtures_do_no_harm() {
    damaged_fixtures_do_no_harm(1, SMALL, 20);
}

#[test]
fn damaged_larger_fixtures_do_no_harm() {
    damaged_fixtures_do_no_harm(2, MIDDLE, 4);
    damaged_fixtures_do_no_harm(3, LARGE, 2);
}

#[test]
#[ignore = "every night: cargo test exhaustively -- --ignored"]
fn small_fixtures_damaged_exhaustively_do_no_harm() {
    damaged_fixtures_do_no_harm(4, SMALL, 500);
}

#[test]
#[ignore = "every night: cargo test exhaustively -- --ignored"]
fn larger_fixtures_damaged_exhaustively_do_no_harm() {
    damaged_fixtures_do_no_harm(5, MIDDLE, 100);
    damaged_fixtures_do_no_harm(6, LARGE, 12);
}

#[test]
fn events_in_any_order_with_any_numbers_do_no_harm() {
    random_events_do_no_harm(4, 300);
}

#[test]
#[ignore = "every night: cargo test exhaustively -- --ignored"]
fn events_in_any_order_exhaustively_do_no_harm() {
    random_events_do_no_harm(5, 3000);
}

/// Numbers of events and blocks at their limits, in a well-formed pickle: damage at random hardly ever makes them.
fn random_events_do_no_harm(seed: u64, cases: usize) {
    let actions = [
        "alloc",
        "free_requested",
        "free_completed",
        "segment_alloc",
        "segment_free",
        "segment_map",
        "segment_unmap",
        "snapshot",
        "oom",
        "other",
    ];
    let numbers = [
        0,
        1,
        511,
        512,
        513,
        4096,
        4608,
        1 << 20,
        (1 << 20) + 1,
        2 << 20,
        20 << 20,
        1 << 40,
        1 << 63,
        u64::MAX - 512,
        u64::MAX,
    ];
    let mut random = Lcg(seed);
    let mut read = 0;
    for case in 0..cases {
        // Half of the cases keep to small numbers, where nothing overflows.
        let few = if case % 2 == 0 { 11 } else { numbers.len() };
        let number = |random: &mut Lcg| numbers[random.below(few)];
        let events = (0..random.below(12)).map(|_| {
            let (addr, size) = (number(&mut random), number(&mut random));
            let event =
                event(actions[random.below(actions.len())], addr, size).with("device_free", number(&mut random));
            event.with("time_us", [0, i64::MAX, i64::MIN, -1, 5][random.below(5)])
        });
        let events = list(events.collect::<Vec<_>>());
        let segments = (0..random.below(4)).map(|_| {
            let blocks = (0..random.below(4)).map(|_| {
                let state = ["active_allocated", "active_pending_free", "inactive"][random.below(3)];
                block(number(&mut random), number(&mut random), state).with("requested_size", number(&mut random))
            });
            let blocks = list(blocks.collect::<Vec<_>>());
            let (address, size) = (number(&mut random), number(&mut random));
            let segment = segment(0, 1024).with("address", address).with("total_size", size).with("blocks", blocks);
            segment.with("is_expandable", random.below(2) == 0)
        });
        let segments = list(segments.collect::<Vec<_>>());
        let settings = Value::dict([
            ("expandable_segments", (random.below(2) == 0).into()),
            (
                "max_split_size",
                [Value::from(-1), 0.into(), (20 << 20).into(), u64::MAX.into()][random.below(4)].clone(),
            ),
            (
                "roundup_power2_divisions",
                Value::dict([
                    ("1", [0, 1, 2, 3, 8, i32::MAX][random.below(6)].into()),
                    ("32768", number(&mut random).into()),
                ]),
            ),
        ]);
        let value = snapshot_of(segments, list([events])).with("allocator_settings", settings);
        read += usize::from(survives(&write(&value, Options::shared()), GroupBy::Stack));
    }
    assert!(6 * read > cases, "{read} of {cases}");
}
