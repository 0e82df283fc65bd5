//! Fills records with what their dictionaries say.

use super::super::field::{FieldKey, RecordKind};
use super::super::forward;
use super::super::value::{ValueHandle, ValueKind};
use super::super::{Action, DictKind, Event, Frame, FrameId, StringId, TagsId};
use super::SnapshotBuilder;
use super::container::{self, Dict, Present};

impl SnapshotBuilder {
    /// A dictionary of a kind just recognised.
    pub(super) fn begin(&mut self, kind: RecordKind, pairs: impl Iterator<Item = (ValueHandle, ValueHandle)>) -> Dict {
        match kind {
            RecordKind::Frame => {
                let empty = self.tables.intern_string("");
                self.filled_frame(Frame { name: empty, filename: empty, line: 0, original: None }, pairs)
            }
            RecordKind::Event => {
                self.events.push(Event::empty(Self::no_tags()));
                self.fill_event(self.events.len() - 1, Present::default(), pairs)
            }
        }
    }

    /// The action of an event.
    #[inline]
    fn action(&self, value: ValueHandle) -> Option<Action> {
        let id = Self::string_id(value)?;
        let known = self.actions.iter().find(|(name, _)| *name == id);
        Some(known.map_or(Action::Other, |&(_, action)| action))
    }

    #[inline]
    pub(super) fn time(&self, value: ValueHandle) -> Option<i64> {
        match value.kind() {
            ValueKind::Int(time) => Some(time),
            _ => self.integer(value).and_then(|time| i64::try_from(time).ok()),
        }
    }

    /// More of a dictionary of a known kind.
    pub(super) fn fill(
        &mut self,
        kind: RecordKind,
        index: u32,
        pairs: impl Iterator<Item = (ValueHandle, ValueHandle)>,
    ) -> Dict {
        let at = index as usize;
        match kind {
            RecordKind::Frame => {
                self.frame_changes += 1;
                self.filled_frame(*self.tables.frame(FrameId::from_index(at)), pairs)
            }
            RecordKind::Event => {
                let present = self.incomplete.remove(&at).unwrap_or(Present::ALL);
                self.fill_event(at, present, pairs)
            }
        }
    }

    fn filled_frame(&mut self, mut frame: Frame, pairs: impl Iterator<Item = (ValueHandle, ValueHandle)>) -> Dict {
        for (key, value) in pairs {
            match Self::key(key) {
                Some(FieldKey::Name) => frame.name = self.text_of_frame(value),
                Some(FieldKey::Filename) => frame.filename = self.text_of_frame(value),
                // Wider than 128 bits is as unknown as the -1 that PyTorch writes.
                Some(FieldKey::Line) => frame.line = self.integer(value).unwrap_or(-1),
                Some(FieldKey::FxOriginalTrace) => frame.original = self.original(value),
                Some(_) => {}
                None => self.unread.add(DictKind::Frame, key),
            }
        }
        Dict::Record(RecordKind::Frame, container::index(self.tables.intern_frame(frame).index()))
    }

    /// A name in a frame, which is empty where it is not a text.
    fn text_of_frame(&mut self, value: ValueHandle) -> StringId {
        Self::string_id(value).unwrap_or_else(|| self.tables.intern_string(""))
    }

    /// The innermost frame of the traceback that generated code keeps of its origin.
    fn original(&mut self, trace: ValueHandle) -> Option<FrameId> {
        let id = Self::string_id(trace)?;
        if let Some(known) = self.originals.get(&id) {
            return *known;
        }
        let text = self.tables.string(id).to_owned();
        let entry = text.lines().rev().find_map(forward::entry);
        let original = entry.map(|entry| self.frame_of_traceback(&entry));
        self.originals.insert(id, original);
        original
    }

    pub(super) fn frame_of_traceback(&mut self, entry: &forward::TracebackFrame<'_>) -> FrameId {
        let name = self.tables.intern_string(entry.name);
        let filename = self.tables.intern_string(entry.file);
        self.tables.intern_frame(Frame { name, filename, line: entry.line.into(), original: None })
    }

