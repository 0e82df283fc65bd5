//! What the frames of one snapshot say: whose code they are, what they are called, and which of them tell
//! one stack from another.

use std::borrow::Cow;
use std::collections::BTreeSet;

use rustc_hash::FxHashMap;
use sha1::{Digest as _, Sha1};

use super::classify::{Owner, PassThrough, Place};
use super::operator::{Operation, Symbol};
use super::path::{Names, clean, file_name, folded, installed, standard_library};
use super::rules::Rules;
use crate::pattern::Pattern;
use crate::snapshot::{Frame, FrameId, StackId, StringId, Tables};

/// A SHA-1: the same on every machine and in every release.
pub type Digest = [u8; 20];

pub(super) fn sha1(parts: &[&[u8]]) -> Digest {
    let mut hash = Sha1::new();
    for part in parts {
        hash.update(part);
    }
    hash.finalize().into()
}

/// A file of the snapshot.
#[derive(Debug)]
struct File<'t> {
    /// Its path with `/` between the parts.
    path: Cow<'t, str>,
    /// As people see it.
    shown: String,
    /// A digest of its normal form.
    digest: Digest,
    /// A digest of its last part.
    base: Digest,
    /// Its functions that only pass calls on.
    passes_through: PassThrough,
}

/// What is known of a frame.
#[derive(Debug)]
struct Known<'t> {
    owner: Owner,
    /// Whether it only passes calls on.
    passes_through: bool,
    /// Index into the files.
    file: usize,
    /// What a C++ frame says about the operation.
    symbol: Symbol<'t>,
    /// The function and its file, without the line.
    token: Token,
    /// The line, where it is one: PyTorch writes -1 and 2^64-1 for "unknown".
    line: Option<u32>,
    /// Index of the first category of the user that the frame belongs to.
    category: Option<usize>,
}

/// A function, independent of where its file lies and on which line it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token {
    /// The file in its normal form, as a digest.
    pub(super) file: u64,
    /// The last part of its path, as a digest.
    pub(super) base: u64,
    /// The name of the function, as a digest.
    pub(super) function: u64,
}

impl Token {
    /// From the digests of the file, of its name, and of the function.
    pub(super) fn new(file: &Digest, base: &Digest, function: &Digest) -> Self {
        Self { file: head(file), base: head(base), function: head(function) }
    }
}

/// Functions with the lines on which they call or allocate.
pub type Lines = FxHashMap<Token, BTreeSet<u32>>;

/// The frames of a snapshot.
///
/// What is known of a frame is worked out once: the same few hundred frames make up all stacks, and a long
/// name in a deep stack must not cost its length at every mention.
#[derive(Debug)]
pub struct Code<'t> {
    tables: &'t Tables,
    files: Vec<File<'t>>,
    frames: Vec<Known<'t>>,
    /// Names of the user's categories.
    categories: Vec<String>,
}

pub(super) fn head(digest: &Digest) -> u64 {
    u64::from_le_bytes([digest[0], digest[1], digest[2], digest[3], digest[4], digest[5], digest[6], digest[7]])
}

