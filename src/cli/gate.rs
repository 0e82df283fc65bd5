//! `ptmem diff`: one comparison or those of a suite, and the stored before.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use ptmem::diagnostic::{Code, Diagnostic};
use ptmem::diff::{self, Sides};
use ptmem::pattern::Pattern;
use ptmem::profile::{Kind, Raise, saved};
use ptmem::report::Subject;
use ptmem::snapshot::Tables;
use ptmem::units::{Delta, format_percent};
use ptmem::verdict::config::Config;
use ptmem::verdict::{self, Comparison, Day, Gate, Limits, Member, RankPeak, Ranks, Thresholds, Verdict};

use super::args::{ConfigArguments, DiffArguments};
use super::output::{self, Output};
use super::ranks::{self, Found};
use super::{config, input, report_options, require_moment, write_reports};

/// Stacks that changed by less are neither listed nor gated, unless something else was asked for.
const MIN_DELTA: u64 = 1 << 20;

/// What to compare.
struct Pair {
    name: Option<String>,
    before: PathBuf,
    after: PathBuf,
    limits: Limits,
}

impl Pair {
    /// Says in an error of which comparison of a suite it is.
    fn context<T>(&self, result: Result<T>) -> Result<T> {
        match &self.name {
            Some(name) => result.with_context(|| format!("comparison '{name}'")),
            None => result,
        }
    }
}

/// A comparison to be made: of two files, or of one rank.
struct Item<'f> {
    /// Index of what was asked for.
    pair: usize,
    name: Option<String>,
    member: Option<Member>,
    before: &'f Path,
    after: &'f Path,
}

/// What is kept of the ranks of a pair while they are compared.
#[derive(Default)]
struct Job {
    tables: Sides<Tables>,
    peaks: Vec<RankPeak>,
    matched: Vec<bool>,
}

pub(super) fn run(arguments: DiffArguments, output: &Output) -> Result<ExitCode> {
    let config = config::load(&arguments.config)?;
    let pairs = pairs(&arguments, &config)?;
    let found = pairs.iter().map(found).collect::<Result<Vec<_>>>()?;
    let inputs = pairs.iter().flat_map(|pair| [&*pair.before, &*pair.after]);
    let inputs = inputs.chain(arguments.config.config.as_deref());
    let of_ranks = found.iter().flatten().flat_map(|(before, after)| before.iter().chain(after));
    output::check_exports(&arguments.view.export, inputs.chain(of_ranks.map(|found| &*found.path)))?;
    if let (Some(_), Some(Some(_))) = (&arguments.update, found.first()) {
        bail!("--update rewrites one profile; write those of ranks anew with 'ptmem profile', one for each");
    }
    let mut gate = compare_all(&pairs, &found, &arguments, &config)?;
    if let [only] = &mut gate.comparisons[..]
        && arguments.update.is_none()
        && gate.ranks.is_empty()
    {
        only.judgement.diagnostics.extend(improvement(only, &arguments));
    }
    let mut options = report_options(&arguments.view, output);
    (options.unchanged, options.explain) = (arguments.all, arguments.explain);
    options.tree = arguments.tree.options();
    options.phases = arguments.phases.phases;
    write_reports(Subject::Gate(&gate), &arguments.view, &mut options, output)?;
    if let (Some(path), [only]) = (&arguments.update, &gate.comparisons[..]) {
        let reason = arguments.reason.as_deref();
        output::print_note(&update(path, only, reason)?);
    }
    Ok(super::exit_code(gate.verdict(), arguments.trust.exit_zero))
}

/// The files of both sides where they are those of ranks.
fn found(pair: &Pair) -> Result<Option<(Vec<Found>, Vec<Found>)>> {
    pair.context(ranks::sides(&pair.before, &pair.after))
}

