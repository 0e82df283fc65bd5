//! The identity of call stacks across code changes, and their names.
//!
//! Snapshots of two commits never hold equal stacks: lines move, functions are renamed, checkouts lie
//! elsewhere, C++ text changes with the compiler. So stacks are put into groups by a key that keeps what
//! identifies the code and drops the rest; what has no equal on the other side is paired by similarity; and
//! every group has a label that names the line of the user's code.

mod category;
mod checkout;
mod classify;
mod code;
mod facts;
mod find;
mod label;
mod more;
mod operator;
mod order;
mod pairing;
mod path;
mod rules;

use std::fmt;
use std::sync::OnceLock;

use sha1::{Digest as _, Sha1};

pub use category::CATEGORIES;
pub use checkout::Checkout;
pub use classify::Owner;
pub use code::{Code, Digest, Lines, Token};
pub use facts::Facts;
pub use label::distinct_labels;
pub use more::{Label, More, without_more};
pub use order::{InOrder, pair_in_order};
pub use pairing::{Figures, Group, pair};
pub use rules::{CategoryRule, Rules};

use crate::snapshot::{Frame, FrameId, StackId, StringId, Tables, Tags};
use crate::text::cut;
use code::sha1;

/// The rule for stacks that count as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum GroupBy {
    /// Every frame with its line, exactly as recorded.
    Frames,
    /// Python frames without line numbers; without Python frames, the C++ operator.
    #[default]
    Stack,
    /// The line of the innermost frame of the user.
    Line,
    /// The function of the innermost frame of the user.
    Function,
    /// The file of the innermost frame of the user.
    File,
    /// The purpose of the memory.
    Category,
    /// `user_metadata` of the allocation.
    Metadata,
    /// `compile_context` of the allocation.
    CompileContext,
    /// The innermost annotation (`record_function`) that was open at the allocation.
    Annotation,
    /// The pool that the memory is from, and its stream.
    Pool,
}

impl GroupBy {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Frames,
        Self::Stack,
        Self::Line,
        Self::Function,
        Self::File,
        Self::Category,
        Self::Metadata,
        Self::CompileContext,
        Self::Annotation,
        Self::Pool,
    ];

    /// Its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Frames => "frames",
            Self::Stack => "stack",
            Self::Line => "line",
            Self::Function => "function",
            Self::File => "file",
            Self::Category => "category",
            Self::Metadata => "metadata",
            Self::CompileContext => "compile-context",
            Self::Annotation => "annotation",
            Self::Pool => "pool",
        }
    }

    /// The word for a group.
    #[must_use]
    pub fn noun(self) -> &'static str {
        match self {
            Self::Frames | Self::Stack => "stack",
            Self::CompileContext => "region",
            by => by.name(),
        }
    }

    /// The word for several groups.
    #[must_use]
    pub fn plural(self) -> &'static str {
        match self {
            Self::Frames | Self::Stack => "stacks",
            Self::Line => "lines",
            Self::Function => "functions",
            Self::File => "files",
            Self::Category => "categories",
            Self::Metadata => "metadata",
            Self::CompileContext => "regions",
            Self::Annotation => "annotations",
            Self::Pool => "pools",
        }
    }

    /// True for groups that are places in the code, which a change to it can move. The others go by their name.
    #[must_use]
    pub fn is_place(self) -> bool {
        !matches!(self, Self::Category) && !self.is_tag()
    }

    /// The tag of an allocation that it groups by.
    #[must_use]
    pub fn tag(self, tags: &Tags) -> Option<StringId> {
        match self {
            Self::Metadata => tags.user_metadata,
            Self::CompileContext => tags.compile_context,
            _ => None,
        }
    }

    /// True for groups that go by names which no tag of an event states, and which saved profiles do not keep.
    #[must_use]
    pub fn is_origin(self) -> bool {
        matches!(self, Self::Annotation | Self::Pool)
    }

    /// True for groups that go by tags of allocations, not by stacks.
    #[must_use]
    pub fn is_tag(self) -> bool {
        matches!(self, Self::Metadata | Self::CompileContext) || self.is_origin()
    }
}

impl fmt::Display for GroupBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The identity of a group of stacks: a SHA-1 in hexadecimal, the same on every machine.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(pub String);

impl Key {
    fn of(digest: Digest) -> Self {
        let halves = digest.into_iter().flat_map(|byte| [byte >> 4, byte & 15]);
        Self(halves.filter_map(|half| char::from_digit(half.into(), 16)).collect())
    }

    /// The key of a name of some kind.
    fn of_name(kind: &str, name: &str) -> Self {
        Self::of(sha1(&[kind.as_bytes(), b"\0", name.as_bytes()]))
    }
}

/// Gives the stacks of one snapshot their keys and labels.
#[derive(Debug)]
pub struct Grouper<'t> {
    by: GroupBy,
    code: Code<'t>,
    /// For [`GroupBy::Frames`].
    exact: Option<ExactKeys<'t>>,
}

