//! The change of the code that `--git` names, and the committed text of files, by the program git.

mod kinds;
mod objects;
mod program;
mod repository;

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use ptmem::patch::{MOST_EDITS, Patch};
use ptmem::sides::Sides;
use ptmem::units::Size;
use ptmem_base::text::thousands;

use kinds::{is_read, may_be_python};
pub(crate) use objects::{GitObject, Objects};
pub(crate) use program::{allow_fetching, commit, git, is_range, output, text};
pub(crate) use repository::{Repository, require_object};

use super::output as messages;
use super::place::{StartFolder, normal};

/// The largest file whose text is read.
const LARGEST_FILE: u64 = super::checkout::LARGEST;

/// The commit in which the history of a checkout and that of another commit part.
pub(crate) struct Base {
    place: StartFolder,
    repository: Repository,
    commit: String,
}

impl Base {
    /// The merge base with a commit, branch or tag.
    pub(crate) fn find(place: &StartFolder, name: &str) -> Result<Self> {
        let repository = Repository::find(place).context("--git")?;
        let commit = repository.merge_base(name)?;
        Ok(Self { place: place.clone(), repository, commit })
    }

    /// The path from the root of the repository; none for a file outside of it. Links of the checkout are not followed: the
    /// base need not have them.
    pub(crate) fn path_below_root(&self, path: &Path) -> Option<String> {
        let root = fs::canonicalize(&self.repository.root).ok()?;
        let own = fs::canonicalize(self.place.whole()?).ok()?;
        // The shell's name of the working directory keeps its links.
        let shell =
            env::var_os("PWD").map(PathBuf::from).filter(|shell| fs::canonicalize(shell).is_ok_and(|of| of == own));
        shell.into_iter().chain([own]).find_map(|folder| below(&root, &folder, path))
    }

    /// The bytes of a file at this commit, links within the repository resolved; `None` if it does not exist.
    pub(crate) fn read(&self, path_below_root: &str) -> Result<Option<Vec<u8>>> {
        let mut objects = Objects::open(&mut self.repository.git(), &["--follow-symlinks"])?;
        let object = objects.read(&format!("{}:{path_below_root}", self.commit), u64::MAX - 1)?;
        Ok(object.and_then(|object| object.bytes))
    }

    /// The path at this commit of a file that was changed, renamed or removed since; git may not know what took its place.
    pub(crate) fn former_path(&self, path_below_root: &str) -> Result<Option<String>> {
        let changes = self.repository.changes(&self.commit, None, "all")?;
        let is_it = |path: &Option<String>| path.as_deref() == Some(path_below_root);
        let changed = changes.iter().find(|paths| is_it(&paths.after));
        let changed = changed.or_else(|| changes.iter().find(|paths| is_it(&paths.before)));
        Ok(changed.and_then(|paths| paths.before.clone()))
    }
}

/// Whether a bisection of git is under way in the checkout.
pub(crate) fn is_bisecting() -> bool {
    text(&mut git(None), &["rev-parse", "--git-path", "BISECT_START"]).is_ok_and(|start| Path::new(&start).exists())
}

/// The path from a folder, below a root, with slashes; `None` if it is outside of the root.
fn below(root: &Path, folder: &Path, path: &Path) -> Option<String> {
    let whole = normal(&folder.join(path));
    let parts = whole.strip_prefix(root).ok()?.components().map(|part| part.as_os_str().to_string_lossy());
    Some(parts.collect::<Vec<_>>().join("/"))
}

/// Maximum bytes of changed files that are read, and the number of files read together.
const MOST_TEXT: usize = 8 << 20;
const FILES_AT_ONCE: usize = 8;

