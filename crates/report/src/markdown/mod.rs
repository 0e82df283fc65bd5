//! The view as a comment on a pull request, or the summary of a job: the verdict first, then what explains it; the
//! rest is folded away. Never longer than the reader takes: what does not fit is left out row by row, the worst last,
//! and counted.

mod chart;
mod escape;
mod page;
mod table;

use ptmem_base::text::{count, cut};
use ptmem_base::units::{Delta, Size};
use ptmem_judge::verdict::{Standing, Verdict};
use unicode_width::UnicodeWidthStr;

use super::sparkline::sparkline;
use super::view::{
    CheckLine, Content, Curve, Explanation, Fact, Group, Remark, SourceFile, View, WayToAccept, arrows, capitalized,
};
use super::{DEFAULT_KEY, MOST_COMMENT_BYTES, RenderOptions};
use escape::{block, code, prose, sentence};
use page::MarkdownPage;
use table::icon;

/// Columns of a curve.
const CURVE: usize = 60;

/// The longest name of a comparison or a rank, in bytes.
const LONGEST_NAME: usize = 128;

/// The longest path of a source, in bytes.
const LONGEST_PATH: usize = 256;

/// The longest sentence of a verdict, in bytes.
const LONGEST_SENTENCE: usize = 1024;

/// The longest remark: one that is left out for its length would tell nobody.
const LONGEST_REMARK: usize = 2048;

/// Checks that are listed.
const MOST_CHECKS: usize = 10;

/// Devices that are shown in the open.
const MOST_SECTIONS: usize = 4;

/// Minimum space for the metrics of a device; if less remains, they are omitted.
const LEAST_SECTION: usize = 1024;

/// A page with the verdict, the commit and the run.
fn begin(view: &View, options: &RenderOptions) -> MarkdownPage {
    let key = options.markdown.comment_key.as_deref().unwrap_or(DEFAULT_KEY);
    let mut page =
        MarkdownPage::new(format!("<!-- ptmem:{key} -->\n"), options.markdown.max_bytes.unwrap_or(MOST_COMMENT_BYTES));
    page.run.clone_from(&options.run);
    heading(&mut page, view, options);
    surroundings(&mut page, view, options);
    // Before all that the change could fill the page with.
    for group in &view.groups {
        quotes(&mut page, group, &group.announced_remarks());
    }
    page
}

/// Writes the verdict in one line, and the warnings that weaken it.
pub(super) fn brief(view: &View, options: &RenderOptions) -> String {
    let mut page = begin(view, options);
    for group in &view.groups {
        quotes(&mut page, group, &others(group));
    }
    page.text
}

/// Writes a report as Markdown, in at most [`MarkdownOptions::max_bytes`](crate::MarkdownOptions::max_bytes).
pub(super) fn render(view: &View, options: &RenderOptions) -> String {
    let mut page = begin(view, options);
    if let Some(explanation) = &view.explanation {
        explain(&mut page, explanation, options);
    }
    for group in &view.groups {
        quotes(&mut page, group, &others(group));
    }
    for group in &view.groups {
        checks(&mut page, group, &group.checks_of_job);
        if !group.is_compared() && group.checks.len() > 1 {
            checks(&mut page, group, &group.checks);
        }
    }
    if let Some(overview) = &view.overview {
        // The worst device needs room as well.
        page.half(|page| table::write(page, overview));
    }
    for group in &view.groups {
        facts(&mut page, &group.facts);
    }
    sections(&mut page, view);
    for group in &view.groups {
        group.idle.iter().for_each(|idle| _ = page.add(&format!("\n{}\n", sentence(idle))));
        notes(&mut page, group);
        if group.is_compared() && group.checks.len() > 1 {
            page.details("Checks", |page| checks(page, group, &group.checks));
        }
    }
    acceptance(&mut page, &view.acceptance);
    chart_of_worst(&mut page, view);
    footer(&mut page, view);
    page.text
}

/// Writes which commit the report is of, in which run, and who approved what it found.
fn surroundings(page: &mut MarkdownPage, view: &View, options: &RenderOptions) {
    if let Some(run) = &options.run {
        let commit = format!("[`{}`]({})", run.short_commit(), run.commit_address());
        page.add(&format!("\nGPU memory at commit {commit}, [log of the run]({})\n", run.log));
    }
    if let Some(approval) = &view.approval {
        page.add(&format!("\n☑️ {}\n", prose(&approval.to_string())));
    }
}

