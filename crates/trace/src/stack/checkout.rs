//! Finds recorded files in the checkout of the report: snapshots are recorded in other folders.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, LazyLock};

use super::path::is_absolute;

/// The checkout that reports speak of. The caller lists its files, and only when they are asked for.
#[derive(Clone, Default)]
pub struct Checkout(Option<Arc<Inner>>);

struct Inner {
    /// Its folder, as an absolute path with `/` at the end.
    root: String,
    files: LazyLock<Files, Box<dyn FnOnce() -> Files + Send>>,
}

impl Checkout {
    /// A checkout in a folder, by its absolute path, and what lists its Python files and notebooks by their paths from
    /// there, with `/` between the parts.
    pub fn new(root: &str, list: impl FnOnce() -> Vec<String> + Send + 'static) -> Self {
        let root = format!("{}/", root.replace('\\', "/").trim_end_matches('/'));
        let files: Box<dyn FnOnce() -> Files + Send> = Box::new(|| Files::new(&list()));
        Self(Some(Arc::new(Inner { root, files: LazyLock::new(files) })))
    }

    /// The paths of user files relative to the root of the checkout, for those that are in it or were when they were
    /// recorded.
    pub(super) fn place<'p>(&self, users: &BTreeSet<&'p str>) -> BTreeMap<&'p str, String> {
        let Some(inner) = &self.0 else { return BTreeMap::new() };
        let mut placed = BTreeMap::new();
        let mut anchors = Anchors::default();
        for &path in users {
            if let Some(rest) = path.strip_prefix(inner.root.as_str()) {
                placed.insert(path, rest.to_owned());
            } else if is_absolute(path) {
                anchors.vote(path, &inner.files);
            } else if let Some(there) = inner.files.of_relative(path) {
                placed.insert(path, there.to_owned());
            }
        }
        let accepted = anchors.accepted(!placed.is_empty());
        let mut taken: BTreeSet<String> = placed.values().cloned().collect();
        for anchor in accepted {
            for &path in users {
                let rest = path.strip_prefix(anchor.recorded.as_str()).filter(|_| !placed.contains_key(path));
                let Some(there) = rest.map(|rest| format!("{}{rest}", anchor.checkout)) else { continue };
                // Two recorded files are not one.
                if taken.insert(there.clone()) {
                    placed.insert(path, there);
                }
            }
        }
        placed
    }

    /// The path of an installed file, relative to its package, if exactly one file of the checkout can be its source.
    pub(super) fn of_installed(&self, file: &str) -> Option<String> {
        self.0.as_ref()?.files.of_installed(file)
    }
}

impl fmt::Debug for Checkout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Checkout").field(&self.0.as_ref().map(|inner| &inner.root)).finish()
    }
}

/// There is one checkout in a run.
impl PartialEq for Checkout {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_ref().map(|inner| &inner.root) == other.0.as_ref().map(|inner| &inner.root)
    }
}

impl Eq for Checkout {}

/// A folder of the recording and the folder of the checkout that it is; both are empty or end in a slash.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Anchor {
    recorded: String,
    checkout: String,
}

/// The number of files that support each anchor: by their folder or, with less weight, by name only.
#[derive(Debug, Default)]
struct Anchors(BTreeMap<(IsNameAlone, Anchor), usize>);

type IsNameAlone = bool;

impl Anchors {
    /// Adds the anchor that a recorded file speaks for, if it resembles one of the checkout.
    fn vote(&mut self, path: &str, files: &Files) {
        let Some(found) = files.nearest(path) else { return };
        let recorded = path[..path.len() - found.common.len()].to_owned();
        let checkout = found.file[..found.file.len() - found.common.len()].to_owned();
        // A package may be recorded without its `src` folder; other folders are parts of its name.
        if checkout.is_empty() || checkout == "src/" || checkout.ends_with("/src/") {
            *self.0.entry((!found.common.contains('/'), Anchor { recorded, checkout })).or_default() += 1;
        }
    }

