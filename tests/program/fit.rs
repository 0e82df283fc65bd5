//! `ptmem fit` on runs whose memory is known at every number.

#![cfg(all(feature = "simulate", target_os = "linux"))]

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::fixtures;
use crate::support::history::{A, MIB, event, file, segment};
use crate::support::pickle;
use crate::support::readers::{check_json, check_markdown};
use crate::support::tool::{commit, git, text};

/// An event that a function causes.
fn by(function: &str, action: &str, addr: u64, size: u64) -> pickle::Value {
    let frame =
        pickle::Value::dict([("name", function.into()), ("filename", "/repo/train.py".into()), ("line", 7.into())]);
    let pickle::Value::Dict(mut pairs) = event(action, addr, size) else { panic!("no event") };
    pairs.retain(|(key, _)| *key != "frames".into());
    pairs.push(("frames".into(), vec![frame].into()));
    pickle::Value::Dict(pairs)
}

/// Memory at a number: weights of 40 MiB, activations that follow it, scores that follow its square.
fn activations(x: u64) -> u64 {
    x * MIB / 4
}

fn scores(x: u64) -> u64 {
    x * x * 2048
}

const WEIGHTS: u64 = 40 * MIB;

/// Held by the optimizer at the end, when activations and scores are gone.
const OPTIMIZER: u64 = 70 * MIB;

fn peak(x: u64) -> u64 {
    WEIGHTS + OPTIMIZER.max(activations(x) + scores(x))
}

/// A step: for small numbers the peak is in the optimizer, for others where the scores are.
fn step(x: u64) -> Vec<u8> {
    let weights = A;
    let activations_at = A + 1024 * MIB;
    let scores_at = A + 2048 * MIB;
    let mut events = vec![by("build", "segment_alloc", A, 8192 * MIB), by("build", "alloc", weights, WEIGHTS)];
    events.push(by("forward", "alloc", activations_at, activations(x)));
    events.push(by("attention", "alloc", scores_at, scores(x)));
    for (at, size) in [(scores_at, scores(x)), (activations_at, activations(x))] {
        events.extend(["free_requested", "free_completed"].map(|action| by("step", action, at, size)));
    }
    let optimizer_at = A + 4096 * MIB;
    events.push(by("optimizer", "alloc", optimizer_at, OPTIMIZER));
    events.extend(["free_requested", "free_completed"].map(|action| by("step", action, optimizer_at, OPTIMIZER)));
    file(vec![segment(A, &[(WEIGHTS, true), (8192 * MIB - WEIGHTS, false)])], events)
}

/// A file for each number.
fn runs(places: impl Iterator<Item = u64>) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for x in places {
        fs::write(folder.path().join(format!("{x}.pkl")), step(x)).unwrap();
    }
    folder
}

