//! Lines of the source that reports show. A frame of a snapshot names any file it likes, and a report may be read by anybody, so
//! this decides what is read: files of code, regular, below the root of the checkout and no part of `.git`, which the commit
//! that is checked out has with the same text. Whoever asks for the source also sees lines that are not committed yet, and those
//! of a folder without a repository.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use super::checkout::{LARGEST, part};
use super::output::print_note;
use super::place::StartFolder;
use super::{checkout, git};

/// The endings of the files that are read.
const ENDINGS: [&str; 3] = ["py", "pyx", "ipynb"];

/// The most bytes of source that are kept.
const MOST: usize = 16 << 20;

/// A file of the checkout.
struct CheckoutFile {
    /// The path from the root of the checkout that leads to it.
    path: String,
    /// Its path from there without links.
    resolved: String,
    text: String,
}

/// The lines of files of the checkout, by their paths from its root. Omitted files do not appear in reports: these are also those
/// that were others at `commits`, those of the recordings, whose lines have other numbers here.
pub(super) fn read<'p>(
    place: &StartFolder,
    paths: impl Iterator<Item = &'p str>,
    commits: &BTreeSet<&str>,
    is_asked_for: bool,
) -> BTreeMap<String, Vec<String>> {
    let Ok(root) = fs::canonicalize(checkout::root(place)) else { return BTreeMap::new() };
    let mut sources = Vec::new();
    let mut bytes = 0;
    for path in paths {
        let Some(source) = CheckoutFile::read(&root, path).filter(|source| bytes + source.text.len() <= MOST) else {
            continue;
        };
        bytes += source.text.len();
        sources.push(source);
    }
    if sources.is_empty() {
        return BTreeMap::new();
    }
    let resolved = sources.iter().map(|source| source.resolved.as_str());
    let recorded = git::texts_of_recordings(place, commits, resolved);
    let (same, others): (Vec<_>, Vec<_>) =
        sources.iter().partition(|source| recorded.iter().all(|texts| source.is_in(texts)));
    if let Some(first) = others.first().filter(|_| is_asked_for) {
        let more = if others.len() > 1 { format!(" and {} more files", others.len() - 1) } else { String::new() };
        print_note(&format!(
            "the source of {}{more} is left out: git does not have it like that at the recorded commit",
            first.path
        ));
    }
    let committed = git::texts_at(place, None, sources.iter().map(|source| source.resolved.as_str()));
    let shown = same.into_iter().filter(|source| match &committed {
        Some(texts) if is_asked_for => texts.contains_key(source.resolved.as_str()),
        Some(texts) => source.is_in(texts),
        None => is_asked_for,
    });
    shown.map(|source| (source.path.clone(), source.text.lines().map(str::to_owned).collect())).collect()
}

impl CheckoutFile {
    /// Reads a file, unless it is one that is never read.
    fn read(root: &Path, path: &str) -> Option<Self> {
        let file = fs::canonicalize(root.join(path)).ok()?;
        let resolved = path_of_code(file.strip_prefix(root).ok()?)?;
        let is_small = file.metadata().is_ok_and(|there| there.is_file() && there.len() <= LARGEST);
        let text = is_small.then(|| fs::read_to_string(file).ok()).flatten()?;
        Some(Self { path: path.to_owned(), resolved, text })
    }

    /// Whether it has the same lines in a commit with these texts. The ends of lines may differ.
    fn is_in(&self, texts: &BTreeMap<&str, String>) -> bool {
        texts.get(self.resolved.as_str()).is_some_and(|text| text.lines().eq(self.text.lines()))
    }
}

/// The path, with slashes, of a code file outside of `.git`.
fn path_of_code(path: &Path) -> Option<String> {
    let ending = path.extension()?.to_str()?;
    let parts: Option<Vec<&str>> = path.components().map(part).collect();
    ENDINGS.contains(&ending).then_some(parts?.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn only_small_regular_files_of_code_below_the_root_are_read() {
        use std::os::unix::fs::symlink;

        let folder = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(folder.path()).unwrap();
        let repository = root.join("repository");
        for path in ["repository/.git/hooks", "repository/a/.git"] {
            fs::create_dir_all(root.join(path)).unwrap();
        }
        fs::write(root.join("secret.py"), "secret").unwrap();
        for path in
            ["here.py", "here.pyx", "here.ipynb", ".env", "here.sh", ".git/config", ".git/hooks/a.py", "a/.git/b.py"]
        {
            fs::write(repository.join(path), "x = 1").unwrap();
        }
        fs::write(repository.join("large.py"), vec![b' '; (1 << 20) + 1]).unwrap();
        fs::write(repository.join("binary.py"), [0xff, 0xfe]).unwrap();
        for (link, to) in [
            ("out.py", "../secret.py"),
            ("within.py", "here.py"),
            ("config.py", ".git/config"),
            ("hook.py", ".git/hooks/a.py"),
            ("folder", ".git/hooks"),
            ("env.py", ".env"),
            ("device.py", "/dev/zero"),
        ] {
            symlink(to, repository.join(link)).unwrap();
        }
        for (path, resolved) in
            [("here.py", "here.py"), ("here.pyx", "here.pyx"), ("here.ipynb", "here.ipynb"), ("within.py", "here.py")]
        {
            let source = CheckoutFile::read(&repository, path).unwrap();
            assert_eq!((source.resolved.as_str(), source.text.as_str()), (resolved, "x = 1"), "{path}");
        }
        for path in [
            "../secret.py",
            "large.py",
            "binary.py",
            "gone.py",
            ".",
            ".env",
            "here.sh",
            ".git/config",
            ".git/hooks/a.py",
            "a/.git/b.py",
            "out.py",
            "config.py",
            "hook.py",
            "folder/a.py",
            "env.py",
            "device.py",
            "/etc/passwd",
        ] {
            assert!(CheckoutFile::read(&repository, path).is_none(), "{path}");
        }
    }
}
