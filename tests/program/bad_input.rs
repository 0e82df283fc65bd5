//! Errors of the command line: input that is no snapshot, and arguments that mean nothing.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use crate::support::pickle::{Options, Value, write};
use assert_cmd::Command;
use tempfile::TempDir;

fn scratch() -> TempDir {
    tempfile::tempdir().unwrap()
}

/// The tool in an empty directory, with nothing of the environment but PATH.
fn ptmem(directory: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ptmem"));
    command.current_dir(directory).env_clear().timeout(std::time::Duration::from_secs(60));
    if let Some(path) = std::env::var_os("PATH") {
        command.env("PATH", path);
    }
    command
}

fn fixture(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "fixtures", name].iter().collect()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// The message of a run that could not be carried out: one line, nothing on standard output.
fn refusal(output: &Output) -> String {
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert_eq!(text(&output.stdout), "", "{stderr}");
    assert!(stderr.starts_with("error: ") && stderr.ends_with('\n'), "{stderr:?}");
    assert_eq!(stderr.lines().count(), 1, "{stderr:?}");
    assert!(!stderr.contains('\u{1b}'), "{stderr:?}");
    stderr.trim_end().to_owned()
}

/// The message about a file of the name, by every command that reads files; they say the same.
fn refused(directory: &Path, name: &str) -> String {
    let good = fixture("empty.pkl");
    let good = good.to_str().unwrap();
    let commands: [&[&str]; 6] = [
        &["show", name],
        &["show", "--format", "json", name],
        &["check", "--max", "peak=1GiB", name],
        &["diff", name, good],
        &["diff", good, name],
        &["diff", "--exit-zero", name, name],
    ];
    let messages = commands.map(|arguments| refusal(&ptmem(directory).args(arguments).output().unwrap()));
    for message in &messages {
        assert_eq!(*message, messages[0]);
    }
    let [first, ..] = messages;
    assert!(first.starts_with(&format!("error: {name}: ")), "{first}");
    first
}

/// A sentence that appears twice in a message shows that its causes were printed again.
fn no_echo(message: &str) {
    let parts: Vec<&str> = message.split(": ").collect();
    for (i, part) in parts.iter().enumerate().filter(|(_, part)| part.len() > 12) {
        assert!(!parts[i + 1..].iter().any(|other| other.contains(part)), "says it twice: {message}");
    }
}

