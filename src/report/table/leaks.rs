//! What grows, as tables.

use std::fmt::{self, Write};

use super::{
    BOLD, DIM, Grid, LEFT, NARROWEST_LABEL, Options, RED, RIGHT, Style, UNKNOWN, checks, diagnostics, fact, verdict,
    word,
};
use crate::leak::{DeviceLeaks, Mode, Point, Search};
use crate::phase::steps::How;
use crate::report::sparkline::sparkline;
use crate::text::{count, cut, printable, shorten, shorten_label, thousands};
use crate::tree;
use crate::units::{Delta, Size};
use crate::verdict::{Finding, LeakGate, Verdict};

/// So many ranks are shown in full.
const MOST_FINDINGS: usize = 3;

/// Of more leaks nobody reads the stacks.
const MOST_STACKS: usize = 3;

/// Of more snapshots the first and the last ones are listed.
const MOST_SNAPSHOTS: usize = 12;

pub(super) fn write(out: &mut String, gate: &LeakGate, options: &Options) -> fmt::Result {
    let worst = gate.worst_first();
    if let [only] = worst[..] {
        return write_finding(out, only, options);
    }
    overview(out, &worst, options)?;
    // What passes has nothing to explain.
    let bad = worst.iter().filter(|finding| finding.judgement.verdict != Verdict::Pass);
    for finding in bad.take(MOST_FINDINGS) {
        writeln!(out, "\n{BOLD}== {} =={BOLD:#}", printable(finding.search.name.as_deref().unwrap_or_default()))?;
        write_finding(out, finding, options)?;
    }
    verdict(out, &gate.headline())
}

/// A row for each rank and device, the worst first.
fn overview(out: &mut String, findings: &[&Finding], options: &Options) -> fmt::Result {
    let step = findings.first().map_or("step", |finding| finding.search.mode.nouns().0);
    let per_step = format!("leaks per {step}");
    let header = ["", "", "device", &*per_step, "what leaks most"];
    let mut grid = Grid::new(&header, &[LEFT, LEFT, RIGHT, RIGHT, LEFT]);
    let rows: Vec<_> = findings
        .iter()
        .flat_map(|finding| finding.search.devices.iter().map(move |device| (finding, device)))
        .collect();
    let limit = if options.top == 0 { rows.len() } else { options.top.min(rows.len()) };
    for (finding, device) in &rows[..limit] {
        let check = finding.judgement.checks.iter().filter(|check| check.device == Some(device.device));
        let (style, word) = check.min_by_key(|check| std::cmp::Reverse(check.standing())).map_or((DIM, ""), word);
        let leaked =
            if device.unclear.is_some() { UNKNOWN.to_owned() } else { Delta(device.bytes_per_step()).to_string() };
        let label = device.leaks.first().map(|leak| printable(&leak.label));
        let name = printable(finding.search.name.as_deref().unwrap_or_default());
        let style = if word == "ok" { Style::new() } else { style };
        grid.row(style, [word.to_owned(), name, device.device.to_string(), leaked, label.unwrap_or_default()]);
    }
    if limit < rows.len() {
        let others = format!("[{}]", count((rows.len() - limit) as u64, "other", "others"));
        grid.row(DIM, [String::new(), others, String::new(), String::new(), String::new()]);
    }
    grid.write(out, options.width)
}

fn write_finding(out: &mut String, finding: &Finding, options: &Options) -> fmt::Result {
    let Finding { search, judgement } = finding;
    if let (Mode::Steps, Some(source)) = (search.mode, search.sources.first()) {
        let path = shorten(&source.path, options.width.saturating_sub(14).max(NARROWEST_LABEL));
        writeln!(out, "{BOLD}{path}{BOLD:#}  {DIM}{}{DIM:#}", Size(source.bytes))?;
    }
    for (index, device) in search.devices.iter().enumerate() {
        if index > 0 || search.mode == Mode::Steps {
            writeln!(out)?;
        }
        writeln!(out, "{BOLD}device {}{BOLD:#}", device.device)?;
        match search.mode {
            Mode::Steps => steps(out, device, options)?,
            Mode::Series => snapshots(out, device, options)?,
        }
        totals(out, device, search.mode)?;
        if device.unclear.is_none() || !device.leaks.is_empty() {
            leaks(out, search, device, options)?;
        }
    }
    let many = search.devices.len() > 1;
    let all = search.diagnostics.iter().chain(&judgement.diagnostics);
    diagnostics(out, all.map(|diagnostic| (None, diagnostic)), many, options.width)?;
    checks(out, judgement, options.width)?;
    verdict(out, &judgement.headline())
}

