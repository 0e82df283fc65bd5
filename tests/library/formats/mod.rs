//! Every format as its readers take it: held against a schema, read back, and with names in it that mean to harm.

mod large;
mod names;

use std::collections::HashSet;
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::fixtures::some;
use crate::support::readers::{Reports, check_json, contract, schema};
use ptmem::report::{Format, MarkdownOptions};
use serde_json::{Value as Json, json};

fn fixture(name: &str) -> String {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "fixtures", name].iter().collect();
    path.to_str().unwrap().to_owned()
}

fn fixtures() -> Vec<String> {
    crate::support::fixtures::snapshots().into_iter().map(|path| path.into_os_string().into_string().unwrap()).collect()
}

/// Runs the tool in a folder and returns what it prints, or why it could not run.
fn try_run(folder: &Path, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(env!("CARGO_BIN_EXE_ptmem")).current_dir(folder).args(arguments).output().unwrap();
    match output.status.code() {
        Some(0 | 1 | 3) => Ok(String::from_utf8(output.stdout).unwrap()),
        _ => Err(String::from_utf8(output.stderr).unwrap()),
    }
}

fn run(folder: &Path, arguments: &[&str]) -> String {
    try_run(folder, arguments).unwrap_or_else(|error| panic!("{arguments:?}: {error}"))
}

/// Runs the tool with every format at once.
fn reports(arguments: &[&str]) -> Reports {
    let folder = tempfile::tempdir().unwrap();
    reports_in(folder.path(), arguments)
}

fn reports_in(folder: &Path, arguments: &[&str]) -> Reports {
    let exports: Vec<_> = Format::ALL.iter().copied().map(|format| format!("{format}={format}")).collect();
    let mut all: Vec<&str> = arguments.to_vec();
    exports.iter().for_each(|export| all.extend(["--export", export]));
    let table = run(folder, &all);
    let text = |format: Format| (format.name(), std::fs::read_to_string(folder.join(format.name())).unwrap());
    let reports = Reports(Format::ALL.iter().copied().map(text).collect());
    assert_eq!(reports.text(Format::Table), table);
    reports
}

const DEFAULT: usize = 65_536;

// Reports about the fixtures.

#[test]
fn what_is_said_of_a_snapshot_can_be_read() {
    // Each fixture in one view, and each view of some fixtures.
    what_is_said_of_snapshots_can_be_read(0..1);
}

#[test]
#[ignore = "every night: cargo test exhaustively -- --ignored"]
fn what_is_said_of_a_snapshot_can_exhaustively_be_read() {
    what_is_said_of_snapshots_can_be_read(1..VIEWS.len());
}

const LATER_PHASES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cmd/phases.toml");
const HIGHEST_PHASES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cmd/highest-phases.toml");

/// What is asked of a snapshot: the command, and its options.
const VIEWS: [(&str, &[&str]); 10] = [
    ("show", &[]),
    ("show", &["--tree"]),
    ("show", &["--at", "end"]),
    ("show", &["--top", "3"]),
    ("show", &["--group-by", "frames", "--top", "0"]),
    ("show", &["--phases"]),
    ("show", &["--phases", "--top", "0", "--config", LATER_PHASES]),
    ("show", &["--every", "100events"]),
    ("check", &["--max", "peak=1B", "--max", "end=1TiB", "--strict"]),
    ("check", &["--max", "reserved=1TiB", "--max", "end=1TiB", "--strict"]),
];

/// Every fixture in these of the views, in turn.
fn what_is_said_of_snapshots_can_be_read(views: Range<usize>) {
    for (index, path) in fixtures().into_iter().enumerate() {
        for (at, (command, more)) in VIEWS.iter().enumerate() {
            if views.contains(&((at + index) % VIEWS.len())) {
                reports(&[&[command, &*path], *more].concat()).check(DEFAULT);
            }
        }
    }
}

#[test]
fn what_is_said_of_a_moment_can_be_read() {
    for path in some(fixtures()) {
        for moment in ["--at=event:7", "--at=time:0.000001", "--at=oom"] {
            // Not every history has such a moment.
            match try_run(Path::new("."), &["show", &path, moment, "--format=json"]) {
                Ok(text) => check_json(&serde_json::from_str(&text).unwrap()),
                Err(error) => {
                    let said = ["moment", "memory", "no times"].iter().any(|reason| error.contains(reason));
                    assert!(said, "{path}: {error}");
                }
            }
        }
    }
}

