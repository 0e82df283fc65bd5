//! `ptmem diff`: compares two recordings, or the ranks of two jobs.

mod compare;
mod names;
mod pairs;

use std::process::ExitCode;

use anyhow::Result;

use super::args::DiffArguments;
use super::config;
use super::exit::exit_code;
use super::modes;
use super::output::{self, Output};
use super::place::StartFolder;
use super::report::report_options;
pub(crate) use compare::{Request, compare_all};
pub(crate) use pairs::Pair;
use pairs::pair;

pub(crate) fn run(arguments: &DiffArguments, output: &Output) -> Result<ExitCode> {
    let place = StartFolder::here();
    let loaded = config::load_at(&place, &arguments.config)?;
    let pair = pair(arguments, &loaded)?;
    if arguments.capacity.device.is_given() && pair.thresholds.headroom.is_none() {
        modes::refuse("--device-memory", "no --min-headroom is given, here or in ptmem.toml")?;
    }
    if arguments.all && arguments.tree.options().is_some() && !arguments.view.lists_stacks_beside_tree() {
        modes::refuse("--all", "the call tree takes the place of the stacks")?;
    }
    output::check_exports(&arguments.view.export, pair.inputs().chain(arguments.config.file()))?;
    let request = Request::new(&place, &loaded.config, &arguments.stacks, &arguments.view);
    let request = Request { phases: arguments.phases, git: arguments.git.as_deref(), ..request };
    let gate = compare_all(&[pair], &request)?;
    let mut options = report_options(&arguments.view, output);
    options.acceptance = loaded.acceptance()?;
    options.unchanged = arguments.all;
    options.explain = arguments.explain;
    options.tree = arguments.tree.options();
    options.phases = arguments.phases;
    arguments.view.write(&place, &gate, &mut options, output)?;
    Ok(exit_code(gate.verdict(), arguments.trust.exit_zero))
}
