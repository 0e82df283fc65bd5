//! Limits, and how doubt and failure affect the verdict.

use clap::Args;
use ptmem::budget::DeviceMemory;
use ptmem::config::Config;
use ptmem::units::parse_size;
use ptmem::verdict::{GrowthLimit, Level, Limits, Maximum};

use super::heading;

/// Limits of a comparison.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = heading::LIMITS)]
pub(crate) struct DiffLimits {
    /// Fail when METRIC (default: peak) grows by more than LIMIT: 5%, 200MiB, 5%+128MiB or 0, or changes by more than ±LIMIT. Repeatable
    #[arg(long, value_name = "[METRIC=]LIMIT", allow_hyphen_values = true)]
    #[arg(value_parser = |text: &str| GrowthLimit::parse(text, Level::Fail))]
    pub(super) max_growth: Vec<GrowthLimit>,
    /// Warn when METRIC grows by more than LIMIT; the exit code stays 0. Repeatable
    #[arg(long, value_name = "[METRIC=]LIMIT", allow_hyphen_values = true)]
    #[arg(value_parser = |text: &str| GrowthLimit::parse(text, Level::Warn))]
    pub(super) warn_growth: Vec<GrowthLimit>,
    /// Fail when METRIC (default: peak) of the after exceeds SIZE, such as reserved=75GiB. Repeatable
    #[arg(long, value_name = "[METRIC=]SIZE", allow_hyphen_values = true)]
    pub(super) max: Vec<Maximum>,
    /// Neither list nor gate stacks that changed by less than SIZE [default: 1MiB]
    #[arg(long, value_parser = parse_size, value_name = "SIZE", allow_hyphen_values = true)]
    pub(super) min_delta: Option<u64>,
}

impl DiffLimits {
    /// The limits that were set.
    pub(crate) fn limits(&self, is_strict: bool) -> Limits {
        Limits {
            growth: self.max_growth.iter().chain(&self.warn_growth).cloned().collect(),
            maximum: self.max.clone(),
            min_delta: self.min_delta,
            strict: is_strict.then_some(true),
            ..Limits::default()
        }
    }
}

/// The memory of the device.
#[derive(Debug, Default, Args)]
pub(crate) struct DeviceArguments {
    /// Memory of the device, such as 80GiB, to report its headroom or when it will be full
    #[arg(long, value_parser = parse_size, value_name = "SIZE", allow_hyphen_values = true)]
    pub(crate) device_memory: Option<u64>,
}

impl DeviceArguments {
    /// True if the option was given.
    pub(crate) fn is_given(&self) -> bool {
        self.device_memory.is_some()
    }

    fn limits(&self, others: Limits) -> Limits {
        Limits { device_memory: self.device_memory, ..others }
    }

    /// The memory of the device, from the command line or else from the configuration.
    pub(crate) fn memory(&self, config: &Config) -> Option<DeviceMemory> {
        self.limits(Limits::default()).over(&config.limits).memory()
    }
}

/// The device, and memory that must be left free on it.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = heading::LIMITS)]
pub(crate) struct Capacity {
    #[command(flatten)]
    pub(crate) device: DeviceArguments,
    /// Fail when the reserved peak leaves less than SIZE of --device-memory
    #[arg(long, value_parser = parse_size, value_name = "SIZE", allow_hyphen_values = true)]
    pub(crate) min_headroom: Option<u64>,
}

impl Capacity {
    /// The limits, and those of the command line beside them.
    pub(crate) fn limits(&self, others: Limits) -> Limits {
        Limits { min_headroom: self.min_headroom, ..self.device.limits(others) }
    }
}

/// The effect of doubt and failure on the verdict and the exit code.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = heading::TRUST)]
pub(crate) struct Trust {
    /// Treat untrustworthy results as inconclusive (exit 3) instead of warning
    #[arg(long)]
    pub(crate) strict: bool,
    /// Exit with 0 whatever the verdict; errors still exit with 2
    #[arg(long)]
    pub(crate) exit_zero: bool,
}
