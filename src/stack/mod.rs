//! What makes two call stacks the same, and what a stack is called.
//!
//! Snapshots of two commits never hold equal stacks: lines move, checkouts lie elsewhere, C++ text
//! changes with the compiler. So stacks are put into groups by a key that keeps what identifies the
//! code and drops the rest, and every group has a label that names the line of the user's code.

mod classify;
mod operator;

use std::fmt;

use sha1::{Digest, Sha1};

pub use classify::{Owner, owner};

use crate::snapshot::{Frame, StackId, Tables};
use crate::text::cut;
use classify::{file_name, folded, library_path};
use operator::{Symbol, bare_name};

/// What counts as one stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GroupBy {
    /// Every frame with its line, exactly as recorded.
    Frames,
    /// Python frames without line numbers; without Python frames, the C++ operators.
    #[default]
    Stack,
}

impl fmt::Display for GroupBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Frames => "frames",
            Self::Stack => "stack",
        })
    }
}

/// The identity of a group of stacks: a SHA-1 in hexadecimal, the same on every machine.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(pub String);

/// Gives the stacks of one snapshot their keys and labels.
///
/// What is known of a frame is worked out once: the same few hundred frames make up all stacks, and a long
/// name in a deep stack must not cost its length at every mention.
#[derive(Debug)]
pub struct Grouper<'t> {
    tables: &'t Tables,
    by: GroupBy,
    frames: Vec<Known<'t>>,
}

type Digest20 = [u8; 20];

/// What is known of a frame.
#[derive(Debug)]
struct Known<'t> {
    owner: Owner,
    /// What the frame contributes to the key of its stack.
    digest: Digest20,
    /// What a C++ frame says about the operation.
    symbol: Symbol<'t>,
}

fn sha1(parts: &[&[u8]]) -> Digest20 {
    let mut hash = Sha1::new();
    for part in parts {
        hash.update(part);
    }
    hash.finalize().into()
}

impl<'t> Grouper<'t> {
    /// Prepares the frames of a snapshot.
    #[must_use]
    pub fn new(tables: &'t Tables, by: GroupBy) -> Self {
        let known = |frame: &Frame| {
            let (name, file) = (tables.string(frame.name), tables.string(frame.filename));
            let owner = owner(name, file);
            let symbol = if owner == Owner::Cpp { Symbol::of(name) } else { Symbol::Noise };
            let digest = match (by, owner) {
                (GroupBy::Frames, _) => {
                    sha1(&[name.as_bytes(), b"\0", file.as_bytes(), b"\0", frame.line.to_string().as_bytes()])
                }
                // What it does, not where that stands in which build.
                (GroupBy::Stack, Owner::Cpp) => {
                    sha1(&[symbol.operation().unwrap_or_else(|| bare_name(name)).as_bytes()])
                }
                // Generated code is named after hashes and counters.
                (GroupBy::Stack, Owner::Generated) => sha1(&[folded(file).as_bytes()]),
                // The user's code may be checked out anywhere.
                (GroupBy::Stack, Owner::User) => sha1(&[file_name(file).as_bytes(), b" ", name.as_bytes()]),
                (GroupBy::Stack, _) => sha1(&[library_path(file).as_bytes(), b" ", name.as_bytes()]),
            };
            Known { owner, digest, symbol }
        };
        Self { tables, by, frames: tables.frames().iter().map(known).collect() }
    }

