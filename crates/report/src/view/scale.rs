//! The growth of memory with a number that was varied.

use ptmem_base::text::count;
use ptmem_base::units::{Size, whole};
use ptmem_compare::tracks::StackTrack;
use ptmem_studies::scale::{DeviceScale, Fit, Forecast, MeasuredRun, Range, Scale, Search, Shape};

use super::device::overhead;
use super::remarks::remarks;
use super::table::rows;
use super::{Content, Fact, Group, Growth, Row, Section, Source, Table, Tone, Value, View, figure, snapshot, words};
use crate::RenderOptions;

/// The model of the runs of each number.
pub(super) fn view(scales: &[Scale], options: &RenderOptions) -> View {
    let mut groups = Vec::new();
    for scale in scales {
        groups.push(Group { name: (scales.len() > 1).then(|| scale.name.clone()), ..group(scale, options) });
        if let Some((x, profile)) = scale.search.as_ref().and_then(|search| search.beyond.as_ref()) {
            let held = snapshot::view(profile, None, options).groups.into_iter();
            let name = format!("{} = {x}, which does not fit", scale.name);
            groups.extend(held.map(|group| Group { name: Some(name.clone()), recording: None, ..group }));
        }
    }
    View { groups, ..View::default() }
}

fn group(scale: &Scale, options: &RenderOptions) -> Group {
    let sections = scale.devices.iter().map(|device| section(scale, device, options)).collect();
    let diagnostics = scale.diagnostics.iter().map(|diagnostic| (None, diagnostic));
    Group {
        sources: sources(scale),
        facts: answer(scale),
        sections,
        remarks: remarks(diagnostics, scale.devices.len() > 1),
        ..Group::default()
    }
}

/// The recordings, or the search: its recordings are kept under names that nobody chose.
fn sources(scale: &Scale) -> Vec<Source> {
    let Scale { name, runs, search, .. } = scale;
    if let Some(search) = search {
        let amount = count((runs.len() + search.too_large.len()) as u64, "run", "runs");
        return vec![Source { side: None, path: format!("{name}={}", search.range), amount }];
    }
    runs.iter()
        .map(|run| Source { side: None, path: run.path.clone(), amount: format!("{name} = {}", run.x) })
        .collect()
}

