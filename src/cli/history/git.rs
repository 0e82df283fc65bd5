//! The versions of a file in a git repository, as `git` lists them.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, anyhow, bail};
use ptmem::history::{Commit, Point};
use ptmem::profile;

use super::Series;

/// Digits of a hash that name a commit.
const SHORT: usize = 10;

/// Reads the latest versions of a file, the oldest first.
pub(super) fn read(path: &Path, last: usize, reading: &profile::Options) -> Result<Series> {
    let name = path.display();
    let file = path.file_name().and_then(|file| file.to_str());
    let file = file.ok_or_else(|| anyhow!("{name}: has no name that git could look for; expected a file"))?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut commits = commits(folder, file)?;
    if commits.is_empty() {
        bail!("{name}: no commit has this file; expected a profile that is stored in a git repository");
    }
    commits.drain(..commits.len().saturating_sub(last));
    let mut series = Series::default();
    for commit in commits {
        let short = commit.hash.get(..SHORT).unwrap_or(&commit.hash).to_owned();
        let version = format!("{}:./{file}", commit.hash);
        let profile = git(folder, &["show", &version]).and_then(|bytes| {
            profile::read(&*bytes, &format!("{short}:{file}"), reading.clone()).map_err(anyhow::Error::from)
        });
        series.add(Point { name: short, commit: Some(commit) }, profile, false)?;
    }
    Ok(series)
}

/// The commits that changed a file, the oldest first.
fn commits(folder: &Path, file: &str) -> Result<Vec<Commit>> {
    // Fields are separated by what no message can hold, and commits by zeros.
    let format = "--format=%H%x1f%ct%x1f%s";
    let listed = git(folder, &["log", "-z", "--reverse", format, "--", file])?;
    let listed = String::from_utf8_lossy(&listed);
    listed.split('\0').filter(|entry| !entry.trim().is_empty()).map(commit).collect()
}

fn commit(entry: &str) -> Result<Commit> {
    let fields: Vec<&str> = entry.trim().splitn(3, '\u{1f}').collect();
    let &[hash, time, subject] = &fields[..] else { bail!("git log: unexpected entry '{entry}'") };
    let time = time.parse().with_context(|| format!("git log: unexpected time in '{entry}'"))?;
    Ok(Commit { hash: hash.to_owned(), time, subject: subject.to_owned() })
}

/// The output of a command of git.
fn git(folder: &Path, arguments: &[&str]) -> Result<Vec<u8>> {
    let mut command = Command::new("git");
    // The user's configuration may ask for signatures or quoted paths.
    command.arg("-C").arg(folder).args(["-c", "log.showSignature=false", "-c", "core.quotePath=false"]);
    let output = command.args(arguments).output().context("git: cannot be run; --git needs it")?;
    if !output.status.success() {
        let error = String::from_utf8_lossy(&output.stderr);
        let first = error.lines().next().unwrap_or("failed without a word");
        bail!("git {}: {first}", arguments.first().copied().unwrap_or_default());
    }
    Ok(output.stdout)
}
