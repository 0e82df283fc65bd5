//! Keys and labels of stacks by each grouping.

use ptmem_snapshot::snapshot::{StackId, StringId, Tables};
use sha1::{Digest as _, Sha1};

use super::calls::COMPILED;
use super::category;
use super::classify::Owner;
use super::code::SnapshotCode;
use super::exact::{CppDigest, ExactKeys};
use super::group_by::{GroupBy, tag_name};
use super::key::Key;
use super::languages::Languages;
use super::pairing::{GroupFigures, StackGroup};
use super::rules::Rules;
use super::token::{Digest, Token, sha1};

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
    pub fn new(tables: &'t Tables, by: GroupBy, rules: &Rules) -> Self {
        Self::of(SnapshotCode::new(tables, rules, &[]), by)
    }

    /// The same where the frames are known already.
    pub fn of(code: SnapshotCode<'t>, by: GroupBy) -> Self {
        let exact = (by == GroupBy::Frames).then(|| ExactKeys::new(&code));
        Self { by, code, exact }
    }

    /// The frames.
    pub fn code(&self) -> &SnapshotCode<'t> {
        &self.code
    }

    /// The grouping.
    pub fn by(&self) -> GroupBy {
        self.by
    }

    /// The key of a stack. Where stacks go by the tags of their allocation, see [`Grouper::tagged`].
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
                None if code.is_compiled_backward(stack) => Key::of_name("C++", COMPILED),
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
    pub fn exact(&self, stack: StackId, cpp: Option<CppDigest>) -> Key {
        Key::of(self.exact.as_ref().map_or_else(Digest::default, |exact| exact.of(stack, cpp)))
    }

    /// The label of a stack.
    pub fn label(&self, stack: StackId) -> String {
        let code = &self.code;
        match (self.by, code.site(stack)) {
            (GroupBy::Category, _) => category::of(code, stack).to_owned(),
            (by, _) if by.is_tag() => self.tagged(None).1,
            (GroupBy::Line, Some(site)) => code.text(site),
            (GroupBy::Function, Some(site)) => code.text_at(site, None),
            (GroupBy::Line | GroupBy::Function, None) if code.is_compiled_backward(stack) => {
                format!("backward: {COMPILED}")
            }
            _ => code.label(stack),
        }
    }

    /// Key and name of the group of a tag: the metadata or the compile context of an allocation.
    pub fn tagged(&self, tag: Option<StringId>) -> (Key, String) {
        let name = tag_name(self.by, tag.map(|tag| self.code.tables().string(tag)));
        (Key::of_name(self.by.name(), &name), name)
    }

    /// A group as pairing sees it, from one of its stacks.
    pub fn group(&self, key: Key, stack: StackId, figures: GroupFigures) -> StackGroup<'_> {
        let code = &self.code;
        let identifying = code.identifying_frames(stack);
        let tokens = code.tokens_of(stack, &identifying);
        let site = code.site(stack).map(|site| code.token(site));
        let site = site.and_then(|site| tokens.iter().position(|token| *token == site));
        let lines = identifying.iter().map(|&frame| code.line(frame).unwrap_or(0)).collect();
        let operators = code.operator_names(stack);
        let node = code.node_tokens(stack).map_or(0, |tokens| tokens.len());
        StackGroup { key, tokens, site: site.unwrap_or(0), node, lines, operators, figures }
    }

    /// The languages of the frames of a stack.
    pub fn languages(&self, stack: StackId) -> Languages {
        let frames = self.code.tables().stack(stack).iter();
        let count = frames.len();
        let cpp = frames.filter(|&&frame| self.code.owner(frame) == Owner::Cpp).count();
        Languages { python: cpp < count, cpp: cpp > 0 }
    }
}
