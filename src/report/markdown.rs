//! A comment on a pull request, or the summary of a job: the verdict first, then what explains it; the rest is folded
//! away. Never longer than the reader takes: what does not fit is left out row by row, and counted.

mod leaks;

use std::collections::{HashMap, HashSet};

use unicode_width::UnicodeWidthStr;

use super::finding::grew_most;
use super::ranks::{self, Compared, Others};
use super::sparkline::sparkline;
use super::table::moment_name;
use super::{Options, Subject, oom, phases};
use crate::diagnostic::{self, Diagnostic, Severity};
use crate::diff::{self, DeviceDiff, Kind, Metric, Row, RowKind, Side};
use crate::profile::{DeviceProfile, Held, Moment, Profile, StackTotal, others};
use crate::stack::Code;
use crate::text::{cut, printable, shorten_label, thousands};
use crate::tree;
use crate::units::{Delta, Size, format_percent, format_share};
use crate::verdict::{
    Check, Comparison, Gate, Headline, Judgement, Level, Outcome, Ranks, Readings, Standing, Verdict,
};

/// Room that is kept for what closes a page.
const RESERVE: usize = 512;

/// Columns of a timeline.
const TIMELINE: usize = 60;

/// Columns of a label in a table, which would scroll otherwise.
const LABEL: usize = 60;

/// Room that the figures of a device take; with less, there is no use in beginning.
const LEAST_SECTION: usize = 1024;

/// More checks of all ranks together nobody asks for.
const MOST_CHECKS: usize = 10;

/// So many devices are shown in full.
const MOST_SECTIONS: usize = 4;

/// More frames of one stack nobody reads here.
const MOST_FRAMES: usize = 64;

pub(super) fn render(subject: Subject<'_>, options: &Options) -> String {
    let mut page = Page { text: format!("<!-- ptmem:{} -->\n", options.comment_key), limit: options.max_bytes };
    match subject {
        Subject::Gate(gate) => write_gate(&mut page, gate, options),
        Subject::Leaks(gate) => leaks::write(&mut page, gate, options),
        Subject::Ranks(readings) => write_readings(&mut page, readings, options),
        Subject::Profile(profile, judgement) => write_profile(&mut page, profile, judgement, options),
    }
    page.text
}

/// A text that grows up to a limit.
struct Page {
    text: String,
    limit: usize,
}

impl Page {
    fn fits(&self, bytes: usize) -> bool {
        self.text.len() + bytes + RESERVE <= self.limit
    }

    /// Adds a piece, if there is room for it.
    fn add(&mut self, piece: &str) -> bool {
        let fits = self.fits(piece.len());
        if fits {
            self.text.push_str(piece);
        }
        fits
    }

    /// Adds a table, or as many of its rows as there is room for, and says how many there are more.
    fn table(&mut self, header: &str, rows: impl ExactSizeIterator<Item = String>) {
        let total = rows.len();
        let shown = self.rows(header, rows);
        self.more(total - shown, "row", "rows");
    }

    /// Adds a table, or as many of its rows as there is room for: so many.
    fn rows(&mut self, header: &str, rows: impl Iterator<Item = String>) -> usize {
        let mut shown = 0;
        for row in rows {
            let piece = if shown == 0 { format!("\n{header}\n{row}\n") } else { format!("{row}\n") };
            if !self.add(&piece) {
                break;
            }
            shown += 1;
        }
        shown
    }

    /// Says how many of something there was no room for. That itself has room: it is what the reserve is for.
    fn more(&mut self, count: usize, one: &str, many: &str) {
        if count > 0 && self.text.len() + 128 <= self.limit {
            let noun = if count == 1 { one } else { many };
            self.text.push_str(&format!("\n… and {} more {noun}\n", thousands(count as u64)));
        }
    }

    /// Adds a folded part, if anything fits into it.
    fn details(&mut self, summary: &str, content: impl FnOnce(&mut Self)) -> bool {
        let start = self.text.len();
        if !self.add(&format!("\n<details><summary>{summary}</summary>\n")) {
            return false;
        }
        let empty = self.text.len();
        content(self);
        if self.text.len() == empty {
            self.text.truncate(start);
            return false;
        }
        self.text.push_str("\n</details>\n");
        true
    }
}

/// Names as code: nothing in them is Markdown, HTML, a mention or a link.
fn code(text: &str) -> String {
    let text = printable(text);
    if !text.contains(['`', '|', '\\']) && !text.trim().is_empty() {
        return format!("`{text}`");
    }
    // Where a table would see a border, or code an end, only entities are safe. What stands between tags is Markdown
    // like any other: without colons, dots and plain at signs no part of it becomes a link.
    let entity = |c: char| match c {
        '@' => "&#64;\u{200b}".to_owned(),
        c if c.is_ascii_punctuation() && !matches!(c, '/' | ',' | '-' | '(' | ')' | '=' | '+') => {
            format!("&#{};", u32::from(c))
        }
        c => c.to_string(),
    };
    format!("<code>{}</code>", text.chars().map(entity).collect::<String>())
}

