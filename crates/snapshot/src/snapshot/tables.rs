//! Interned strings, frames, stacks and tags.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;

use ptmem_base::interner::Interner;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(NonZeroU32);

        impl $name {
            /// The id of the entry at `index`; ids are only made for entries that exist.
            pub fn from_index(index: usize) -> Self {
                let number = u32::try_from(index).ok().and_then(|i| NonZeroU32::MIN.checked_add(i));
                Self(number.unwrap_or(NonZeroU32::MAX))
            }

            /// Position in its table.
            #[must_use]
            pub fn index(self) -> usize {
                self.0.get() as usize - 1
            }
        }
    };
}

id!(
    /// A string in [`Tables`].
    StringId
);
id!(
    /// A frame in [`Tables`].
    FrameId
);
id!(
    /// A stack in [`Tables`]. Equal ids are equal stacks, frame by frame.
    StackId
);
/// A set of tags in [`Tables`], in three bytes: they fill the room beside the action in an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TagsId([u8; 3]);

impl TagsId {
    /// The most sets of tags.
    pub(super) const MOST: usize = 1 << 24;

    /// The id of the entry at `index`; ids are only made for entries that exist.
    #[must_use]
    pub fn from_index(index: usize) -> Self {
        let [a, b, c, ..] = index.min(Self::MOST - 1).to_le_bytes();
        Self([a, b, c])
    }

    /// Position in its table.
    #[inline]
    #[must_use]
    pub fn index(self) -> usize {
        let [a, b, c] = self.0.map(usize::from);
        a | b << 8 | c << 16
    }
}

/// A frame of a call stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Frame {
    /// Python function, or demangled C++ signature.
    pub name: StringId,
    /// Source path; for C++ also a library, `??` or nothing.
    pub filename: StringId,
    /// Line, 0 where unknown. 2^64-1 or -1 where Python could not say; an offset in the library where
    /// symbols were not resolved.
    pub line: i128,
    /// The frame that this one was generated from, where PyTorch says so (`fx_original_trace`).
    pub original: Option<FrameId>,
}

/// The tags that events carry beside their numbers. They rarely change from one event to the next, so they are kept
/// once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Tags {
    /// `stream`, a raw pointer: differs from run to run. `None` where the file does not say.
    pub stream: Option<i128>,
    /// `compile_context`, where it says one.
    pub compile_context: Option<StringId>,
    /// `user_metadata`, where some was set.
    pub user_metadata: Option<StringId>,
    /// `pool_id`, in PyTorch 2.12 and later.
    pub pool_id: Option<(u64, u64)>,
    /// `action`, of events of [`Action::Other`](super::Action::Other) alone.
    pub action: Option<StringId>,
}

/// The tables of a snapshot.
#[derive(Debug, Default)]
pub struct Tables {
    strings: Interner<Arc<str>>,
    frames: Interner<Frame>,
    /// Frames, innermost first; where there are forward frames, [`FORWARD`] and their number among `forward` after it.
    stacks: Interner<Box<[FrameId]>>,
    /// Frames of the forward pass, innermost first: many stacks share them.
    forward: Interner<Box<[FrameId]>>,
    tags: Interner<Tags>,
    /// The texts of source files, by their paths, where a recorder added them and they were asked for.
    sources: BTreeMap<StringId, Arc<str>>,
}

/// Stands in a stack before the number of the frames of the forward pass; no frame of any table.
const FORWARD: FrameId = FrameId(NonZeroU32::MAX);

impl Tables {
    /// The text of a string.
    #[must_use]
    pub fn string(&self, id: StringId) -> &str {
        &self.strings.items()[id.index()]
    }

    /// All strings, by [`StringId::index`].
    #[must_use]
    pub fn strings(&self) -> impl ExactSizeIterator<Item = &str> {
        self.strings.items().iter().map(|text| &**text)
    }

    /// A frame.
    #[must_use]
    pub fn frame(&self, id: FrameId) -> &Frame {
        &self.frames.items()[id.index()]
    }

    /// All frames, by [`FrameId::index`].
    #[must_use]
    pub fn frames(&self) -> impl ExactSizeIterator<Item = &Frame> {
        self.frames.items().iter()
    }

    /// The frames of a stack, innermost first, as PyTorch writes them.
    #[must_use]
    pub fn stack(&self, id: StackId) -> &[FrameId] {
        self.parts(id).0
    }

