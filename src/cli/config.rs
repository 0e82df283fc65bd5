//! Finding and reading the configuration, and what day it is.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use std::{env, fs, io};

use anyhow::{Context, Result, anyhow, bail};
use ptmem::config::Config;
use ptmem::units::Size;
use ptmem::verdict::Day;

use super::args::ConfigArguments;
use super::checkout;

/// Places of the configuration in a folder; the first that exists counts.
pub(super) const PLACES: [&str; 2] = ["ptmem.toml", ".github/ptmem.toml"];

/// A configuration, and the folder that its paths begin at.
#[derive(Debug, Default)]
pub(super) struct Loaded {
    pub(super) config: Config,
    /// Empty for the working directory.
    pub(super) folder: PathBuf,
    /// The file; none where there is none.
    pub(super) path: Option<PathBuf>,
}

/// The configuration that was asked for, or the nearest one that is there.
pub(super) fn load(arguments: &ConfigArguments) -> Result<Config> {
    Ok(load_with_folder(arguments)?.config)
}

/// The same, with its folder.
pub(super) fn load_with_folder(arguments: &ConfigArguments) -> Result<Loaded> {
    let found = match &arguments.config {
        _ if arguments.no_config => None,
        Some(path) => Some((path.clone(), PathBuf::new())),
        None => find(),
    };
    let Some((path, folder)) = found else {
        let mut none = Loaded::default();
        none.config.rules.checkout = checkout::current(None);
        return Ok(none);
    };
    let name = path.display().to_string();
    let text = read(&path).with_context(|| name.clone())?;
    let mut config = Config::parse(&text).with_context(|| name)?;
    // The folder of `.github/ptmem.toml` is the one above.
    let around = if arguments.config.is_some() { path.parent() } else { Some(folder.as_path()) };
    config.rules.checkout = checkout::current(around.map(|folder| Path::new(".").join(folder)));
    Ok(Loaded { config, folder, path: Some(path) })
}

/// The nearest configuration and its folder: in the working directory, else in a folder above it, up to the root of the
/// repository.
fn find() -> Option<(PathBuf, PathBuf)> {
    let here = env::current_dir().unwrap_or_default();
    let depth = here.ancestors().position(|folder| folder.join(".git").exists()).unwrap_or(0);
    (0..=depth).find_map(|steps| {
        let folder: PathBuf = std::iter::repeat_n("..", steps).collect();
        // One that is there but cannot be read is an error, not a gate without limits.
        let path = PLACES.iter().map(|place| folder.join(place)).find(|path| path.symlink_metadata().is_ok())?;
        Some((path, folder))
    })
}

/// The largest configuration that is read.
const LARGEST: u64 = 1 << 20;

fn read(path: &Path) -> Result<String> {
    if fs::metadata(path).is_ok_and(|there| there.len() > LARGEST) {
        bail!("is larger than {}; expected a configuration such as ptmem.toml", Size(LARGEST));
    }
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
            text.parse().map_err(|_| anyhow!("PTMEM_TODAY: invalid date '{text}'; expected one such as 2026-12-31"))
        }
        Err(_) => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH);
            Ok(Day::of_unix_time(now.map_or(0, |since| since.as_secs())))
        }
    }
}
