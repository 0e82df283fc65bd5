//! `ptmem profile`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;

use super::{ConfigArguments, InputArguments, heading};

#[derive(Debug, Args)]
pub(crate) struct ProfileArguments {
    /// The snapshot, or a profile to write anew; - is standard input
    pub(crate) snapshot: PathBuf,
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