#[test]
fn saved_profiles_follow_the_schema() {
    let folder = tempfile::tempdir().unwrap();
    for path in fixtures().into_iter().step_by(3) {
        check_json(&serde_json::from_str(&run(folder.path(), &["profile", &path])).unwrap());
    }
    // With a reason for which it was raised, and as a side of a comparison.
    let of = |name: &str| {
        run(folder.path(), &["profile", &fixture(name), "-o", "stored.json"]);
        folder.path().join("stored.json")
    };
    let stored = of("before.pkl");
    reports(&["diff", stored.to_str().unwrap(), &fixture("after.pkl"), "--max-growth", "5%"]).check(DEFAULT);
    reports(&["show", stored.to_str().unwrap()]).check(DEFAULT);
    let gate = format!("[gate.stored]\nbefore = \"stored.json\"\nafter = \"{}\"\n", fixture("after.pkl"));
    std::fs::write(folder.path().join("ptmem.toml"), gate).unwrap();
    run(folder.path(), &["gate", "--update", "--allow-raise", "a larger model"]);
    let raised: Json = serde_json::from_str(&std::fs::read_to_string(&stored).unwrap()).unwrap();
    assert_eq!(raised["raises"][0]["reason"], "a larger model");
    check_json(&raised);
    let smaller = of("after.pkl");
    reports(&["diff", smaller.to_str().unwrap(), &fixture("before.pkl"), "--max-growth", "0"]).check(DEFAULT);
}

/// Pairs of fixtures: changes, the same twice, and such as have nothing to do with each other.
const PAIRS: [(&str, &str); 10] = [
    ("phases-before.pkl", "phases-after.pkl"),
    ("before.pkl", "after.pkl"),
    ("before.pkl", "moved.pkl"),
    ("leak.pkl", "no-leak.pkl"),
    ("two-devices-before.pkl", "two-devices-after.pkl"),
    ("oom.pkl", "wrapped.pkl"),
    ("state-only.pkl", "empty.pkl"),
    ("empty.pkl", "empty.pkl"),
    ("torch-1.13.pkl", "torch-2.15.pkl"),
    ("two-devices-before.pkl", "streams.pkl"),
];

#[test]
fn what_is_said_of_a_comparison_can_be_read() {
    what_is_said_of_comparisons_can_be_read(0..1);
}

#[test]
#[ignore = "every night: cargo test exhaustively -- --ignored"]
fn what_is_said_of_a_comparison_can_exhaustively_be_read() {
    what_is_said_of_comparisons_can_be_read(1..3);
}

/// Every pair in these thirds of the views, in turn.
fn what_is_said_of_comparisons_can_be_read(thirds: Range<usize>) {
    let limits = ["--max-growth=5%", "--warn-growth=end=0", "--max-growth=stack=0", "--max=reserved=1GiB"];
    let views: [&[&str]; 8] = [
        &["--phases", "--max-growth=phase:*=5%", "--warn-growth=phase:forward=0", "--top=3"],
        &["--phases", "--all", "--config", HIGHEST_PHASES, "--max-growth=phase:no such=0"],
        &[],
        &limits,
        &["--tree", "--max-growth", "0", "--max-growth", "phase=1%"],
        &["--at", "end", "--all", "--top", "0", "--min-delta", "0"],
        &["--group-by", "frames", "--max-growth", "stack:*(*=1KiB", "--strict"],
        &["--group-by", "category", "--explain", "--max-growth", "stack:nothing=0"],
    ];
    // Each pair in some views, and each view of some pairs.
    for (index, (before, after)) in PAIRS.into_iter().enumerate() {
        for (at, more) in views.into_iter().enumerate() {
            if thirds.contains(&((at + index) % 3)) {
                reports(&[&["diff", &fixture(before), &fixture(after)], more].concat()).check(DEFAULT);
            }
        }
    }
}

/// A basic string of TOML.
#[test]
fn what_is_said_of_leaks_can_be_read() {
    for path in some(fixtures()) {
        reports(&["leak", &path]).check(DEFAULT);
    }
    reports(&["leak", &fixture("leak.pkl"), "--max-leak", "1MiB", "--device-memory", "80GiB"]).check(DEFAULT);
    for folder in ["leak-series", "no-leak-series", "fragmentation-series", "ranks"] {
        for more in [&[][..], &["--group-by", "line"], &["--group-by", "metadata"], &["--top", "1"]] {
            reports(&[&["leak", &fixture(folder), "--min-growth", "1B"], more].concat()).check(DEFAULT);
        }
    }
}

fn toml(text: &str) -> String {
    let escaped: String = text.chars().map(|c| format!("\\U{:08X}", u32::from(c))).collect();
    format!("\"{escaped}\"")
}

