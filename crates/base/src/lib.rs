//! Shared by every stage of `ptmem`: sizes, texts, patterns, diagnostics, the two sides of a comparison.
//!
//! A part of the tool that promises nothing by itself: the crate `ptmem` is for others.

#![warn(clippy::disallowed_methods)]

pub mod device;
pub mod diagnostic;
pub mod difference;
pub mod interner;
pub mod json_writer;
pub mod label;
pub mod lines;
pub mod pattern;
pub mod python;
pub mod sides;
pub mod text;
pub mod units;

/// Gives enums of which strum makes texts their names.
#[macro_export]
#[doc(hidden)]
macro_rules! named {
    ($kind:ty) => {
        impl $kind {
            /// Its name in reports, in machine-readable output and on the command line.
            pub fn name(self) -> &'static str {
                self.into()
            }
        }
    };
}