/// Prose in which names may stand: nothing in it is Markdown or HTML, and it mentions and links nobody.
fn prose(text: &str) -> String {
    let mut out = String::new();
    for c in printable(text).chars() {
        match c {
            '`' | '*' | '_' | '[' | ']' | '<' | '>' | '|' | '\\' | '~' | '&' | '!' | '$' | '{' | '}' => {
                out.push_str(&format!("&#{};", u32::from(c)));
            }
            // A space without width keeps names of people and numbers of issues from becoming links.
            '@' | '#' => {
                out.push(c);
                out.push('\u{200b}');
            }
            c => out.push(c),
        }
    }
    out.replace("://", ":&#47;/").replace("www.", "www&#46;")
}

fn icon(verdict: Verdict, gated: bool) -> &'static str {
    match verdict {
        Verdict::Pass if gated => "✅",
        Verdict::Pass => "ℹ️",
        Verdict::Regression => "❌",
        Verdict::Inconclusive => "⚠️",
    }
}

fn headline(page: &mut Page, gated: bool, line: &Headline) {
    let word = line.verdict.word();
    let sentence = prose(&line.sentence);
    page.text.push_str(&format!("### {} {word}: {}\n", icon(line.verdict, gated), cut(&sentence, 1024)));
}

/// A device of a comparison; none where neither side holds anything.
type Part<'a> = (&'a Comparison, Option<&'a DeviceDiff>);

/// How bad it stands with it.
fn standing(&(comparison, device): &Part<'_>) -> Standing {
    comparison.judgement.standing(device.and_then(DeviceDiff::ordinal))
}

fn write_gate(page: &mut Page, gate: &Gate, options: &Options) {
    headline(page, gate.is_gated(), &gate.headline());
    let comparisons = gate.worst_first();
    let mut parts: Vec<Part<'_>> = Vec::new();
    for &comparison in &comparisons {
        parts.extend(comparison.diff.devices.iter().map(|device| (comparison, Some(device))));
        parts.extend(comparison.diff.devices.is_empty().then_some((comparison, None)));
    }
    let growth = |&(_, device): &Part<'_>| device.and_then(|device| device.metric(Metric::Peak).delta()).unwrap_or(0);
    parts.sort_by_key(|part| std::cmp::Reverse((standing(part), growth(part))));
    if let Some(&(comparison, Some(device))) = parts.first() {
        explanation(page, comparison, device);
    }
    let several = parts.len() > 1 || !gate.ranks.is_empty();
    if several {
        // The worst of them needs room as well.
        let limit = std::mem::replace(&mut page.limit, options.max_bytes / 2);
        let rows = overviews(gate, &parts, options);
        page.table("| | peak before | after | change | | |\n|:--|--:|--:|--:|--:|:--|", rows.into_iter());
        page.limit = limit;
    }
    for ranks in &gate.ranks {
        across_ranks(page, ranks);
    }
    // Of every job the rank that fares worst.
    let jobs: Vec<_> = gate.ranks.iter().map(|ranks| ranks::compared(gate, ranks)).collect();
    let job_of = |comparison: &Comparison| {
        let is_of = |lines: &&Vec<Compared<'_>>| lines.iter().any(|line| std::ptr::eq(line.of, comparison));
        jobs.iter().find(is_of).filter(|_| comparison.member.is_some())
    };
    let worst = |part: &Part<'_>| job_of(part.0).is_none_or(|lines| is_line(&lines[0], part));
    let sections: Vec<_> = parts.iter().copied().filter(worst).collect();
    for (i, &part) in sections.iter().enumerate() {
        let (comparison, Some(device)) = part else { continue };
        if i > 0 && !page.fits(LEAST_SECTION) {
            page.more(sections.len() - i, "device without details", "devices without details");
            break;
        }
        let lines = job_of(comparison).filter(|lines| lines.len() > 1);
        let others = lines.map(|lines| Others::changes(lines));
        let write = |page: &mut Page| {
            section(page, comparison, device, others.as_ref(), options);
            elsewhere(page, lines.map(Vec::as_slice).unwrap_or_default(), options);
        };
        if !several {
            write(page);
        } else if i == 0 || i < MOST_SECTIONS && standing(&part) > Standing::Ok {
            page.add(&format!("\n#### {}\n", prose(&part_name(part))));
            write(page);
        } else {
            page.details(&prose(&part_name(part)), write);
        }
    }
    for comparison in comparisons.iter().filter(|comparison| comparison.member.is_none()) {
        let Comparison { name, diff, judgement, .. } = comparison;
        let name = name.as_deref().filter(|_| comparisons.len() > 1);
        let sides = diff.profiles.each().into_iter();
        let of_sides = sides.flat_map(|(side, profile)| profile.diagnostics.iter().map(move |d| (Some(side), d)));
        let both = diff.diagnostics.iter().chain(&judgement.diagnostics).map(|d| (None, d));
        diagnostics(page, name, of_sides.chain(both));
    }
    for of in &gate.ranks {
        let found = ranks::diagnostics_of_gate(gate, of);
        diagnostics(page, of.name.as_deref(), found.iter().map(|(side, diagnostic)| (*side, diagnostic)));
    }
    let sources = comparisons.iter().take(1).map(|Comparison { diff, .. }| {
        let (before, after) = (&diff.profiles.before.source, &diff.profiles.after.source);
        let source = |path: &str, bytes: u64| format!("{} ({})", code(cut(path, 256)), Size(bytes));
        format!("before {} · after {} · ", source(&before.path, before.bytes), source(&after.path, after.bytes))
    });
    let sources = match &gate.ranks[..] {
        [of] if gate.is_one_job() => {
            let path = |path: &Option<String>| code(cut(path.as_deref().unwrap_or_default(), 256));
            format!("before {} · after {} · ", path(&of.paths.before), path(&of.paths.after))
        }
        _ if comparisons.len() == 1 => sources.collect(),
        _ => String::new(),
    };
    page.add(&format!("\n<sub>{sources}ptmem {}</sub>\n", env!("CARGO_PKG_VERSION")));
}

