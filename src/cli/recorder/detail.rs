//! What recordings have beside call stacks. It makes them slower: only what a grouping or a limit needs is recorded.

use ptmem::stack::GroupBy;
use ptmem::verdict::{LimitKind, Limits};

/// What a recording has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Detail {
    /// Call stacks alone.
    Stacks,
    /// Modules and purposes as well.
    Modules,
    /// Shapes as well as these.
    Shapes,
}

impl Detail {
    /// What this grouping and these limits need.
    pub(crate) fn needed(group_by: GroupBy, limits: &Limits) -> Self {
        let growth = limits.growth.iter().map(|limit| limit.target.kind);
        let mut kinds = growth.chain(limits.maximum.iter().map(|limit| limit.target.kind));
        match group_by {
            GroupBy::Shape => Self::Shapes,
            GroupBy::Module | GroupBy::Purpose => Self::Modules,
            _ if kinds.any(|kind| kind == LimitKind::Modules) => Self::Modules,
            _ => Self::Stacks,
        }
    }

    /// The option of `ptmem simulate` for it.
    pub(super) fn option(self) -> Option<&'static str> {
        match self {
            Self::Stacks => None,
            Self::Modules => Some("--modules"),
            Self::Shapes => Some("--shapes"),
        }
    }
}
