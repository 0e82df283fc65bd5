//! Makes the comparisons: of two files, or of every rank of a job.

use std::collections::BTreeMap;
use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use anyhow::{Result, bail};
use ptmem::config::{Config, Usage};
use ptmem::diagnostic::{Code, Diagnostic};
use ptmem::diff::{self, Diff, PhaseOptions};
use ptmem::patch::Patch;
use ptmem::profile::{self, InputKind, Moment, Profile, Serving, StatedFigure, serving_in};
use ptmem::report::Format;
use ptmem::sides::Sides;
use ptmem::snapshot::Tables;
use ptmem::verdict::{self, Comparison, Gate, GateNode, Job, Member, MissingRank, RankPeaks, Thresholds};

use super::super::args::{StackArguments, ViewArguments};
use super::super::input::{self, require_moment};
use super::super::place::StartFolder;
use super::super::ranks;
use super::super::words::word;
use super::super::{advice, checkout, git, output};
use super::names::CheckoutFunctions;
use super::pairs::Pair;

/// A comparison to be made: of two files, or of one rank.
struct PlannedComparison<'f> {
    pair: &'f Pair,
    name: Option<String>,
    member: Option<Member>,
    files: Sides<&'f Path>,
}

impl<'f> PlannedComparison<'f> {
    /// That of a rank.
    fn of_rank(pair: &'f Pair, rank: ranks::RankPair<'f>) -> Self {
        let ranks::RankPair { member, before, after } = rank;
        let label = &member.label;
        let name = pair.name.as_ref().map_or_else(|| label.clone(), |name| format!("{name}: {label}"));
        Self { pair, name: Some(name), member: Some(member), files: Sides { before: &before.path, after: &after.path } }
    }

    /// The bytes of both files.
    fn size(&self) -> u64 {
        ranks::size(self.files.before).saturating_add(ranks::size(self.files.after))
    }
}

/// How the files of comparisons are read and compared.
pub(crate) struct Request<'a> {
    /// The checkout of the after.
    pub(crate) place: &'a StartFolder,
    pub(crate) config: &'a Config,
    pub(crate) reading: profile::ReadOptions,
    /// Whether a report shows the memory at each moment.
    pub(crate) has_pictures: bool,
    /// The number of files that are read at the same time, if not one per core.
    pub(crate) jobs: Option<NonZeroUsize>,
    /// Whether phases are compared, also where no limit asks for it.
    pub(crate) phases: bool,
    /// The commit since which the code changed.
    pub(crate) git: Option<&'a str>,
    /// Whether the stored before is rewritten: it has no names but those of its recording.
    pub(crate) update: bool,
}

impl<'a> Request<'a> {
    /// Files that are read and reported as options say.
    pub(crate) fn new(
        place: &'a StartFolder,
        config: &'a Config,
        stacks: &StackArguments,
        view: &ViewArguments,
    ) -> Self {
        let at = stacks.moment().unwrap_or(Moment::Aligned);
        let reading = profile::ReadOptions { at, ..stacks.profile_options(config, view) };
        let has_pictures = view.formats().any(Format::has_pictures);
        Self { place, config, reading, has_pictures, jobs: view.jobs, phases: false, git: None, update: false }
    }

    /// Options to compare phases, given the limits of the comparison.
    fn phases(&self, limits: &Thresholds) -> PhaseOptions {
        let gated = limits.growth.iter().any(|growth| growth.target.kind.is_of_phases());
        PhaseOptions {
            occurrences: self.config.phase_occurrence.unwrap_or_default(),
            skip_first: self.config.skip_first,
            wanted: self.phases || gated,
        }
    }
}

/// Settings that all comparisons of a run share.
struct Comparer<'a> {
    request: &'a Request<'a>,
    /// The change of the code, where rows are marked by it.
    patch: Option<Patch>,
    /// Names of functions in the checkout.
    names: CheckoutFunctions,
    /// The commits of the first comparison, and whether that of its before follows the other.
    swapped: OnceLock<(Sides<String>, bool)>,
}

/// Makes all comparisons.
pub(crate) fn compare_all(pairs: &[Pair], request: &Request<'_>) -> Result<Gate> {
    let patch = request.git.map(|base| git::changed_lines(request.place, base)).transpose()?;
    let run = Comparer { request, patch, names: CheckoutFunctions::default(), swapped: OnceLock::new() };
    let mut usage = Usage::new(request.config);
    let nodes = pairs.iter().map(|pair| run.node(pair, &mut usage)).collect::<Result<_>>()?;
    let mut gate = Gate { nodes };
    // Rules that no comparison uses are reported once for all of them.
    gate.remark(usage.unused());
    Ok(gate)
}