/// Writes how to accept the growth, folded away.
fn acceptance(page: &mut MarkdownPage, ways: &[WayToAccept]) {
    let pieces = ways.iter().map(|WayToAccept { sentence: text, lines, language }| {
        let lines = if lines.is_empty() { ".\n".to_owned() } else { format!(":\n\n{}", block(language, lines)) };
        format!("\n{}{lines}", sentence(text))
    });
    page.details("How to accept this change", |page| _ = page.add(&pieces.collect::<String>()));
}

/// The curves of the worst device as a chart. They come last,
/// because everything else has priority when space is limited.
fn chart_of_worst(page: &mut MarkdownPage, view: &View) {
    let sections = view.sections();
    let Some((group, section)) = sections.first() else { return };
    let Some(timeline) = chart::timeline_of(section) else { return };
    let name = match sections.len() {
        1 => String::new(),
        _ => format!(" of {}{}", scope(group), prose(cut(&section.name, LONGEST_NAME))),
    };
    let summary = format!("Memory{name} over the recording{}", chart::legend(timeline));
    page.details(&summary, |page| _ = page.add(&format!("\n{}", chart::chart(timeline))));
}

fn heading(page: &mut MarkdownPage, view: &View, options: &RenderOptions) {
    let Some(headline) = &view.headline else {
        let scope = prose(&options.scope());
        page.add(&format!("### {scope}GPU memory of {}\n", code(cut(view.first_path(), LONGEST_PATH))));
        return;
    };
    let icon = match headline.verdict {
        Verdict::Pass if view.is_gated => "✅",
        Verdict::Pass => "ℹ️",
        Verdict::Regression => "❌",
        Verdict::Inconclusive => "⚠️",
    };
    let sentence = prose(&format!("{}{}", options.scope(), headline.sentence));
    let sentence = cut(&sentence, LONGEST_SENTENCE);
    let key = options.markdown.comment_key.as_ref().filter(|key| *key != DEFAULT_KEY);
    let key = key.map(|key| format!(" {}", code(key))).unwrap_or_default();
    page.text.push_str(&format!("### {icon} {}{key}: {sentence}\n", headline.verdict.word()));
    for detail in &headline.details {
        // Code is between backticks.
        let detail = capitalized(detail);
        let parts = detail.split('`').enumerate();
        let parts = parts.map(|(at, part)| if at % 2 == 1 { code(part) } else { prose(part) });
        page.add(&format!("\n{}\n", parts.collect::<String>()));
    }
}

fn explain(page: &mut MarkdownPage, explanation: &Explanation, options: &RenderOptions) {
    let manner = explanation.manner.iter().map(|manner| format!(", {}", arrows(manner))).collect::<String>();
    let kind = explanation.kind.name();
    let label = code(&explanation.label);
    let label = match explanation.place.as_ref().and_then(|place| options.address_of(place)) {
        Some(address) => format!("[{label}]({address})"),
        None => label,
    };
    page.add(&format!("\n{label} {kind}: **{}**{manner}\n", Delta(explanation.delta)));
}

/// A name before the part about one group of several.
fn scope(group: &Group) -> String {
    group.name.iter().map(|name| format!("{}: ", prose(cut(name, LONGEST_NAME)))).collect()
}

fn checks(page: &mut MarkdownPage, group: &Group, lines: &[CheckLine]) {
    let scope = scope(group);
    let shown = lines.iter().take(MOST_CHECKS);
    let shown = shown.map(|check| {
        let others = check.others.iter().map(|other| format!("- {}\n", prose(other))).collect::<String>();
        let gap = if others.is_empty() { "" } else { "\n" };
        format!("\n{} {scope}{}\n{gap}{others}", icon(check.mark), prose(&check.sentence))
    });
    let shown = page.add_all(shown);
    page.more(lines.len() - shown, "check");
}

/// The devices, the worst first; those without a reason for concern folded away.
fn sections(page: &mut MarkdownPage, view: &View) {
    let all = view.sections();
    let is_compared = view.groups.iter().any(Group::is_compared);
    let has_names = all.len() > 1 || view.overview.is_some() || !is_compared;
    for (at, (group, section)) in all.iter().enumerate() {
        if at > 0 && !page.fits(LEAST_SECTION) {
            page.more(all.len() - at, "device");
            break;
        }
        let name = format!("{}{}", scope(group), prose(cut(&section.name, LONGEST_NAME)));
        let is_concern = section.standing > Standing::Ok || !view.is_gated;
        if at == 0 || at < MOST_SECTIONS && is_concern && !group.is_folded {
            if has_names {
                page.add(&format!("\n#### {name}\n"));
            }
            section.blocks.iter().for_each(|block| content(page, block));
        } else {
            page.details(&name, |page| section.blocks.iter().for_each(|block| content(page, block)));
        }
    }
}