impl<'t> Grouper<'t> {
    /// Prepares the frames of a snapshot.
    #[must_use]
    pub fn new(tables: &'t Tables, by: GroupBy, rules: &Rules) -> Self {
        Self::of(Code::new(tables, rules), by)
    }

    /// The same where the frames are known already.
    #[must_use]
    pub fn of(code: Code<'t>, by: GroupBy) -> Self {
        let exact = (by == GroupBy::Frames).then(|| ExactKeys::new(code.tables()));
        Self { by, code, exact }
    }

    /// The frames.
    #[must_use]
    pub fn code(&self) -> &Code<'t> {
        &self.code
    }

    /// The grouping.
    #[must_use]
    pub fn by(&self) -> GroupBy {
        self.by
    }

    /// The key of a stack. Where stacks go by the tags of their allocation, see [`Grouper::tagged`].
    #[must_use]
    pub fn key(&self, stack: StackId) -> Key {
        let code = &self.code;
        match self.by {
            GroupBy::Frames => self.exact(stack, None),
            GroupBy::Stack => {
                let mut hash = Sha1::new();
                for Token { file, function, .. } in code.tokens(stack) {
                    hash.update(file.to_le_bytes());
                    hash.update(function.to_le_bytes());
                }
                Key::of(hash.finalize().into())
            }
            GroupBy::Line | GroupBy::Function | GroupBy::File => {
                let Some(site) = code.site(stack) else {
                    return match self.by {
                        GroupBy::File => Key::of_name("C++", no_file(code, stack)),
                        _ if code.is_compiled_backward(stack) => Key::of_name("C++", label::COMPILED),
                        _ => Key::of_name("C++", &code.operation(stack).whole_label()),
                    };
                };
                let function = code.token(site).function.to_le_bytes();
                let line = code.line(site).unwrap_or(0).to_le_bytes();
                let rest: &[&[u8]] = match self.by {
                    GroupBy::Line => &[&function, &line],
                    GroupBy::Function => &[&function],
                    _ => &[],
                };
                let mut parts: Vec<&[u8]> = vec![code.file_digest(site)];
                parts.extend(rest);
                Key::of(sha1(&parts))
            }
            GroupBy::Category => Key::of_name(self.by.name(), category::of(code, stack)),
            GroupBy::Metadata | GroupBy::CompileContext | GroupBy::Annotation | GroupBy::Pool => self.tagged(None).0,
        }
    }

    /// The key of a stack with all of its frames and lines, where its C++ frames are those of `cpp`.
    #[must_use]
    pub fn exact(&self, stack: StackId, cpp: Option<CppDigest>) -> Key {
        Key::of(self.exact.as_ref().map_or_else(Digest::default, |exact| exact.of(stack, cpp)))
    }

    /// The label of a stack.
    #[must_use]
    pub fn label(&self, stack: StackId) -> String {
        let code = &self.code;
        match (self.by, code.site(stack)) {
            (GroupBy::Category, _) => category::of(code, stack).to_owned(),
            (by, _) if by.is_tag() => self.tagged(None).1,
            (GroupBy::Line, Some(site)) => code.text(site),
            (GroupBy::Function, Some(site)) => code.text_at(site, None),
            (GroupBy::File, Some(site)) => code.path(site).to_owned(),
            (GroupBy::File, None) => no_file(code, stack).to_owned(),
            (GroupBy::Line | GroupBy::Function, None) if code.is_compiled_backward(stack) => {
                format!("backward: {}", label::COMPILED)
            }
            _ => code.label(stack),
        }
    }

    /// Key and name of the group of a tag: the metadata or the compile context of an allocation.
    #[must_use]
    pub fn tagged(&self, tag: Option<StringId>) -> (Key, String) {
        let name = tag_name(self.by, tag.map(|tag| self.code.tables().string(tag)));
        (Key::of_name(self.by.name(), &name), name)
    }

    /// A group as pairing sees it, from one of its stacks.
    #[must_use]
    pub fn group(&self, key: Key, stack: StackId, figures: Figures) -> Group<'t> {
        let code = &self.code;
        let identifying = code.identifying_frames(stack);
        let tokens = code.tokens_of(stack, &identifying);
        let site = code.site(stack).map(|site| code.token(site));
        let site = site.and_then(|site| tokens.iter().position(|token| *token == site));
        let lines = identifying.iter().map(|&frame| code.line(frame).unwrap_or(0)).collect();
        let operators = code.operator_names(stack);
        Group { key, tokens, site: site.unwrap_or(0), lines, operators, figures }
    }

    /// The languages of the frames of a stack.
    #[must_use]
    pub fn languages(&self, stack: StackId) -> Languages {
        let frames = self.code.tables().stack(stack).iter();
        let count = frames.len();
        let cpp = frames.filter(|&&frame| self.code.owner(frame) == Owner::Cpp).count();
        Languages { python: cpp < count, cpp: cpp > 0 }
    }
}

