//! Small files that stand for much: what they unfold to is bounded by their size, whatever their shape.

use proptest::prelude::*;
use ptmem::profile::saved::{bytes_of, text_of};
use ptmem::profile::{self, Profile, ReadOptions};

use crate::support::history::{self, A, MIB, event, segment, snapshot};
use crate::support::made::{self, Bomb, Choices, MOVE};
use crate::support::pickle::{self, Value};
use crate::support::{random, signed};

fn read(text: &str, max_input: Option<u64>) -> Result<Profile, profile::ProfileError> {
    profile::read(text.as_bytes(), "x.json", ReadOptions { max_input, ..ReadOptions::default() })
}

/// A saved profile of these devices.
fn saved(bombs: &[Bomb]) -> String {
    signed(&made::saved(bombs))
}

proptest! {
    #![proptest_config(random::config(200))]

    /// Nothing is unfolded that stands for more, and all else is read.
    #[test]
    fn a_history_is_no_longer_than_its_file_may_stand_for(bytes in prop::collection::vec(any::<u8>(), 0..64), most in 0_u64..1 << 14) {
        let mut choices = Choices(&bytes);
        let bombs: Vec<Bomb> = (0..=choices.below(4)).map(|_| Bomb::of(&mut choices)).collect();
        let moves: u64 = bombs.iter().map(Bomb::moves).sum();
        match read(&saved(&bombs), Some(most * MOVE)) {
            Ok(profile) => {
                prop_assert!(moves <= most, "{moves} > {most}");
                let events: u64 = profile.devices.iter().map(|device| device.events).sum();
                prop_assert_eq!(events, bombs.iter().map(Bomb::events).sum::<u64>());
            }
            Err(error) => {
                prop_assert!(moves > most, "{}", error);
                prop_assert!(error.to_string().contains("are allowed for a file of its size"), "{}", error);
                prop_assert!(error.too_large().is_some());
            }
        }
    }

    /// No figure that an input states is dropped: it is the one that is judged, or the input is refused.
    #[test]
    fn every_stated_number_is_taken_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let (text, facts) = made::numbers(&mut Choices(&bytes));
        for fact in &facts {
            let case = Some(fact.case.clone()).filter(|case| !case.is_empty());
            let options = ReadOptions { case, ..ReadOptions::default() };
            let Ok(profile) = profile::read(text.as_bytes(), "x.json", options) else { continue };
            let device = profile.devices.iter().find(|device| device.device == fact.device.into());
            let figures = &device.expect("every stated device").figures;
            let [allocated, reserved] = [figures.allocated, figures.reserved];
            let known = [allocated.peak, allocated.end, reserved.peak, reserved.end][fact.figure];
            prop_assert_eq!(known, Some(fact.bytes), "{:?} in {}", fact, text);
        }
    }
}

#[test]
fn most_numbers_are_read() {
    let texts = (0..=255_u8).map(|seed| made::numbers(&mut Choices(&[0, 7, seed, seed / 2, 4, 0])));
    let read = texts.filter(|(text, facts)| {
        let profile = profile::read(text.as_bytes(), "x.json", ReadOptions::default());
        !facts.is_empty() && profile.is_ok()
    });
    assert!(read.count() > 100);
}

#[test]
fn small_files_stand_for_more_than_a_million_events() {
    let bomb = |pairs| [Bomb { rounds: vec![pairs], start: 0, frees: true }];
    assert_reads!(read(&saved(&bomb(699_051)), None).unwrap_err().to_string() => str!["it stands for 1,398,102 events and blocks, which count as 64.00 MiB; 64.00 MiB are allowed for a file of its size"]);
    // What could not be read again is not written.
    let mut allowed = read(&saved(&bomb(5000)), None).unwrap();
    allowed.options.max_input = Some(5000 * MOVE);
    assert_reads!(text_of(&allowed, &[]).unwrap_err().to_string() => str!["it stands for 10,000 events and blocks, which count as 468.75 KiB; 234.38 KiB are allowed for a file of its size"]);
}

