//! Finding and reading the configuration, and what day it is.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use std::{env, fs, io};

use anyhow::{Context, Result, anyhow};
use ptmem::config::Config;
use ptmem::verdict::Day;

use super::args::ConfigArguments;

/// Where a configuration is looked for, from the working directory; the first that exists counts.
const PLACES: [&str; 2] = ["ptmem.toml", ".github/ptmem.toml"];

/// The configuration that was asked for, or that is there.
pub(super) fn load(arguments: &ConfigArguments) -> Result<Config> {
    if arguments.no_config {
        return Ok(Config::default());
    }
    // One that is there but cannot be read is an error, not a gate without limits.
    let found = PLACES.iter().map(PathBuf::from).find(|path| path.symlink_metadata().is_ok());
    let Some(path) = arguments.config.clone().or(found) else { return Ok(Config::default()) };
    let name = path.display().to_string();
    let text = read(&path).with_context(|| name.clone())?;
    Config::parse(&text).with_context(|| name)
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(|error| match error.kind() {
        io::ErrorKind::IsADirectory => anyhow!("is a directory; expected a configuration such as ptmem.toml"),
        io::ErrorKind::NotFound => anyhow!("no such file; expected a configuration such as ptmem.toml"),
        io::ErrorKind::InvalidData => anyhow!("is not text; expected a configuration such as ptmem.toml"),
        _ => anyhow!("cannot be read: {error}"),
    })
}

/// The day in UTC; `PTMEM_TODAY` stands in for the clock where runs have to be repeatable. (Not `SOURCE_DATE_EPOCH`,
/// which some build environments set to a day long gone: what has expired must not come back by that.)
pub(super) fn today() -> Result<Day> {
    match env::var("PTMEM_TODAY") {
        Ok(text) => {
            text.parse().map_err(|()| anyhow!("PTMEM_TODAY: invalid date '{text}'; expected one such as 2026-12-31"))
        }
        Err(_) => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH);
            Ok(Day::of_unix_time(now.map_or(0, |since| since.as_secs())))
        }
    }
}
