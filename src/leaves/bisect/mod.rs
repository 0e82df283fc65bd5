//! `ptmem bisect`: the first commit or release that exceeds the limits, and how it differs from the one before it.

mod arguments;
mod commits;
mod judging;
mod one_commit;
mod releases;

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use ptmem::patch::Edit;
use ptmem::verdict::{Check, Gate, Standing, Verdict};

use crate::cli::checkout;
use crate::cli::git;
use crate::cli::output::{self, Output};
use crate::cli::place::StartFolder;
use crate::cli::recorder::{Attempt, Failure, Made, Program, Recorder, own_files, python_of};
use crate::leaves::search::{Answer, Asked, Candidates, search};
pub(crate) use arguments::BisectArguments;
use commits::Commits;
use judging::{Judging, check_good, refused};
use releases::Releases;

/// A set whose members can be recorded.
pub(super) trait Recordable: Candidates {
    /// The good and the bad end.
    fn ends(&self) -> [Self::One; 2];
    /// The name of one as that of a folder.
    fn folder(one: &Self::One) -> &str;
    /// Runs and records one of them.
    fn record(&self, one: &Self::One, recorder: &Recorder, program: Program<'_>) -> Attempt;
    /// The first bad one, as far as it is known.
    fn found(&self, asked: &Asked<Self::One>) -> Result<FoundChange<Self::One>>;

    /// Makes the code of the answer that of the working directory, and gives the name of the code before it, where it has one.
    fn show(&self, _: &FoundChange<Self::One>, _: &Recorder) -> Result<Option<String>> {
        Ok(None)
    }

    /// Records the answer, shown before, without one of its edits, alone or with all others of its file; `None` where that is not
    /// possible, or the same as alone.
    fn without(
        &self,
        _: &FoundChange<Self::One>,
        _: &Edit,
        _: bool,
        _: &Recorder,
        _: Program<'_>,
    ) -> Result<Option<Made>> {
        Ok(None)
    }
}

/// The answer of a search.
pub(super) struct FoundChange<C> {
    pub(super) bad: C,
    /// The one before it, or the last good one if others are between them.
    pub(super) before: C,
    /// Those between them of which nothing is known.
    pub(super) unknown: Vec<C>,
}

pub(super) fn run(arguments: &BisectArguments, output: &Output) -> Result<ExitCode> {
    git::allow_fetching();
    let BisectArguments { range, record, .. } = arguments;
    let releases = range.split_once("==");
    if releases.is_none() && Path::new(range).exists() {
        return Ok(one_commit::run(Path::new(range), arguments, output));
    }
    record.method.require_used()?;
    let mut judging = Judging::here(arguments)?;
    judging.require_limits()?;
    let detail = judging.detail();
    let program = Program { command: &record.command, method: &record.method, detail };
    output::check_exports(&arguments.view.export, arguments.config.file().into_iter())?;
    if let Some((package, versions)) = releases {
        let releases = Releases::of(package.trim(), versions, python_of(&record.command))?;
        let recorder = Recorder::of_command(record, detail, &package, &own_files())?;
        return Bisection { set: &releases, recorder, program, judging }.answer("release", output);
    }
    let commits = Commits::of(range)?;
    let command = commits.command(&record.command)?;
    let program = Program { command: &command, ..program };
    let recorder = Recorder::of_command(record, detail, &"commits", &[])?;
    let tree = commits.tree(&recorder);
    let bad = commits.check_out(&commits.bad, &recorder);
    // Paths in reports begin there, and the edits that explain growth are found there.
    judging.place = StartFolder::at(tree.path.clone());
    judging.loaded.config.rules.checkout = checkout::current(&judging.place, None);
    // It keeps other searches out until the tree is gone.
    let mut bisection = Bisection { set: &commits, recorder, program, judging };
    let bad = bad.with_context(|| format!("{}: cannot be recorded", commits.bad));
    let answer = bad.and_then(|_| bisection.answer("commit", output));
    tree.remove();
    answer
}

/// A set, how its members are recorded, and the limits.
struct Bisection<'a, S> {
    set: &'a S,
    recorder: Recorder,
    program: Program<'a>,
    judging: Judging<'a>,
}

