//! Inputs that hold only figures: `torch.cuda.memory_stats()`, golden values of Megatron-LM, and tables.

mod bytes;
mod cases;
mod error;
mod json;
mod key;
mod table;

pub use cases::{Cases, MOST_CASES, MOST_DEVICES};
pub use error::{MOST_TABLE, NumbersError};

use super::serving_in;
use key::FigureKey;

/// The cases of an input: JSON, a table of comma-separated values, or the log of a server. Empty if it does not contain a figure.
///
/// # Errors
/// Where a figure is not a number of bytes, figures contradict each other, or a table cannot be read.
pub fn cases(text: &[u8]) -> Result<Cases, NumbersError> {
    if text.trim_ascii_start().starts_with(b"{") {
        return json::cases(text)?.verified();
    }
    if text.len() > MOST_TABLE {
        return Err(NumbersError::TooLong);
    }
    let log = serving_in(&String::from_utf8_lossy(text));
    if log.is_empty() {
        return table::cases(text)?.verified();
    }
    let mut cases = Cases::default();
    let figures = log.into_iter().map(|(figure, stated)| (FigureKey::Serving(figure), stated)).collect();
    cases.device("", None, "")?.figures = figures;
    Ok(cases)
}

/// How sure it is that a file of JSON, which nobody named, states figures of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recognition {
    /// A figure has a key of PyTorch, of Megatron-LM, or of this tool with more than one word, even if its value is wrong or cut off.
    Certain,
    /// The keys are words such as `end`, which others also write, or the end of the file is missing before any key.
    Possible,
    /// It states none.
    None,
}

/// How sure it is that JSON states figures.
pub fn recognized(json: &[u8]) -> Recognition {
    json::recognized(json)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_cut_off_is_recognized_by_its_keys() {
        for (text, how) in [
            ("{\"max_memory_allocated\": 999", Recognition::Certain),
            ("{\"max_memory_allocated\": 999}", Recognition::Certain),
            ("{\"end\": 17", Recognition::Possible),
            ("{\"end\": 17}", Recognition::Possible),
            ("", Recognition::Possible),
            ("{\"a\": 17}", Recognition::None),
        ] {
            assert_eq!(recognized(text.as_bytes()), how, "{text}");
        }
    }
}
