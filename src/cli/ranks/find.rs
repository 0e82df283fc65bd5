//! Finding the files of a directory or a glob.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use globset::GlobMatcher;
use ptmem::pattern;

use super::super::input;
use super::name::{self, Stated};

/// A file that belongs to a set of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
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
}

impl Found {
    /// The relative name without the ending that says what kind of file it is.
    pub(crate) fn stem(&self) -> &str {
        name::stem(&self.name).unwrap_or(&self.name)
    }
}

/// The files that a path stands for, in natural order of their names; `None` where it stands for itself: a file, `-`,
/// or something that does not exist.
///
/// In a directory, at any depth, snapshots by their extensions and saved profiles by their first bytes; hidden files
/// are ignored. A glob takes every file that it matches, and the contents of matched directories.
///
/// # Errors
/// Where there is nothing to find, or something cannot be read; names it.
pub(crate) fn find(path: &Path) -> Result<Option<Vec<Found>>> {
    if path.as_os_str() == "-" {
        return Ok(None);
    }
    let shown = path.display();
    let mut files = Files::default();
    if path.is_dir() {
        files.visit(path, "", &[])?;
        let found = files.sorted()?;
        if found.is_empty() {
            bail!(
                "{shown}: the directory has no snapshots (.pkl, .pickle, .pt, .pth) or saved profiles (.json); expected one \
                 for each rank"
            );
        }
        return Ok(Some(found));
    }
    let cases = input::cases(path);
    if !cases.is_empty() {
        let found = cases.into_iter().map(|case| (PathBuf::from(format!("{}#{case}", path.display())), case));
        return Ok(Some(describe(found.collect())));
    }
    // A file may have any name, also one that looks like a glob.
    let text = path.to_str().filter(|text| has_wildcard(text) && path.symlink_metadata().is_err());
    let Some(text) = text else { return Ok(None) };
    let (base, parts) = parts_of(text)?;
    if base.as_os_str().is_empty() || base.is_dir() {
        files.visit(&base, "", &parts)?;
    }
    let found = files.sorted()?;
    if found.is_empty() {
        bail!("{shown}: the glob matches no file");
    }
    Ok(Some(found))
}

/// The files that several paths stand for, and those that were named.
pub(crate) fn files(paths: &[PathBuf]) -> Result<Vec<Found>> {
    let mut files = Vec::new();
    for path in paths {
        files.extend(find(path)?.unwrap_or_else(|| vec![plain(path)]));
    }
    Ok(files)
}

/// A single file, with what its path as it was typed says.
fn plain(path: &Path) -> Found {
    let name = path.to_string_lossy().replace('\\', "/");
    let Stated { rank, node, .. } = name::stated(&name);
    Found { path: path.to_owned(), name, rank, node, is_named: true, number: None }
}

/// One part of a glob between slashes.
enum Part {
    /// `**`: any number of folders.
    Any,
    /// Pattern for the name of one file or folder, and whether it may be hidden.
    Pattern(GlobMatcher, bool),
}

impl Part {
    fn parse(part: &str) -> Result<Self, String> {
        if part == "**" {
            return Ok(Self::Any);
        }
        Ok(Self::Pattern(pattern::glob(part, true)?.compile_matcher(), part.starts_with('.')))
    }
}

/// The folder where a glob begins, and the parts of its path from the first with a wildcard.
fn parts_of(text: &str) -> Result<(PathBuf, Vec<Part>)> {
    let text = if cfg!(windows) { text.replace('\\', "/") } else { text.to_owned() };
    let first = text.split('/').position(has_wildcard).unwrap_or(0);
    let start: usize = text.split('/').take(first).map(|part| part.len() + 1).sum();
    let parts = text[start..]
        .split('/')
        .filter(|part| !part.is_empty())
        .map(|part| Part::parse(part).map_err(|error| anyhow!("invalid glob '{text}': {error} in '{part}'")));
    Ok((PathBuf::from(&text[..start]), parts.collect::<Result<_>>()?))
}

fn has_wildcard(text: &str) -> bool {
    text.contains(['*', '?', '[', '{'])
}

/// Files as they are found.
#[derive(Default)]
struct Files {
    found: Vec<(PathBuf, String)>,
    /// Directories all of which is taken, each once: links may lead back.
    seen: HashSet<PathBuf>,
    /// Links to such directories, for later: a target that is found by itself keeps its own name.
    links: Vec<(PathBuf, String)>,
}

/// An entry of a directory.
struct Entry {
    path: PathBuf,
    name: String,
    is_link: bool,
}