/// Makes all comparisons, those of ranks with no more in memory than the reports need.
fn compare_all(
    pairs: &[Pair],
    found: &[Option<(Vec<Found>, Vec<Found>)>],
    arguments: &DiffArguments,
    config: &Config,
) -> Result<Gate> {
    let (mut items, mut missing) = (Vec::new(), Vec::new());
    let mut members = Vec::new();
    for (index, (pair, found)) in pairs.iter().zip(found).enumerate() {
        let first = items.len();
        let Some((before, after)) = found else {
            let (before, after) = (&*pair.before, &*pair.after);
            items.push(Item { pair: index, name: pair.name.clone(), member: None, before, after });
            missing.push(Vec::new());
            members.push(first..first + 1);
            continue;
        };
        let paired = pair.context(ranks::pair((&pair.before, before), (&pair.after, after)))?;
        for ranks::Pair { member, before, after } in paired.pairs {
            let label = &member.label;
            let name = pair.name.as_ref().map_or_else(|| label.clone(), |name| format!("{name}: {label}"));
            let (before, after) = (&*before.path, &*after.path);
            items.push(Item { pair: index, name: Some(name), member: Some(member), before, after });
        }
        missing.push(paired.missing);
        members.push(first..items.len());
    }
    let jobs = ranks::jobs(arguments.view.jobs);
    // Few comparisons leave cores for both sides of each.
    let parallel = jobs >= 2 && items.len() <= jobs.div_ceil(2);
    let sizes: Vec<u64> =
        items.iter().map(|item| ranks::size(item.before).saturating_add(ranks::size(item.after))).collect();
    let mut of_ranks: Vec<Job> = pairs.iter().map(|_| Job::default()).collect();
    let mut gate = Gate { comparisons: Vec::with_capacity(items.len()), ranks: Vec::new() };
    let today = config::today()?;
    let compare = |index: usize| {
        let item: &Item<'_> = &items[index];
        compare(item, &pairs[item.pair], parallel, arguments, config, today)
    };
    ranks::in_order(jobs, &sizes, compare, |index, (mut comparison, matched): (Comparison, Vec<bool>)| {
        if let Some(member) = &comparison.member {
            let job = &mut of_ranks[items[index].pair];
            job.peaks.extend(verdict::peaks(member, &comparison.diff));
            job.matched.resize(matched.len(), false);
            job.matched.iter_mut().zip(matched).for_each(|(any, matched)| *any |= matched);
            comparison.diff.pool(&mut job.tables);
        }
        gate.comparisons.push(comparison);
    })?;
    let all = pairs.iter().zip(found).zip(of_ranks).zip(missing.into_iter().zip(members));
    for (((pair, found), job), (missing, members)) in all {
        if found.is_none() {
            continue;
        }
        let tables = Sides { before: Arc::new(job.tables.before), after: Arc::new(job.tables.after) };
        gate.comparisons[members.clone()].iter_mut().for_each(|comparison| comparison.diff.share(&tables));
        let thresholds = thresholds(pair, true, config, today);
        let (judgement, imbalance) =
            verdict::judge_ranks(members.len(), &job.peaks, &missing, &job.matched, &thresholds);
        let path = |path: &Path| Some(path.display().to_string());
        let paths = Sides { before: path(&pair.before), after: path(&pair.after) };
        gate.ranks.push(Ranks { name: pair.name.clone(), paths, members, missing, imbalance, judgement });
    }
    Ok(gate)
}

fn thresholds(pair: &Pair, one_of_ranks: bool, config: &Config, today: Day) -> Thresholds {
    Thresholds {
        growth: pair.limits.growth.clone(),
        maximum: pair.limits.maximum.clone(),
        min_delta: pair.limits.min_delta.unwrap_or(MIN_DELTA),
        strict: pair.limits.strict.unwrap_or_default(),
        accepted: config.accepted.clone(),
        today,
        one_of_ranks,
    }
}

fn pairs(arguments: &DiffArguments, config: &Config) -> Result<Vec<Pair>> {
    let limits = arguments.limits();
    if let Some(name) = &arguments.suite {
        let suite = config.suite(name)?;
        let pair = |pair: &verdict::config::Pair| Pair {
            name: Some(pair.name.clone()),
            before: PathBuf::from(&pair.before),
            after: PathBuf::from(&pair.after),
            limits: limits.clone().over(&pair.limits).over(&suite.limits).over(&config.limits),
        };
        if let Some(pair) = suite.pairs.iter().find(|pair| pair.before == "-" || pair.after == "-") {
            bail!("comparison '{}': standard input cannot be part of a suite; expected the name of a file", pair.name);
        }
        return Ok(suite.pairs.iter().map(pair).collect());
    }
    let (before, after) = match (&arguments.before, &arguments.after, &arguments.update) {
        (Some(before), Some(after), _) => (before, after),
        // The profile that is updated is the before.
        (Some(after), None, Some(profile)) => (profile, after),
        _ => bail!("--update needs the snapshot with the change: ptmem diff --update PROFILE AFTER"),
    };
    if before.as_os_str() == "-" && after.as_os_str() == "-" {
        bail!("only one of the two snapshots can come from standard input");
    }
    let is_before = |profile: &&PathBuf| *profile == before || output::is_same_file(profile, before);
    if arguments.update.as_ref().is_some_and(|profile| profile.as_os_str() == "-") {
        bail!("--update needs the name of the file to rewrite; standard input has none");
    }
    if let Some(profile) = arguments.update.as_ref().filter(|profile| !is_before(profile)) {
        bail!(
            "--update rewrites the before, which is {}, not {}; give the profile as the before",
            before.display(),
            profile.display()
        );
    }
    if let Some(profile) = arguments.update.as_ref().filter(|profile| !profile.exists()) {
        let (profile, after) = (profile.display(), shell_word(&after.display().to_string()));
        bail!("{profile}: no such file; write the first one with: ptmem profile {after} -o {profile}");
    }
    let limits = limits.over(&config.limits);
    Ok(vec![Pair { name: None, before: before.clone(), after: after.clone(), limits }])
}

