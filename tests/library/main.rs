//! Tests of the library, one module a subject: `docs/tests.md` says what is tested where.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

// The texts beside `assert_reads!`.
#[macro_use(str)]
extern crate snapbox;

#[path = "../support/large/mod.rs"]
mod large;
#[path = "../support/mod.rs"]
#[macro_use]
mod support;

mod align;
mod align_steps;
mod architecture;
mod benchmarks;
mod code_changes;
mod configuration_schema;
mod cuts;
mod evaluation;
mod every_moment;
mod expansion;
mod failed_requests;
mod fixtures;
mod formats;
mod large_snapshots;
mod leak;
mod leak_loops;
mod leak_rounds;
mod leak_series;
mod numbering;
mod out_of_memory;
mod partial;
mod phases;
mod pickle;
mod recorded;
mod replay_properties;
mod replay_settings;
mod saved_profiles;
mod several_limits;
mod snapshot_input;
mod trace;
mod training;
mod unknown_figures;
mod verdicts;
mod windows;
mod wrapped;