/// Compares pairs as gates, each under its name.
fn gates(pairs: &[(&str, String, String)], more: &[&str]) -> Reports {
    let folder = tempfile::tempdir().unwrap();
    let mut text = "max-growth = [\"5%\", \"stack=0\"]\nwarn-growth = \"end=0\"\n".to_owned();
    for (name, before, after) in pairs {
        let [before, after] = [before, after].map(|path| toml(path));
        text += &format!("[gate.\"{name}\"]\nbefore = {before}\nafter = {after}\n");
    }
    std::fs::write(folder.path().join("ptmem.toml"), text).unwrap();
    reports_in(folder.path(), &[&["gate"], more].concat())
}

#[test]
fn what_is_said_of_gates_can_be_read() {
    let names = PAIRS.map(|(before, after)| format!("{before}-and-{after}"));
    let paths = PAIRS.map(|(before, after)| (fixture(before), fixture(after)));
    let pairs: Vec<_> = names.iter().zip(paths).map(|(name, (before, after))| (&**name, before, after)).collect();
    let reports = gates(&pairs, &["--verbose"]);
    reports.check(DEFAULT);
    assert_eq!(reports.json()["comparisons"].as_array().unwrap().len(), PAIRS.len());
    gates(&pairs[..1], &[]).check(DEFAULT);
}

/// As of two gates that share a comment.
#[test]
fn markdown_is_no_longer_than_it_may_be() {
    let read = |name| ptmem::read(File::open(fixture(name)).unwrap(), name, ptmem::ReadOptions::default()).unwrap();
    let limits = ptmem::Thresholds::default().max_growth("stack=0").unwrap();
    let gate = ptmem::compare(read("before.pkl"), read("after.pkl"), &limits);
    let text = |most| {
        let markdown = MarkdownOptions { max_bytes: Some(most), ..MarkdownOptions::default() };
        let options = ptmem::RenderOptions { markdown, ..ptmem::RenderOptions::default() };
        ptmem::render(&gate, Format::Markdown, &options).unwrap()
    };
    assert!(text(DEFAULT).len() > 4_096);
    assert!(text(4_096).len() <= 4_096 && text(4_096).contains("FAIL"), "{}", text(4_096));
}

// That the checks themselves would notice.

/// A report of each contract, and a saved profile.
fn examples() -> Vec<(&'static str, Json)> {
    let (before, after) = (fixture("before.pkl"), fixture("after.pkl"));
    let json = |arguments: &[&str]| reports(arguments).json();
    let study = |arguments: &[&str]| {
        serde_json::from_str(&run(Path::new("."), &[arguments, &["--format", "json"]].concat())).unwrap()
    };
    let saved = run(Path::new("."), &["profile", &fixture("oom.pkl")]);
    vec![
        ("profile", json(&["check", &fixture("oom.pkl"), "--max", "peak=1GiB", "--top", "2"])),
        ("profile", json(&["show", &fixture("oom.pkl"), "--tree", "--top", "2"])),
        ("profile", serde_json::from_str(&saved).unwrap()),
        ("profile", json(&["show", &fixture("phases-after.pkl"), "--every", "100events", "--top", "2"])),
        ("profile", serde_json::from_str(&run(Path::new("."), &["profile", &fixture("phases-after.pkl")])).unwrap()),
        ("diff", json(&["diff", &fixture("phases-before.pkl"), &fixture("phases-after.pkl"), "--phases"])),
        ("diff", json(&["diff", &before, &after, "--tree", "--max-growth", "0", "--top", "2"])),
        (
            "suite",
            gates(&[("a", before.clone(), after.clone()), ("b", before.clone(), after.clone())], &["--top", "2"])
                .json(),
        ),
        ("leak", json(&["leak", &fixture("leak.pkl")])),
        ("history", study(&["history", &fixture("leak-series"), "--device-memory", "1GiB", "--min-step", "1KiB"])),
        ("suite", json(&["diff", &fixture("ranks-before"), &fixture("ranks-after"), "--max", "imbalance=0"])),
        ("ranks", json(&["show", &fixture("ranks-after"), "--tree", "--top", "2"])),
        (
            "ranks",
            json(&["check", &fixture("ranks-after"), "--max", "peak=1MiB", "--max", "imbalance=0", "--top", "2"]),
        ),
    ]
}

/// Where the objects of a report are: of those at the same place of the schema with the same keys, the first.
#[derive(Default)]
struct Objects {
    places: Vec<String>,
    /// Places without the numbers of items, and keys.
    seen: HashSet<(String, Vec<String>)>,
}

impl Objects {
    fn of(report: &Json) -> Self {
        let mut objects = Self::default();
        objects.add(report, "", "");
        objects
    }

