//! Normal forms of file names: the same file has the same name on every machine.
//!
//! Installed code is named relative to its package, whatever the environment and the Python version. User code may be
//! checked out anywhere: it is shown relative to the checkout, otherwise to the folder of its package, and is compared
//! by the shortest path suffix that no other user file has, so that neither another checkout nor a move to another
//! folder makes it another file.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::checkout::Checkout;
use super::classify::Owner;

/// A path with `/` between its parts, and without `.` and `..` where they can be resolved.
pub(super) fn clean(path: &str) -> Cow<'_, str> {
    // Behind a leading `/`, which is not of Windows, `\` is a character of a name or escapes what is not UTF-8.
    let is_of_windows = path.contains('\\') && !path.starts_with('/');
    let is_clean = !is_of_windows && !path.contains("/./") && !path.contains("/../") && !path.contains("//");
    if is_clean && !path.starts_with("./") {
        return Cow::Borrowed(path);
    }
    let path = if is_of_windows { Cow::Owned(path.replace('\\', "/")) } else { Cow::Borrowed(path) };
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
        let at = path.rfind(folder)?;
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
    let at = path.find("/Lib/").or_else(|| path.find("/lib/"))?;
    path[..at].contains(':').then(|| &path[at + "/Lib/".len()..])
}

/// True if a character may be part of a Python version number, such as `.13t` of a build without the lock.
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
pub(super) fn is_absolute(path: &str) -> bool {
    path.starts_with('/') || path.as_bytes().get(1) == Some(&b':')
}

/// The path of code that is not the user's, without its environment.
fn normal_form(path: &str) -> &str {
    folded(path).or_else(|| installed(path)).or_else(|| standard_library(path)).unwrap_or(path)
}

/// The beginnings of paths that the user wants to see stripped, the longest first.
pub(super) struct Prefixes(Vec<String>);

impl Prefixes {
    pub(super) fn new(prefixes: &[String]) -> Self {
        let mut prefixes: Vec<_> = prefixes.iter().map(|prefix| with_slash(&clean(prefix))).collect();
        prefixes.sort_by_key(|prefix| (std::cmp::Reverse(prefix.len()), prefix.clone()));
        Self(prefixes)
    }

    /// The rest of a path behind a prefix.
    pub(super) fn stripped<'p>(&self, path: &'p str) -> Option<&'p str> {
        self.0.iter().find_map(|prefix| path.strip_prefix(prefix.as_str()))
    }
}

/// The names of files in one snapshot.
#[derive(Debug)]
pub(super) struct FileNames {
    /// Those of the user's files, as people see them.
    shown: BTreeMap<String, String>,
    /// The lengths of the ends by which the user's files are compared.
    suffixes: BTreeMap<String, usize>,
    checkout: Checkout,
}

impl FileNames {
    /// From all clean paths of the user's files.
    pub(super) fn new(files: &BTreeSet<&str>, prefixes: &Prefixes, checkout: &Checkout) -> Self {
        let suffixes = unique_suffixes(files);
        let mut shown = shown(files, checkout, &suffixes);
        let stripped = files.iter().filter_map(|path| Some(((*path).to_owned(), prefixes.stripped(path)?.to_owned())));
        shown.extend(stripped);
        Self { shown, suffixes, checkout: checkout.clone() }
    }

    /// The path as people see it: of the user's code that is installed, its source in the checkout.
    pub(super) fn shown(&self, path: &str, owner: Owner) -> String {
        let known = self.shown.get(path).cloned().or_else(|| {
            let name = installed(path).filter(|_| owner == Owner::User)?;
            self.checkout.of_installed(name)
        });
        known.unwrap_or_else(|| normal_form(path).to_owned())
    }

    /// The path as it is compared.
    pub(super) fn compared<'p>(&self, path: &'p str) -> &'p str {
        self.suffixes.get(path).map_or_else(|| normal_form(path), |length| &path[path.len() - length..])
    }
}

/// The names of files: their paths from the root of the checkout, cells by their numbers, and else the path from the
/// folder of their package on.
fn shown(files: &BTreeSet<&str>, checkout: &Checkout, suffixes: &BTreeMap<String, usize>) -> BTreeMap<String, String> {
    let mut shown = BTreeMap::new();
    let plain: BTreeSet<&str> = files.iter().copied().filter(|path| cell(path).is_none()).collect();
    let placed = checkout.place(&plain);
    let taken: BTreeSet<&str> = placed.values().map(String::as_str).collect();
    let elsewhere: Vec<&str> = plain.iter().copied().filter(|path| !placed.contains_key(path)).collect();
    let absolute = elsewhere.iter().copied().filter(|path| is_absolute(path));
    let folders: BTreeSet<&str> = absolute.filter_map(folder).collect();
    for path in elsewhere {
        let of_package = topmost(path, &folders).map_or(path, |folder| &path[folder.len() + 1..]);
        let unique = &path[path.len() - suffixes.get(path).copied().unwrap_or(path.len())..];
        let name = if unique.len() > of_package.len() { unique } else { of_package };
        shown.insert(path.to_owned(), if taken.contains(name) { path } else { name }.to_owned());
    }
    shown.extend(placed.iter().map(|(path, there)| ((*path).to_owned(), there.clone())));
    shown.extend(files.iter().filter_map(|path| Some(((*path).to_owned(), cell(path)?))));
    shown
}

/// The folder of a file; none directly below the root or a drive.
fn folder(path: &str) -> Option<&str> {
    let folder = &path[..path.rfind('/')?];
    (!folder.is_empty() && !folder.ends_with(':')).then_some(folder)
}

