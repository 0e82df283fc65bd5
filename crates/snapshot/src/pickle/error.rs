//! Errors of pickles.

/// A pickle that cannot be read, and where.
#[derive(Debug, thiserror::Error)]
#[error("byte {offset}: {kind}")]
pub struct Error<E: std::error::Error + 'static> {
    /// Offset in the stream of the opcode that could not be carried out.
    pub offset: u64,
    /// The problem.
    pub kind: ErrorKind<E>,
}

/// The kinds of [`Error`].
#[derive(Debug, thiserror::Error)]
pub enum ErrorKind<E: std::error::Error + 'static> {
    /// The stream ends before STOP.
    #[error("the pickle ends in the middle of {opcode}; the file is truncated")]
    Truncated {
        /// The opcode, or a description of the place.
        opcode: &'static str,
    },
    /// An opcode that imports, builds or calls something.
    #[error(
        "the pickle asks Python to run code (opcode {opcode}), as a checkpoint of a model does and a memory snapshot never; \
         if it is no checkpoint, the file may be malicious. Nothing was run"
    )]
    Forbidden {
        /// Name in `pickletools`.
        opcode: &'static str,
    },
    /// An opcode for data that snapshots never hold.
    #[error("opcode {opcode} is not supported: memory snapshots hold only plain data")]
    Unsupported {
        /// Name in `pickletools`.
        opcode: &'static str,
    },
    /// A byte that is no opcode of any protocol.
    #[error("0x{byte:02x} is not a pickle opcode; the file is damaged or not a pickle")]
    Unknown {
        /// The byte.
        byte: u8,
    },
    /// A protocol from the future.
    #[error("pickle protocol {0} is not known; expected 0 to 5")]
    Protocol(u8),
    /// An opcode that takes more from the stack than there is.
    #[error("{opcode} finds too few values on the stack; the file is damaged")]
    Underflow {
        /// Name in `pickletools`.
        opcode: &'static str,
    },
    /// An opcode that finds no MARK.
    #[error("{opcode} finds no MARK on the stack; the file is damaged")]
    NoMark {
        /// Name in `pickletools`.
        opcode: &'static str,
    },
    /// An opcode on a value of another type.
    #[error("{opcode} is applied to a value of another type; the file is damaged")]
    WrongType {
        /// Name in `pickletools`.
        opcode: &'static str,
    },
    /// Keys and values that do not pair up.
    #[error("{opcode} finds a key without a value; the file is damaged")]
    OddItems {
        /// Name in `pickletools`.
        opcode: &'static str,
    },
    /// A reference to something never memoised.
    #[error("the pickle refers to memo entry {0}, which does not exist; the file is damaged")]
    NoMemo(u64),
    /// A literal in text form that cannot be read, or a length below zero.
    #[error("the argument of {opcode} is malformed; the file is damaged")]
    Literal {
        /// Name in `pickletools`.
        opcode: &'static str,
    },
    /// The input failed.
    #[error("reading failed: {0}")]
    Io(#[from] std::io::Error),
    /// The visitor objects.
    #[error(transparent)]
    Visitor(E),
}
