//! Commits in the order in which git bisects them, each in a worktree.

use std::ffi::OsString;
use std::fmt::{self, Display};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, anyhow, bail};

use super::super::git::{self, git};
use super::{Answer, Asked, Candidates};

/// A commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Commit {
    pub(super) hash: String,
    /// Its first line.
    subject: String,
}

impl Display for Commit {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} \"{}\"", self.short(), self.subject)
    }
}

impl Commit {
    /// Enough of the hash to name it.
    pub(super) fn short(&self) -> &str {
        self.hash.get(..12).unwrap_or(&self.hash)
    }
}

/// The commits between a good one and a bad one.
pub(super) struct Commits {
    /// The root of the checkout, and the working directory below it.
    root: PathBuf,
    below: PathBuf,
    pub(super) good: Commit,
    pub(super) bad: Commit,
}

impl Commits {
    /// The commits that `GOOD..BAD` names.
    pub(super) fn of(range: &str) -> Result<Self> {
        let (good, bad) = range.split_once("..").with_context(|| {
            format!(
                "{range}: is neither a range nor a snapshot; expected commits such as v1.2..HEAD, releases such as \
                 'transformers==4.36..4.40', or the recording of a good commit"
            )
        })?;
        let [root, below] = ["--show-toplevel", "--show-prefix"]
            .map(|what| git::text(&mut git(None), &["rev-parse", what]).map(PathBuf::from));
        let [root, below] = [root?, below?];
        let [good, bad] = [good, bad].map(|name| commit(&root, if name.is_empty() { "HEAD" } else { name }));
        let commits = Self { root, below, good: good?, bad: bad? };
        let ends = [&*commits.good.hash, &*commits.bad.hash];
        if commits.run(&["merge-base", "--is-ancestor", ends[0], ends[1]]).is_err() || ends[0] == ends[1] {
            bail!("{range}: {} is not an ancestor of {}; give the older commit first", commits.good, commits.bad);
        }
        Ok(commits)
    }

    fn run(&self, arguments: &[&str]) -> Result<String> {
        git::text(&mut git(Some(&self.root)), arguments)
    }

    /// The text of a file at a commit.
    pub(super) fn text(&self, commit: &Commit, path: &str) -> Result<String> {
        let name = format!("{}:{path}", commit.hash);
        Ok(String::from_utf8(git::output(&mut git(Some(&self.root)), &["cat-file", "blob", &name])?)?)
    }

    /// Those that may be the first bad one, the one that halves them first, and in the end the bad one itself.
    fn left(&self, asked: &Asked<Commit>) -> Result<Vec<String>> {
        let bad = asked.iter().rev().find(|(_, answer)| *answer == Answer::Bad).map_or(&self.bad, |(commit, _)| commit);
        let good = asked.iter().filter(|(_, answer)| *answer == Answer::Good).map(|(commit, _)| &*commit.hash);
        let words: Vec<&str> =
            ["rev-list", "--bisect-all", &bad.hash, "--not", &self.good.hash].into_iter().chain(good).collect();
        let listed = self.run(&words)?;
        let mut left: Vec<String> =
            listed.lines().filter_map(|line| Some(line.split(' ').next()?.to_owned())).collect();
        left.retain(|hash| *hash != bad.hash);
        left.push(bad.hash.clone());
        Ok(left)
    }

    /// The first bad commit, and those before it of which it is not known.
    pub(super) fn first_bad(&self, asked: &Asked<Commit>) -> Result<(Commit, Vec<Commit>)> {
        let mut left = self.left(asked)?;
        let bad = left.pop().context("git lists no commit")?;
        let unknown = left.iter().map(|hash| commit(&self.root, hash)).collect::<Result<_>>()?;
        Ok((commit(&self.root, &bad)?, unknown))
    }

