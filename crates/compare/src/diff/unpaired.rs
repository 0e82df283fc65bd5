//! Stacks of a row that its other side lacks.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{Hash, Hasher};

use ptmem_base::sides::{Side, Sides};
use ptmem_snapshot::snapshot::{FrameId, StackId};
use ptmem_trace::profile::{ExactStack, GroupMember};
use ptmem_trace::stack::{SnapshotCode, Token};
use rustc_hash::FxHasher;

/// A stack that has no equal in its row.
#[derive(Clone, Copy)]
pub(super) struct UnpairedStack {
    pub(super) row: usize,
    pub(super) member: GroupMember,
    pub(super) is_backward: bool,
}

impl UnpairedStack {
    /// Its row and what it is there.
    pub(super) fn id(&self) -> (usize, ExactStack) {
        (self.row, self.member.exact())
    }
}

/// The functions of all stacks of a side.
#[derive(Default)]
pub(super) struct SideFunctions {
    all: HashSet<Token>,
    /// The calls that lead to an allocation, each as the digest of what allocates and of the functions up to the caller that both sides
    /// have: others may have other names there.
    calls: HashSet<u64>,
}

impl SideFunctions {
    /// Those of both sides, given their stacks.
    pub(super) fn of_both(stacks: &Sides<Vec<StackId>>, codes: Sides<&SnapshotCode<'_>>) -> Sides<Self> {
        let mut both = Sides::BOTH.map(|&side| {
            let tokens = stacks.of(side).iter().flat_map(|stack| codes.of(side).tokens(*stack));
            Self { all: tokens.collect(), calls: HashSet::new() }
        });
        for side in Side::BOTH {
            let (code, others) = (codes.of(side), both.of(side.other()));
            let calls = stacks.of(side).iter().flat_map(|stack| others.calls_of(code, *stack, &code.tokens(*stack)));
            both.of_mut(side).calls = calls.collect();
        }
        both
    }

    /// Whether any stack has a call.
    pub(super) fn has_call(&self, call: u64) -> bool {
        self.calls.contains(&call)
    }

    /// Whether any stack runs a function.
    pub(super) fn has(&self, function: &Token) -> bool {
        self.all.contains(function)
    }

    /// Whether any stack runs a function that is the same one on both sides. Which lambda or comprehension one is, is not known.
    pub(super) fn knows(&self, function: &Token) -> bool {
        self.has(function) && !function.is_unnamed()
    }

    /// The calls of a stack of the other side: one for each of its functions, innermost first.
    pub(super) fn calls_of(&self, code: &SnapshotCode<'_>, stack: StackId, functions: &[Token]) -> Vec<u64> {
        let mut hasher = FxHasher::default();
        (code.allocating_operator(stack), code.is_backward(stack)).hash(&mut hasher);
        let calls = functions.iter().map(|function| {
            if self.knows(function) {
                function.hash(&mut hasher);
            }
            hasher.finish()
        });
        calls.collect()
    }
}

/// Stacks that both sides have in one size, count and pass.
pub(super) fn by_kind(stacks: &Sides<Vec<UnpairedStack>>) -> impl Iterator<Item = Sides<Vec<UnpairedStack>>> + use<> {
    let mut kinds = BTreeMap::<_, Sides<Vec<UnpairedStack>>>::new();
    for (side, stacks) in stacks.each() {
        for &stack in stacks {
            let kind = (stack.member.requested, stack.member.at.blocks, stack.is_backward);
            kinds.entry(kind).or_default().of_mut(side).push(stack);
        }
    }
    kinds.into_values()
}

/// The stacks of a row that its other side lacks. Those that have an equal there stay, and then as many as the other side has,
/// those of the nearest sizes: they hold more or less than before, whatever a stack elsewhere holds.
pub(super) fn without_partner(stacks: &Sides<Vec<UnpairedStack>>) -> Sides<Vec<UnpairedStack>> {
    let Sides { before, after } = without_equal(stacks);
    if before.len() <= after.len() {
        Sides { after: without_nearest(&after, &before), before: Vec::new() }
    } else {
        Sides { before: without_nearest(&before, &after), after: Vec::new() }
    }
}

/// The stacks of each side that have no equal on the other, the smallest first.
fn without_equal(stacks: &Sides<Vec<UnpairedStack>>) -> Sides<Vec<UnpairedStack>> {
    let mut left = Sides::<Vec<UnpairedStack>>::default();
    for Sides { mut before, mut after } in by_kind(stacks) {
        let equal = before.len().min(after.len());
        left.before.extend(before.drain(equal..));
        left.after.extend(after.drain(equal..));
    }
    left.before.sort_by_key(|stack| stack.member.at.bytes);
    left.after.sort_by_key(|stack| stack.member.at.bytes);
    left
}

/// The stacks that are left of some when each of fewer others has taken one of the nearest size, both the smallest first.
fn without_nearest(stacks: &[UnpairedStack], others: &[UnpairedStack]) -> Vec<UnpairedStack> {
    let mut left = Vec::new();
    let mut rest = stacks.iter();
    for (taken, other) in others.iter().enumerate() {
        let distance = |stack: &UnpairedStack| stack.member.at.bytes.abs_diff(other.member.at.bytes);
        while let [one, next, ..] = rest.as_slice()
            && rest.len() > others.len() - taken
            && distance(next) < distance(one)
        {
            left.extend(rest.next());
        }
        rest.next();
    }
    left.extend(rest);
    left
}

/// Stacks of a side that are the same code as one which stands for all of them, by that one.
#[derive(Default)]
pub(super) struct SameCode(HashMap<ExactStack, Vec<ExactStack>>);

impl SameCode {
    /// The stacks that one stands for.
    pub(super) fn all(&self, stack: &UnpairedStack) -> impl Iterator<Item = ExactStack> {
        let exact = stack.member.exact();
        let others = self.0.get(&exact).map(Vec::as_slice).unwrap_or_default();
        [exact].into_iter().chain(others.iter().copied())
    }
}

/// Sums stacks of a row with equal frames of Python and operators. Their other frames of C++ differ, which no line of the program
/// decides: the bytecode of a lambda in a loop runs through several functions and addresses of CPython.
pub(super) fn summed(
    stacks: &[UnpairedStack],
    code: &SnapshotCode<'_>,
    same_code: &mut SameCode,
) -> Vec<UnpairedStack> {
    let mut known: HashMap<_, usize> = HashMap::new();
    let mut sums: Vec<UnpairedStack> = Vec::new();
    for stack in stacks {
        let UnpairedStack { row, member, is_backward } = *stack;
        let python: Vec<FrameId> = code.python(member.stack).collect();
        let of_code = (row, is_backward, python, code.operator_names(member.stack));
        let place = *known.entry(of_code).or_insert(sums.len());
        match sums.get_mut(place) {
            Some(sum) => {
                let at = sum.member.at + member.at;
                let requested = sum.member.requested.saturating_add(member.requested);
                sum.member = GroupMember { at, requested, ..sum.member };
                same_code.0.entry(sum.member.exact()).or_default().push(member.exact());
            }
            None => sums.push(*stack),
        }
    }
    sums
}
