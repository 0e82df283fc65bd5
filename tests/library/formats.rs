//! Every format as its readers take it: held against a schema, read back, and with names in it that mean to harm.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::pickle::{self, Value, write};
use crate::support::readers::{ESCAPE, Reports, check_json, check_markdown, contract, schema};
use ptmem::diff;
use ptmem::leak;
use ptmem::profile::{self, Kind, Moment, Profile, Source};
use ptmem::report::{Format, Options, Subject};
use ptmem::snapshot;
use ptmem::stack::GroupBy;
use ptmem::verdict::{self, Comparison, Finding, Gate, Growth, LeakGate, Level, Thresholds};
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
    let exports: Vec<_> = Format::ALL.iter().map(|format| format!("{format}={format}")).collect();
    let mut all: Vec<&str> = arguments.to_vec();
    exports.iter().for_each(|export| all.extend(["--export", export]));
    let table = run(folder, &all);
    let text = |format: &Format| (format.name(), std::fs::read_to_string(folder.join(format.name())).unwrap());
    let reports = Reports(Format::ALL.iter().map(text).collect());
    assert_eq!(reports.text(Format::Table), table);
    reports
}

const DEFAULT: usize = 65_536;

// What the tool writes about the fixtures.

#[test]
fn what_is_said_of_a_snapshot_can_be_read() {
    for path in fixtures() {
        for more in [&[][..], &["--tree"], &["--at", "end"], &["--top", "3"], &["--group-by", "frames", "--top", "0"]] {
            reports(&[&["show", &path], more].concat()).check(DEFAULT);
        }
        for more in [&["--phases"][..], &["--phases", "--top", "0", "--skip-first", "1"], &["--every", "100events"]] {
            reports(&[&["show", &path], more].concat()).check(DEFAULT);
        }
        for limit in ["peak=1B", "reserved=1TiB"] {
            reports(&["check", &path, "--max", limit, "--max", "end=1TiB", "--strict"]).check(DEFAULT);
        }
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
    for path in fixtures() {
        for more in [&[][..], &["--top", "3"], &["--min-bytes", "1MiB"], &["--at", "event:0"]] {
            match try_run(folder.path(), &[&["profile", &path], more].concat()) {
                Ok(text) => check_json(&serde_json::from_str(&text).unwrap()),
                // A snapshot without events has no event 0.
                Err(error) => assert_eq!(more.first(), Some(&"--at"), "{path}: {error}"),
            }
        }
    }
    // With a reason for which it was raised, and as a side of a comparison.
    let of = |name: &str| {
        run(folder.path(), &["profile", &fixture(name), "-o", "stored.json"]);
        folder.path().join("stored.json")
    };
    let stored = of("before.pkl");
    reports(&["diff", stored.to_str().unwrap(), &fixture("after.pkl"), "--max-growth", "5%"]).check(DEFAULT);
    reports(&["show", stored.to_str().unwrap()]).check(DEFAULT);
    let raise =
        ["diff", "--update", "stored.json", &fixture("after.pkl"), "--allow-raise", "--reason", "a larger model"];
    run(folder.path(), &raise);
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
    let limits = ["--max-growth=5%", "--warn-growth=end=0", "--max-growth=stack=0", "--max=reserved=1GiB"];
    let views: [&[&str]; 8] = [
        &["--phases", "--max-growth=phase:*=5%", "--warn-growth=phase:forward=0", "--top=3"],
        &["--phases", "--all", "--phase-occurrence=max", "--max-growth=phase:no such=0", "--skip-first=1"],
        &[],
        &limits,
        &["--tree", "--max-growth", "0"],
        &["--at", "end", "--all", "--top", "0", "--min-delta", "0"],
        &["--group-by", "frames", "--max-growth", "stack:*(*=1KiB", "--strict"],
        &["--group-by", "category", "--explain", "--max-growth", "stack:nothing=0"],
    ];
    for (before, after) in PAIRS {
        for more in views {
            reports(&[&["diff", &fixture(before), &fixture(after)], more].concat()).check(DEFAULT);
        }
    }
}

/// A basic string of TOML.
#[test]
fn what_is_said_of_leaks_can_be_read() {
    for path in fixtures() {
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

/// Compares pairs as a suite, each under its name.
fn suite(pairs: &[(&str, String, String)], more: &[&str]) -> Reports {
    let folder = tempfile::tempdir().unwrap();
    let mut text = "max-growth = [\"5%\", \"stack=0\"]\nwarn-growth = \"end=0\"\n".to_owned();
    for (name, before, after) in pairs {
        let [name, before, after] = [name, &**before, &**after].map(toml);
        text += &format!("[[suite.all.compare]]\nname = {name}\nbefore = {before}\nafter = {after}\n");
    }
    std::fs::write(folder.path().join("ptmem.toml"), text).unwrap();
    reports_in(folder.path(), &[&["diff", "--suite", "all"], more].concat())
}

#[test]
fn what_is_said_of_a_suite_can_be_read() {
    let names = PAIRS.map(|(before, after)| format!("{before} and {after}"));
    let paths = PAIRS.map(|(before, after)| (fixture(before), fixture(after)));
    let pairs: Vec<_> = names.iter().zip(paths).map(|(name, (before, after))| (&**name, before, after)).collect();
    let reports = suite(&pairs, &["--tree"]);
    reports.check(DEFAULT);
    assert_eq!(reports.json()["comparisons"].as_array().unwrap().len(), PAIRS.len());
    suite(&pairs[..1], &["--at", "end"]).check(DEFAULT);
    suite(&pairs, &["--max-bytes", "4096"]).check(4096);
}

// That the checks themselves would notice.

/// A report of each contract, and a saved profile.
fn examples() -> Vec<(&'static str, Json)> {
    let (before, after) = (fixture("before.pkl"), fixture("after.pkl"));
    let json = |arguments: &[&str]| reports(arguments).json();
    let study = |arguments: &[&str]| {
        serde_json::from_str(&run(Path::new("."), &[arguments, &["--format", "json"]].concat())).unwrap()
    };
    let series = ["100", "200", "300"].map(|step| fixture(&format!("leak-series/step-{step}.pkl")));
    let series: Vec<&str> = series.iter().map(String::as_str).collect();
    let saved = run(Path::new("."), &["profile", &fixture("oom.pkl"), "--top", "2", "--at", "oom"]);
    vec![
        ("profile", json(&["check", &fixture("oom.pkl"), "--max", "peak=1GiB", "--top", "2"])),
        ("profile", json(&["show", &fixture("oom.pkl"), "--tree", "--top", "2"])),
        ("profile", serde_json::from_str(&saved).unwrap()),
        ("profile", json(&["show", &fixture("phases-after.pkl"), "--every", "100events", "--top", "2"])),
        ("profile", serde_json::from_str(&run(Path::new("."), &["profile", &fixture("phases-after.pkl")])).unwrap()),
        ("diff", json(&["diff", &fixture("phases-before.pkl"), &fixture("phases-after.pkl"), "--phases"])),
        ("diff", json(&["diff", &before, &after, "--tree", "--max-growth", "0", "--top", "2"])),
        ("suite", suite(&[("a", before.clone(), after.clone())], &["--tree", "--top", "2"]).json()),
        ("leak", json(&["leak", &fixture("leak.pkl")])),
        ("history", study(&["history", &fixture("leak-series"), "--device-memory", "1GiB", "--min-step", "1KiB"])),
        ("scale", study(&[&["scale", "--x=1,2,3,4", "--device-memory=1GiB", &before], &series[..]].concat())),
        ("suite", json(&["diff", &fixture("ranks-before"), &fixture("ranks-after"), "--max", "imbalance=0"])),
        ("ranks", json(&["show", &fixture("ranks-after"), "--tree", "--top", "2"])),
        (
            "ranks",
            json(&["check", &fixture("ranks-after"), "--max", "peak=1MiB", "--max", "imbalance=0", "--top", "2"]),
        ),
    ]
}

/// Calls with every object below a value, and where it is.
fn each_object(json: &mut Json, place: &str, see: &mut impl FnMut(&str)) {
    match json {
        Json::Object(map) => {
            see(place);
            for (key, value) in map {
                each_object(value, &format!("{place}/{key}"), see);
            }
        }
        Json::Array(items) => {
            let numbered = items.iter_mut().enumerate();
            numbered.for_each(|(i, item)| each_object(item, &format!("{place}/{i}"), see));
        }
        _ => {}
    }
}

/// What a saved profile may lack: what is 0 or empty.
fn is_optional(place: &str, key: &str) -> bool {
    let saved = place.contains("/stacks/") || place.contains("/metadata/") || place.contains("/compile_contexts/");
    let lines_of_a_map = place.ends_with("/actions") || place.ends_with("/settings") || place.ends_with("/frames");
    let of_device = ["course", "failed_request"].contains(&key) || place.ends_with("/course") && key == "peak";
    saved && !["label", "key", "tag"].contains(&key)
        || lines_of_a_map
        || of_device
        || place.contains("/ooms/") && key == "frames"
}

#[test]
fn the_schemas_miss_nothing() {
    for (name, report) in examples() {
        let contract = contract(&report);
        check_json(&report);
        let is_saved = report.get("frames").is_some();
        let mut places = Vec::new();
        each_object(&mut report.clone(), "", &mut |place| places.push(place.to_owned()));
        assert!(places.len() > 20, "{name}: {places:?}");
        for place in places {
            let object = report.pointer(&place).unwrap().as_object().unwrap();
            let changed = |change: &dyn Fn(&mut serde_json::Map<String, Json>)| {
                let mut changed = report.clone();
                change(changed.pointer_mut(&place).unwrap().as_object_mut().unwrap());
                changed
            };
            let further = changed(&|object| drop(object.insert("further".to_owned(), json!({}))));
            assert!(!contract.closed.is_valid(&further), "{name}: a key more in {place}");
            let is_map = ["/actions", "/settings", "/frames"].iter().any(|map| place.ends_with(map));
            assert_eq!(contract.open.is_valid(&further), !is_map, "{name}: readers ignore a key more in {place}");
            for key in object.keys() {
                let other = changed(&|object| drop(object.insert(key.clone(), json!([[]]))));
                assert!(!contract.open.is_valid(&other), "{name}: {place}/{key} may be anything");
                let without = changed(&|object| drop(object.remove(key)));
                let asked = ["tree", "oom", "oom_blocks", "intervals", "failed_request"].contains(&&**key)
                    || key == "phases" && !["profile", "ranks"].contains(&name);
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
    // What is the same in a profile is said in the same words.
    let profile = schema("profile");
    for (name, definition) in diff["$defs"].as_object().unwrap() {
        let differs = ["diagnostic", "tree_line"].contains(&&**name) || profile["$defs"].get(name).is_none();
        assert!(differs || profile["$defs"][name] == *definition, "{name}");
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

// Names that mean to harm.

/// Names of functions, files and comparisons that a format could take for its own.
fn hostile_names() -> Vec<String> {
    let names = [
        "a|b",
        "|",
        "`tick`",
        "`````",
        "a`````b|c",
        "<script>alert(1)</script>",
        "</code><script>|</script>",
        "<!-- x -->",
        "-->",
        "]]>",
        "</details>",
        "```\n</details>",
        "a\nb",
        "a\r\nb",
        "a\rb",
        "a\tb",
        "a\u{2028}b",
        "%0A%0D%25",
        "::error::x",
        "\n::error file=a,line=1::x",
        "##[error]x",
        "###[stop-commands]x",
        "'\"'",
        "\\",
        "a\\|b",
        "ends in \\",
        "a,b",
        "a;b",
        ";",
        "=1+1",
        "🎉👩‍👩‍👧",
        "\u{202e}abc",
        "\u{2066}abc",
        "\0",
        "\u{1}\u{7f}\u{85}\u{9b}",
        "\u{fffe}\u{ffff}",
        ESCAPE,
        "@everyone",
        "@everyone|",
        "#1",
        "#1|`",
        "https://evil.example",
        "https://evil.example/|",
        "https://evil.example/`\\",
        "www.evil.example",
        "www.evil.example|",
        "someone@evil.example",
        "someone@evil.example|",
        "${{ x }}",
        "$x$ $`x`$",
        "\"><img src=x>",
        "*x* __y__ ~~z~~",
        "[x](https://evil.example) ![x](y) [^1]",
        "[x](https://evil.example)|`x`",
        "# x",
        "- x",
        "1. x",
        "> x",
        "---",
        "    x",
        "&amp;&#124;&quot;",
        " ",
        "aten::mm",
        "…",
    ];
    names.map(str::to_owned).into_iter().chain(["x".repeat(300), "漢".repeat(100), "|`".repeat(150)]).collect()
}

fn list(items: impl IntoIterator<Item = Value>) -> Value {
    Value::List(items.into_iter().collect())
}

/// A call stack, innermost frame first: function, file, line.
type Stack = Vec<(String, String, i64)>;

const MIB: u64 = 1 << 20;

/// A snapshot in which every stack allocates one block, each in a segment of its own.
fn snapshot_of(stacks: &[(Stack, u64)], tag: &str) -> Vec<u8> {
    let (mut segments, mut events) = (Vec::new(), Vec::new());
    for (i, (stack, size)) in (0_u64..).zip(stacks) {
        let frame = |(name, file, line): &(String, String, i64)| {
            Value::dict([("name", (&**name).into()), ("filename", (&**file).into()), ("line", (*line).into())])
        };
        let (address, frames) = ((i + 1) << 36, list(stack.iter().map(frame)));
        for action in ["segment_alloc", "alloc"] {
            events.push(Value::dict([
                ("action", action.into()),
                ("addr", address.into()),
                ("size", (*size).into()),
                ("stream", 0.into()),
                ("time_us", (1_700_000_000_000_000 + i).into()),
                ("frames", frames.clone()),
                ("user_metadata", tag.into()),
                ("compile_context", tag.into()),
            ]));
        }
        let block = Value::dict([
            ("address", address.into()),
            ("size", (*size).into()),
            ("requested_size", (*size).into()),
            ("state", "active_allocated".into()),
            ("frames", frames),
        ]);
        segments.push(Value::dict([
            ("device", 0.into()),
            ("address", address.into()),
            ("total_size", (*size).into()),
            ("allocated_size", (*size).into()),
            ("active_size", (*size).into()),
            ("stream", 0.into()),
            ("segment_type", "large".into()),
            ("segment_pool_id", Value::Tuple(vec![0.into(), 0.into()])),
            ("is_expandable", false.into()),
            ("frames", list([])),
            ("blocks", list([block])),
        ]));
    }
    let value = Value::dict([("segments", list(segments)), ("device_traces", list([list(events)]))]);
    write(&value, pickle::Options::default())
}

fn profile_of(snapshot: &[u8], path: &str, group_by: GroupBy) -> Profile {
    let source = Source { path: path.to_owned(), bytes: snapshot.len() as u64, kind: Kind::Snapshot };
    let options = profile::Options { group_by, ..profile::Options::default() };
    profile::measure(snapshot::read(snapshot).unwrap(), source, options).unwrap()
}

fn compare(name: Option<&str>, before: Profile, after: Profile, growth: &[&str]) -> Comparison {
    let diff = diff::compare(before, after, diff::Options::default());
    let fail = growth.iter().map(|limit| Growth::parse(limit, Level::Fail).unwrap());
    let warn = ["end=0", "stack:*99*=0"].map(|limit| Growth::parse(limit, Level::Warn).unwrap());
    let thresholds = Thresholds {
        growth: fail.chain(warn).collect(),
        maximum: vec!["reserved=1B".parse().unwrap()],
        min_delta: 0,
        ..Thresholds::default()
    };
    let judgement = verdict::judge_diff(&diff, &thresholds);
    Comparison { name: name.map(str::to_owned), member: None, diff, judgement, min_delta: 0 }
}

/// Stacks with a name as function, as Python file and as any file: in the before with one block, in the after with one
/// twice as large, and one more stack.
fn hostile_snapshots(name: &str) -> [Vec<u8>; 2] {
    let frame = |name: &str, file: &str, line| (name.to_owned(), file.to_owned(), line);
    let main = || frame("main", "/repo/main.py", 1);
    let stacks = |size: u64| {
        vec![
            (vec![frame(name, "/repo/train.py", 1), main()], size),
            (vec![frame("step", &format!("/repo/{name}.py"), 2), main()], size + 512),
            (vec![frame("step", &format!("/repo/{name}/model.py"), 3), main()], size + 1024),
            (vec![frame("step", name, 4), main()], size + 1536),
            (vec![frame(name, name, 5), main()], size + 2048),
            (
                vec![frame("aten::mm", "??", 0), frame(name, "/repo/a.cpp", 6), frame(name, &format!("{name}.py"), 6)],
                size,
            ),
        ]
    };
    let mut after = stacks(4 * MIB);
    after.push((vec![frame(name, "/repo/new.py", 7), main()], MIB));
    [snapshot_of(&stacks(2 * MIB), name), snapshot_of(&after, name)]
}

/// Renders comparisons, leaks and profiles of snapshots that hold the name wherever a name can be.
fn check_reports_with(name: &str, group_by: GroupBy) {
    let [before, after] = hostile_snapshots(name);
    // How a path begins is up to who runs the tool.
    let path = format!("snapshots/{name}");
    let profile = |bytes: &[u8]| profile_of(bytes, &path, group_by);
    let comparisons = |names: &[Option<&str>]| -> Vec<_> {
        let limits = ["0", "stack=0", "stack:nothing=0"];
        names.iter().map(|name| compare(*name, profile(&before), profile(&after), &limits)).collect()
    };
    let options = Options::default();
    for names in [&[None][..], &[Some(name)], &[Some(name), Some("other")]] {
        let gate = Gate { comparisons: comparisons(names), ranks: Vec::new() };
        Reports::of(Subject::Gate(&gate), &options).check(DEFAULT);
    }
    let leaks = |name: Option<&str>| {
        let options = leak::Options { group_by, min_growth: Some(1), ..leak::Options::default() };
        let mut series = leak::Series::new(options);
        [&before, &after].into_iter().for_each(|bytes| series.add(profile(bytes)));
        let mut search = series.finish();
        (search.name, search.rank) = (name.map(str::to_owned), name.map(|_| 3));
        assert_ne!(search.leaks().count(), 0);
        let judgement = verdict::judge_leaks(&search, 0, true);
        Finding { search, judgement }
    };
    for names in [&[None][..], &[Some(name), Some("other")]] {
        let gate = LeakGate { findings: names.iter().map(|name| leaks(*name)).collect() };
        Reports::of(Subject::Leaks(&gate), &options).check(DEFAULT);
    }
    if group_by == GroupBy::Stack {
        let options = Options { phases: true, ..Options::default() };
        let limits = ["phase:*=0", "phase:nothing=0"];
        let comparisons = vec![compare(None, profile(&before), profile(&after), &limits)];
        let gate = Gate { comparisons, ranks: Vec::new() };
        // What metadata and compile contexts are called.
        let grew = gate.comparisons[0].judgement.checks.iter().filter(|check| check.is_of_phases());
        assert!(name.is_empty() || grew.count() >= 2, "{name}");
        Reports::of(Subject::Gate(&gate), &options).check(DEFAULT);
        Reports::of(Subject::Profile(&profile(&after), None), &options).check(DEFAULT);
    }
    let profile = profile(&after);
    let thresholds = Thresholds { maximum: vec!["peak=1B".parse().unwrap()], ..Thresholds::default() };
    let judgement = verdict::judge_profile(&profile, &thresholds);
    for judgement in [None, Some(&judgement)] {
        Reports::of(Subject::Profile(&profile, judgement), &options).check(DEFAULT);
    }
}

#[test]
fn names_stay_names_in_every_format() {
    for name in hostile_names() {
        check_reports_with(&name, GroupBy::Stack);
    }
}

#[test]
#[ignore = "exhaustive: cargo test -- --ignored"]
fn names_stay_names_in_every_format_and_grouping() {
    for name in hostile_names() {
        for group_by in GroupBy::ALL {
            check_reports_with(&name, group_by);
        }
    }
}

/// Names of comparisons go through the configuration, and come out of JSON and CSV as they are.
#[test]
fn names_of_comparisons_stay_names() {
    let names: Vec<_> = hostile_names();
    let pair = |name| (name, fixture("leak.pkl"), fixture("no-leak.pkl"));
    let reports = suite(&names.iter().map(|name| pair(&**name)).collect::<Vec<_>>(), &[]);
    reports.check(DEFAULT);
    let json = reports.json();
    let named: Vec<_> = json["comparisons"].as_array().unwrap().iter().map(|of| of["name"].as_str().unwrap()).collect();
    assert_eq!(named, names);
}

// Comparisons of a size that no reader takes whole.

const MANY: u64 = 20_000;

/// So many stacks, all of which grew, the last one most.
fn many_stacks() -> [Profile; 2] {
    let stacks = |size: &dyn Fn(u64) -> u64| {
        let frame = |name: String, line| (name, "/repo/model.py".to_owned(), line);
        let stack = |i: u64| vec![frame(format!("layer_{i}"), 7), frame("main".to_owned(), 3)];
        snapshot_of(&(0..MANY).map(|i| (stack(i), size(i))).collect::<Vec<_>>(), "many")
    };
    [stacks(&|_| 512), stacks(&|i| 1024 + 512 * i)].map(|snapshot| profile_of(&snapshot, "many.pkl", GroupBy::Stack))
}

#[test]
fn reports_of_many_leaks_stay_within_what_readers_take() {
    let options = leak::Options { min_growth: Some(1), ..leak::Options::default() };
    let mut series = leak::Series::new(options);
    for mut profile in many_stacks() {
        profile.options.at = Moment::End;
        series.add(profile);
    }
    let search = series.finish();
    assert_eq!(search.leaks().count() as u64, MANY);
    let judgement = verdict::judge_leaks(&search, 0, false);
    let gate = LeakGate { findings: vec![Finding { search, judgement }] };
    let gate = Subject::Leaks(&gate);
    for top in [0, 10] {
        let options = Options { top, ..Options::default() };
        Reports::of(gate, &options).check(DEFAULT);
        for max_bytes in [4096, DEFAULT, 1 << 20] {
            let text = Format::Markdown.render(gate, &Options { max_bytes, ..options.clone() }).unwrap();
            check_markdown(&text, max_bytes);
            let rows = text.lines().filter(|line| line.starts_with("| +") && line.contains("layer_")).count();
            assert!(text.contains("`layer_19999 (model.py:7)`"), "{}", &text[..1024]);
            let others = text.find(" others").map(|end| text[..end].rsplit(';').next().unwrap());
            let left_out = text.lines().filter_map(|line| line.strip_prefix("… and ")?.strip_suffix(" more leaks"));
            let left_out = left_out.map(|number| number.replace(',', "")).chain(others.map(str::to_owned));
            let left_out: u64 = left_out.map(|number| number.parse::<u64>().unwrap()).sum();
            assert_eq!(rows as u64 + left_out, MANY, "{top} {max_bytes}");
        }
    }
}

#[test]
fn reports_of_many_stacks_stay_within_what_readers_take() {
    let [before, after] = many_stacks();
    let gate = Gate { comparisons: vec![compare(None, before, after, &["5%", "stack=0"])], ranks: Vec::new() };
    assert!(gate.comparisons[0].judgement.checks.len() > 20_000);
    let gate = Subject::Gate(&gate);
    let all = Reports::of(gate, &Options { top: 0, ..Options::default() });
    assert_eq!(all.json()["devices"][0]["stacks"].as_array().unwrap().len(), 20_000);
    assert_eq!(all.text(Format::Github).lines().count(), 20);
    Reports::of(gate, &Options::default()).check(DEFAULT);
    for top in [0, 10, 100] {
        let options = Options { top, ..Options::default() };
        for max_bytes in [4096, DEFAULT, 1 << 20] {
            let text = Format::Markdown.render(gate, &Options { max_bytes, ..options.clone() }).unwrap();
            check_markdown(&text, max_bytes);
            assert!(text.contains("`layer_19999 (model.py:7)` grew: **+"), "{}", &text[..1024]);
            // The rows that are shown, and the number of those that are not.
            let (_, stacks) = text.split_once("**Stacks at the peak**").unwrap();
            let rows = stacks.lines().skip(4).take_while(|line| line.starts_with('|')).count();
            let others = stacks.find(" others").map(|end| stacks[..end].rsplit(';').next().unwrap());
            let left_out = stacks.lines().filter_map(|line| line.strip_prefix("… and ")?.strip_suffix(" more stacks"));
            let left_out = left_out.map(|number| number.replace(',', "")).chain(others.map(str::to_owned));
            let left_out: u64 = left_out.map(|number| number.parse::<u64>().unwrap()).sum();
            assert_eq!(rows as u64 + left_out, MANY, "{top} {max_bytes}");
            assert!(rows > 10 || top == 10, "{rows}");
        }
    }
}