/// What is no number to search, or fails without want of memory, ends in what to do about it.
#[test]
fn a_search_that_cannot_be_done_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().to_str().unwrap();
    for (arguments, expected) in [
        (&["batch", "--", "true", "{batch}"][..], "the smallest (at least 1) first, such as batch=1..4096"),
        (&["batch=9..4", "--", "true", "{batch}"], "expected a name and its numbers, the smallest (at least 1) first"),
        (&["batch=1..4", "--", "true"], "the command has no {batch}, which stands for the number"),
        (&["batch=1..4", "seq=1..2", "--", "true", "{batch}"], "the command has no {seq}"),
        (
            &["batch=1..4", "batch=1..8", "--", "true", "{batch}"],
            "batch: is given twice; expected one range for each name",
        ),
        (&["batch=1..4/0", "--", "true", "{batch}"], "expected a name and its numbers"),
        (
            &["batch=1..4", "--gpu", "h10", "--", "true", "{batch}"],
            "unknown card 'h10'; did you mean 'a10'?; 'ptmem simulate --gpu list' prints all",
        ),
        (
            &["batch=1..4", "--steps", "3..1", "--", "true", "{batch}"],
            "'--steps <STEPS>': expected one step or A..B, counted from 1, such as 3 or 1..3, or 'all' or 'none'",
        ),
        (
            &["batch=8..16/8", "--", "sh", "-c", "echo unrecognized arguments: $0 >&2; exit 2", "{batch}"],
            "batch = 8: the command failed with exit code 2: unrecognized arguments: 8; give it an option that it has (its output: ",
        ),
        (
            &["batch=1..4", "--", "sh", "-c", "exit 2", "{batch}"],
            "; make it run with 'ptmem simulate', or if it takes only some numbers, search those, such as batch=8..512/8",
        ),
        (
            &["batch=1..4", "--steps", "none", "--", "false", "{batch}"],
            "/log); if it takes only some numbers, search those, such as batch=8..512/8",
        ),
        (
            &["batch=1..4", "--steps", "none", "--gpu", "t4", "--world-size", "8", "--", "true", "{batch}"],
            "--gpu, --world-size: not used, because --steps none runs the command on the real card; leave it out",
        ),
        (
            &["batch=1..4", "--", "true", "{batch}"],
            "batch = 1: the command never used a CUDA device from Python; if it trains on the CPU by default, give it the \
             argument that selects the GPU (its output: ",
        ),
        (
            &["batch=1..4", "--", "sh", "-c", "echo \"No module named 'torch'\" >&2; exit 1", "{batch}"],
            "batch = 1: the Python of the command has no PyTorch; install it there (ptmem pip install torch), or give the command \
             another Python\n",
        ),
    ] {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_ptmem"));
        let output =
            command.current_dir(&folder).env("XDG_CACHE_HOME", cache).arg("fit").args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let error = text(&output.stderr);
        assert!(error.contains(expected), "{arguments:?}: {error}");
        // A mistyped option is not a matter of numbers.
        assert!(!(error.contains("unrecognized") && error.contains("search those")), "{error}");
    }
}

/// A command on "a real card", which copies a recording as ptmem asks for it, or the one that ran out of memory.
fn search(folder: &Path, ranges: &[&str], options: &[&str], fits: &str) -> std::process::Output {
    let failed = fixtures::folder().join("oom.pkl");
    let script = format!(
        "echo $0 $1 >> cache/ran; if {fits}; then cp $0.pkl $PTMEM_SNAPSHOT; else cp '{}' $PTMEM_SNAPSHOT; exit 1; fi",
        failed.display()
    );
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_ptmem"));
    command.current_dir(folder).env("XDG_CACHE_HOME", folder.join("cache")).arg("fit").args(ranges).args(options);
    command.args(["--steps", "none", "--", "sh", "-c", &script, "{batch}", "{seq}"]).output().unwrap()
}

#[test]
fn each_number_is_searched_once_and_what_does_not_fit_is_shown() {
    let folder = runs(1..=40);
    let ranges = ["batch=1..40", "seq=1..3"];
    let output = search(folder.path(), &ranges, &["--format", "json"], "[ $0 -le 11 ]");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    check_json(&report);
    let [batch, seq] = [0, 1].map(|at| &report["numbers"][at]);
    assert_eq!([&batch["largest"], &batch["beyond"]["x"]], [11, 12]);
    assert_eq!([&seq["largest"], &seq["beyond"]], [&json!(3), &Value::Null]);
    let runs = |key| batch["runs"].as_array().unwrap().iter().map(|run| run[key].clone()).collect::<Vec<_>>();
    let device = &batch["devices"][0];
    let peaks = runs("x").iter().map(|x| peak(x.as_u64().unwrap())).collect::<Vec<_>>();
    assert_eq!(device["peaks"], json!(peaks));
    assert!(device["stacks"].as_array().unwrap().iter().any(|of| of["bytes"].as_array().unwrap().len() == peaks.len()));
    let held = &batch["beyond"]["snapshot"];
    assert_eq!(held["at"], "oom");
    assert!(held["devices"][0]["stacks"].as_array().is_some_and(|stacks| !stacks.is_empty()), "{held}");
    let ran = fs::read_to_string(folder.path().join("cache/ran")).unwrap();
    let mut each: Vec<&str> = ran.lines().collect();
    each.sort_unstable();
    each.dedup();
    assert_eq!(each.len(), ran.lines().count(), "{ran}");
    assert!(each.contains(&"12 1") && each.contains(&"1 3"), "{ran}");
    // From the recordings that are kept.
    let again = search(folder.path(), &ranges, &[], "[ $0 -le 11 ]");
    let again = text(&again.stdout);
    for part in [
        "batch = 11 is the largest of 1..40 that fits, 12 does not",
        "seq = 3, the last of 1..3, fits",
        "batch = 12, which does not fit",
    ] {
        assert!(again.contains(part), "{part}: {again}");
    }
    let other = |format| text(&search(folder.path(), &ranges, &["--format", format], "[ $0 -le 11 ]").stdout);
    check_markdown(&other("markdown"), 1 << 20);
    let csv = other("csv");
    assert!(csv.starts_with("group,section,table,batch,peak,reserved,remark,"), "{csv}");
    assert!(csv.contains(&format!("\nbatch,device 0,peak,11,{},", peak(11))), "{csv}");
    assert_eq!(fs::read_to_string(folder.path().join("cache/ran")).unwrap(), ran);
}

