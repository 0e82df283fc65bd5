//! Asks git about a checkout: its commits, the files that a change touches, and their committed text.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Error, Result, anyhow, bail};
use ptmem::sides::Sides;

use super::LARGEST_FILE;
use super::kinds::may_matter;
use super::objects::Objects;
use super::program::{commit, git, is_range, output, text};
use crate::cli::checkout;
use crate::cli::place::StartFolder;

/// What a user can do where a partial clone lacks something.
const REMEDY: &str = "this is a partial clone: if you trust its remotes, set GIT_NO_LAZY_FETCH=0";

/// Whether the repository around a folder may lack objects, which git fetches from a remote.
fn is_partial(folder: &Path) -> bool {
    text(&mut git(Some(folder)), &["config", "--get-regexp", "^remote\\..*\\.promisor$"]).is_ok()
}

/// Requires that a partial clone does not lack the file of a commit, as in `main:train.py`. Git knows the hash of one that
/// it lacks.
pub(crate) fn require_object(folder: &Path, file: &str) -> Result<()> {
    let is_known = || text(&mut git(Some(folder)), &["rev-parse", "--verify", "--end-of-options", file]).is_ok();
    if is_partial(folder) && output(&mut git(Some(folder)), &["cat-file", "-e", file]).is_err() && is_known() {
        bail!("git lacks {file}; {REMEDY}");
    }
    Ok(())
}

/// The repository around a place.
pub(crate) struct Repository {
    pub(crate) root: PathBuf,
    /// The folder of the place, from the root.
    pub(crate) below: PathBuf,
}

impl Repository {
    pub(crate) fn find(place: &StartFolder) -> Result<Self> {
        let asked = |what: &str| text(&mut place.git(), &["rev-parse", what]).map(PathBuf::from);
        match asked("--show-toplevel") {
            Ok(root) => Ok(Self { root, below: asked("--show-prefix")? }),
            Err(error) if checkout::repository(place).is_some() || error.is::<io::Error>() => Err(error),
            Err(_) => bail!("the working directory is in no Git repository; run this in the checkout of the code"),
        }
    }

    pub(crate) fn git(&self) -> Command {
        git(Some(&self.root))
    }

    /// The commit in which the history of the checkout and that of `base` part.
    pub(crate) fn merge_base(&self, base: &str) -> Result<String> {
        let commit = match commit(&mut self.git(), base) {
            Some(commit) => commit,
            None if is_range(base) => {
                bail!("--git {base}: a range of commits; expected the commit or the branch of the before")
            }
            None => bail!(
                "--git {base}: there is no such commit, branch or tag here; a shallow clone may lack it (with \
                 actions/checkout set fetch-depth: 0)"
            ),
        };
        text(&mut self.git(), &["merge-base", &commit, "HEAD"]).map_err(|_| {
            anyhow!(
                "--git {base}: shares no commit with the checkout as far as its history is here; a shallow clone lacks \
                 the rest (with actions/checkout set fetch-depth: 0)"
            )
        })
    }

    /// Lets git start no program that the configuration names for files of some kind: it would filter those of the checkout.
    fn without_filters(&self, command: &mut Command) {
        let keys = "^filter\\..*\\.(clean|process|required)$";
        // It fails where there is none.
        let names =
            text(&mut self.git(), &["config", "--null", "--name-only", "--get-regexp", keys]).unwrap_or_default();
        let mut count = env::var("GIT_CONFIG_COUNT").ok().and_then(|count| count.parse().ok()).unwrap_or(0);
        for name in names.split('\0').filter(|name| !name.is_empty()) {
            let value = if name.ends_with(".required") { "false" } else { "" };
            command.env(format!("GIT_CONFIG_KEY_{count}"), name).env(format!("GIT_CONFIG_VALUE_{count}"), value);
            count += 1_usize;
        }
        command.env("GIT_CONFIG_COUNT", count.to_string());
    }

    /// The error with its remedy, if git lacks objects because it may not fetch them.
    fn explained(&self, error: Error) -> Error {
        if is_partial(&self.root) { anyhow!("{error}; {REMEDY}") } else { error }
    }