fn part_name((comparison, device): Part<'_>) -> String {
    let many = comparison.diff.devices.len() > 1;
    let device = device.map_or_else(|| "no device".to_owned(), DeviceDiff::name);
    match &comparison.name {
        Some(name) if comparison.member.is_some() && !many => cut(name, 128).to_owned(),
        Some(name) => format!("{}: {device}", cut(name, 128)),
        None => device,
    }
}

/// Whether a line is of the same device.
fn is_line(line: &Compared<'_>, (comparison, device): &Part<'_>) -> bool {
    let same = |a: &DeviceDiff, b: &DeviceDiff| std::ptr::eq(a, b);
    std::ptr::eq(line.of, *comparison) && line.device.zip(*device).is_none_or(|(a, b)| same(a, b))
}

/// A row for each part; of the ranks of a job the worst, and one for the rest.
fn overviews(gate: &Gate, parts: &[Part<'_>], options: &Options) -> Vec<String> {
    let mut rows: Vec<String> = Vec::new();
    let limit = if options.top == 0 { usize::MAX } else { options.top };
    let is_of = |part: &Part<'_>, ranks: &Ranks| {
        gate.comparisons[ranks.members.clone()].iter().any(|comparison| std::ptr::eq(comparison, part.0))
    };
    rows.extend(parts.iter().filter(|part| part.0.member.is_none()).map(overview));
    for ranks in &gate.ranks {
        let of_job: Vec<_> = parts.iter().filter(|part| is_of(part, ranks)).collect();
        let (shown, rest) = of_job.split_at(limit.min(of_job.len()));
        rows.extend(shown.iter().map(|part| overview(part)));
        let name = ranks.name.as_ref().map(|name| format!("{}: ", cut(name, 128))).unwrap_or_default();
        let rest_row = |what: String, cells: &str, mark: &str| {
            format!("| {} | {} | {mark} |", prose(&format!("{name}{what}")), unbroken(cells))
        };
        if !rest.is_empty() {
            let growth = rest.iter().map(|(_, device)| device.and_then(|d| d.metric(Metric::Peak).delta()));
            let range = ranks::range(growth, true);
            rows.push(rest_row(others(rest.len()), &format!(" |  | {range} | "), ""));
        }
        for missing in ranks.missing.iter().take(limit) {
            let cells = if missing.side == Side::After { " | missing |  | " } else { "missing |  |  | " };
            rows.push(rest_row(cut(&missing.member.label, 128).to_owned(), cells, "⚠️"));
        }
        if ranks.missing.len() > limit {
            rows.push(rest_row(others(ranks.missing.len() - limit), " | missing |  | ", "⚠️"));
        }
    }
    rows
}

/// The checks of all ranks together.
fn across_ranks(page: &mut Page, ranks: &Ranks) {
    let judgement = &ranks.judgement;
    for check in judgement.checks.iter().take(MOST_CHECKS) {
        let name = ranks.name.as_ref().map(|name| format!("{}: ", cut(name, 128))).unwrap_or_default();
        page.add(&format!("\n{} {}\n", mark(check), prose(&format!("{name}{}", judgement.sentence(check)))));
    }
}

