//! Copies stacks from one set of tables to another.

use super::tables::{Frame, FrameId, StackId, StringId, Tables};

/// Copies stacks from one set of tables to another; existing entries are reused.
#[derive(Debug)]
pub struct Copier<'f, 't> {
    from: &'f Tables,
    to: &'t mut Tables,
    /// The copies, by the index of the original.
    frames: Vec<Option<FrameId>>,
    /// The same: many classes have one stack.
    stacks: Vec<Option<StackId>>,
}

impl<'f, 't> Copier<'f, 't> {
    /// Copies between these.
    pub fn new(from: &'f Tables, to: &'t mut Tables) -> Self {
        Self { from, to, frames: vec![None; from.frames().len()], stacks: vec![None; from.stacks().len()] }
    }

    /// The same stack in the other tables.
    pub fn stack(&mut self, stack: StackId) -> StackId {
        if let Some(copy) = self.stacks[stack.index()] {
            return copy;
        }
        let from = self.from;
        let inner = self.frames(from.stack(stack));
        let forward = self.frames(from.forward(stack));
        let copy = self.to.intern_stack(&inner);
        let copy = if forward.is_empty() { copy } else { self.to.intern_forward(copy, &forward) };
        self.stacks[stack.index()] = Some(copy);
        copy
    }

    /// The same string in the other tables.
    pub fn string(&mut self, string: StringId) -> StringId {
        self.to.share_string(self.from, string)
    }

    fn frames(&mut self, frames: &[FrameId]) -> Vec<FrameId> {
        frames.iter().map(|&frame| self.frame(frame)).collect()
    }

    fn frame(&mut self, id: FrameId) -> FrameId {
        if let Some(copy) = self.frames[id.index()] {
            return copy;
        }
        let frame = *self.from.frame(id);
        // The frame that another one was generated from was not generated itself.
        let original =
            frame.original.map(|original| self.named(Frame { original: None, ..*self.from.frame(original) }));
        let copy = self.named(Frame { original, ..frame });
        self.frames[id.index()] = Some(copy);
        copy
    }

    fn named(&mut self, frame: Frame) -> FrameId {
        let name = self.string(frame.name);
        let filename = self.string(frame.filename);
        self.to.share_source(self.from, frame.filename, filename);
        self.to.intern_frame(Frame { name, filename, ..frame })
    }
}
