//! Facts about the frames of one snapshot: their owner, their names, and the digests that identify functions.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use ptmem_base::interner::Interner;
use ptmem_base::pattern::Pattern;
use ptmem_snapshot::snapshot::{Frame, FrameId, FunctionsOfFile, StringId, Tables};
use rustc_hash::FxHashMap;

use super::classify::{Owner, PassThrough, PathFacts};
use super::exact::ExactFrame;
use super::operator::Symbol;
use super::path::{FileNames, Prefixes, cell, clean, file_name, installed};
use super::qualified::FunctionsByName as QualifiedNames;
use super::rules::{CategoryRule, Rules};
use super::token::{Digest, Token, sha1};

/// A file of the snapshot.
#[derive(Debug)]
pub(super) struct SnapshotFile {
    /// Its path with `/` between the parts.
    pub(super) path: String,
    /// As people see it.
    pub(super) shown: String,
    /// A digest of its normal form.
    pub(super) digest: Digest,
    /// A digest of its last part.
    base: Digest,
    /// True for a cell of a notebook.
    pub(super) is_cell: bool,
    /// Its functions that only pass calls on.
    passes_through: PassThrough,
}

impl SnapshotFile {
    fn new(path: &str, owner: Owner, names: &FileNames) -> Self {
        let compared = names.compared(path);
        Self {
            path: path.to_owned(),
            shown: names.shown(path, owner),
            digest: sha1(&[compared.as_bytes()]),
            base: sha1(&[file_name(compared).as_bytes()]),
            is_cell: owner == Owner::User && cell(path).is_some(),
            passes_through: PassThrough::of(owner, path),
        }
    }
}

/// Facts about one frame.
#[derive(Debug)]
pub(super) struct FrameFacts {
    pub(super) owner: Owner,
    /// True for a frame that only passes calls on.
    pub(super) passes_through: bool,
    /// Index into the files.
    pub(super) file: usize,
    /// The action of a C++ frame; `None` in Python.
    pub(super) symbol: Option<Arc<Symbol>>,
    /// The function and its file, without the line. C++ frames are not distinguished by line, and have none.
    pub(super) token: Token,
    /// The qualified name of the function, as an index into those of the facts.
    pub(super) qualified: Option<usize>,
    /// The line, where it is one: PyTorch writes -1 and 2^64-1 for "unknown".
    pub(super) line: Option<u32>,
}

/// The functions that checkpoints compute again, by those that compute them: the only one, if there are no others.
pub(super) type Recomputed = FxHashMap<Token, Option<FrameId>>;

/// Facts about all frames of a snapshot.
///
/// Each is worked out once: the same few hundred frames make up all stacks, and a long name in a deep stack must not
/// cost its length at every mention.
#[derive(Debug)]
pub struct Facts {
    pub(super) files: Vec<SnapshotFile>,
    /// By [`FrameId::index`].
    pub(super) frames: Vec<FrameFacts>,
    /// Qualified names of functions.
    pub(super) qualified: Interner<String>,
    /// The user's categories.
    pub(super) categories: Vec<CategoryRule>,
    /// The index of the first of them that each frame belongs to, once a stack asks for its own.
    pub(super) own_category: OnceLock<Vec<Option<usize>>>,
    /// The functions that checkpoints compute again, once a label asks for them.
    pub(super) recomputed: OnceLock<Recomputed>,
    /// Digests of the frames with their lines, once a device asks for them.
    pub(super) exact: OnceLock<Arc<[ExactFrame]>>,
}

impl Facts {
    /// Looks at all frames.
    pub fn new(tables: &Tables, rules: &Rules, qualified: &[FunctionsOfFile]) -> Self {
        let files = FilesOfFrames::new(tables);
        let prefixes = Prefixes::new(&rules.strip_prefix);
        let places: Vec<PathFacts> = files.paths.iter().map(|path| place(path, &prefixes, rules)).collect();
        let frames = tables.frames().zip(&files.of_frames);
        let owners: Vec<Owner> =
            frames.map(|(frame, &file)| places[file].owner_of(tables.string(frame.name))).collect();
        let names = FileNames::new(&files.of_user(&owners, &prefixes), &prefixes, &rules.checkout);
        let named = files.paths.iter().zip(&places).map(|(path, place)| SnapshotFile::new(path, place.owner, &names));
        let mut facts = Self {
            files: named.collect(),
            frames: Vec::with_capacity(owners.len()),
            qualified: Interner::default(),
            categories: rules.categories.clone(),
            own_category: OnceLock::new(),
            recomputed: OnceLock::new(),
            exact: OnceLock::new(),
        };
        let mut functions = NameFacts::new(tables);
        for ((frame, &file), owner) in tables.frames().zip(&files.of_frames).zip(owners) {
            facts.frames.push(functions.known(frame, owner, file, &facts.files[file]));
        }
        facts.qualify(tables, qualified);
        facts
    }

