//! The options about phases.

use std::str::FromStr;

use anyhow::{Result, bail};
use clap::Args;
use ptmem::config::Config;
use ptmem::diff::{Occurrences, PhaseOptions};
use ptmem::pattern::Pattern;
use ptmem::profile::Every;
use ptmem::verdict::{About, Thresholds};

/// Phases and equal parts of one history.
#[derive(Debug, Args)]
pub(crate) struct ShowPhases {
    /// List the phases of the history: annotations (record_function), metadata and compile contexts
    #[arg(long)]
    pub(crate) phases: bool,
    /// Skip the first N occurrences of each phase, such as warm-up
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) skip_first: u32,
    /// Show the peak of every part of the history of this length: 10steps, 1000events, 500ms, 1s
    #[arg(long, value_name = "LENGTH", value_parser = Every::from_str)]
    every: Option<Every>,
    /// With --every Nsteps: begin a step at every annotation, metadata or compile context whose name matches; part of
    /// the name, or a glob [default: the steps of 'ptmem leak']
    #[arg(long, value_name = "PATTERN", requires = "every", value_parser = Pattern::search_code)]
    step: Option<Pattern>,
}

impl ShowPhases {
    /// The parts that the history is to be divided into.
    pub(crate) fn every(&self) -> Result<Option<Every>> {
        match (self.every.clone(), self.step.clone()) {
            (Some(Every::Steps(length, _)), step) => Ok(Some(Every::Steps(length, step))),
            (every, None) => Ok(every),
            (_, Some(_)) => {
                bail!("--step requires --every with a number of steps, such as --every 1step")
            }
        }
    }
}

/// Phases in a comparison.
#[derive(Debug, Args)]
pub(crate) struct DiffPhases {
    /// Also list the phases (annotations, metadata, compile contexts) whose peak changed
    #[arg(long)]
    pub(crate) phases: bool,
    /// Which occurrences of a phase to compare: each with the one of the same number, or max, those with the highest
    /// peak on each side [default: each]
    #[arg(long, value_name = "WHICH")]
    phase_occurrence: Option<Occurrences>,
    /// Skip the first N occurrences of each phase, such as warm-up
    #[arg(long, value_name = "N", default_value_t = 0)]
    skip_first: u32,
}

impl DiffPhases {
    /// Options to compare phases, given the limits of the comparison.
    pub(crate) fn options(&self, limits: &Thresholds, config: &Config) -> PhaseOptions {
        let gated = limits.growth.iter().any(|growth| growth.target.about == About::Phases);
        PhaseOptions {
            occurrences: self.phase_occurrence.or(config.phase_occurrence).unwrap_or_default(),
            skip_first: self.skip_first,
            wanted: self.phases || gated,
        }
    }
}