/// A recording of counters names no card: nothing is subtracted from the memory that is given.
#[test]
fn the_memory_of_a_card_counts_where_the_recording_does_not_name_it() {
    let folder = tempfile::tempdir().unwrap();
    let script = r#"echo "{\"reserved\": $((102 + 10 * $0))000000}" > $PTMEM_SNAPSHOT"#;
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_ptmem"));
    command.current_dir(&folder).env("XDG_CACHE_HOME", folder.path().join("cache"));
    command.args([
        "fit",
        "batch=1..4096",
        "--steps",
        "none",
        "--memory",
        "2000MB",
        "--",
        "sh",
        "-c",
        script,
        "{batch}",
    ]);
    let output = command.output().unwrap();
    let report = text(&output.stdout);
    assert!(report.contains("batch = 189 is the largest of 1..4096 that fits, 190 does not"), "{report}");
    assert!(report.contains("unknown, nothing subtracted"), "{report}");
}

/// A program may catch that a request failed, and go on.
#[test]
fn a_run_whose_counters_state_failed_requests_does_not_fit_unless_allowed() {
    let folder = tempfile::tempdir().unwrap();
    let script = r#"[ $0 -le 8 ]; echo "{\"num_ooms\": $?, \"reserved\": $0}" > $PTMEM_SNAPSHOT"#;
    for (config, answer) in [
        ("", "batch = 8 is the largest of 1..32 that fits, 9 does not"),
        ("allow-oom = true", "batch = 20 is the largest of 1..32 that fits, 21 does not"),
    ] {
        fs::write(folder.path().join("ptmem.toml"), config).unwrap();
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_ptmem"));
        command.current_dir(&folder).env("XDG_CACHE_HOME", folder.path().join("cache"));
        command.args(["fit", "batch=1..32", "--steps", "none", "--memory", "20B", "--", "sh", "-c", script, "{batch}"]);
        let report = text(&command.output().unwrap().stdout);
        assert!(report.contains(answer), "{config}: {report}");
        let advice = "batch = 9 ran to its end, but memory ran out: set allow-oom = true in ptmem.toml";
        assert_eq!(report.contains(advice), config.is_empty(), "{report}");
    }
}

/// Recordings answer only for the files with which they were made.
#[test]
fn a_search_records_again_where_a_file_changed_or_on_request() {
    let folder = runs(1..=2);
    for (config, options, runs, is_kept) in [
        ("1024", &[][..], 1, false),
        ("1024", &[], 1, true),
        ("10240", &[], 2, false),
        ("10240", &["--no-cache"], 3, false),
    ] {
        let path = folder.path().join("config.json");
        if !fs::read_to_string(&path).is_ok_and(|before| before == config) {
            fs::write(&path, config).unwrap();
        }
        let output = search(folder.path(), &["batch=1..1"], options, "true");
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let ran = fs::read_to_string(folder.path().join("cache/ran")).unwrap();
        assert_eq!(ran.lines().count(), runs, "{config} {options:?}");
        let note = "note: recordings of an earlier search are kept; --no-cache makes them anew\n";
        assert_eq!(text(&output.stderr).contains(note), is_kept, "{}", text(&output.stderr));
    }
}

