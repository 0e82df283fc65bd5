//! Inputs whose sizes differ between the sides: what the program brings to the device outside of all modules.

use super::Sides;
use crate::diagnostic::{self, Diagnostic};
use crate::profile::StackTotal;
use crate::snapshot::StackId;
use crate::stack::{Code, Grouper};
use crate::units::Size;

/// Tells of the largest input that has another size, as often as it is allocated on both sides.
pub(super) fn tell(
    device: u32,
    stacks: Sides<&[StackTotal]>,
    pairs: &[(usize, usize)],
    groupers: Sides<&Grouper<'_>>,
    found: &mut Vec<Diagnostic>,
) {
    let pairs =
        pairs.iter().map(|&(before, after)| Sides { before: &stacks.before[before], after: &stacks.after[after] });
    let mut differing: Vec<Sides<&StackTotal>> = pairs.filter(|totals| differ(*totals, groupers)).collect();
    differing.sort_by_key(|totals| std::cmp::Reverse(totals.after.allocated_total));
    let Some(first) = differing.first() else { return };
    let others = match differing.len() - 1 {
        0 => String::new(),
        more => format!("; {more} more differ"),
    };
    let message = format!(
        "inputs have other sizes: {}, {} before and {} after in {}{others}",
        first.after.label,
        Size(first.before.allocated_total),
        Size(first.after.allocated_total),
        crate::text::count(first.after.allocations, "allocation", "allocations"),
    );
    found.push(Diagnostic::new(diagnostic::Code::InputsDiffer, Some(device), message));
}

fn differ(totals: Sides<&StackTotal>, groupers: Sides<&Grouper<'_>>) -> bool {
    let Sides { before, after } = totals;
    after.allocations > 0
        && before.allocations == after.allocations
        && before.allocated_total != after.allocated_total
        && before.stack().is_some_and(|stack| is_input(groupers.before.code(), stack))
        && after.stack().is_some_and(|stack| is_input(groupers.after.code(), stack))
}

/// True for copies to the device and numbers by chance that no module makes.
fn is_input(code: &Code<'_>, stack: StackId) -> bool {
    let operator = code.allocating_operator(stack).unwrap_or_default();
    (operator == "_to_copy" || operator.starts_with("rand"))
        && !code.is_backward(stack)
        && !code.python(stack).any(|frame| code.path(frame).starts_with("torch/nn/"))
}