/// The stacks that explain why other ranks fail, where they are not those of the worst.
fn elsewhere(page: &mut Page, lines: &[Compared<'_>], options: &Options) {
    let found = ranks::elsewhere(lines, options);
    if found.is_empty() {
        return;
    }
    page.add("\n**Stacks that grew on other ranks alone**\n");
    let rows = found.iter().map(|(row, name, count)| {
        let label = code(&shorten_label(&row.label, LABEL));
        let figures = unbroken(&format!("{} | {}", Delta(row.delta()), thousands(*count as u64)));
        format!("| {figures} | {} | {label} |", prose(name))
    });
    page.table("| change | ranks | most on | stack |\n|--:|--:|:--|:--|", rows);
}

fn overview(part: &Part<'_>) -> String {
    let (comparison, device) = part;
    let change = device.map(|device| device.metric(Metric::Peak));
    let (before, after) = change.map_or((None, None), |change| (change.before, change.after));
    let accepted = |device: &DeviceDiff| {
        let number = device.ordinal();
        comparison.judgement.checks.iter().any(|check| check.accepted && check.device == number)
    };
    let mark = match standing(part) {
        Standing::Exceeded => "❌",
        Standing::Inconclusive | Standing::Warning => "⚠️",
        Standing::Ok if comparison.judgement.checks.is_empty() => "",
        Standing::Ok if device.is_some_and(accepted) => "✅ accepted",
        Standing::Ok => "✅",
    };
    let figures = figures(before, after, change.and_then(diff::Change::delta));
    format!("| {} | {figures} | {mark} |", prose(&part_name(*part)))
}

/// Before, after, change and percent as cells.
fn figures(before: Option<u64>, after: Option<u64>, delta: Option<i128>) -> String {
    let size = |bytes: Option<u64>| bytes.map_or_else(|| "unknown".to_owned(), |bytes| Size(bytes).to_string());
    let percent = delta.zip(before).and_then(|(delta, before)| format_percent(delta, before));
    let delta = match delta {
        None => "unknown".to_owned(),
        Some(0) => "0 B".to_owned(),
        Some(delta) => format!("**{}**", Delta(delta)),
    };
    unbroken(&format!("{} | {} | {delta} | {}", size(before), size(after), percent.unwrap_or_default()))
}

/// Cells whose figures stay on one line with their units, however narrow the table.
fn unbroken(cells: &str) -> String {
    cells.split(" | ").map(|cell| cell.replace(' ', "\u{a0}")).collect::<Vec<_>>().join(" | ")
}

/// The stack that the verdict is about, in a sentence.
fn explanation(page: &mut Page, comparison: &Comparison, device: &DeviceDiff) {
    let judgement = &comparison.judgement;
    let number = device.ordinal();
    // Which stacks make the peak of a phase is not known.
    let of_stacks = |check: &&Check| check.outcome == Outcome::Exceeded && !check.is_of_phases();
    let exceeded = |check: &&Check| of_stacks(check) && check.device == number;
    let Some(check) = judgement.checks.iter().find(exceeded) else { return };
    let codes = comparison.diff.codes();
    let row = match &check.key {
        Some(key) => device.rows.iter().find(|row| row.key == *key),
        None => grew_most(device, &codes.after),
    };
    let Some(row) = row else { return };
    let manner = row.manner().map(|manner| format!(", {manner}")).unwrap_or_default();
    let change = if row.change == Kind::Added { "new" } else { row.change.name() };
    page.add(&format!("\n{} {change}: **{}**{manner}\n", code(&row.label), Delta(row.delta())));
}

/// One device: metrics, stacks, timeline.
fn section(
    page: &mut Page,
    comparison: &Comparison,
    device: &DeviceDiff,
    others: Option<&Others<'_>>,
    options: &Options,
) {
    let Comparison { diff, judgement, .. } = comparison;
    let number = device.ordinal();
    let checks = |metric: &str| {
        let of_metric = |check: &&Check| check.metric == metric && check.device == number && check.scope.is_none();
        judgement.checks.iter().filter(of_metric).min_by_key(|check| std::cmp::Reverse(check.standing()))
    };
    let mut metrics: Vec<_> =
        device.metrics.iter().map(|&(metric, change)| (metric, change, checks(metric.name()))).collect();
    metrics.sort_by_key(|(_, _, check)| std::cmp::Reverse(check.map_or(Standing::Ok, Check::standing)));
    let rows = metrics.iter().map(|(metric, change, check)| {
        let remark = check.map(|check| {
            let accepted = if check.accepted { ", more is accepted" } else { "" };
            format!("{} allowed {}{accepted}", mark(check), check.limit)
        });
        let remark = remark.unwrap_or_default();
        format!("| {} | {} | {remark} |", metric.name(), figures(change.before, change.after, change.delta()))
    });
    page.table("| | before | after | change | | |\n|:--|--:|--:|--:|--:|:--|", rows);
    if options.shows_phases(comparison) {
        list(page, &phases::changes(device, judgement, options));
    }
    let explains = judgement.explanation(device);
    let listed = diff::listed(&device.rows, options.listing(comparison), explains);
    let (grew, rest): (Vec<&Row>, Vec<&Row>) =
        listed.iter().partition(|row| row.delta() > 0 && !matches!(row.kind, RowKind::Others(_)));
    let header = match others {
        Some(_) => "| change | median | ranks | before | after | blocks | stack |\n|--:|--:|--:|--:|--:|--:|:--|",
        None => "| change | before | after | blocks | stack |\n|--:|--:|--:|--:|:--|",
    };
    let medians: HashMap<&str, Option<i128>> = others
        .map(|others| ranks::medians_of_rows(others, &listed))
        .unwrap_or_default()
        .into_iter()
        .zip(&listed)
        .map(|(median, row)| (row.key.as_str(), median))
        .collect();
    let failed = |check: &&Check| check.standing() == Standing::Exceeded && check.device == number;
    let failed: HashSet<&str> =
        judgement.checks.iter().filter(failed).filter_map(|check| check.key.as_deref()).collect();
    let line = |row: &&Row| {
        let (before, after) = (row.held.before, row.held.after);
        let blocks = if before.blocks == after.blocks {
            thousands(after.blocks)
        } else {
            format!("{} → {}", thousands(before.blocks), thousands(after.blocks))
        };
        let mark = if failed.contains(row.key.as_str()) { "❌ " } else { "" };
        let label = match row.kind {
            RowKind::Others(_) => prose(&row.label),
            // The whole path stands in the call stack.
            _ => code(&shorten_label(&row.label, LABEL)),
        };
        let moved = if row.moved { " (moved)" } else { "" };
        let (delta, before, after) = (Delta(row.delta()), Size(before.bytes), Size(after.bytes));
        let of_others = others.map(|others| {
            let median = medians.get(row.key.as_str()).copied().flatten();
            let median = median.map(|delta| Delta(delta).to_string()).unwrap_or_default();
            format!(" | {median} | {}", others.share(&row.key, row.delta()))
        });
        let of_others = of_others.unwrap_or_default();
        let figures = unbroken(&format!("{delta}{of_others} | {before} | {after} | {blocks}"));
        format!("| {figures} | {mark}{label}{moved} |")
    };
    let count =
        |rows: &[&Row]| rows.iter().map(|row| if let RowKind::Others(count) = row.kind { count } else { 1 }).sum();
    let stacks_of = |page: &mut Page, rows: &[&Row]| {
        let shown = page.rows(header, rows.iter().map(line));
        page.more(count(&rows[shown..]), "stack", "stacks");
    };
    if !grew.is_empty() {
        page.add(&format!("\n**Stacks that grew {}**\n", moment_name(diff.profiles.after.options.at)));
        stacks_of(page, &grew);
    }
    if let Some(median) = others.and_then(|others| others.median) {
        page.add(&format!("\n<sub>median: {}; ranks: on how many it is the same</sub>\n", prose(median)));
    }
    timelines(page, comparison, device);
    if !rest.is_empty() {
        let summary = if grew.is_empty() { "Stacks that changed" } else { "Other stacks" };
        if !page.details(summary, |page| stacks_of(page, &rest)) {
            page.more(count(&rest), "stack", "stacks");
        }
    }
    let codes = diff.codes();
    let stacks: Vec<_> = grew.iter().filter_map(|row| Some((*row, row.stack.after?))).collect();
    if !stacks.is_empty() {
        page.details("Call stacks of what grew", |page| {
            let mut shown = 0;
            for (row, stack) in &stacks {
                let title = format!("{} {}", Delta(row.delta()), code(&row.label));
                if !page.add(&call_stack(&title, &codes.after, *stack)) {
                    break;
                }
                shown += 1;
            }
            page.more(stacks.len() - shown, "stack", "stacks");
        });
    }
}

/// Phases, or parts of the history.
fn list(page: &mut Page, list: &phases::List) {
    let mut title = list.title.clone();
    if let Some(first) = title.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    page.add(&format!("\n**{}** ({})\n", prose(&title), prose(&list.remark)));
    let (name, figures) = list.heads.split_last().unwrap_or((&"", &[]));
    let header = format!("| {} | {name} |\n|{}:--|", figures.join(" | "), "--:|".repeat(figures.len()));
    let rows = list.lines.iter().map(|line| {
        let mark = if line.fails { "❌ " } else { "" };
        // Spaces at the begin of a cell are nothing, and these are no code.
        let indent = "\u{2003}".repeat(line.depth.min(8));
        let name = code(&shorten_label(&line.name, LABEL));
        format!("| {} | {mark}{indent}{name} |", unbroken(&line.cells.join(" | ")))
    });
    page.table(&header, rows);
    if let Some(rest) = &list.rest {
        page.add(&format!("\n{}\n", prose(rest)));
    }
}

fn mark(check: &Check) -> &'static str {
    match (check.outcome, check.level) {
        (Outcome::Pass, _) => "✅",
        (Outcome::Exceeded, Level::Fail) => "❌",
        (Outcome::Exceeded, Level::Warn) | (Outcome::Inconclusive, _) => "⚠️",
    }
}

