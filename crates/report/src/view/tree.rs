//! The call tree.

use ptmem_base::sides::Sides;
use ptmem_compare::tree::{Tree, TreeLayout, TreeLine, TreeOptions};
use ptmem_trace::profile::{Held, others};

use super::{Column, Content, RowOfCells, Table, Tone, TreeFrame, Value, figure, words};

/// Nodes below the total divided by this are hidden.
const HIDDEN_PART: u64 = 200;

/// A tree as it is shown.
struct ShownTree<'t> {
    tree: &'t Tree,
    options: &'t TreeOptions,
    changes: bool,
}

/// The tree of one snapshot: at most `top` callees of every frame, and none that hold next to nothing.
pub(super) fn held(tree: &Tree, options: &TreeOptions, top: usize, moment: &str) -> Content {
    let least = if top == 0 { 0 } else { tree.held().after.bytes / HIDDEN_PART };
    let lines = tree.lines(TreeLayout { top, least, changes: false, fold: true });
    Content::Table(ShownTree { tree, options, changes: false }.table(&lines, moment))
}

/// The tree of a comparison, without what did not change at all.
pub(super) fn changes(tree: &Tree, options: &TreeOptions, top: usize, min_delta: u64, moment: &str) -> Content {
    let lines = tree.lines(TreeLayout { top, least: min_delta.max(1), changes: true, fold: true });
    Content::Table(ShownTree { tree, options, changes: true }.table(&lines, moment))
}

impl ShownTree<'_> {
    fn table(&self, lines: &[TreeLine<'_>], moment: &str) -> Table {
        let title = format!("call tree {moment}");
        let mut total = self.amount(self.tree.total).to_string();
        if let Some(pattern) = &self.options.focus {
            total += &format!(", {} of it through '{}'", self.amount(self.tree.held()), pattern.as_str());
        }
        let is_unchanged = lines.iter().all(|line| line.chain.is_empty() && line.held.delta() == 0);
        if lines.is_empty() || self.changes && is_unchanged {
            return Table { total, below: Some(self.why_empty()), ..Table::default() }.titled(title);
        }
        let heads = if self.changes { ["change", "before", "after"] } else { ["bytes", "share", "blocks"] };
        let columns: Vec<Column> = heads.into_iter().map(figure).chain([words("frame")]).collect();
        Table { total, ..Table::new(columns, lines.iter().map(|line| self.row(line))) }.titled(title)
    }

    fn why_empty(&self) -> String {
        let held = self.tree.held();
        if self.options.focus.is_some() && held.before.blocks + held.after.blocks == 0 {
            format!("no frame matches{}", self.tree.near)
        } else {
            "nothing changed".to_owned()
        }
    }

    fn amount(&self, held: Sides<Held>) -> Value {
        if self.changes { Value::Change(held.delta()) } else { Value::Size(held.after.bytes) }
    }

    fn row(&self, line: &TreeLine<'_>) -> RowOfCells {
        let Sides { before, after } = line.held;
        let mut cells = if self.changes {
            vec![Value::Change(line.held.delta()), Value::Size(before.bytes), Value::Size(after.bytes)]
        } else {
            let share = Value::share(after.bytes, self.tree.total.after.bytes);
            vec![Value::Size(after.bytes), share, Value::count(after.blocks)]
        };
        cells.push(match (line.chain.is_empty(), line.others) {
            (false, _) => Value::Frames(
                line.chain.iter().map(|node| TreeFrame { frame: node.frame.clone(), marked: node.marked }).collect(),
            ),
            (true, 0) => Value::words("[itself]"),
            (true, count) => Value::words(others(count)),
        });
        RowOfCells { depth: line.depth, ..RowOfCells::new(self.tone(line), cells) }
    }

    fn tone(&self, line: &TreeLine<'_>) -> Tone {
        if line.chain.is_empty() {
            return Tone::Faint;
        }
        if self.changes {
            return Tone::of_change(line.held.delta());
        }
        let part = u128::from(line.held.after.bytes) * 100;
        let percent = part.checked_div(u128::from(self.tree.total.after.bytes)).unwrap_or(0);
        Tone::Heat(u8::try_from(percent).unwrap_or(100))
    }
}
