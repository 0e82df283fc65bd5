//! `name=value` lines for the file that `GITHUB_OUTPUT` names: the verdict, and the peak that explains it.

use std::fmt::Display;

use ptmem_base::units::percent;
use ptmem_judge::verdict::Verdict;

use super::{RenderOptions, Report};

pub(super) fn render(report: &dyn Report, options: &RenderOptions) -> String {
    let summary = report.summary();
    let delta = summary.peak.gained();
    let share = delta.zip(summary.peak.before).and_then(|(delta, before)| percent(delta, before));
    // Reviewers must be informed of some remarks even if the verdict is a pass.
    let announce = summary.announcements().iter().any(|found| found.code.is_announced());
    [
        line("verdict", Some(summary.verdict.map_or("none", Verdict::name))),
        line("exit-code", Some(summary.verdict.map_or(0, Verdict::exit_code))),
        line("peak-before", summary.peak.before),
        line("peak-after", summary.peak.after),
        line("delta", delta),
        line("percent", share),
        line("changed", Some(summary.has_changed)),
        line("announce", Some(announce)),
        line("approved", Some(options.approval.is_some())),
    ]
    .concat()
}

/// An output; empty where the value is not known.
fn line(name: &str, value: Option<impl Display>) -> String {
    match value {
        Some(value) => format!("{name}={value}\n"),
        None => format!("{name}=\n"),
    }
}
