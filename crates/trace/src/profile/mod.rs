//! The figures of one snapshot, per device, computed by a replay of its history. Saved to a file, they replace the
//! snapshot.

mod collected;
mod device;
mod divide;
mod error;
mod error_bounds;
mod every;
mod exact;
mod guesses;
mod impossible;
mod lines;
mod measure;
mod metric;
mod moment;
mod nesting;
pub mod numbers;
mod open;
mod options;
mod phases;
mod place;
mod recording;
pub mod saved;
mod serving;
mod source;
mod totals;
mod workspaces;

pub use crate::phase::Occurrence;
pub use crate::replay::{Checks, Counter, Figures, HistoryKind, Layout, Oom, Position, PrivatePool, Timeline};
pub use crate::trace::{Bucket, ErrorBound, Highest};
pub use ptmem_snapshot::snapshot::{AllocatorSettings, EndingKind, RunFacts, Tables};

pub use device::DeviceProfile;
pub use error::ProfileError;
pub use every::{Every, Interval, Lack, MOST_INTERVALS, ParseEveryError};
pub use guesses::{SupposedSizes, Unknown, tell_once as tell_guesses_once};
pub use lines::{HeldLine, HeldLines, Line, Lines, lines_of};
pub use measure::measure;
pub use metric::{Metric, Point};
pub use moment::{Moment, ParseMomentError, PhaseMoment, PhasePoint};
pub use open::{Opened, open, read, read_case};
pub use options::ReadOptions;
pub use phases::{MOST_PHASES, Phases};
pub use recording::Profile;
pub use serving::{Serving, StatedFigure, serving_in};
pub use source::{InputKind, Raise, Source};
pub use totals::{ExactStack, GroupMember, Held, Identity, StackTotal, Sums, groups_of_origins, identity, others};
pub use workspaces::{OwnFigures, WithoutWorkspaces};
