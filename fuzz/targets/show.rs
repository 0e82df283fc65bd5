//! Any bytes as the input of `ptmem show`: unpacked, replayed and reported in every format. Reported figures add up,
//! and saved profiles read back unchanged.

#![no_main]

use libfuzzer_sys::fuzz_target;
use ptmem::profile::saved::{Bound, text_of};
use ptmem::profile::{Every, Held, Moment, Options, Profile, StackTotal, read};
use ptmem::report::{self, Format, Subject};
use ptmem::stack::GroupBy;
use ptmem::tree;

/// Limit on expanded input; enough for every seed.
const MAX_INPUT: u64 = 1 << 20;

fuzz_target!(|bytes: &[u8]| {
    let Ok(profile) = read(bytes, "input", options(bytes.len())) else { return };
    adds_up(&profile);
    for (tree, phases) in [(None, false), (Some(tree::Options::default()), true)] {
        report(&profile, &report::Options { tree, phases, ..report::Options::default() });
    }
    is_saved_whole(&profile);
});

/// They follow from the length of the input, so that the input remains a file like any other.
fn options(length: usize) -> Options {
    let every = [None, Some(Every::Events(7)), Some(Every::Time(100)), Some(Every::Steps(2, None))];
    let window = Moment::between("event:10..phase:step:end").unwrap_or_default();
    let at = [Moment::Peak, Moment::Baseline, Moment::End, Moment::Oom, Moment::Event(40), Moment::Time(500), window];
    Options {
        group_by: GroupBy::ALL[length % GroupBy::ALL.len()],
        // Most inputs of a kind are refused when it cannot be divided: divide few.
        every: every.into_iter().nth((length / 8).saturating_sub(4) % 16).flatten(),
        at: at[length / 8 % at.len()].clone(),
        max_input: Some(MAX_INPUT),
        ..Options::default()
    }
}

/// The stacks of a device hold, at each moment, what the device does.
fn adds_up(profile: &Profile) {
    for device in &profile.devices {
        let counter = device.figures.allocated;
        if !counter.exact() {
            continue;
        }
        let sum = |held: fn(&StackTotal) -> Held| device.stacks.iter().map(|stack| held(stack).bytes).sum::<u64>();
        assert_eq!(Some(sum(|stack| stack.baseline)), counter.baseline);
        assert_eq!(Some(sum(|stack| stack.peak)), counter.peak);
        assert_eq!(sum(|stack| stack.end), counter.end);
    }
}

fn report(profile: &Profile, options: &report::Options) {
    for format in Format::ALL {
        let text = format.render(Subject::Profile(profile, None), options).expect("every format holds everything");
        if matches!(format, Format::Json | Format::Sarif | Format::Bencher | Format::GithubActionBenchmark) {
            serde_json::from_str::<serde_json::Value>(&text).expect("what is said to be JSON is JSON");
        }
    }
}

/// A saved profile can be read, and saves as the same text.
fn is_saved_whole(profile: &Profile) {
    let text = text_of(profile, Bound::default(), &profile.raises);
    // No saved profile knows of annotations and pools.
    let group_by = if profile.options.group_by.is_origin() { GroupBy::Stack } else { profile.options.group_by };
    let options = Options { every: None, group_by, ..profile.options.clone() };
    let again = read(text.as_bytes(), "saved", options).expect("what is saved can be read");
    assert_eq!(text, text_of(&again, Bound::default(), &again.raises));
}
