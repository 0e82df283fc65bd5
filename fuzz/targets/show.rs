//! Any bytes as the input of `ptmem show`: unpacked, replayed and reported in every format. Reported figures add up,
//! and saved profiles read back unchanged.

#![no_main]

mod checks;

use libfuzzer_sys::fuzz_target;
use ptmem::profile::{Every, Moment, ReadOptions, read};
use ptmem::report;
use ptmem::stack::GroupBy;
use ptmem::tree;

/// Limit on expanded input; enough for every seed.
const MAX_INPUT: u64 = 1 << 20;

fuzz_target!(|bytes: &[u8]| {
    let Ok(profile) = read(bytes, "input", options(bytes.len())) else { return };
    checks::adds_up(&profile);
    for (tree, phases) in [(None, false), (Some(tree::TreeOptions::default()), true)] {
        checks::report(&profile, &report::RenderOptions { tree, phases, ..report::RenderOptions::default() });
    }
    checks::is_saved_whole(&profile);
});

/// They follow from the length of the input, so that the input remains a file like any other.
fn options(length: usize) -> ReadOptions {
    let every = [None, Some(Every::Events(7)), Some(Every::Time(100)), Some(Every::Steps(2, None))];
    let window = "event:10..phase:step:end".parse::<Moment>().unwrap_or_default();
    let at = [Moment::Peak, Moment::Baseline, Moment::End, Moment::Oom, Moment::Event(40), Moment::Time(500), window];
    ReadOptions {
        group_by: GroupBy::ALL[length % GroupBy::ALL.len()],
        // Most inputs of a kind are refused when it cannot be divided: divide few.
        every: every.into_iter().nth((length / 8).saturating_sub(4) % 16).flatten(),
        at: at[length / 8 % at.len()].clone(),
        max_input: Some(MAX_INPUT),
        ..ReadOptions::default()
    }
}
