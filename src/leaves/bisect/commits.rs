//! Commits in the order in which git bisects them, each in a worktree.

use std::ffi::OsString;
use std::fmt::{self, Display};
use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, anyhow, bail};
use ptmem::patch::Edit;
use ptmem::sides::Sides;

use super::{FoundChange, Recordable, named};
use crate::cli::checkout::own_packages;
use crate::cli::git::{self, Repository, git};
use crate::cli::output;
use crate::cli::place::StartFolder;
use crate::cli::recorder::tree::Worktree;
use crate::cli::recorder::{Attempt, Candidate, Failure, InProgress, Made, Program, Recorder};
use crate::leaves::search::{Answer, Asked, Candidates};

/// The worktree in which commits are recorded.
pub(super) const TREE: &str = "tree";

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
        let Repository { root, below } = Repository::find(&StartFolder::here()).with_context(|| range.to_owned())?;
        let [good, bad] = [good, bad].map(|name| commit(&root, if name.is_empty() { "HEAD" } else { name }));
        let commits = Self { root, below, good: good?, bad: bad? };
        let ends = [&*commits.good.hash, &*commits.bad.hash];
        if ends[0] == ends[1] {
            bail!("{range}: both ends are {}; give an older commit first", commits.good);
        }
        if commits.run(&["merge-base", "--is-ancestor", ends[0], ends[1]]).is_err() {
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

    /// The worktree in which commits are recorded.
    pub(super) fn tree(&self, recorder: &Recorder) -> Worktree<'_> {
        Worktree::at(&self.root, recorder.place(TREE))
    }

    /// Checks a commit out in the worktree, and gives the folder in it that is the working directory here.
    pub(super) fn check_out(&self, commit: &Commit, recorder: &Recorder) -> Result<PathBuf> {
        let tree = self.tree(recorder);
        tree.check_out(&commit.hash)?;
        let folder = tree.path.join(&self.below);
        if folder.is_dir() { Ok(folder) } else { Err(anyhow!("it has no folder {}", self.below.display())) }
    }

    /// The words of a command in another worktree: a program that git does not know, such as that of a virtual environment,
    /// stays where it is. Refuses the absolute path of a file that git knows: all commits would be recorded with that one.
    pub(super) fn command(&self, words: &[OsString]) -> Result<Vec<OsString>> {
        for word in words {
            let word = word.to_string_lossy();
            let mut paths = word.split(|character: char| character.is_whitespace() || "='\";:,".contains(character));
            if let Some(path) = paths.find(|path| self.is_of_checkout(Path::new(path))) {
                bail!("{path}: is of the checkout, which all commits would read; name it by a relative path");
            }
        }
        let mut words = words.to_vec();
        if let Some(first) = words.first_mut()
            && Path::new(first).components().count() > 1
            && self.is_untracked(Path::new(first))
            && let Ok(whole) = std::path::absolute(&*first)
        {
            *first = whole.into();
        }
        Ok(words)
    }

    fn is_of_checkout(&self, path: &Path) -> bool {
        path.starts_with(&self.root) && path.exists() && !self.is_untracked(path)
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

impl Recordable for Commits {
    fn ends(&self) -> [Commit; 2] {
        [self.good.clone(), self.bad.clone()]
    }

    fn folder(one: &Commit) -> &str {
        one.short()
    }

    fn record(&self, one: &Commit, recorder: &Recorder, program: Program<'_>) -> Attempt {
        match self.check_out(one, recorder) {
            Ok(folder) => record_in(&folder, one.short(), recorder, program),
            Err(error) => Ok(Err(Failure::Candidate(format!("{error:#}")))),
        }
    }

    fn show(&self, found: &FoundChange<Commit>, recorder: &Recorder) -> Result<Option<String>> {
        self.check_out(&found.bad, recorder)?;
        Ok(Some(found.before.hash.clone()))
    }

    fn without(
        &self,
        found: &FoundChange<Commit>,
        edit: &Edit,
        is_alone: bool,
        recorder: &Recorder,
        program: Program<'_>,
    ) -> Result<Option<Made>> {
        let (Some(former), Some(path)) = (&edit.path.before, &edit.path.after) else { return Ok(None) };
        let file = recorder.place(TREE).join(path);
        let folder = self.check_out(&found.bad, recorder)?;
        // Of an archive or a submodule nothing is undone.
        let Ok(new) = fs::read_to_string(&file) else { return Ok(None) };
        let old = self.text(&found.before, former)?;
        let alone = edit.undone(Sides { before: &old, after: &new });
        let text = if is_alone { alone } else { Some(old).filter(|old| alone.as_ref() != Some(old)) };
        let Some(text) = text else { return Ok(None) };
        let mut key = DefaultHasher::new();
        text.hash(&mut key);
        let name = format!("{}-without-{:016x}", found.bad.short(), key.finish());
        if let Some(kept) = recorder.kept(&name) {
            return Ok(Some(Ok(kept)));
        }
        let taken = if is_alone { named(edit) } else { format!("any edit of {path}") };
        output::print_note(&format!("{} without {taken}", found.bad));
        fs::write(&file, text).with_context(|| format!("{}: cannot be written", file.display()))?;
        let recorded = record_in(&folder, &name, recorder, program);
        fs::write(&file, new).with_context(|| format!("{}: cannot be written", file.display()))?;
        recorded.map(Some)
    }

    fn found(&self, asked: &Asked<Commit>) -> Result<FoundChange<Commit>> {
        let mut left = self.left(asked)?;
        let bad = commit(&self.root, &left.pop().context("git lists no commit")?)?;
        let unknown = left.iter().map(|hash| commit(&self.root, hash)).collect::<Result<Vec<_>>>()?;
        let mut good = asked.iter().rev().filter(|(_, answer)| *answer == Answer::Good).map(|(commit, _)| commit);
        let before = if unknown.is_empty() {
            // The parent that is known to be good, otherwise the first.
            let parents = self.run(&["rev-parse", &format!("{}^@", bad.hash)])?;
            let known = parents.lines().find(|hash| good.clone().any(|commit| commit.hash == **hash));
            commit(&self.root, known.or_else(|| parents.lines().next()).unwrap_or(&self.good.hash))?
        } else {
            let last = good.find(|good| self.run(&["merge-base", "--is-ancestor", &good.hash, &bad.hash]).is_ok());
            last.unwrap_or(&self.good).clone()
        };
        Ok(FoundChange { bad, before, unknown })
    }
}

/// Records a command in a folder of the worktree.
fn record_in(folder: &Path, name: &str, recorder: &Recorder, program: Program<'_>) -> Attempt {
    // The packages of this commit, whatever the environment has installed from the checkout.
    let variables = [own_packages(&recorder.place(TREE))?];
    recorder.record(name, &Candidate::new(program, folder, &variables), &InProgress::new(name))
}

impl Candidates for Commits {
    type One = Commit;

    fn next(&self, asked: &Asked<Commit>) -> Result<Option<(Commit, u64)>> {
        let mut left = self.left(asked)?;
        left.pop();
        left.retain(|hash| !asked.iter().any(|(commit, _)| commit.hash == *hash));
        left.first().map(|hash| Ok((commit(&self.root, hash)?, left.len() as u64))).transpose()
    }
}
