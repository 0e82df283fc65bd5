//! The difference of two sequences.

use std::hash::Hash;
use std::time::{Duration, Instant};

use similar::{Algorithm, DiffOp, capture_diff_slices_deadline};

use crate::interner::Interner;
use crate::sides::Sides;

/// The operations that make the after of the before.
pub fn difference<T: Hash + Eq>(items: Sides<&[T]>) -> Vec<DiffOp> {
    of_numbers(&numbered(items))
}

/// A number for each item: equal items have the same one.
pub fn numbered<T: Hash + Eq>(items: Sides<&[T]>) -> Sides<Vec<usize>> {
    let mut known = Interner::default();
    items.map(|items| items.iter().map(|item| known.intern(&item, |&item| item)).collect())
}

/// As [`difference`], of items that are numbers: the algorithm is long, and is compiled once for all types.
pub fn of_numbers(items: &Sides<Vec<usize>>) -> Vec<DiffOp> {
    // Far beyond what stacks and files take; it keeps a hostile input from taking long.
    let deadline = Instant::now() + Duration::from_millis(500);
    capture_diff_slices_deadline(Algorithm::Myers, &items.before, &items.after, Some(deadline))
}
