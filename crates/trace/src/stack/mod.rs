//! The identity of call stacks across code changes, and their names.
//!
//! Snapshots of two commits never have equal stacks: lines move, functions are renamed, checkouts have other folders,
//! C++ text changes with the compiler. Stacks are therefore grouped by a key that keeps only what identifies the code;
//! groups without an equal key on the other side are paired by similarity; and every group has a label that names the
//! line of the user's code.

mod calls;
mod category;
mod checkout;
mod checkpoint;
mod classify;
mod code;
mod difference;
mod exact;
mod facts;
mod group_by;
mod label;
mod languages;
mod operator;
mod order;
mod pairing;
mod path;
mod qualified;
mod rules;

pub use ptmem_base::label::{Label, More};
use ptmem_base::text::cut;
use ptmem_snapshot::snapshot::{StackId, StringId, Tables};
use sha1::{Digest as _, Sha1};

pub use category::{CATEGORIES, OTHER, Pass};
pub use checkout::Checkout;
pub use classify::Owner;
pub(crate) use classify::is_benchmark;
pub use code::{Digest, Lines, SnapshotCode, Token};
pub use exact::{CppDigest, ExactKeys, is_python};
pub use facts::Facts;
pub use group_by::{GroupBy, folded_module};
pub use label::tell_apart;
pub use languages::Languages;
pub use order::{InOrder, pair_in_order};
pub use pairing::{GroupFigures, Paired, StackGroup, pair};
pub use qualified::{FunctionsOfTexts, names_by_texts};
pub use rules::{CategoryRule, Rules};

use code::sha1;
use group_by::tag_name;

/// The identity of a group of stacks: a SHA-1 in hexadecimal, the same on every machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(pub String);

impl Key {
    fn of(digest: Digest) -> Self {
        Self(digest.iter().map(|byte| format!("{byte:02x}")).collect())
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
    code: SnapshotCode<'t>,
    /// For [`GroupBy::Frames`].
    exact: Option<ExactKeys<'t>>,
}

impl<'t> Grouper<'t> {
    /// Prepares the frames of a snapshot.
    #[must_use]
    pub fn new(tables: &'t Tables, by: GroupBy, rules: &Rules) -> Self {
        Self::of(SnapshotCode::new(tables, rules, &[]), by)
    }

    /// The same where the frames are known already.
    #[must_use]
    pub fn of(code: SnapshotCode<'t>, by: GroupBy) -> Self {
        let exact = (by == GroupBy::Frames).then(|| ExactKeys::new(code.tables()));
        Self { by, code, exact }
    }

    /// The frames.
    #[must_use]
    pub fn code(&self) -> &SnapshotCode<'t> {
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
            GroupBy::Line | GroupBy::Function => match code.site(stack) {
                Some(site) => {
                    let function = code.token(site).function.to_le_bytes();
                    let line = code.line(site).unwrap_or(0).to_le_bytes();
                    let parts: [&[u8]; 3] = [code.file_digest(site), &function, &line];
                    Key::of(sha1(if self.by == GroupBy::Line { &parts } else { &parts[..2] }))
                }
                None if code.is_compiled_backward(stack) => Key::of_name("C++", label::COMPILED),
                None if code.checkpoint(stack).is_some() => Key::of_name("C++", &code.label(stack)),
                None => Key::of_name("C++", &code.operation(stack).whole_label()),
            },
            GroupBy::Category => Key::of_name(self.by.name(), category::of(code, stack)),
            GroupBy::Metadata | GroupBy::CompileContext | GroupBy::Module | GroupBy::Purpose | GroupBy::Shape => {
                self.tagged(None).0
            }
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
    pub fn group(&self, key: Key, stack: StackId, figures: GroupFigures) -> StackGroup<'_> {
        let code = &self.code;
        let identifying = code.identifying_frames(stack);
        let tokens = code.tokens_of(stack, &identifying);
        let site = code.site(stack).map(|site| code.token(site));
        let site = site.and_then(|site| tokens.iter().position(|token| *token == site));
        let lines = identifying.iter().map(|&frame| code.line(frame).unwrap_or(0)).collect();
        let operators = code.operator_names(stack);
        StackGroup { key, tokens, site: site.unwrap_or(0), lines, operators, figures }
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

/// The part of a name that is shown.
fn legible(name: &str) -> &str {
    cut(name, 256)
}

#[cfg(test)]
mod tests;
