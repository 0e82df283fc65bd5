//! Errors of pickles.

/// A pickle that cannot be read, and where.
#[derive(Debug, thiserror::Error)]
#[error("byte {offset}: {kind}")]
pub struct PickleError<E: std::error::Error + 'static> {
    /// Offset in the stream of the opcode that could not be carried out.
    pub offset: u64,
    /// The problem.
    pub kind: ErrorKind<E>,
}

/// The kinds of [`PickleError`].
#[derive(Debug, thiserror::Error)]
pub enum ErrorKind<E: std::error::Error + 'static> {
    /// The stream ends before STOP.
    #[error("the pickle ends in the middle of {opcode}; the file is truncated: copy it again, or record it again")]
    Truncated {
        /// The opcode, or a description of the place.
        opcode: &'static str,
    },
    /// An opcode that imports, builds or calls something.
    #[error(
        "the pickle asks Python to run code (opcode {opcode}). A checkpoint of a model does that, a memory snapshot \
         never does; if the file is not a checkpoint, it may be malicious. No code was run"
    )]
    Forbidden {
        /// Name in `pickletools`.
        opcode: &'static str,
    },
    /// An opcode that snapshots never hold.
    #[error("opcode {opcode} is not supported: memory snapshots hold only plain data, in pickle protocol 2 or later")]
    Unsupported {
        /// Name in `pickletools`.
        opcode: &'static str,
    },
    /// A byte that is not an opcode of any protocol.
    #[error("0x{byte:02x} is not a pickle opcode; the file is damaged or not a pickle")]
    Unknown {
        /// The byte.
        byte: u8,
    },
    /// A protocol from the future.
    #[error("pickle protocol {0} is not known; expected 2 to 5")]
    Protocol(u8),
    /// An opcode that cannot be carried out: a file that was written whole has none.
    #[error("{opcode} {problem}; the file is damaged")]
    Damaged {
        /// Name in `pickletools`.
        opcode: &'static str,
        /// The problem.
        problem: &'static str,
    },
    /// A reference to something never memoised.
    #[error("the pickle refers to memo entry {0}, which does not exist; the file is damaged")]
    NoMemo(u32),
    /// The input failed.
    #[error("reading failed: {0}")]
    Io(#[from] std::io::Error),
    /// The visitor objects.
    #[error(transparent)]
    Visitor(E),
}

impl<E: std::error::Error + 'static> ErrorKind<E> {
    pub(super) fn too_few(opcode: &'static str) -> Self {
        Self::Damaged { opcode, problem: "finds too few values on the stack" }
    }
}