/// One comparison, and of every limit on growth whether a stack matches its pattern.
fn compare(
    item: &Item<'_>,
    pair: &Pair,
    parallel: bool,
    arguments: &DiffArguments,
    config: &Config,
    today: Day,
) -> Result<(Comparison, Vec<bool>)> {
    let options = arguments.stacks.profile_options(config, &arguments.view.input);
    let read = || -> Result<_> {
        let (before, after) = input::profiles(item.before, item.after, &options, parallel)?;
        require_moment(&before)?;
        require_moment(&after)?;
        Ok((before, after))
    };
    let (before, after) = pair.context(read())?;
    input::require_whole_groups(&before)?;
    input::require_whole_groups(&after)?;
    if let (Some(profile), Kind::Snapshot | Kind::Segments) = (&arguments.update, before.source.kind) {
        let after = shell_word(&after.source.path);
        bail!("{}: is no saved profile; write the first with: ptmem profile {after} -o FILE", profile.display());
    }
    if let (Some(profile), Some(moment)) = (&arguments.update, before.kept.filter(|kept| *kept != before.options.at)) {
        bail!(
            "{}: the profile also keeps the stacks at {moment}, which the after is not read at; add --at {moment}",
            profile.display()
        );
    }
    let same = output::is_same_file(item.before, item.after);
    let mut options = diff::Options::default();
    options.match_ratio = arguments.match_ratio.or(config.match_ratio).unwrap_or(options.match_ratio);
    options.phases = arguments.phases.options(&pair.limits, config);
    let mut diff = diff::diff(before, after, options);
    let thresholds = thresholds(pair, item.member.is_some(), config, today);
    if pair.name.is_some() && thresholds.growth.is_empty() && thresholds.maximum.is_empty() {
        bail!("comparison '{}' has no limit, here or in ptmem.toml", pair.name.as_deref().unwrap_or_default());
    }
    if same {
        let message = "before and after are the same file: nothing can have changed";
        diff.diagnostics.push(Diagnostic::new(Code::SameInput, None, message));
    }
    let judgement = verdict::judge_diff(&diff, &thresholds);
    let matched = thresholds.growth.iter().map(|growth| growth.matches(&diff)).collect();
    let (name, member, min_delta) = (item.name.clone(), item.member.clone(), thresholds.min_delta);
    Ok((Comparison { name, member, diff, judgement, min_delta }, matched))
}

/// How the figures of the after stand to those of the before.
struct Changes {
    /// In words, what is higher, or is not known on both sides.
    higher: Vec<String>,
    /// What is lower.
    lower: Vec<String>,
    /// The most bytes that a figure is lower by.
    most: u128,
}

fn changes(comparison: &Comparison) -> Changes {
    let mut changes = Changes { higher: Vec::new(), lower: Vec::new(), most: 0 };
    let metrics = comparison.judgement.checks.iter().filter_map(|check| check.metric.strip_prefix("phase:"));
    let limited: Vec<_> = metrics.filter_map(|glob| Pattern::glob(glob).ok()).collect();
    for device in &comparison.diff.devices {
        for (metric, change) in &device.metrics {
            let name = format!("{} {}", device.name(), metric.name());
            match change.delta() {
                // Unknown on both sides is no change.
                None if change.before == change.after => {}
                None => changes.higher.push(format!("{name} is known on one side only")),
                Some(0) => {}
                Some(delta) => {
                    let percent = change.before.and_then(|before| format_percent(delta, before));
                    let percent = percent.map(|percent| format!(" ({percent})")).unwrap_or_default();
                    let text = format!("{name} {}{percent}", Delta(delta));
                    if delta > 0 {
                        changes.higher.push(text);
                    } else {
                        changes.most = changes.most.max(delta.unsigned_abs());
                        changes.lower.push(text);
                    }
                }
            }
        }
        // Of phases what has a limit, by their names.
        let mut rose: BTreeMap<&str, i128> = BTreeMap::new();
        let mut fell: BTreeMap<&str, i128> = BTreeMap::new();
        for row in device.phases.iter().filter(|row| limited.iter().any(|pattern| pattern.matches(&row.name))) {
            let side = if row.delta() > Some(0) { &mut rose } else { &mut fell };
            let most = side.entry(&row.name).or_default();
            *most = row.delta().filter(|delta| delta.abs() > most.abs()).unwrap_or(*most);
        }
        let text = |(name, delta): (&&str, &i128)| format!("{} phase {} {}", device.name(), name, Delta(*delta));
        fell.retain(|_, delta| *delta != 0);
        changes.higher.extend(rose.iter().map(text));
        changes.lower.extend(fell.iter().map(text));
        let most = fell.values().map(|delta| delta.unsigned_abs()).max();
        changes.most = changes.most.max(most.unwrap_or(0));
    }
    changes
}

