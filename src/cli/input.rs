//! Opening and reading snapshots.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use ptmem::diff::Sides;
use ptmem::profile::{self, Opened, Options, Profile};

use super::progress::Told;

/// Reads two snapshots, at the same time where that is asked for.
pub(super) fn profiles(before: &Path, after: &Path, options: &Options, parallel: bool) -> Result<(Profile, Profile)> {
    if !parallel {
        return Ok((profile(before, options)?, profile(after, options)?));
    }
    let read = Sides { before, after }.map_at_once(|path| profile(path, options));
    Ok((read.before?, read.after?))
}

/// Reads a snapshot, or a saved profile.
pub(super) fn open(path: &Path, options: &Options) -> Result<Opened> {
    read(path, |input, name| profile::open(input, name, options.clone()))
}

/// Reads a snapshot and computes its profile.
pub(super) fn profile(path: &Path, options: &Options) -> Result<Profile> {
    read(path, |input, name| profile::read(input, name, options.clone()))
}

fn read<T>(path: &Path, read: impl FnOnce(&mut dyn Read, &str) -> Result<T, profile::Error>) -> Result<T> {
    let name = path.display().to_string();
    if path.as_os_str() == "-" {
        return read(&mut Told::new(io::stdin().lock(), None), &name).context("standard input");
    }
    let file = file(path)?;
    let bytes = file.metadata().ok().filter(std::fs::Metadata::is_file).map(|there| there.len());
    read(&mut Told::new(file, bytes), &name).with_context(|| name)
}

/// Refuses what would compare parts of groups: a profile that does not list all stacks, grouped otherwise than it was
/// made.
pub(super) fn require_whole_groups(profile: &Profile) -> Result<()> {
    match profile.broken_groups() {
        Some(why) => bail!(
            "{}: the profile lists only the largest stacks, {why}; save it without --top and --min-bytes",
            profile.source.path
        ),
        None => Ok(()),
    }
}

fn file(path: &Path) -> Result<File> {
    let name = path.display();
    // Asked first: some systems say "no permission" when a directory is opened.
    if path.is_dir() {
        bail!("{name}: is a directory; expected a snapshot from torch.cuda.memory._dump_snapshot() or a saved profile");
    }
    File::open(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            anyhow!(
                "{name}: no such file; expected a snapshot from torch.cuda.memory._dump_snapshot() or a saved profile"
            )
        }
        io::ErrorKind::PermissionDenied => anyhow!("{name}: no permission to read the file"),
        _ => anyhow!("{name}: {error}"),
    })
}
