//! `ptmem profile`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;

use super::value::SizeArgument;
use super::{ConfigArguments, InputArguments, heading};

#[derive(Debug, Args)]
pub(crate) struct ProfileArguments {
    /// The snapshot, or a profile to make smaller; - is standard input
    pub(crate) snapshot: PathBuf,
    /// Keep the N stacks per device that hold most and sum the rest in one row; 0 keeps all
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = heading::KEPT)]
    pub(crate) top: usize,
    /// Keep stacks that hold at least SIZE at one of the moments and sum the rest in one row
    #[arg(long, value_name = "SIZE", default_value = "0", allow_hyphen_values = true, help_heading = heading::KEPT)]
    pub(crate) min_bytes: SizeArgument,
    /// Show your code relative to this folder instead of the root of the checkout. Repeatable
    #[arg(long, value_name = "FOLDER", value_parser = NonEmptyStringValueParser::new(), help_heading = heading::KEPT)]
    pub(crate) strip_prefix: Vec<String>,
    #[command(flatten)]
    pub(crate) config: ConfigArguments,
    /// Keep this device alone, by its number in the snapshot [default: all]
    #[arg(long, value_name = "N", help_heading = heading::KEPT)]
    pub(crate) device: Option<u32>,
    #[command(flatten, next_help_heading = heading::INPUT)]
    pub(crate) input: InputArguments,
    /// The file to write, such as baseline.ptmem.json; - is standard output
    #[arg(long, short, value_name = "FILE", default_value = "-", help_heading = heading::OUTPUT)]
    pub(crate) output: PathBuf,
}