/// Says how to record an improvement over a stored before.
fn improvement(comparison: &Comparison, arguments: &DiffArguments) -> Option<Diagnostic> {
    let sides = &comparison.diff.profiles;
    let Changes { higher, lower, most } = changes(comparison);
    let stored = sides.before.source.kind == Kind::Profile && comparison.judgement.verdict == Verdict::Pass;
    if !stored || !higher.is_empty() || most < u128::from(comparison.min_delta.max(1)) {
        return None;
    }
    let (before, after) = (shell_word(&sides.before.source.path), shell_word(&sides.after.source.path));
    let config = match &arguments.config {
        ConfigArguments { no_config: true, .. } => " --no-config".to_owned(),
        ConfigArguments { config: Some(path), .. } => format!(" --config {}", shell_word(&path.display().to_string())),
        ConfigArguments { config: None, .. } => String::new(),
    };
    let at = sides.before.kept.map(|at| format!(" --at {at}")).unwrap_or_default();
    // In backticks, so that it stays on one line.
    let command = format!("`ptmem diff --update {before} {after}{config}{at}`");
    let message = format!("less than the stored before: {}. Record it: {command}", lower.join(", "));
    Some(Diagnostic::new(Code::Improved, None, message))
}

/// A path as one would type it.
fn shell_word(path: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "/._-+,:=@%".contains(c);
    if !path.is_empty() && path.chars().all(plain) {
        path.to_owned()
    } else {
        format!("'{}'", path.replace('\'', "'\\''"))
    }
}

/// Rewrites the stored before with the after, and says what became of it.
fn update(path: &Path, comparison: &Comparison, reason: Option<&str>) -> Result<String> {
    let name = path.display();
    let (before, after) = (&comparison.diff.profiles.before, &comparison.diff.profiles.after);
    if comparison.judgement.verdict != Verdict::Pass {
        return Ok(format!(
            "{name} stays as it is: the verdict is {}. To record the after in any case, run without limits: \
             ptmem diff --no-config --update {} {} --allow-raise --reason TEXT",
            comparison.judgement.verdict.name(),
            shell_word(&before.source.path),
            shell_word(&after.source.path)
        ));
    }
    let Changes { higher, lower, .. } = changes(comparison);
    let stacks_changed = comparison.diff.devices.iter().flat_map(|device| &device.rows).any(|row| row.delta() != 0);
    let phases_changed =
        comparison.diff.devices.iter().flat_map(|device| &device.phases).any(|row| row.delta() != Some(0));
    if higher.is_empty() && lower.is_empty() && !stacks_changed && !phases_changed {
        return Ok(format!("{name} stays as it is: nothing has changed"));
    }
    let mut raises = before.raises.clone();
    match reason {
        _ if higher.is_empty() => {}
        Some(reason) => raises.push(Raise { reason: reason.to_owned(), changes: higher.clone() }),
        None => {
            return Ok(format!(
                "{name} stays as it is: figures would rise ({}). To record them: --allow-raise --reason TEXT",
                higher.join(", ")
            ));
        }
    }
    let text = saved::text_of(after, before.bound.and(after.bound), &raises);
    output::write_file(path, &text)?;
    let changes: Vec<_> = lower.into_iter().chain(higher).collect();
    let parts = if stacks_changed { "stacks alone changed" } else { "phases alone changed" };
    let changes = if changes.is_empty() { parts.to_owned() } else { changes.join(", ") };
    let accepted = comparison.judgement.checks.iter().any(|check| check.accepted);
    let hint = if accepted { ". It holds the accepted growth now: remove that from ptmem.toml" } else { "" };
    Ok(format!("{name} updated: {changes}{hint}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_quoted_where_a_shell_would_split_them() {
        assert_eq!(shell_word("a/b-1.pkl"), "a/b-1.pkl");
        assert_eq!(shell_word("a b's.pkl"), "'a b'\\''s.pkl'");
    }
}
