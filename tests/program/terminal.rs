//! Tables fit the terminal, and hold what matters; a pipe gets whole lines.

#[cfg(target_os = "linux")]
use std::path::Path;
use std::process::Command;

use unicode_width::UnicodeWidthStr;

use crate::support::fixtures;
use crate::support::tool::{ptmem, text, verdict_line};

/// Runs it below the fixtures where lines must fit so many columns.
fn narrow(columns: usize, arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ptmem"));
    command.current_dir(fixtures::folder()).env_clear().env("COLUMNS", columns.to_string());
    text(&command.args(arguments).output().unwrap().stdout)
}

fn assert_fits(columns: usize, arguments: &[&str]) {
    let report = narrow(columns, arguments);
    assert!(!report.is_empty(), "{arguments:?}");
    for line in report.lines() {
        assert!(line.width() <= columns, "{arguments:?}: {} columns: {line}", line.width());
    }
    assert_verdict_is_short(&report);
}

/// A verdict that is decided takes at most two lines.
fn assert_verdict_is_short(report: &str) {
    let line = verdict_line(report);
    if line.is_empty() || line.starts_with("INCONCLUSIVE") {
        return;
    }
    let rest = report.lines().skip_while(|other| *other != line).skip(1).take_while(|line| line.starts_with("  "));
    assert!(rest.count() <= 1, "{report}");
}

#[test]
fn no_line_of_any_command_is_longer_than_the_terminal_is_wide() {
    let folder = fixtures::folder();
    for path in fixtures::some(fixtures::snapshots()) {
        let path = path.strip_prefix(&folder).unwrap().to_str().unwrap();
        assert_fits(80, &["show", path, "-v", "--phases"]);
        assert_fits(80, &["leak", path]);
        assert_fits(80, &["doctor", path]);
        assert_fits(80, &["check", path, "--max", "peak=1MiB", "--max", "end=1MiB", "--max", "reserved=1MiB"]);
        assert_fits(80, &["diff", "before.pkl", path, "--max-growth", "5%", "--max-growth", "stack=0", "--explain"]);
        assert_fits(80, &["diff", path, "before.pkl", "--max-growth", "5%"]);
    }
    for arguments in [
        &["show", "wrapped.pkl"][..],
        &["diff", "ranks-before", "ranks-after", "--max-growth", "1%"],
        &["diff", "two-devices-before.pkl", "after.pkl", "-v", "--max-growth", "1%"],
        &["show", "ranks", "-v"],
        &["show", "oom.pkl", "--tree"],
        &["leak", "fragmentation-series"],
        &["history", "leak-series"],
        &["check", "wrapped.pkl", "--max", "peak=1MiB", "--max", "reserved=1MiB", "-v"],
        &["diff", "metadata-phases.pkl", "mid-forward.pkl", "--max-growth", "5%"],
        &["diff", "no-leak.pkl", "oom.pkl", "--max-growth", "5%"],
        &["diff", "private-pool.pkl", "protocol2.pkl", "--max-growth", "5%"],
        &["diff", "protocol2.pkl", "settings.pkl", "--max-growth", "5%"],
    ] {
        assert_fits(80, arguments);
        assert_fits(200, arguments);
    }
}

#[test]
fn a_narrow_terminal_has_what_was_there_before() {
    let diff = ["diff", "before.pkl", "after.pkl"];
    let head = |columns| {
        let report = narrow(columns, &diff);
        report.lines().find(|line| line.trim_start().starts_with("change ")).unwrap().to_owned()
    };
    assert!(head(80).contains(" before ") && !head(80).contains(" blocks "), "{}", head(80));
    assert!(head(200).contains(" before ") && head(200).contains(" blocks "), "{}", head(200));
}

#[test]
fn a_small_peak_elsewhere_is_among_the_others() {
    let report = |min_delta| narrow(200, &["diff", "before.pkl", "leak.pkl", "--min-delta", min_delta]);
    assert!(report("1KiB").contains("[the before had its peak, "), "{}", report("1KiB"));
    let others = report("1GiB");
    assert!(!others.contains("[the before had its peak, ") && others.contains(" others]"), "{others}");
}

