//! How patterns of limits on stacks select rows.

use ptmem_base::pattern::{Naming, Pattern, Selector};
use ptmem_compare::diff::{DeviceDiff, Diff, Row, Sides};
use ptmem_trace::profile::Profile;
use ptmem_trace::stack::Grouper;

use super::kind::LimitKind;

/// The names by which patterns select rows.
#[derive(Debug)]
pub(super) struct RowNames<'d> {
    /// Those of lines that hold something at other moments than the compared one count, too, if there are any.
    at_any_moment: Option<Sides<Grouper<'d>>>,
}

impl<'d> RowNames<'d> {
    /// The names for limits of a kind.
    pub(super) fn of(kind: LimitKind, diff: &'d Diff) -> Self {
        let is_at_any = kind == LimitKind::StackHighest;
        Self { at_any_moment: is_at_any.then(|| diff.profiles.map(Profile::grouper)) }
    }

    pub(super) fn naming(&self, row: &Row, pattern: &Pattern) -> Option<Naming> {
        match &self.at_any_moment {
            Some(groupers) => row.naming_at_any_moment(pattern, groupers),
            None => row.naming(pattern),
        }
    }

    /// A pattern among the rows of a device.
    pub(super) fn selector<'p>(&self, device: &DeviceDiff, pattern: &'p Pattern) -> Selector<'p> {
        Selector::new(pattern, device.rows.iter().map(|row| self.naming(row, pattern)))
    }

    /// Whether a pattern selects a row.
    pub(super) fn is_selected(&self, row: &Row, selector: &Selector<'_>) -> bool {
        selector.selects(self.naming(row, selector.pattern))
    }
}
