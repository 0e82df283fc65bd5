//! `ptmem leak`.

use std::path::PathBuf;

use clap::Args;
use ptmem::pattern::Pattern;
use ptmem::units::parse_size;

use super::limits::Trust;
use super::stacks::Grouping;
use super::value;
use super::view::View;
use super::{ConfigArguments, DeviceArguments, heading};

#[derive(Debug, Args)]
pub(crate) struct LeakArguments {
    /// One snapshot, or two or more in order: snapshots or saved profiles, directories or globs of them; - is standard
    /// input
    #[arg(required = true, value_name = "SNAPSHOT")]
    pub(crate) snapshots: Vec<PathBuf>,
    /// Fail only when all leaks of a device together exceed SIZE per snapshot or step [default: any leak fails]
    #[arg(long, value_parser = parse_size, value_name = "SIZE", allow_hyphen_values = true, help_heading = heading::LIMITS)]
    pub(crate) max_leak: Option<u64>,
    /// Accept out-of-memory events; otherwise one is a failure (of a series, one in the latest snapshot)
    #[arg(long, help_heading = heading::LIMITS)]
    pub(crate) allow_oom: bool,
    /// Ignore the first N snapshots or steps as warm-up [default: 0 snapshots, 1 step]
    #[arg(long, value_name = "N", help_heading = heading::LEAK)]
    pub(crate) skip: Option<usize>,
    /// Smallest total growth that counts as a leak [default: 1MiB over a series; any within one snapshot]
    #[arg(long, value_parser = parse_size, value_name = "SIZE", allow_hyphen_values = true, help_heading = heading::LEAK)]
    pub(crate) min_growth: Option<u64>,
    /// Share of steps in which a stack must grow to count as a leak
    #[arg(
        long,
        value_name = "SHARE",
        default_value = "80%",
        value_parser = value::share,
        help_heading = heading::LEAK
    )]
    pub(crate) min_share: f64,
    /// Begin a step at every annotation or user_metadata whose name matches: part of a name, or a glob
    #[arg(
        long,
        value_name = "PATTERN",
        value_parser = Pattern::search_code,
        conflicts_with = "windows",
        help_heading = heading::LEAK
    )]
    pub(crate) step: Option<Pattern>,
    /// Divide the history into N equal parts and treat them as steps
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(2..), help_heading = heading::LEAK)]
    pub(crate) windows: Option<u16>,
    #[command(flatten, next_help_heading = heading::LEAK)]
    pub(crate) grouping: Grouping,
    #[command(flatten)]
    pub(crate) trust: Trust,
    #[command(flatten)]
    pub(crate) config: ConfigArguments,
    #[command(flatten, next_help_heading = heading::OUTPUT)]
    pub(crate) device: DeviceArguments,
    #[command(flatten)]
    pub(crate) view: View,
}