/// A stack as in a traceback, the outermost frame first.
fn call_stack(title: &str, code: &Code<'_>, stack: crate::snapshot::StackId) -> String {
    let frames = tree::frames(code, stack);
    let skipped = frames.len().saturating_sub(MOST_FRAMES);
    let mut lines: Vec<String> = (skipped > 0).then(|| format!("… {skipped} more frames")).into_iter().collect();
    lines.extend(frames[skipped..].iter().map(|frame| printable(&frame.text())));
    let fence = fence(&lines);
    format!("\n{title}\n{fence}text\n{}\n{fence}\n", lines.join("\n"))
}

/// A fence that none of the lines closes.
fn fence(lines: &[String]) -> String {
    let longest = |line: &String| line.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let length = lines.iter().map(longest).max().unwrap_or(0).max(2) + 1;
    "`".repeat(length)
}

/// The curves of both sides on one scale.
fn timelines(page: &mut Page, comparison: &Comparison, device: &DeviceDiff) {
    let profiles = &comparison.diff.profiles;
    let side = |profile: &'_ Profile, index: Option<usize>| -> Option<(Vec<u64>, u64)> {
        let device: &DeviceProfile = profile.devices.get(index?)?;
        let points = &device.figures.timeline.allocated;
        (points.len() > 1).then(|| Some((points.clone(), device.figures.allocated.peak?)))?
    };
    let before = side(&profiles.before, device.index.before);
    let after = side(&profiles.after, device.index.after);
    let (Some((before, before_peak)), Some((after, after_peak))) = (before, after) else { return };
    let top = before_peak.max(after_peak);
    let line = |name: &str, points: &[u64], peak: u64| {
        let curve = sparkline(points, top, TIMELINE);
        format!("{name:<6} {curve}{:pad$}  {}", "", Size(peak), pad = TIMELINE.saturating_sub(curve.width()))
    };
    let (before, after) = (line("before", &before, before_peak), line("after", &after, after_peak));
    page.add(&format!("\n```text\n{before}\n{after}\n```\n"));
}