fn content(page: &mut MarkdownPage, content: &Content) {
    match content {
        Content::Facts(of_section) => facts(page, of_section),
        Content::Table(table) => table::write(page, table),
        Content::Timeline(curves) => timeline(page, curves),
        Content::Steps(steps) => {
            let points = steps.bytes();
            let top = points.iter().copied().max().unwrap_or(0);
            if points.len() > 1 {
                let curve = block("text", &[sparkline(&points, top, CURVE)]);
                page.add(&format!("\n{curve}\n{}\n", sentence(&steps.caption())));
            }
        }
        Content::Sentence(text) => {
            page.add(&format!("\n{}\n", sentence(text)));
        }
    }
}

/// Facts as a list; those of several lines as a list of their own.
fn facts(page: &mut MarkdownPage, facts: &[Fact]) {
    let mut piece = String::new();
    let mut is_list = false;
    for Fact { name, lines, .. } in facts {
        let mut lines = lines.iter().map(|items| prose(&arrows(&items.join(", "))));
        if lines.len() > 1 {
            piece += &format!("\n**{}**\n\n", sentence(name));
            piece.extend(lines.map(|line| format!("- {line}\n")));
            is_list = false;
            continue;
        }
        let line = lines.next().unwrap_or_default();
        piece += if is_list { "" } else { "\n" };
        piece += &if name.is_empty() { format!("- {line}\n") } else { format!("- {name}: {line}\n") };
        is_list = true;
    }
    page.add(&piece);
}

fn timeline(page: &mut MarkdownPage, curves: &[Curve]) {
    let lines: Vec<_> = curves.iter().map(|curve| line_of(curve, chart::top(curves))).collect();
    page.add(&format!("\n{}", block("text", &lines)));
}

fn line_of(curve: &Curve, top: u64) -> String {
    let points = sparkline(&curve.points, top, CURVE);
    let gap = CURVE.saturating_sub(points.width());
    match curve.side {
        Some(side) => format!("{side:<6} {points}{:gap$}  {}", "", Size(curve.peak)),
        None => points,
    }
}

/// The remarks that no reader needs for the verdict, folded away.
fn notes(page: &mut MarkdownPage, group: &Group) {
    let folded = group.folded_remarks();
    if !folded.is_empty() {
        page.details(&count(folded.len() as u64, "note", "notes"), |page| quotes(page, group, &folded));
    }
}

/// The open remarks that are not at the top.
fn others(group: &Group) -> Vec<&Remark> {
    group.open_remarks().into_iter().filter(|remark| !remark.code.is_announced()).collect()
}

fn quotes(page: &mut MarkdownPage, group: &Group, remarks: &[&Remark]) {
    let shown = page.add_all(remarks.iter().map(|remark| quote(remark, &scope(group))));
    page.more(remarks.len() - shown, "remark");
}

fn quote(remark: &Remark, scope: &str) -> String {
    // The icon comes first, so that a name such as `1. x` does not begin a list.
    let icon = if remark.is_open() { "⚠️ " } else { "ℹ️ " };
    let message = cut(&remark.message, LONGEST_REMARK);
    let rest = if message == remark.message { "" } else { "…" };
    format!("\n> {icon}{}{scope}{}{rest} ({})\n", remark.scope, prose(message), code(remark.code.name()))
}

/// The files, where there is one group of them, and the version.
fn footer(page: &mut MarkdownPage, view: &View) {
    let sources = match &view.groups[..] {
        [only] => only.sources.iter().map(source).collect(),
        _ => String::new(),
    };
    page.add(&format!("\n<sub>{sources}ptmem {}</sub>\n", env!("CARGO_PKG_VERSION")));
}

fn source(source: &SourceFile) -> String {
    let side = source.side.map(|side| format!("{side} ")).unwrap_or_default();
    format!("{side}{} ({}) · ", code(cut(&source.path, LONGEST_PATH)), source.amount)
}
