//! The parts of a file that a change touches, as ranges of statements.

use std::ops::Range;

use ptmem_base::difference::difference;
use ptmem_base::python::Functions;
use ptmem_base::sides::{Side, Sides};
use similar::{DiffOp, DiffTag};

use super::tokens::{Statement, StatementPair, renamed};

/// Maximum number of statements of a part that are aligned with each other.
const MOST_ALIGNED: usize = 1_000;

/// A changed part of a file, as ranges of statements.
pub(super) struct Hunk {
    pub(super) at: Sides<Range<usize>>,
    /// Statements behind it that only go in or out with it.
    pub(super) follow: usize,
}

impl Hunk {
    /// The rest of the block on one side whose head is the last of its statements there.
    pub(super) fn block<'s, 't>(&self, side: Side, statements: &'s Sides<Vec<Statement<'t>>>) -> &'s [Statement<'t>] {
        let (range, all) = (self.at.of(side), statements.of(side));
        let rest = &all[range.end + self.follow..];
        let head = all[range.clone()].last().filter(|last| last.is_head());
        let length = head.map_or(0, |head| rest.iter().take_while(|of| of.indent > head.indent).count());
        &rest[..length]
    }

    /// The part of one side alone. Imports come before the other side; other code comes after it, as only this may be the head of
    /// the block behind.
    fn alone(&self, side: Side, are_imports: bool) -> Self {
        let mut at = self.at.clone();
        let other = at.of_mut(side.other());
        let place = if are_imports { other.start } else { other.end };
        *other = place..place;
        Self { at, follow: if are_imports { 0 } else { self.follow } }
    }
}

/// The statements as texts, those of the after with the names of the before.
pub(super) fn keys<'t>(statements: &Sides<Vec<Statement<'t>>>, functions: &'t Sides<Functions>) -> Sides<Vec<String>> {
    let plain = statements.map(|all| all.iter().map(|statement| statement.text(None)).collect::<Vec<_>>());
    let mut pairs = Vec::new();
    for change in difference(plain.map(Vec::as_slice)) {
        if matches!(change, DiffOp::Replace { .. }) {
            let own =
                Sides { before: &statements.before[change.old_range()], after: &statements.after[change.new_range()] };
            pairs.extend(counterparts(own));
        }
    }
    let renamed = renamed(&pairs, statements, functions);
    let after = statements.after.iter().map(|statement| statement.text(Some(&renamed))).collect();
    Sides { before: plain.before, after }
}

/// The statements of both sides of a part that may differ by names alone.
fn counterparts<'s, 't>(own: Sides<&'s [Statement<'t>]>) -> Vec<StatementPair<'s, 't>> {
    let Sides { before, after } = own;
    if before.len() == after.len() {
        return before.iter().zip(after).map(|(before, after)| Sides { before, after }).collect();
    }
    if before.len() + after.len() > MOST_ALIGNED {
        return Vec::new();
    }
    let shapes = own.map(|all| all.iter().map(Statement::shape).collect::<Vec<_>>());
    let changes = difference(shapes.map(Vec::as_slice));
    let equal = changes.iter().filter(|change| matches!(change, DiffOp::Equal { .. }));
    let pairs = equal.flat_map(|change| before[change.old_range()].iter().zip(&after[change.new_range()]));
    pairs.map(|(before, after)| Sides { before, after }).collect()
}

/// The functions and classes of a part that only comes or goes, and what is between them.
fn parts(hunk: Hunk, statements: &Sides<Vec<Statement<'_>>>) -> Vec<Hunk> {
    // Code that an import replaces is likely elsewhere now, so each side is an edit by itself.
    let are_imports = |side: Side| statements.of(side)[hunk.at.of(side).clone()].iter().all(Statement::is_import);
    let side = match (hunk.at.before.len(), hunk.at.after.len()) {
        (0, _) => Side::After,
        (_, 0) => Side::Before,
        _ if are_imports(Side::Before) || are_imports(Side::After) => {
            let alone = Side::BOTH.map(|side| hunk.alone(side, are_imports(side)));
            return alone.into_iter().flat_map(|hunk| parts(hunk, statements)).collect();
        }
        _ => return vec![hunk],
    };
    let range = hunk.at.of(side).clone();
    let all = &statements.of(side)[range.clone()];
    let least = all.iter().map(|of| of.indent).min().unwrap_or(0);
    let mut starts = vec![range.start];
    for (at, pair) in all.windows(2).enumerate() {
        let is_decorated = pair[0].is_decorator() && pair[0].indent == least;
        let begins =
            pair[1].is_definition() || starts.last().is_some_and(|start| statements.of(side)[*start].is_definition());
        if pair[1].indent == least && begins && !is_decorated {
            starts.push(range.start + at + 1);
        }
    }
    let ends = starts[1..].iter().copied().chain([range.end]);
    let parts = starts.iter().zip(ends).map(|(&from, to)| {
        let mut at = hunk.at.clone();
        *at.of_mut(side) = from..to;
        Hunk { at, follow: if to == range.end { hunk.follow } else { 0 } }
    });
    parts.collect()
}

