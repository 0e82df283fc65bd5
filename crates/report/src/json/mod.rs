//! The JSON contracts, a file each: `ptmem.profile/1`, `ptmem.diff/2`, `ptmem.suite/1`, `ptmem.ranks/1` and `ptmem.leak/1`, and the
//! objects that those of studies share with them.
//!
//! The objects here are the contract: separate from the model, so that the model can change without breaking a reader.
//! Keys have a fixed order; integers are bytes. Everything is computed as it is written: a report may be many times as
//! large as the input.

mod diff;
mod leak;
mod profile;
mod ranks;
mod shared;
mod suite;

pub(super) use leak::LeakReport;
pub use profile::ProfileReport;
pub(super) use ptmem_base::json_writer::write;
pub use shared::{BudgetReport, DiagnosticReport, Tool};

use std::io::{self, Write};

use super::RenderOptions;
use super::ranks::{Others, RankLine, compared, shown};
use ptmem_judge::verdict::{Gate, Readings};

/// Writes comparisons as one object.
pub(super) fn write_gate(gate: &Gate, options: &RenderOptions, out: &mut dyn Write) -> io::Result<()> {
    if let Some(one) = gate.only().filter(|one| one.name.is_none()) {
        return write(&diff::DiffReport(one, true, options), out);
    }
    let lines: Vec<_> = gate.jobs().map(compared).collect();
    let jobs = gate.jobs().zip(&lines);
    let jobs: Vec<_> = jobs.map(|(of, lines)| suite::JobTable { of, lines, others: Others::changes(lines) }).collect();
    write(&suite::SuiteReport(gate, &jobs, options), out)
}

/// Writes the snapshots of the ranks of a job as one object.
pub(super) fn write_ranks(readings: &Readings, options: &RenderOptions, out: &mut dyn Write) -> io::Result<()> {
    readings.jobs().try_for_each(|job| {
        let lines = shown(job);
        write(&ranks::RanksReport(job, &lines, &Others::held(&lines), options), out)
    })
}

/// Whether the stacks of a rank are in the report, as those of the first lines are. The stacks of hundreds of ranks would take
/// hundreds of megabytes, and of no use to a reader.
fn has_stacks<T, D>(of: &T, lines: &[RankLine<'_, T, D>], options: &RenderOptions) -> bool {
    lines.iter().take(options.limit(lines.len())).any(|line| std::ptr::eq(line.of, of))
}