impl<S: Recordable> Bisection<'_, S> {
    /// Searches, and reports the first bad one with the one before it.
    fn answer(&mut self, noun: &str, output: &Output) -> Result<ExitCode> {
        let [good, bad] = self.set.ends();
        let of_good = self.required(&good)?;
        check_good(&self.judging.compare(&of_good, &of_good)?, &good.to_string())?;
        let of_bad = self.required(&bad)?;
        let whole = self.judging.compare(&of_good, &of_bad)?;
        if whole.verdict() != Verdict::Regression {
            let said = unsearched(&good, &bad, &whole, noun);
            return self.judging.report(whole, said, output);
        }
        let known = vec![(good.clone(), Answer::Good), (bad, Answer::Bad)];
        let asked = search(self.set, known, output::print_note, |candidate| {
            let recorded = match self.record(candidate)? {
                Ok(recorded) => recorded,
                Err(failure @ Failure::Environment(_)) => return Err(refused(failure, &candidate.to_string(), "")),
                Err(failure) => return Ok(Answer::Skipped(failure.to_string())),
            };
            let gate = self.judging.compare(&of_good, &recorded.path)?;
            Ok(match gate.verdict() {
                Verdict::Pass => Answer::Good,
                Verdict::Regression => Answer::Bad,
                Verdict::Inconclusive => Answer::Skipped(gate.headline().in_full()),
            })
        })?;
        let mut found = self.set.found(&asked)?;
        let before = if let Ok(recorded) = self.record(&found.before)? {
            recorded.path
        } else {
            found.before = good.clone();
            of_good.clone()
        };
        let after = self.record(&found.bad)?.map_or(of_bad, |recorded| recorded.path);
        self.judging.git = self.set.show(&found, &self.recorder)?;
        let gate = self.judging.compare(&before, &after)?;
        let judged = asked.iter().filter(|(_, answer)| !matches!(answer, Answer::Skipped(_))).count();
        if gate.verdict() == Verdict::Pass {
            // The growth of several exceeds what that of each does not: the report is about all of them.
            let last = std::mem::replace(&mut found.before, good.clone());
            self.judging.git = self.set.show(&found, &self.recorder)?;
            let all = self.judging.compare(&of_good, &after)?;
            let said = said(&found, &good, judged, noun);
            let said = format!("{said}. The growth since {last} is within the limits: earlier {noun}s grew as well");
            return self.judging.report(all, said, output);
        }
        let said = said(&found, &good, judged, noun) + &self.proof(&found, &gate, &before)?.unwrap_or_default();
        self.judging.report(gate, said, output)
    }

    /// Whether the limits hold without the edit that the growth of the answer leads to.
    fn proof(&mut self, found: &FoundChange<S::One>, gate: &Gate, before: &Path) -> Result<Option<String>> {
        let Some(edit) = gate.worst_first().first().and_then(|worst| worst.leading_edit()) else { return Ok(None) };
        let place = edit.place();
        let mut taken = named(edit);
        let mut cause = "this edit";
        let mut recorded = self.set.without(found, edit, true, &self.recorder, self.program)?;
        let refusal = match &recorded {
            None => Some(format!("others are next to the one at {place}")),
            Some(Err(_)) => Some(format!("the command fails without the one at {place} alone")),
            Some(Ok(_)) => None,
        };
        if let Some(refusal) = refusal
            && let Some(again) = self.set.without(found, edit, false, &self.recorder, self.program)?
        {
            taken = format!("any edit of its file, because {refusal}");
            cause = "an edit of this file";
            recorded = Some(again);
        }
        let Some(recorded) = recorded else { return Ok(None) };
        let shown = match recorded {
            Err(_) => "it cannot be recorded, so the cause is not proven",
            Ok(recorded) => match self.judging.compare(before, &recorded.path)?.verdict() {
                Verdict::Pass => &format!("it is within the limits: {cause} causes the regression"),
                Verdict::Regression => "it exceeds the limits, too: another edit makes memory grow",
                Verdict::Inconclusive => "the result is inconclusive",
            },
        };
        Ok(Some(format!("; recorded without {taken}, {shown}")))
    }

    /// The kept recording of one of them, or a new one.
    fn record(&self, one: &S::One) -> Attempt {
        match self.recorder.kept(S::folder(one)) {
            Some(kept) => Ok(Ok(kept)),
            None => self.set.record(one, &self.recorder, self.program),
        }
    }

    /// The recording of one that must have one.
    fn required(&self, one: &S::One) -> Result<PathBuf> {
        output::print_note(&format!("trying {one}"));
        let recorded = self.record(one)?;
        let advice = self.program.method.advice("give another end of the range");
        Ok(recorded.map_err(|failure| refused(failure, &one.to_string(), &advice))?.path)
    }
}

/// An edit in words.
fn named(edit: &Edit) -> String {
    match edit.whole_file() {
        Some(file) => format!("the edit of {file}"),
        None => format!("the edit at {}", edit.place()),
    }
}

/// Says why nothing was searched between ends of which the bad one does not exceed the limits.
fn unsearched<C: Display>(good: &C, bad: &C, gate: &Gate, noun: &str) -> String {
    let sentence = gate.headline().sentence;
    if gate.verdict() == Verdict::Inconclusive {
        return format!(
            "{bad} compared with {good} is inconclusive, so no {noun} between them was recorded: {sentence}"
        );
    }
    let checks = gate.leaves().flat_map(|of| &of.judgement.checks);
    if checks.clone().any(|check| check.standing() == Standing::Warning) {
        return format!(
            "a limit that is exceeded only warns, so no {noun} between the ends was recorded: from {good} to {bad}, {sentence}. To \
             search, give it as --max-growth, or as max-growth in ptmem.toml"
        );
    }
    let mut grown = checks.filter(|check| check.figures.delta > Some(0));
    let lower = match grown.clone().any(Check::is_accepted) {
        true => "give the limits without the accepted growth (--config none --max-growth …), or ",
        false if grown.next().is_some() => "lower the limit below that growth, or ",
        false => "",
    };
    format!(
        "both ends of the range are within the limits, so no {noun} between them was recorded: from {good} to {bad}, {sentence}. \
         To search, {lower}name a range whose last {noun} exceeds the limit"
    )
}

/// Says which one was found, and what that rests on.
fn said<C: Display>(found: &FoundChange<C>, good: &C, judged: usize, noun: &str) -> String {
    let FoundChange { bad, before, unknown } = found;
    let mut text = match &unknown[..] {
        [] => format!("{bad} is the first {noun} that exceeds the limits compared with {good}"),
        skipped => {
            let names: Vec<String> = skipped.iter().map(ToString::to_string).collect();
            format!(
                "the first {noun} that exceeds the limits is {bad} or one that could not be judged: {}",
                names.join(", ")
            )
        }
    };
    text.push_str(&format!("; {judged} were judged, and this is {bad} compared with {before}"));
    text
}
