//! The files of one side: of a commit, or of the checkout, with those of submodules that are here. Paths are bytes, as git has them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::ops::Bound;
use std::path::{Path, PathBuf};

use anyhow::Result;
use ptmem_base::text::thousands;

use super::disk::{bytes_of, is_pointer, on_disk, without_returns};
use crate::cli::git::{GitObject, Objects, git, output};

/// The largest file whose text is compared line by line, and whose line ends may differ.
const LARGEST: u64 = 4 << 20;

/// A path from the root, parted by slashes.
type Name = Vec<u8>;

/// Links that one path may lead through.
const MOST_LINKS: usize = 40;

const OUTSIDE: &str = "the link leads out of the repository";
const TOO_MANY_LINKS: &str = "the link leads to itself, or through too many others";
const NOT_HERE: &str = "the submodule is not here: check it out to compare its files";
const NO_OBJECT: &str = "its contents are not here: a partial clone, or a damaged one";
const NO_NAME: &str = "its name cannot be that of a file on this system";

/// The kind of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EntryKind {
    File,
    Link,
    Submodule,
}

#[derive(Debug, Clone)]
struct TreeEntry {
    kind: EntryKind,
    /// The name of the object in the repository; empty for what git does not track.
    id: String,
    /// Whether it is in the checkout, not in the repository alone.
    is_on_disk: bool,
    /// The submodule whose file it is; empty for the repository itself.
    module: Name,
}