    /// Fills an event, of which some required keys are `present`.
    #[inline]
    fn fill_event(
        &mut self,
        at: usize,
        mut present: Present,
        pairs: impl Iterator<Item = (ValueHandle, ValueHandle)>,
    ) -> Dict {
        let mut event = self.events[at];
        let failed_before = event.action == Action::Oom;
        let mut time = None;
        let mut addr = None;
        let mut device_free = None;
        let mut tags = [ValueHandle::ABSENT; 5];
        let [stream, compile_context, user_metadata, pool_id, other_action] = &mut tags;
        for (key, value) in pairs {
            match Self::key(key) {
                // As in Python, the later value counts, whatever it is.
                Some(FieldKey::Action) => {
                    let action = self.action(value);
                    event.action = action.unwrap_or(event.action);
                    present.action = action.is_some();
                    *other_action = if action == Some(Action::Other) { value } else { ValueHandle::ABSENT };
                }
                Some(FieldKey::Addr) => addr = Some(self.unsigned(value)),
                Some(FieldKey::DeviceFree) => device_free = Some(self.unsigned(value)),
                Some(FieldKey::Size) => {
                    let size = self.unsigned(value);
                    event.size = size.unwrap_or_default();
                    present.size = size.is_some();
                }
                Some(FieldKey::TimeUs) => time = Some(self.time(value)),
                Some(FieldKey::Frames) => event.stack = self.use_stack(DictKind::Event, value),
                Some(FieldKey::ForwardFrames) => self.forward.push((at, value)),
                Some(FieldKey::Stream) => *stream = value,
                Some(FieldKey::CompileContext) => *compile_context = value,
                Some(FieldKey::UserMetadata) => *user_metadata = value,
                Some(FieldKey::PoolId) => *pool_id = value,
                Some(_) => {}
                None => self.unread.add(DictKind::Event, key),
            }
        }
        // A failed request has free bytes in the place of an address.
        let has_failed = event.action == Action::Oom;
        present.addr &= has_failed == failed_before;
        if let Some(addr) = if has_failed { device_free } else { addr } {
            event.addr = addr.unwrap_or_default();
            present.addr = addr.is_some();
        }
        event.tags = self.tags_with(event.tags, tags);
        self.events[at] = event;
        if at == self.times.len() {
            self.times.push(time.flatten());
        } else if let Some(time) = time {
            self.late_times.insert(at, time);
        }
        // More of its dictionary can complete it.
        if present != Present::ALL {
            self.incomplete.insert(at, present);
        }
        Dict::Record(RecordKind::Event, container::index(at))
    }

    /// `before` with the values that are present of stream, compile context, metadata, pool and unknown action.
    #[inline]
    fn tags_with(&mut self, before: TagsId, values: [ValueHandle; 5]) -> TagsId {
        match self.latest_tags {
            Some((latest, tags)) if before == Self::no_tags() && values == latest => tags,
            _ => self.new_tags(before, values),
        }
    }

    #[cold]
    fn new_tags(&mut self, before: TagsId, values: [ValueHandle; 5]) -> TagsId {
        let mut tags = *self.tables.tags(before);
        let [stream, compile_context, user_metadata, pool_id, other_action] = values;
        if stream != ValueHandle::ABSENT {
            tags.stream = self.integer(stream);
        }
        if compile_context != ValueHandle::ABSENT {
            tags.compile_context = self.unless_nothing(compile_context, &["", "N/A"]);
        }
        if user_metadata != ValueHandle::ABSENT {
            tags.user_metadata = self.metadata(user_metadata);
        }
        if pool_id != ValueHandle::ABSENT {
            tags.pool_id = self.pool_id(pool_id);
        }
        if other_action != ValueHandle::ABSENT {
            tags.action = Self::string_id(other_action);
        }
        let id = self.tables.intern_tags(tags);
        // A container may hold something else when it comes again.
        let may_change =
            [pool_id, user_metadata].map(|tag| matches!(tag.kind(), ValueKind::List(_) | ValueKind::Dict(_)));
        if before == Self::no_tags() && may_change == [false; 2] {
            self.latest_tags = Some((values, id));
        }
        id
    }

    /// The metadata of an event: a text, or a dictionary, which counts as its JSON.
    fn metadata(&mut self, value: ValueHandle) -> Option<StringId> {
        if !matches!(value.kind(), ValueKind::Dict(_)) {
            return self.unless_nothing(value, &[""]);
        }
        let json = self.short_json(value).filter(|json| json.as_object().is_some_and(|pairs| !pairs.is_empty()))?;
        Some(self.tables.intern_string(&json.to_string()))
    }

    /// A tag, unless it is what PyTorch writes where nothing was set.
    fn unless_nothing(&self, tag: ValueHandle, nothing: &[&str]) -> Option<StringId> {
        Self::string_id(tag).filter(|&tag| !nothing.contains(&self.tables.string(tag)))
    }
}