impl Files {
    /// Adds the files below a folder that match the parts of a glob; without parts, all inputs. `name` is the name of the folder.
    fn visit(&mut self, folder: &Path, name: &str, parts: &[Part]) -> Result<()> {
        if parts.is_empty() {
            let place = fs::canonicalize(folder).with_context(|| format!("{}: cannot be read", folder.display()))?;
            if !self.seen.insert(place) {
                return Ok(());
            }
        }
        if let [Part::Any, rest @ ..] = parts
            && !rest.is_empty()
        {
            self.visit(folder, name, rest)?;
        }
        let entries = entries(folder, matches!(parts, [Part::Pattern(_, true), ..]));
        for entry in entries.with_context(|| format!("{}: the directory cannot be read", folder.display()))? {
            let below = match parts {
                [Part::Pattern(glob, _), ..] if !glob.is_match(&entry.name) => continue,
                [Part::Pattern(..), rest @ ..] => rest,
                [Part::Any, ..] | [] => parts,
            };
            let name = if name.is_empty() { entry.name.clone() } else { format!("{name}/{}", entry.name) };
            if !entry.path.is_dir() {
                if parts.len() == 1 || parts.is_empty() && is_input(&entry)? {
                    self.found.push((entry.path, name));
                }
            } else if entry.is_link && below.is_empty() {
                self.links.push((entry.path, name));
            } else if !entry.is_link || matches!(parts, [Part::Pattern(..), ..]) {
                self.visit(&entry.path, &name, below)?;
            }
        }
        Ok(())
    }

    fn sorted(mut self) -> Result<Vec<Found>> {
        while !self.links.is_empty() {
            // The last is taken first.
            self.links.sort_by(|(_, a), (_, b)| name::natural(b, a));
            if let Some((folder, name)) = self.links.pop() {
                self.visit(&folder, &name, &[])?;
            }
        }
        self.found.sort_by(|(_, a), (_, b)| name::natural(a, b));
        self.found.dedup();
        Ok(describe(self.found))
    }
}

/// Reads ranks and nodes from the names of files.
pub(super) fn describe(files: Vec<(PathBuf, String)>) -> Vec<Found> {
    let stated: Vec<Stated> = files.iter().map(|(_, name)| name::stated(name)).collect();
    let numbers = name::bare_ranks(&stated);
    let all = files.into_iter().zip(stated).zip(numbers);
    let found = all.map(|(((path, name), Stated { rank, node, .. }), number)| Found {
        path,
        name,
        rank,
        node,
        is_named: false,
        number,
    });
    found.collect()
}

/// The entries of a directory, those that are hidden only where asked for.
fn entries(folder: &Path, hidden: bool) -> io::Result<Vec<Entry>> {
    // `*.pkl` begins where the command runs; its files are named without a folder.
    let mut entries = Vec::new();
    for entry in fs::read_dir(if folder.as_os_str().is_empty() { Path::new(".") } else { folder })? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.starts_with('.') || hidden {
            let is_link = entry.file_type()?.is_symlink();
            entries.push(Entry { path: folder.join(entry.file_name()), name, is_link });
        }
    }
    Ok(entries)
}

/// Whether a file looks like a snapshot or a saved profile.
fn is_input(entry: &Entry) -> Result<bool> {
    if name::stem(&entry.name).is_none() {
        return Ok(false);
    }
    // Opening a pipe would wait for a writer. A link to nothing is kept: to leave out a rank would be silence.
    if fs::metadata(&entry.path).is_ok_and(|there| !there.is_file()) {
        return Ok(false);
    }
    let name = entry.name.to_lowercase();
    if name.ends_with(".json") && !name.ends_with(".ptmem.json") {
        return begins_like_a_profile(&entry.path).with_context(|| format!("{}: cannot be read", entry.path.display()));
    }
    // Compressed, only its name says what a JSON file is.
    Ok(!name.contains(".json.") || name.contains(".ptmem.json."))
}

/// Keys by which a text of figures is known.
const FIGURES: [&str; 3] = ["\"allocated_bytes", "\"mem-max-allocated-bytes\"", "\"max_memory_allocated\""];

/// Whether a text begins as a saved profile does.
fn begins_like_a_profile(path: &Path) -> io::Result<bool> {
    let mut head = Vec::new();
    File::open(path)?.take(8192).read_to_end(&mut head)?;
    let text = String::from_utf8_lossy(&head);
    let text = text.trim_start_matches('\u{feff}').trim_start();
    // The report of `ptmem show --format json` has no raises.
    let is_profile = text.contains("\"ptmem.profile/") && text.contains("\"raises\"");
    Ok(text.starts_with('{') && (is_profile || FIGURES.iter().any(|key| text.contains(key))))
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
