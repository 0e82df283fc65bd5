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
}

impl GroupBy {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Frames,
        Self::Stack,
        Self::Line,
        Self::Function,
        Self::File,
        Self::Category,
        Self::Metadata,
        Self::CompileContext,
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

    /// True for groups that are places in the code, which a change to it can move. The others go by their name.
    #[must_use]
    pub fn is_place(self) -> bool {
        !matches!(self, Self::Category | Self::Metadata | Self::CompileContext)
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

    /// True for groups that go by tags of allocations, not by stacks.
    #[must_use]
    pub fn is_tag(self) -> bool {
        matches!(self, Self::Metadata | Self::CompileContext)
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
            GroupBy::Metadata | GroupBy::CompileContext => self.tagged(None).0,
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
            (GroupBy::Metadata | GroupBy::CompileContext, _) => self.tagged(None).1,
            (GroupBy::Line, Some(site)) => code.text(site),
            (GroupBy::Function, Some(site)) => code.text_at(site, None),
            (GroupBy::File, Some(site)) => code.path(site).to_owned(),
            (GroupBy::File, None) => no_file(code, stack).to_owned(),
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
mod tests {
    use super::*;

    fn stack(tables: &mut Tables, frames: &[(&str, &str, i128)]) -> StackId {
        let ids: Vec<_> = frames
            .iter()
            .map(|&(name, file, line)| {
                let (name, filename) = (tables.intern_string(name), tables.intern_string(file));
                let frame = Frame { name, filename, line, original: None };
                tables.intern_frame(frame)
            })
            .collect();
        tables.intern_stack(&ids)
    }

    /// The keys of stacks, each in a snapshot of its own.
    fn keys(by: GroupBy, stacks: &[&[(&str, &str, i128)]]) -> Vec<Key> {
        let key = |frames: &&[(&str, &str, i128)]| {
            let mut tables = Tables::default();
            let id = stack(&mut tables, frames);
            Grouper::new(&tables, by, &Rules::default()).key(id)
        };
        stacks.iter().map(key).collect()
    }

    fn label(frames: &[(&str, &str, i128)], strip_prefix: &[&str]) -> String {
        let mut tables = Tables::default();
        let id = stack(&mut tables, frames);
        let strip_prefix = strip_prefix.iter().map(|&prefix| prefix.to_owned()).collect();
        Grouper::new(&tables, GroupBy::Stack, &Rules { strip_prefix, ..Rules::default() }).label(id)
    }

    const LINEAR: &str = "/opt/venv/lib/python3.11/site-packages/torch/nn/modules/linear.py";
    const MODULE: &str = "/opt/venv/lib/python3.11/site-packages/torch/nn/modules/module.py";
    const UNWIND: (&str, &str, i128) = ("torch::unwind::unwind()", "??", 0);
    const MM: (&str, &str, i128) = ("at::_ops::mm::call(at::Tensor const&)", "??", 0);
    const NODE: (&str, &str, i128) = ("torch::autograd::generated::MmBackward0::apply(std::vector<X>&&)", "??", 0);
    const ENGINE: (&str, &str, i128) = ("torch::autograd::Engine::thread_main(X const&)", "??", 0);

    #[test]
    fn library_code_below_the_line_of_the_user_is_named_as_well() {
        const ACTIVATIONS: &str = "/opt/venv/lib/python3.11/site-packages/transformers/activations.py";
        const BERT: &str = "/opt/venv/lib/python3.11/site-packages/transformers/models/bert.py";
        let train = ("<module>", "/home/me/repo/train.py", 8);
        let frames = [UNWIND, MM, ("forward", LINEAR, 125), ("forward", ACTIVATIONS, 57), ("forward", BERT, 9), train];
        assert_eq!(label(&frames, &[]), "<module> (train.py:8) > forward (transformers/activations.py:57) aten::mm");
        // Library code that calls the user, such as a trainer, is no part of it.
        let frames = [UNWIND, MM, train, ("fit", BERT, 9)];
        assert_eq!(label(&frames, &[]), "<module> (train.py:8) aten::mm");
    }

    #[test]
    fn equal_labels_are_told_apart_by_their_callers() {
        let helper = ("forward", "/home/me/repo/model.py", 39);
        let main = ("<module>", "/home/me/repo/train.py", 3);
        let mut tables = Tables::default();
        let callers = [52, 53].map(|line| ("attention", "/home/me/repo/model.py", line));
        let mut stacks: Vec<_> = callers.iter().map(|&caller| stack(&mut tables, &[helper, caller, main])).collect();
        stacks.push(stack(&mut tables, &[helper, main]));
        let grouper = Grouper::new(&tables, GroupBy::Stack, &Rules::default());
        let all: Vec<_> = stacks.iter().map(|&stack| (&grouper, stack)).collect();
        let labels = distinct_labels(&grouper.label(stacks[0]), &all);
        assert_eq!(
            labels,
            [
                "forward (model.py:39) from attention (model.py:52)",
                "forward (model.py:39) from attention (model.py:53)",
                "forward (model.py:39) from <module> (train.py:3)",
            ]
        );
        // Stacks that do not differ in their frames are numbered.
        let labels = distinct_labels(&grouper.label(stacks[0]), &[all[0], all[0]]);
        assert_eq!(labels, ["forward (model.py:39)", "forward (model.py:39) #2"]);
    }

    #[test]
    fn stacks_that_differ_in_what_they_call_say_so() {
        let step = ("step", "/home/me/repo/train.py", 9);
        let mut tables = Tables::default();
        let callees = [("_init_group", 114), ("_multi_tensor_adamw", 564)];
        let adam = "/e/lib/python3.11/site-packages/torch/optim/adamw.py";
        let mut of = |(name, line)| stack(&mut tables, &[("zeros", LINEAR, 1), (name, adam, line), step]);
        let stacks = callees.map(&mut of);
        let grouper = Grouper::new(&tables, GroupBy::Stack, &Rules::default());
        let labels = distinct_labels(&grouper.label(stacks[0]), &stacks.map(|stack| (&grouper, stack)));
        let expected = [
            "step (train.py:9) > _init_group (torch/optim/adamw.py:114)",
            "step (train.py:9) > _multi_tensor_adamw (torch/optim/adamw.py:564)",
        ];
        assert_eq!(labels, expected);
    }

    #[test]
    fn lambdas_and_comprehensions_are_named_after_the_function_around_them() {
        let model = "/home/me/repo/model.py";
        let helper = ("apply", model, 12);
        let frames = [("<lambda>", model, 41), ("map", "/home/me/repo/tools.py", 40), helper, ("forward", model, 40)];
        assert_eq!(label(&frames, &[]), "forward.<lambda> (model.py:41)");
        let frames = [("<listcomp>", model, 41), ("<genexpr>", model, 41), ("build", model, 39), ("main", model, 90)];
        assert_eq!(label(&frames, &[]), "build.<listcomp> (model.py:41)");
        assert_eq!(
            label(&[("<genexpr>", model, 41), ("main", "/home/me/repo/train.py", 3)], &[]),
            "<genexpr> (model.py:41)"
        );
    }

    #[test]
    fn the_label_is_the_innermost_line_of_the_user() {
        let forward = ("forward", "/home/me/repo/net/model.py", 54);
        let main = ("<module>", "/home/me/repo/train.py", 3);
        // On Python 3.11 and later, Python frames follow the C++ ones.
        let frames = [UNWIND, MM, ("_start", "??", 0), ("forward", LINEAR, 125), forward, main];
        assert_eq!(label(&frames, &[]), "forward (net/model.py:54) aten::mm");
        assert_eq!(label(&frames, &["/home/me/"]), "forward (repo/net/model.py:54) aten::mm");
        assert_eq!(label(&[UNWIND, ("forward", LINEAR, 125)], &[]), "forward (torch/nn/modules/linear.py:125)");
        assert_eq!(label(&[("call", "/tmp/torchinductor_me/ab/cab.py", 99)], &[]), "call (<inductor>)");
        assert_eq!(label(&[("f", "/a/b.py", (1 << 64) - 1)], &[]), "f (b.py)");
        assert_eq!(label(&[UNWIND, MM, NODE, ENGINE], &[]), "backward: MmBackward0");
        assert_eq!(label(&[MM, forward, ENGINE], &[]), "backward: forward (model.py:54) aten::mm");
    }

    #[test]
    fn generated_code_is_named_after_what_it_was_generated_from() {
        let mut tables = Tables::default();
        let caller = stack(&mut tables, &[("main", "/r/train.py", 9)]);
        let original = stack(&mut tables, &[("forward", "/r/model.py", 54)]);
        let original = tables.stack(original)[0];
        let (name, filename) = (tables.intern_string("forward"), tables.intern_string("fx_generated_0a.py"));
        let generated = tables.intern_frame(Frame { name, filename, line: 3, original: Some(original) });
        let frames = [generated, tables.stack(caller)[0]];
        let id = tables.intern_stack(&frames);
        assert_eq!(Grouper::new(&tables, GroupBy::Stack, &Rules::default()).label(id), "forward (model.py:54)");
    }

    #[test]
    fn a_prefix_can_make_installed_code_the_users() {
        let frames = [("f", "/env/lib/python3.11/site-packages/mine/core.py", 7), ("g", "/home/me/run.py", 1)];
        assert_eq!(label(&frames, &[]), "g (run.py:1) > f (mine/core.py:7)");
        assert_eq!(label(&frames, &["/env/lib/python3.11/site-packages/mine"]), "f (core.py:7)");
        // An environment within the prefix stays one.
        assert_eq!(label(&[("forward", LINEAR, 1), ("g", "/opt/run.py", 1)], &["/opt"]), "g (run.py:1)");
    }

    #[test]
    fn lines_checkouts_and_releases_leave_the_key_alone() {
        let before: &[_] = &[("forward", LINEAR, 125), ("step", "/home/a/repo/train.py", 7)];
        let other = "D:\\env\\Lib\\site-packages\\torch\\nn\\modules\\linear.py";
        let after: &[_] = &[
            ("forward", other, 130),
            ("_call_impl", MODULE, 1),
            ("step", "C:\\checkout\\repo\\train.py", 10),
            ("_bootstrap", "/usr/lib/python3.12/threading.py", 9),
        ];
        let renamed: &[_] = &[("forward", LINEAR, 125), ("step2", "/home/a/repo/train.py", 7)];
        let stacks = keys(GroupBy::Stack, &[before, after, renamed]);
        assert_eq!(stacks[0], stacks[1]);
        assert_ne!(stacks[0], stacks[2]);
        let frames = keys(GroupBy::Frames, &[before, after]);
        assert_ne!(frames[0], frames[1]);
    }

    #[test]
    fn groups_are_as_fine_as_asked_for() {
        let stacks: [&[_]; 4] = [
            &[("f", "/r/a.py", 1), ("main", "/r/m.py", 1)],
            &[("f", "/r/a.py", 2), ("main", "/r/m.py", 1)],
            &[("g", "/r/a.py", 3), ("main", "/r/m.py", 1)],
            &[("f", "/r/a.py", 1), ("h", "/r/m.py", 1)],
        ];
        let groups = |by| {
            let keys = keys(by, &stacks);
            keys.iter().map(|key| keys.iter().position(|other| other == key).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(groups(GroupBy::Frames), [0, 1, 2, 3]);
        assert_eq!(groups(GroupBy::Stack), [0, 0, 2, 3]);
        assert_eq!(groups(GroupBy::Line), [0, 1, 2, 0]);
        assert_eq!(groups(GroupBy::Function), [0, 0, 2, 0]);
        assert_eq!(groups(GroupBy::File), [0, 0, 0, 0]);
    }

    #[test]
    fn walks_through_nested_modules_are_one() {
        let apply = ("_apply", MODULE, 900);
        let to = ("to", MODULE, 1300);
        let user = ("main", "/r/m.py", 1);
        let keys = keys(GroupBy::Stack, &[&[apply, to, user], &[apply, apply, apply, to, user]]);
        assert_eq!(keys[0], keys[1]);
    }

    #[test]
    fn without_python_the_operation_counts_and_not_the_text() {
        let drifted = [("std::foo() [clone .cold]", "a.cpp", 7), MM, NODE, ENGINE];
        let keys = keys(GroupBy::Stack, &[&[UNWIND, MM, NODE, ENGINE], &drifted, &[UNWIND, MM, ENGINE]]);
        assert_eq!(keys[0], keys[1]);
        assert_ne!(keys[0], keys[2]);
    }

    #[test]
    fn layers_are_not_told_apart_by_their_tags() {
        let name = |text| tag_name(GroupBy::Metadata, Some(text));
        assert_eq!(name("layers.0.attention"), "layers.*.attention");
        assert_eq!(name("layers.11"), "layers.*");
        assert_eq!(name("blocks.3.7"), "blocks.*.*");
        assert_eq!(name("lr=0.5"), "lr=0.5");
        assert_eq!(name(""), "<no metadata>");
        assert_eq!(tag_name(GroupBy::CompileContext, Some("N/A")), "<not compiled>");
        assert_eq!(tag_name(GroupBy::CompileContext, Some("Torch-Compiled Region: 0/1")), "Torch-Compiled Region: 0/1");
    }

    #[test]
    fn categories_say_what_memory_is_for() {
        let category = |frames: &[(&str, &str, i128)]| {
            let mut tables = Tables::default();
            let id = stack(&mut tables, frames);
            Grouper::new(&tables, GroupBy::Category, &Rules::default()).label(id)
        };
        let user = ("main", "/r/m.py", 1);
        let torch = |file: &'static str| ("f", file, 1);
        let accumulate = ("torch::autograd::AccumulateGrad::apply(std::vector<X>&&)", "??", 0);
        assert_eq!(category(&[MM, accumulate, ENGINE]), "gradients");
        assert_eq!(category(&[MM, NODE, ENGINE]), "backward");
        assert_eq!(category(&[torch("/e/site-packages/torch/optim/adam.py"), user]), "optimizer");
        assert_eq!(category(&[torch("/e/site-packages/torch/distributed/c10d.py"), user]), "communication");
        assert_eq!(category(&[("_apply", MODULE, 1), user]), "parameters");
        assert_eq!(category(&[("forward", LINEAR, 1), user]), "forward");
        assert_eq!(category(&[user]), "other");
    }
}