    /// The anchors that count, the most certain first. Names alone count where nothing better is known.
    fn accepted(self, is_placed: bool) -> Vec<Anchor> {
        let mut votes: Vec<_> = self.0.into_iter().collect();
        votes.sort_by_key(|((is_name_alone, _), count)| (*is_name_alone, std::cmp::Reverse(*count)));
        let strong = votes.iter().filter(|((is_name_alone, _), _)| !is_name_alone).count();
        votes.truncate(if is_placed { strong } else { strong.max(1) });
        votes.into_iter().map(|((_, anchor), _)| anchor).collect()
    }
}

/// The files of a checkout.
#[derive(Debug, Default)]
struct Files {
    /// Their paths with the parts in reverse order, each behind a zero, sorted: files with a common end are neighbours.
    reversed: Vec<String>,
}

/// The file of the checkout that shares the most parts at its end with a recorded one.
struct Nearest {
    file: String,
    /// The end that they share, of whole parts.
    common: String,
}

/// Folders with copies of other projects.
const VENDORED: [&str; 7] = ["third_party", "third-party", "vendor", "vendored", "_vendor", "extern", "external"];

impl Files {
    fn new(paths: &[String]) -> Self {
        let mut reversed: Vec<String> = paths.iter().map(|path| reverse(path)).collect();
        reversed.sort_unstable();
        reversed.dedup();
        Self { reversed }
    }

    /// The files that end in a path, given in reverse.
    fn ending_in<'f>(&'f self, end: &'f str) -> impl Iterator<Item = &'f str> {
        let from = self.reversed.partition_point(|file| file.as_str() < end);
        let from_there = self.reversed[from..].iter().map(String::as_str);
        from_there.take_while(move |file| file.starts_with(end)).filter(move |file| is_part(file, end))
    }

    /// The file that shares the longest path suffix with a recorded one: a file whose whole path is that suffix,
    /// otherwise the only one.
    fn nearest(&self, path: &str) -> Option<Nearest> {
        let wanted = reverse(path);
        let at = self.reversed.partition_point(|file| *file < wanted);
        let neighbours = [at.checked_sub(1), Some(at)].into_iter().flatten();
        let neighbours = neighbours.filter_map(|index| self.reversed.get(index));
        let common = neighbours.map(|file| common_length(file, &wanted)).max().filter(|length| *length > 0)?;
        let end = &wanted[..common];
        let mut files = self.ending_in(end);
        let first = files.next()?;
        let is_alone = first == end || files.next().is_none();
        is_alone.then(|| Nearest { file: forward(first), common: forward(end) })
    }

    /// The file that a relative path names, from the root or from a folder beside it.
    fn of_relative<'p>(&self, path: &'p str) -> Option<&'p str> {
        let path = path.trim_start_matches("../");
        self.reversed.binary_search(&reverse(path)).is_ok().then_some(path)
    }

    fn of_installed(&self, file: &str) -> Option<String> {
        let end = reverse(file);
        let mut files = self.ending_in(&end).map(forward).filter(|found| self.may_be_installed(found, file));
        let first = files.next()?;
        files.next().is_none().then_some(first)
    }

    /// True if a file of the checkout may be installed under a name: the folder before the name is neither a package
    /// nor a copy of another project, and for a single module it is the root or `src`.
    fn may_be_installed(&self, found: &str, name: &str) -> bool {
        let folder = found[..found.len() - name.len()].trim_end_matches('/');
        if folder.is_empty() {
            return true;
        }
        let is_package = self.reversed.binary_search(&reverse(&format!("{folder}/__init__.py"))).is_ok();
        let is_vendored = folder.split('/').any(|part| VENDORED.contains(&part));
        !is_package && !is_vendored && (name.contains('/') || folder == "src")
    }
}

