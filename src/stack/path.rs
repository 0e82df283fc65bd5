//! Normal forms of file names: the same file has the same name on every machine.
//!
//! Installed code is named from its package on, whatever the environment and the Python version. The user's
//! code may be checked out anywhere: people see it relative to the folder that all of it has in common, and
//! it is compared by the shortest end of its path that no other file of the user ends in, so that neither
//! another checkout nor a move to another folder makes another file of it.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::find::{find, rfind};

/// A path with `/` between its parts, and without `.` and `..` where they can be resolved.
pub(super) fn clean(path: &str) -> Cow<'_, str> {
    let is_clean = !path.contains('\\') && !path.contains("/./") && !path.contains("/../") && !path.contains("//");
    if is_clean && !path.starts_with("./") {
        return Cow::Borrowed(path);
    }
    let path = path.replace('\\', "/");
    let rooted = path.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            ".." if rooted => {}
            part => parts.push(part),
        }
    }
    Cow::Owned(format!("{}{}", if rooted { "/" } else { "" }, parts.join("/")))
}

/// The last part of a clean path.
pub(super) fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The part of a clean path behind the last `site-packages` or `dist-packages`.
pub(super) fn installed(path: &str) -> Option<&str> {
    ["site-packages/", "dist-packages/"].iter().find_map(|folder| {
        let at = rfind(path, folder)?;
        (at == 0 || path[..at].ends_with('/')).then(|| &path[at + folder.len()..])
    })
}

/// The part of a clean path behind `lib/python3.x`, or behind `Lib` of an installation on Windows.
pub(super) fn standard_library(path: &str) -> Option<&str> {
    let pythons = path.contains("/python3").then(|| path.match_indices("/python3"));
    for (at, python) in pythons.into_iter().flatten() {
        let rest = path[at + python.len()..].trim_start_matches(is_of_version);
        if let Some(rest) = rest.strip_prefix('/')
            && ["lib", "lib64"].contains(&file_name(&path[..at]))
        {
            return Some(rest);
        }
    }
    // A drive, so Windows.
    let at = find(path, "/Lib/").or_else(|| find(path, "/lib/"))?;
    path[..at].contains(':').then(|| &path[at + "/Lib/".len()..])
}

/// True if a character stands in the number of a Python version, such as the `.13t` of a build without the lock.
fn is_of_version(c: char) -> bool {
    c == '.' || c.is_ascii_digit() || c == 't'
}

/// The name of generated code, without the hashes and counters in it.
pub(super) fn folded(path: &str) -> Option<&str> {
    if path.contains("torchinductor_") {
        return Some("<inductor>");
    }
    if file_name(path).starts_with("fx_generated_") {
        return Some("<fx>");
    }
    let end = path.find('>').filter(|_| path.starts_with('<'))?;
    Some(&path[..=end])
}

/// True for an absolute clean path, also on Windows.
fn is_absolute(path: &str) -> bool {
    path.starts_with('/') || path.as_bytes().get(1) == Some(&b':')
}

/// The names of the user's files in one snapshot.
#[derive(Debug, Default)]
pub(super) struct Names {
    prefixes: Vec<String>,
    root: String,
    suffixes: BTreeMap<String, usize>,
}

impl Names {
    /// From all clean paths of the user's files and the prefixes that the user wants to see stripped.
    pub(super) fn new(files: &BTreeSet<&str>, prefixes: &[String]) -> Self {
        let mut prefixes: Vec<_> = prefixes.iter().map(|prefix| with_slash(&clean(prefix))).collect();
        // The longest that fits wins.
        prefixes.sort_by_key(|prefix| (std::cmp::Reverse(prefix.len()), prefix.clone()));
        let absolute = files.iter().filter(|path| is_absolute(path) && !is_notebook(path));
        Self { prefixes, root: common_root(absolute), suffixes: unique_suffixes(files) }
    }

    /// The rest of a path behind a prefix to strip.
    pub(super) fn stripped<'p>(&self, path: &'p str) -> Option<&'p str> {
        self.prefixes.iter().find_map(|prefix| path.strip_prefix(prefix.as_str()))
    }

    /// The path as people see it.
    pub(super) fn shown<'p>(&self, path: &'p str) -> &'p str {
        if let Some(rest) = self.stripped(path) {
            return rest;
        }
        if is_notebook(path) {
            return file_name(path);
        }
        path.strip_prefix(self.root.as_str()).unwrap_or(path)
    }

    /// The path as it is compared.
    pub(super) fn compared<'p>(&self, path: &'p str) -> &'p str {
        let length = self.suffixes.get(path).copied().unwrap_or(path.len());
        &path[path.len() - length..]
    }
}

fn with_slash(path: &str) -> String {
    if path.is_empty() || path.ends_with('/') { path.to_owned() } else { format!("{path}/") }
}

/// Cells of a notebook lie in a temporary folder, each as a file of its own.
fn is_notebook(path: &str) -> bool {
    path.contains("/ipykernel_")
}

