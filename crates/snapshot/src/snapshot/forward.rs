//! `forward_frames`: the code of the forward pass to which an allocation of the backward pass belongs.
//!
//! PyTorch writes them for autograd's anomaly mode, as lines of a traceback that is formatted already.

/// Maximum number of frames kept of a traceback, innermost first.
pub(super) const DEEPEST: usize = 128;

/// A frame of a formatted traceback.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TracebackFrame<'a> {
    pub(super) name: &'a str,
    pub(super) file: &'a str,
    pub(super) line: u32,
}

/// Reads `File "model.py", line 12, in forward`, with the source line that may follow.
pub(super) fn entry(text: &str) -> Option<TracebackFrame<'_>> {
    let first = text.trim_start().lines().next()?;
    let (file, place) = first.strip_prefix("File \"")?.split_once("\", line ")?;
    let (line, name) = place.split_once(", in ")?;
    Some(TracebackFrame { name: name.trim_end(), file, line: line.parse().ok()? })
}

/// True if the innermost of these functions comes first. Python's tracebacks have it last; the traceback of mixed languages, which
/// ends in the module that was run, has it first already.
pub(super) fn begins_innermost<'n>(mut names: impl DoubleEndedIterator<Item = &'n str>) -> bool {
    let first = names.next();
    let last = names.next_back();
    first != Some("<module>") && last == Some("<module>")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_traceback_are_read() {
        let text = "  File \"/home/me/my model.py\", line 12, in forward\n    return self.fc(x)\n";
        assert_eq!(entry(text), Some(TracebackFrame { name: "forward", file: "/home/me/my model.py", line: 12 }));
        assert_eq!(
            entry("File \"a.py\", line 1, in <module>"),
            Some(TracebackFrame { name: "<module>", file: "a.py", line: 1 })
        );
        for bad in ["", "Traceback (most recent call last):", "  File \"a.py\", line x, in f", "  File a.py, line 1"] {
            assert_eq!(entry(bad), None, "{bad}");
        }
    }

    #[test]
    fn the_innermost_comes_first_or_last() {
        let begins = |names: &[&'static str]| begins_innermost(names.iter().copied());
        assert!(!begins(&["<module>", "main", "forward"]));
        assert!(begins(&["forward", "main", "<module>"]));
        for names in [&["<module>"][..], &["forward"], &["<module>", "<module>"], &["forward", "main"], &[]] {
            assert!(!begins(names), "{names:?}");
        }
    }
}