    /// Gives functions the names that they have within their classes.
    fn qualify(&mut self, tables: &Tables, names: &[FunctionsOfFile]) {
        let names = names.iter().map(|(file, functions)| (file.as_str(), QualifiedNames::new(functions)));
        let names: BTreeMap<&str, QualifiedNames<'_>> = names.collect();
        for (frame, of_frame) in tables.frames().zip(&mut self.frames) {
            let functions = names.get(tables.string(frame.filename)).filter(|_| of_frame.owner != Owner::Generated);
            let Some(name) =
                functions.and_then(|functions| functions.name(written(tables.string(frame.name)), frame.line))
            else {
                continue;
            };
            of_frame.qualified = Some(self.qualified.intern(name, str::to_owned));
            of_frame.token = of_frame.token.qualified(&sha1(&[name.as_bytes()]));
        }
    }
}

/// The name of a function as it is written. torch.compile makes one of the rest of a function behind a break of the graph, and
/// puts the line of the break into its name.
pub(super) fn written(name: &str) -> &str {
    let resumed = name.strip_prefix("torch_dynamo_resume_in_").and_then(|rest| rest.rsplit_once("_at_"));
    resumed.map_or(name, |(function, _)| function)
}

/// The files of the frames of a snapshot.
struct FilesOfFrames<'t> {
    /// Their clean paths, each once.
    paths: Vec<Cow<'t, str>>,
    /// Index into the paths for every frame.
    of_frames: Vec<usize>,
}

impl<'t> FilesOfFrames<'t> {
    fn new(tables: &'t Tables) -> Self {
        let mut files: Interner<StringId> = Interner::default();
        let frames = tables.frames().map(|frame| files.intern(&frame.filename, |file| *file));
        let of_frames = frames.collect();
        Self { paths: files.items().iter().map(|&file| clean(tables.string(file))).collect(), of_frames }
    }

    /// The paths of the user's files inside a checkout. Installed code keeps the name of its package, whoever owns it.
    fn of_user(&self, owners: &[Owner], prefixes: &Prefixes) -> BTreeSet<&str> {
        let frames = self.of_frames.iter().zip(owners).filter(|(_, owner)| **owner == Owner::User);
        let files: BTreeSet<usize> = frames.map(|(&file, _)| file).collect();
        let paths = files.into_iter().map(|file| &*self.paths[file]);
        paths.filter(|path| prefixes.stripped(path).is_some() || installed(path).is_none()).collect()
    }
}

/// The owner of the code in a file, by the rules of the user and those that are built in.
fn place(path: &str, prefixes: &Prefixes, rules: &Rules) -> PathFacts {
    let mut place = PathFacts::of(prefixes.stripped(path).unwrap_or(path));
    place.owner = match place.owner {
        _ if matches_any(&rules.own, path) => Owner::User,
        Owner::Library if !matches_any(&rules.foreign, path) && is_of_checkout(path, rules) => Owner::User,
        Owner::User if matches_any(&rules.foreign, path) => Owner::Library,
        owner => owner,
    };
    place
}

/// True for installed code that the checkout holds as well.
fn is_of_checkout(path: &str, rules: &Rules) -> bool {
    installed(path).is_some_and(|name| rules.checkout.of_installed(name).is_some())
}

fn matches_any(patterns: &[Pattern], path: &str) -> bool {
    patterns.iter().any(|pattern| pattern.matches(path))
}

/// Facts about the names of functions, of which many frames share one.
struct NameFacts<'t> {
    tables: &'t Tables,
    /// Digests of names in Python.
    digests: FxHashMap<StringId, Digest>,
    /// Operations of names in C++.
    symbols: FxHashMap<StringId, Arc<Symbol>>,
}

impl<'t> NameFacts<'t> {
    fn new(tables: &'t Tables) -> Self {
        Self { tables, digests: FxHashMap::default(), symbols: FxHashMap::default() }
    }

    fn digest(&mut self, name: StringId) -> &Digest {
        let tables = self.tables;
        self.digests.entry(name).or_insert_with(|| sha1(&[written(tables.string(name)).as_bytes()]))
    }

    fn symbol(&mut self, name: StringId) -> Arc<Symbol> {
        let tables = self.tables;
        Arc::clone(self.symbols.entry(name).or_insert_with(|| Arc::new(Symbol::of(tables.string(name)))))
    }

    /// The function of a frame, independent of its line.
    fn token(&mut self, frame: &Frame, owner: Owner, file: &SnapshotFile) -> Token {
        match owner {
            Owner::Cpp => Token::default(),
            // The functions of generated code are numbered as its files are.
            Owner::Generated => Token::new(&file.digest, &file.base, &sha1(&[])),
            _ => Token::new(&file.digest, &file.base, self.digest(frame.name)),
        }
    }

    fn known(&mut self, frame: &Frame, owner: Owner, at: usize, file: &SnapshotFile) -> FrameFacts {
        let is_cpp = owner == Owner::Cpp;
        let line = u32::try_from(frame.line).ok();
        FrameFacts {
            owner,
            passes_through: !is_cpp && file.passes_through.has(self.tables.string(frame.name)),
            file: at,
            symbol: is_cpp.then(|| self.symbol(frame.name)),
            token: self.token(frame, owner, file),
            line: line.filter(|line| owner != Owner::Generated && (1..1 << 31).contains(line)),
            qualified: None,
        }
    }
}
