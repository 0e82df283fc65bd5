//! The requests that a recording made to the allocator, to repeat them under other settings, and the memory that its segments
//! hold without use.

mod earlier;
mod limits;
mod pinned;
mod pools;
mod reader;
mod requests;
mod space;
mod study;

pub use pinned::{Pin, Pinned, PinnedSegment, pinned};
pub use requests::{Derivation, Earlier, Error, Lane, PoolSource, Request, Requests, curve, missing};
pub use study::{Outcome, SelfCheck, Study, Trial};
