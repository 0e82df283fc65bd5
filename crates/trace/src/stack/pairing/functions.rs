//! The functions of both files of a comparison, from which the pairing of each of their devices begins.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use ptmem_base::sides::Sides;
use rustc_hash::{FxHashMap, FxHashSet};

use super::StackGroup;
use super::likeness::shape_shift;
use crate::stack::{Lines, SnapshotCode, Token};

/// A name in more files than this is common: a file that was moved shows up as two.
const FEW_FILES: usize = 2;

/// The functions of both files. They are looked at once, since a file can have many devices and as many functions: what
/// is added for a device is in proportion to its own stacks.
#[derive(Debug, Default)]
pub struct ComparedFunctions {
    /// All functions in Python, with the lines on which they call or allocate.
    pub(super) lines: Sides<Lines>,
    /// Files by the name of a function in them, of both sides.
    files_by_name: FxHashMap<u64, BTreeSet<u64>>,
    /// Functions with unchanged names by their file and the distance that they have moved.
    moves: FxHashMap<(u64, i64), usize>,
    /// For every file, how many of these functions moved by the most frequent distance.
    shifts: FxHashMap<u64, Shift>,
}

/// The number of functions of a file that have moved by a distance in lines. The one to go by is the greatest.
type Shift = (usize, Reverse<i64>);

impl ComparedFunctions {
    /// The functions of two snapshots.
    #[must_use]
    pub fn new(codes: Sides<&SnapshotCode<'_>>) -> Self {
        Self::of(codes.map(|code| code.lines()))
    }

    /// The same where they are known.
    pub(super) fn of(lines: Sides<Lines>) -> Self {
        let mut functions = Self::default();
        for token in lines.before.keys().chain(lines.after.keys()) {
            functions.files_by_name.entry(token.function).or_default().insert(token.file);
        }
        for (token, before) in &lines.before {
            if let Some(shift) = lines.after.get(token).and_then(|after| shape_shift(before, after)) {
                *functions.moves.entry((token.file, shift)).or_default() += 1;
            }
        }
        for (&(file, shift), &count) in &functions.moves {
            keep_greatest(&mut functions.shifts, file, (count, Reverse(shift)));
        }
        Self { lines, ..functions }
    }

    /// Names of functions that are in several files, if these are functions as well: among them are operations, which
    /// replace functions where a stack has none in Python.
    pub(super) fn common_among(&self, tokens: &Sides<FxHashSet<Token>>) -> FxHashSet<u64> {
        let mut few: FxHashMap<u64, BTreeSet<u64>> = FxHashMap::default();
        let mut common = FxHashSet::default();
        for token in tokens.before.iter().chain(&tokens.after) {
            let known = self.files_by_name.get(&token.function);
            if known.is_some_and(|files| files.len() > FEW_FILES) {
                common.insert(token.function);
                continue;
            }
            let files = few.entry(token.function).or_insert_with(|| known.cloned().unwrap_or_default());
            files.insert(token.file);
            if files.len() > FEW_FILES {
                common.insert(token.function);
            }
        }
        common
    }

    /// The distance that most functions of a file of the after have moved, where renames change it.
    pub(super) fn shifts_with(&self, renamed: &FxHashMap<Token, Token>) -> FxHashMap<u64, i64> {
        let mut moves: FxHashMap<(u64, i64), usize> = FxHashMap::default();
        for (old, new) in renamed {
            let Some((old, after)) = self.lines.before.get(old).zip(self.lines.after.get(new)) else { continue };
            if let Some(shift) = shape_shift(old, after) {
                *moves.entry((new.file, shift)).or_default() += 1;
            }
        }
        let mut shifts = FxHashMap::default();
        for ((file, shift), count) in moves {
            let unchanged = self.moves.get(&(file, shift)).copied().unwrap_or(0);
            keep_greatest(&mut shifts, file, (unchanged + count, Reverse(shift)));
        }
        for (file, most) in &mut shifts {
            *most = self.shifts.get(file).copied().map_or(*most, |unchanged| unchanged.max(*most));
        }
        shifts.into_iter().map(|(file, (_, Reverse(shift)))| (file, shift)).collect()
    }

    /// The distance that most functions of a file have moved, without renames.
    pub(super) fn shift(&self, file: u64) -> Option<i64> {
        self.shifts.get(&file).map(|(_, Reverse(shift))| *shift)
    }
}

fn keep_greatest(shifts: &mut FxHashMap<u64, Shift>, file: u64, shift: Shift) {
    let most = shifts.entry(file).or_insert(shift);
    *most = shift.max(*most);
}

/// All functions of some groups.
pub(super) fn tokens_of(groups: &[StackGroup<'_>]) -> FxHashSet<Token> {
    groups.iter().flat_map(|group| &group.tokens).copied().collect()
}