    /// The key of a stack: a SHA-1 over what its frames contribute, innermost first.
    #[must_use]
    pub fn key(&self, stack: StackId) -> Key {
        let mut hash = Sha1::new();
        let all = || self.known(stack);
        let operation = |frame: &&Known<'_>| frame.symbol.operation().is_some();
        if self.by == GroupBy::Frames {
            all().for_each(|frame| hash.update(frame.digest));
        } else if all().any(|frame| frame.owner != Owner::Cpp) {
            all().filter(|frame| frame.owner != Owner::Cpp).for_each(|frame| hash.update(frame.digest));
        } else if all().any(|frame| operation(&frame)) {
            // Nothing but C++. How often an operator dispatches to itself differs between builds.
            let mut last = None;
            for frame in all().filter(operation) {
                if last != Some(frame.digest) {
                    hash.update(frame.digest);
                }
                last = Some(frame.digest);
            }
        } else {
            all().for_each(|frame| hash.update(frame.digest));
        }
        let digest = hash.finalize();
        Key(digest.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// What a stack is called: its innermost user frame as `function (file:line)`, else its innermost
    /// library frame, else its C++ operator.
    #[must_use]
    pub fn label(&self, stack: StackId) -> String {
        let ids = self.tables.stack(stack);
        let innermost = |owners: &[Owner]| {
            let id = ids.iter().find(|id| owners.contains(&self.frames[id.index()].owner))?;
            let frame = self.tables.frame(*id);
            let file = short_path(self.frames[id.index()].owner, self.tables.string(frame.filename));
            Some(format!("{} ({}{})", legible(self.tables.string(frame.name)), legible(file), line_suffix(frame.line)))
        };
        innermost(&[Owner::User])
            .or_else(|| innermost(&[Owner::Library]))
            .or_else(|| innermost(&[Owner::PyTorch]))
            .or_else(|| innermost(&[Owner::StandardLibrary, Owner::Generated]))
            .unwrap_or_else(|| operator::label(self.known(stack).map(|frame| frame.symbol)))
    }

    /// Which languages the frames of a stack are in.
    #[must_use]
    pub fn languages(&self, stack: StackId) -> Languages {
        Languages {
            python: self.known(stack).any(|frame| frame.owner != Owner::Cpp),
            cpp: self.known(stack).any(|frame| frame.owner == Owner::Cpp),
        }
    }

    fn known(&self, stack: StackId) -> impl Iterator<Item = &Known<'t>> + Clone {
        self.tables.stack(stack).iter().map(|id| &self.frames[id.index()])
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

impl std::ops::BitOrAssign for Languages {
    fn bitor_assign(&mut self, other: Self) {
        self.python |= other.python;
        self.cpp |= other.cpp;
    }
}

/// As much of a name as anybody reads.
fn legible(name: &str) -> &str {
    cut(name, 256)
}

/// The file of a frame as it stands in a label.
fn short_path(owner: Owner, file: &str) -> &str {
    match owner {
        Owner::User => file_name(file),
        Owner::Generated => folded(file),
        _ => library_path(file),
    }
}

/// `:line`, where the line is one: PyTorch writes -1 and 2^64-1 for "unknown".
fn line_suffix(line: i128) -> String {
    if (1..1 << 31).contains(&line) { format!(":{line}") } else { String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack(tables: &mut Tables, frames: &[(&str, &str, i128)]) -> StackId {
        let ids: Vec<_> = frames
            .iter()
            .map(|&(name, file, line)| {
                let frame = Frame { name: tables.intern_string(name), filename: tables.intern_string(file), line };
                tables.intern_frame(frame)
            })
            .collect();
        tables.intern_stack(&ids)
    }

    fn key(tables: &Tables, stack: StackId, by: GroupBy) -> Key {
        Grouper::new(tables, by).key(stack)
    }

    fn label(tables: &Tables, stack: StackId) -> String {
        Grouper::new(tables, GroupBy::Stack).label(stack)
    }

    const TORCH: &str = "/opt/venv/lib/python3.11/site-packages/torch/nn/modules/linear.py";

    #[test]
    fn the_label_is_the_innermost_line_of_the_user() {
        let mut tables = Tables::default();
        let id = stack(
            &mut tables,
            &[
                ("torch::unwind::unwind()", "??", 0),
                ("forward", TORCH, 125),
                ("forward", "/home/me/repo/model.py", 54),
                ("<module>", "/home/me/repo/train.py", 3),
            ],
        );
        assert_eq!(label(&tables, id), "forward (model.py:54)");
        let id = stack(&mut tables, &[("forward", TORCH, 125), ("f", "<string>", 1)]);
        assert_eq!(label(&tables, id), "forward (torch/nn/modules/linear.py:125)");
        let id = stack(&mut tables, &[("f", "/a/b.py", (1 << 64) - 1)]);
        assert_eq!(label(&tables, id), "f (b.py)");
    }

    #[test]
    fn moved_lines_and_checkouts_change_the_exact_key_alone() {
        let mut tables = Tables::default();
        let before = stack(&mut tables, &[("forward", TORCH, 125), ("step", "/home/a/repo/train.py", 7)]);
        let other = "/env/lib/python3.12/site-packages/torch/nn/modules/linear.py";
        let after = stack(&mut tables, &[("forward", other, 130), ("step", "C:\\repo\\train.py", 10)]);
        let renamed = stack(&mut tables, &[("forward", TORCH, 125), ("step2", "/home/a/repo/train.py", 7)]);
        assert_eq!(key(&tables, before, GroupBy::Stack), key(&tables, after, GroupBy::Stack));
        assert_ne!(key(&tables, before, GroupBy::Stack), key(&tables, renamed, GroupBy::Stack));
        assert_ne!(key(&tables, before, GroupBy::Frames), key(&tables, after, GroupBy::Frames));
    }

    #[test]
    fn without_python_frames_the_operator_counts_and_not_the_unwinder() {
        let mut tables = Tables::default();
        let frames = |file: &'static str| {
            [
                ("torch::unwind::unwind()", "??", 0),
                ("at::_ops::empty_strided::redispatch(c10::DispatchKeySet)", file, 1),
                ("at::_ops::empty_strided::call(c10::ArrayRef<c10::SymInt>)", file, 2),
                ("torch::autograd::generated::ToCopyBackward0::apply(std::vector<at::Tensor>&&)", "??", 0),
                ("torch::autograd::Engine::thread_main(std::shared_ptr<X> const&)", "??", 0),
            ]
        };
        let before = stack(&mut tables, &frames("??"));
        let after = stack(&mut tables, &frames("Functions.cpp"));
        assert_eq!(label(&tables, before), "backward: ToCopyBackward0 (aten::empty_strided)");
        assert_eq!(key(&tables, before, GroupBy::Stack), key(&tables, after, GroupBy::Stack));
    }
}
