//! Tables: a header, and the rows that fit.

use ptmem_base::text::{cut, printable, shorten};
use ptmem_judge::verdict::{Mark, Standing};
use ptmem_trace::stack::More;

use super::LONGEST_NAME;
use super::escape::{block, code, prose, sentence, unbroken};
use super::page::{MarkdownPage, link};
use crate::CiRun;
use crate::view::{Aside, InputName, RowOfCells, Table, TreeFrame, Value};

/// Columns of a chain of frames.
const WIDEST_FRAMES: usize = 100;

/// Frames of one stack that are shown: the innermost ones.
const MOST_FRAMES: usize = 64;

/// Levels by which a name is indented.
const MOST_LEVELS: usize = 16;

/// Writes a table with its title. Irrelevant rows are folded away.
pub(super) fn write(page: &mut MarkdownPage, table: &Table) {
    let rows: Vec<&RowOfCells> = table.rows.iter().filter(|row| row.aside == Aside::Not).collect();
    let aside: Vec<&RowOfCells> = table.rows.iter().filter(|row| row.aside != Aside::Not).collect();
    let is_all_aside = rows.is_empty() && !aside.is_empty();
    let total = if table.total.is_empty() { String::new() } else { format!(" ({})", prose(&table.total)) };
    if let Some(title) = table.title.as_ref().filter(|_| !is_all_aside) {
        page.add(&format!("\n**{}**{total}\n", sentence(title)));
    }
    write_rows(page, table, &rows);
    if !aside.is_empty() {
        let title = table.title.as_deref().filter(|_| is_all_aside);
        let summary = title.map_or_else(|| table.aside.to_owned(), |title| format!("{}{total}", sentence(title)));
        if !page.details(&summary, |page| write_rows(page, table, &aside)) {
            page.more(number(&aside), "row");
        }
    }
    if let Some(below) = &table.below {
        page.add(&format!("\n<sub>{}</sub>\n", prose(below)));
    }
    if table.explains {
        write_stacks(page, table);
    } else {
        page.details("Call stacks", |page| write_stacks(page, table));
    }
}

/// Writes the frames of rows.
fn write_stacks(page: &mut MarkdownPage, table: &Table) {
    let with_frames: Vec<&RowOfCells> = table.rows.iter().filter(|row| !row.frames.is_empty()).collect();
    let shown = page.add_all(with_frames.iter().map(|row| call_stack(row)));
    page.more(with_frames.len() + table.without_frames - shown, "stack");
}

/// The lines that a row sums, the source there, and its frames.
fn call_stack(row: &RowOfCells) -> String {
    let [amount, name] = row.amount_and_name();
    let summed: String = row.summed.iter().map(|[amount, name]| format!("- {amount} {}\n", cell(name))).collect();
    let gap = if summed.is_empty() { "" } else { "\n" };
    let excerpt = row.site.as_ref().and_then(|site| site.excerpt.as_ref());
    let source = excerpt.map(|excerpt| block("python", &excerpt.texts())).unwrap_or_default();
    let skipped = row.frames.len().saturating_sub(MOST_FRAMES);
    let mut lines: Vec<String> = (skipped > 0).then(|| format!("… {skipped} more frames")).into_iter().collect();
    lines.extend(row.frames[skipped..].iter().map(|line| line.sign() + &printable(&line.text)));
    format!("\n{amount} {}\n{gap}{summed}{gap}{source}{}", cell(name), block("diff", &lines))
}

/// Adds the rows that fit, and the number of things that the others stand for.
fn write_rows(page: &mut MarkdownPage, table: &Table, rows: &[&RowOfCells]) {
    let header = header(table);
    let run = page.run.clone();
    let pieces = rows.iter().enumerate().map(|(at, row)| {
        let row = line(run.as_ref(), table, row);
        if at == 0 { format!("\n{header}\n{row}\n") } else { format!("{row}\n") }
    });
    let shown = page.add_all(pieces);
    page.more(number(&rows[shown..]), "row");
}

/// The number of things that rows represent.
fn number(rows: &[&RowOfCells]) -> usize {
    rows.iter().map(|row| row.others.unwrap_or(1)).sum()
}

fn header(table: &Table) -> String {
    let heads: Vec<_> = table.columns.iter().map(|column| column.head.as_str()).collect();
    let aligned = table.columns.iter().map(|column| if column.is_words { ":--|" } else { "--:|" });
    format!("| {} |\n|{}", heads.join(" | "), aligned.collect::<String>())
}

fn line(run: Option<&CiRun>, table: &Table, row: &RowOfCells) -> String {
    let last = row.cells.len().saturating_sub(1);
    let cells = row.cells.iter().zip(&table.columns).enumerate().map(|(at, (value, column))| match value {
        value if at == last => name(run, row, value),
        Value::Change(0) => cell(value),
        value if column.is_main && *value != Value::Nothing => format!("**{}**", cell(value)),
        value => cell(value),
    });
    format!("| {} |", cells.collect::<Vec<_>>().join(" | "))
}

/// The last cell of a row: its name, with the results of the checks.
fn name(run: Option<&CiRun>, row: &RowOfCells, value: &Value) -> String {
    // Spaces at the beginning of a cell would be lost, and the cell is not code.
    let indent = "\u{2003}".repeat(row.depth.min(MOST_LEVELS));
    let mark = row.mark.map(|mark| format!("{} ", icon(mark))).unwrap_or_default();
    let more = match value {
        Value::Label(label) => label.more,
        _ => More::None,
    };
    format!("{indent}{mark}{}{more}", link(run, cell(value), row.site.as_ref()))
}

fn cell(value: &Value) -> String {
    match value {
        Value::Label(InputName { text, is_code: true, .. }) => code(text),
        Value::Label(InputName { text, is_code: false, .. }) => prose(cut(text, LONGEST_NAME)),
        Value::Frames(frames) => code(&shorten(&chain(frames), WIDEST_FRAMES)),
        Value::Mark { mark, limit } => outcome(*mark, limit.as_deref()),
        value => unbroken(&prose(&value.with_arrow())),
    }
}

fn chain(frames: &[TreeFrame]) -> String {
    let texts = frames.iter().map(|of| format!("{}{}", if of.marked { "*" } else { "" }, printable(&of.frame.text())));
    texts.collect::<Vec<_>>().join(" > ")
}

fn outcome(mark: Mark, limit: Option<&str>) -> String {
    let accepted = match (mark.accepted, limit) {
        (false, _) => "",
        (true, Some(_)) => ", more is accepted",
        (true, None) => " accepted",
    };
    let limit = limit.map(|limit| format!(" allowed {}", prose(limit))).unwrap_or_default();
    format!("{}{limit}{accepted}", icon(mark))
}

/// A symbol for the results of the checks.
pub(super) fn icon(mark: Mark) -> &'static str {
    match mark.standing {
        Standing::Ok => "✅",
        Standing::Warning | Standing::Inconclusive => "⚠️",
        Standing::Exceeded => "❌",
    }
}