    /// Requires that git has the text of each of these files at a commit, without those of which it is known.
    pub(super) fn require_texts<'p>(
        &self,
        commit: &str,
        paths: impl Iterator<Item = &'p str>,
        known: &BTreeMap<&str, String>,
    ) -> Result<()> {
        for path in paths.filter(|path| !known.contains_key(path)) {
            require_object(&self.root, &format!("{commit}:{path}"))?;
        }
        Ok(())
    }

    /// The files that git knows and that differ from a commit in another one, or in the checkout, by their paths on both sides,
    /// without what git is to ignore of submodules.
    pub(crate) fn changes(&self, base: &str, after: Option<&str>, ignored: &str) -> Result<Vec<Sides<Option<String>>>> {
        let mut command = self.git();
        self.without_filters(&mut command);
        let ignored = format!("--ignore-submodules={ignored}");
        let form = "diff --no-ext-diff --name-status -z --find-renames";
        let arguments: Vec<&str> = form.split(' ').chain([&*ignored, base]).chain(after).chain(["--"]).collect();
        let listed = text(&mut command, &arguments).map_err(|error| self.explained(error))?;
        let mut fields = listed.split('\0').map(str::to_owned);
        let mut changes = Vec::new();
        while let (Some(status), Some(path)) = (fields.next(), fields.next()) {
            changes.push(match status.as_bytes().first() {
                Some(b'A') => Sides { before: None, after: Some(path) },
                Some(b'D') => Sides { before: Some(path), after: None },
                Some(b'R') => Sides { before: Some(path), after: fields.next() },
                _ => Sides { before: Some(path.clone()), after: Some(path) },
            });
        }
        Ok(changes)
    }

    /// The files and submodules that differ from a commit in another one, without documentation; where that is none, in the
    /// checkout, with Python files that git does not know yet.
    pub(crate) fn changes_that_matter(&self, base: &str, after: Option<&str>) -> Result<Vec<Sides<Option<String>>>> {
        // What a submodule has checked out is compared, without a look at its files.
        let mut changes = self.changes(base, after, "dirty")?;
        if after.is_none() {
            changes.extend(self.untracked()?.into_iter().map(|path| Sides { before: None, after: Some(path) }));
        }
        changes.retain(|paths| paths.after.as_ref().or(paths.before.as_ref()).is_some_and(|path| may_matter(path)));
        Ok(changes)
    }

    /// Whether git knows no file of the checkout that differs from a commit, and no Python file is new.
    pub(crate) fn is_unchanged_since(&self, commit: &str) -> Result<bool> {
        Ok(self.changes(commit, None, "dirty")?.is_empty() && self.untracked()?.is_empty())
    }

    /// The Python files that git does not know yet, and does not ignore.
    fn untracked(&self) -> Result<Vec<String>> {
        let untracked = ["ls-files", "--others", "--exclude-standard", "-z", "--", ":(glob)**/*.py"];
        let untracked = text(&mut self.git(), &untracked)?;
        let tracked = text(&mut self.git(), &["ls-files", "-z", "--", ":(glob)**/*.py"])?;
        let tracked: BTreeSet<&str> = tracked.split('\0').collect();
        let untracked = untracked.split('\0').filter(|path| !path.is_empty() && !checkout::is_copy(path, &tracked));
        Ok(untracked.map(str::to_owned).collect())
    }

    /// The texts of files at a commit, by their paths from the root of the checkout.
    pub(crate) fn texts_at<'p>(
        &self,
        commit: &str,
        paths: impl Iterator<Item = &'p str>,
    ) -> Result<BTreeMap<&'p str, String>> {
        let mut objects = Objects::open(&mut self.git(), &[])?;
        let mut texts = BTreeMap::new();
        for path in paths {
            let object = objects.read(&format!("{commit}:{path}"), LARGEST_FILE)?;
            if let Some(bytes) = object.and_then(|object| object.bytes) {
                texts.insert(path, String::from_utf8_lossy(&bytes).into_owned());
            }
        }
        Ok(texts)
    }
}
