//! The requests that a recording made to the allocator, to repeat them under other settings, and the memory that its segments
//! hold without use.

mod pinned;
mod pools;
mod recording;
mod requests;
mod space;
mod study;

pub use pinned::{Pin, Pinned, PinnedSegment, pinned};
pub use recording::{Error, Recording, missing};
pub use requests::{Earlier, Lane, Request, curve};
pub use study::{Outcome, SelfCheck, Study, Trial, advice};
