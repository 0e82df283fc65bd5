//! The encoding of protocol buffers, as far as a trace needs it: <https://protobuf.dev/programming-guides/encoding>.

/// A message under construction.
#[derive(Debug, Default)]
pub(super) struct Message(Vec<u8>);

/// Types of fields on the wire.
#[derive(Clone, Copy)]
enum Wire {
    Varint = 0,
    Bytes = 2,
}

impl Message {
    /// Adds a field of any integer type, of which no value is negative.
    pub(super) fn number(mut self, field: u32, value: u64) -> Self {
        self.key(field, Wire::Varint);
        push_varint(&mut self.0, value);
        self
    }

    /// Adds a text.
    pub(super) fn text(self, field: u32, text: &str) -> Self {
        self.bytes(field, text.as_bytes())
    }

    /// Adds a message.
    pub(super) fn message(self, field: u32, message: &Self) -> Self {
        self.bytes(field, &message.0)
    }

    /// The encoded message.
    pub(super) fn encoded(&self) -> &[u8] {
        &self.0
    }

    fn bytes(mut self, field: u32, bytes: &[u8]) -> Self {
        self.key(field, Wire::Bytes);
        push_varint(&mut self.0, bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    fn key(&mut self, field: u32, wire: Wire) {
        push_varint(&mut self.0, u64::from(field) << 3 | wire as u64);
    }
}

/// Adds a number in groups of seven bits, the lowest first, each in a byte whose highest bit says that more follow.
fn push_varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(0x80 | value.to_le_bytes()[0]);
        value >>= 7;
    }
    bytes.push(value.to_le_bytes()[0]);
}
