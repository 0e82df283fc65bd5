//! No key of the configuration can loosen a gate unnoticed: for each key of the schema, pairs of configurations of which one is
//! the base's and one the change's.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;

use proptest::prelude::Rng;
use proptest::test_runner::{TestRng, TestRunner};
use serde_json::Value as Json;
use tempfile::TempDir;
use toml::{Table, Value};

use crate::support::edit::Edited;
use crate::support::program::Program;
use crate::support::random;
use crate::support::tool::{git, text};

/// A key of the schema.
struct Key {
    /// Its names from the root; items of lists and names of suites are left out.
    path: String,
    /// Values from strict to loose. `-` is no value.
    values: Vec<&'static str>,
    /// The rest of the configuration with which the key decides something.
    around: String,
    /// The recordings.
    files: [&'static str; 2],
    /// Whether the loosest value in place of the strictest lets pass what failed before.
    loosens: bool,
}

const PLAIN: [&str; 2] = ["before.pkl", "after.pkl"];
const OUT_OF_MEMORY: [&str; 2] = ["no-leak.pkl", "oom.pkl"];
const SUSPECT: [&str; 2] = ["gradients.pkl", "streams.pkl"];
const PARTIAL: [&str; 2] = ["protocol2.pkl", "partial.pkl"];

fn key(path: &str, values: &[&'static str], around: &str) -> Key {
    let values = values.to_vec();
    Key { path: path.to_owned(), values, around: around.to_owned(), files: PLAIN, loosens: true }
}

impl Key {
    fn of(self, files: [&'static str; 2]) -> Self {
        Self { files, ..self }
    }

    /// A key that lets nothing pass alone, or not with these recordings.
    fn harmless(self) -> Self {
        Self { loosens: false, ..self }
    }
}

/// Limits, which a file, a suite and a comparison can set.
fn limits() -> Vec<Key> {
    let lenient = "max-growth = '1TiB'\n";
    let [memory, overhead, headroom] =
        ["device-memory = '5GiB'\n", "device-overhead = '0'\n", "min-headroom = '2GiB'\n"];
    vec![
        key("max-growth", &["'5%'", "['peak=20MiB', 'stack=0']", "{ peak = '50%', 'stack:*' = '1TiB' }"], ""),
        key("warn-growth", &["'1%'", "'90%'"], lenient).harmless(),
        key("max", &["{ stack = '50MiB' }", "'peak=90MiB'", "{ stack = '50MiB', 'stack:*' = '999GiB' }"], lenient),
        key("min-delta", &["'0'", "'999MiB'"], "max-growth = 'stack=0'\n"),
        key("strict", &["true", "false"], lenient).of(SUSPECT),
        key("allow-partial", &["false", "true"], lenient).of(PARTIAL),
        key("allow-oom", &["false", "true"], lenient).of(OUT_OF_MEMORY),
        // These recordings hold no workspaces.
        key("beside-workspaces", &["true", "false"], lenient).harmless(),
        key("device-memory", &["'5GiB'", "'80GiB'"], &[overhead, headroom].concat()),
        key("device-overhead", &["'3GiB'", "'0'"], &[memory, "min-headroom = '512MiB'\n"].concat()),
        key("min-headroom", &["'2GiB'", "'0'"], &[memory, overhead].concat()),
    ]
}

/// Keys that only a file has.
fn of_file() -> Vec<Key> {
    let helpers = "group-by = 'function'\nmax-growth = 'stack=7MiB'\n";
    let accept =
        "max-growth = '5%'\n[[accept]]\nmetric = 'peak'\nbytes = '999GiB'\nreason = 'x'\nexpires = 2999-12-31\n";
    let category = "group-by = 'category'\n[[category]]\nname = 'net'\nframes = ['layer']\n";
    let named = format!("max-growth = ['stack=0', 'stack:free=1TiB']\n{category}");
    let other = format!("max-growth = 'stack=7MiB'\n{category}[[category]]\nname = 'rest'\nframes = ['layer']\n");
    vec![
        key("group-by", &["'file'", "'stack'", "'frames'"], "max-growth = 'stack=7MiB'\n"),
        key("allocator-settings", &["'roundup_power2_divisions:2'", "''"], "max-growth = '5%'\n").harmless(),
        key("match-ratio", &["1.0", "0.3"], "max-growth = 'stack=0'\n").harmless(),
        key("phase-occurrence", &["'each'", "'max'"], "max-growth = 'phase:step=0'\n"),
        key("skip-first", &["0", "2"], "max-growth = 'phase:step=0'\n"),
        key("simulate.known", &["[]", "['train.py:has_nan']"], "max-growth = '5%'\n").harmless(),
        key("unfold", &["0", "9"], "max-growth = 'stack=0'\ngroup-by = 'module'\n").harmless(),
        key("strip-prefix", &["'/ci'", "'/elsewhere'"], "max-growth = ['stack=0', 'stack:*ci/net*=1TiB']\n").harmless(),
        key("own", &["'*/nothing/*'", "['*/mine/*']"], &format!("foreign = '*/net/helper.py'\n{helpers}")),
        key("foreign", &["'*/net/helper.py'", "['*/nothing/*']"], helpers),
        key("category.name", &["'net'", "'free'"], &named),
        key("category.frames", &["['layer']", "['one']"], &other),
        key(
            "accept.pattern",
            &["'nothing*'", "'*'"],
            &accept.replace("metric = 'peak'\n", "").replace("5%", "stack=0"),
        ),
        // No edit of these checkouts explains growth.
        key("accept.through", &["'one'", "'other'"], &accept.replace("metric = 'peak'\n", "")).harmless(),
        key("accept.metric", &["'end'", "'peak'"], accept),
        key("accept.bytes", &["'1KiB'", "'999GiB'"], accept),
        key("accept.reason", &["'x'", "'y'"], accept).harmless(),
        key("accept.expires", &["2026-01-01", "'2999-12-31'"], accept),
    ]
}

/// Keys of one comparison.
fn of_comparison() -> Vec<Key> {
    vec![
        key("name", &["'all'", "'other'"], "max-growth = '5%'\n").harmless(),
        key("before", &["'../before.pkl'", "'../after.pkl'"], "max-growth = '5%'\n"),
        key("after", &["'../after.pkl'", "'../before.pkl'"], "max-growth = '5%'\n"),
    ]
}

fn keys() -> Vec<Key> {
    let below = |prefix: &'static str| move |key: Key| Key { path: format!("{prefix}.{}", key.path), ..key };
    let mut keys = limits();
    keys.extend(of_file());
    keys.extend(limits().into_iter().map(below("suite")));
    keys.extend(limits().into_iter().chain(of_comparison()).map(below("suite.compare")));
    keys
}

/// The keys that the schema knows, without those that only hold others.
fn keys_of_schema() -> BTreeSet<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/schemas/ptmem.toml.schema.json");
    let schema: Json = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let mut found = BTreeSet::new();
    collect(&schema, "", &mut found);
    found
}

fn collect(schema: &Json, path: &str, found: &mut BTreeSet<String>) {
    for below in [&schema["items"], &schema["additionalProperties"]] {
        if below.is_object() {
            return collect(below, path, found);
        }
    }
    match schema["properties"].as_object() {
        Some(properties) => properties.iter().for_each(|(name, schema)| {
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            collect(schema, &path, found);
        }),
        None => assert!(found.insert(path.to_owned()), "{path}"),
    }
}

#[test]
fn every_key_of_the_schema_has_a_generator() {
    let known: BTreeSet<String> = keys().into_iter().map(|key| key.path).collect();
    assert_eq!(known, keys_of_schema());
}

/// The table that holds the last name of a path, of the first item or suite where there are several.
fn table_of<'t>(table: &'t mut Table, path: &[&str]) -> &'t mut Table {
    let [first, rest @ ..] = path else { return table };
    let below = table.entry(*first).or_insert_with(|| Value::Table(Table::new()));
    let below = match below {
        Value::Array(items) => items.first_mut().unwrap().as_table_mut().unwrap(),
        below => below.as_table_mut().unwrap(),
    };
    if *first == "suite" { table_of(table_of(below, &["all"]), rest) } else { table_of(below, rest) }
}

