//! `ptmem diff`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use ptmem::config::Config;
use ptmem::verdict::{Limits, NoBefore};

use super::limits::{Capacity, DiffLimits, Trust};
use super::stacks::{Stacks, TreeArguments};
use super::view::View;
use super::{ConfigArguments, heading, value};
use crate::cli::check::Request;
use crate::cli::diff;

#[derive(Debug, Default, Args)]
pub(crate) struct DiffArguments {
    /// Snapshot or saved profile of the code without the change; - is standard input. For the ranks of a job: a
    /// directory or a quoted glob with one file per rank
    #[arg(required_unless_present_any = ["suite", "update", "no_before"])]
    pub(crate) before: Option<PathBuf>,
    /// Snapshot or saved profile of the code with the change; - is standard input. For the ranks of a job: a
    /// directory or a quoted glob with one file per rank
    #[arg(required_unless_present_any = ["suite", "update", "no_before"])]
    pub(crate) after: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) limits: DiffLimits,
    #[command(flatten)]
    pub(crate) capacity: Capacity,
    /// Compare every pair of this suite in ptmem.toml and give one verdict
    #[arg(
        long,
        value_name = "NAME",
        conflicts_with_all = ["before", "after", "update"],
        help_heading = heading::COMPARED
    )]
    pub(crate) suite: Option<String>,
    #[command(flatten, next_help_heading = heading::COMPARED)]
    pub(crate) stacks: Stacks,
    /// Also list the phases (annotations, metadata, compile contexts) whose peak changed
    #[arg(long, help_heading = heading::COMPARED)]
    pub(crate) phases: bool,
    /// Compare with this saved profile and, after a pass, rewrite it from the after; figures can only fall
    #[arg(long, value_name = "PROFILE", conflicts_with = "device", help_heading = heading::STORED)]
    pub(crate) update: Option<PathBuf>,
    /// Let --update also raise figures, even beyond limits; the reason is stored in the profile
    #[arg(long, value_name = "REASON", value_parser = value::reason, help_heading = heading::STORED)]
    pub(crate) allow_raise: Option<String>,
    /// Compare peaks and stacks although one recording lacks its beginning or end
    #[arg(long, help_heading = heading::TRUST)]
    pub(crate) allow_partial: bool,
    #[command(flatten)]
    pub(crate) trust: Trust,
    /// Reason why the base has no recording. AFTER is checked only against absolute limits, and the verdict is
    /// inconclusive if they hold. With a BEFORE from an older commit, the two are compared, and every report says so
    #[arg(long, value_name = "REASON", conflicts_with_all = ["suite", "update"], value_parser = NonEmptyStringValueParser::new(), help_heading = heading::TRUST)]
    pub(crate) no_before: Option<String>,
    /// With --no-before: pass if AFTER keeps the absolute limits. Given --git and the SCRIPTs that ran, the recorded one
    /// first, pass only if the gate is new (no workflow of BASE has that script), or if BASE itself is broken: the change
    /// edits neither workflows nor these scripts, an absolute limit is set, and limits are not strict
    #[arg(
        long,
        value_name = "SCRIPT",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        requires = "no_before",
        help_heading = heading::TRUST
    )]
    pub(crate) first: Vec<String>,
    /// Exit with 0 if only limits on growth fail, or growth was not judged, and the pull request has LABEL (in GitHub
    /// Actions)
    #[arg(long, value_name = "LABEL", value_parser = NonEmptyStringValueParser::new(), help_heading = heading::TRUST)]
    pub(crate) approve_label: Option<String>,
    #[command(flatten)]
    pub(crate) config: ConfigArguments,
    #[command(flatten)]
    pub(crate) tree: TreeArguments,
    /// Name the edits since the merge base with BASE (a commit, branch or tag) to which growth leads, and warn if the
    /// comparison passes only with the checkout's configuration, not with that of the merge base
    #[arg(long, value_name = "BASE", value_parser = NonEmptyStringValueParser::new(), help_heading = heading::OUTPUT)]
    pub(crate) git: Option<String>,
    /// Also list the stacks that did not change or only moved
    #[arg(long, help_heading = heading::OUTPUT)]
    pub(crate) all: bool,
    /// Show how the stacks of each row differ between before and after
    #[arg(
        long,
        conflicts_with_all = ["tree", "focus", "grep", "internals"],
        help_heading = heading::OUTPUT
    )]
    pub(crate) explain: bool,
    /// Omit the instructions for accepting growth, for tools that have their own
    #[arg(long, help_heading = heading::OUTPUT)]
    pub(crate) no_acceptance: bool,
    #[command(flatten)]
    pub(crate) view: View,
}

impl DiffArguments {
    /// The check of only the after, if the before is missing.
    pub(crate) fn without_before(&self) -> Option<Request<'_>> {
        let (Some(reason), Some(after), None) = (&self.no_before, &self.before, &self.after) else { return None };
        Some(Request {
            snapshot: after,
            max: &self.limits.max,
            capacity: &self.capacity,
            trust: &self.trust,
            git: self.git.as_deref(),
            config: &self.config,
            stacks: &self.stacks,
            view: &self.view,
            no_before: Some(NoBefore { reason: reason.clone(), excuse: None }),
            first: &self.first,
            approve_label: self.approve_label.as_deref(),
            phases: self.phases,
            tree: self.tree.options(),
        })
    }

    /// The limits that were set.
    pub(crate) fn limits(&self) -> Limits {
        self.capacity.limits(Limits {
            allow_partial: self.allow_partial.then_some(true),
            ..self.limits.limits(self.trust.strict)
        })
    }

    /// How the files are read and compared.
    pub(in crate::cli) fn request<'a>(&'a self, config: &'a Config) -> diff::Request<'a> {
        diff::Request {
            config,
            stacks: &self.stacks,
            view: &self.view,
            formats: &[],
            phases: self.phases,
            git: self.git.as_deref(),
            update: self.update.is_some(),
        }
    }
}