/// What is at a path.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PathState {
    Absent,
    File(FileContent),
    /// A link, with its target.
    Link(Vec<u8>),
    Submodule,
    Unreadable(&'static str),
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum FileContent {
    Whole(Vec<u8>),
    /// A large file: the name that git gives to its bytes, and their number.
    Large {
        id: String,
        size: u64,
    },
}

impl PathState {
    /// As the text that a diff shows; `None` where there is nothing.
    pub(super) fn text(&self) -> Option<Vec<u8>> {
        match self {
            Self::Absent | Self::Unreadable(_) => None,
            Self::File(FileContent::Whole(bytes)) if !bytes.contains(&0) => Some(bytes.clone()),
            Self::File(FileContent::Whole(bytes)) => Some(not_shown(bytes.len() as u64, "binary")),
            Self::File(FileContent::Large { id, size }) => Some(not_shown(*size, &format!("object {id:.10}"))),
            Self::Link(target) => Some([b"link to ", &**target].concat()),
            Self::Submodule => Some(b"submodule".to_vec()),
        }
    }
}

fn not_shown(size: u64, of: &str) -> Vec<u8> {
    format!("{} bytes ({of})", thousands(size)).into_bytes()
}

/// The paths that were met, and those that cannot be read.
#[derive(Debug, Default)]
pub(super) struct Met {
    pub(super) paths: BTreeSet<Name>,
    pub(super) unreadable: BTreeMap<Name, &'static str>,
}

/// Where a path leads once links are followed.
pub(super) enum LinkTarget {
    Nowhere,
    File(Name),
    Folder(Name),
}

/// The files of one side.
pub(super) struct FileTree {
    root: PathBuf,
    is_checkout: bool,
    entries: BTreeMap<Name, TreeEntry>,
    /// Submodules that are not here.
    absent: BTreeSet<Name>,
    /// By the submodule that they are of.
    objects: BTreeMap<Name, Objects>,
}

impl FileTree {
    pub(super) fn of_commit(root: &Path, commit: &str) -> Result<Self> {
        let mut tree = Self::new(root, false);
        tree.add_commit(root, commit, b"")?;
        tree.add_submodules();
        Ok(tree)
    }

    /// The checkout: the files that git tracks, and some others by their names or folders.
    pub(super) fn of_checkout(root: &Path, others: &[String]) -> Result<Self> {
        let mut tree = Self::new(root, true);
        tree.add_checkout(root, b"")?;
        let paths: Vec<String> = others.iter().map(|path| format!(":(top,literal,icase){path}")).collect();
        let arguments: Vec<&str> =
            ["ls-files", "--others", "-z", "--"].into_iter().chain(paths.iter().map(String::as_str)).collect();
        let listed = output(&mut git(Some(root)), &arguments)?;
        for path in listed.split(|byte| *byte == 0).filter(|path| !path.is_empty()) {
            let is_link = on_disk(root, path).is_some_and(|path| path.is_symlink());
            let kind = if is_link { EntryKind::Link } else { EntryKind::File };
            let entry = TreeEntry { kind, id: String::new(), is_on_disk: true, module: Name::new() };
            tree.entries.entry(path.to_vec()).or_insert(entry);
        }
        tree.add_submodules();
        Ok(tree)
    }

    fn new(root: &Path, is_checkout: bool) -> Self {
        Self {
            root: root.to_owned(),
            is_checkout,
            entries: BTreeMap::new(),
            absent: BTreeSet::new(),
            objects: BTreeMap::new(),
        }
    }

    /// Adds the files of a commit of the repository in a folder, which is the submodule `module`.
    fn add_commit(&mut self, folder: &Path, commit: &str, module: &[u8]) -> Result<()> {
        let listed = output(&mut git(Some(folder)), &["ls-tree", "-r", "-z", "--full-tree", commit])?;
        for (words, path) in records(&listed) {
            if let [mode, _, id] = words[..] {
                self.add(module, path, mode, id, false);
            }
        }
        Ok(())
    }

    /// Adds the files that the repository in a folder tracks.
    fn add_checkout(&mut self, folder: &Path, module: &[u8]) -> Result<()> {
        let listed = output(&mut git(Some(folder)), &["ls-files", "-t", "--stage", "-z"])?;
        for (words, path) in records(&listed) {
            if let [tag, mode, id, _] = words[..] {
                // A sparse checkout leaves files out that are not removed.
                self.add(module, path, mode, id, tag != "S");
            }
        }
        Ok(())
    }

    fn add(&mut self, module: &[u8], path: &[u8], mode: &str, id: &str, is_on_disk: bool) {
        let kind = match mode {
            "120000" => EntryKind::Link,
            "160000" => EntryKind::Submodule,
            _ => EntryKind::File,
        };
        let entry = TreeEntry { kind, id: id.to_owned(), is_on_disk, module: module.to_vec() };
        self.entries.insert(joined(module, path), entry);
    }

    /// All paths.
    pub(super) fn paths(&self) -> impl Iterator<Item = &[u8]> {
        self.entries.keys().map(Vec::as_slice)
    }

    /// Adds the files of all submodules that are here, also of those within others.
    fn add_submodules(&mut self) {
        let mut waiting = self.submodules(b"");
        while let Some(path) = waiting.pop() {
            if self.is_added(&path) {
                waiting.extend(self.submodules(&path));
            } else {
                self.absent.insert(path);
            }
        }
    }

    /// The submodules below a folder.
    fn submodules(&self, folder: &[u8]) -> Vec<Name> {
        let entries = self.under(folder).filter(|(_, entry)| entry.kind == EntryKind::Submodule);
        entries.map(|(path, _)| path.clone()).collect()
    }

    /// Adds the files of a submodule; false if they are not here.
    fn is_added(&mut self, path: &[u8]) -> bool {
        // Without a repository of its own, git would take the one around it.
        let folder = on_disk(&self.root, path).filter(|folder| !folder.is_symlink() && folder.join(".git").exists());
        let id = self.entries.get(path).map(|entry| entry.id.clone()).unwrap_or_default();
        match folder {
            Some(folder) if self.is_checkout => self.add_checkout(&folder, path).is_ok(),
            Some(folder) => self.add_commit(&folder, &id, path).is_ok(),
            None => false,
        }
    }

    /// Follows a path through links and submodules, and adds each of them to what is met.
    pub(super) fn follow(&mut self, path: &[u8], met: &mut Met) -> Result<LinkTarget> {
        let mut rest: VecDeque<Vec<u8>> = path.split(|byte| *byte == b'/').map(<[u8]>::to_vec).collect();
        let mut own = Name::new();
        let mut links = Vec::new();
        while let Some(part) = rest.pop_front() {
            match &*part {
                b"" | b"." => continue,
                b".." if own.is_empty() => {
                    met.unreadable.extend(links.pop().map(|link| (link, OUTSIDE)));
                    return Ok(LinkTarget::Nowhere);
                }
                b".." => {
                    own.truncate(end_of_folder(&own));
                    continue;
                }
                part => own = joined(&own, part),
            }
            match self.entries.get(&own).map(|entry| entry.kind) {
                Some(EntryKind::Link) => {
                    met.paths.insert(own.clone());
                    let PathState::Link(target) = self.state(&own)? else { return Ok(LinkTarget::File(own)) };
                    links.push(own.clone());
                    if links.len() > MOST_LINKS || is_absolute(&target) {
                        let why = if links.len() > MOST_LINKS { TOO_MANY_LINKS } else { OUTSIDE };
                        met.unreadable.insert(own, why);
                        return Ok(LinkTarget::Nowhere);
                    }
                    own.truncate(end_of_folder(&own));
                    target.rsplit(|byte| *byte == b'/').for_each(|part| rest.push_front(part.to_vec()));
                }
                Some(EntryKind::Submodule) => {
                    met.paths.insert(own.clone());
                    if self.absent.contains(&own) {
                        met.unreadable.insert(own.clone(), NOT_HERE);
                    }
                }
                Some(EntryKind::File) if rest.is_empty() => return Ok(LinkTarget::File(own)),
                Some(EntryKind::File) => return Ok(LinkTarget::Nowhere),
                None => {}
            }
        }
        let is_folder = own.is_empty() || self.under(&own).next().is_some();
        Ok(if is_folder { LinkTarget::Folder(own) } else { LinkTarget::Nowhere })
    }

    /// The entries below a folder, with their paths.
    fn under(&self, folder: &[u8]) -> impl Iterator<Item = (&Name, &TreeEntry)> {
        let begin = if folder.is_empty() { Name::new() } else { joined(folder, b"") };
        let start = begin.clone();
        self.entries
            .range((Bound::Included(start), Bound::Unbounded))
            .take_while(move |(path, _)| path.starts_with(&begin))
    }

    /// The files below a folder by their names from there, and where they are once links are followed. Each folder that links lead
    /// to is looked into once.
    pub(super) fn below(&mut self, folder: &[u8], met: &mut Met) -> Result<BTreeMap<Name, Name>> {
        let mut found = BTreeMap::new();
        let mut seen = BTreeSet::from([folder.to_vec()]);
        let mut folders = VecDeque::from([(Name::new(), folder.to_vec())]);
        while let Some((name, folder)) = folders.pop_front() {
            for submodule in self.submodules(&folder) {
                self.follow(&submodule, met)?;
            }
            let skipped = if folder.is_empty() { 0 } else { folder.len() + 1 };
            let entries: Vec<(Name, EntryKind)> =
                self.under(&folder).map(|(path, entry)| (path.clone(), entry.kind)).collect();
            for (path, kind) in entries {
                let alias = joined(&name, &path[skipped..]);
                match kind {
                    EntryKind::File | EntryKind::Submodule => drop(found.insert(alias, path)),
                    EntryKind::Link => match self.follow(&path, met)? {
                        LinkTarget::File(end) => drop(found.insert(alias, end)),
                        LinkTarget::Folder(end) if seen.insert(end.clone()) => folders.push_back((alias, end)),
                        LinkTarget::Folder(_) | LinkTarget::Nowhere => drop(found.insert(alias, path)),
                    },
                }
            }
        }
        Ok(found)
    }

    /// What is at a path, whose links are not followed.
    pub(super) fn state(&mut self, path: &[u8]) -> Result<PathState> {
        let Some(entry) = self.entries.get(path).cloned() else { return Ok(PathState::Absent) };
        if entry.kind == EntryKind::Submodule {
            return Ok(PathState::Submodule);
        }
        if !entry.is_on_disk {
            return self.object_state(&entry);
        }
        let Some(file) = on_disk(&self.root, path) else { return Ok(PathState::Unreadable(NO_NAME)) };
        let Ok(metadata) = file.symlink_metadata() else { return Ok(PathState::Absent) };
        if metadata.is_symlink() {
            return Ok(fs::read_link(&file)
                .map_or(PathState::Unreadable(NO_NAME), |target| PathState::Link(bytes_of(&target))));
        }
        if !metadata.is_file() {
            return Ok(PathState::Absent);
        }
        self.file_state(&entry, &file, metadata.len())
    }

    fn object(&mut self, entry: &TreeEntry) -> Result<Option<GitObject>> {
        if !self.objects.contains_key(&entry.module) {
            let folder = on_disk(&self.root, &entry.module).unwrap_or_else(|| self.root.clone());
            self.objects.insert(entry.module.clone(), Objects::open(&mut git(Some(&folder)), &[])?);
        }
        match self.objects.get_mut(&entry.module) {
            Some(objects) if !entry.id.is_empty() => objects.read(&entry.id, LARGEST),
            Some(_) | None => Ok(None),
        }
    }

    fn object_state(&mut self, entry: &TreeEntry) -> Result<PathState> {
        Ok(match (self.object(entry)?, entry.kind) {
            (None, _) => PathState::Unreadable(NO_OBJECT),
            (Some(GitObject { bytes: Some(bytes), .. }), EntryKind::Link) => PathState::Link(bytes),
            (Some(GitObject { bytes: Some(bytes), .. }), EntryKind::File | EntryKind::Submodule) => {
                PathState::File(FileContent::Whole(bytes))
            }
            (Some(GitObject { bytes: None, size }), _) => {
                PathState::File(FileContent::Large { id: entry.id.clone(), size })
            }
        })
    }

    /// A file of the checkout: what git keeps of it, if the two are the same but for what git itself writes otherwise.
    fn file_state(&mut self, entry: &TreeEntry, file: &Path, size: u64) -> Result<PathState> {
        let kept = self.object(entry)?;
        if let Some(bytes) = kept.as_ref().and_then(|object| object.bytes.as_deref()) {
            let is_same =
                size <= LARGEST && fs::read(file).is_ok_and(|read| without_returns(&read) == without_returns(bytes));
            if is_same || is_pointer(bytes, size) {
                return self.object_state(entry);
            }
        }
        if size <= LARGEST {
            return Ok(fs::read(file)
                .map_or(PathState::Unreadable(NO_NAME), |bytes| PathState::File(FileContent::Whole(bytes))));
        }
        let mut command = git(Some(&self.root));
        command.stdin(fs::File::open(file)?);
        let id = String::from_utf8_lossy(&output(&mut command, &["hash-object", "--no-filters", "--stdin"])?)
            .trim()
            .to_owned();
        Ok(PathState::File(FileContent::Large { id, size }))
    }
}

/// The words and the path of each record that git ends with a zero.
fn records(listed: &[u8]) -> impl Iterator<Item = (Vec<&str>, &[u8])> {
    listed.split(|byte| *byte == 0).filter_map(|record| {
        let tab = record.iter().position(|byte| *byte == b'\t')?;
        Some((str::from_utf8(&record[..tab]).ok()?.split_whitespace().collect(), &record[tab + 1..]))
    })
}

fn joined(folder: &[u8], path: &[u8]) -> Name {
    if folder.is_empty() { path.to_vec() } else { [folder, b"/", path].concat() }
}

/// Where the folder of a path ends.
fn end_of_folder(path: &[u8]) -> usize {
    path.iter().rposition(|byte| *byte == b'/').unwrap_or(0)
}

fn is_absolute(target: &[u8]) -> bool {
    target.starts_with(b"/") || target.get(1) == Some(&b':')
}
