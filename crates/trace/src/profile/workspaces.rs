//! What a device holds beside the workspaces of cuBLAS.

use super::exact::Totals;
use super::{DeviceProfile, ErrorBound};
use crate::stack::Grouper;

/// The figures without the workspaces of cuBLAS, whose size depends on the library and the card, not on the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WithoutWorkspaces {
    /// The figures of all other memory.
    pub own: OwnFigures,
    /// How far the peak of that may be from the truth.
    pub peak_bound: ErrorBound,
    /// The figures of all other memory whose stack is known: the rest may be of workspaces.
    pub named: OwnFigures,
    /// The most that the workspaces held.
    pub workspaces: u64,
}

/// What a part of the stacks holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnFigures {
    /// The most bytes at any moment.
    pub peak: u64,
    /// Bytes at the requested moment.
    pub at: u64,
    /// Bytes at the end.
    pub end: u64,
}

impl DeviceProfile {
    /// The figures without the workspaces of cuBLAS. Not computed while reading: few ask for them.
    pub fn without_workspaces(&self, grouper: &Grouper<'_>) -> WithoutWorkspaces {
        let totals = self.totals(grouper);
        let stacks = totals.all.iter().map(|exact| exact.origin.stack());
        let is_workspace: Vec<bool> =
            stacks.clone().map(|stack| stack.is_some_and(|stack| grouper.code().is_workspace(stack))).collect();
        let own: Vec<bool> = is_workspace.iter().map(|is_workspace| !is_workspace).collect();
        let named: Vec<bool> = stacks.zip(&own).map(|(stack, own)| *own && stack.is_some()).collect();
        let workspaces = self.figures_of(&totals, &is_workspace).peak;
        WithoutWorkspaces {
            own: self.figures_of(&totals, &own),
            peak_bound: self.peak_bound(&totals, &own, grouper),
            named: self.figures_of(&totals, &named),
            workspaces,
        }
    }

    /// How far the most bytes of some of the totals may be from the truth.
    fn peak_bound(&self, totals: &Totals, are_counted: &[bool], grouper: &Grouper<'_>) -> ErrorBound {
        let by_sizes = self.bounds_of_groups(&groups_of(totals, are_counted), 2, grouper.code())[1];
        let unexplained = self.unexplained_error(grouper.code());
        unexplained.map_or(by_sizes, |bytes| ErrorBound { bytes: bytes.max(by_sizes.bytes), blocks: None })
    }

    /// What some of the totals hold together.
    fn figures_of(&self, totals: &Totals, are_counted: &[bool]) -> OwnFigures {
        let counted = totals.all.iter().zip(are_counted).filter(|(_, is_counted)| **is_counted);
        OwnFigures {
            peak: self.trace.highest(&groups_of(totals, are_counted), 2)[1].bytes,
            at: counted.clone().fold(0, |sum: u64, (exact, _)| sum.saturating_add(exact.sums.at.bytes)),
            end: counted.fold(0, |sum: u64, (exact, _)| sum.saturating_add(exact.sums.end.bytes)),
        }
    }
}

/// For every class, 1 if its total is counted and 0 otherwise.
fn groups_of(totals: &Totals, are_counted: &[bool]) -> Vec<u32> {
    totals.of_class.iter().map(|&total| are_counted[total as usize].into()).collect()
}
