//! Small files that stand for much: what they unfold to is bounded by their size, whatever their shape.

use proptest::prelude::*;
use ptmem::profile::saved::text_of;
use ptmem::profile::{self, Profile, ReadOptions};

use crate::support::history::{self, A, MIB, event, segment, snapshot};
use crate::support::made::{self, Bomb, Choices, MOVE};
use crate::support::pickle::{self, Value};
use crate::support::{random, signed};

fn read(text: &str, max_input: Option<u64>) -> Result<Profile, profile::Error> {
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
    let message = read(&saved(&bomb(699_051)), None).unwrap_err().to_string();
    assert!(message.contains("it stands for 1,398,102 events and blocks, which count as 64.00 MiB"), "{message}");
    // What could not be read again is not written.
    let mut allowed = read(&saved(&bomb(5000)), None).unwrap();
    allowed.options.max_input = Some(5000 * MOVE);
    let message = text_of(&allowed, &[]).unwrap_err().to_string();
    assert!(message.contains("it stands for 10,000 events and blocks"), "{message}");
}

/// A recording whose allocations have frames and tags of this length: a pickle writes each text once.
fn recording(frames: usize, name: usize, tag: usize) -> Vec<u8> {
    let function: Value = "f".repeat(name).as_str().into();
    let folder: Value = format!("/{}.py", "d".repeat(name)).as_str().into();
    let metadata: Value = "t".repeat(tag).as_str().into();
    let events = (0..frames as u64).map(|line| {
        let frame = Value::dict([("name", function.clone()), ("filename", folder.clone()), ("line", line.into())]);
        let tagged = event("alloc", A + line * 512, 512).with("frames", Value::from(vec![frame]));
        if tag > 0 { tagged.with("user_metadata", metadata.clone()) } else { tagged }
    });
    let blocks = vec![(512, true); frames];
    let state = snapshot(vec![segment(A, &blocks), segment(A + (1 << 40), &[(MIB, false)])], events.collect());
    pickle::write(&state, pickle::Options::shared())
}

proptest! {
    #![proptest_config(random::config(12))]

    /// Texts are written once, as in a pickle.
    #[test]
    fn a_saved_profile_is_no_larger_than_its_snapshot(frames in 1..300_usize, name in 1..3000_usize, tag in 0..3000_usize) {
        let snapshot = recording(frames, name, tag);
        let profile = profile::read(&snapshot[..], "x.pkl", ReadOptions::default()).unwrap();
        let text = text_of(&profile, &[]).unwrap();
        // Of few events, the rest of the file takes most.
        let rest = 4096 + 2 * (name + tag) + 4 * 128 * frames;
        prop_assert!(text.len() <= snapshot.len() + rest, "{} bytes of {}", text.len(), snapshot.len());
        let again = read(&text, None).unwrap();
        prop_assert_eq!(&text_of(&again, &[]).unwrap(), &text);
        prop_assert_eq!(&again.devices[0].stacks[0].label, &profile.devices[0].stacks[0].label);
    }
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