/// What a server states in its output.
fn stated_in(log: &Path) -> BTreeMap<Serving, StatedFigure> {
    let text = fs::read(log).unwrap_or_default();
    serving_in(&String::from_utf8_lossy(&text))
}

impl Comparer<'_> {
    /// The comparison of two files, or those of all ranks of a job.
    fn node(&self, pair: &Pair, usage: &mut Usage<'_>) -> Result<GateNode<Comparison>> {
        let files = Sides { before: &*pair.before, after: &*pair.after };
        let jobs = ranks::jobs(self.request.jobs);
        let Some(found) = &pair.found else {
            let item = PlannedComparison { pair, name: pair.name.clone(), member: None, files };
            let comparison = self.compare(&item, &pair.thresholds, jobs >= 2)?;
            usage.add(&comparison.diff, comparison.judgement.verdict);
            return Ok(GateNode::One(comparison));
        };
        let thresholds = Thresholds { one_of_ranks: true, ..pair.thresholds.clone() };
        let ranks::Pairs { pairs, missing } = pair.context(ranks::pair(files, found))?;
        let items: Vec<_> = pairs.into_iter().map(|rank| PlannedComparison::of_rank(pair, rank)).collect();
        let members = self.members(&items, &thresholds, jobs, usage)?;
        let missing = self.missing(pair, &missing, jobs)?;
        let paths = pair.called.clone().unwrap_or_else(|| files.map(|path| path.display().to_string()));
        Ok(GateNode::Job(Job::compared(members, pair.name.clone(), paths, missing, &thresholds)))
    }

    /// The comparisons of the ranks of a job, with no more in memory than the reports need.
    fn members(
        &self,
        items: &[PlannedComparison<'_>],
        thresholds: &Thresholds,
        jobs: usize,
        usage: &mut Usage<'_>,
    ) -> Result<Vec<Comparison>> {
        let sizes: Vec<u64> = items.iter().map(PlannedComparison::size).collect();
        // Few comparisons leave cores for both sides of each.
        let parallel = jobs >= 2 && items.len() <= jobs.div_ceil(2);
        let mut members = Vec::with_capacity(items.len());
        let mut tables = Sides::<Tables>::default();
        ranks::in_order(
            jobs,
            &sizes,
            |index| self.compare(&items[index], thresholds, parallel),
            |_, mut comparison| {
                usage.add(&comparison.diff, comparison.judgement.verdict);
                comparison.diff.pool(&mut tables);
                if !self.request.has_pictures {
                    comparison.diff.forget_phases();
                }
                members.push(comparison);
            },
        )?;
        let tables = Sides { before: Arc::new(tables.before), after: Arc::new(tables.after) };
        members.iter_mut().for_each(|comparison| comparison.diff.share(&tables));
        Ok(members)
    }

    /// Makes and judges one comparison, and reads both sides at the same time if requested.
    fn compare(&self, item: &PlannedComparison<'_>, thresholds: &Thresholds, parallel: bool) -> Result<Comparison> {
        let pair = item.pair;
        let mut profiles = pair.context(self.read(item, parallel))?;
        let git = self.request.git.zip(self.patch.as_ref());
        // A saved profile has no names but those of its recording.
        if let Some((base, patch)) = git.filter(|_| !self.request.update) {
            self.names.give(self.request.place, &mut profiles, base, patch);
        }
        self.require_updatable(&profiles)?;
        if let Some(Sides { before, after }) = pair.called.clone().filter(|_| item.member.is_none()) {
            profiles.before.source.path = before;
            profiles.after.source.path = after;
        }
        if let Some(logs) = &pair.logs {
            profiles.before.serving = stated_in(&logs.before);
            profiles.after.serving = stated_in(&logs.after);
        }
        let swapped = self.swapped(&profiles);
        let mut diff = self.diff(pair, profiles);
        diff.diagnostics.extend(swapped);
        if output::is_same_file(item.files.before, item.files.after) {
            let message = "before and after are the same file: nothing can have changed";
            diff.diagnostics.push(Diagnostic::new(Code::SameInput, None, message));
        }
        let mut judgement = verdict::judge_diff(&diff, thresholds);
        advice::complete_judgement(&mut judgement);
        advice::complete_diagnostics(&mut diff.diagnostics);
        let min_delta = thresholds.min_delta;
        Ok(Comparison { name: item.name.clone(), member: item.member.clone(), diff, judgement, min_delta })
    }

    fn options(&self, pair: &Pair) -> profile::ReadOptions {
        profile::ReadOptions { ignore: pair.thresholds.ignore.clone(), ..self.request.reading.clone() }
    }

    fn read(&self, item: &PlannedComparison<'_>, parallel: bool) -> Result<Sides<Profile>> {
        // No addresses are kept for the ranks of a job: there may be thousands.
        let layout = item.member.is_none() && self.request.has_pictures;
        let options = profile::ReadOptions { layout, ..self.options(item.pair) };
        let profiles = input::profiles(item.files, &options, parallel)?;
        for (_, profile) in profiles.each() {
            require_moment(profile)?;
        }
        Ok(profiles)
    }

    /// The ranks that one side lacks, with their peaks on the other: the imbalance there is of all its ranks.
    fn missing(&self, pair: &Pair, unpaired: &[ranks::UnpairedRank<'_>], jobs: usize) -> Result<Vec<MissingRank>> {
        let options = self.options(pair);
        let sizes: Vec<u64> = unpaired.iter().map(|rank| ranks::size(&rank.found.path)).collect();
        let mut missing = Vec::with_capacity(unpaired.len());
        ranks::in_order(
            jobs,
            &sizes,
            |index| Ok(RankPeaks::of(&pair.context(input::profile(&unpaired[index].found.path, &options))?)),
            |index, peaks| {
                let ranks::UnpairedRank { member, side, found } = &unpaired[index];
                let path = found.path.display().to_string();
                missing.push(MissingRank { member: member.clone(), side: *side, path, peaks });
            },
        )?;
        Ok(missing)
    }

    /// The warning that the before is of a later commit than the after. Git is asked once for the ranks of a job, which have the
    /// same commits.
    fn swapped(&self, profiles: &Sides<Profile>) -> Option<Diagnostic> {
        let runs = Sides { before: profiles.before.run.as_ref()?, after: profiles.after.run.as_ref()? };
        let commits = Sides { before: runs.before.commit.as_deref()?, after: runs.after.commit.as_deref()? };
        let (first, of_first) = self
            .swapped
            .get_or_init(|| (commits.map(|&commit| commit.to_owned()), git::are_swapped(self.request.place, commits)));
        let is_first = first.map(String::as_str) == commits;
        if !(if is_first { *of_first } else { git::are_swapped(self.request.place, commits) }) {
            return None;
        }
        let message = format!(
            "the before is of commit {:.10}, which follows {:.10}, the commit of the after: the two may be swapped",
            commits.before, commits.after
        );
        Some(Diagnostic::new(Code::SwappedSides, None, message))
    }

    /// Refuses a before that `--update` cannot rewrite.
    fn require_updatable(&self, profiles: &Sides<Profile>) -> Result<()> {
        if !self.request.update {
            return Ok(());
        }
        let Sides { before, after } = profiles;
        let path = &before.source.path;
        if before.source.kind == InputKind::Numbers && after.source.kind != InputKind::Numbers {
            bail!("{path}: holds only figures, and {} does not; update it with figures", after.source.path);
        }
        if ![InputKind::Profile, InputKind::Numbers].contains(&before.source.kind) {
            let after = word(&after.source.path);
            bail!("{path}: is not a saved profile; write the first with: ptmem profile {after} -o FILE");
        }
        Ok(())
    }

    fn diff(&self, pair: &Pair, profiles: Sides<Profile>) -> Diff {
        let options = diff::DiffOptions {
            match_ratio: self.request.config.match_ratio.unwrap_or(diff::DiffOptions::default().match_ratio),
            phases: self.request.phases(&pair.thresholds),
        };
        let mut diff = diff::compare(profiles.before, profiles.after, options);
        let codes = [diff.profiles.before.code(), diff.profiles.after.code()].into_iter();
        let files = self.patch.as_ref().map(|_| checkout::files(self.request.place, codes)).unwrap_or_default();
        diff.find_causes(self.patch.as_ref(), &files);
        diff
    }
}