/// The topmost of the folders that contain a file. User code below one folder that contains a file itself is a package:
/// code beside it changes none of its names.
fn topmost<'p>(path: &'p str, folders: &BTreeSet<&str>) -> Option<&'p str> {
    path.match_indices('/').map(|(at, _)| &path[..at]).find(|folder| folders.contains(folder))
}

fn with_slash(path: &str) -> String {
    if path.is_empty() || path.ends_with('/') { path.to_owned() } else { format!("{path}/") }
}

/// The name of a cell of a notebook: `cell [12]`, with the notebook where the path has it. Kernels name cells by a
/// digest of their text, and only some by their number.
pub(super) fn cell(path: &str) -> Option<String> {
    let file = file_name(path);
    if let Some((notebook, rest)) = file.split_once(".ipynb") {
        let number = digits(rest.trim_start_matches(|c: char| !c.is_ascii_digit()))?;
        return Some(format!("{notebook}.ipynb cell [{number}]"));
    }
    if path.contains("/ipykernel_") {
        return Some(format!("cell {}", file.strip_suffix(".py").unwrap_or(file)));
    }
    let numbered = file.trim_start_matches('<').strip_prefix("ipython-input-");
    let number =
        digits(numbered.or_else(|| path.strip_prefix("Cell In[")).or_else(|| path.strip_prefix("Cell In ["))?)?;
    Some(format!("cell [{number}]"))
}

/// The digits that a text begins with.
fn digits(text: &str) -> Option<&str> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    (end > 0).then(|| &text[..end])
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
        assert_eq!(clean(r"/home/me/./caf\xe9.py"), r"/home/me/caf\xe9.py");
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

    fn names(files: &[&str], prefixes: &[&str]) -> FileNames {
        let prefixes: Vec<String> = prefixes.iter().map(|&prefix| prefix.to_owned()).collect();
        FileNames::new(&files.iter().copied().collect(), &Prefixes::new(&prefixes), &Checkout::default())
    }

    #[test]
    fn people_see_paths_from_the_folder_of_the_package_on() {
        let files = ["/home/me/repo/train.py", "/home/me/repo/net/model.py"];
        let alone = names(&files, &[]);
        assert_eq!(alone.shown(files[0], Owner::User), "train.py");
        assert_eq!(alone.shown(files[1], Owner::User), "net/model.py");
        // Code beside it leaves these names as they are.
        let shared = "/home/me/shared/util.py";
        let beside = names(&[files[0], files[1], shared, "/opt/x.py", "z.py", "/y.py"], &[]);
        assert_eq!(files.map(|file| beside.shown(file, Owner::User)), files.map(|file| alone.shown(file, Owner::User)));
        assert_eq!(
            ["z.py", "/opt/x.py", "/y.py", shared].map(|file| beside.shown(file, Owner::User)),
            ["z.py", "x.py", "/y.py", "util.py"]
        );
        // Files with the same name are distinguished.
        let twice = names(&["/home/a/x.py", "/home/b/x.py"], &[]);
        assert_eq!(twice.shown("/home/a/x.py", Owner::User), "a/x.py");
        let stripped = names(&files, &["/home/me", "/home/me/repo/net"]);
        assert_eq!(stripped.shown(files[1], Owner::User), "model.py");
        assert_eq!(stripped.shown(files[0], Owner::User), "repo/train.py");
    }

    #[test]
    fn people_see_paths_from_the_root_of_the_checkout_on() {
        let checkout = Checkout::new("/ci/repo", || vec!["src/ourlib/model.py".to_owned(), "util.py".to_owned()]);
        let files = BTreeSet::from(["/gpu/repo/src/ourlib/model.py", "/gpu/repo/gone.py", "/gpu/shared/util.py"]);
        let names = FileNames::new(&files, &Prefixes::new(&[]), &checkout);
        assert_eq!(names.shown("/gpu/repo/src/ourlib/model.py", Owner::User), "src/ourlib/model.py");
        assert_eq!(names.shown("/gpu/repo/gone.py", Owner::User), "gone.py");
        assert_eq!(names.shown("/gpu/shared/util.py", Owner::User), "util.py");
        let files = BTreeSet::from(["/gpu/repo/src/ourlib/model.py", "/gpu/repo/util.py", "/gpu/shared/util.py"]);
        let names = FileNames::new(&files, &Prefixes::new(&[]), &checkout);
        assert_eq!(names.shown("/gpu/shared/util.py", Owner::User), "shared/util.py");
    }

    #[test]
    fn cells_have_numbers() {
        for (path, name) in [
            ("/tmp/ipykernel_114/3105878423.py", Some("cell 3105878423")),
            ("<ipython-input-12-0a1b2c>", Some("cell [12]")),
            ("/tmp/ipython-input-3-99.py", Some("cell [3]")),
            ("Cell In[7]", Some("cell [7]")),
            ("/home/me/train.ipynb Cell 12", Some("train.ipynb cell [12]")),
            ("/home/me/train.ipynb", None),
            ("/home/me/train.py", None),
            ("<string>", None),
        ] {
            assert_eq!(cell(path).as_deref(), name, "{path}");
        }
    }

    #[test]
    fn files_are_compared_by_the_shortest_end_that_is_theirs_alone() {
        let files = BTreeSet::from(["/r/a/model.py", "/r/b/model.py", "/r/train.py", "model.py"]);
        let names = FileNames::new(&files, &Prefixes::new(&[]), &Checkout::default());
        assert_eq!(names.compared("/r/a/model.py"), "a/model.py");
        assert_eq!(names.compared("/r/b/model.py"), "b/model.py");
        assert_eq!(names.compared("/r/train.py"), "train.py");
        assert_eq!(names.compared("model.py"), "model.py");
    }
}