    fn add(&mut self, json: &Json, place: &str, place_in_schema: &str) {
        match json {
            Json::Object(map) => {
                if self.seen.insert((place_in_schema.to_owned(), map.keys().cloned().collect())) {
                    self.places.push(place.to_owned());
                }
                for (key, value) in map {
                    self.add(value, &format!("{place}/{key}"), &format!("{place_in_schema}/{key}"));
                }
            }
            Json::Array(items) => {
                for (i, item) in items.iter().enumerate() {
                    self.add(item, &format!("{place}/{i}"), &format!("{place_in_schema}/*"));
                }
            }
            _ => {}
        }
    }
}

/// Objects of which the keys are data.
const MAPS: [&str; 2] = ["/actions", "/settings"];

/// Whether a saved profile may leave a key out: one that is 0 or empty.
fn is_optional(place: &str, key: &str) -> bool {
    let is_pair = place.ends_with("/start") || place.ends_with("/spread");
    let saved = place.contains("/stacks/") || place.contains("/classes/") && !is_pair;
    let lines_of_a_map = MAPS.iter().any(|map| place.ends_with(map));
    let of_profile = matches!(key, "failed_request" | "texts" | "marks");
    saved || lines_of_a_map || of_profile || place.contains("/ooms/") && key == "frames"
}

#[test]
fn the_schemas_miss_nothing() {
    for (name, report) in examples() {
        let contract = contract(&report);
        check_json(&report);
        let is_saved = report.get("frames").is_some();
        let places = Objects::of(&report).places;
        assert!(places.len() > 9, "{name}: {places:?}");
        for place in places {
            let object = report.pointer(&place).unwrap().as_object().unwrap();
            let changed = |change: &dyn Fn(&mut serde_json::Map<String, Json>)| {
                let mut changed = report.clone();
                change(changed.pointer_mut(&place).unwrap().as_object_mut().unwrap());
                changed
            };
            let further = changed(&|object| drop(object.insert("further".to_owned(), json!({}))));
            assert!(!contract.closed.is_valid(&further), "{name}: a key more in {place}");
            let is_map = MAPS.iter().any(|map| place.ends_with(map));
            assert_eq!(contract.open.is_valid(&further), !is_map, "{name}: readers ignore a key more in {place}");
            for key in object.keys() {
                let other = changed(&|object| drop(object.insert(key.clone(), json!([[]]))));
                assert!(!contract.open.is_valid(&other), "{name}: {place}/{key} may be anything");
                let without = changed(&|object| drop(object.remove(key)));
                let asked = ["tree", "oom", "oom_blocks", "intervals", "failed_request", "device_memory"]
                    .contains(&&**key)
                    || key == "phases" && !["profile", "ranks"].contains(&name)
                    || key == "headroom" && place == "/devices/0";
                let optional = is_optional(&place, key) && (is_saved || is_map) || asked;
                assert_eq!(contract.open.is_valid(&without), optional, "{name}: {place} without {key}");
            }
        }
    }
}

#[test]
fn a_suite_holds_what_a_comparison_is() {
    let (diff, mut suite) = (schema("diff"), schema("suite"));
    let mut comparison = suite["$defs"].as_object_mut().unwrap().remove("comparison").unwrap();
    for of_ranks in ["ranks", "missing_rank", "rank_line", "rank_row"] {
        suite["$defs"].as_object_mut().unwrap().remove(of_ranks).unwrap();
    }
    assert_eq!(suite["$defs"], diff["$defs"]);
    comparison["properties"].as_object_mut().unwrap().remove("name").unwrap();
    comparison["required"].as_array_mut().unwrap().retain(|key| key != "name");
    for key in ["type", "required", "properties", "allOf"] {
        assert_eq!(comparison[key], diff[key], "{key}");
    }
}

#[test]
fn what_is_no_junit_report_is_refused() {
    let text = reports(&["diff", &fixture("before.pkl"), &fixture("after.pkl"), "--max-growth", "0"]);
    let text = text.text(Format::Junit);
    assert_eq!(crate::support::readers::junit_errors(text), Vec::<String>::new());
    for (old, new) in [
        ("classname=", "klass="),
        (" skipped=", " ignored="),
        (" classname=\"ptmem.device 0\"", ""),
        (" name=\"ptmem\" tests=\"1\"", " name=\"ptmem\""),
        ("tests=\"1\"", "tests=\"one\""),
        ("type=\"regression\"", "type=\"progress\""),
        ("<failure", "<system-out/><failure"),
        ("<testcase", "<case/><testcase"),
        ("</testsuites>", ""),
        ("peak within", "peak & within"),
        ("peak within", "peak < within"),
        ("peak within", "peak \u{1} within"),
    ] {
        let broken = text.replacen(old, new, 1);
        assert_ne!(broken, text, "{old}");
        assert!(!crate::support::readers::junit_errors(&broken).is_empty(), "{new}: {broken}");
    }
}