impl<'t> Code<'t> {
    /// Looks at all frames of a snapshot.
    #[must_use]
    pub fn new(tables: &'t Tables, rules: &Rules) -> Self {
        let mut numbers: FxHashMap<StringId, usize> = FxHashMap::default();
        let mut paths = Vec::new();
        let number = |frame: &Frame| {
            *numbers.entry(frame.filename).or_insert_with(|| {
                paths.push(clean(tables.string(frame.filename)));
                paths.len() - 1
            })
        };
        let file_of: Vec<usize> = tables.frames().iter().map(number).collect();
        let prefixes = Names::new(&BTreeSet::new(), &rules.strip_prefix);
        let one_of = |patterns: &[Pattern], path: &str| patterns.iter().any(|pattern| pattern.matches(path));
        let place = |path: &Cow<'t, str>| {
            let mut place = Place::of(prefixes.stripped(path).unwrap_or(path));
            place.owner = match place.owner {
                _ if one_of(&rules.own, path) => Owner::User,
                Owner::User if one_of(&rules.foreign, path) => Owner::Library,
                owner => owner,
            };
            place
        };
        let places: Vec<Place> = paths.iter().map(place).collect();
        let owner_of = |(frame, &file): (&Frame, &usize)| places[file].owner_of(tables.string(frame.name));
        let owners: Vec<Owner> = tables.frames().iter().zip(&file_of).map(owner_of).collect();
        let users = file_of.iter().zip(&owners).filter(|(_, owner)| **owner == Owner::User);
        let users: BTreeSet<usize> = users.map(|(&file, _)| file).collect();
        let users = users.into_iter().map(|file| &*paths[file]);
        // Installed code keeps the name of its package, whosever it is; it lies nowhere in a checkout.
        let users = users.filter(|path| prefixes.stripped(path).is_some() || installed(path).is_none()).collect();
        let names = Names::new(&users, &rules.strip_prefix);
        let file = |(path, place): (&Cow<'t, str>, &Place)| {
            let (shown, compared) = if users.contains(&**path) {
                (names.shown(path), names.compared(path))
            } else {
                let normal = folded(path).or_else(|| installed(path)).or_else(|| standard_library(path));
                (normal.unwrap_or(path), normal.unwrap_or(path))
            };
            File {
                path: path.clone(),
                shown: shown.to_owned(),
                digest: sha1(&[compared.as_bytes()]),
                base: sha1(&[file_name(compared).as_bytes()]),
                passes_through: PassThrough::of(place.owner, path),
            }
        };
        let files: Vec<_> = paths.iter().zip(&places).map(file).collect();
        let mut functions: FxHashMap<StringId, Digest> = FxHashMap::default();
        let mut symbols: FxHashMap<StringId, Symbol<'t>> = FxHashMap::default();
        let frames = tables.frames().iter().zip(file_of).zip(owners).map(|((frame, file), owner)| {
            let name = tables.string(frame.name);
            // The functions of generated code are numbered as its files are.
            let function = match owner {
                Owner::Generated => sha1(&[]),
                _ => *functions.entry(frame.name).or_insert_with(|| sha1(&[name.as_bytes()])),
            };
            Known {
                owner,
                passes_through: owner != Owner::Cpp && files[file].passes_through.has(name),
                file,
                symbol: match owner {
                    Owner::Cpp => *symbols.entry(frame.name).or_insert_with(|| Symbol::of(name)),
                    _ => Symbol::Noise,
                },
                token: Token::new(&files[file].digest, &files[file].base, &function),
                line: u32::try_from(frame.line)
                    .ok()
                    .filter(|line| owner != Owner::Generated && (1..1 << 31).contains(line)),
                category: None,
            }
        });
        let frames = frames.collect();
        let categories = rules.categories.iter().map(|rule| rule.name.clone()).collect();
        let mut code = Self { tables, files, frames, categories };
        code.categorize(rules);
        code
    }

    /// Finds the category of the user of every frame.
    fn categorize(&mut self, rules: &Rules) {
        if rules.categories.is_empty() {
            return;
        }
        let category = |index: usize| {
            let frame = FrameId::from_index(index);
            // Of C++ frames the operation alone: a saved profile keeps no more of them.
            let operation = self.known(frame).symbol.operation();
            let operator = operation.map(|name| format!("aten::{name}"));
            let text = self.text_at(frame, None);
            let texts: Vec<&str> = if self.owner(frame) == Owner::Cpp {
                operator.as_deref().into_iter().chain(operation).collect()
            } else {
                vec![self.function(frame), self.path(frame), &text]
            };
            rules.categories.iter().position(|rule| rule.matches(&texts))
        };
        let found: Vec<_> = (0..self.frames.len()).map(category).collect();
        for (known, category) in self.frames.iter_mut().zip(found) {
            known.category = category;
        }
    }

    /// The category of the user that a stack belongs to.
    pub(super) fn own_category(&self, stack: StackId) -> Option<&str> {
        let all = self.tables.stack(stack).iter().chain(self.tables.forward(stack));
        let first = all.filter_map(|&frame| self.known(frame).category).min()?;
        self.categories.get(first).map(String::as_str)
    }

    /// For each category of the user, whether it is the first that matches some frame.
    #[must_use]
    pub fn used_categories(&self) -> Vec<bool> {
        let mut used = vec![false; self.categories.len()];
        for category in self.frames.iter().filter_map(|known| known.category) {
            used[category] = true;
        }
        used
    }

    /// The paths of all files, as the patterns of `own` and `foreign` see them.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(|file| &*file.path)
    }

    /// The tables that the frames come from.
    #[must_use]
    pub fn tables(&self) -> &'t Tables {
        self.tables
    }

    fn known(&self, frame: FrameId) -> &Known<'t> {
        &self.frames[frame.index()]
    }

    /// Whose code a frame is.
    #[must_use]
    pub fn owner(&self, frame: FrameId) -> Owner {
        self.known(frame).owner
    }

    /// The function of a frame, without its line.
    #[must_use]
    pub fn token(&self, frame: FrameId) -> Token {
        self.known(frame).token
    }

    /// All functions in Python, with the lines on which they call or allocate.
    #[must_use]
    pub fn lines(&self) -> Lines {
        let mut lines = Lines::default();
        for known in self.frames.iter().filter(|known| known.owner != Owner::Cpp) {
            lines.entry(known.token).or_default().extend(known.line);
        }
        lines
    }

    /// The line of a frame, where the file says one.
    #[must_use]
    pub fn line(&self, frame: FrameId) -> Option<u32> {
        self.known(frame).line
    }

    /// The file of a frame as people see it, as much of it as anybody reads.
    #[must_use]
    pub fn path(&self, frame: FrameId) -> &str {
        super::legible(&self.files[self.known(frame).file].shown)
    }

    /// The file of a frame as it was recorded, with `/` between its parts.
    #[must_use]
    pub fn file(&self, frame: FrameId) -> &str {
        &self.files[self.known(frame).file].path
    }

    /// The files of the user, as they were recorded.
    #[must_use]
    pub fn user_files(&self) -> BTreeSet<&str> {
        let users = self.frames.iter().filter(|known| known.owner == Owner::User);
        users.map(|known| &*self.files[known.file].path).collect()
    }

    /// The innermost frame of the user.
    #[must_use]
    pub fn user_site(&self, stack: StackId) -> Option<FrameId> {
        self.python(stack).find(|&frame| self.owner(frame) == Owner::User)
    }

    /// The function of a frame, as much of it as anybody reads.
    #[must_use]
    pub fn function(&self, frame: FrameId) -> &'t str {
        super::legible(self.tables.string(self.tables.frame(frame).name))
    }

    /// A frame as `function (path:line)`.
    #[must_use]
    pub fn text(&self, frame: FrameId) -> String {
        self.text_at(frame, self.line(frame))
    }

    /// A frame as `function (path:line)`, with another line or without one.
    #[must_use]
    pub fn text_at(&self, frame: FrameId, line: Option<u32>) -> String {
        let line = line.map(|line| format!(":{line}")).unwrap_or_default();
        format!("{} ({}{line})", self.function(frame), self.path(frame))
    }

    /// The Python frames of a stack, innermost first. PyTorch's order holds within a language only. Those of
    /// the forward pass stand in for those of the backward pass, which has none; what generated code was
    /// generated from stands inside of it.
    pub fn python(&self, stack: StackId) -> impl Iterator<Item = FrameId> + Clone + '_ {
        let all = self.tables.stack(stack).iter().chain(self.tables.forward(stack)).copied();
        let all = all.flat_map(|frame| self.tables.frame(frame).original.into_iter().chain([frame]));
        all.filter(|&frame| self.owner(frame) != Owner::Cpp)
    }

    /// The C++ frames of a stack, innermost first.
    pub fn cpp(&self, stack: StackId) -> impl Iterator<Item = FrameId> + Clone + '_ {
        self.tables.stack(stack).iter().copied().filter(|&frame| self.owner(frame) == Owner::Cpp)
    }

    /// The Python frames that tell one stack from another, innermost first: those of the user and of
    /// libraries, and of PyTorch what lies inside all of them. In between, PyTorch only passes calls on, and in
    /// other ways with every release.
    #[must_use]
    pub fn identifying_frames(&self, stack: StackId) -> Vec<FrameId> {
        let mut inside = true;
        let mut identifying = Vec::new();
        for frame in self.python(stack) {
            let known = self.known(frame);
            match known.owner {
                Owner::User | Owner::Library => {
                    inside = false;
                    identifying.push(frame);
                }
                // PyTorch walks nested modules by recursion, as deep as the user nests them.
                _ if inside && !known.passes_through => {
                    let again = identifying.last().is_some_and(|&last| self.token(last) == known.token);
                    identifying.extend((!again).then_some(frame));
                }
                _ => {}
            }
        }
        if identifying.is_empty() { self.python(stack).collect() } else { identifying }
    }

    /// The functions that tell one stack from another, innermost first. Where there is none in Python, and where
    /// those are of the forward pass, what the C++ frames do is among them.
    #[must_use]
    pub fn tokens(&self, stack: StackId) -> Vec<Token> {
        self.tokens_of(stack, &self.identifying_frames(stack))
    }

    /// The same where the identifying frames are known already.
    pub(super) fn tokens_of(&self, stack: StackId, identifying: &[FrameId]) -> Vec<Token> {
        let python = identifying.iter().map(|&frame| self.token(frame));
        if identifying.is_empty() || !self.tables.forward(stack).is_empty() {
            return self.operation(stack).tokens().into_iter().chain(python).collect();
        }
        python.collect()
    }

    /// The frame to blame: the innermost one of the user, else of a library, else of PyTorch, else any.
    #[must_use]
    pub fn site(&self, stack: StackId) -> Option<FrameId> {
        let innermost = |owner: Owner| self.python(stack).find(|&frame| self.owner(frame) == owner);
        let real = innermost(Owner::User).or_else(|| innermost(Owner::Library));
        let real = real.or_else(|| innermost(Owner::PyTorch));
        real.or_else(|| self.python(stack).next())
    }

    /// What the C++ frames of a stack do: all of them where there is no Python, else those inside the
    /// innermost Python frame.
    pub(super) fn operation(&self, stack: StackId) -> Operation<'t> {
        let symbol = |frame: FrameId| self.known(frame).symbol;
        let inside = self.tables.stack(stack).iter().copied().take_while(|&frame| self.owner(frame) == Owner::Cpp);
        let mut operation = Operation::of(inside.map(symbol));
        let engine = |frame| matches!(symbol(frame), Symbol::Engine | Symbol::Node(_));
        operation.backward = operation.backward || self.cpp(stack).any(engine);
        operation
    }

    /// Whether some C++ frame of a stack says so.
    pub(super) fn has_symbol(&self, stack: StackId, holds: impl Fn(Symbol<'t>) -> bool) -> bool {
        self.cpp(stack).any(|frame| holds(self.known(frame).symbol))
    }

    /// What the C++ frames of a stack do, for people: the autograd node, and in it the operator; where there is
    /// neither, and no Python, the function.
    #[must_use]
    pub fn operation_names(&self, stack: StackId) -> Vec<String> {
        let operation = self.operation(stack);
        let operator = operation.operator.map(|operator| format!("aten::{operator}"));
        let mut names: Vec<_> = operation.node.map(str::to_owned).into_iter().chain(operator).collect();
        if names.is_empty() && self.site(stack).is_none() {
            names.extend(operation.function.map(str::to_owned));
        }
        names
    }

    /// All C++ functions of a stack, outermost first.
    #[must_use]
    pub fn cpp_names(&self, stack: StackId) -> Vec<String> {
        let names = self.cpp(stack).map(|frame| super::operator::bare_name(self.function(frame)).to_owned());
        let mut names: Vec<_> = names.collect();
        names.reverse();
        names
    }

    /// The frames of a stack that say something: all in Python, and in C++ the operators and what runs the backward
    /// pass; where there is neither operator nor node, the innermost function. Labels and pairing need no others.
    #[must_use]
    pub fn essential(&self, stack: StackId) -> Vec<FrameId> {
        let mut functions = if self.has_symbol(stack, |symbol| symbol.operation().is_some()) { 0 } else { 1 };
        let mut keep = |&frame: &FrameId| match self.known(frame).symbol {
            _ if self.owner(frame) != Owner::Cpp => true,
            Symbol::Operator(_) | Symbol::Node(_) | Symbol::Engine => true,
            Symbol::Function(_) => std::mem::take(&mut functions) > 0,
            Symbol::Noise => false,
        };
        self.tables.stack(stack).iter().copied().filter(|frame| keep(frame)).collect()
    }

    /// The operators and autograd nodes in a stack, innermost first.
    #[must_use]
    pub fn operator_names(&self, stack: StackId) -> Vec<&'t str> {
        self.cpp(stack).filter_map(|frame| self.known(frame).symbol.operation()).collect()
    }

    /// Whether a stack belongs to the backward pass.
    #[must_use]
    pub fn is_backward(&self, stack: StackId) -> bool {
        self.operation(stack).backward
    }

    pub(super) fn file_digest(&self, frame: FrameId) -> &Digest {
        &self.files[self.known(frame).file].digest
    }
}