/// Stacks without a Python frame have no file of the user.
fn no_file(code: &Code<'_>, stack: StackId) -> &'static str {
    if code.is_backward(stack) { "<backward>" } else { "<C++>" }
}

/// The name of a tag, with the number of a layer folded: `layers.0` and `layers.1` are the same code.
fn tag_name(by: GroupBy, text: Option<&str>) -> String {
    match (by, text) {
        (GroupBy::CompileContext, None | Some("" | "N/A")) => "<not compiled>".to_owned(),
        (GroupBy::Annotation, None | Some("")) => "<no annotation>".to_owned(),
        (GroupBy::Pool, None | Some("")) => "<pool not known>".to_owned(),
        (GroupBy::Annotation | GroupBy::Pool, Some(text)) => legible(text).to_owned(),
        (_, None | Some("")) => "<no metadata>".to_owned(),
        (_, Some(text)) => {
            let mut folded = String::new();
            let mut after_name = false;
            for part in legible(text).split_inclusive('.') {
                let name = part.trim_end_matches('.');
                let number = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit());
                folded.push_str(&if number && after_name { part.replace(name, "*") } else { part.to_owned() });
                // The digits behind the point of a number are no layer.
                after_name = number && after_name || name.ends_with(|c: char| c.is_alphabetic() || c == '_');
            }
            folded
        }
    }
}

/// True for a frame in Python, as far as its own names tell.
#[must_use]
pub fn is_python(tables: &Tables, frame: FrameId) -> bool {
    let frame = tables.frame(frame);
    classify::is_python(tables.string(frame.name), tables.string(frame.filename))
}

/// A digest of the C++ frames of a stack.
pub type CppDigest = u64;

/// Digests of stacks with all of their frames and lines: of those in Python, and of those in C++, of which a saved
/// profile keeps nothing else.
#[derive(Debug)]
pub struct ExactKeys<'t> {
    tables: &'t Tables,
    /// By frame; made when they are first asked for.
    frames: Vec<OnceLock<ExactFrame>>,
    /// Digests of strings, likewise.
    strings: Vec<OnceLock<Digest>>,
}

/// A frame with its line.
#[derive(Debug, Clone, Copy)]
struct ExactFrame {
    digest: Digest,
    is_cpp: bool,
}

impl<'t> ExactKeys<'t> {
    /// For the stacks of a snapshot.
    #[must_use]
    pub fn new(tables: &'t Tables) -> Self {
        let frames = tables.frames().iter().map(|_| OnceLock::new());
        let strings = (0..tables.string_count()).map(|_| OnceLock::new());
        Self { tables, frames: frames.collect(), strings: strings.collect() }
    }

    fn string(&self, id: StringId) -> &Digest {
        self.strings[id.index()].get_or_init(|| sha1(&[self.tables.string(id).as_bytes()]))
    }

    fn frame(&self, id: FrameId) -> ExactFrame {
        *self.frames[id.index()].get_or_init(|| {
            let Frame { name, filename, line, .. } = self.tables.frame(id);
            let digest = sha1(&[self.string(*name), self.string(*filename), &line.to_le_bytes()]);
            ExactFrame { digest, is_cpp: !is_python(self.tables, id) }
        })
    }

    fn part(&self, stack: StackId, in_cpp: bool) -> Digest {
        let mut hash = Sha1::new();
        let frames = self.tables.stack(stack).iter().map(|&frame| self.frame(frame));
        frames.filter(|frame| frame.is_cpp == in_cpp).for_each(|frame| hash.update(frame.digest));
        hash.finalize().into()
    }

    /// The digest of the C++ frames of a stack.
    #[must_use]
    pub fn cpp(&self, stack: StackId) -> CppDigest {
        code::head(&self.part(stack, true))
    }

    /// The digest of a stack, without the frames of its forward pass. Its C++ frames are those of `cpp`, if that is
    /// given.
    #[must_use]
    pub fn of(&self, stack: StackId, cpp: Option<CppDigest>) -> Digest {
        let cpp = cpp.unwrap_or_else(|| self.cpp(stack));
        sha1(&[&self.part(stack, false), &cpp.to_le_bytes()])
    }
}

/// The languages that frames were recorded in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Languages {
    /// Some frame is Python.
    pub python: bool,
    /// Some frame is C or C++.
    pub cpp: bool,
}

impl Languages {
    /// The frames in them, in words.
    pub(crate) fn name(self) -> &'static str {
        match (self.python, self.cpp) {
            (true, true) => "Python and C++ frames",
            (true, false) => "Python frames",
            (false, true) => "C++ frames",
            (false, false) => "no frames",
        }
    }
}

impl std::ops::BitOrAssign for Languages {
    fn bitor_assign(&mut self, other: Self) {
        self.python |= other.python;
        self.cpp |= other.cpp;
    }
}

/// The part of a name that is shown.
fn legible(name: &str) -> &str {
    cut(name, 256)
}

#[cfg(test)]
mod tests;