/// A configuration in which each of some keys has one of its values.
fn configuration(key: &Key, set: &[(&Key, &str)]) -> String {
    let mut table: Table = key.around.parse().unwrap();
    let [before, after] = key.files;
    let suite = format!("[[suite.all.compare]]\nname = 'all'\nbefore = '../{before}'\nafter = '../{after}'\n");
    table.extend(suite.parse::<Table>().unwrap());
    for (key, value) in set.iter().filter(|(_, value)| *value != "-") {
        let names: Vec<&str> = key.path.split('.').collect();
        let (name, above) = names.split_last().unwrap();
        let value = format!("v = {value}").parse::<Table>().unwrap().remove("v").unwrap();
        if table.contains_key(above.first().copied().unwrap_or("suite")) {
            table_of(&mut table, above).insert((*name).to_owned(), value);
        }
    }
    table.to_string()
}

/// A base and a change of it.
struct Case<'k> {
    key: &'k Key,
    base: String,
    own: String,
    /// Whether the change takes the strictest value of the key for the loosest.
    is_extreme: bool,
}

impl<'k> Case<'k> {
    fn extreme(key: &'k Key) -> Self {
        let of = |value: &&'static str| configuration(key, &[(key, *value)]);
        let [base, own] = [key.values.first().unwrap(), key.values.last().unwrap()].map(of);
        Self { key, base, own, is_extreme: true }
    }

