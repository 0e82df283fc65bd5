//! Files that a recording reads of the working tree. A base must read those of its own worktree: where its command names the
//! working tree by an absolute path, it would be recorded with the edits that it is compared with.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use std::{fs, io};

use ptmem::sides::Sides;

use super::super::place::{normal, path_of};
use super::super::words::many;
use super::ignored::ignored_in;

/// The variable for Python's part of the recorder: the working tree, the worktree, the time at which the recording begins, and the
/// file in which it names what the recording reads of the working tree.
pub(super) const VARIABLE: &str = "PTMEM_SIMULATE_WORKING_TREE";

/// That file in the folder of a recording.
pub(super) const NOTES: &str = "working-tree";

/// Maximum number of files that a message names.
const MOST: usize = 3;

/// A base in its worktree.
pub(super) struct OwnTree<'a> {
    /// The root of the working tree.
    working: &'a Path,
    worktree: &'a Path,
    /// What git ignores is in the working tree alone, and is read there.
    ignored: Vec<PathBuf>,
}

impl<'a> OwnTree<'a> {
    pub(super) fn new(working: &'a Path, worktree: &'a Path) -> Self {
        Self { working, worktree, ignored: ignored_in(working) }
    }

    /// A script with its paths into the working tree moved to the worktree, and how many these are.
    pub(super) fn moved(&self, script: &str) -> (String, usize) {
        let root = self.working.to_string_lossy();
        let mut moved = String::new();
        let mut copied = 0;
        let mut count = 0;
        for (start, found) in script.match_indices(&*root) {
            let end = start + found.len();
            let (_, quote) = unquoted(&script[..start], None, |_| false);
            let rest = &script[end..];
            // Within quotes, spaces are of the path, or between the words of another script.
            let paths =
                [unquoted(rest, quote, ends_path).0, rest[..rest.find(ends_path).unwrap_or(rest.len())].to_owned()];
            let is_whole = !script[..start].ends_with(is_of_path) && (paths[1].is_empty() || rest.starts_with('/'));
            let below = paths.map(|path| normal(Path::new(path.trim_start_matches('/'))));
            if is_whole && !below.iter().any(|below| self.is_of_working_tree_alone(below)) {
                moved.push_str(&script[copied..start]);
                moved.push_str(&quoted(&self.worktree.to_string_lossy(), quote));
                copied = end;
                count += 1;
            }
        }
        moved.push_str(&script[copied..]);
        (moved, count)
    }

    /// Why a recording is not one of the base: it read files of the working tree that are other ones there. `None` if it is.
    pub(super) fn objection(&self, notes: &Path) -> Option<String> {
        let Ok(read) = read(notes) else {
            return Some("which files of the working tree it read is not known: it could not note them".to_owned());
        };
        let of_working = read.iter().filter(|path| !path.starts_with(self.worktree));
        let mut others: Vec<&Path> = of_working.filter_map(|path| self.other_file(path)).collect();
        (!others.is_empty()).then(|| {
            let named = named(&mut others);
            format!("it read files of the working tree that differ from those of the base ({named}): name them by relative paths")
        })
    }

    /// A file of the working tree from its root, if it is not that of the base and git does not ignore it.
    fn other_file<'p>(&self, path: &'p Path) -> Option<&'p Path> {
        let below =
            path.strip_prefix(self.working).ok().filter(|below| !self.is_ignored(below) && !is_of_package(below))?;
        (fs::read(path).ok() != fs::read(self.worktree.join(below)).ok()).then_some(below)
    }

    /// True for what the base has no own one of, such as an environment.
    fn is_of_working_tree_alone(&self, below: &Path) -> bool {
        self.is_ignored(below) || self.working.join(below).exists() && !self.worktree.join(below).exists()
    }

    fn is_ignored(&self, below: &Path) -> bool {
        self.ignored.iter().any(|entry| below.starts_with(entry))
    }
}

/// The value of the variable. The recording of the working tree has no other worktree.
pub(super) fn watched(working: &Path, worktree: Option<&Path>, notes: &Path) -> String {
    let began = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    let worktree = worktree.unwrap_or(Path::new("")).display();
    format!("{}\n{worktree}\n{began}\n{}", working.display(), notes.display())
}

/// Names what only the recording of the working tree read, because git ignores it, such as the checkpoint of an earlier run.
pub(super) fn read_by_after_alone(working: &Path, worktree: &Path, notes: &Sides<PathBuf>) -> Option<String> {
    let Sides { before, after } = notes.map(|notes| read(notes).unwrap_or_default());
    let ignored = ignored_in(working);
    let before: BTreeSet<&Path> = before.iter().filter_map(|path| below_either(path, worktree, working)).collect();
    let below = after.iter().filter_map(|path| path.strip_prefix(working).ok()).filter(|path| !before.contains(path));
    let mut alone: Vec<&Path> =
        below.filter(|path| ignored.iter().any(|entry| path.starts_with(entry)) && !is_of_package(path)).collect();
    (!alone.is_empty()).then(|| named(&mut alone))
}

/// A path from the first of two folders that it lies in.
fn below_either<'a>(path: &'a Path, first: &Path, second: &Path) -> Option<&'a Path> {
    path.strip_prefix(first).or_else(|_| path.strip_prefix(second)).ok()
}

/// True for what is known of an installed package, which a program reads to find others.
fn is_of_package(path: &Path) -> bool {
    let is_its_folder = |part: &str| [".egg-info", ".dist-info", "site-packages"].iter().any(|end| part.ends_with(end));
    path.iter().map(OsStr::to_string_lossy).any(|part| is_its_folder(&part))
}

