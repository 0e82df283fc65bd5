//! The versions of a file in a git repository, as `git` lists them.

use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use ptmem::history::{Commit, Point};
use ptmem::profile;

use super::Series;
use crate::cli::git;
use crate::cli::output::folder_of;

/// The trailer by which a commit that only keeps a profile names the commit that was recorded.
const RECORDED: &str = "Recorded-commit";

/// A version of the file.
struct Version {
    /// The commit that has it.
    hash: String,
    /// The commit whose profile it is.
    recorded: Commit,
}

/// Digits of a hash that name a commit.
const SHORT: usize = 10;

/// Reads the latest versions of a file, the oldest first.
pub(super) fn read(path: &Path, last: usize, reading: &profile::Options) -> Result<Series> {
    let name = path.display();
    let file = path.file_name().and_then(|file| file.to_str());
    let file = file.ok_or_else(|| anyhow!("{name}: has no name that git could look for; expected a file"))?;
    let folder = folder_of(path);
    let mut commits = commits(folder, file)?;
    if commits.is_empty() {
        bail!("{name}: no commit has this file; expected a profile that is stored in a git repository");
    }
    commits.drain(..commits.len().saturating_sub(last));
    let mut series = Series::default();
    for Version { hash, recorded } in commits {
        let short = recorded.hash.get(..SHORT).unwrap_or(&recorded.hash).to_owned();
        let profile = git::output(&mut git::git(Some(folder)), &["cat-file", "blob", &format!("{hash}:./{file}")])
            .and_then(|bytes| {
                profile::read(&*bytes, &format!("{short}:{file}"), reading.clone()).map_err(anyhow::Error::from)
            });
        series.add(Point { name: short, commit: Some(recorded) }, profile, false)?;
    }
    Ok(series)
}

/// The commits that changed a file, the oldest first.
fn commits(folder: &Path, file: &str) -> Result<Vec<Version>> {
    // Fields are separated by what no message can hold, and commits by zeros.
    let format = format!("--format=%H%x1f%(trailers:key={RECORDED},valueonly,separator=%x20)%x1f%ct%x1f%s");
    let listed = git::output(&mut git::git(Some(folder)), &["log", "-z", "--reverse", &format, "--", file])?;
    let listed = String::from_utf8_lossy(&listed);
    listed.split('\0').filter(|entry| !entry.trim().is_empty()).map(commit).collect()
}

fn commit(entry: &str) -> Result<Version> {
    let fields: Vec<&str> = entry.trim().splitn(4, '\u{1f}').collect();
    let &[hash, trailer, time, subject] = &fields[..] else { bail!("git log: unexpected entry '{entry}'") };
    let time = time.parse().with_context(|| format!("git log: unexpected time in '{entry}'"))?;
    let is_named = trailer.len() >= SHORT && trailer.chars().all(|digit| digit.is_ascii_hexdigit());
    let recorded = if is_named { trailer } else { hash }.to_owned();
    Ok(Version { hash: hash.to_owned(), recorded: Commit { hash: recorded, time, subject: subject.to_owned() } })
}