/// The parts of a path in reverse order, with a zero between them, which sorts before everything else.
fn reverse(path: &str) -> String {
    path.rsplit('/').collect::<Vec<_>>().join("\0")
}

fn forward(reversed: &str) -> String {
    reversed.rsplit('\0').collect::<Vec<_>>().join("/")
}

/// True if a reversed path begins with a whole number of parts of another.
fn is_part(file: &str, end: &str) -> bool {
    file.len() == end.len() || file.as_bytes()[end.len()] == 0
}

/// The length of the parts that two reversed paths begin with.
fn common_length(one: &str, other: &str) -> usize {
    let parts = one.split('\0').zip(other.split('\0')).take_while(|(a, b)| a == b);
    let length: usize = parts.map(|(part, _)| part.len() + 1).sum();
    length.saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checkout(files: &[&str]) -> Checkout {
        let files: Vec<String> = files.iter().map(|&file| file.to_owned()).collect();
        Checkout::new("/work/repo", move || files)
    }

    fn placed(files: &[&str], recorded: &[&'static str]) -> Vec<String> {
        let users = recorded.iter().copied().collect();
        let placed = checkout(files).place(&users);
        recorded.iter().map(|path| placed.get(path).cloned().unwrap_or_else(|| "-".to_owned())).collect()
    }

    #[test]
    fn files_that_were_recorded_elsewhere_are_found() {
        let files = ["train.py", "net/model.py", "net/util.py", "tests/train.py"];
        // Also one that no longer exists, but nothing outside the repository.
        assert_eq!(
            placed(&files, &["/home/me/r/train.py", "/home/me/r/net/model.py", "/home/me/r/old.py", "/home/me/x.py"]),
            ["train.py", "net/model.py", "old.py", "-"]
        );
        assert_eq!(placed(&files, &["/work/repo/new.py", "/work/other/train.py"]), ["new.py", "-"]);
        // Another project with a file of the same name.
        assert_eq!(placed(&files, &["/w/repo/net/model.py", "/w/shared/util.py"]), ["net/model.py", "-"]);
        assert_eq!(placed(&files, &["/w/repo/train.py"]), ["train.py"]);
        assert_eq!(placed(&files, &["train.py", "../net/model.py", "<stdin>"]), ["train.py", "net/model.py", "-"]);
    }

    #[test]
    fn a_package_may_lie_in_src() {
        let files = ["src/ourlib/model.py", "src/ourlib/__init__.py", "examples/train.py", "other/deep/model.py"];
        assert_eq!(
            placed(&files, &["/app/ourlib/model.py", "/app/ourlib/gone.py"]),
            ["src/ourlib/model.py", "src/ourlib/gone.py"]
        );
        // With a folder that is part of the name, it is another file.
        assert_eq!(placed(&files, &["/app/deep/model.py"]), ["-"]);
    }

    #[test]
    fn installed_code_is_found_where_it_can_be_one_file_only() {
        const FILES: [&str; 4] =
            ["src/ourlib/model.py", "src/ourlib/__init__.py", "src/ourlib/utils/io.py", "third_party/lib/x.py"];
        let cases: [(&[&str], &str, Option<&str>); 8] = [
            (&FILES, "ourlib/model.py", Some("src/ourlib/model.py")),
            (&FILES, "model.py", None),
            // ourlib.utils is not a package of its own.
            (&FILES, "utils/io.py", None),
            (&FILES, "lib/x.py", None),
            (&["a/ourlib/m.py", "b/ourlib/m.py"], "ourlib/m.py", None),
            (&["packages/a/src/ourlib/m.py"], "ourlib/m.py", Some("packages/a/src/ourlib/m.py")),
            (&["src/mod.py"], "mod.py", Some("src/mod.py")),
            (&["ourlib/m.py.bak/x.py"], "ourlib/m.py", None),
        ];
        for (files, installed, found) in cases {
            assert_eq!(checkout(files).of_installed(installed).as_deref(), found, "{installed} in {files:?}");
        }
    }
}
