//! Files to read, and how.

use std::path::{Path, PathBuf};

use clap::Args;

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
