//! Finding the files of a directory or a glob.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use ptmem::pattern;
use ptmem::profile::numbers::{self, Recognition};
use walkdir::{DirEntry, WalkDir};

use super::super::input;
use super::name::{self, SetNames, StatedNumbers};

/// A file that belongs to a set of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FoundFile {
    /// Its path.
    pub(crate) path: PathBuf,
    /// Its path from the directory, or from where the glob begins, parted by `/`.
    pub(crate) name: String,
    /// The rank that the name states in words: `rank3`, `device_3`, `rank3/snapshot.pkl`.
    pub(crate) rank: Option<u64>,
    /// The node that the name states beside the rank: `node1_gpu0`.
    pub(crate) node: Option<u64>,
    /// Whether it was named itself: other files may turn out not to be snapshots.
    pub(crate) is_named: bool,
    /// The bare number in the name that could be the rank: the only one, or the one in which the names differ.
    pub(crate) number: Option<u64>,
    /// Whether it is a case of a file, by its name in there.
    pub(crate) is_case: bool,
}

impl FoundFile {
    /// The relative name without the ending that says what kind of file it is; the whole name of a case.
    pub(crate) fn stem(&self) -> &str {
        name::stem(&self.name).filter(|_| !self.is_case).unwrap_or(&self.name)
    }

    /// A case of a file. A number in its name is part of the name, as in `resnet50`.
    fn case(file: &Path, name: String) -> Self {
        let path = PathBuf::from(format!("{}#{name}", file.display()));
        let rank = name::rank_of_case(&name);
        Self { path, name, rank, node: None, is_named: false, number: None, is_case: true }
    }
}

/// The files that a path stands for, in natural order of their names; `None` where it stands for itself: a file, `-`,
/// or something that does not exist.
///
/// In a directory, at any depth, snapshots by their extensions, and saved profiles and figures by their contents, or by their
/// contents and their names; hidden files are ignored. A glob takes every file that it matches, and the contents of matched directories.
///
/// # Errors
/// Where there is nothing to find, or something cannot be read; names it.
pub(crate) fn find(path: &Path) -> Result<Option<Vec<FoundFile>>> {
    if path.as_os_str() == "-" {
        return Ok(None);
    }
    let shown = path.display();
    if path.is_dir() {
        let found = described(path, inputs(path)?);
        if found.is_empty() {
            bail!(
                "{shown}: the directory has no snapshots (.pkl, .pickle, .pt, .pth), saved profiles or recognized figures \
                 (.json); expected at least one"
            );
        }
        return Ok(Some(found));
    }
    let cases = input::cases(path);
    if !cases.is_empty() {
        return Ok(Some(cases.into_iter().map(|case| FoundFile::case(path, case)).collect()));
    }
    // A file may have any name, also one that looks like a glob.
    let text = path.to_str().filter(|text| has_wildcard(text) && path.symlink_metadata().is_err());
    let Some(text) = text else { return Ok(None) };
    let (base, rest) = at_first_wildcard(text);
    let found = described(&base, matches(&base, &rest)?);
    if found.is_empty() {
        bail!("{shown}: the glob matches no file");
    }
    Ok(Some(found))
}

/// The files that several paths stand for, and those that were named.
pub(crate) fn files(paths: &[PathBuf]) -> Result<Vec<FoundFile>> {
    let mut files = Vec::new();
    for path in paths {
        files.extend(find(path)?.unwrap_or_else(|| vec![plain(path)]));
    }
    Ok(files)
}

/// A single file, with what its path as it was typed says.
fn plain(path: &Path) -> FoundFile {
    let name = path.to_string_lossy().replace('\\', "/");
    let StatedNumbers { rank, node, .. } = name::stated(&name);
    FoundFile { path: path.to_owned(), name, rank, node, is_named: true, number: None, is_case: false }
}

/// The folder where a glob begins, and the rest of it from the first part with a wildcard.
fn at_first_wildcard(text: &str) -> (PathBuf, String) {
    let text = if cfg!(windows) { text.replace('\\', "/") } else { text.to_owned() };
    let first = text.split('/').take_while(|part| !has_wildcard(part));
    let (base, rest) = text.split_at(first.map(|part| part.len() + 1).sum());
    (PathBuf::from(base), rest.to_owned())
}

fn has_wildcard(text: &str) -> bool {
    text.contains(['*', '?', '[', '{'])
}

/// The files below a folder that a glob matches, and the inputs in the folders that it matches.
fn matches(base: &Path, glob: &str) -> Result<Vec<PathBuf>> {
    let matcher = pattern::glob(glob, true)
        .map_err(|error| anyhow!("{}: invalid glob: {error}", base.join(glob).display()))?
        .compile_matcher();
    let depth = if glob.contains("**") { usize::MAX } else { glob.split('/').count() };
    let with_hidden = glob.split('/').any(|part| part.starts_with('.'));
    let mut found = Vec::new();
    for (path, is_folder) in below(base, depth, with_hidden)?.into_iter().filter(|(path, _)| matcher.is_match(path)) {
        if is_folder {
            found.extend(inputs(&base.join(&path))?.into_iter().map(|inner| path.join(inner)));
        } else {
            found.push(path);
        }
    }
    Ok(found)
}

