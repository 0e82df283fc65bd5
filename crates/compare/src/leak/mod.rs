//! Finds the stacks that grow over a series of snapshots, or over the steps of one.
//!
//! A leak is not a higher peak but memory that does not come back. In a series, a stack leaks that holds more at the
//! end of nearly every snapshot than at the end of the one before. Within one snapshot, a stack leaks that
//! leaves blocks behind in nearly every step, which are still held where the last step begins.

mod device;
mod found;
mod leaking;
mod options;
mod series;
mod steps;
mod together;
mod trend;

pub use device::{DeviceLeaks, FailedRequests, SeriesPoint, TotalsGrowth, UnclearLeaks};
pub use found::Search;
pub use leaking::{Course, Leak, LeakMetric};
pub use options::{LeakOptions, MIN_SHARE, Mode};
pub use ptmem_trace::phase::steps::{StepName, WantedSteps};
pub use series::over;
pub use steps::search;
pub use trend::{Growing, Trend, course_changes};