/// What a reader must know: warnings in the open, notes folded.
fn diagnostics<'a>(
    page: &mut Page,
    comparison: Option<&str>,
    found: impl Iterator<Item = (Option<Side>, &'a Diagnostic)>,
) {
    let mut lines: Vec<(diagnostic::Code, String, Option<&str>)> = Vec::new();
    for (side, Diagnostic { code: kind, device, message }) in found {
        let device = device.map(|device| format!("device {device}: ")).unwrap_or_default();
        let comparison = comparison.map(|name| format!("{}: ", prose(cut(name, 128)))).unwrap_or_default();
        let message = prose(message);
        let device = if message.starts_with("device ") { String::new() } else { device };
        let body = format!("{comparison}{device}{message} ({})", code(kind.name()));
        // What holds for both sides is said once.
        match lines.iter_mut().find(|(_, other, _)| *other == body) {
            Some((.., both)) => *both = Some("both"),
            None => lines.push((*kind, body, side.map(Side::name))),
        }
    }
    let (warnings, notes): (Vec<_>, Vec<_>) = lines
        .into_iter()
        .partition(|(kind, ..)| kind.severity() == Severity::Warning || *kind == diagnostic::Code::AcceptedGrowth);
    let write = |page: &mut Page, icon: &str, lines: &[(diagnostic::Code, String, Option<&str>)]| {
        let mut shown = 0;
        for (_, body, side) in lines {
            let side = side.map(|side| format!("{side}: ")).unwrap_or_default();
            if !page.add(&format!("\n> {icon}{side}{body}\n")) {
                break;
            }
            shown += 1;
        }
        page.more(lines.len() - shown, "remark", "remarks");
    };
    write(page, "⚠️ ", &warnings);
    if !notes.is_empty() {
        page.details("Notes", |page| write(page, "", &notes));
    }
}