/// The largest number that fits, and what that rests on.
fn answer(scale: &Scale) -> Vec<Fact> {
    let Scale { name, runs, .. } = scale;
    let Some(Search { range, card, too_large, falling, .. }) = &scale.search else {
        let recordings = count(runs.len() as u64, "recording", "recordings");
        return vec![Fact::new("basis", format!("extrapolated from {recordings}: no other {name} was run"))];
    };
    let found = match (runs.last(), too_large.first()) {
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
    facts
}

fn section(scale: &Scale, device: &DeviceScale, options: &RenderOptions) -> Section {
    let mut blocks = vec![Content::Growth(growth(scale, device)), Content::Table(peaks(scale, device))];
    if let Some(budget) = device.budget {
        let full = device.full.as_ref().map(|full| Fact::new("device memory", full_at(full, budget.memory, scale)));
        blocks.push(Content::Facts(full.into_iter().chain([overhead(budget.overhead)]).collect()));
    }
    blocks.push(Content::Table(stacks(scale, device, options)));
    Section { name: device.device.to_string(), blocks, ..Section::default() }
}

/// Places of the scale at which the fit is drawn.
const PLACES: u32 = 60;

/// How far the scale reaches beyond the last run at most to show where the device is full, in multiples of that run's
/// number.
const FARTHEST: f64 = 8.0;

/// The runs with the fit, from the first of them to the requested number or where the device is full.
fn growth(scale: &Scale, device: &DeviceScale) -> Growth {
    let places = scale.runs.iter().map(|run| run.x);
    let last = places.clone().fold(f64::MIN, f64::max);
    let first = places.clone().fold(f64::MAX, f64::min);
    let full = device.full.as_ref().and_then(|full| full.best).filter(|&x| x <= last * FARTHEST);
    let asked = device.forecasts.iter().map(|forecast| forecast.x);
    let to = asked.chain(full.map(|x| x * 1.05)).fold(last, f64::max);
    let step = (to - first) / f64::from(PLACES);
    Growth {
        name: scale.name.clone(),
        measured: places.zip(device.peaks.iter().copied()).collect(),
        fitted: (0..=PLACES).filter_map(|at| device.forecast(first + step * f64::from(at), last)).collect(),
        budget: device.budget,
        full,
    }
}

/// The place at which the device is full: a whole number if those of all runs are.
fn full_at(full: &Range<Option<f64>>, memory: u64, scale: &Scale) -> String {
    let is_whole = scale.runs.iter().all(|run| run.x.fract() == 0.0);
    let places = full.map(|x| x.map(|x| rounded(if is_whole { x.ceil() } else { x })));
    format!("{} {}", Size(memory), full_from(places, &scale.name))
}

/// When a device is full, in words.
fn full_from(places: Range<Option<String>>, name: &str) -> String {
    let Range { low, best, high } = places;
    let Some(best) = best else { return "is never full, by the fit".to_owned() };
    let earliest = low.unwrap_or_else(|| best.clone());
    match high {
        Some(latest) => format!("is full from {name} = {best} on (from {earliest} to {latest})"),
        // The best fit is no answer where the runs do not rule out that the device never is full.
        None => format!("is full from {name} = {earliest} on at the earliest, or never: the runs do not tell"),
    }
}

/// A place to three digits, or to a whole number.
pub(crate) fn rounded(x: f64) -> String {
    if x >= 100.0 {
        format!("{x:.0}")
    } else {
        format!("{x:.3}").trim_end_matches('0').trim_end_matches('.').to_owned()
    }
}

/// The peaks of the runs, and those that are predicted.
fn peaks(scale: &Scale, device: &DeviceScale) -> Table {
    let row = |tone, x: f64, [peak, range, reserved]: [Value; 3], source: &str| {
        Row::new(tone, [Value::words(x.to_string()), peak, range, reserved, Value::words(source)])
    };
    let measured = scale.runs.iter().zip(device.peaks.iter().zip(&device.reserved)).map(|(run, (peak, reserved))| {
        row(Tone::Plain, run.x, [Value::size(*peak), Value::Nothing, Value::size(*reserved)], "measured")
    });
    let unfit = scale.search.iter().flat_map(|search| &search.too_large);
    let unfit = unfit.map(|&x| row(Tone::Plain, x, [const { Value::Nothing }; 3], "does not fit"));
    let predicted = device.forecasts.iter().map(|Forecast { x, peak, reserved }| {
        let range = format!("{} - {}", Size(peak.low), Size(peak.high));
        let reserved = Value::size(reserved.map(|reserved| reserved.best));
        row(Tone::Main, *x, [Value::Size(peak.best), Value::words(range), reserved], "predicted")
    });
    let heads = [figure(&*scale.name), figure("peak").main(), words("from - to"), figure("reserved"), words("")];
    Table::new(heads, measured.chain(unfit).chain(predicted)).titled("peak")
}

/// The largest stacks and their growth.
fn stacks(scale: &Scale, device: &DeviceScale, options: &RenderOptions) -> Table {
    let last = scale.runs.len().saturating_sub(1);
    let ends = [scale.runs.first(), scale.runs.last()].into_iter().flatten();
    let mut columns: Vec<_> = ends.map(|run| figure(format!("{} = {}", scale.name, run.x))).collect();
    columns.extend([words("grows"), words(scale.group_by.noun())]);
    let row = |sums: [u64; 2], grows, name| vec![Value::Size(sums[0]), Value::Size(sums[1]), grows, name];
    let rows = rows(
        &device.stacks,
        options,
        |stack| {
            let ends = [0, last].map(|run| stack.track.bytes(run));
            let label = Value::stack(&*stack.track.label, stack.track.more);
            Row::new(Tone::Plain, row(ends, Value::words(grows(&stack.fit, &scale.name)), label))
        },
        |rest, name| {
            let sums = StackTrack::sums(rest.iter().map(|stack| &stack.track), last + 1);
            row([sums[0], sums[last]], Value::Nothing, name)
        },
    );
    Table::new(columns, rows).titled("stacks at the peak of each run")
}

/// The shape of a fit, with its leading coefficient.
fn grows(fit: &Fit, name: &str) -> String {
    let (coefficient, square) = match fit.shape {
        Shape::Linear => (fit.best[1], ""),
        Shape::Quadratic => (fit.best[2], "²"),
        shape @ (Shape::Constant | Shape::Irregular) => return shape.name().to_owned(),
    };
    let sign = if coefficient < 0.0 { "-" } else { "" };
    format!("{}, {sign}{} per {name}{square}", fit.shape.name(), Size(whole(coefficient.abs())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_that_the_runs_do_not_tell_is_not_stated() {
        let place = |x: &str| Some(x.to_owned());
        let known = Range { low: place("7"), best: place("8"), high: place("9") };
        assert_eq!(full_from(known.clone(), "n"), "is full from n = 8 on (from 7 to 9)");
        let words = full_from(Range { high: None, ..known }, "n");
        assert_eq!(words, "is full from n = 7 on at the earliest, or never: the runs do not tell");
        assert_eq!(full_from(Range { low: None, best: None, high: None }, "n"), "is never full, by the fit");
    }
}