#[test]
fn files_that_are_no_snapshot_say_what_they_look_like_and_what_is_expected() {
    let directory = scratch();
    let page = b"<!DOCTYPE html>\n<html><body>MemoryViz</body></html>\n";
    let random: Vec<u8> = (0..997_u32).map(|i| u8::try_from((i * i * 7 + i / 3 + 1) % 251).unwrap()).collect();
    let number = write(&Value::from(7), Options::default());
    let model = write(&Value::dict([("model", 1.into()), ("epoch", 2.into())]), Options::default());
    let whole = fs::read(fixture("torch-2.10.pkl")).unwrap();
    let cases: [(&str, &[u8], &str); 15] = [
        ("empty.pickle", b"", "the file is empty"),
        ("notes.txt", b"step 1: 17 GiB\nstep 2: 18 GiB\n", "this looks like text"),
        ("random.bin", &random, "not a pickle (it begins with the byte 0x01)"),
        ("snapshot.json", b"{\"segments\": [], \"device_traces\": []}", "this looks like JSON"),
        ("list.json", b"\n[1, 2]", "this looks like JSON"),
        ("plot.html", page, "this looks like HTML, such as a report of ptmem"),
        ("model.pt", b"PK\x03\x04\x00\x00\x08\x08archive/data.pkl", "the ZIP archive is damaged or cut off"),
        (
            "snapshot.gz",
            b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03",
            "the gzip data ends too early: copy the file again",
        ),
        ("snapshot.zst", b"\x28\xb5\x2f\xfd\x04\x00\x01\x00", "the Zstandard data"),
        ("snapshot.db", b"SQLite format 3\x00\x10\x00\x01\x01", "this looks like a SQLite database"),
        ("pointer.pkl", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 7\n", "'git lfs pull'"),
        ("number.pkl", &number, "the file is a pickle, but not a CUDA memory snapshot: an int"),
        (
            "model.pkl",
            &model,
            "the file is a pickle, but not a CUDA memory snapshot: a dict with the keys 'model', 'epoch'",
        ),
        ("half.pkl", &whole[..whole.len() / 2], "the file is truncated"),
        ("magic.pkl", b"\x80\x04", "the file is truncated"),
    ];
    for (name, content, looks) in cases {
        fs::write(directory.path().join(name), content).unwrap();
        let message = refused(directory.path(), name);
        assert!(message.contains(looks), "{message}");
        // A damaged file is of the expected kind.
        let is_damaged = ["truncated", "archive", "data", "lfs"].iter().any(|word| looks.contains(word));
        assert!(message.contains("torch.cuda.memory._dump_snapshot()") || is_damaged, "{message}");
        no_echo(&message);
        // The same from standard input.
        let output = ptmem(directory.path()).args(["show", "-"]).write_stdin(content).output().unwrap();
        let piped = refusal(&output);
        let (_, expected) = message.split_once(": ").unwrap();
        let expected = expected.strip_prefix(name).unwrap();
        assert_eq!(piped, format!("error: standard input{expected}"));
    }
}

#[test]
fn what_is_quoted_of_a_file_begins_no_line_and_no_escape_sequence() {
    let directory = scratch();
    let mean = r"x\n::error::y \u001b[31m ##[error]z";
    for text in [
        format!(r#"{{"schema": "{mean}"}}"#),
        format!(r#"{{"schema": "ptmem.profile/1", "frames": {{"a": "{mean}"}}}}"#),
        format!(r#"{{"schema": "ptmem.profile/1", "frames": {{}}, "source": "{mean}"}}"#),
    ] {
        fs::write(directory.path().join("mean.json"), text).unwrap();
        let message = refused(directory.path(), "mean.json");
        assert!(!message.contains("##["), "{message}");
    }
}

#[test]
fn text_that_begins_like_an_opcode_is_text() {
    let directory = scratch();
    for content in [
        &b"cuda out of memory\nTried to allocate 2 GiB\n"[..],
        b"commit 3f2a\nAuthor: me\n",
        b"(c) 2024 by somebody, all rights reserved\n",
    ] {
        fs::write(directory.path().join("log.txt"), content).unwrap();
        let message = refused(directory.path(), "log.txt");
        assert!(message.contains("this looks like text"), "{message}");
        assert!(!message.contains("malicious"), "{message}");
    }
}

#[test]
fn damaged_snapshots_name_file_and_place() {
    let directory = scratch();
    let event = Value::dict([("action", "alloc".into()), ("size", 1.into())]);
    let traces = Value::List(vec![Value::List(vec![event])]);
    let value = Value::dict([("segments", Value::List(vec![])), ("device_traces", traces)]);
    fs::write(directory.path().join("a.pkl"), write(&value, Options::default())).unwrap();
    let message = refused(directory.path(), "a.pkl");
    assert_reads!(message => str!["error: a.pkl: device_traces[0][0]: the key 'addr' is missing or is not an integer from 0 to 2^64-1"]);
    no_echo(&message);
    // Sums past 64 bits only show when the history is replayed.
    let event = Value::dict([("action", "alloc".into()), ("addr", 0.into()), ("size", u64::MAX.into())]);
    let traces = Value::List(vec![Value::List(vec![event])]);
    let value = Value::dict([("segments", Value::List(vec![])), ("device_traces", traces)]);
    fs::write(directory.path().join("b.pkl"), write(&value, Options::default())).unwrap();
    let message = refused(directory.path(), "b.pkl");
    assert_reads!(message => str!["error: b.pkl: the allocated bytes of device 0 add up to more than 2^64-1; the file is damaged"]);
    no_echo(&message);
}

#[test]
fn files_that_cannot_be_opened_say_why() {
    let directory = scratch();
    assert_reads!(refused(directory.path(), "missing.pickle") => str!["error: missing.pickle: no such file; expected a snapshot from torch.cuda.memory._dump_snapshot() or a saved profile"]);
    fs::create_dir(directory.path().join("dumps")).unwrap();
    assert_reads!(refused(directory.path(), "dumps") => str!["error: dumps: the directory has no snapshots (.pkl, .pickle, .pt, .pth), saved profiles or recognized figures (.json); expected at least one"]);
    fs::write(directory.path().join("train it.py"), "import torch\n").unwrap();
    let message = refused(directory.path(), "train it.py");
    assert_reads!(message => str!["error: train it.py: is a Python program; expected a snapshot from torch.cuda.memory._dump_snapshot() or a saved profile. To record the program: ptmem simulate --record snapshot.pkl -- python 'train it.py'"]);
    fs::write(directory.path().join("file"), "x").unwrap();
    let message = refused(directory.path(), "file/snapshot.pickle");
    no_echo(&message);
    // One bad file of two is the one that is named, whichever it is.
    let message = refusal(&ptmem(directory.path()).args(["diff", "missing-1", "missing-2"]).output().unwrap());
    assert!(message.starts_with("error: missing-1: "), "{message}");
}

#[cfg(unix)]
#[test]
fn files_without_permission_say_so() {
    use std::os::unix::fs::PermissionsExt;
    let directory = scratch();
    let path = directory.path().join("secret.pickle");
    fs::write(&path, "x").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o0)).unwrap();
    if fs::read(&path).is_ok() {
        crate::support::tool::say("skipped: this user (root?) reads files without permission");
        return;
    }
    let message = refused(directory.path(), "secret.pickle");
    assert!(message.contains("no permission to read it"), "{message}");
}

#[test]
fn a_pickle_that_would_run_a_command_does_not() {
    let directory = scratch();
    let target = directory.path().join("created");
    let command = format!("touch {}", target.display());
    let length = u8::try_from(command.len()).unwrap();
    let short = |text: &str| [&[0x8c, u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
    let call = [b"\x94\x93\x94".as_slice(), &[0x8c, length], command.as_bytes(), b"\x94\x85\x94R\x94"].concat();
    let call = [short("os"), b"\x94".to_vec(), short("system"), call].concat();
    let cases: [(&str, Vec<u8>, &str); 5] = [
        ("protocol-0.pkl", format!("cos\nsystem\np0\n(S'{command}'\np1\ntp2\nRp3\n.").into_bytes(), "GLOBAL"),
        ("instance.pkl", [&b"\x80\x02(\x8c"[..], &[length], command.as_bytes(), b"ios\nsystem\n."].concat(), "INST"),
        ("protocol-2.pkl", format!("\u{0}cos\nsystem\n(S'{command}'\ntR.").into_bytes(), "GLOBAL"),
        ("protocol-4.pkl", [b"\x80\x04", &call[..], b"."].concat(), "STACK_GLOBAL"),
        // After the beginning of a snapshot, as a value of an unknown key.
        (
            "hidden.pkl",
            [b"\x80\x04}(", &short("segments")[..], b"]", &short("x"), &call, b"u."].concat(),
            "STACK_GLOBAL",
        ),
    ];
    for (name, mut content, opcode) in cases {
        if name == "protocol-2.pkl" {
            content.splice(0..1, *b"\x80\x02");
        }
        fs::write(directory.path().join(name), content).unwrap();
        let message = refused(directory.path(), name);
        assert!(message.contains(&format!("opcode {opcode})")), "{message}");
        assert!(
            message.contains("A checkpoint of a model")
                && message.contains("may be malicious")
                && message.contains("No code was run"),
            "{message}"
        );
        no_echo(&message);
        assert!(!target.exists(), "{name} was run");
    }
}

#[test]
fn limits_that_mean_nothing_say_what_is_accepted() {
    let directory = scratch();
    let path = fixture("empty.pkl");
    let path = path.to_str().unwrap();
    let growth = "5%, 200MiB, 5%+128MiB or 0";
    let metrics = "peak, baseline, end, active, requested";
    let cases: [(&[&str], &str, &str); 17] = [
        (&["diff", path, path, "--max-growth", "5 percent"], "5 percent", growth),
        (&["diff", path, path, "--max-growth", "-3%"], "-3%", growth),
        (&["diff", path, path, "--max-growth=-3%"], "-3%", growth),
        (&["diff", path, path, "--max-growth", "5GB%"], "5GB%", growth),
        (&["diff", path, path, "--warn-growth", "5GB%"], "5GB%", growth),
        (&["diff", path, path, "--max-growth", ""], "--max-growth", growth),
        (&["diff", path, path, "--max-growth", "peek=5%"], "'peek'", "did you mean 'peak'?"),
        (&["diff", path, path, "--max-growth", "peek=5%"], "'peek'", metrics),
        (&["diff", path, path, "--max-growth", "stack:=5%"], "stack:=5%", "invalid pattern ''"),
        (&["diff", path, path, "--max", "70"], "70", "has no unit"),
        (&["check", path, "--max", "70"], "70", "has no unit"),
        (&["check", path, "--max", "peak=5%"], "peak=5%", "expected a size"),
        (&["check", path, "--max", "phase:x=5GiB"], "'phase:x'", metrics),
        (&["check", path], "nothing to check", "--max reserved=75GiB"),
        (&["show", path, "--at", "lunch"], "lunch", "peak, baseline, end, oom, event:N"),
        (&["show", path, "--device-memory", "much"], "much", "is not a size; expected a number with a unit"),
        (&["diff", path, path, "--min-delta", "-1"], "-1", "start at 0"),
    ];
    for (arguments, names, accepted) in cases {
        let output = ptmem(directory.path()).args(arguments).output().unwrap();
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {stderr}");
        assert_eq!(text(&output.stdout), "", "{arguments:?}");
        assert!(stderr.starts_with("error: "), "{arguments:?}: {stderr}");
        assert!(stderr.contains(names), "{arguments:?}: {stderr}");
        assert!(stderr.contains(accepted), "{arguments:?}: {stderr}");
    }
}

#[test]
fn a_moment_that_the_history_does_not_have_is_refused() {
    let directory = scratch();
    let path = fixture("torch-2.10.pkl");
    let path = path.to_str().unwrap();
    for moment in ["event:999999999", "time:99999999", "oom"] {
        let message = refusal(&ptmem(directory.path()).args(["show", path, "--at", moment]).output().unwrap());
        assert!(message.starts_with(&format!("error: {path}: ")), "{message}");
        assert!(message.contains("--at") && message.contains(moment.split(':').next().unwrap()), "{message}");
    }
    for moment in ["event:99999999999999999999", "event:-1", "time:1e400", "time:99999999999999999999"] {
        let output = ptmem(directory.path()).args(["show", path, "--at", moment]).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{moment}");
        assert!(text(&output.stderr).contains("expected peak, baseline, end"), "{moment}");
    }
}

#[test]
fn standard_input_can_be_only_one_of_two() {
    let directory = scratch();
    assert_reads!(refusal(&ptmem(directory.path()).args(["diff", "-", "-"]).output().unwrap()) => str!["error: only one of the two snapshots can come from standard input"]);
}

/// Starts the tool, reads one line or none of its output, and closes the pipe.
fn closed_early(arguments: &[&str], lines: usize) -> (Option<i32>, String) {
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_ptmem"))
        .args(arguments)
        .env_clear()
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut reader = BufReader::with_capacity(16, child.stdout.take().unwrap());
    for _ in 0..lines {
        reader.read_line(&mut String::new()).unwrap();
    }
    drop(reader);
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    (child.wait().unwrap().code(), stderr)
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let path = fixture("oom.pkl");
    let path = path.to_str().unwrap();
    for lines in [0, 1] {
        for arguments in [
            &["show", path, "--top", "0"][..],
            &["show", path, "--format", "json", "--top", "0"],
            &["diff", path, path],
            &["completions", "bash"],
            &["man"],
            &["--help"],
        ] {
            let (code, stderr) = closed_early(arguments, lines);
            assert_eq!(stderr, "", "{arguments:?}");
            assert_eq!(code, Some(0), "{arguments:?}");
        }
    }
    // The verdict stays the exit code.
    let (code, stderr) = closed_early(&["check", path, "--max", "peak=1B"], 0);
    assert_eq!((code, stderr.as_str()), (Some(1), ""));
}

#[cfg(target_os = "linux")]
#[test]
fn output_that_cannot_be_written_is_an_error() {
    let path = fixture("empty.pkl");
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_ptmem"))
        .args(["show", path.to_str().unwrap()])
        .env_clear()
        .stdout(full)
        .output()
        .unwrap();
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.starts_with("error: ") && stderr.lines().count() == 1, "{stderr}");
}

/// Files that the shell allows no byte, as on a full disk.
#[cfg(unix)]
#[test]
fn the_verdict_is_printed_if_a_file_cannot_be_written() {
    let directory = scratch();
    let script = "trap '' XFSZ; ulimit -f 0; exec \"$@\"";
    let mut command = Command::new("sh");
    command.current_dir(directory.path()).args(["-c", script, "sh", env!("CARGO_BIN_EXE_ptmem"), "diff"]);
    command.args([fixture("before.pkl"), fixture("after.pkl")]);
    let output = command.args(["--max-growth", "5%", "--export", "json=report.json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stdout).contains("\nFAIL peak grew 53.80 MiB"), "{}", text(&output.stdout));
    assert_reads!(text(&output.stderr) => str!["error: report.json: cannot be written: File too large (os error 27)"]);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}