    /// Random values of the key and of another one, on both sides.
    fn random(key: &'k Key, keys: &'k [Key], rng: &mut TestRng) -> Self {
        let other = any(keys, rng);
        let mut side = || {
            let mut set = vec![(key, value_of(key, rng))];
            if other.path != key.path && rng.next_u32().is_multiple_of(2) {
                set.push((other, value_of(other, rng)));
            }
            configuration(key, &set)
        };
        Self { key, base: side(), own: side(), is_extreme: false }
    }
}

fn any<'a, T>(items: &'a [T], rng: &mut TestRng) -> &'a T {
    &items[rng.next_u32() as usize % items.len()]
}

/// One of the values of a key, or none of them.
fn value_of(key: &Key, rng: &mut TestRng) -> &'static str {
    if rng.next_u32().is_multiple_of(4) { "-" } else { any::<&'static str>(&key.values, rng) }
}

/// The recordings, two of which have all that keys ask for, and a folder for each case, with the rules of its base.
fn repository(cases: &[Case<'_>]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    for name in OUT_OF_MEMORY.into_iter().chain(SUSPECT).chain([PARTIAL[0]]) {
        fs::copy(fixtures.join(name), folder.path().join(name)).unwrap();
    }
    fs::write(folder.path().join(".gitignore"), "*.pkl\noutputs\n").unwrap();
    for (name, mib) in [("before.pkl", 10), ("after.pkl", 20)] {
        fs::write(folder.path().join(name), recording(mib)).unwrap();
    }
    let mut partial = Edited::open(&fixtures.join(PARTIAL[0]));
    partial.keep_events(40, 100);
    partial.write(&folder.path().join(PARTIAL[1]));
    for (at, case) in cases.iter().enumerate() {
        fs::create_dir(folder.path().join(at.to_string())).unwrap();
        fs::write(folder.path().join(format!("{at}/ptmem.toml")), &case.base).unwrap();
    }
    git(folder.path(), &["init", "--quiet", "--initial-branch", "main"]);
    git(folder.path(), &["add", "--all"]);
    git(folder.path(), &["commit", "--quiet", "--message", "the base"]);
    folder
}

/// A program whose layer holds some MiB, half of it by each of two functions that each call two others, and that takes some steps
/// whose peak is `mib` MiB in the first two.
fn recording(mib: u64) -> Vec<u8> {
    let mut program = Program::default();
    for step in 0..5 {
        program.mark("START", "step");
        let held = if step < 2 { mib } else { 20 };
        for part in 0..held {
            program.alloc_under(format!("step{part}"), &["/ci/net/step.py:step:7", "/ci/net/model.py:main:9"], 1 << 20);
        }
        for part in 0..held {
            program.free(&format!("step{part}"));
        }
        program.mark("END", "step");
    }
    for part in 0..mib {
        let half = part % 2;
        let inner = format!("/x/site-packages/mine/inner.py:{}:3", ["one", "two"][half as usize]);
        let torch = format!("/x/site-packages/torch/nn/functional.py:linear:{}", 10 + half);
        let helper = format!("/ci/net/helper.py:{}:8", ["first", "second"][half as usize]);
        let frames = [&*torch, &inner, &helper, "/ci/net/model.py:layer:4", "/ci/net/model.py:forward:90"];
        program.alloc_under(format!("layer{part}"), &frames, 1 << 20);
    }
    for part in 0..100 {
        program.alloc_under(
            format!("rest{part}"),
            &["/ci/net/model.py:mlp:14", "/ci/net/model.py:forward:91"],
            1 << 20,
        );
    }
    program.snapshot()
}