/// Reads the lines that the checkout around a place changes since the merge base with `base`. In a CI job, whose report anybody may
/// read, these are committed lines: code that ran before may have written others.
pub(crate) fn changed_lines(place: &StartFolder, base: &str) -> Result<Patch> {
    let Base { repository, commit: base, .. } = Base::find(place, base)?;
    let head = is_ci_job().then_some("HEAD");
    let changes = repository.changes_that_matter(&base, head)?;
    let is_text = |paths: &Sides<Option<String>>| {
        let path = paths.after.as_deref().or(paths.before.as_deref()).unwrap_or_default();
        // Git has the target of a link, and the checkout the lines of another file.
        is_read(path) && !repository.root.join(path).is_symlink()
    };
    let (changes, whole): (Vec<_>, Vec<_>) = changes.into_iter().partition(is_text);
    let mut patch = Patch::default();
    whole.iter().for_each(|paths| patch.add_file(paths.map(Option::as_deref)));
    let is_full = |patch: &Patch| patch.edits.len() >= whole.len() + MOST_EDITS;
    let mut left = MOST_TEXT;
    let mut read = 0;
    for part in changes.chunks(FILES_AT_ONCE) {
        if left == 0 || is_full(&patch) {
            break;
        }
        let texts = changed_texts(&repository, &base, part.iter().filter_map(|paths| paths.before.as_deref()))?;
        let of_after = part.iter().filter_map(|paths| paths.after.as_deref());
        let committed = head.map(|head| changed_texts(&repository, head, of_after)).transpose()?;
        for paths in part {
            if is_full(&patch) {
                break;
            }
            read += 1;
            let paths = paths.map(Option::as_deref);
            // A side that lacks the file has an empty text.
            let before = paths.before.map_or(Some(""), |path| texts.get(path).map(String::as_str));
            let after = paths.after.map_or(Some(String::new()), |path| match &committed {
                Some(texts) => texts.get(path).cloned(),
                None => text_of(&repository.root.join(path)),
            });
            let (Some(before), Some(after)) = (before, after) else {
                patch.add_file(paths);
                continue;
            };
            left = left.saturating_sub(before.len() + after.len());
            let texts = Sides { before, after: &*after };
            if paths.after.or(paths.before).is_some_and(may_be_python) {
                patch.add(paths, texts);
            } else {
                patch.add_configuration(paths, texts);
            }
        }
    }
    patch.leave_out_moved();
    patch.unread = changes.len() - read;
    note_unread(patch.unread, changes.len());
    Ok(patch)
}

/// The texts of changed files, without large ones. One that a partial clone lacks is an error: each line of its file would
/// count as changed.
fn changed_texts<'p>(
    repository: &Repository,
    commit: &str,
    paths: impl Iterator<Item = &'p str> + Clone,
) -> Result<BTreeMap<&'p str, String>> {
    let texts = repository.texts_at(commit, paths.clone())?;
    repository.require_texts(commit, paths, &texts)?;
    Ok(texts)
}

/// Notes how many of all changed files were not read.
fn note_unread(unread: usize, all: usize) {
    if unread > 0 {
        messages::print_note(&format!(
            "--git: {unread} of {all} changed files are not read: the files before them have {} of text, or {} edits, or more",
            Size(MOST_TEXT as u64),
            thousands(MOST_EDITS as u64)
        ));
    }
}

/// True in a job of GitHub Actions, and of others that set `CI`.
pub(crate) fn is_ci_job() -> bool {
    env::var("GITHUB_ACTIONS").or_else(|_| env::var("CI")).is_ok_and(|text| text == "true")
}

/// The texts of files at the merge base with `base`, or otherwise at the checked-out commit, by their paths from the
/// root of the checkout; `None` if git fails. Files that the commit lacks and large ones are omitted.
pub(crate) fn texts_at<'p>(
    place: &StartFolder,
    base: Option<&str>,
    paths: impl Iterator<Item = &'p str>,
) -> Option<BTreeMap<&'p str, String>> {
    let repository = Repository::find(place).ok()?;
    let commit = base.map_or(Ok("HEAD".to_owned()), |base| repository.merge_base(base));
    repository.texts_at(&commit.ok()?, paths).ok()
}

/// The same at commits that recordings state, if they are not checked out; nothing of one that git does not have.
pub(crate) fn texts_of_recordings<'p>(
    place: &StartFolder,
    commits: &BTreeSet<&str>,
    paths: impl Iterator<Item = &'p str> + Clone,
) -> Vec<BTreeMap<&'p str, String>> {
    let Ok(repository) = Repository::find(place) else { return Vec::new() };
    let head = commit(&mut repository.git(), "HEAD");
    // A recording may say anything.
    let others = commits.iter().filter(|&&name| is_hash(name) && head.as_deref() != Some(name));
    others.map(|commit| repository.texts_at(commit, paths.clone()).unwrap_or_default()).collect()
}

fn is_hash(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// True if the commit of the before follows another one, that of the after.
pub(crate) fn are_swapped(place: &StartFolder, commits: Sides<&str>) -> bool {
    let Sides { before, after } = commits;
    // A recording may say anything.
    let are_commits = is_hash(before) && is_hash(after);
    let Some(repository) = Repository::find(place).ok().filter(|_| are_commits && before != after) else {
        return false;
    };
    output(&mut repository.git(), &["merge-base", "--is-ancestor", after, before]).is_ok()
}

/// The text of a file in the checkout; `None` if it is too large.
fn text_of(path: &Path) -> Option<String> {
    fs::metadata(path).ok().filter(|there| there.is_file() && there.len() <= LARGEST_FILE)?;
    fs::read(path).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}
