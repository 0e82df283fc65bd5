//! What the output of a program says.

/// Whether a line of a log is of the program that failed, and no remark of ptmem.
pub(crate) fn is_of_program(line: &str) -> bool {
    !line.trim().is_empty() && !line.trim_start().starts_with("ptmem simulate: ")
}

/// How Python begins to report an exception; the first line behind it that is not indented names the exception.
const TRACEBACK: &str = "Traceback (most recent call last):\n";

/// The last exception that a program reports, without the rest of its message, and the last line below it if there are others.
pub(crate) fn exception(text: &str) -> Option<(&str, Option<&str>)> {
    let (ahead, report) = text.rsplit_once(TRACEBACK)?;
    // Below torch.distributed, each line begins with its rank, and other processes may write between them.
    let rank = ahead.rsplit('\n').next().filter(|rank| report.starts_with(rank)).unwrap_or_default();
    let lines = report.lines().filter_map(|line| line.strip_prefix(rank)).filter(|line| is_of_program(line));
    let mut lines = lines.skip_while(|line| line.starts_with(char::is_whitespace));
    let named = lines.next()?;
    // torchrun reports that one of its processes failed below what that reports itself.
    let of_process = if named.starts_with("torch.distributed.elastic.") { exception(ahead) } else { None };
    of_process.or_else(|| Some((named, lines.last().map(str::trim))))
}