/// The inputs below a folder, by their paths from there. A file that may hold figures counts if its name says so, too: to leave
/// out a rank would be silence.
fn inputs(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut possible = Vec::new();
    for (path, _) in below(folder, usize::MAX, false)?.into_iter().filter(|(_, is_folder)| !is_folder) {
        match recognized(&folder.join(&path))? {
            Recognition::Certain => found.push(path),
            Recognition::Possible => possible.push(path),
            Recognition::None => {}
        }
    }
    let names: Vec<String> = found.iter().map(|path| name_of(path)).collect();
    let names = SetNames::of(&names);
    found.extend(possible.into_iter().filter(|path| names.include(&name_of(path))));
    Ok(found)
}

/// A path below a folder, with folders parted by `/`.
fn name_of(path: &Path) -> String {
    path.iter().map(OsStr::to_string_lossy).collect::<Vec<_>>().join("/")
}

/// The folder where a glob begins: `*.pkl` begins where the command runs, and its files are named without a folder.
fn start_of(base: &Path) -> &Path {
    if base.as_os_str().is_empty() { Path::new(".") } else { base }
}

fn is_hidden(entry: &DirEntry) -> bool {
    entry.depth() > 0 && entry.file_name().as_encoded_bytes().starts_with(b".")
}

/// The files and folders down to a depth below a folder; true for a folder. Links are followed.
fn below(folder: &Path, depth: usize, with_hidden: bool) -> Result<Vec<(PathBuf, bool)>> {
    let start = start_of(folder);
    if !start.is_dir() {
        return Ok(Vec::new());
    }
    let walk = WalkDir::new(start).min_depth(1).max_depth(depth).follow_links(true).into_iter();
    let mut found = Vec::new();
    for entry in walk.filter_entry(|entry| with_hidden || !is_hidden(entry)) {
        let (path, is_folder) = match entry {
            Ok(entry) => (entry.path().to_owned(), entry.file_type().is_dir()),
            Err(error) if error.loop_ancestor().is_some() => continue,
            // A link to nothing is kept: to leave out a rank would be silence.
            Err(error) => match error.path().filter(|path| path.is_symlink()) {
                Some(path) => (path.to_owned(), false),
                None => {
                    return Err(error).with_context(|| format!("{}: the directory cannot be read", folder.display()));
                }
            },
        };
        found.push((path.strip_prefix(start).unwrap_or(&path).to_owned(), is_folder));
    }
    Ok(found)
}

/// A path to a file below a folder.
struct PathBelow {
    path: PathBuf,
    name: String,
    /// The folder of the file, without links.
    folder: PathBuf,
    /// Whether the path leads through a link to a folder.
    is_linked: bool,
}

impl PathBelow {
    /// `root` is the folder that the path begins in, without links.
    fn new(root: &Path, path: PathBuf) -> Self {
        let own = path.parent().unwrap_or(Path::new(""));
        let folder = fs::canonicalize(root.join(own)).unwrap_or_default();
        Self { is_linked: folder != root.join(own), folder, name: name_of(&path), path }
    }
}

/// Files below a folder, each once: of several ways to one the way without links.
fn described(base: &Path, found: Vec<PathBuf>) -> Vec<FoundFile> {
    let root = fs::canonicalize(start_of(base)).unwrap_or_default();
    let mut ways: Vec<PathBelow> = found.into_iter().map(|path| PathBelow::new(&root, path)).collect();
    ways.sort_by(|a, b| a.is_linked.cmp(&b.is_linked).then_with(|| name::natural(&a.name, &b.name)));
    let mut seen = HashSet::new();
    ways.retain(|way| seen.insert((way.folder.clone(), way.path.file_name().map(OsStr::to_owned))));
    ways.sort_by(|a, b| name::natural(&a.name, &b.name));
    describe(ways.into_iter().map(|way| (base.join(way.path), way.name)).collect())
}

/// Reads ranks and nodes from the names of files.
pub(crate) fn describe(files: Vec<(PathBuf, String)>) -> Vec<FoundFile> {
    let stated: Vec<StatedNumbers> = files.iter().map(|(_, name)| name::stated(name)).collect();
    let numbers = name::bare_ranks(&stated);
    let all = files.into_iter().zip(stated).zip(numbers);
    let found = all.map(|(((path, name), StatedNumbers { rank, node, .. }), number)| FoundFile {
        path,
        name,
        rank,
        node,
        is_named: false,
        number,
        is_case: false,
    });
    found.collect()
}

/// How sure it is that a file is a snapshot, a saved profile, or figures.
fn recognized(path: &Path) -> Result<Recognition> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    // Opening a pipe would wait for a writer.
    if name::stem(&name).is_none() || fs::metadata(path).is_ok_and(|there| !there.is_file()) {
        return Ok(Recognition::None);
    }
    if name.ends_with(".json") && !name.ends_with(".ptmem.json") {
        return recognized_json(path).with_context(|| format!("{}: cannot be read", path.display()));
    }
    // Compressed, only its name says what a JSON file is.
    let is_other_json = name.contains(".json.") && !name.contains(".ptmem.json.");
    Ok(if is_other_json { Recognition::None } else { Recognition::Certain })
}