/// The folder, with a slash at its end, that all paths have in common; empty where that is nothing but the
/// root.
fn common_root<'p>(mut paths: impl Iterator<Item = &'p &'p str>) -> String {
    let Some(first) = paths.next() else { return String::new() };
    let mut root = &first[..=first.rfind('/').unwrap_or(0)];
    for path in paths {
        let same = root.bytes().zip(path.bytes()).take_while(|(a, b)| a == b).count();
        let end = root.as_bytes()[..same].iter().rposition(|&b| b == b'/').map_or(0, |at| at + 1);
        root = &root[..end];
    }
    if root.trim_end_matches('/').is_empty() { String::new() } else { root.to_owned() }
}

/// The number of parts that two paths have in common at their beginning.
fn common_parts(a: &[&str], b: &[&str]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// For every path the length of its shortest end, of whole parts, that no other path ends in.
fn unique_suffixes(files: &BTreeSet<&str>) -> BTreeMap<String, usize> {
    // In the order of their reversed parts, the paths with the longest common ends are neighbours.
    let mut reversed: Vec<Vec<&str>> = files.iter().map(|path| path.rsplit('/').collect()).collect();
    reversed.sort_unstable();
    let mut suffixes = BTreeMap::new();
    for (i, parts) in reversed.iter().enumerate() {
        let before = i.checked_sub(1).map_or(0, |before| common_parts(parts, &reversed[before]));
        let after = reversed.get(i + 1).map_or(0, |after| common_parts(parts, after));
        let taken = (before.max(after) + 1).min(parts.len());
        let length = parts[..taken].iter().map(|part| part.len() + 1).sum::<usize>() - 1;
        let path = parts.iter().rev().copied().collect::<Vec<_>>().join("/");
        suffixes.insert(path, length);
    }
    suffixes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_cleaned() {
        assert_eq!(clean("/home/me/scripts/../pkg/./a.py"), "/home/me/pkg/a.py");
        assert_eq!(clean("D:\\work\\train.py"), "D:/work/train.py");
        assert_eq!(clean("./train.py"), "train.py");
        assert_eq!(clean("../train.py"), "../train.py");
        assert_eq!(clean("/../train.py"), "/train.py");
        assert!(matches!(clean("/home/me/a.py"), Cow::Borrowed(_)));
    }

    #[test]
    fn installed_code_is_named_from_its_package_on() {
        assert_eq!(installed("/e/lib/python3.11/site-packages/torch/nn/x.py"), Some("torch/nn/x.py"));
        assert_eq!(installed("/home/me/my_site-packages/x.py"), None);
        assert_eq!(standard_library("/root/x/lib/python3.10/asyncio/events.py"), Some("asyncio/events.py"));
        assert_eq!(standard_library("/usr/lib64/python3.9/runpy.py"), Some("runpy.py"));
        assert_eq!(standard_library("C:/Python312/Lib/threading.py"), Some("threading.py"));
        assert_eq!(standard_library("/home/me/lib/model.py"), None);
        assert_eq!(standard_library("/home/me/python3/model.py"), None);
    }

    #[test]
    fn generated_code_is_folded() {
        assert_eq!(folded("<eval_with_key>.12"), Some("<eval_with_key>"));
        assert_eq!(folded("/tmp/torchinductor_me/ab/cab.py"), Some("<inductor>"));
        assert_eq!(folded("fx_generated_0a1b.py"), Some("<fx>"));
        assert_eq!(folded("/home/me/a>b.py"), None);
    }

    #[test]
    fn people_see_paths_from_the_common_folder_on() {
        let files = BTreeSet::from(["/home/me/repo/train.py", "/home/me/repo/net/model.py", "/tmp/ipykernel_7/42.py"]);
        let names = Names::new(&files, &[]);
        assert_eq!(names.shown("/home/me/repo/net/model.py"), "net/model.py");
        assert_eq!(names.shown("/tmp/ipykernel_7/42.py"), "42.py");
        let names = Names::new(&files, &["/home/me".to_owned(), "/home/me/repo/net".to_owned()]);
        assert_eq!(names.shown("/home/me/repo/net/model.py"), "model.py");
        assert_eq!(names.shown("/home/me/repo/train.py"), "repo/train.py");
        // Nothing in common: better the whole path than one without its beginning.
        let names = Names::new(&BTreeSet::from(["/a/x.py", "/b/y.py"]), &[]);
        assert_eq!(names.shown("/a/x.py"), "/a/x.py");
        let names = Names::new(&BTreeSet::from(["/home/ab/x.py", "/home/abc/y.py", "z.py"]), &[]);
        assert_eq!(names.shown("/home/ab/x.py"), "ab/x.py");
        assert_eq!(names.shown("z.py"), "z.py");
    }

    #[test]
    fn files_are_compared_by_the_shortest_end_that_is_theirs_alone() {
        let files = BTreeSet::from(["/r/a/model.py", "/r/b/model.py", "/r/train.py", "model.py"]);
        let names = Names::new(&files, &[]);
        assert_eq!(names.compared("/r/a/model.py"), "a/model.py");
        assert_eq!(names.compared("/r/b/model.py"), "b/model.py");
        assert_eq!(names.compared("/r/train.py"), "train.py");
        assert_eq!(names.compared("model.py"), "model.py");
    }
}
