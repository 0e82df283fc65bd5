//! The parts of a file that a change touches, as ranges of statements.

use std::ops::Range;

use ptmem_base::difference::difference;
use ptmem_base::python::Functions;
use ptmem_base::sides::{Side, Sides};
use similar::DiffOp;

use super::tokens::{Statement, renamed};

/// A changed part of a file, as ranges of statements.
pub(super) struct Hunk {
    pub(super) at: Sides<Range<usize>>,
    /// Statements behind it that only go in or out with it.
    pub(super) follow: usize,
}

/// The statements as texts, those of the after with the names of the before.
pub(super) fn keys<'t>(statements: &Sides<Vec<Statement<'t>>>, functions: &'t Sides<Functions>) -> Sides<Vec<String>> {
    let plain = statements.map(|all| all.iter().map(|statement| statement.text(None)).collect::<Vec<_>>());
    let mut pairs = Vec::new();
    for change in difference(plain.map(Vec::as_slice)) {
        let (old, new) = (&statements.before[change.old_range()], &statements.after[change.new_range()]);
        if matches!(change, DiffOp::Replace { .. }) && old.len() == new.len() {
            pairs.extend(old.iter().zip(new).map(|(before, after)| Sides { before, after }));
        }
    }
    let renamed = renamed(&pairs, statements, functions);
    let after = statements.after.iter().map(|statement| statement.text(Some(&renamed))).collect();
    Sides { before: plain.before, after }
}

/// The functions and classes of a part that only comes or goes, and what is between them.
fn parts(hunk: Hunk, statements: &Sides<Vec<Statement<'_>>>) -> Vec<Hunk> {
    // What an import takes the place of is elsewhere now.
    let are_imports = |side: Side| statements.of(side)[hunk.at.of(side).clone()].iter().all(Statement::is_import);
    let side = match (hunk.at.before.len(), hunk.at.after.len()) {
        (0, _) => Side::After,
        (_, 0) => Side::Before,
        _ if are_imports(Side::Before) || are_imports(Side::After) => {
            let alone = Side::BOTH.map(|side| {
                let mut at = hunk.at.clone();
                let other = at.of_mut(side.other());
                *other = other.start..other.start;
                Hunk { at, follow: hunk.follow }
            });
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
struct Run {
    at: Sides<Range<usize>>,
    is_equal: bool,
}

/// The runs of a file. One that only comes or goes begins with the decorators of its function, where a difference may as well
/// end it with equal ones of the next function.
fn runs(changes: &[DiffOp], statements: &Sides<Vec<Statement<'_>>>) -> Vec<Run> {
    let run = |change: &DiffOp| Run {
        at: Sides { before: change.old_range(), after: change.new_range() },
        is_equal: matches!(change, DiffOp::Equal { .. }),
    };
    let mut runs: Vec<Run> = changes.iter().map(run).collect();
    for at in 1..runs.len().saturating_sub(1) {
        let [previous, run, next] = &mut runs[at - 1..=at + 1] else { continue };
        let side = if run.at.before.is_empty() { Side::After } else { Side::Before };
        if !previous.is_equal || !next.is_equal || !run.at.of(side.other()).is_empty() {
            continue;
        }
        let (range, all) = (run.at.of(side), statements.of(side));
        let is_next = |back: &usize| {
            let [first, last] = [range.start, range.end].map(|end| &all[end - 1 - back]);
            last.is_decorator() && (first.indent, &first.tokens) == (last.indent, &last.tokens)
        };
        let shift = (0..previous.at.of(side).len()).take_while(is_next).count();
        for side in Side::BOTH {
            previous.at.of_mut(side).end -= shift;
            let range = run.at.of_mut(side);
            *range = range.start - shift..range.end - shift;
            next.at.of_mut(side).start -= shift;
        }
    }
    runs
}

/// The changed parts, with each function and class that only comes or goes by itself.
pub(super) fn hunks(changes: &[DiffOp], statements: &Sides<Vec<Statement<'_>>>) -> Vec<Hunk> {
    let mut hunks: Vec<Hunk> = Vec::new();
    for Run { at, is_equal } in runs(changes, statements) {
        if !is_equal {
            hunks.push(Hunk { at, follow: 0 });
            continue;
        }
        let (old, new) = (at.before, at.after);
        let shift = |at: usize| {
            let [from, to] = [&statements.before[old.start + at], &statements.after[new.start + at]];
            from.indent != to.indent
        };
        let mut at = 0;
        while at < old.len() {
            let length = (at..old.len()).take_while(|&at| shift(at)).count();
            let follows = at == 0 && hunks.last().is_some_and(|last| is_head(last, statements));
            match hunks.last_mut().filter(|_| follows) {
                Some(last) => last.follow = length,
                None if length > 0 => {
                    let [before, after] = [old.start + at, new.start + at].map(|from| from..from + length);
                    hunks.push(Hunk { at: Sides { before, after }, follow: 0 });
                }
                None => {}
            }
            at += length.max(1);
        }
    }
    hunks.into_iter().flat_map(|hunk| parts(hunk, statements)).collect()
}

/// True if the head of a block is the last of its statements on a side.
fn is_head(hunk: &Hunk, statements: &Sides<Vec<Statement<'_>>>) -> bool {
    let last = |side: Side| statements.of(side)[hunk.at.of(side).clone()].last();
    Side::BOTH.into_iter().filter_map(last).any(Statement::is_head)
}
