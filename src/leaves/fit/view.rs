//! The largest numbers that fit on a card.

use ptmem::report::RenderOptions;
use ptmem::report::view::{
    Content, Fact, Group, RowOfCells, Section, SourceFile, Table, Tone, Value, View, figure, overhead, remarks, rows,
    words,
};
use ptmem::tracks::StackTrack;
use ptmem::units::Size;
use ptmem_base::text::count;

use super::runs::{DeviceRuns, MeasuredRun, NumberSearch, Runs};

/// The model of the search for each number.
pub(super) fn view(searches: &[NumberSearch], options: &RenderOptions) -> View {
    let mut groups = Vec::new();
    for search in searches {
        let mut group = group(search, options);
        group.name = (searches.len() > 1).then(|| search.name.clone());
        groups.push(group);
        if let Some((x, profile)) = &search.beyond {
            groups.push(Group::of_snapshot(format!("{} = {x}, which does not fit", search.name), profile, options));
        }
    }
    View::of_groups(groups)
}

fn group(search: &NumberSearch, options: &RenderOptions) -> Group {
    let NumberSearch { name, range, runs, too_large, .. } = search;
    let diagnostics = runs.diagnostics.iter().map(|diagnostic| (None, diagnostic));
    let amount = count((runs.all.len() + too_large.len()) as u64, "run", "runs");
    let mut group = Group::about(vec![SourceFile { side: None, path: format!("{name}={range}"), amount }]);
    group.facts = answer(search);
    group.sections = runs.devices.iter().map(|device| section(search, device, options)).collect();
    group.remarks = remarks(diagnostics, runs.devices.len() > 1);
    group
}

/// The largest number that fits, and what that rests on.
fn answer(search: &NumberSearch) -> Vec<Fact> {
    let NumberSearch { name, range, card, runs, too_large, falling, .. } = search;
    let found = match (runs.all.last(), too_large.first()) {
        (Some(MeasuredRun { x, .. }), Some(first)) => {
            format!("{name} = {x} is the largest of {range} that fits, {first} does not")
        }
        (Some(MeasuredRun { x, .. }), None) => format!("{name} = {x}, the last of {range}, fits"),
        (None, _) => format!("not even the first {name} of {range} fits; give smaller numbers or a larger card"),
    };
    let mut facts = vec![Fact::of_lines("answer", vec![vec![found, format!("on {card}")]])];
    facts.extend(falling.map(|[less, more]| {
        let words =
            format!("{name} = {more} took less than {less}: numbers that were not tried may fit; try a smaller range");
        Fact { tone: Tone::Worse, ..Fact::new("doubt", words) }
    }));
    facts.extend(too_large.first().filter(|_| search.went_on).map(|first| {
        let words = format!(
            "{name} = {first} ran to its end, but memory ran out: set allow-oom = true in ptmem.toml if the program probes for it"
        );
        Fact { tone: Tone::Worse, ..Fact::new("doubt", words) }
    }));
    facts
}

fn section(search: &NumberSearch, device: &DeviceRuns, options: &RenderOptions) -> Section {
    let mut blocks = vec![Content::Table(peaks(search, device))];
    if let Some(budget) = device.budget {
        let memory = Fact::new("device memory", Size(budget.memory).to_string());
        blocks.push(Content::Facts(vec![memory, overhead(budget.overhead)]));
    }
    blocks.push(Content::Table(stacks(&search.name, &search.runs, device, options)));
    Section::new(device.device.to_string(), blocks)
}

/// The peaks of the runs, and the numbers that do not fit.
fn peaks(search: &NumberSearch, device: &DeviceRuns) -> Table {
    let runs = search.runs.all.iter().zip(device.peaks.iter().zip(&device.reserved));
    let fitting = runs.map(|(run, (&peak, &reserved))| peak_row(run.x, [peak, reserved].map(Value::size), ""));
    let unfit = search.too_large.iter().map(|&x| peak_row(x, [const { Value::Nothing }; 2], "does not fit"));
    let heads = [figure(&*search.name), figure("peak").main(), figure("reserved"), words("")];
    Table::new(heads, fitting.chain(unfit)).titled("peak")
}

fn peak_row(x: u64, [peak, reserved]: [Value; 2], remark: &str) -> RowOfCells {
    RowOfCells::new(Tone::Plain, [Value::words(x.to_string()), peak, reserved, Value::words(remark)])
}

/// The largest stacks of the first run and of the last.
fn stacks(name: &str, runs: &Runs, device: &DeviceRuns, options: &RenderOptions) -> Table {
    let [first, last] = [runs.all.first(), runs.all.last()].map(|run| run.map_or(0, |run| run.x));
    let [first, last] = [first, last].map(|x| figure(format!("{name} = {x}")));
    let heads = [first, last, figure("change").main(), words(runs.group_by.noun())];
    let count = runs.all.len();
    let rows = rows(
        &device.stacks,
        options,
        |stack| {
            let name = Value::stack(&*stack.label, stack.more);
            RowOfCells::new(Tone::Plain, stack_cells(name, &StackTrack::sums([stack], count)))
        },
        |rest, name| stack_cells(name, &StackTrack::sums(rest, count)),
    );
    Table::new(heads, rows)
        .titled(format!("{} at the peak of the first run and of the last that fits", runs.group_by.plural()))
}

/// The cells of stacks that held these bytes in each run.
fn stack_cells(name: Value, bytes: &[u64]) -> Vec<Value> {
    let [first, last] = [bytes.first(), bytes.last()].map(|bytes| bytes.copied().unwrap_or(0));
    vec![Value::Size(first), Value::Size(last), Value::Change(i128::from(last) - i128::from(first)), name]
}
