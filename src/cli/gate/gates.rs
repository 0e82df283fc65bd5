//! Judges gates: those that are compared together, each of the others by itself.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use ptmem::config::{GateRules, GateSource, Recording};
use ptmem::diagnostic::Code;
use ptmem::profile::{InputKind, ReadOptions};
use ptmem::report::{Acceptance, RenderOptions};
use ptmem::sides::Sides;
use ptmem::verdict::{Gate, GateNode, GrowthLimit, Level, Limits, NoBefore, Thresholds, Verdict};

use super::super::args::{GroupingArguments, StackArguments};
use super::super::config::Loaded;
use super::super::diff::{Pair, Request, compare_all};
use super::super::exit::exit_code;
use super::super::git::Repository;
use super::super::output::{self, Output};
use super::super::place::StartFolder;
use super::super::recorder::{Detail, Recorded};
use super::super::report::report_options;
use super::super::{leak, ranks, surroundings};
use super::arguments::{GateArguments, UNNAMED};
use super::base::BaseCommit;
use super::ci::CiFolder;
use super::of_base::{NoRecording, OfBase};
use super::results::{self, ChangeFacts, GateResult, JudgedGate, JudgedResult};
use super::rules::{self, EditedFile, RuleChange};
use super::sides::{GatePlan, QUOTED_LINES, Recordings, required};
use super::update::{accepting, improvement, storing, update};

/// The gates of a run.
pub(super) struct Gates<'a> {
    pub(super) arguments: &'a GateArguments,
    /// The checkout that is judged.
    pub(super) place: StartFolder,
    pub(super) loaded: &'a Loaded,
    pub(super) rules: BTreeMap<String, GateRules>,
    /// The recordings of the repository, where a gate needs some.
    pub(super) recordings: Option<Recordings>,
    /// The folder for a CI job.
    pub(super) folder: Option<&'a CiFolder>,
    pub(super) output: &'a Output,
}

/// The growth of the peak that is allowed where nobody set a limit.
const DEFAULT_LIMIT: &str = "5%";

/// What the recordings of a gate lead to.
enum GateSources {
    Compared(Box<Pair>),
    /// There is no recording of the base.
    WithoutBefore {
        after: PathBuf,
        reason: NoBefore,
        quoted: Vec<String>,
    },
}