    /// The frames of the forward pass that a stack of the backward pass belongs to (`forward_frames`), innermost
    /// first. Most have none.
    #[must_use]
    pub fn forward(&self, id: StackId) -> &[FrameId] {
        self.parts(id).1
    }

    /// True if anything is known of a stack.
    #[must_use]
    pub fn has_frames(&self, id: StackId) -> bool {
        !self.stacks.items()[id.index()].is_empty()
    }

    fn parts(&self, id: StackId) -> (&[FrameId], &[FrameId]) {
        match &*self.stacks.items()[id.index()] {
            [inner @ .., marker, forward] if *marker == FORWARD => (inner, &self.forward.items()[forward.index()]),
            inner => (inner, &[]),
        }
    }

    /// All stacks, in the order in which they were interned.
    pub fn stacks(&self) -> impl ExactSizeIterator<Item = StackId> + '_ {
        (0..self.stacks.items().len()).map(StackId::from_index)
    }

    /// All tags, by [`TagsId::index`].
    #[must_use]
    pub fn all_tags(&self) -> impl ExactSizeIterator<Item = &Tags> + Clone {
        self.tags.items().iter()
    }

    /// Tags.
    #[must_use]
    pub fn tags(&self, id: TagsId) -> &Tags {
        &self.tags.items()[id.index()]
    }

    /// The text of a source file, by its path.
    #[must_use]
    pub fn source(&self, path: StringId) -> Option<&str> {
        self.sources.get(&path).map(|text| &**text)
    }

    /// Takes a string as the text of a source file.
    pub(super) fn set_source(&mut self, path: StringId, text: StringId) {
        let text = Arc::clone(&self.strings.items()[text.index()]);
        self.set_whole_source(path, text);
    }

    /// Sets the text of a source file.
    pub(super) fn set_whole_source(&mut self, path: StringId, text: Arc<str>) {
        self.sources.insert(path, text);
    }

    /// Takes the text of a source file from other tables, of which `from_path` is the path.
    pub(super) fn share_source(&mut self, from: &Self, from_path: StringId, path: StringId) {
        if let Some(text) = from.sources.get(&from_path) {
            self.sources.insert(path, Arc::clone(text));
        }
    }

    /// The string of other tables, without a copy of its text.
    pub(super) fn share_string(&mut self, from: &Self, id: StringId) -> StringId {
        let text = &from.strings.items()[id.index()];
        StringId::from_index(self.strings.intern(&**text, |_| Arc::clone(text)))
    }

    /// Interns a string.
    pub fn intern_string(&mut self, text: &str) -> StringId {
        StringId::from_index(self.strings.intern(text, |text| Arc::from(text)))
    }

    /// Interns a frame.
    pub fn intern_frame(&mut self, frame: Frame) -> FrameId {
        FrameId::from_index(self.frames.intern(&frame, |frame| *frame))
    }

    /// Interns a stack, innermost frame first.
    pub fn intern_stack(&mut self, frames: &[FrameId]) -> StackId {
        StackId::from_index(self.stacks.intern(frames, |frames| Box::from(frames)))
    }

    /// Interns a stack with the frames of its forward pass, both innermost first.
    pub fn intern_forward(&mut self, stack: StackId, forward: &[FrameId]) -> StackId {
        let forward = FrameId::from_index(self.forward.intern(forward, |frames| Box::from(frames)));
        let all = [self.stack(stack), &[FORWARD, forward]].concat();
        self.intern_stack(&all)
    }

    /// Interns tags.
    pub fn intern_tags(&mut self, tags: Tags) -> TagsId {
        TagsId::from_index(self.tags.intern(&tags, |tags| *tags))
    }

    /// The number of entries in the fullest table.
    pub(super) fn largest(&self) -> usize {
        self.strings().len().max(self.frames().len()).max(self.stacks().len()).max(self.all_tags().len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_share_the_frames_of_their_forward_pass() {
        let mut tables = Tables::default();
        let name = tables.intern_string("f");
        let frames = [1, 2, 3].map(|line| tables.intern_frame(Frame { name, filename: name, line, original: None }));
        let [one, other] = [&frames[..1], &frames[..2]].map(|inner| {
            let inner = tables.intern_stack(inner);
            tables.intern_forward(inner, &frames)
        });
        assert_eq!((tables.stack(one), tables.stack(other)), (&frames[..1], &frames[..2]));
        assert_eq!(tables.forward(one), frames);
        assert!(std::ptr::eq(tables.forward(one), tables.forward(other)));
    }
}
