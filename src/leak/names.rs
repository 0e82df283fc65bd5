//! Names of leaks.

/// Names of one leak that are listed beside the first.
const MOST_NAMES: usize = 4;

/// The names of the stacks of a leak.
pub(super) struct Names {
    /// That of the leak.
    pub(super) label: String,
    /// Those of other stacks, without repetition.
    pub(super) also: Vec<String>,
}

impl Names {
    /// The names of several stacks, the largest first.
    pub(super) fn of(mut labels: impl Iterator<Item = String>) -> Option<Self> {
        let first = labels.next()?;
        let mut also: Vec<String> = Vec::new();
        for label in labels {
            if label != first && !also.contains(&label) {
                also.push(label);
            }
            if also.len() == MOST_NAMES {
                break;
            }
        }
        Some(Self { label: first, also })
    }
}
