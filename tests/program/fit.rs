//! `ptmem fit` on runs whose memory is known at every number.

use std::fs;
use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;

use crate::support::fixtures;
use crate::support::history::{A, MIB, event, file, segment};
use crate::support::pickle;
use crate::support::readers::{check_json, check_markdown};
use crate::support::tool::{ptmem, text};

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

/// A step: for small numbers the peak is in the optimizer, for others where the scores are. `extra` blocks that come
/// and go make the histories differ in length.
fn step(x: u64, extra: u64) -> Vec<u8> {
    let weights = A;
    let activations_at = A + 1024 * MIB;
    let scores_at = A + 2048 * MIB;
    let mut events = vec![by("build", "segment_alloc", A, 8192 * MIB), by("build", "alloc", weights, WEIGHTS)];
    events.push(by("forward", "alloc", activations_at, activations(x)));
    for _ in 0..extra {
        events.push(by("helper", "alloc", A + 6144 * MIB, MIB));
        events.extend(["free_requested", "free_completed"].map(|action| by("helper", action, A + 6144 * MIB, MIB)));
    }
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
fn runs(places: &[u64], extra: impl Fn(u64) -> u64) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for &x in places {
        fs::write(folder.path().join(format!("{x}.pkl")), step(x, extra(x))).unwrap();
    }
    folder
}

fn scale(folder: &Path, places: &[u64], options: &[&str]) -> Value {
    let files: Vec<String> = places.iter().map(|x| format!("{x}={x}.pkl")).collect();
    let mut arguments = vec!["fit", "--format", "json", "batch:"];
    arguments.extend(files.iter().map(String::as_str));
    arguments.extend(options);
    let output = ptmem(folder, &arguments);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let report: Value = serde_json::from_str(&text(&output.stdout)).unwrap();
    check_json(&report);
    let number = report["numbers"][0].clone();
    assert_eq!([&number["name"], &number["search"]], [&Value::from("batch"), &Value::Null]);
    number
}

/// Whether a forecast is as close to the truth as 1 % of it, and its range holds the truth.
fn assert_predicted(forecast: &Value) {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small whole number")]
    let x = forecast["x"].as_f64().unwrap() as u64;
    let [low, best, high] = ["low", "best", "high"].map(|key| forecast["peak"][key].as_u64().unwrap());
    let truth = peak(x);
    assert!(best.abs_diff(truth) <= truth / 100, "x = {x}: {best}, not {truth}");
    assert!(low <= truth + 1024 && truth <= high + 1024, "x = {x}: {low} to {high}, not {truth}");
}

#[test]
fn the_peak_and_the_growth_of_stacks_are_fitted() {
    let places = [256, 384, 512];
    let folder = runs(&places, |x| x / 128);
    let report = scale(folder.path(), &places, &["--at-x", "1024,2048,300"]);
    let device = &report["devices"][0];
    device["forecasts"].as_array().unwrap().iter().for_each(assert_predicted);
    for (function, expected) in [("build", "constant"), ("forward", "linear"), ("attention", "quadratic")] {
        let mut stacks = device["stacks"].as_array().unwrap().iter();
        let stack = stacks.find(|stack| stack["label"].as_str().unwrap().starts_with(function)).unwrap();
        assert_eq!(stack["shape"], expected, "{function}");
    }
}

/// No curve fits: the range says how little is known.
#[test]
fn a_peak_that_moves_to_another_place_of_the_program_is_predicted_with_a_wide_range() {
    let places = [64, 128, 256];
    let folder = runs(&places, |_| 3);
    // The peak of the first two is in the optimizer.
    assert_eq!([peak(64), peak(128)], [WEIGHTS + OPTIMIZER; 2]);
    let report = scale(folder.path(), &places, &["--at-x", "512"]);
    let range = &report["devices"][0]["forecasts"][0]["peak"];
    let [low, high] = ["low", "high"].map(|key| range[key].as_u64().unwrap());
    assert!(low <= peak(512) && peak(512) <= high && high - low > peak(512) / 4, "{range}");
}