/// The code of a part that can be moved: it is on one side alone, and begins with a definition or an import.
pub(super) fn moves(hunk: &Hunk, keys: &Sides<Vec<String>>, statements: &Sides<Vec<Statement<'_>>>) -> Option<String> {
    let side = if hunk.at.before.is_empty() { Side::After } else { Side::Before };
    let is_alone = hunk.at.of(side.other()).is_empty() && hunk.follow == 0;
    let range = hunk.at.of(side).clone();
    let all = statements.of(side).get(range.clone())?;
    // A decorator only moves with its function.
    let may_move = all.iter().find(|of| !of.is_decorator())?.may_move();
    (is_alone && may_move).then(|| keys.of(side)[range].join("\n"))
}

/// Statements that are equal on both sides, or differ.
struct StatementRange {
    at: Sides<Range<usize>>,
    is_equal: bool,
}

impl StatementRange {
    fn new(change: &DiffOp) -> Self {
        let at = Sides { before: change.old_range(), after: change.new_range() };
        Self { at, is_equal: matches!(change, DiffOp::Equal { .. }) }
    }
}

/// The ranges of a file. One that only comes or goes begins with the decorators of its function, where a difference may as well
/// end it with equal ones of the next function.
fn ranges(changes: &[DiffOp], statements: &Sides<Vec<Statement<'_>>>) -> Vec<StatementRange> {
    let mut ranges: Vec<StatementRange> = changes.iter().map(StatementRange::new).collect();
    for at in 1..ranges.len().saturating_sub(1) {
        let [previous, own, next] = &mut ranges[at - 1..=at + 1] else { continue };
        let side = if own.at.before.is_empty() { Side::After } else { Side::Before };
        if !previous.is_equal || !next.is_equal || !own.at.of(side.other()).is_empty() {
            continue;
        }
        let (range, all) = (own.at.of(side), statements.of(side));
        let is_next = |back: &usize| {
            let [first, last] = [range.start, range.end].map(|end| &all[end - 1 - back]);
            last.is_decorator() && (first.indent, &first.tokens) == (last.indent, &last.tokens)
        };
        let shift = (0..previous.at.of(side).len()).take_while(is_next).count();
        for side in Side::BOTH {
            previous.at.of_mut(side).end -= shift;
            let range = own.at.of_mut(side);
            *range = range.start - shift..range.end - shift;
            next.at.of_mut(side).start -= shift;
        }
    }
    ranges
}

/// The parts of a range that differs: the statements that only come or go, and those between them, which begin as before. Undivided
/// where these are not all.
fn divided(range: StatementRange, statements: &Sides<Vec<Statement<'_>>>) -> Vec<StatementRange> {
    let own = Sides::BOTH.map(|&side| &statements.of(side)[range.at.of(side).clone()]);
    if range.is_equal || own.before.len() + own.after.len() > MOST_ALIGNED {
        return vec![range];
    }
    let beginnings = own.map(|all| all.iter().map(Statement::beginning).collect::<Vec<_>>());
    let changes = difference(beginnings.map(Vec::as_slice));
    let has = |tag: DiffTag| changes.iter().any(|change| change.tag() == tag);
    if !has(DiffTag::Equal) || has(DiffTag::Replace) {
        return vec![range];
    }
    let parts = changes.iter().map(|change| {
        let at = Sides { before: change.old_range(), after: change.new_range() }.zip(range.at.map(|at| at.start));
        StatementRange { at: at.map(|(own, start)| start + own.start..start + own.end), is_equal: false }
    });
    parts.collect()
}

/// The changed parts, with each function and class that only comes or goes by itself.
pub(super) fn hunks(changes: &[DiffOp], statements: &Sides<Vec<Statement<'_>>>) -> Vec<Hunk> {
    let mut hunks: Vec<Hunk> = Vec::new();
    // The part with the head of a block that comes or goes, while the statements after it change only their indentation.
    let mut head: Option<usize> = None;
    for StatementRange { at, is_equal } in
        ranges(changes, statements).into_iter().flat_map(|range| divided(range, statements))
    {
        let length = at.before.len().min(at.after.len());
        let shift = |by: usize| {
            let [from, to] = [&statements.before[at.before.start + by], &statements.after[at.after.start + by]];
            from.indent != to.indent
        };
        if !is_equal {
            let is_shifted = at.before.len() == at.after.len() && (0..length).all(shift);
            head = head.filter(|_| is_shifted);
            head.into_iter().for_each(|head| hunks[head].follow += length);
            let hunk = Hunk { at, follow: 0 };
            head = head.or(is_head(&hunk, statements).then_some(hunks.len()));
            hunks.push(hunk);
            continue;
        }
        let mut by = 0;
        while by < length {
            let shifted = (by..length).take_while(|&by| shift(by)).count();
            match head.take() {
                Some(head) => hunks[head].follow += shifted,
                None if shifted > 0 => {
                    let range = |start: usize| start + by..start + by + shifted;
                    let at = at.map(|at| range(at.start));
                    hunks.push(Hunk { at, follow: 0 });
                }
                None => {}
            }
            by += shifted.max(1);
        }
    }
    hunks.into_iter().flat_map(|hunk| parts(hunk, statements)).collect()
}

/// True if the head of a block is the last of its statements on a side.
fn is_head(hunk: &Hunk, statements: &Sides<Vec<Statement<'_>>>) -> bool {
    let last = |side: Side| statements.of(side)[hunk.at.of(side).clone()].last();
    Side::BOTH.into_iter().filter_map(last).any(Statement::is_head)
}
