//! Tables: every row, with what the script needs to sort by.

use maud::{Markup, html};
use ptmem_judge::verdict::Mark;
use similar::ChangeTag;

use crate::name::name;
use crate::source::Excerpt;
use crate::view::{Column, InputName, RowOfCells, StackLine, Table, Tone, Value, arrows};

/// Rows that are laid out when the page opens: the script draws the others as they come into view.
const MOST_AT_ONCE: usize = 60;

/// Levels by which a name is indented.
const MOST_LEVELS: usize = 16;

/// A table with its title, its rows and the line below.
pub(super) fn table(table: &Table) -> Markup {
    html! {
        @if let Some(title) = &table.title {
            h3 { (name(title)) @if !table.total.is_empty() { " (" (name(&table.total)) ")" } }
        }
        @if !table.rows.is_empty() { (rows(table)) }
        @if let Some(below) = &table.below { p.note { (name(below)) } }
    }
}

fn rows(table: &Table) -> Markup {
    let shown = order(table);
    html! {
        div.scroll tabindex="0" role="region" aria-label=(table.title.as_deref().unwrap_or("figures")) {
            table class=[has_names(table).then_some("named")] {
                thead { tr { @for &at in &shown { th scope="col" class=(cell_class(table, at)) { (name(&table.columns[at].head)) } } } }
                tbody { @for row in table.rows.iter().take(MOST_AT_ONCE) { (line(table, row, &shown)) } }
            }
        }
        @if table.rows.len() > MOST_AT_ONCE {
            noscript { div.scroll { table.named { tbody {
                @for row in table.rows.iter().skip(MOST_AT_ONCE) { (line(table, row, &shown)) }
            } } } }
        }
    }
}

/// The columns to show. Names that follow the figures, as a terminal needs it, are moved to the front.
fn order(table: &Table) -> Vec<usize> {
    let all = 0..table.columns.len();
    let mut shown: Vec<usize> = all.filter(|&at| table.has_content(at)).collect();
    let begins_with_figures = table.columns.first().is_some_and(|column| !column.is_words);
    if begins_with_figures && shown.last() == Some(&(table.columns.len() - 1)) {
        shown.rotate_right(1);
    }
    shown
}

/// The class of a cell; the last column holds the names.
fn cell_class(table: &Table, at: usize) -> &'static str {
    if at + 1 == table.columns.len() && has_names(table) {
        return "words name";
    }
    match &table.columns[at] {
        Column { is_words: true, .. } => "words",
        Column { is_main: true, .. } => "figure main",
        _ => "figure",
    }
}

/// Whether the last column holds names, which need the most room.
fn has_names(table: &Table) -> bool {
    table.columns.last().is_some_and(|column| column.is_words && !column.head.is_empty())
}

fn line(table: &Table, row: &RowOfCells, shown: &[usize]) -> Markup {
    html! {
        tr class=[tone(row)] data-rest=[row.others.map(|_| "1")] data-row=[row.in_picture] {
            @for &at in shown {
                @let value = &row.cells[at];
                td class=(cell_class(table, at)) data-v=[key(value)] {
                    @if at + 1 == row.cells.len() { (name_cell(row, value)) } @else { (cell(value)) }
                }
            }
        }
    }
}

fn tone(row: &RowOfCells) -> Option<&'static str> {
    if let Some(mark) = row.mark {
        return Some(mark.standing.name());
    }
    match row.tone {
        Tone::Plain | Tone::Heat(_) => None,
        Tone::Main => Some("strong"),
        Tone::Faint => Some("faint"),
        Tone::Worse => Some("worse"),
        Tone::Better => Some("better"),
        Tone::Mark(mark) => Some(mark.standing.name()),
    }
}

/// The last cell: a name with its remark and its frames.
fn name_cell(row: &RowOfCells, value: &Value) -> Markup {
    html! {
        @for _ in 0..row.depth.min(MOST_LEVELS) { span.indent {} }
        @if row.frames.is_empty() && row.details.is_empty() {
            (cell(value))
        } @else {
            details.frames {
                summary { (cell(value)) }
                @if !row.details.is_empty() { p.details { (row.details) } }
                @if !row.summed.is_empty() {
                    ul.summed { @for [amount, label] in &row.summed { li { (cell(amount)) " " (cell(label)) } } }
                }
                @if !row.frames.is_empty() {
                    pre { @for line in &row.frames { span class=(line_class(line)) { (line.sign()) (name(&line.text)) "\n" } } }
                }
                @if let Some(excerpt) = row.site.as_ref().and_then(|site| site.excerpt.as_ref()) { (source(excerpt)) }
            }
        }
        @if let Some(mark) = row.mark { " " (badge(mark, None)) }
        @if let Some(note) = &row.note { span.remark { (name(&arrows(note))) } }
    }
}

/// Lines of the checkout, that of the row emphasised.
fn source(excerpt: &Excerpt) -> Markup {
    html! {
        pre.source {
            @for line in &excerpt.lines {
                span class=[line.is_marked.then_some("added")] { (format!("{:>5}  ", line.number)) (name(&line.text)) "\n" }
            }
        }
    }
}

fn line_class(line: &StackLine) -> &'static str {
    match line.tag {
        None => "hunk",
        Some(ChangeTag::Equal) => "context",
        Some(ChangeTag::Delete) => "removed",
        Some(ChangeTag::Insert) => "added",
    }
}

/// The word of a finding.
pub(super) fn badge(mark: Mark, limit: Option<&str>) -> Markup {
    html! {
        span class=(format!("badge {}", mark.standing.name())) { (mark.word()) }
        @if let Some(limit) = limit { " " span.limit { "limit " (name(limit)) } }
    }
}

/// A value in a cell.
fn cell(value: &Value) -> Markup {
    match value {
        Value::Label(InputName { text, is_code: true, more }) => html! { code { (name(text)) } (more.to_string()) },
        Value::Label(InputName { text, is_code: false, .. }) => html! { (name(text)) },
        Value::Mark { mark, limit } => badge(*mark, limit.as_deref()),
        Value::Frames(frames) => html! {
            @for (at, frame) in frames.iter().enumerate() {
                @if at > 0 { " › " }
                code class=[frame.marked.then_some("marked")] { (name(&frame.frame.text())) }
            }
        },
        Value::Nothing | Value::Unknown | Value::Size(_) | Value::Change(_) | Value::Figure { .. } => {
            html! { (value.with_arrow()) }
        }
    }
}

/// The number by which rows are sorted; `None` for a text.
fn key(value: &Value) -> Option<i128> {
    match value {
        Value::Size(bytes) => Some(i128::from(*bytes)),
        Value::Change(order) | Value::Figure { order, .. } => Some(*order),
        Value::Mark { mark, .. } => Some(mark.standing as i128),
        Value::Nothing | Value::Unknown | Value::Label(_) | Value::Frames(_) => None,
    }
}
