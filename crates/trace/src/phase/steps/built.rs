//! Rounds that build something, and what distinguishes them from rounds that run a model.

use ptmem_snapshot::snapshot::StackId;

use super::rounds::{MODULE, Rounds};
use super::{AllocationCourse, Steps, nearly_all};
use crate::stack::SnapshotCode;

/// A reason to assume that rounds build something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display)]
pub enum BuiltUp {
    /// They call no module.
    #[strum(to_string = "they call no module, as when weights are made or loaded")]
    NoCall,
    /// They allocate only within calls of modules.
    #[strum(to_string = "they allocate only within calls of modules, like the layers of one call")]
    OneCall,
}

/// Whether a stack allocates while an object is initialized, or a module is moved or loaded; of rounds that call no module.
pub fn initializes(code: &SnapshotCode<'_>, stack: StackId) -> bool {
    code.python(stack).any(|frame| code.function(frame) == "__init__" || code.file(frame).ends_with(MODULE))
}

impl Steps {
    /// The reason to assume that they build something, if there is one. A round of evaluation calls a model; where calls are not
    /// noted, it is known by a batch that is loaded, or an output that is used, outside of that call.
    pub fn built_up(&self, course: &AllocationCourse, code: &SnapshotCode<'_>) -> Option<BuiltUp> {
        if self.hold_calls(course) {
            return None;
        }
        let rounds = Rounds::new(course, code);
        let begins: Vec<usize> = self.steps.iter().map(|step| step.from.count()).collect();
        let all = begins.windows(2).map(|pair| pair[0]..pair[1]);
        let calling = all.clone().filter(|round| rounds.calls_module(round)).count();
        let outside = all.clone().filter(|round| rounds.allocates_outside(round)).count();
        match all.len() {
            count if !nearly_all(calling, count) => Some(BuiltUp::NoCall),
            count if !nearly_all(outside, count) => Some(BuiltUp::OneCall),
            _ => None,
        }
    }
}
