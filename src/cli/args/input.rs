//! Files to read, and how.

use std::path::{Path, PathBuf};

use clap::Args;
use ptmem::config::Config;
use ptmem::profile;
use ptmem::units::parse_size;

use super::heading;

/// The configuration file to use.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = heading::INPUT)]
pub(crate) struct ConfigArguments {
    /// Read this configuration file instead of the nearest ptmem.toml or .github/ptmem.toml up to the root of the
    /// repository; none reads no configuration
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

impl ConfigArguments {
    /// The name that stands for no configuration; a file of that name is `./none`.
    pub(crate) const NONE: &str = "none";

    /// The file that was named.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.config.as_deref().filter(|path| path.as_os_str() != Self::NONE)
    }

    /// True if no configuration is to be read.
    pub(crate) fn is_none(&self) -> bool {
        self.config.as_deref().is_some_and(|path| path.as_os_str() == Self::NONE)
    }
}

/// Limits on reading.
#[derive(Debug, Default, Args)]
pub(crate) struct InputArguments {
    /// Refuse compressed input that expands to more than SIZE [default: 100 times the file, at least 64MiB]
    #[arg(long, value_parser = parse_size, value_name = "SIZE", allow_hyphen_values = true)]
    max_input: Option<u64>,
}

impl InputArguments {
    /// The options by which a file is read. The configuration supplies whatever the command line omits.
    pub(crate) fn reading(&self, config: &Config) -> profile::ReadOptions {
        profile::ReadOptions {
            max_input: self.max_input,
            allocator_settings: config.allocator_settings.clone(),
            ..profile::ReadOptions::default()
        }
    }
}
