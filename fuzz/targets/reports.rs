//! Two inputs as the before and the after of a comparison, and as a search for leaks: every format renders.

#![no_main]

mod checks;

use libfuzzer_sys::fuzz_target;
use ptmem::profile::{ReadOptions, read};
use ptmem::report;
use ptmem::{LeakOptions, Thresholds, compare, find_leaks, tree};

/// Limit on each expanded input; enough for every seed.
const MAX_INPUT: u64 = 1 << 18;

fuzz_target!(|bytes: &[u8]| {
    // The first bytes are the length of the before.
    let Some((length, rest)) = bytes.split_first_chunk::<4>() else { return };
    let length = u32::from_le_bytes(*length) as usize;
    let (before, after) = rest.split_at(length.min(rest.len()));
    let options = ReadOptions { max_input: Some(MAX_INPUT), ..ReadOptions::default() };
    let Ok(old) = read(before, "before", options.clone()) else { return };
    let Ok(new) = read(after, "after", options) else { return };
    let limits = ["0", "stack=0", "stack:*=0", "phase:*=0", "reserved=1%"];
    let limits = limits.iter().try_fold(Thresholds::default(), |limits, limit| limits.max_growth(limit));
    let gate = compare(old, new, &limits.expect("limits"));
    for (tree, phases) in [(None, false), (Some(tree::TreeOptions::default()), true)] {
        checks::report(&gate, &report::RenderOptions { tree, phases, ..report::RenderOptions::default() });
    }
    if let Ok(leaks) = find_leaks([before, after].map(|of| ("input".to_owned(), of)), &LeakOptions::default(), 0) {
        checks::report(&leaks, &report::RenderOptions::default());
    }
});
