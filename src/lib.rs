//! `ptmem` keeps PyTorch GPU memory regressions out of a code base.
//!
//! It reads CUDA memory snapshots (`torch.cuda.memory._dump_snapshot`), rebuilds the work of the caching allocator, and
//! compares a before with an after. The library takes anything that is [`std::io::Read`]; it never prints, never exits,
//! and touches no file.
//!
//! # Five functions
//!
//! | function | result |
//! |---|---|
//! | [`read`] | the figures of a snapshot: a [`Profile`] |
//! | [`compare`] | a before and an after, judged by limits: a [`Gate`] |
//! | [`check`] | one snapshot judged by absolute limits: a [`Judgement`] |
//! | [`find_leaks`] | memory that does not come back: a [`LeakGate`] |
//! | [`render`] | a report on any of these, in any [`Format`] |
//!
//! Their defaults are those of the command line.
//!
//! ```
//! use std::fs::File;
//!
//! use ptmem::{
//!     Format, ReadOptions, RenderOptions, Thresholds, Verdict, check, compare, find_leaks, read, render,
//! };
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let before = read(File::open("fixtures/before.pkl")?, "before.pkl", ReadOptions::default())?;
//! let after = read(File::open("fixtures/after.pkl")?, "after.pkl", ReadOptions::default())?;
//! assert_eq!(after.devices[0].figures.allocated.peak, Some(350_167_552));
//!
//! let limits = Thresholds::default().max("reserved=1GiB")?;
//! let judgement = check(&after, &limits);
//! assert_eq!(judgement.verdict, Verdict::Pass);
//!
//! let limits = Thresholds::default().max_growth("5%")?;
//! let gate = compare(before, after, &limits);
//! assert_eq!(gate.verdict(), Verdict::Regression);
//! let json = render(&gate, Format::Json, &RenderOptions::default())?;
//! assert!(json.contains("\"verdict\": \"regression\""));
//!
//! let snapshot = ("leak.pkl".to_owned(), File::open("fixtures/leak.pkl")?);
//! let leaks = find_leaks([snapshot], &ptmem::LeakOptions::default(), 0)?;
//! assert_eq!(leaks.leaves().flat_map(|found| found.search.leaks()).count(), 1);
//! # Ok(())
//! # }
//! ```
//!
//! # Stages
//!
//! Data flows one way. Each stage is a module with one input and one output type, and imports none to its right: the
//! compiler enforces this between crates, a test within them.
//!
//! ```text
//! bytes -> input -> pickle -> snapshot -> phase -> tags -> replay -> profile -> align -> diff -> leak -> verdict -> report
//! ```
//!
//! The modules below are those whose types appear in results and options. Others are public for the command line, the tests
//! and the benchmarks of this package: they are hidden from this page, and promise nothing.

#![warn(clippy::disallowed_methods)]

mod api;

#[doc(hidden)]
pub use ptmem_base::python;
#[doc(inline)]
pub use ptmem_base::{device, diagnostic, pattern, sides, units};
#[doc(hidden)]
pub use ptmem_compare::tracks;
#[doc(inline)]
pub use ptmem_compare::{align, budget, diff, leak, patch, tree};
#[doc(inline)]
pub use ptmem_judge::{config, verdict};
#[doc(inline)]
pub use ptmem_report as report;
#[doc(hidden)]
pub use ptmem_snapshot::{input, pickle, snapshot};
#[doc(hidden)]
pub use ptmem_trace::{phase, replay};
#[doc(inline)]
pub use ptmem_trace::{profile, stack, trace};

pub use api::{FindLeaksError, check, compare, find_leaks, read, render};
pub use diagnostic::{Code, Diagnostic, Severity};
pub use leak::LeakOptions;
pub use profile::{DeviceProfile, Profile, ProfileError as ReadError, ReadOptions};
pub use report::{Format, RenderOptions, Report};
pub use verdict::{Gate, Judgement, LeakGate, Thresholds, Verdict};