/// The files that a recording read. It leaves a mark where it could not note one.
fn read(notes: &Path) -> io::Result<BTreeSet<PathBuf>> {
    if notes.with_extension("failed").exists() {
        return Err(io::Error::other("a file could not be noted"));
    }
    let bytes = match fs::read(notes) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        read => read?,
    };
    let names = bytes.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    Ok(names.filter_map(path_of).map(Path::to_owned).collect())
}

/// Paths in words, cut to a few.
fn named(paths: &mut Vec<&Path>) -> String {
    let more = paths.len().saturating_sub(MOST);
    paths.truncate(MOST);
    let named: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    named.join(", ") + &if more > 0 { format!(" and {}", many(more, "more file")) } else { String::new() }
}

/// What a shell makes of a text that begins within a quote, or outside of any, up to a character outside of quotes that ends it; and
/// the quote that is open there.
fn unquoted(text: &str, mut quote: Option<char>, ends: fn(char) -> bool) -> (String, Option<char>) {
    let mut word = String::new();
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match quote {
            Some(open) if character == open => quote = None,
            None if "'\"".contains(character) => quote = Some(character),
            _ if character == '\\' && quote != Some('\'') => word.extend(characters.next()),
            None if ends(character) => break,
            _ => word.push(character),
        }
    }
    (word, quote)
}

/// A path as a script names it, within a quote or outside of any.
fn quoted(path: &str, quote: Option<char>) -> String {
    if path.chars().all(|character| is_of_path(character) || "+@".contains(character)) {
        return path.to_owned();
    }
    let path = path.replace('\'', r"'\''");
    let quote = quote.map(String::from).unwrap_or_default();
    format!("{quote}'{path}'{quote}")
}

/// True for a character that a path in a script ends before.
fn ends_path(character: char) -> bool {
    character.is_whitespace() || "'\"`;:,&|()<>=$".contains(character)
}

/// True for a character before a slash that makes it no beginning of an absolute path.
fn is_of_path(character: char) -> bool {
    character.is_alphanumeric() || "/._-".contains(character)
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    #[test]
    fn paths_of_a_script_are_moved_unless_git_ignores_them() {
        let tree =
            OwnTree { working: Path::new("/code"), worktree: Path::new("/base"), ignored: vec![PathBuf::from("data")] };
        for (script, moved, count) in [
            ("python /code/t.py --config=/code/c.json", "python /base/t.py --config=/base/c.json", 2),
            ("cd '/code' && python t.py", "cd '/base' && python t.py", 1),
            ("python t.py /code/data/x.bin /code/data", "python t.py /code/data/x.bin /code/data", 0),
            ("python /code2/t.py /my/code/t.py", "python /code2/t.py /my/code/t.py", 0),
        ] {
            assert_eq!(tree.moved(script), (moved.to_owned(), count), "{script}");
        }
    }

    #[test]
    fn paths_with_spaces_are_moved_as_a_shell_reads_them() {
        let ignored = vec![PathBuf::from("my data")];
        let tree = OwnTree { working: Path::new("/code"), worktree: Path::new("/b t"), ignored };
        for (script, moved) in [
            (r#"python '/code/my data/w' /code/my\ data/w "/code/my data""#, None),
            ("python /code/'my data'/w", None),
            ("python /code/t.py", Some("python '/b t'/t.py")),
            ("python '/code/my file'", Some("python '''/b t''/my file'")),
            (r#"python "/code/$1""#, Some(r#"python ""'/b t'"/$1""#)),
            (r"echo don\'t; bash /code/t.sh", Some(r"echo don\'t; bash '/b t'/t.sh")),
        ] {
            assert_eq!(tree.moved(script).0, moved.unwrap_or(script), "{script}");
        }
    }

    /// A program that looks for installed packages reads what is known of each.
    #[test]
    fn metadata_of_packages_are_no_files_of_a_base() {
        let [working, worktree] = [TempDir::new().unwrap(), TempDir::new().unwrap()];
        let tree = OwnTree { working: working.path(), worktree: worktree.path(), ignored: Vec::new() };
        fs::write(working.path().join("c.json"), "").unwrap();
        for (below, is_other) in [("c.json", true), ("my.egg-info/c.json", false), ("my-1.dist-info/c.json", false)] {
            let path = working.path().join(below);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "").unwrap();
            assert_eq!(tree.other_file(&path).is_some(), is_other, "{below}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn names_are_any_bytes_and_failed_notes_are_an_objection() {
        use std::os::unix::ffi::OsStrExt as _;

        let [working, worktree] = [TempDir::new().unwrap(), TempDir::new().unwrap()];
        let tree = OwnTree { working: working.path(), worktree: worktree.path(), ignored: Vec::new() };
        let notes = worktree.path().join(NOTES);
        assert_eq!(tree.objection(&notes), None);
        let file = working.path().join("c.json");
        fs::write(&file, "").unwrap();
        fs::write(&notes, [b"/\xff\0", file.as_os_str().as_bytes(), b"\0"].concat()).unwrap();
        assert!(tree.objection(&notes).unwrap().contains("(c.json)"));
        fs::write(&notes, "").unwrap();
        assert_eq!(tree.objection(&notes), None);
        fs::write(notes.with_extension("failed"), "").unwrap();
        assert!(tree.objection(&notes).unwrap().contains("not known"));
    }
}
