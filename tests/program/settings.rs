//! `ptmem settings` from the snapshot alone, and with PyTorch on a simulated card.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::fixtures;
use crate::support::history::{A, B, MIB, event, file, free, segment};
use crate::support::html::check_html;
use crate::support::readers::{check_json, check_markdown};
use crate::support::tool::{ptmem, text};

/// A large segment of which a small block stays.
fn pinned() -> Vec<u8> {
    let mut events = vec![event("segment_alloc", A, 64 * MIB), event("alloc", A, 62 * MIB)];
    events.push(event("alloc", A + 62 * MIB, 2 * MIB));
    events.extend(free(A, 62 * MIB));
    events.extend([event("segment_alloc", B, 80 * MIB), event("alloc", B, 80 * MIB)]);
    let first = segment(A, &[(62 * MIB, false), (2 * MIB, true)]);
    file(vec![first, segment(B, &[(80 * MIB, true)])], events)
}

fn json(folder: &Path, arguments: &[&str]) -> Value {
    let output = ptmem(folder, &[&["settings", "--format", "json"], arguments].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let json = serde_json::from_slice(&output.stdout).unwrap();
    check_json(&json);
    json
}

#[test]
fn a_snapshot_alone_tells_what_pins_memory() {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("pinned.pkl"), pinned()).unwrap();
    let report = json(place.path(), &["--python", "none", "pinned.pkl"]);
    assert_eq!(report["reserved_peak"], 144 * MIB);
    assert_eq!(report["active_then"], 82 * MIB);
    assert_eq!(report["without_free_memory"], 82 * MIB);
    let segment = &report["mostly_free_segments"][0];
    assert_eq!((&segment["free"], &segment["blocks"]), (&(62 * MIB).into(), &1.into()));
    let pin = &report["pinning_stacks"][0];
    assert_eq!(
        (&pin["stack"], &pin["bytes"], &pin["free"]),
        (&"main (train.py:7)".into(), &(2 * MIB).into(), &(62 * MIB).into())
    );
    assert_eq!(report["trial"], Value::Null);
}

/// Without a history, only the end is known.
#[test]
fn a_state_has_no_active_peak() {
    let output = ptmem(&fixtures::folder(), &["settings", "state-only.pkl", "--python", "none"]);
    let said = text(&output.stdout);
    assert_reads!(said.lines().filter(|line| line.contains("without free")).collect::<String>() => str!["                  2.00 MiB without free memory (what is active, rounded up to 2 MiB)"]);
}

#[test]
fn each_format_of_a_study_is_written() {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("pinned.pkl"), pinned()).unwrap();
    let exports = ["markdown=a.md", "html=a.html", "csv=a.csv", "json=a.json", "table=a.txt"];
    let exports = exports.iter().flat_map(|export| ["--export", export]);
    let arguments: Vec<&str> = ["settings", "pinned.pkl", "--python", "none"].into_iter().chain(exports).collect();
    let output = ptmem(place.path(), &arguments);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let file = |name: &str| fs::read_to_string(place.path().join(name)).unwrap();
    assert_eq!(file("a.txt"), text(&output.stdout));
    check_json(&serde_json::from_str(&file("a.json")).unwrap());
    check_markdown(&file("a.md"), 1 << 20);
    check_html(&file("a.html"));
    let csv = file("a.csv");
    assert!(
        csv.starts_with("group,section,table,free,segment,blocks,stack of the largest block,held,segments,stack\n"),
        "{csv}"
    );
    assert!(csv.contains("\n,device 0,stacks that keep them,65011712,,1,,2097152,1,main (train.py:7)\n"), "{csv}");
    let output = ptmem(place.path(), &["settings", "pinned.pkl", "--python", "none", "--export", "json=pinned.pkl"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("pinned.pkl: is an input"), "{}", text(&output.stderr));
}

#[test]
fn a_state_is_not_called_a_peak() {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("state.pkl"), file(vec![segment(A, &[(2 * MIB, true)])], Vec::new())).unwrap();
    let report = json(place.path(), &["--python", "none", "state.pkl"]);
    assert_eq!((&report["has_history"], &report["reserved_peak"]), (&false.into(), &(2 * MIB).into()));
    let output = ptmem(place.path(), &["settings", "state.pkl"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stdout).contains("2.00 MiB at the dump: no history was recorded"), "{}", text(&output.stdout));
    assert!(text(&output.stderr).contains("no allocations were recorded"), "{}", text(&output.stderr));
}

