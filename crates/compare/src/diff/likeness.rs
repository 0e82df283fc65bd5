//! Whether two stacks of both sides are the same one at another place of the code.

use ptmem_base::difference::difference;
use ptmem_base::sides::Sides;
use ptmem_base::units::approximate;
use ptmem_snapshot::snapshot::StackId;
use ptmem_trace::stack::{SnapshotCode, Token};
use similar::DiffOp;

use super::unpaired::SideFunctions;

/// The part of their functions that two stacks share which are the same one at another place. Needed for
/// benches/regressions/mask_product.py.
pub(super) const SAME_STACK: f64 = 0.5;

/// What a function is known by on both sides.
#[derive(PartialEq, Eq, Hash)]
enum KnownFunction {
    /// Both sides have it.
    OfBoth(Token),
    /// Its name: a change may have moved it from another class or file.
    Named(u64),
}

/// The evidence that two stacks are the same one at another place.
pub(super) struct Likeness<'c> {
    operator: Option<&'c str>,
    functions: Vec<KnownFunction>,
    /// Whether the other side lacks the call of each by which it allocates.
    is_call_of_one_side: Vec<bool>,
    /// Whether the other side lacks its innermost function.
    is_of_one_side: bool,
}

impl<'c> Likeness<'c> {
    /// `others` are the functions of the other side.
    pub(super) fn new(code: &'c SnapshotCode<'_>, stack: StackId, others: &SideFunctions) -> Self {
        let own = code.tokens(stack);
        let calls = others.calls_of(code, stack, &own);
        let functions = own.iter().map(|function| match function {
            kept if others.knows(kept) => KnownFunction::OfBoth(*kept),
            other => KnownFunction::Named(other.plain_name()),
        });
        Self {
            operator: code.allocating_operator(stack),
            functions: functions.collect(),
            is_call_of_one_side: calls.into_iter().map(|call| !others.has_call(call)).collect(),
            is_of_one_side: own.first().is_some_and(|innermost| !others.has(innermost)),
        }
    }

    /// Whether the same operator allocates, and the part of the functions that is the same; `None` if they are not the same
    /// stack. Code that moved to a new function can keep a copy of what it kept before. Where both sides have both functions,
    /// one of them keeps less and the other one more, unless only one side allocates so in each of them: then a line moved.
    pub(super) fn score(&self, new: &Self) -> Option<(bool, f64)> {
        let same_operator = self.operator == new.operator;
        let may_be_same = same_operator || self.is_of_one_side || new.is_of_one_side;
        let mut same = 0;
        for op in difference(Sides { before: &*self.functions, after: &*new.functions }) {
            if let DiffOp::Equal { len, .. } = op {
                same += len;
            } else if self.exchanges(new, &op) {
                return None;
            }
        }
        let all = self.functions.len() + new.functions.len();
        let part = 2.0 * approximate(same as u64) / approximate(all.max(1) as u64);
        (may_be_same && part >= SAME_STACK).then_some((same_operator, part))
    }

    /// Whether a line or call moved, whatever else changed: the same operator allocates, by a call that only one side has on each.
    pub(super) fn is_certain(&self, new: &Self) -> bool {
        let is_of_one_side = |of: &Self| of.is_of_one_side || of.is_call_of_one_side.contains(&true);
        self.operator.is_some() && self.operator == new.operator && is_of_one_side(self) && is_of_one_side(new)
    }

    /// Whether an operation puts functions in place of others, and both sides have some of either. Not where a line or call moved:
    /// both sides have all functions that it runs, and only one allocates so by each.
    fn exchanges(&self, new: &Self, op: &DiffOp) -> bool {
        let [old_part, new_part] = [(self, op.old_range()), (new, op.new_range())].map(|(of, range)| {
            let is_of_one_side = of.is_call_of_one_side[range.clone()].first() == Some(&true);
            let is_moved = is_of_one_side && of.functions[..range.end].iter().all(KnownFunction::is_of_both);
            (of.functions[range].iter().any(KnownFunction::is_of_both), is_moved)
        });
        let is_moved = self.operator == new.operator && old_part.1 && new_part.1;
        old_part.0 && new_part.0 && !is_moved
    }
}

impl KnownFunction {
    fn is_of_both(&self) -> bool {
        matches!(self, Self::OfBoth(_))
    }
}
