//! The JSON contracts, a file each: `ptmem.profile/1`, `ptmem.diff/2`, `ptmem.suite/1`, `ptmem.ranks/1` and
//! `ptmem.leak/1`.
//!
//! The structures here are the contract: separate from the model, so that the model can change without
//! breaking a reader. Keys stand in a fixed order; integers are bytes.

mod diff;
mod history;
mod leak;
mod profile;
mod ranks;
mod scale;
mod shared;
mod suite;
mod tree;

use serde::Serialize;

use super::ranks::Line;
use super::{Options, Study, Subject};

/// The result as one object.
pub(super) fn render(subject: Subject<'_>, options: &Options) -> Result<String, serde_json::Error> {
    match subject {
        Subject::Profile(of, judgement) => text(&profile::ProfileReport::new(of, judgement, true, options)),
        Subject::Ranks(of) => text(&ranks::RanksReport::new(of, options)),
        Subject::Leaks(gate) => text(&leak::LeakReport::new(gate)),
        Subject::Gate(gate) => match &gate.comparisons[..] {
            [one] if one.name.is_none() => text(&diff::DiffReport::new(one, true, options)),
            _ => text(&suite::SuiteReport::new(gate, options)),
        },
    }
}

/// The result over several profiles as one object.
pub(super) fn render_study(study: Study<'_>) -> Result<String, serde_json::Error> {
    match study {
        Study::History(history) => text(&history::HistoryReport::new(history)),
        Study::Scale(scale) => text(&scale::ScaleReport::new(scale)),
    }
}

fn text(report: &impl Serialize) -> Result<String, serde_json::Error> {
    let mut text = crate::text::printable_json(serde_json::to_string_pretty(report)?);
    text.push('\n');
    Ok(text)
}

/// The lines of ranks that have their stacks in the report: the first ones. The stacks of hundreds of ranks would take
/// hundreds of megabytes, and of no use to a reader.
fn with_stacks<'l, T, D>(lines: &'l [Line<'_, T, D>], options: &Options) -> &'l [Line<'l, T, D>] {
    let most = if options.top == 0 { lines.len() } else { options.top.min(lines.len()) };
    &lines[..most]
}