#[test]
fn what_keeps_it_from_an_answer_is_said() {
    let place = tempfile::tempdir().unwrap();
    let profile = ptmem(place.path(), &["profile", &fixture("before.pkl"), "-o", "profile.json"]);
    assert_eq!(profile.status.code(), Some(0));
    fs::write(place.path().join("figures.json"), "{\"allocated_bytes.all.peak\": 50000000}").unwrap();
    for (arguments, expected) in [
        (&["profile.json"][..], "is a saved profile, which has no addresses of blocks; expected a snapshot"),
        (&["figures.json"], "figures.json: has only figures, and no addresses of blocks; expected a snapshot"),
        (&[&fixture("before.pkl"), "--device", "7"], "there is no device 7"),
        (&[&fixture("before.pkl"), "--settings", "max_split_size_mb"], "invalid allocator setting 'max_split_size_mb'"),
        (
            &[&fixture("before.pkl"), "--python", "no-such-python"],
            "error: no settings were tried, because no-such-python is not a program; run this in the environment",
        ),
    ] {
        let output = ptmem(place.path(), &[&["settings"], arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains(expected), "{}", text(&output.stderr));
    }
    // A Python that cannot repeat requests says why.
    #[cfg(all(feature = "simulate", target_os = "linux"))]
    for (script, expected) in [
        ("echo 'unusable: has no PyTorch' >&2; exit 1", "python has no PyTorch; run this"),
        ("exit 0", "python did not record the requests; run this"),
        ("echo 'RuntimeError: no' >&2; exit 1", "repeated with the default settings by "),
    ] {
        let python = place.path().join("python");
        fs::write(&python, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&python, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let output = ptmem(place.path(), &["settings", &fixture("before.pkl"), "--python", &python.to_string_lossy()]);
        assert_eq!(output.status.code(), Some(2), "{script}");
        assert!(text(&output.stderr).contains(expected), "{}", text(&output.stderr));
    }
    // What the snapshot itself says is there all the same.
    let output = ptmem(place.path(), &["settings", &fixture("before.pkl"), "--python", "no-such-python"]);
    assert!(text(&output.stdout).contains(" at the peak, event "), "{}", text(&output.stdout));
}

/// A recording with a private pool, and a Python that repeats it with another segment: it has no pools that never split, and
/// refuses other settings.
#[cfg(all(feature = "simulate", target_os = "linux"))]
const OTHER_PYTHON: &str = r#"#!/bin/sh
echo started >> "$FOLDER/started"
[ -z "$CUDA_VISIBLE_DEVICES" ] || { echo 'No CUDA GPUs are available' >&2; exit 1; }
tr '\t' ';' < "$2" | while IFS=';' read -r name earlier pools limit settings; do
  echo "$pools$settings" >> "$FOLDER/tried"
  if [ -n "$settings" ]; then echo 'ValueError: Unrecognized key' > "$name.log"
  elif [ "$pools" = no_split ]; then echo 'pools that never split need a later release' > "$name.log"
  else cp "$FOLDER/repeated.pkl" "${PTMEM_SNAPSHOT%/*}/${name##*/}.pkl"
  fi
done
echo 2.9.1
"#;

#[cfg(all(feature = "simulate", target_os = "linux"))]
#[test]
fn what_could_not_be_tried_is_said() {
    use crate::support::history::{pool, snapshot};
    use crate::support::pickle::{Options, Value, write};

    let place = tempfile::tempdir().unwrap();
    let of_segment = |size: u64, blocks: &[(u64, bool)], keys: &[&'static str]| {
        let segments = vec![segment(A, blocks).with("segment_pool_id", pool(1))];
        let recorded = snapshot(segments, vec![event("segment_alloc", A, size), event("alloc", A, 64 * MIB)]);
        let settings = keys.iter().fold(Value::dict([]), |settings, key| settings.with(key, ""));
        write(&recorded.with("allocator_settings", settings), Options::default())
    };
    let python = place.path().join("python");
    fs::write(&python, OTHER_PYTHON).unwrap();
    fs::set_permissions(&python, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let used = [(64 * MIB, true)];
    let [older, newer] = [&["PYTORCH_CUDA_ALLOC_CONF"][..], &["PYTORCH_CUDA_ALLOC_CONF", SINCE_2_9]];
    let run = |settings: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_ptmem"));
        command.current_dir(place.path()).env("CUDA_VISIBLE_DEVICES", "3").env("FOLDER", place.path()).args([
            "settings",
            "recorded.pkl",
            "--python",
        ]);
        command.arg(&python).args(settings).output().unwrap()
    };
    fs::write(place.path().join("repeated.pkl"), of_segment(128 * MIB, &[used[0], (64 * MIB, false)], newer)).unwrap();
    for (keys, tried) in [(older, "split\nsplit\n"), (newer, "split\nsplit\nno_split\n")] {
        fs::write(place.path().join("recorded.pkl"), of_segment(64 * MIB, &used, keys)).unwrap();
        let output = run(&[]);
        let table = text(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        assert!(table.contains("no advice: with the recorded settings"), "{table}");
        // With the default settings they were repeated, only not in this manner.
        let left_out = "with pools that never split, the requests could not be repeated with the default settings by ";
        assert_eq!(table.contains(left_out), keys == newer, "{table}");
        assert_eq!(table.contains("pools that never split need a later release"), keys == newer, "{table}");
        assert_eq!(fs::read_to_string(place.path().join("tried")).unwrap(), tried);
        fs::remove_file(place.path().join("tried")).unwrap();
    }
    fs::copy(place.path().join("recorded.pkl"), place.path().join("repeated.pkl")).unwrap();
    let output = run(&["--settings", "no_such_key:3"]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stdout));
    assert_reads!(text(&output.stderr) => str!["error: the requests could not be repeated with no_such_key:3 by [..]/python: ValueError: Unrecognized key"]);
    // All settings are tried by one process, which imports PyTorch once, except those that the environment forbids.
    for name in ["tried", "started"] {
        fs::remove_file(place.path().join(name)).unwrap();
    }
    let output = run(&["--without", "expandable_segments", "--without", "roundup_power2_divisions"]);
    assert!(text(&output.stderr).contains("expandable_segments, as --without asks"), "{}", text(&output.stderr));
    let read = |name: &str| fs::read_to_string(place.path().join(name)).unwrap();
    let splits = [20, 64, 128, 256, 512].map(|size| format!("splitmax_split_size_mb:{size}\n")).concat();
    assert_eq!((read("tried"), read("started")), (format!("split\n{splits}"), "started\n".repeat(2)));
    let output = run(&["--without", "speed"]);
    assert!(text(&output.stderr).contains("expected one of those that are tried: expandable_segments, "));
}

/// Repeated requests run as other recorded programs do: they end if ptmem is interrupted.
#[cfg(all(feature = "simulate", target_os = "linux"))]
#[test]
fn an_interrupted_trial_leaves_nothing_behind() {
    let place = tempfile::tempdir().unwrap();
    let [python, temporary, started] = ["python", "temporary", "started"].map(|name| place.path().join(name));
    fs::create_dir(&temporary).unwrap();
    fs::write(&python, format!("#!/bin/sh\ntouch '{}'\nexec sleep 100\n", started.display())).unwrap();
    fs::set_permissions(&python, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_ptmem"));
    command.current_dir(place.path()).env("TMPDIR", &temporary).args(["settings", &fixture("before.pkl"), "--python"]);
    command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::piped());
    let child = command.arg(&python).spawn().unwrap();
    while !started.exists() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let asked = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(asked.success() && output.status.code() == Some(2), "{output:?}");
    assert!(text(&output.stderr).contains("interrupted"), "{}", text(&output.stderr));
    assert_eq!(fs::read_dir(&temporary).unwrap().count(), 0);
}

/// A key of snapshots since PyTorch 2.9.
#[cfg(all(feature = "simulate", target_os = "linux"))]
const SINCE_2_9: &str = "graph_capture_record_stream_reuse";

fn fixture(name: &str) -> String {
    fixtures::folder().join(name).display().to_string()
}

/// Blocks of growing sizes: each needs a segment of its own, unless segments can expand.
#[cfg(target_os = "linux")]
const GROWING: &str = "
import torch
kept = torch.zeros(3 << 20, device='cuda')
for size in range(10, 60, 7):
    block = torch.zeros(size << 18, device='cuda')
    small = torch.zeros(1 << 18, device='cuda')
    del block
    kept = [kept, small]
";

#[cfg(target_os = "linux")]
#[test]
#[ignore = "needs PyTorch"]
fn torch_repeats_a_recording_to_the_byte_and_finds_better_settings() {
    let place = tempfile::tempdir().unwrap();
    let python = crate::support::tool::python().display().to_string();
    // PyTorch collects only with a share of the memory of the card.
    let collecting = "garbage_collection_threshold:0.5";
    let better = ["--device-memory", "400MiB", "--settings", collecting, "--settings", "expandable_segments:True"];
    // All candidates once: of the second recording, those that are better.
    for (recorded, candidates) in [("", &[][..]), ("max_split_size_mb:32", &better)] {
        record(place.path(), &python, GROWING, recorded);
        let report = json(place.path(), &[&["--python", &python, "program.pkl"], candidates].concat());
        let trial = &report["trial"];
        assert_eq!(trial["self_check"]["largest_deviation"], 0, "{recorded}");
        assert_eq!(trial["self_check"]["repeated_peak"], report["reserved_peak"]);
        let rows = trial["settings"].as_array().unwrap();
        let row = |settings: &str| rows.iter().find(|row| row["settings"] == settings).unwrap();
        let peak = |settings: &str| row(settings)["reserved_peak"].as_u64();
        assert_eq!(rows[0]["settings"], recorded);
        assert!(peak("expandable_segments:True") < peak(recorded), "{rows:#?}");
        let advice = trial["advice"].as_str().unwrap();
        assert!(advice.contains("less with expandable_segments:True"), "{advice}");
        if !candidates.is_empty() {
            assert_eq!(rows[0]["segments_returned"], 0);
            assert!(row(collecting)["segments_returned"].as_u64() > Some(0), "{rows:#?}");
        }
    }
}

/// Records a program with these settings.
#[cfg(target_os = "linux")]
fn record(folder: &Path, python: &str, program: &str, settings: &str) {
    fs::write(folder.join("program.py"), program).unwrap();
    let mut record = std::process::Command::new(env!("CARGO_BIN_EXE_ptmem"));
    record.current_dir(folder).env("PYTORCH_CUDA_ALLOC_CONF", settings);
    let arguments = ["simulate", "--record", "program.pkl", "--", python, "program.py"];
    assert!(record.args(arguments).status().unwrap().success());
}

/// A pool that reuses no part of its large free segment for smaller blocks.
const UNSPLIT: &str = "
import torch
with torch.cuda.use_mem_pool(pool := torch.cuda.MemPool(no_split=True)):
    torch.empty(64 << 20, dtype=torch.uint8, device='cuda')
    kept = [torch.empty(8 << 20, dtype=torch.uint8, device='cuda') for _ in range(8)]
";

#[cfg(target_os = "linux")]
#[test]
#[ignore = "needs PyTorch"]
fn torch_repeats_pools_that_never_split_and_says_what_it_cannot_try() {
    let place = tempfile::tempdir().unwrap();
    let python = crate::support::tool::python().display().to_string();
    record(place.path(), &python, UNSPLIT, "");
    let candidates =
        ["--settings", "garbage_collection_threshold:0.5", "--settings", "per_process_memory_fraction:0.001"];
    let arguments = [&["settings", "--python", &python, "program.pkl"][..], &candidates].concat();
    let output = ptmem(place.path(), &arguments);
    let text = text(&output.stdout);
    let of_pool = "reserved bytes follow the recording to the byte";
    for said in [of_pool, "threshold has no effect here", "fraction is ignored: the memory for PyTorch"] {
        assert!(text.contains(said), "{said}: {text}");
    }
}