#[test]
fn a_pipe_gets_whole_lines() {
    let report =
        text(&ptmem(&fixtures::folder(), &["diff", "wrapped.pkl", "wrapped.pkl", "--max-growth", "5%", "-v"]).stdout);
    for begin in ["warning[history-truncated] both: ", "note[sizes-bounded] both: "] {
        let line = report.lines().find(|line| line.starts_with(begin)).unwrap();
        assert!(line.width() > 100, "{line}");
    }
    let missing = ["diff", "before.pkl", "after.pkl", "--max-growth", "stack:*atention*=0"];
    let verdict = verdict_line(&text(&ptmem(&fixtures::folder(), &missing).stdout));
    assert!(verdict.width() > 100 && verdict.ends_with("aten::native_layer_norm'"), "{verdict}");
}

#[test]
fn notes_and_minor_metrics_are_counted_and_verbose_shows_them() {
    let gate = ["diff", "wrapped.pkl", "wrapped.pkl", "--max-growth", "5%"];
    let short = narrow(80, &gate);
    let (_, end) = short.split_once("\nPASS ").unwrap();
    let lines: Vec<&str> = end.lines().collect();
    assert_eq!(lines.len(), 4, "{short}");
    assert!(lines[1].starts_with("warning[history-truncated] both: the ring buffer was") && lines[1].ends_with(" …"));
    assert!(lines[2].starts_with("warning[same-input] "), "{short}");
    assert_eq!(lines[3], "left out: 6 metrics, 3 notes, the rest of 1 warning (-v shows them)");
    assert!(!short.contains("  active  ") && !short.contains("note["), "{short}");

    let long = narrow(80, &[&gate[..], &["-v"]].concat());
    assert!(long.contains("record with a larger max_entries") && long.contains("  active  "), "{long}");
    assert_eq!(long.matches("\nnote[").count(), 3, "{long}");
    assert!(!long.contains("left out"), "{long}");

    // The first row says how its stack changed.
    let rows = ["diff", "two-devices-before.pkl", "after.pkl", "--max-growth", "5%"];
    let (short, long) = (narrow(80, &rows), narrow(80, &[&rows[..], &["-v"]].concat()));
    assert_eq!(short.matches(" on average)\n").count(), 1, "{short}");
    assert!(long.matches(" on average)\n").count() > 3 && short.contains(", how "), "{long}");

    // A metric with a limit is always there.
    let limited = narrow(80, &[&gate[..], &["--max-growth", "active=5%"]].concat());
    assert!(limited.contains("  active  "), "{limited}");
}

/// The text of a command in a pseudo-terminal of so many columns.
#[cfg(target_os = "linux")]
fn in_terminal(columns: usize, arguments: &str) -> String {
    let line = format!("stty cols {columns} rows 40; '{}' {arguments}", env!("CARGO_BIN_EXE_ptmem"));
    let mut command = Command::new("script");
    command.current_dir(fixtures::folder()).env_remove("COLUMNS").env_remove("NO_COLOR").env("TERM", "xterm");
    let output = command.args(["-qec", &line, "/dev/null"]).stdin(std::process::Stdio::null()).output().unwrap();
    text(&output.stdout).replace('\r', "")
}

#[cfg(target_os = "linux")]
#[test]
fn a_terminal_has_its_width_and_colours() {
    if !Path::new("/usr/bin/script").exists() {
        return crate::support::tool::say("skipped: no /usr/bin/script, which makes a terminal");
    }
    let missing = "diff before.pkl after.pkl --max-growth 'stack:*atention*=0'";
    for columns in [80, 200] {
        let coloured = in_terminal(columns, missing);
        assert!(coloured.contains("\u{1b}[1m\u{1b}[33mINCONCLUSIVE"), "{coloured}");
        let plain = in_terminal(columns, &format!("{missing} --color never"));
        assert!(!plain.contains('\u{1b}'), "{plain}");
        assert_eq!(anstream::adapter::strip_str(&coloured).to_string(), plain);
        let widest = plain.lines().map(UnicodeWidthStr::width).max().unwrap();
        assert!(widest <= columns && widest > columns / 2, "{widest}: {plain}");
    }
    let error = in_terminal(60, "show no/such/folder/of/files/and/no/such/file/of/any/name/at/all.pkl");
    let error = anstream::adapter::strip_str(&error).to_string();
    assert!(error.lines().count() > 1 && error.lines().all(|line| line.width() <= 60), "{error}");
}
