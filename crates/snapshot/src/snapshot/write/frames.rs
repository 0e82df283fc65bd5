//! Writes frames and lists of them, each once.

use super::SnapshotWriter;
use crate::snapshot::field::Key;
use crate::snapshot::{Frame, FrameId, StackId};

impl SnapshotWriter<'_> {
    /// A list of frames; an empty one where nothing is known.
    pub(super) fn stack(&mut self, stack: Option<StackId>) {
        let known = match stack {
            Some(stack) => self.stacks[stack.index()],
            None => self.empty_list,
        };
        if let Some(reference) = known {
            return self.out.refer(reference);
        }
        self.out.begin_list();
        let frames = stack.map_or(&[][..], |stack| self.contents.tables.stack(stack));
        for &frame in frames {
            self.out.next();
            self.frame(frame);
        }
        self.out.end();
        let reference = Some(self.out.remember());
        match stack {
            Some(stack) => self.stacks[stack.index()] = reference,
            None => self.empty_list = reference,
        }
    }

    fn frame(&mut self, id: FrameId) {
        if let Some(reference) = self.frames[id.index()] {
            return self.out.refer(reference);
        }
        let frame = *self.contents.tables.frame(id);
        self.out.begin_dict();
        self.key(Key::Name);
        self.string(frame.name);
        self.key(Key::Filename);
        self.string(frame.filename);
        self.entry(Key::Line, frame.line);
        if let Some(original) = frame.original {
            self.key(Key::FxOriginalTrace);
            let text = self.traceback_entry(*self.contents.tables.frame(original));
            self.out.str(&text);
        }
        self.out.end();
        self.frames[id.index()] = Some(self.out.remember());
    }

    /// A frame as Python's tracebacks have it.
    fn traceback_entry(&self, frame: Frame) -> String {
        let tables = self.contents.tables;
        format!("  File \"{}\", line {}, in {}\n", tables.string(frame.filename), frame.line, tables.string(frame.name))
    }

    /// The frames of the forward pass, where a stack has some: a formatted traceback, the outermost frame first.
    pub(super) fn forward_frames(&mut self, stack: Option<StackId>) {
        let tables = self.contents.tables;
        let Some(stack) = stack.filter(|&stack| !tables.forward(stack).is_empty()) else { return };
        self.key(Key::ForwardFrames);
        if let Some(&reference) = self.forward.get(&stack) {
            return self.out.refer(reference);
        }
        self.out.begin_list();
        for &frame in tables.forward(stack).iter().rev() {
            self.out.next();
            let text = self.traceback_entry(*tables.frame(frame));
            self.out.str(&text);
        }
        self.out.end();
        self.forward.insert(stack, self.out.remember());
    }
}
