//! The likeness of two stacks, and of the functions in which they differ.

use ptmem_base::sides::{Side, Sides};
use similar::DiffOp;

use super::super::Token;
use super::super::difference::stack_differences;
use super::{Pairing, SAME_FUNCTION, StackGroup};

/// The weight of a frame that exists on one side only, against 1 for one that exists on both: changes to the code make
/// such frames. Needed for edits of `torch-1.13.pkl` in tests/library/code_changes.rs.
const ONE_SIDED: f64 = 0.25;

/// The likeness of two groups.
#[derive(Debug, Clone, Copy)]
pub(super) struct Score {
    pub(super) ratio: f64,
    pub(super) closeness: f64,
}

/// A function of the before and the one that replaced it in the after.
#[derive(Debug)]
pub(super) struct Became {
    pub(super) old: Token,
    pub(super) new: Token,
    /// Their likeness, from 0 to 1.
    alike: f64,
}

/// A part of the difference between two stacks.
#[derive(Debug, Default)]
pub(super) struct StackHunk {
    equal: Vec<Token>,
    pub(super) pairs: Vec<Became>,
    pub(super) old_only: Vec<Token>,
    pub(super) new_only: Vec<Token>,
}

/// A part of a stack that the other one has not.
struct Unshared<'t> {
    /// The whole stack.
    all: &'t [Token],
    tokens: &'t [Token],
    /// Places of the functions that the other side does not know.
    unknown: Vec<usize>,
}

impl Unshared<'_> {
    fn unknown(&self, index: usize) -> Token {
        self.tokens[self.unknown[index]]
    }

    /// How often each unknown function occurs in the stack.
    fn counts(&self) -> Vec<usize> {
        let unknown = (0..self.unknown.len()).map(|index| self.unknown(index));
        unknown.map(|token| self.all.iter().filter(|other| **other == token).count()).collect()
    }

    /// The functions that are in none of these pairs.
    fn without(&self, mut paired: impl Iterator<Item = usize>) -> Vec<Token> {
        let mut next = paired.next();
        let mut left = Vec::new();
        for (at, token) in self.tokens.iter().enumerate() {
            if next.is_some_and(|index| self.unknown[index] == at) {
                next = paired.next();
            } else {
                left.push(*token);
            }
        }
        left
    }
}