/// Searches before and after a change of a file, and counts the runs of all searches.
fn runs_around_change(folder: &Path, file: &str) -> [usize; 2] {
    ["1024", "10240"].map(|text| {
        fs::write(folder.join(file), text).unwrap();
        assert_eq!(search(folder, &["batch=1..1"], &[], "true").status.code(), Some(0));
        fs::read_to_string(folder.join("cache/ran")).unwrap().lines().count()
    })
}

/// A program reads files wherever they are: in folders of other names, submodules, and repositories inside of another.
#[test]
fn a_search_records_again_where_a_file_in_a_folder_changed() {
    let folder = runs(1..=1);
    let place = folder.path();
    fs::create_dir_all(place.join("conf/target")).unwrap();
    assert_eq!(runs_around_change(place, "conf/target/config.json"), [1, 2]);
    let library = tempfile::tempdir().unwrap();
    fs::write(library.path().join("layer.py"), "").unwrap();
    commit(library.path(), &["layer.py"]);
    let library = library.path().to_str().unwrap();
    fs::write(place.join(".gitignore"), "cache\n").unwrap();
    commit(place, &[".gitignore"]);
    git(place, &["clone", "--quiet", library, "nested"]);
    assert_eq!(runs_around_change(place, "nested/layer.py"), [3, 4]);
    git(place, &["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", library, "dep"]);
    assert_eq!(runs_around_change(place, "dep/layer.py"), [5, 6]);
}

#[test]
fn answers_that_are_not_in_order_and_a_first_that_does_not_fit_are_told() {
    let folder = tempfile::tempdir().unwrap();
    for (number, fixture) in [("1.pkl", "after.pkl"), ("2.pkl", "before.pkl")] {
        fs::copy(fixtures::folder().join(fixture), folder.path().join(number)).unwrap();
    }
    let output = search(folder.path(), &["batch=1..3"], &[], "[ $0 -le 2 ]");
    let found = text(&output.stdout);
    assert!(found.contains("batch = 2 took less than 1: numbers that were not tried may fit"), "{found}");
    let output = search(folder.path(), &["batch=2..3"], &[], "false");
    let found = text(&output.stdout);
    assert!(found.contains("not even the first batch of 2..3 fits; give smaller numbers or a larger card"), "{found}");
}

/// What fits is known to the byte here: the CUDA context is subtracted once, and from what the program sees as free as well.
#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn torch_has_the_card_without_the_context() {
    let python = std::env::var("PTMEM_TEST_PYTHON").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let script = "import sys, torch\nfree = torch.cuda.mem_get_info()[0]\nassert free == (2048 - 474) << 20, free\n\
                  for _ in range(int(sys.argv[1])): torch.cuda.caching_allocator_alloc(64 << 20)\n";
    fs::write(folder.path().join("hold.py"), script).unwrap();
    for (range, answer) in [
        ("blocks=24..27", "fits, 25 does not, on a simulated NVIDIA A100-SXM4-80GB with 2.00 GiB of memory"),
        ("huge=9..9", "not even the first huge of 9..9 fits"),
    ] {
        let program = if range.starts_with("huge") { ["-c", FIRST, "{huge}"] } else { ["hold.py", "{blocks}", ""] };
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_ptmem"));
        command.current_dir(&folder).env("XDG_CACHE_HOME", folder.path().join("cache"));
        command.args(["fit", range, "--memory", "2GiB", "--steps", "all", "--", &python]).args(program);
        let output = command.output().unwrap();
        let found = text(&output.stdout);
        assert!(found.contains(answer), "{found}{}", text(&output.stderr));
    }
}

/// A program whose first request does not fit.
const FIRST: &str = "import sys, torch; torch.empty(int(sys.argv[1]) << 30, dtype=torch.uint8, device='cuda')";
