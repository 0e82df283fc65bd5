//! Any text as ptmem.toml, whose limits judge a comparison.

#![no_main]

mod checks;

use libfuzzer_sys::fuzz_target;
use ptmem::config::Config;
use ptmem::profile::{Profile, ReadOptions, read};
use ptmem::report;
use ptmem::stack::GroupBy;
use ptmem::{Thresholds, compare};

fuzz_target!(|text: &str| {
    let Ok(config) = Config::parse(text) else { return };
    for gate in config.gates.keys() {
        assert!(config.gate(gate).is_ok());
    }
    let _ = config.gate("nightly");
    let options = ReadOptions {
        rules: config.rules,
        group_by: config.group_by.unwrap_or(GroupBy::Stack),
        ..ReadOptions::default()
    };
    let limits = Thresholds {
        growth: config.limits.growth,
        maximum: config.limits.maximum,
        accepted: config.accepted,
        min_delta: config.limits.min_delta.unwrap_or(0),
        ..Thresholds::default()
    };
    let before = profile(include_bytes!("../../fixtures/before.pkl"), &options);
    let after = profile(include_bytes!("../../fixtures/after.pkl"), &options);
    checks::report(&compare(before, after, &limits), &report::RenderOptions::default());
});

fn profile(bytes: &[u8], options: &ReadOptions) -> Profile {
    read(bytes, "fixture", options.clone()).expect("a fixture")
}
