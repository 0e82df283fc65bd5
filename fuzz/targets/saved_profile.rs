//! Any text as a saved profile, whose digest is set right: else it would be the only thing that is ever wrong.

#![no_main]

mod checks;

use libfuzzer_sys::fuzz_target;
use ptmem::profile::saved::text_of;
use ptmem::profile::{ReadOptions, read};
use ptmem::report;
use ptmem::{Thresholds, compare, tree};

fuzz_target!(|text: &str| {
    let text = checks::signed(text);
    let Ok(profile) = read(text.as_bytes(), "saved", ReadOptions::default()) else { return };
    let options = report::RenderOptions {
        tree: Some(tree::TreeOptions::default()),
        phases: true,
        ..report::RenderOptions::default()
    };
    checks::report(&profile, &options);
    let again = text_of(&profile, &profile.raises).expect("what is read can be saved");
    let again = read(again.as_bytes(), "saved", ReadOptions::default()).expect("what is saved can be read");
    // Stacks that the file has twice are one by then.
    checks::is_saved_whole(&again);
    let limits = Thresholds::default().max_growth("0").expect("a limit");
    checks::report(&compare(profile, again, &limits), &report::RenderOptions::default());
});