/// The size up to which a saved profile may be larger than its snapshot.
const TINY: usize = 64 << 10;

/// What the events of a recording have of their own, so that nothing of it repeats.
#[derive(Debug, Clone, Copy)]
enum Own {
    Nothing,
    Sizes,
    Names,
    /// Names that many events have, in any order.
    Files,
    Metadata,
    CompileContext,
    /// Events are failed requests.
    Failures,
    Setting,
}

const OWN: [Own; 8] =
    [Own::Nothing, Own::Sizes, Own::Names, Own::Files, Own::Metadata, Own::CompileContext, Own::Failures, Own::Setting];

/// A text without repetitions.
fn word(seed: u64, length: usize) -> String {
    const LETTERS: [char; 8] = ['a', 'b', 'x', '7', '_', 'é', '"', '\u{1}'];
    let letters = random::numbers(seed).flat_map(u64::to_le_bytes);
    letters.map(|byte| LETTERS[usize::from(byte) % LETTERS.len()]).take(length).collect()
}

/// A recording of this many events, each with stacks of some frames of its own; texts have this length.
fn recording(own: Own, events: u64, frames: u64, length: usize, frees: bool) -> Vec<u8> {
    let mut all = Vec::new();
    let mut settings = Value::dict([]);
    for at in 0..events {
        let unlike = random::numbers(at).next().unwrap_or_default();
        let [own_name, shared] = [at, unlike % 400].map(|seed| word(seed, length));
        let address = A + if frees { 0 } else { at * MIB };
        let mut one = event("alloc", address, 512);
        match own {
            Own::Nothing => {}
            Own::Sizes => one = event("alloc", address, 1 + at * 3),
            Own::Names | Own::Files => {
                let name = if matches!(own, Own::Names) { &own_name } else { &shared };
                let frame = |line: u64| {
                    Value::dict([
                        ("name", name.as_str().into()),
                        ("filename", shared.as_str().into()),
                        ("line", line.into()),
                    ])
                };
                one =
                    one.with("frames", (0..frames).map(|frame_of| frame(unlike % 4096 + frame_of)).collect::<Vec<_>>());
            }
            Own::Metadata => one = one.with("user_metadata", own_name.as_str()),
            Own::CompileContext => one = one.with("compile_context", own_name.as_str()),
            Own::Failures => one = event("oom", unlike >> 28, 1 + (unlike >> 34)),
            Own::Setting => settings = settings.with(&own_name, true),
        }
        let free = |action: &str| one.clone().with("action", action);
        let freed = if frees && !matches!(own, Own::Failures) {
            vec![free("free_requested"), free("free_completed")]
        } else {
            vec![]
        };
        all.push(one.clone());
        all.extend(freed);
    }
    let state = snapshot(vec![segment(A + (1 << 44), &[(MIB, false)])], all).with("allocator_settings", settings);
    pickle::write(&state, pickle::Options::shared())
}

proptest! {
    #![proptest_config(random::config(12))]

    /// Whatever does not repeat itself in a snapshot takes no more bytes in the profile.
    #[test]
    fn a_saved_profile_is_no_larger_than_its_snapshot(
        kind in 0..OWN.len(), events in 1..1500_u64, frames in 1..4_u64, length in 1..150_usize, frees: bool,
    ) {
        let snapshot = recording(OWN[kind], events, frames, length, frees);
        let profile = profile::read(&snapshot[..], "x.pkl", ReadOptions::default()).unwrap();
        let bytes = bytes_of(&profile, &[]).unwrap();
        prop_assert!(bytes.len() <= snapshot.len().max(TINY), "{} bytes of {}", bytes.len(), snapshot.len());
        let again = profile::read(&bytes[..], "x.json", ReadOptions::default()).unwrap();
        prop_assert_eq!(&bytes_of(&again, &[]).unwrap(), &bytes);
        prop_assert_eq!(&text_of(&again, &[]).unwrap(), &text_of(&profile, &[]).unwrap());
    }
}