/// The stacks that hold most at a moment, all that is held together.
fn largest(
    page: &mut Page,
    frames: &Code<'_>,
    moment: &str,
    listed: &[StackTotal],
    held: fn(&StackTotal) -> Held,
    others: Option<&Others<'_>>,
) {
    if listed.is_empty() {
        return;
    }
    page.add(&format!("\n**Largest stacks {moment}**\n"));
    let total = listed.iter().fold(0, |sum: u64, stack| sum.saturating_add(held(stack).bytes));
    let medians = others.map(|others| ranks::medians_of_stacks(others, listed)).unwrap_or_default();
    let rows = listed.iter().enumerate().map(|(at, stack)| {
        let share = format_share(held(stack).bytes, total).unwrap_or_default();
        let label = shorten_label(&stack.label, LABEL);
        let label = if stack.bucket.is_some() { prose(&label) } else { code(&label) };
        let of_others = others.map(|others| {
            let median = medians.get(at).copied().flatten().and_then(|bytes| u64::try_from(bytes).ok());
            let median = median.map(|bytes| Size(bytes).to_string()).unwrap_or_default();
            format!(" | {median} | {}", others.share(&stack.key.0, i128::from(held(stack).bytes)))
        });
        let of_others = of_others.unwrap_or_default();
        let (bytes, blocks) = (Size(held(stack).bytes), thousands(held(stack).blocks));
        format!("| {} | {label} |", unbroken(&format!("{bytes}{of_others} | {share} | {blocks}")))
    });
    let header = match others {
        Some(_) => "| bytes | median | ranks | share | blocks | stack |\n|--:|--:|--:|--:|--:|:--|",
        None => "| bytes | share | blocks | stack |\n|--:|--:|--:|:--|",
    };
    page.table(header, rows);
    page.details("Call stacks", |page| {
        for stack in listed {
            let Some(id) = stack.stack() else { continue };
            let title = format!("{} {}", Size(held(stack).bytes), code(&stack.label));
            if !page.add(&call_stack(&title, frames, id)) {
                break;
            }
        }
    });
}

fn write_profile(page: &mut Page, profile: &Profile, judgement: Option<&Judgement>, options: &Options) {
    match judgement {
        Some(judgement) => headline(page, !judgement.checks.is_empty(), &judgement.headline()),
        None => {
            page.add(&format!("### GPU memory of {}\n", code(cut(&profile.source.path, 256))));
        }
    }
    if let Some(judgement) = judgement.filter(|judgement| judgement.checks.len() > 1) {
        let rows =
            judgement.checks.iter().map(|check| format!("| {} | {} |", mark(check), prose(&judgement.sentence(check))));
        page.table("| | |\n|:--|:--|", rows);
    }
    for device in profile.devices.iter().filter(|device| device.is_active()) {
        page.add(&format!("\n#### device {}\n", device.device));
        held(page, profile, device, None, options);
    }
    let found = profile.diagnostics.iter().chain(judgement.into_iter().flat_map(|judgement| &judgement.diagnostics));
    diagnostics(page, None, found.map(|diagnostic| (None, diagnostic)));
    page.add(&format!("\n<sub>ptmem {}</sub>\n", env!("CARGO_PKG_VERSION")));
}

/// One device of a snapshot: figures, timeline, stacks.
fn held(page: &mut Page, profile: &Profile, device: &DeviceProfile, others: Option<&Others<'_>>, options: &Options) {
    let frames = profile.code();
    let figures = &device.figures;
    let counters = [
        ("allocated", &figures.allocated),
        ("active", &figures.active),
        ("requested", &figures.requested),
        ("reserved", &figures.reserved),
    ];
    let size = |bytes: Option<u64>| bytes.map_or_else(|| "unknown".to_owned(), |bytes| Size(bytes).to_string());
    let rows = counters.iter().map(|(name, counter)| {
        let (baseline, peak, end) = (size(counter.baseline), size(counter.peak), Size(counter.end));
        format!("| {name} | {} |", unbroken(&format!("{baseline} | **{peak}** | {end}")))
    });
    page.table("| | baseline | peak | end |\n|:--|--:|--:|--:|", rows);
    if let Some(peak) = figures.allocated.peak.filter(|_| figures.timeline.allocated.len() > 1) {
        page.add(&format!("\n```text\n{}\n```\n", sparkline(&figures.timeline.allocated, peak, TIMELINE)));
    }
    for oom in figures.ooms.iter().take(oom::MOST) {
        let facts: String = oom::facts(oom).iter().map(|items| format!("- {}\n", items.join(", "))).collect();
        page.add(&format!("\n**Out of memory**\n\n{facts}"));
    }
    if let Some(more) = oom::more(device) {
        page.add(&format!("\n… {more}\n"));
    }
    if let Some(every) = &profile.options.every {
        list(page, &phases::intervals(device, every));
    }
    if options.phases {
        list(page, &phases::held(device, options));
    }
    let listed = device.listed(options.top, 1);
    largest(page, &frames, &oom::moment(profile, device), &listed, |stack| stack.at, others);
    if let Some(top) = oom::extra(profile, device, options.top) {
        let listed = device.listed_at_oom(top, 1);
        largest(page, &frames, &moment_name(Moment::Oom), &listed, |stack| stack.oom, None);
    }
}