impl Gates<'_> {
    /// Records and judges all gates, reports them, and gives the exit code.
    pub(super) fn judge(&self, base: Result<&BaseCommit>) -> Result<ExitCode> {
        // What a change edits of its own rules is shown, unless nothing says where the change begins.
        let unshown = base.as_ref().err().filter(|_| surroundings::is_change()).map(|error| format!("{error:#}"));
        let base = base.ok();
        let of_base = base.map(|base| OfBase::of(base, self)).transpose()?;
        // Before recorded code runs, which can write to the working tree and to the event.
        let edited = of_base.as_ref().map(|of_base| self.edited(of_base)).transpose()?.unwrap_or_default();
        let head = self.arguments.head.as_deref();
        let recorded = base.filter(|_| self.recordings.is_some());
        let same_code = recorded.map(|base| base.same_code(&self.place, head)).transpose()?.flatten();
        let approval = self.approve_label().map(surroundings::approval).transpose()?.flatten();
        if self.arguments.update
            && let Some((name, _)) =
                self.rules.iter().find(|(_, gate)| !matches!(gate.source, GateSource::Files { .. }))
        {
            bail!("--update: the gate '{name}' has no stored before; name those that have one");
        }
        let mut pairs = Vec::new();
        let mut alone = Vec::new();
        for (name, gate) in &self.rules {
            match &gate.source {
                GateSource::Recorded(recording) => {
                    let of_base = of_base.as_ref().context("a gate that is recorded needs a base")?;
                    let recordings = self.recordings.as_ref().context("nothing can be recorded")?;
                    match self.recorded(name, gate, recording, of_base, recordings)? {
                        GateSources::Compared(pair) => pairs.push(*pair),
                        GateSources::WithoutBefore { after, reason, quoted } => {
                            let result = self.snapshot(&after, gate, Some(reason))?;
                            alone.push(JudgedGate { name: self.shown_name(name), result, quoted });
                        }
                    }
                }
                GateSource::Files { before, after } => {
                    pairs.push(self.pair_of_files(name, gate, before, after)?);
                }
                GateSource::Snapshot(_) | GateSource::Leak(_) => alone.extend(self.alone(name, gate)?),
            }
        }
        let compared = (!pairs.is_empty()).then(|| self.compare(&pairs, base)).transpose()?;
        if self.arguments.update {
            return self.update(compared);
        }
        self.report(compared, alone, &ChangeFacts { base, edited, unshown, approval, same_code })
    }

    /// The label that lets growth pass.
    fn approve_label(&self) -> Option<&str> {
        self.arguments.approve_label.as_deref().filter(|label| !label.is_empty())
    }

    /// What the change edits of what the verdict is computed by.
    fn edited(&self, of_base: &OfBase<'_>) -> Result<Vec<EditedFile>> {
        let Repository { root, below } = Repository::find(&self.place)?;
        let named = of_base.named(self, &below);
        let workflow = surroundings::workflow();
        rules::edited(&RuleChange {
            root: &root,
            base: &of_base.commit.hash,
            folder: &below.to_string_lossy(),
            workflow: workflow.as_deref(),
            named: &named,
        })
    }

    /// The path of a file that a gate names.
    fn path(&self, path: &str) -> PathBuf {
        self.place.path(self.loaded.folder.join(path))
    }

    /// How the after of a gate is recorded. Paths of a command begin at the working directory.
    pub(super) fn plan<'p>(&'p self, name: &'p str, gate: &GateRules, recording: &'p Recording) -> GatePlan<'p> {
        let is_command = name == UNNAMED && !self.arguments.command.is_empty();
        let folder = if is_command { Path::new("") } else { &self.loaded.folder };
        let detail = Detail::needed(self.loaded.config.group_by.unwrap_or_default(), &self.limits(gate));
        GatePlan { name, recording, folder, detail }
    }

    /// The name of a gate in reports: a command needs none.
    pub(super) fn shown_name(&self, name: &str) -> Option<String> {
        self.arguments.command.is_empty().then(|| name.to_owned())
    }

    /// The limits of a gate: of the command line, of the gate, of the file.
    fn limits(&self, gate: &GateRules) -> Limits {
        self.arguments.limits().over(&gate.limits).over(&self.loaded.config.limits)
    }

    /// The limits of a gate that compares: one limit in any case.
    pub(super) fn growth_limits(&self, gate: &GateRules) -> Limits {
        let mut limits = self.limits(gate);
        if !limits.growth.iter().any(|limit| limit.level == Level::Fail) {
            limits.growth.extend(GrowthLimit::parse(DEFAULT_LIMIT, Level::Fail));
        }
        limits
    }

    /// A comparison of two recordings.
    fn pair(&self, name: &str, gate: &GateRules, before: PathBuf, after: PathBuf) -> Result<Pair> {
        Pair::new(self.shown_name(name), before, after, &self.growth_limits(gate), self.loaded)
    }

    /// A comparison of files that were recorded elsewhere.
    fn pair_of_files(&self, name: &str, gate: &GateRules, before: &str, after: &str) -> Result<Pair> {
        let paths = Sides { before: self.path(before), after: self.path(after) };
        if paths.after.is_file() && !before.contains(['*', '?', '[', '{', '#']) && !paths.before.exists() {
            let [before, after] = [&paths.before, &paths.after].map(|path| path.display().to_string());
            bail!(
                "[gate.{name}] {before}: no such file; write the first one with: {}",
                storing(&before, &after, InputKind::Profile)
            );
        }
        let pair = self.pair(name, gate, paths.before, paths.after)?;
        let names = Sides { before: before.to_owned(), after: after.to_owned() };
        // The folder of a worktree says nothing to anybody.
        Ok(if self.place.is_here() { pair } else { pair.called(names) })
    }

    /// A comparison of two recordings that were made here.
    fn pair_of_recorded(
        &self,
        plans: &Sides<GatePlan<'_>>,
        gate: &GateRules,
        base: &BaseCommit,
        recorded: Sides<Recorded>,
        recordings: &Recordings,
    ) -> Result<Pair> {
        let names = Sides { before: format!("base {}", base.short()), after: recordings.judged().to_owned() };
        let logs = recorded.map(|recorded| recorded.log.clone());
        let pair = self.pair(plans.after.name, gate, recorded.before.path, recorded.after.path)?;
        Ok(Pair { logs: Some(logs), ..pair.called(names) })
    }

    /// Records both sides of a gate, as each has it.
    fn recorded(
        &self,
        name: &str,
        gate: &GateRules,
        recording: &Recording,
        of_base: &OfBase<'_>,
        recordings: &Recordings,
    ) -> Result<GateSources> {
        let after = self.plan(name, gate, recording);
        let before = match of_base.recording(name, self) {
            Ok(before) => before,
            Err(missing) => {
                let after = required(recordings.after(&after, recordings.judged())?, recordings, name, None)?.path;
                return Ok(GateSources::WithoutBefore {
                    after,
                    reason: missing.reason(gate, self),
                    quoted: Vec::new(),
                });
            }
        };
        let plans = Sides { before: GatePlan { recording: &before.0, folder: &before.1, ..after }, after };
        if recording.measure
            && before.0.measure
            && let Some(pair) = self.measured(gate, of_base.commit, &plans, recordings)?
        {
            return Ok(GateSources::Compared(Box::new(pair)));
        }
        let (attempts, was_kept) = recordings.both(of_base.commit, &plans, false)?;
        let name_of_base = recordings.name_of_base(of_base.commit, &plans.before, false);
        let failed_before = attempts.before?;
        let after = required(attempts.after?, recordings, name, failed_before.as_ref().err())?;
        match failed_before {
            Ok(before) => {
                let pair = self.pair_of_recorded(&plans, gate, of_base.commit, Sides { before, after }, recordings)?;
                if was_kept
                    && let Some(difference) = self.other_packages(&pair)?
                    && recordings.begin_anew(&name_of_base, &difference)
                {
                    output::print_note("the kept recording of the base has other packages: recording it again");
                    return self.recorded(name, gate, recording, of_base, recordings);
                }
                Ok(GateSources::Compared(Box::new(pair)))
            }
            Err(failure) => {
                let quoted = recordings.tail(&name_of_base, QUOTED_LINES);
                let reason = NoRecording::Failed(failure).reason(gate, self);
                Ok(GateSources::WithoutBefore { after: after.path, reason, quoted })
            }
        }
    }

    /// The comparison of counters alone, where it decides that all limits hold.
    fn measured(
        &self,
        gate: &GateRules,
        base: &BaseCommit,
        plans: &Sides<GatePlan<'_>>,
        recordings: &Recordings,
    ) -> Result<Option<Pair>> {
        let (Sides { before, after }, _) = recordings.both(base, plans, true)?;
        let (Ok(before), Ok(after)) = (before?, after?) else { return Ok(None) };
        let pair = self.pair_of_recorded(plans, gate, base, Sides { before, after }, recordings)?;
        let gate = compare_all(std::slice::from_ref(&pair), &self.request(None));
        if gate.is_ok_and(|gate| gate.holds_all_limits()) {
            return Ok(Some(pair));
        }
        output::print_note("the counters do not show that all limits hold: recording both sides with call stacks");
        Ok(None)
    }

    /// The packages of which both sides have different versions, in words.
    fn other_packages(&self, pair: &Pair) -> Result<Option<String>> {
        let gate = compare_all(std::slice::from_ref(pair), &self.request(None))?;
        let mut found = gate.leaves().flat_map(|of| &of.diff.diagnostics);
        let differing = found.find(|found| found.code == Code::VersionsDiffer);
        Ok(differing.map(|found| found.message.clone()))
    }

    /// How files are read and compared.
    fn request<'r>(&'r self, git: Option<&'r str>) -> Request<'r> {
        let view = &self.arguments.view;
        let request = Request::new(&self.place, &self.loaded.config, &StackArguments::default(), view);
        // A CI job has the page.
        let has_pictures = request.has_pictures || self.folder.is_some();
        Request { has_pictures, git, update: self.arguments.update, ..request }
    }

    fn compare(&self, pairs: &[Pair], base: Option<&BaseCommit>) -> Result<Gate> {
        compare_all(pairs, &self.request(base.map(|base| &*base.hash)))
    }

    /// Rewrites the stored befores with their afters.
    fn update(&self, compared: Option<Gate>) -> Result<ExitCode> {
        let Some(gate) = compared.filter(|gate| gate.jobs().next().is_none()) else {
            bail!(
                "--update rewrites the stored before of a gate that has 'before' and 'after', each a single file; the others \
                 have none, or one for each rank: write these again with 'ptmem profile'"
            );
        };
        let reason = self.arguments.allow_raise.as_deref();
        let mut is_recorded = true;
        for comparison in gate.leaves() {
            let updated = update(comparison, reason)?;
            is_recorded &= updated.is_recorded;
            output::print_note(&updated.note);
        }
        let is_accepted = gate.fails_by_change_alone() && (reason.is_some() || is_recorded);
        Ok(exit_code(gate.verdict(), self.arguments.trust.exit_zero || is_accepted))
    }

    /// Judges a gate that compares nothing.
    pub(super) fn alone(&self, name: &str, gate: &GateRules) -> Result<Option<JudgedGate>> {
        let result = match &gate.source {
            GateSource::Snapshot(path) => self.snapshot(&self.path(path), gate, None)?,
            GateSource::Leak(paths) => self.leaks(name, paths, gate)?,
            GateSource::Recorded(_) | GateSource::Files { .. } => return Ok(None),
        };
        Ok(Some(JudgedGate { name: self.shown_name(name), result, quoted: Vec::new() }))
    }

    /// Judges a snapshot, or those of the ranks of a job, by absolute limits.
    fn snapshot(&self, path: &Path, gate: &GateRules, no_before: Option<NoBefore>) -> Result<Box<dyn JudgedResult>> {
        let found = ranks::find(path)?;
        let config = &self.loaded.config;
        let limits = Limits { growth: Vec::new(), ..self.limits(gate) };
        let thresholds = Thresholds { no_before, ..limits.thresholds()? };
        if !thresholds.limits_anything() && thresholds.no_before.is_none() {
            bail!(
                "{}: a gate of one snapshot needs an absolute limit, such as max = {{ reserved = \"75GiB\" }}",
                path.display()
            );
        }
        let options = StackArguments::default().options_of_one(config, &self.arguments.view, found.is_some())?;
        let options = ReadOptions { ignore: thresholds.ignore.clone(), ..options };
        Ok(Box::new(ranks::readings(path, found.as_deref(), Some(&thresholds), &self.arguments.view, &options)?))
    }

    fn leaks(&self, name: &str, paths: &[String], gate: &GateRules) -> Result<Box<dyn JudgedResult>> {
        let paths: Vec<PathBuf> = paths.iter().map(|path| self.path(path)).collect();
        let view = &self.arguments.view;
        let reading = GroupingArguments::default().reading(&self.loaded.config);
        let limits = self.limits(gate);
        if gate.limits.device_overhead.is_some() && limits.device_memory.is_none() {
            bail!("[gate.{name}] has 'device-overhead', which a search for leaks uses only with 'device-memory'");
        }
        let reading = ReadOptions { ignore: limits.ignore.clone().unwrap_or_default(), ..reading };
        Ok(Box::new(leak::judged(&paths, reading, &limits, view.jobs)?))
    }

    /// Reports all comparisons together, and each other gate by itself, and gives the exit code.
    pub(super) fn report(
        &self,
        compared: Option<Gate>,
        alone: Vec<JudgedGate>,
        facts: &ChangeFacts<'_>,
    ) -> Result<ExitCode> {
        let mut commands = Vec::new();
        let compared = compared.map(|mut gate| {
            for node in &mut gate.nodes {
                if let GateNode::One(comparison) = node {
                    comparison.judgement.diagnostics.extend(improvement(comparison, self.arguments));
                }
            }
            commands.extend(gate.leaves().filter_map(|comparison| accepting(comparison, self.arguments)));
            JudgedGate { name: None, result: Box::new(gate), quoted: Vec::new() }
        });
        let mut judged: Vec<JudgedGate> = compared.into_iter().chain(alone).collect();
        if let Some(first) = judged.first_mut() {
            first.result.remark(facts.remark());
        }
        let acceptance = self.loaded.acceptance()?.map(|of| Acceptance {
            commands,
            // A label that is set already would change nothing.
            label: self.approve_label().filter(|_| facts.approval.is_none()).map(str::to_owned),
            ..of
        });
        let options = RenderOptions { acceptance, ..report_options(&self.arguments.view, self.output) };
        let results = judged.iter().map(|gate| gate.judged(&options, facts.approval.as_ref()));
        let mut results: Vec<GateResult<'_>> = results.collect();
        results::note_failures(&mut results);
        results::write(&mut results, &self.place, &self.arguments.view, self.output)?;
        if let Some(folder) = self.folder {
            folder.write(&results, &facts.edited, &self.place, &self.arguments.view)?;
        }
        if let Some(base) = facts.base {
            output::print_note(&format!("the base is {}, {}", base.short(), base.reason));
        }
        let verdict = results.iter().filter(|result| !result.is_approved).map(|result| result.verdict).max();
        Ok(exit_code(verdict.unwrap_or(Verdict::Pass), self.arguments.trust.exit_zero))
    }
}
