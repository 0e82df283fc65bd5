//! Options that a command does not use with the other arguments: refused.

use anyhow::{Result, bail};

/// Refuses an option that has no effect.
pub(crate) fn refuse(option: &str, because: &str) -> Result<()> {
    bail!("{option}: not used, because {because}; leave it out")
}