/// Many devices of which little is known, and one long stack.
#[test]
fn what_few_events_have_is_no_larger_either() {
    let alloc =
        |at: u64| Value::dict([("action", "alloc".into()), ("addr", (A + at).into()), ("size", (at + 1).into())]);
    let devices: Vec<Value> = (0..1000).map(|at| vec![alloc(at)].into()).collect();
    let devices = Value::dict([("segments", Value::List(vec![])), ("device_traces", devices.into())]);
    let frames = (0..6000_u64).map(|line| {
        Value::dict([("name", word(line, 4).as_str().into()), ("filename", "a.py".into()), ("line", line.into())])
    });
    let deep = snapshot(vec![], vec![event("alloc", A, 512).with("frames", frames.collect::<Vec<_>>())]);
    for state in [devices, deep] {
        let snapshot = pickle::write(&state, pickle::Options::shared());
        let profile = profile::read(&snapshot[..], "x.pkl", ReadOptions::default()).unwrap();
        assert!(text_of(&profile, &[]).unwrap().len() > snapshot.len(), "else it shows nothing");
        let bytes = bytes_of(&profile, &[]).unwrap();
        assert!(bytes.len() <= snapshot.len().max(TINY), "{} bytes of {}", bytes.len(), snapshot.len());
        assert!(profile::read(&bytes[..], "x.json", ReadOptions::default()).is_ok());
    }
}

#[test]
fn a_profile_that_is_smaller_than_its_snapshot_is_text() {
    let snapshot = recording(Own::Nothing, 1500, 1, 9, true);
    let profile = profile::read(&snapshot[..], "x.pkl", ReadOptions::default()).unwrap();
    assert_eq!(bytes_of(&profile, &[]).unwrap(), text_of(&profile, &[]).unwrap().into_bytes());
}

/// Reports list all actions, and remarks name packages, so that both are few.
#[test]
fn unknown_names_are_not_listed_without_end() {
    let events: Vec<Value> = (0..500).map(|at| event(&format!("{at}{}", "x".repeat(2000)), A, 512)).collect();
    let profile = profile::read(&history::file(vec![], events)[..], "x.pkl", ReadOptions::default()).unwrap();
    let actions = &profile.devices[0].actions;
    assert_eq!((actions.len(), actions.values().sum::<u64>(), actions["others"]), (65, 500, 500 - 64));
    let told: usize = profile.diagnostics.iter().map(|found| found.message.len()).sum();
    assert!(told < 10_000, "{told} bytes");
    assert_eq!(read(&text_of(&profile, &[]).unwrap(), None).unwrap().devices[0].actions, *actions);
}

/// The last figure of a table that is cut off would be a smaller one.
#[test]
fn a_table_or_log_that_is_too_long_is_refused() {
    let length = profile::numbers::MOST_TABLE + 3;
    for (head, tail) in
        [("peak,note,end\n99999,", ",12345\n"), ("GPU KV cache size: 9 tokens\n", "\nGPU KV cache size: 7 tokens")]
    {
        let text = [head, &"x".repeat(length - head.len() - tail.len()), tail].concat();
        assert_reads!(read(&text, None).unwrap_err().to_string() => str!["a text that is not JSON is read as a table or log, of at most 64.00 MiB: give the part with the figures"]);
    }
}

/// A text takes several times its memory, as JSON does.
#[test]
fn compressed_texts_expand_to_an_eighth_of_what_others_may() {
    for (length, is_read) in [(7 << 20, true), (9 << 20, false)] {
        let text = format!("peak,note\n9,{}\n", "x".repeat(length));
        let packed = ptmem::input::compress(text.as_bytes());
        let read = profile::read(&packed[..], "x.csv.gz", ReadOptions::default());
        assert_eq!(read.is_ok(), is_read);
        if let Err(error) = read {
            assert!(error.to_string().contains("expands to more than 8.00 MiB"), "{error}");
        }
    }
}