/// The exit code of a case, whether reviewers are told, and the report.
struct Run {
    code: i32,
    announce: bool,
    report: String,
}

impl Run {
    fn new(folder: &Path, case: &Case<'_>, options: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ptmem"));
        command.current_dir(folder).env_clear().env("PATH", std::env::var_os("PATH").unwrap());
        command.env("PTMEM_TODAY", "2027-01-15").env("GIT_CONFIG_GLOBAL", "/dev/null");
        let files = case.key.files.map(|file| format!("../{file}"));
        if case.key.path.starts_with("suite.") {
            command.args(["diff", "--suite", "all"]);
        } else {
            command.arg("diff").args(files);
        }
        let output = command.args(options).args(["--export", "github-output=outputs"]).output().unwrap();
        let outputs = fs::read_to_string(folder.join("outputs")).unwrap_or_default();
        Self {
            code: output.status.code().unwrap(),
            announce: outputs.contains("announce=true"),
            report: text(&output.stdout) + &text(&output.stderr),
        }
    }
}

#[test]
fn what_passes_by_the_change_and_fails_by_its_base_is_told() {
    let keys = keys();
    let mut rng = TestRunner::new(random::config(1)).new_rng();
    let rounds = std::env::var("PROPTEST_CASES").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(2);
    let mut cases: Vec<Case<'_>> = keys.iter().map(Case::extreme).collect();
    for _ in 0..rounds {
        cases.extend(keys.iter().map(|key| Case::random(key, &keys, &mut rng)));
    }
    let folder = repository(&cases);
    let numbered: Vec<(usize, &Case<'_>)> = cases.iter().enumerate().collect();
    let failures: Vec<String> = thread::scope(|scope| {
        let parts = numbered.chunks(numbered.len().div_ceil(2)).map(|part| {
            let check = |(at, case): &(usize, &Case<'_>)| check(&folder.path().join(at.to_string()), case).err();
            scope.spawn(move || part.iter().filter_map(check).collect::<Vec<String>>())
        });
        let parts: Vec<_> = parts.collect();
        parts.into_iter().flat_map(|part| part.join().unwrap()).collect()
    });
    assert!(failures.is_empty(), "{} of {}: {}", failures.len(), cases.len(), failures.join("\n======\n"));
}

/// Judges by the base alone, then by the change against its base. The error is why it is not as it should be.
fn check(folder: &Path, case: &Case<'_>) -> Result<(), String> {
    let Case { key, base, own, .. } = case;
    let of_base = Run::new(folder, case, &[]);
    fs::write(folder.join("ptmem.toml"), own).unwrap();
    let of_own = Run::new(folder, case, &["--git", "main"]);
    let told = format!(
        "{}\n--- base: exit {}\n{base}\n--- change: exit {}, announce {}\n{own}\n--- {}\n--- {}",
        key.path, of_base.code, of_own.code, of_own.announce, of_base.report, of_own.report
    );
    // What the base limits not at all, the change does not loosen: a pattern that matches nothing, a comparison without a limit.
    let is_no_limit = match of_base.code {
        3 => of_base.report.contains("the pattern matches no"),
        code => code == 2 && of_base.report.contains("has no limit"),
    };
    let is_right = of_own.code != 0 || is_no_limit || of_own.announce == (of_base.code != 0);
    let loosens = of_own.code == 0 && [1, 3].contains(&of_base.code);
    let is_tried = loosens || !case.is_extreme || !key.loosens;
    if is_right && is_tried { Ok(()) } else { Err(told) }
}
