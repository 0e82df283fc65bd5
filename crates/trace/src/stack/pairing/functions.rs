//! The functions of both files of a comparison, from which the pairing of each of their devices begins.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};

use ptmem_base::sides::{Side, Sides};
use rustc_hash::{FxHashMap, FxHashSet};

use super::StackGroup;
use crate::stack::{Lines, SnapshotCode, Token};

/// A name in more files than this is common: a file that was moved shows up as two.
const FEW_FILES: usize = 2;

/// Where the lines of a function are on which it calls or allocates.
#[derive(Debug, Clone, Copy)]
pub(super) struct LineShape {
    first: u32,
    pub(super) count: usize,
    /// A number that functions share whose lines are equally far apart, so that two of them are compared in one step.
    distances: usize,
}

impl LineShape {
    /// The shape of some lines, given the numbers of the distances that are known.
    fn of(lines: &BTreeSet<u32>, known: &mut HashMap<Vec<u32>, usize>) -> Option<Self> {
        let first = *lines.first()?;
        let distances = lines.iter().map(|line| line - first).collect();
        let next = known.len();
        Some(Self { first, count: lines.len(), distances: *known.entry(distances).or_insert(next) })
    }

    /// The distance between the lines of two functions that are otherwise the same.
    pub(super) fn shift(self, new: Self) -> Option<i64> {
        (self.distances == new.distances).then(|| i64::from(new.first) - i64::from(self.first))
    }
}

/// The functions of both files. They are looked at once, since a file can have many devices and as many functions: what
/// is added for a device is in proportion to its own stacks.
#[derive(Debug, Default)]
pub struct ComparedFunctions {
    /// All functions in Python, with the shape of their lines where any is known.
    pub(super) shapes: Sides<FxHashMap<Token, Option<LineShape>>>,
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
    pub fn new(codes: Sides<&SnapshotCode<'_>>) -> Self {
        Self::of(codes.map(|code| code.lines()))
    }

    /// The same where they are known.
    pub(super) fn of(lines: Sides<Lines>) -> Self {
        let mut functions = Self { shapes: shapes(&lines), ..Self::default() };
        let Sides { before, after } = &functions.shapes;
        for token in before.keys().chain(after.keys()) {
            functions.files_by_name.entry(token.function).or_default().insert(token.file);
        }
        for token in before.keys() {
            if let Some(shift) = functions.shape_shift(token, token) {
                *functions.moves.entry((token.file, shift)).or_default() += 1;
            }
        }
        for (&(file, shift), &count) in &functions.moves {
            keep_greatest(&mut functions.shifts, file, (count, Reverse(shift)));
        }
        functions
    }

    pub(super) fn shape(&self, side: Side, token: &Token) -> Option<LineShape> {
        self.shapes.of(side).get(token).copied().flatten()
    }

    /// The distance between the lines of a function of the before and one of the after that are otherwise the same.
    pub(super) fn shape_shift(&self, old: &Token, new: &Token) -> Option<i64> {
        self.shape(Side::Before, old)?.shift(self.shape(Side::After, new)?)
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
            if let Some(shift) = self.shape_shift(old, new) {
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

/// The shapes of the lines of all functions of both sides.
fn shapes(lines: &Sides<Lines>) -> Sides<FxHashMap<Token, Option<LineShape>>> {
    let mut known = HashMap::new();
    lines.map(|lines| lines.iter().map(|(token, lines)| (*token, LineShape::of(lines, &mut known))).collect())
}

fn keep_greatest(shifts: &mut FxHashMap<u64, Shift>, file: u64, shift: Shift) {
    let most = shifts.entry(file).or_insert(shift);
    *most = shift.max(*most);
}

/// All functions of some groups.
pub(super) fn tokens_of(groups: &[StackGroup<'_>]) -> FxHashSet<Token> {
    groups.iter().flat_map(|group| &group.tokens).copied().collect()
}