/// Enough of a JSON text to recognize a saved profile.
const HEAD: u64 = 8192;

fn recognized_json(path: &Path) -> io::Result<Recognition> {
    let mut file = File::open(path)?;
    let mut text = Vec::new();
    file.by_ref().take(HEAD).read_to_end(&mut text)?;
    if begins_like_a_profile(&String::from_utf8_lossy(&text)) {
        return Ok(Recognition::Certain);
    }
    // Traces of the profiler are larger.
    if file.metadata()?.len() > input::MOST_FIGURES {
        return Ok(Recognition::None);
    }
    file.read_to_end(&mut text)?;
    Ok(numbers::recognized(text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&text)))
}

/// Whether a text begins as a saved profile does.
fn begins_like_a_profile(head: &str) -> bool {
    // The report of `ptmem show --format json` has no raises.
    head.contains("\"ptmem.profile/") && head.contains("\"raises\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(path: &Path) -> Vec<String> {
        find(path).unwrap().unwrap().into_iter().map(|found| found.name).collect()
    }

    fn error(path: &Path) -> String {
        find(path).unwrap_err().to_string()
    }

    fn write(folder: &Path, name: &str, text: &str) {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn directories_hold_snapshots_and_profiles() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        for name in [
            "rank10.pkl",
            "rank2.pickle.gz",
            "deep/er/rank3.pt",
            "rank4.ptmem.json",
            "README.md",
            "page.html",
            "rank5.json.gz",
            ".hidden.pkl",
            ".git/rank6.pkl",
        ] {
            write(at, name, "");
        }
        write(at, "rank7.json", "\u{feff}\n{ \"schema\": \"ptmem.profile/1\", \"raises\": [] }");
        write(at, "rank8.json", "{ \"schema\": \"ptmem.profile/1\", \"group_by\": \"stack\" }");
        write(at, "expected.json", "{ \"devices\": [] }");
        assert_eq!(names(at), ["deep/er/rank3.pt", "rank2.pickle.gz", "rank4.ptmem.json", "rank7.json", "rank10.pkl"]);
        let found = find(at).unwrap().unwrap();
        assert_eq!(found[4].path, at.join("rank10.pkl"));
        assert_eq!(found.iter().map(|found| found.rank).collect::<Vec<_>>(), [3, 2, 4, 7, 10].map(Some));
    }

    #[test]
    fn globs_match_whole_paths() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        for name in ["a/rank0.pkl", "a/rank1.pkl", "a/rank1.txt", "b/c/rank2.pkl", "b/.x/rank3.pkl", "d[1].pkl"] {
            write(at, name, "");
        }
        assert_eq!(names(&at.join("a/*.pkl")), ["rank0.pkl", "rank1.pkl"]);
        assert_eq!(names(&at.join("*/rank?.pkl")), ["a/rank0.pkl", "a/rank1.pkl"]);
        assert_eq!(names(&at.join("**/*.pkl")), ["a/rank0.pkl", "a/rank1.pkl", "b/c/rank2.pkl", "d[1].pkl"]);
        assert_eq!(names(&at.join("a/rank{0,1}.*")), ["rank0.pkl", "rank1.pkl", "rank1.txt"]);
        assert_eq!(
            names(&at.join("[ab]")),
            ["a/rank0.pkl", "a/rank1.pkl", "b/c/rank2.pkl"],
            "folders give what they hold"
        );
        assert_eq!(names(&at.join("b/.x/*")), ["rank3.pkl"]);
        assert_eq!(find(&at.join("d[1].pkl")).unwrap(), None, "there is a file of that name");
        assert_eq!(find(&at.join("nothing.pkl")).unwrap(), None);
        assert_eq!(find(Path::new("-")).unwrap(), None);
        assert!(error(&at.join("a/*.none")).contains("matches no file"));
        assert!(error(&at.join("x/**")).contains("matches no file"));
        assert!(error(&at.join("a/[")).contains("invalid glob"));
        fs::create_dir(at.join("empty")).unwrap();
        assert!(error(&at.join("empty")).contains("the directory has no snapshots"));
    }

    #[cfg(unix)]
    #[test]
    fn links_do_not_lead_in_circles() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        write(at, "step_1/rank0.pkl", "");
        for (target, link) in [(".", "step_1/here"), ("..", "step_1/up"), ("step_1", "latest"), ("gone", "rank1.pkl")] {
            std::os::unix::fs::symlink(target, at.join(link)).unwrap();
        }
        assert_eq!(names(at), ["rank1.pkl", "step_1/rank0.pkl"]);
        assert_eq!(names(&at.join("**/rank0.pkl")), ["step_1/rank0.pkl"]);
        assert_eq!(names(&at.join("lat*/*.pkl")), ["latest/rank0.pkl"]);
    }
}
