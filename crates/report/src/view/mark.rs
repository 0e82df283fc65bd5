//! The finding of checks beside the figure that they are about.

use crate::verdict::{Check, Outcome, Standing};

/// The finding of the checks about a row, a figure or a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Mark {
    /// Their finding.
    pub(crate) standing: Standing,
    /// Whether it is ok only because the growth was agreed to.
    pub(crate) accepted: bool,
}

impl Mark {
    /// The mark of a check.
    pub(crate) fn of(check: &Check) -> Self {
        Self { standing: check.standing(), accepted: check.accepted && check.outcome == Outcome::Pass }
    }

    /// The word for it in a table.
    pub(crate) fn word(self) -> &'static str {
        match self.standing {
            Standing::Ok if self.accepted => "accepted",
            Standing::Ok => "ok",
            Standing::Warning => "WARN",
            Standing::Inconclusive => "?",
            Standing::Exceeded => "FAIL",
        }
    }
}
