//! Tests of the program and of the action, one module a subject: `docs/tests.md` says what is tested where.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

// The texts beside `assert_reads!`.
#[macro_use(str)]
extern crate snapbox;

#[path = "../support/mod.rs"]
#[macro_use]
mod support;

mod accepted;
mod action;
mod bad_input;
#[cfg(all(unix, feature = "simulate"))]
mod bisect;
mod causes;
mod checkpoints;
mod cluster;
mod commands;
mod config;
mod cycles;
mod diagnostics;
mod doctor;
mod doubts;
mod error_bounds;
mod explanations;
mod facts;
mod fit;
mod gate;
mod gate_base;
mod git;
mod golden;
mod history;
mod html;
mod init;
mod inputs;
mod labels;
mod moments;
mod moved_code;
mod moved_peak;
mod numbers;
mod one_rank;
mod options;
mod overlap;
mod page_data;
mod phases;
mod pinned;
mod pip;
mod ranks;
mod recorded;
mod recorded_detail;
mod recorded_programs;
mod repeatable;
mod series;
mod settings;
mod simulate;
mod simulated_torch;
mod skill;
mod source;
mod statements;
mod stored;
mod strict;
mod terminal;
#[cfg(all(target_os = "linux", feature = "simulate"))]
mod tool_environment;
mod torch_modules;
mod trust;
mod watched;