impl Pairing<'_> {
    /// The likeness of two groups, or `None` where they cannot be the same.
    pub(super) fn score(&self, before: usize, after: usize) -> Option<Score> {
        let before = &self.before.groups[before];
        let after = &self.after.groups[after];
        let old = self.translated(before);
        let new = self.reduced(after);
        let same_figures = before.figures == after.figures;
        if !same_figures && !old.iter().any(|token| new.contains(token)) {
            // Nothing in common.
            return None;
        }
        let closeness = before.figures.closeness(after.figures);
        let old_site = self.old_site(before)?;
        let new_site = Self::new_site(after)?;
        let mut matched = 0.0;
        let mut lost = 0.0;
        let mut sites = None;
        for hunk in self.hunks(&old, &new) {
            matched += hunk.equal.iter().map(|token| self.weight(token)).sum::<f64>();
            for &Became { old, new, alike } in &hunk.pairs {
                matched += ONE_SIDED * alike;
                if old == old_site && new == new_site {
                    sites = Some(alike + does_the_same(before, after));
                }
            }
            if self.exchanges_kept(&hunk) {
                return None;
            }
            lost += hunk.old_only.iter().chain(&hunk.new_only).map(|token| self.weight(token)).sum::<f64>();
        }
        let agree = if old_site == new_site {
            true
        } else if let Some(alike) = sites {
            alike >= SAME_FUNCTION || same_figures
        } else if self.is_split_off(before, after)
            || before.figures.counts() == after.figures.counts() && are_one_apart(&old, &new)
        {
            true
        } else {
            // One of them put a function in between: the next one that both know must be the same.
            let one_sided = !self.kept.contains(&old_site) || !self.kept.contains(&new_site);
            let next = self.innermost_kept(&old);
            one_sided && next.is_some() && next == self.innermost_kept(&new) && closeness >= 0.5
        };
        let total = 2.0 * matched + lost;
        (agree && total > 0.0).then(|| Score { ratio: 2.0 * matched / total, closeness })
    }

    /// Whether two groups run different functions at one place that both sides have.
    pub(super) fn are_others(&self, before: usize, after: usize) -> bool {
        let old = self.translated(&self.before.groups[before]);
        let new = self.reduced(&self.after.groups[after]);
        self.hunks(&old, &new).iter().any(|hunk| self.exchanges_kept(hunk))
    }

    /// Whether a function replaces another one while both sides have both: no change renames a function to one that
    /// is there already.
    fn exchanges_kept(&self, hunk: &StackHunk) -> bool {
        self.innermost_kept(&hunk.old_only).is_some() && self.innermost_kept(&hunk.new_only).is_some()
    }

    /// The innermost function that both sides know.
    fn innermost_kept(&self, tokens: &[Token]) -> Option<Token> {
        tokens.iter().find(|token| self.kept.contains(token)).copied()
    }

    /// True if the function to blame went to another file, under its name. Where a file becomes two, functions of one
    /// name (`forward` of several classes) are one in the before and two in the after.
    fn is_split_off(&self, before: &StackGroup<'_>, after: &StackGroup<'_>) -> bool {
        let Some(old) = before.tokens.get(before.site) else { return false };
        let Some(new) = after.tokens.get(after.site) else { return false };
        old.function == new.function && !self.has(Side::After, old) && !self.has(Side::Before, new)
    }

    pub(super) fn weight(&self, token: &Token) -> f64 {
        if self.kept.contains(token) { 1.0 } else { ONE_SIDED }
    }

    /// The parts that two stacks have in common, and the differences in between.
    pub(super) fn hunks(&self, old: &[Token], new: &[Token]) -> Vec<StackHunk> {
        stack_differences(Sides { before: old, after: new }).into_iter().map(|op| self.hunk(op, old, new)).collect()
    }

    fn hunk(&self, op: DiffOp, old: &[Token], new: &[Token]) -> StackHunk {
        if let DiffOp::Equal { old_index, len, .. } = op {
            return StackHunk { equal: old[old_index..old_index + len].to_vec(), ..StackHunk::default() };
        }
        self.align(&self.part(old, &old[op.old_range()]), &self.part(new, &new[op.new_range()]))
    }

    fn part<'t>(&self, all: &'t [Token], tokens: &'t [Token]) -> Unshared<'t> {
        /// Keeps the tables small.
        const MOST: usize = 32;
        let unknown = (0..tokens.len()).filter(|&at| !self.kept.contains(&tokens[at]));
        Unshared { all, tokens, unknown: unknown.take(MOST).collect() }
    }

    /// Pairs the functions that vanished with those that appeared in their place, in order, with the greatest total
    /// similarity: the longest common subsequence with weights.
    fn align(&self, old: &Unshared<'_>, new: &Unshared<'_>) -> StackHunk {
        let [rows, columns] = [old, new].map(|part| part.unknown.len());
        let [old_counts, new_counts] = [old, new].map(Unshared::counts);
        let mut values = vec![vec![0.0; columns]; rows];
        // The greatest total that pairs can reach from each position.
        let mut best = vec![vec![0.0_f64; columns + 1]; rows + 1];
        for i in (0..rows).rev() {
            for j in (0..columns).rev() {
                // A little for any pair: functions in the same place are more likely the same. But a wrapper that
                // occurs repeatedly is not the new name of a function that occurred once.
                let same_place = if old_counts[i] == new_counts[j] { 0.01 } else { 0.0 };
                values[i][j] = self.alike(old.unknown(i), new.unknown(j)) + same_place;
                best[i][j] = (values[i][j] + best[i + 1][j + 1]).max(best[i + 1][j]).max(best[i][j + 1]);
            }
        }
        let mut paired = Vec::new();
        let mut i = 0;
        let mut j = 0;
        while i < rows && j < columns {
            // In a tie, the inner one: wrappers are outside.
            if values[i][j] > 0.0 && best[i][j] <= values[i][j] + best[i + 1][j + 1] {
                paired.push((i, j));
                i += 1;
                j += 1;
            } else if best[i][j] <= best[i + 1][j] {
                i += 1;
            } else {
                j += 1;
            }
        }
        StackHunk {
            equal: Vec::new(),
            old_only: old.without(paired.iter().map(|(i, _)| *i)),
            new_only: new.without(paired.iter().map(|(_, j)| *j)),
            pairs: paired.into_iter().map(|(i, j)| self.became(old.unknown(i), new.unknown(j))).collect(),
        }
    }

    fn became(&self, old: Token, new: Token) -> Became {
        Became { old, new, alike: self.alike(old, new) }
    }

    /// The evidence that a function which vanished is one that appeared, from 0 to 1.
    fn alike(&self, old: Token, new: Token) -> f64 {
        let name = match old.function == new.function {
            true if self.common_names.contains(&old.function) => 0.3,
            true => 0.6,
            // Of another class, or of one that was renamed.
            false if old.name == new.name => 0.3,
            false => 0.0,
        };
        let file = match self.moved.get(&old.file).copied().unwrap_or(old.file) == new.file {
            true => 0.3,
            false if old.base == new.base => 0.2,
            false => 0.0,
        };
        (name + file + self.same_lines(&old, &new)).clamp(0.0, 1.0)
    }

    /// The evidence of the lines of two functions: whether one stands where the other would after the move of its file.
    fn same_lines(&self, old: &Token, new: &Token) -> f64 {
        let Some(moved) = self.functions.shape_shift(old, new) else { return 0.0 };
        let expected =
            self.renamed_shifts.get(&new.file).copied().or_else(|| self.functions.shift(new.file)).unwrap_or(0);
        let has_several = self.functions.shape(Side::Before, old).is_some_and(|shape| shape.count > 1);
        if has_several || moved == expected { 0.4 } else { 0.0 }
    }
}

/// True if one of two stacks is the other with one more function: a call was put into a function of its own, which others call
/// too, or taken out of it.
fn are_one_apart(old: &[Token], new: &[Token]) -> bool {
    let (shorter, longer) = if old.len() < new.len() { (old, new) } else { (new, old) };
    let inside = shorter.iter().zip(longer).take_while(|(one, other)| one == other).count();
    longer.len() == shorter.len() + 1 && shorter[inside..] == longer[inside + 1..]
}

/// More for two functions that get their memory in the same way.
fn does_the_same(before: &StackGroup<'_>, after: &StackGroup<'_>) -> f64 {
    let is_known = !before.inside().is_empty() || !before.operators.is_empty();
    if is_known && before.inside() == after.inside() && before.operators == after.operators { 0.25 } else { 0.0 }
}
