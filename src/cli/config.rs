//! Finding and reading the configuration, and what day it is.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use std::{env, io};

use anyhow::{Context, Result, anyhow, bail};
use ptmem::config::Config;
use ptmem::report::Acceptance;
use ptmem::units::Size;
use ptmem::verdict::Day;

use super::args::ConfigArguments;
use super::git::Base;
use super::place::StartFolder;
use super::{checkout, input};

/// Places of the configuration in a folder; the first that exists counts.
pub(crate) const PLACES: [&str; 2] = ["ptmem.toml", ".github/ptmem.toml"];

/// Days for which a report proposes to accept growth.
const ACCEPTED_DAYS: u32 = 14;

/// A configuration, and the folder that its paths begin at.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    pub(crate) config: Config,
    /// Empty for the working directory.
    pub(crate) folder: PathBuf,
    /// The file and its text, if there is one.
    pub(crate) file: Option<(PathBuf, String)>,
}

impl Loaded {
    /// How reports propose to accept growth, where the configuration wants that.
    pub(super) fn acceptance(&self) -> Result<Option<Acceptance>> {
        let acceptance = Acceptance { commands: Vec::new(), expires: today()?.after(ACCEPTED_DAYS), label: None };
        Ok((!self.config.accepts_nothing).then_some(acceptance))
    }

    /// The name of the file, or words for none.
    pub(crate) fn name(&self) -> String {
        self.file.as_ref().map_or_else(|| "no ptmem.toml".to_owned(), |(path, _)| path.display().to_string())
    }
}

/// A file with a configuration.
struct FoundConfig {
    path: PathBuf,
    text: String,
    /// The folder that its paths begin at.
    folder: PathBuf,
    /// The folder that it is about.
    around: PathBuf,
}

impl FoundConfig {
    /// One that an option names.
    fn named(path: &Path, text: String) -> Self {
        let around = path.parent().map(Path::to_owned).unwrap_or_default();
        Self { path: path.to_owned(), text, folder: PathBuf::new(), around }
    }
}

/// The files among which a configuration is looked for.
enum SearchedFiles<'b> {
    Checkout(&'b StartFolder),
    Base(&'b Base),
}

impl SearchedFiles<'_> {
    /// The folders from the working directory up to the root of the repository.
    fn depth(&self) -> usize {
        match self {
            Self::Checkout(place) => {
                let own = place.whole().unwrap_or_default();
                own.ancestors().position(|folder| folder.join(".git").exists()).unwrap_or(0)
            }
            Self::Base(base) => {
                let below = base.path_below_root(Path::new("")).unwrap_or_default();
                Path::new(&below).components().count()
            }
        }
    }

    /// The text of a file; `None` if it does not exist.
    fn read(&self, path: &Path) -> Result<Option<String>> {
        match self {
            // One that is there but cannot be read is an error, not a gate without limits.
            Self::Checkout(place) => {
                let path = place.path(path);
                path.symlink_metadata().is_ok().then(|| read(&path)).transpose()
            }
            Self::Base(base) => {
                let Some(path) = base.path_below_root(path) else { return Ok(None) };
                base.read(&path)?.map(text_of).transpose()
            }
        }
    }

    /// The nearest configuration: in the working directory, otherwise in a folder above it, up to the root of the
    /// repository.
    fn find(&self) -> Result<Option<FoundConfig>> {
        for steps in 0..=self.depth() {
            let folder: PathBuf = std::iter::repeat_n("..", steps).collect();
            for place in PLACES {
                let path = folder.join(place);
                if let Some(text) = self.read(&path).with_context(|| path.display().to_string())? {
                    // The folder of `.github/ptmem.toml` is the one above.
                    return Ok(Some(FoundConfig { path, text, around: folder.clone(), folder }));
                }
            }
        }
        Ok(None)
    }
}

/// The requested configuration, or the nearest one that is there.
pub(crate) fn load(arguments: &ConfigArguments) -> Result<Config> {
    Ok(load_at(&StartFolder::here(), arguments)?.config)
}

/// The requested configuration, or the nearest one of a place, with its folder.
pub(crate) fn load_at(place: &StartFolder, arguments: &ConfigArguments) -> Result<Loaded> {
    match arguments.file() {
        None if arguments.is_none() => parse(place, None),
        Some(path) => {
            let text = read(path).with_context(|| path.display().to_string())?;
            parse(place, Some(FoundConfig::named(path, text)))
        }
        None => parse(place, SearchedFiles::Checkout(place).find()?),
    }
}

/// The configuration of the base: the same options, the same working directory, the same search.
pub(crate) fn load_of_base(base: &Base, place: &StartFolder, arguments: &ConfigArguments) -> Result<Loaded> {
    if arguments.is_none() {
        return load_at(place, arguments);
    }
    let tree = SearchedFiles::Base(base);
    let found = match arguments.file() {
        None => tree.find()?,
        // No change of the repository can change a file outside of it.
        Some(path) => match base.path_below_root(path) {
            None => return load_at(place, arguments),
            Some(below) => match named_in_base(base, &below)? {
                Some(text) => Some(FoundConfig::named(path, text)),
                // The base may have had it in its usual place.
                None => Some(tree.find()?.with_context(|| format!("it has no {}", path.display()))?),
            },
        },
    };
    parse(place, found)
}

/// The text that a file of the checkout has at the base, maybe under another name.
fn named_in_base(base: &Base, path: &str) -> Result<Option<String>> {
    let bytes = match base.read(path)? {
        Some(bytes) => Some(bytes),
        None => base.former_path(path)?.map(|former| base.read(&former)).transpose()?.flatten(),
    };
    bytes.map(text_of).transpose()
}

fn parse(place: &StartFolder, found: Option<FoundConfig>) -> Result<Loaded> {
    let Some(FoundConfig { path, text, folder, around }) = found else {
        let mut none = Loaded::default();
        none.config.rules.checkout = checkout::current(place, None);
        return Ok(none);
    };
    let mut config = Config::parse(&text).with_context(|| path.display().to_string())?;
    config.rules.checkout = checkout::current(place, Some(place.path(".").join(around)));
    Ok(Loaded { config, folder, file: Some((path, text)) })
}

/// The largest configuration that is read.
const LARGEST: u64 = 1 << 20;

fn read(path: &Path) -> Result<String> {
    let mut bytes = Vec::new();
    // One byte more than may be there.
    let found = File::open(path).and_then(|file| file.take(LARGEST + 1).read_to_end(&mut bytes));
    found.map_err(|error| match error.kind() {
        io::ErrorKind::IsADirectory => anyhow!("is a directory; expected a configuration such as ptmem.toml"),
        io::ErrorKind::NotFound => {
            anyhow!("no such file; expected a configuration such as ptmem.toml{}", input::near(path))
        }
        _ => anyhow!("cannot be read: {error}"),
    })?;
    text_of(bytes)
}

fn text_of(bytes: Vec<u8>) -> Result<String> {
    if bytes.len() as u64 > LARGEST {
        bail!("is larger than {}; expected a configuration such as ptmem.toml", Size(LARGEST));
    }
    String::from_utf8(bytes).map_err(|_| anyhow!("is not text; expected a configuration such as ptmem.toml"))
}

/// The day in UTC; `PTMEM_TODAY` replaces the clock for repeatable runs. (Not `SOURCE_DATE_EPOCH`, which some build
/// environments set to a past day: expired growth must not be accepted again.)
pub(crate) fn today() -> Result<Day> {
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
