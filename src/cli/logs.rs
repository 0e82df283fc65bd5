//! What the output of a program says.

/// Whether a line of a log is of the program that failed, and no remark of ptmem.
pub(crate) fn is_of_program(line: &str) -> bool {
    !line.trim().is_empty() && !line.trim_start().starts_with("ptmem simulate: ")
}

/// How Python begins to report an exception; the first line behind it that is not indented names the exception.
const TRACEBACK: &str = "Traceback (most recent call last):\n";

/// The last exception that a program reports, without the rest of its message.
pub(crate) fn exception(text: &str) -> Option<&str> {
    let (_, report) = text.rsplit_once(TRACEBACK)?;
    report.lines().find(|line| !line.starts_with(char::is_whitespace) && is_of_program(line))
}
