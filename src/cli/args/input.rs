//! Files to read, and how.

use std::path::PathBuf;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use ptmem::config::Config;
use ptmem::profile;
use ptmem::snapshot::AllocatorSettings;
use ptmem::units::parse_size;

use super::heading;

/// The configuration file to use.
#[derive(Debug, Args)]
#[command(next_help_heading = heading::INPUT)]
pub(crate) struct ConfigArguments {
    /// Read this configuration file instead of the nearest ptmem.toml or .github/ptmem.toml, which is looked for upwards
    /// to the root of the repository
    #[arg(long, value_name = "FILE", conflicts_with = "no_config")]
    pub(crate) config: Option<PathBuf>,
    /// Read no configuration file
    #[arg(long)]
    pub(crate) no_config: bool,
}

/// The commit whose configuration is applied, too.
#[derive(Debug, Args)]
pub(crate) struct BaseArguments {
    /// Also judge by the configuration of the checkout's merge base with BASE, a commit, branch or tag, and warn where only that
    /// of the checkout passes
    #[arg(long, value_name = "BASE", value_parser = NonEmptyStringValueParser::new(), help_heading = heading::INPUT)]
    pub(crate) git: Option<String>,
}

/// Limits on reading.
#[derive(Debug, Args)]
pub(crate) struct InputArguments {
    /// Refuse compressed input that expands to more than SIZE [default: 200 times the file, at least 256MiB]
    #[arg(long, value_parser = parse_size, value_name = "SIZE", allow_hyphen_values = true)]
    max_input: Option<u64>,
    /// Allocator settings of the run, as in PYTORCH_CUDA_ALLOC_CONF, for snapshots that do not state them (PyTorch
    /// before 2.3)
    #[arg(long, value_name = "SETTINGS")]
    allocator_settings: Option<AllocatorSettings>,
}

impl InputArguments {
    /// The options by which a file is read. What the command line does not say, the configuration does.
    pub(crate) fn reading(&self, config: &Config) -> profile::Options {
        profile::Options {
            max_input: self.max_input,
            allocator_settings: self.allocator_settings.clone().or_else(|| config.allocator_settings.clone()),
            ..profile::Options::default()
        }
    }
}
