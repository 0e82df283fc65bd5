//! Options that a command does not use with the other arguments: refused.

use anyhow::{Result, bail};

/// Refuses an option that has no effect.
pub(crate) fn refuse(option: &str, because: &str) -> Result<()> {
    bail!("{option}: not used, because {because}; leave it out")
}

/// Refuses those of several options that are given.
pub(crate) fn refuse_given(options: &[(&str, bool)], because: &str) -> Result<()> {
    let given: Vec<&str> = options.iter().filter(|(_, is_given)| *is_given).map(|(option, _)| *option).collect();
    if given.is_empty() { Ok(()) } else { refuse(&given.join(", "), because) }
}
