//! The figures of several runs as tables, and proposed limits as lines of `ptmem.toml`.

use ptmem::report::view::{
    Content, Fact, Group, RowOfCells, Section, SourceFile, Table, Tone, Value, View, figure, words,
};
use ptmem::verdict::{GrowthLimit, Level, LimitKind};
use ptmem_base::text::count;

use super::spread::Spread;
use super::{GateRuns, MemberRuns, Proposal};

pub(super) fn view(all: &[GateRuns]) -> View {
    View::of_groups(all.iter().map(group).collect())
}

fn group(runs: &GateRuns) -> Group {
    let amount = count(runs.count.into(), "run", "runs");
    let mut group = Group::about(vec![SourceFile { side: None, path: runs.subject.clone(), amount }]);
    group.name.clone_from(&runs.name);
    group.facts = facts(runs);
    group.sections = runs.members.iter().map(|member| section(member, runs)).collect();
    group
}

fn facts(runs: &GateRuns) -> Vec<Fact> {
    let GateRuns { count: number, limits, is_simulated, .. } = runs;
    let mut lines = vec!["for ptmem.toml, with room for twice the spread:".to_owned(), runs.table()];
    lines.extend(runs.proposals().iter().map(line));
    let mut facts = vec![Fact::of_lines("calm limits", lines.into_iter().map(|line| vec![line]).collect())];
    let chance = format!(
        "if runs are alike, a further one exceeds the highest of these with a chance of at most 1 in {}",
        number + 1
    );
    facts.push(Fact::new("certainty", chance));
    if *is_simulated {
        let simulated = "simulated, with the same addresses in every run: on a real card, reserved bytes can differ";
        facts.push(Fact::new("card", simulated));
    }
    let others = limits.iter().filter(|limit| !matches!(limit.target.kind, LimitKind::Metric(_)));
    let others: Vec<String> = others.map(|limit| limit.target.name()).collect();
    if !others.is_empty() {
        facts.push(Fact::of_lines("not looked at", vec![others]));
    }
    facts
}

/// A proposal as a line of `ptmem.toml`.
fn line(proposal: &Proposal) -> String {
    let Proposal { metric, limit, noise } = proposal;
    let key = if metric.contains(':') { format!("\"{metric}\"") } else { metric.clone() };
    let noise = noise.map(|why| format!(" # noisy by nature: {why}")).unwrap_or_default();
    format!("{key} = \"{limit}\"{noise}")
}

fn section(member: &MemberRuns, runs: &GateRuns) -> Section {
    let heads = ["min", "median", "max"].map(figure).into_iter().chain([figure("spread").main(), figure("of min")]);
    let heads: Vec<_> = [words("metric")].into_iter().chain(heads).chain([words("limits")]).collect();
    let table = Table::new(heads, member.spreads.iter().map(|spread| row(spread, &runs.limits)));
    let mut blocks = vec![Content::Table(table)];
    if !member.unknown.is_empty() {
        let names = member.unknown.iter().map(|metric| metric.name().to_owned()).collect();
        blocks.push(Content::Facts(vec![Fact::of_lines("not known in every run", vec![names])]));
    }
    Section::new(member.name.clone(), blocks)
}

fn row(spread: &Spread, limits: &[GrowthLimit]) -> RowOfCells {
    let sizes = [spread.min(), spread.median(), spread.max(), spread.width()].map(Value::Size);
    let limits = limits.iter().filter(|limit| spread.is_limited_by(limit)).map(|limit| tried(spread, limit));
    let noisy = spread.metric.noise().map(|_| "noisy by nature".to_owned());
    let remarks: Vec<String> = limits.chain(noisy).collect();
    let cells = [Value::words(spread.metric.name())].into_iter().chain(sizes);
    let cells = cells.chain([Value::share(spread.width(), spread.min()), Value::words(remarks.join("; "))]);
    RowOfCells::new(if spread.width() == 0 { Tone::Faint } else { Tone::Plain }, cells)
}

/// How often a limit would have been exceeded.
fn tried(spread: &Spread, limit: &GrowthLimit) -> String {
    let verb = match limit.level {
        Level::Fail => "fails",
        Level::Warn => "warns",
    };
    format!("{} {verb} {} of {} pairs", limit.limit, spread.exceeding(&limit.limit), spread.pairs())
}
