//! How recordings of a bisection are compared, judged and reported.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Error, Result, anyhow, bail};
use ptmem::diagnostic::{Code, Diagnostic};
use ptmem::verdict::{Gate, Level, Limits, Verdict};

use super::arguments::BisectArguments;
use crate::cli::config::{self, Loaded};
use crate::cli::diff::{Pair, Request, compare_all};
use crate::cli::exit::exit_code;
use crate::cli::output::Output;
use crate::cli::place::StartFolder;
use crate::cli::recorder::{Detail, Failure};
use crate::cli::report::report_options;

/// The error of a search without limits.
const NO_LIMIT: &str = "no limit is given, here or in ptmem.toml; expected one, such as --max-growth 5%";

/// How two recordings are compared, judged and reported.
pub(super) struct Judging<'a> {
    pub(super) arguments: &'a BisectArguments,
    /// The checkout of the answer.
    pub(super) place: StartFolder,
    pub(super) loaded: Loaded,
    /// The commit since which the code changed, once it is known.
    pub(super) git: Option<String>,
}

impl<'a> Judging<'a> {
    /// By the rules of the working directory.
    pub(super) fn here(arguments: &'a BisectArguments) -> Result<Self> {
        let place = StartFolder::here();
        let loaded = config::load_at(&place, &arguments.config)?;
        Ok(Self { arguments, place, loaded, git: None })
    }

    /// By the options alone.
    pub(super) fn without_config(self) -> Self {
        Self { loaded: Loaded::default(), ..self }
    }

    fn limits(&self) -> Limits {
        let BisectArguments { limits, trust, .. } = self.arguments;
        limits.limits(trust.strict).over(&self.loaded.config.limits)
    }

    /// What the comparison needs of recordings.
    pub(super) fn detail(&self) -> Detail {
        let BisectArguments { stacks, view, .. } = self.arguments;
        Detail::needed(stacks.profile_options(&self.loaded.config, view).group_by, &self.limits())
    }

    /// Refuses a search without limits, which has no answer.
    pub(super) fn require_limits(&self) -> Result<()> {
        if self.limits().thresholds()?.limits_anything() { Ok(()) } else { bail!(NO_LIMIT) }
    }

    pub(super) fn compare(&self, before: &Path, after: &Path) -> Result<Gate> {
        let BisectArguments { stacks, view, .. } = self.arguments;
        let config = &self.loaded.config;
        let pair = Pair::new(None, before.to_owned(), after.to_owned(), &self.limits(), &self.loaded)?;
        let request = Request::new(&self.place, config, stacks, view);
        compare_all(&[pair], &Request { git: self.git.as_deref(), ..request })
    }

    pub(super) fn write(&self, gate: &Gate, output: &Output) -> Result<()> {
        let view = &self.arguments.view;
        view.write(&self.place, gate, &mut report_options(view, output), output)
    }

    /// Reports a comparison, with a remark on the search, and gives the exit code.
    pub(super) fn report(&self, mut gate: Gate, remark: String, output: &Output) -> Result<ExitCode> {
        gate.remark([Diagnostic::new(Code::Bisected, None, remark)]);
        self.write(&gate, output)?;
        Ok(exit_code(gate.verdict(), self.arguments.trust.exit_zero))
    }
}

/// Refuses a search that cannot have an answer, before the next recording, by the comparison of the good one with itself: without
/// limits, or where it exceeds absolute ones.
pub(super) fn check_good(itself: &Gate, good: &str) -> Result<()> {
    if !itself.is_gated() {
        bail!(NO_LIMIT);
    }
    if itself.verdict() == Verdict::Regression {
        let sentence = itself.headline().sentence;
        bail!(
            "{good}: the good end itself exceeds a limit: {sentence}; give an older one, or leave out the absolute limits (max)"
        );
    }
    Ok(())
}

/// The same for git, which only asks whether a commit fails.
pub(super) fn check_good_for_git(itself: &Gate, good: &str) -> Result<()> {
    check_good(itself, good)?;
    let of_jobs = itself.jobs().flat_map(|job| &job.ranks.judgement.checks);
    let mut checks = itself.leaves().flat_map(|of| &of.judgement.checks).chain(of_jobs);
    if checks.all(|check| check.limit.level == Level::Warn) {
        bail!(
            "each limit only warns, so no commit could be bad; give one as --max-growth, or as max-growth in ptmem.toml"
        );
    }
    Ok(())
}

/// The error for one that must have a recording, with what else to do where that is the fault of this one.
pub(super) fn refused(failure: Failure, one: &str, advice: &str) -> Error {
    match failure {
        Failure::Environment(_) => Error::new(failure).context("nothing can be recorded here"),
        Failure::Command(_) => anyhow!("{one}: cannot be recorded: {failure}"),
        Failure::Candidate(_) | Failure::Elsewhere(_) | Failure::Killed(_) => {
            anyhow!("{one}: cannot be recorded: {failure}{advice}")
        }
    }
}
