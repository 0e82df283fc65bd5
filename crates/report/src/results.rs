//! The results of the core as reports.

use std::collections::BTreeSet;
use std::io::{self, Write};

use ptmem_judge::verdict::{Gate, Job, LeakGate, Reading, Readings};
use ptmem_trace::profile::Profile;
use ptmem_trace::stack::SnapshotCode;

use super::finding::{ExplainedCheck, of_comparison, of_profile, of_search, of_suite};
use super::place::Codes;
use super::ranks::diagnostics_of_suite;
use super::summary::{Summary, has_changed, highest_peak, worst_peak};
use super::view::{View, comparison, leak, snapshot};
use super::{RenderOptions, Report, json};

/// Comparisons and their verdict.
impl Report for Gate {
    fn model(&self, options: &RenderOptions) -> View {
        comparison::view(self, options)
    }

    fn json(&self, options: &RenderOptions, out: &mut dyn Write) -> io::Result<()> {
        json::write_gate(self, options, out)
    }

    fn findings(&self, options: &RenderOptions) -> Vec<ExplainedCheck<'_>> {
        let mut known = Codes::default();
        of_suite(self, |of| of_comparison(of, &known.of(&of.diff), options))
    }

    fn summary(&self) -> Summary {
        Summary {
            verdict: Some(self.verdict()),
            peak: worst_peak(self).unwrap_or_default(),
            has_changed: self.leaves().any(has_changed),
            lacks_limits: !self.is_gated(),
            diagnostics: diagnostics_of_suite(self),
        }
    }

    fn code(&self) -> Box<dyn Iterator<Item = SnapshotCode<'_>> + '_> {
        Box::new(self.leaves().map(|of| of.diff.profiles.after.code()))
    }

    fn commits(&self) -> BTreeSet<&str> {
        self.leaves().filter_map(|of| of.diff.profiles.after.commit()).collect()
    }
}

/// Searches for leaks and their verdict.
impl Report for LeakGate {
    fn model(&self, options: &RenderOptions) -> View {
        leak::view(self, options)
    }

    fn json(&self, _: &RenderOptions, out: &mut dyn Write) -> io::Result<()> {
        json::write(&json::LeakReport(self, &self.worst_first()), out)
    }

    fn findings(&self, options: &RenderOptions) -> Vec<ExplainedCheck<'_>> {
        of_suite(self, |finding| of_search(finding, options))
    }

    fn summary(&self) -> Summary {
        Summary {
            verdict: Some(self.verdict()),
            has_changed: self.leaves().any(|finding| finding.search.leaks().next().is_some()),
            diagnostics: diagnostics_of_suite(self),
            ..Summary::default()
        }
    }

    fn code(&self) -> Box<dyn Iterator<Item = SnapshotCode<'_>> + '_> {
        Box::new(self.leaves().map(|of| of.search.code()))
    }

    fn commits(&self) -> BTreeSet<&str> {
        self.leaves().filter_map(|of| of.search.commit.as_deref()).collect()
    }
}

/// One snapshot, which nothing judged.
impl Report for Profile {
    fn model(&self, options: &RenderOptions) -> View {
        snapshot::view(self, None, options)
    }

    fn json(&self, options: &RenderOptions, out: &mut dyn Write) -> io::Result<()> {
        json::write(&json::ProfileReport(self, None, true, options), out)
    }

    fn summary(&self) -> Summary {
        Summary::of_profile(self, None)
    }

    fn code(&self) -> Box<dyn Iterator<Item = SnapshotCode<'_>> + '_> {
        Box::new(std::iter::once_with(|| self.code()))
    }

    fn commits(&self) -> BTreeSet<&str> {
        self.commit().into_iter().collect()
    }
}

/// One snapshot, with the checks of absolute limits if there were any.
impl Report for Reading {
    fn model(&self, options: &RenderOptions) -> View {
        snapshot::view(&self.profile, self.judgement.as_ref(), options)
    }

    fn json(&self, options: &RenderOptions, out: &mut dyn Write) -> io::Result<()> {
        json::write(&json::ProfileReport(&self.profile, self.judgement.as_ref(), true, options), out)
    }

    fn findings(&self, options: &RenderOptions) -> Vec<ExplainedCheck<'_>> {
        self.judgement.as_ref().map_or_else(Vec::new, |judgement| of_profile(&self.profile, judgement, options))
    }

    fn summary(&self) -> Summary {
        Summary::of_profile(&self.profile, self.judgement.as_ref())
    }

    fn code(&self) -> Box<dyn Iterator<Item = SnapshotCode<'_>> + '_> {
        Report::code(&self.profile)
    }

    fn commits(&self) -> BTreeSet<&str> {
        self.profile.commits()
    }
}

/// A snapshot, or those of the ranks of a job.
impl Report for Readings {
    fn model(&self, options: &RenderOptions) -> View {
        self.only().map_or_else(|| snapshot::view_of_ranks(self, options), |one| one.model(options))
    }

    fn json(&self, options: &RenderOptions, out: &mut dyn Write) -> io::Result<()> {
        match self.only() {
            Some(one) => one.json(options, out),
            None => json::write_ranks(self, options, out),
        }
    }

    fn findings(&self, options: &RenderOptions) -> Vec<ExplainedCheck<'_>> {
        match self.only() {
            Some(one) => one.findings(options),
            None => of_suite(self, |of| of.findings(options)),
        }
    }

    fn summary(&self) -> Summary {
        if let Some(one) = self.only() {
            return one.summary();
        }
        Summary {
            verdict: self.jobs().find_map(Job::headline).map(|headline| headline.verdict),
            peak: highest_peak(self.leaves().flat_map(|reading| &reading.profile.devices)),
            diagnostics: diagnostics_of_suite(self),
            ..Summary::default()
        }
    }

    fn code(&self) -> Box<dyn Iterator<Item = SnapshotCode<'_>> + '_> {
        Box::new(self.leaves().map(|of| of.profile.code()))
    }

    fn commits(&self) -> BTreeSet<&str> {
        self.leaves().filter_map(|of| of.profile.commit()).collect()
    }
}