/// A saved profile has the whole history: it says the same as its snapshot.
#[test]
fn saved_profiles_say_the_same() {
    let places = [64, 128, 256];
    let folder = runs(&places, |_| 3);
    let expected = scale(folder.path(), &places, &["--at-x", "1024"]);
    for x in places {
        let file = format!("{x}.pkl");
        let output = ptmem(folder.path(), &["profile", &file, "-o", "saved"]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        fs::rename(folder.path().join("saved"), folder.path().join(&file)).unwrap();
    }
    let found = scale(folder.path(), &places, &["--at-x", "1024"]);
    assert_eq!(found["devices"], expected["devices"]);
}

#[test]
fn the_number_at_which_the_device_is_full_is_found() {
    let places = [1024, 512, 256];
    let folder = runs(&places, |_| 0);
    let report = scale(folder.path(), &places, &["--device-memory", "16GiB"]);
    // Given in any order, reported in the order of the numbers.
    assert_eq!(report["runs"][0]["x"].as_f64(), Some(256.0));
    let full = &report["devices"][0]["full"];
    // Each run reserves 8 GiB: more in relation to the smaller peaks.
    let [earliest, best, latest] = ["earliest", "best", "latest"].map(|key| full[key].as_f64().unwrap());
    assert!(earliest <= best && best <= latest, "{full}");
    let ample = scale(folder.path(), &places, &["--device-memory", "1EiB"]);
    assert!(ample["devices"][0]["full"]["best"].as_f64().is_none_or(|place| place > 10_000.0));
}

#[test]
fn people_read_the_same() {
    let places = [256, 384, 512, 640];
    let folder = runs(&places, |_| 0);
    let files = ["256=256.pkl", "384=384.pkl", "512=512.pkl", "640=640.pkl"];
    let all = |options: &[&'static str]| {
        let arguments = [&["fit", "--at-x", "1024"], &files[..], options].concat();
        let output = ptmem(folder.path(), &arguments);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let table = all(&["--device-memory", "80GiB"]);
    for part in [
        "predicted",
        "measured",
        "quadratic, 2.00 KiB per x²",
        "is full from x =",
        "extrapolated from 4 recordings: no other x was run",
    ] {
        assert!(table.contains(part), "{part}: {table}");
    }
    check_markdown(&all(&["--format", "markdown"]), 1 << 20);
    let csv = all(&["--format", "csv"]);
    assert!(csv.starts_with("device,profile,x,metric,label,bytes\n0,256.pkl,256,peak,,243269632\n"), "{csv}");
}

#[test]
fn mistakes_are_named() {
    let places = [64, 128, 256];
    let folder = runs(&places, |_| 0);
    for (arguments, expected) in [
        (&["fit", "64.pkl", "128=128.pkl"][..], "64.pkl: expected a number above 0 and its recording, such as 8=a.pkl"),
        (&["fit", "batch=1..4"], "or a range and a command, such as batch=1..4096 -- python"),
        (&["fit", "64=64.pkl", "128=128.pkl"], "2 different numbers given; expected recordings of three or more"),
        (&["fit", "64=64.pkl", "64=128.pkl", "128=256.pkl"], "2 different numbers given"),
        (&["fit", "64=64.pkl", "65=64.pkl", "128=256.pkl"], "is given twice"),
        (&["fit", "64=64.pkl", "128=128.pkl", "-2=256.pkl"], "unexpected argument '-2'"),
        (&["fit", "64=64.pkl", "128=128.pkl", "256=other.pkl"], "no such file"),
        (
            &["fit", "64=64.pkl", "128=128.pkl", "256=256.pkl", "--gpu", "h100"],
            "--gpu: not used, because no command is run",
        ),
        (
            &["fit", "64=64.pkl", "128=128.pkl", "256=256.pkl", "--export", "json=64.pkl"],
            "64.pkl: is an input; expected another file to write to",
        ),
    ] {
        let output = ptmem(folder.path(), arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains(expected), "{arguments:?}: {}", text(&output.stderr));
    }
}

/// What is no number to search, or fails without want of memory, ends in what to do about it.
#[test]
#[cfg(all(feature = "simulate", target_os = "linux"))]
fn a_search_that_cannot_be_done_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().to_str().unwrap();
    for (arguments, expected) in [
        (&["batch", "--", "true", "{batch}"][..], "the smallest (at least 1) first, such as batch=1..4096"),
        (&["batch=9..4", "--", "true", "{batch}"], "expected a name and its numbers, the smallest (at least 1) first"),
        (&["batch=1..4", "--", "true"], "the command has no {batch}, which stands for the number"),
        (&["batch=1..4", "seq=1..2", "--", "true", "{batch}"], "the command has no {seq}"),
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
        (&["batch=1..4", "--", "sh", "-c", "exit 2", "{batch}"], "search those, such as batch=8..512/8"),
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
    let output = ptmem(folder.path(), &["scale", "a.pkl"]);
    assert!(text(&output.stderr).contains("'ptmem fit' has replaced 'ptmem scale'"), "{}", text(&output.stderr));
}

/// A command on "a real card", which copies a recording as ptmem asks for it, or the one that ran out of memory.
#[cfg(all(feature = "simulate", target_os = "linux"))]
fn search(folder: &Path, ranges: &[&str], options: &[&str], fits: &str) -> std::process::Output {
    let failed = fixtures::folder().join("oom.pkl");
    let script = format!(
        "echo $0 $1 >> ran; if {fits}; then cp $0.pkl $PTMEM_SNAPSHOT; else cp '{}' $PTMEM_SNAPSHOT; exit 1; fi",
        failed.display()
    );
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_ptmem"));
    command.current_dir(folder).env("XDG_CACHE_HOME", folder.join("cache")).arg("fit").args(ranges).args(options);
    command.args(["--steps", "none", "--", "sh", "-c", &script, "{batch}", "{seq}"]).output().unwrap()
}

#[cfg(all(feature = "simulate", target_os = "linux"))]
#[test]
fn each_number_is_searched_once_and_what_does_not_fit_is_shown() {
    let folder = runs(&(1..=40).collect::<Vec<_>>(), |_| 0);
    let ranges = ["batch=1..40", "seq=1..3"];
    let output = search(folder.path(), &ranges, &["--format", "json"], "[ $0 -le 11 ]");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    check_json(&report);
    let [batch, seq] = [0, 1].map(|at| &report["numbers"][at]["search"]);
    assert_eq!([&batch["largest"], &batch["beyond"]["x"]], [11.0, 12.0]);
    assert_eq!([&seq["largest"], &seq["beyond"]], [&Value::from(3.0), &Value::Null]);
    let held = &batch["beyond"]["snapshot"];
    assert_eq!(held["at"], "oom");
    assert!(held["devices"][0]["stacks"].as_array().is_some_and(|stacks| !stacks.is_empty()), "{held}");
    let ran = fs::read_to_string(folder.path().join("ran")).unwrap();
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
    assert_eq!(fs::read_to_string(folder.path().join("ran")).unwrap(), ran);
}

#[cfg(all(feature = "simulate", target_os = "linux"))]
#[test]
fn answers_that_are_not_in_order_and_a_first_that_does_not_fit_are_told() {
    let folder = tempfile::tempdir().unwrap();
    for (number, fixture) in [("1.pkl", "after.pkl"), ("2.pkl", "before.pkl")] {
        fs::copy(fixtures::folder().join(fixture), folder.path().join(number)).unwrap();
    }
    let output = search(folder.path(), &["batch=1..3"], &[], "[ $0 -le 2 ]");
    let found = text(&output.stdout);
    assert!(found.contains("batch = 2 took less than 1: numbers that were not tried may fit"), "{found}");
    // A line goes through any two runs.
    assert!(!found.contains("full"), "{found}");
    let output = search(folder.path(), &["batch=2..3"], &[], "false");
    let found = text(&output.stdout);
    assert!(found.contains("not even the first batch of 2..3 fits; give smaller numbers or a larger card"), "{found}");
}

/// What fits is known to the byte here: the CUDA context is subtracted once, and from what the program sees as free as well.
#[cfg(all(feature = "simulate", target_os = "linux"))]
#[test]
#[ignore = "needs PyTorch, named by PTMEM_TEST_PYTHON"]
fn torch_has_the_card_without_the_context() {
    let python = std::env::var("PTMEM_TEST_PYTHON").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let script = "import sys, torch\nfree = torch.cuda.mem_get_info()[0]\nassert free == (2048 - 474) << 20, free\n\
                  for _ in range(int(sys.argv[1])): torch.cuda.caching_allocator_alloc(64 << 20)\n";
    fs::write(folder.path().join("hold.py"), script).unwrap();
    for (range, answer) in [
        ("blocks=20..30", "blocks = 24 is the largest of 20..30 that fits, 25 does not"),
        ("huge=9..9", "not even the first huge of 9..9 fits"),
    ] {
        let program = if range.starts_with("huge") { ["-c", FIRST, "{huge}"] } else { ["hold.py", "{blocks}", ""] };
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_ptmem"));
        command.current_dir(&folder).env("XDG_CACHE_HOME", folder.path().join("cache"));
        command.args(["fit", range, "--device-memory", "2GiB", "--steps", "all", "--", &python]).args(program);
        let output = command.output().unwrap();
        let found = text(&output.stdout);
        assert!(found.contains(answer), "{found}{}", text(&output.stderr));
    }
}

/// A program whose first request does not fit.
#[cfg(all(feature = "simulate", target_os = "linux"))]
const FIRST: &str = "import sys, torch; torch.empty(int(sys.argv[1]) << 30, dtype=torch.uint8, device='cuda')";
