//! The languages of frames.

use serde::{Deserialize, Serialize};

/// The languages that frames were recorded in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Languages {
    /// Some frame is Python.
    pub python: bool,
    /// Some frame is C or C++.
    pub cpp: bool,
}

impl Languages {
    /// The frames in them, in words.
    pub fn name(self) -> &'static str {
        match (self.python, self.cpp) {
            (true, true) => "Python and C++ frames",
            (true, false) => "Python frames",
            (false, true) => "C++ frames",
            (false, false) => "no frames",
        }
    }
}

impl std::ops::BitOrAssign for Languages {
    fn bitor_assign(&mut self, other: Self) {
        self.python |= other.python;
        self.cpp |= other.cpp;
    }
}
