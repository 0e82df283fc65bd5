//! `ptmem doctor`: whether a snapshot is fit to gate.

mod examine;

use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use ptmem::diff;
use ptmem::leak;
use ptmem::profile::{self, Moment};
use ptmem::report::{printable, without_commands, wrap};
use ptmem::verdict::Verdict;

use crate::cli::args::{ConfigArguments, heading};
use crate::cli::exit::exit_code;
use crate::cli::output::Output;
use crate::cli::{config, input};
use examine::{Aspect, Examined, Health, again, examine, health};

/// Check whether a snapshot is fit to gate, and how to record a better one
#[derive(Debug, Args)]
#[command(after_help = include_str!("exit_codes.txt").trim_ascii_end())]
pub(crate) struct DoctorArguments {
    /// The snapshot or saved profile
    snapshot: PathBuf,
    /// A second recording of the same program and code: reports what differs
    #[arg(long, value_name = "SNAPSHOT", help_heading = heading::INPUT)]
    again: Option<PathBuf>,
    #[command(flatten)]
    config: ConfigArguments,
}

pub(super) fn run(arguments: &DoctorArguments, output: &Output) -> Result<ExitCode> {
    let config = config::load(&arguments.config)?;
    let options = profile::ReadOptions { rules: config.rules.clone(), ..config.reading() };
    let mut profile = input::profile(&arguments.snapshot, &options)?;
    let steps = leak::search(&profile, &leak::LeakOptions::default());
    let mut findings = examine(&profile, &steps, config.limits.allow_oom.unwrap_or_default());
    if let Some(second) = &arguments.again {
        // At corresponding places.
        profile.look_at(Moment::Aligned);
        let diff = diff::compare(profile, input::profile(second, &options)?, diff::DiffOptions::default());
        findings.push((Aspect::Again, again(&diff)));
    }
    let health = health(&findings);
    output.print(&without_commands(&report(&findings, health, output.width().unwrap_or(usize::MAX))))?;
    let verdict = match health {
        Health::Good | Health::Weak => Verdict::Pass,
        Health::Unfit => Verdict::Inconclusive,
    };
    Ok(exit_code(verdict, false))
}

/// The column of the result, after the name of the property.
const WORDS: usize = 18;

/// A line for every finding, its advice below it, and the sum at the end.
fn report(findings: &[(Aspect, Examined)], health: Health, width: usize) -> String {
    let mut text = String::new();
    let mut advised: Vec<&str> = Vec::new();
    for (aspect, Examined { health, words, advice }) in findings {
        // Writing to a String cannot fail.
        let words = wrap(&printable(words), WORDS, WORDS, width);
        let _ = writeln!(text, "{:<6} {:<10} {words}", health.to_string(), aspect.to_string());
        // One line of the recording may mend several things.
        if let Some(advice) = advice.filter(|advice| !advised.contains(advice)) {
            advised.push(advice);
            let advice = wrap(&printable(advice), WORDS + 3, WORDS + 3, width);
            let _ = writeln!(text, "{:WORDS$}-> {advice}", "");
        }
    }
    let sum = match health {
        Health::Good => "fit to gate",
        // Two runs of one program that differ are taken for a change of it.
        Health::Weak if findings.iter().any(|(aspect, found)| *aspect == Aspect::Again && found.health == health) => {
            "fit to gate only with limits above what differs between two runs of the same program"
        }
        Health::Weak => "fit to gate; weak points make reports less exact or less detailed",
        Health::Unfit => "not fit to gate: mend what is unfit before you trust a verdict on the peak",
    };
    text + "\n" + sum + "\n"
}