    /// The commit before one: the parent that is known to be good, otherwise the first.
    pub(super) fn parent(&self, of: &Commit, asked: &Asked<Commit>) -> Result<Commit> {
        let parents = self.run(&["rev-parse", &format!("{}^@", of.hash)])?;
        let is_good =
            |hash: &&str| asked.iter().any(|(commit, answer)| *answer == Answer::Good && commit.hash == **hash);
        let parent = parents.lines().find(is_good).or_else(|| parents.lines().next()).unwrap_or(&self.good.hash);
        commit(&self.root, parent)
    }

    /// The last commit that was found good before a bad one.
    pub(super) fn last_good(&self, bad: &Commit, asked: &Asked<Commit>) -> Commit {
        let good = asked.iter().rev().filter(|(_, answer)| *answer == Answer::Good).map(|(commit, _)| commit);
        let mut good = good.filter(|good| self.run(&["merge-base", "--is-ancestor", &good.hash, &bad.hash]).is_ok());
        good.next().unwrap_or(&self.good).clone()
    }

    /// Checks a commit out in a worktree, and gives the folder in it that is the working directory here.
    pub(super) fn check_out(&self, commit: &Commit, tree: &Path) -> Result<PathBuf> {
        let name = tree.to_string_lossy();
        let is_there = git::text(&mut git(Some(tree)), &["rev-parse", "--show-toplevel"])
            .is_ok_and(|top| fs::canonicalize(top).ok() == fs::canonicalize(tree).ok());
        if is_there {
            git::output(&mut git(Some(tree)), &["checkout", "--quiet", "--force", "--detach", &commit.hash])?;
            // Files of the run before, such as compiled Python.
            git::output(&mut git(Some(tree)), &["clean", "--quiet", "-ffdx"])?;
        } else {
            let _ = fs::remove_dir_all(tree);
            self.run(&["worktree", "add", "--quiet", "--force", "--detach", &name, &commit.hash])?;
        }
        let folder = tree.join(&self.below);
        if folder.is_dir() { Ok(folder) } else { Err(anyhow!("it has no folder {}", self.below.display())) }
    }

    /// Removes a worktree; failing to do so is not worth an error.
    pub(super) fn remove(&self, tree: &Path) {
        let _ = self.run(&["worktree", "remove", "--force", &tree.to_string_lossy()]);
    }

    /// The words of a command in another worktree: a program that git does not know, such as that of a virtual environment,
    /// stays where it is.
    pub(super) fn command(&self, words: &[OsString]) -> Vec<OsString> {
        let mut words = words.to_vec();
        if let Some(first) = words.first_mut()
            && Path::new(first).components().count() > 1
            && self.is_untracked(Path::new(first))
            && let Ok(whole) = std::path::absolute(&*first)
        {
            *first = whole.into();
        }
        words
    }

    fn is_untracked(&self, path: &Path) -> bool {
        let mut listing: Command = git(None);
        path.exists()
            && git::output(&mut listing, &["ls-files", "--error-unmatch", "--", &path.to_string_lossy()]).is_err()
    }
}

fn commit(root: &Path, name: &str) -> Result<Commit> {
    let words = ["log", "-1", "--format=%H %s", "--end-of-options", &format!("{name}^{{commit}}"), "--"];
    let found = git::text(&mut git(Some(root)), &words)
        .map_err(|_| anyhow!("{name}: there is no such commit, branch or tag here; a shallow clone may lack it"))?;
    let (hash, subject) = found.split_once(' ').unwrap_or((&found, ""));
    Ok(Commit { hash: hash.to_owned(), subject: subject.to_owned() })
}

impl Candidates for Commits {
    type One = Commit;

    fn next(&self, asked: &Asked<Commit>) -> Result<Option<(Commit, u32)>> {
        let left = self.left(asked)?;
        let known = |hash: &String| asked.iter().any(|(commit, _)| commit.hash == *hash);
        let next = left[..left.len() - 1].iter().find(|hash| !known(hash));
        let more = left.len().ilog2().saturating_sub(1);
        next.map(|hash| Ok((commit(&self.root, hash)?, more))).transpose()
    }
}
