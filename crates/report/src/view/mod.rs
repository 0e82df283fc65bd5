//! The one model of a report: each result as typed sections, tables and cells.
//!
//! ```text
//! result (comparison, snapshot, leaks, ranks) -> View -> text, Markdown, …
//! ```
//!
//! A [`View`] holds no printed figure and no layout: sizes, changes, percentages and names keep their types
//! ([`Value`]), timelines keep their points, stacks keep their frames. A renderer decides about columns, colours, room
//! and escaping, and about nothing else.
//!
//! * To report something more, add a [`Content`] to a section in the file of that result (`comparison`, `snapshot`,
//!   `leak`, …). Every format shows it.
//! * To add a format, write a function of [`View`]: `headline`, `explanation` and `overview` are about everything;
//!   then come the groups with their sections, remarks and checks. `match` on [`Content`] and [`Value`] says what
//!   there is to lay out.

mod acceptance;
mod changes;
pub(crate) mod comparison;
mod curve;
mod device;
mod held;
pub(crate) mod leak;
mod model;
mod phases;
pub(crate) mod pools;
mod remarks;
mod serving;
pub(crate) mod snapshot;
mod stacks;
mod table;
mod tree;
mod value;

pub(crate) use acceptance::WayToAccept;
pub use curve::Curve;
pub(crate) use device::seconds;
pub use device::{known_size, overhead};
pub(crate) use model::Explanation;
pub use model::{Content, Fact, Group, MOST_LINES, Section, SourceFile, StepChart, StepLine, View};
pub(crate) use remarks::CheckLine;
pub use remarks::{Remark, remarks};
pub(crate) use stacks::StackLine;
pub(crate) use table::Aside;
pub use table::{Column, RowOfCells, Table, Tone, figure, rows, words};
pub use value::{InputName, TreeFrame, Value};
pub(crate) use value::{arrows, capitalized};
