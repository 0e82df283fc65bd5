//! Finding and reading the configuration, and what day it is.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use std::{env, fs, io};

use anyhow::{Context, Result, anyhow};
use ptmem::verdict::Day;
use ptmem::verdict::config::Config;

use super::args::ConfigArguments;

/// Where a configuration is looked for, from the working directory; the first that exists counts.
const PLACES: [&str; 2] = ["ptmem.toml", ".github/ptmem.toml"];

/// The configuration that was asked for, or that is there.
pub(super) fn load(arguments: &ConfigArguments) -> Result<Config> {
    if arguments.no_config {
        return Ok(Config::default());
    }
    let found = PLACES.iter().map(PathBuf::from).find(|path| path.is_file());
    let Some(path) = arguments.config.clone().or(found) else { return Ok(Config::default()) };
    let name = path.display().to_string();
    let text = read(&path).with_context(|| name.clone())?;
    Config::parse(&text).with_context(|| name)
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => anyhow!("no such file; expected a configuration such as ptmem.toml"),
        io::ErrorKind::InvalidData => anyhow!("is no text; expected a configuration such as ptmem.toml"),
        _ => anyhow!("cannot be read: {error}"),
    })
}

/// The day in UTC; `SOURCE_DATE_EPOCH` stands in for the clock where runs have to be repeatable.
pub(super) fn today() -> Day {
    let asked = env::var("SOURCE_DATE_EPOCH").ok().and_then(|text| text.parse().ok());
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    Day::of_unix_time(asked.unwrap_or_else(now))
}
