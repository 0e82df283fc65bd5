//! What the output of a program says.

/// Whether a line of a log is of the program that failed, and no remark of ptmem.
pub(crate) fn is_of_program(line: &str) -> bool {
    !line.trim().is_empty() && !line.trim_start().starts_with("ptmem simulate: ")
}

/// How Python begins to report an exception; the first line behind it that is not indented names the exception.
const TRACEBACK: &str = "Traceback (most recent call last):\n";

/// The name by which torchrun reports that one of its processes failed, below what that reports itself.
const PROCESS_FAILED: &str = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError";

/// How torchrun begins to describe the process that failed first.
const ROOT_CAUSE: &str = "\nRoot Cause ";

/// The last exception that a program reports, without the rest of its message, and the last line below it if there are others. Of
/// several processes, that of the one which failed first.
pub(crate) fn exception(text: &str) -> Option<(&str, Option<&str>)> {
    let of_torchrun = text.rsplit_once(PROCESS_FAILED).and_then(|(head, report)| {
        let (ahead, _) = head.rsplit_once(TRACEBACK)?;
        of_process(ahead, report)
    });
    of_torchrun.or_else(|| {
        let (ahead, report) = text.rsplit_once(TRACEBACK)?;
        reported(ahead, report)
    })
}

/// The same of one report, given what the program printed ahead of it.
fn reported<'t>(ahead: &'t str, report: &'t str) -> Option<(&'t str, Option<&'t str>)> {
    // Below torch.distributed, each line begins with its rank, and other processes may write between them.
    let rank = ahead.rsplit('\n').next().filter(|rank| report.starts_with(rank)).unwrap_or_default();
    let lines = report.lines().filter_map(|line| line.strip_prefix(rank)).filter(|line| is_of_program(line));
    let mut lines = lines.skip_while(|line| line.starts_with(char::is_whitespace));
    Some((lines.next()?, lines.last().map(str::trim)))
}

/// Why the process failed that torchrun reports as the first one: the signal that ended it, the exception that it wrote for torchrun,
/// otherwise its own report.
fn of_process<'t>(ahead: &'t str, report: &'t str) -> Option<(&'t str, Option<&'t str>)> {
    let (_, first) = report.rsplit_once(ROOT_CAUSE)?;
    if let Some((_, own)) = first.rsplit_once(TRACEBACK) {
        // Indented as the facts are, and what Python indents by more.
        return Some((own.lines().find(|line| !line.starts_with("   "))?.trim(), None));
    }
    if let Some((_, signal)) =
        first.split_once("traceback : ").filter(|(_, traceback)| traceback.starts_with("Signal "))
    {
        return Some((signal.lines().next()?, None));
    }
    let mut facts = first.lines().filter_map(|line| line.split_once(": "));
    let rank = facts.find(|(name, _)| name.trim() == "rank").and_then(|(_, rank)| rank.split(' ').next());
    let own = format!("[rank{}]: ", rank.unwrap_or_default());
    let Some(at) = ahead.rfind(&format!("{own}{TRACEBACK}")).map(|at| at + own.len()) else { return exception(ahead) };
    reported(&ahead[..at], &ahead[at + TRACEBACK.len()..])
}
