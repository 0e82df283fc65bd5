//! Stacks and frames, each written once.

use super::super::field::Key;
use super::super::{Frame, FrameId, StackId};
use super::SnapshotWriter;

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
        let frames = stack.map_or(&[][..], |stack| self.contents.snapshot.tables.stack(stack));
        self.list(frames, |writer, &frame| writer.frame(frame));
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
        let frame = *self.contents.snapshot.tables.frame(id);
        self.out.begin_dict();
        self.key(Key::Name);
        self.string(frame.name);
        self.key(Key::Filename);
        self.string(frame.filename);
        self.entry(Key::Line, frame.line);
        if let Some(original) = frame.original {
            self.key(Key::FxOriginalTrace);
            self.traceback_entry(original);
        }
        self.out.end();
        self.frames[id.index()] = Some(self.out.remember());
    }

    /// A frame as Python's tracebacks have it.
    fn traceback_entry(&mut self, id: FrameId) {
        let tables = &self.contents.snapshot.tables;
        let Frame { name, filename, line, .. } = *tables.frame(id);
        let text = format!("  File \"{}\", line {line}, in {}\n", tables.string(filename), tables.string(name));
        self.out.str(&text);
    }

    /// The frames of the forward pass, where a stack has some: a formatted traceback, the outermost frame first.
    pub(super) fn forward_frames(&mut self, stack: Option<StackId>) {
        let tables = &self.contents.snapshot.tables;
        let Some(stack) = stack.filter(|&stack| !tables.forward(stack).is_empty()) else { return };
        self.key(Key::ForwardFrames);
        if let Some(&reference) = self.forward.get(&stack) {
            return self.out.refer(reference);
        }
        self.list(tables.forward(stack).iter().rev(), |writer, &frame| writer.traceback_entry(frame));
        self.forward.insert(stack, self.out.remember());
    }
}