/// The snapshots of the ranks of a job.
fn write_readings(page: &mut Page, readings: &Readings, options: &Options) {
    let path = readings.ranks.paths.after.as_deref().unwrap_or_default();
    match readings.verdict() {
        Some(_) => headline(page, true, &readings.headline()),
        None => {
            page.add(&format!("### GPU memory of {}\n", code(cut(path, 256))));
        }
    }
    across_ranks(page, &readings.ranks);
    let lines = ranks::shown(readings);
    let limit = if options.top == 0 { usize::MAX } else { options.top };
    let (listed, rest) = lines.split_at(limit.min(lines.len()));
    let size = |bytes: Option<u64>| bytes.map_or_else(|| "unknown".to_owned(), |bytes| Size(bytes).to_string());
    let line = |line: &ranks::Shown<'_>| {
        let [baseline, peak, end, reserved] = [Metric::Baseline, Metric::Peak, Metric::End, Metric::Reserved]
            .map(|metric| size(line.device.and_then(|device| metric.value(device))));
        let mark = match line.standing {
            Standing::Exceeded => "❌",
            Standing::Inconclusive | Standing::Warning => "⚠️",
            Standing::Ok if readings.verdict().is_some() => "✅",
            Standing::Ok => "",
        };
        let figures = unbroken(&format!("{baseline} | **{peak}** | {end} | {reserved}"));
        format!("| {} | {figures} | {mark} |", prose(cut(&line.name, 128)))
    };
    let mut rows: Vec<String> = listed.iter().map(line).collect();
    if !rest.is_empty() {
        let range = ranks::range(rest.iter().map(|line| line.peak().map(i128::from)), false);
        rows.push(format!("| {} | {} | |", prose(&others(rest.len())), unbroken(&format!(" | {range} |  | "))));
    }
    let limit = std::mem::replace(&mut page.limit, options.max_bytes / 2);
    page.table("| | baseline | peak | end | reserved | |\n|:--|--:|--:|--:|--:|:--|", rows.into_iter());
    page.limit = limit;
    if let Some(line) = lines.first()
        && let Some(device) = line.device
    {
        page.add(&format!("\n#### {}\n", prose(cut(&line.name, 128))));
        let others = Others::held(&lines);
        let others = Some(&others).filter(|others| others.ranks > 1);
        held(page, &line.of.profile, device, others, options);
    }
    let found = ranks::diagnostics_of_readings(readings);
    diagnostics(page, None, found.iter().map(|(side, diagnostic)| (*side, diagnostic)));
    page.add(&format!("\n<sub>ranks of {} · ptmem {}</sub>\n", code(cut(path, 256)), env!("CARGO_PKG_VERSION")));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_names() {
        assert_eq!(code("forward (a_b.py:7) aten::mm"), "`forward (a_b.py:7) aten::mm`");
        assert_eq!(code("a|b`c\\"), "<code>a&#124;b&#96;c&#92;</code>");
        assert_eq!(code("a\nb"), "<code>a&#92;nb</code>");
        assert_eq!(code("|http://x www.y z@y.z"), "<code>&#124;http&#58;//x www&#46;y z&#64;\u{200b}y&#46;z</code>");
        assert_eq!(
            prose("a *b* <i> @all #1 http://x www.y"),
            "a &#42;b&#42; &#60;i&#62; @\u{200b}all #\u{200b}1 http:&#47;/x www&#46;y"
        );
        assert_eq!(fence(&["a ```` b".to_owned()]), "`````");
        assert_eq!(fence(&[]), "```");
    }

    #[test]
    fn pages_are_cut_between_rows() {
        let mut page = Page { text: String::new(), limit: 2000 };
        page.details("rows", |page| {
            page.table("| a |\n|---|", (0..1000).map(|i| format!("| row {i} |")).collect::<Vec<_>>().into_iter());
        });
        assert!(page.text.len() <= 2000 && page.text.ends_with(" more rows\n\n</details>\n"), "{}", page.text);
        let shown = page.text.matches("| row ").count();
        assert!(page.text.contains(&format!("… and {} more rows", 1000 - shown)) && shown > 50, "{}", page.text);
    }
}
