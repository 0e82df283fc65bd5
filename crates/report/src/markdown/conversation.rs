//! The commit and the run of a report, who approved the growth, and how it can be accepted.

use super::escape::{block, code, prose};
use super::page::Page;
use crate::Options;
use crate::view::{Acceptance, View};

/// Writes which commit the report is of, in which run, and who approved what it found.
pub(super) fn surroundings(page: &mut Page, view: &View, options: &Options) {
    if let Some(run) = &options.run {
        let commit = format!("[`{}`]({})", run.short_commit(), run.commit_address());
        page.add(&format!("\nGPU memory at commit {commit}, [log of the run]({})\n", run.log));
    }
    if let Some(approval) = &view.approval {
        page.add(&format!("\n☑️ {}\n", prose(&approval.to_string())));
    }
}

/// Writes how to accept the growth, folded away.
pub(super) fn acceptance(page: &mut Page, acceptance: &Acceptance) {
    page.details("How to accept this growth", |page| {
        let mut piece = String::new();
        if !acceptance.commands.is_empty() {
            piece += &format!("\nRecord it as the new before:\n\n{}", block("sh", &acceptance.commands));
        }
        let entries = block("toml", &acceptance.entries);
        piece += &format!("\nLet it pass until {}, in `ptmem.toml`:\n\n{entries}", acceptance.expires);
        if let Some(label) = &acceptance.label {
            piece += &format!("\nApprove it with the label {} on the pull request.\n", code(label));
        }
        page.add(&piece);
    });
}