/// Which steps there are, and what was held at the end of each.
fn steps(out: &mut String, device: &DeviceLeaks, options: &Options) -> fmt::Result {
    let total = thousands(device.points.len() as u64);
    let how = match &device.how {
        None => return fact(out, "steps", "none"),
        Some(How::Named(pattern)) => format!("{total} by {}", printable(pattern)),
        Some(How::Recurring(label)) => format!("{total} by what recurs: {}", printable(label)),
        Some(How::Windows) => format!("{total} equal parts of the history"),
    };
    fact(out, "steps", &shorten(&how, options.width.saturating_sub(18).max(NARROWEST_LABEL)))?;
    let warm_up = match device.skip.min(device.points.len()) {
        0 => String::new(),
        1 => "the first is warm-up, ".to_owned(),
        skip => format!("the first {skip} are warm-up, "),
    };
    if device.unclear.is_some() {
        return Ok(());
    }
    fact(out, "", &format!("{} can tell: {warm_up}the last is still in use", thousands(device.judged as u64)))?;
    let values: Vec<u64> = device.points.iter().filter_map(|point| point.allocated).collect();
    if let (Some(highest), true) = (values.iter().max(), values.len() > 1) {
        writeln!(out, "\n  {}", sparkline(&values, *highest, options.width.saturating_sub(4).clamp(10, 120)))?;
        writeln!(out, "  {DIM}allocated at the end of each step, at most {}{DIM:#}\n", Size(*highest))?;
    }
    Ok(())
}

/// What was held at the end of each snapshot.
fn snapshots(out: &mut String, device: &DeviceLeaks, options: &Options) -> fmt::Result {
    let size = |bytes: Option<u64>| bytes.map_or_else(|| UNKNOWN.to_owned(), |bytes| Size(bytes).to_string());
    let header = ["allocated", "reserved", "fragmentation", "at the end of"];
    let mut grid = Grid::new(&header, &[RIGHT, RIGHT, RIGHT, LEFT]);
    let points = &device.points;
    let cut = points.len() > MOST_SNAPSHOTS;
    for (index, Point { name, allocated, reserved, fragmentation }) in points.iter().enumerate() {
        let half = MOST_SNAPSHOTS / 2;
        if cut && index == half {
            let left = points.len() - MOST_SNAPSHOTS;
            grid.row(DIM, [String::new(), String::new(), String::new(), format!("[{left} others]")]);
        }
        if cut && (half..points.len() - half).contains(&index) {
            continue;
        }
        let warm_up = index < device.skip;
        let name = if warm_up { format!("{} (warm-up)", printable(name)) } else { printable(name) };
        let style = if warm_up { DIM } else { Style::new() };
        grid.row(style, [size(*allocated), size(*reserved), size(*fragmentation), name]);
    }
    grid.write(out, options.width)?;
    writeln!(out)
}

fn totals(out: &mut String, device: &DeviceLeaks, mode: Mode) -> fmt::Result {
    let (step, steps) = device.nouns(mode);
    let growth = device.growth;
    for (name, slope) in
        [("allocated", growth.allocated), ("reserved", growth.reserved), ("fragmentation", growth.fragmentation)]
    {
        if let Some(slope) = slope {
            fact(out, name, &format!("{} per {step}", Delta(slope)))?;
        }
    }
    match growth.runs_out_after {
        Some(0) => fact(out, "device memory", "is full"),
        Some(left) => fact(
            out,
            "device memory",
            &format!("full after {}", count(left, &format!("more {step}"), &format!("more {steps}"))),
        ),
        None => Ok(()),
    }
}

fn leaks(out: &mut String, search: &Search, device: &DeviceLeaks, options: &Options) -> fmt::Result {
    let (step, steps) = device.nouns(search.mode);
    if device.leaks.is_empty() {
        return writeln!(out, "\n  nothing leaks");
    }
    writeln!(out, "\n  {BOLD}what leaks{BOLD:#} {DIM}({} per {step}){DIM:#}", Delta(device.bytes_per_step()))?;
    let per_step = format!("per {step}");
    let header = [&*per_step, "blocks", steps, "so far", search.group_by.noun()];
    let mut grid = Grid::new(&header, &[RIGHT, RIGHT, RIGHT, RIGHT, LEFT]);
    let limit = if options.top == 0 { usize::MAX } else { options.top };
    for leak in device.leaks.iter().take(limit) {
        grid.row(
            RED,
            [
                Delta(leak.bytes_per_step).to_string(),
                leak.blocks_per_step(),
                format!("{}/{}", leak.grew, leak.judged),
                Delta(leak.bytes).to_string(),
                printable(&leak.label),
            ],
        );
        if !leak.also.is_empty() {
            grid.note(format!(
                "also {}",
                leak.also.iter().map(|label| printable(label)).collect::<Vec<_>>().join(", ")
            ));
        }
    }
    if let Some(rest) = device.leaks.get(limit..).filter(|rest| !rest.is_empty()) {
        let (bytes, so_far) = rest.iter().fold((0, 0), |(a, b), leak| (a + leak.bytes_per_step, b + leak.bytes));
        let label = format!("[{}]", count(rest.len() as u64, "other", "others"));
        grid.row(DIM, [Delta(bytes).to_string(), String::new(), String::new(), Delta(so_far).to_string(), label]);
    }
    grid.write(out, options.width)?;
    let code = search.code();
    for leak in device.leaks.iter().take(limit.min(MOST_STACKS)) {
        let Some(stack) = leak.stack else { continue };
        writeln!(out, "\n  {DIM}stack of{DIM:#} {}", shorten_label(&leak.label, options.width.saturating_sub(11)))?;
        let frames = tree::frames(&code, stack);
        for frame in frames.iter().rev() {
            let text = shorten_label(cut(&frame.text(), 4096), options.width.saturating_sub(7).max(NARROWEST_LABEL));
            writeln!(out, "    at {}", printable(&text))?;
        }
    }
    Ok(())
}
