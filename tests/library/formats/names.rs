//! Names that mean to harm stay names in every format.

use super::DEFAULT;
use crate::support::pickle::{self, Value, write};
use crate::support::readers::{ESCAPE, Reports, is_control};
use ptmem::diff;
use ptmem::leak;
use ptmem::profile::{self, InputKind, Profile, Source};
use ptmem::report::{RenderOptions, printable};
use ptmem::snapshot;
use ptmem::stack::GroupBy;
use ptmem::verdict::{
    self, Comparison, Gate, GateNode, GrowthLimit, JudgedSearch, LeakGate, Level, Reading, Thresholds,
};

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
        "-1+cmd",
        "@SUM(A1)",
        "+1",
        "\u{200b}\u{e0041}\u{200e}",
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
pub(super) type Stack = Vec<(String, String, i64)>;

pub(super) fn frame(function: &str, file: &str, line: i64) -> (String, String, i64) {
    (function.to_owned(), file.to_owned(), line)
}

const MIB: u64 = 1 << 20;

/// A snapshot in which every stack allocates one block, each in a segment of its own.
pub(super) fn snapshot_of(stacks: &[(Stack, u64)], tag: &str) -> Vec<u8> {
    let mut segments = Vec::new();
    let mut events = Vec::new();
    for (i, (stack, size)) in (0_u64..).zip(stacks) {
        let address = (i + 1) << 36;
        let frames = list(stack.iter().map(|(name, file, line)| {
            Value::dict([("name", (&**name).into()), ("filename", (&**file).into()), ("line", (*line).into())])
        }));
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

pub(super) fn profile_of(snapshot: &[u8], path: &str, group_by: GroupBy) -> Profile {
    let source = Source { path: path.to_owned(), bytes: snapshot.len() as u64, kind: InputKind::Snapshot };
    let options = profile::ReadOptions { group_by, ..profile::ReadOptions::default() };
    profile::measure(snapshot::read(snapshot).unwrap(), source, options).unwrap()
}

pub(super) fn compare(name: Option<&str>, before: Profile, after: Profile, growth: &[&str]) -> Comparison {
    let diff = diff::compare(before, after, diff::DiffOptions::default());
    let fail = growth.iter().map(|limit| GrowthLimit::parse(limit, Level::Fail).unwrap());
    let warn = ["end=0", "stack:*99*=0"].map(|limit| GrowthLimit::parse(limit, Level::Warn).unwrap());
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
    let mut after = hostile_stacks(name, 4 * MIB);
    after.push((in_main(frame(name, "/repo/new.py", 7)), MIB));
    [snapshot_of(&hostile_stacks(name, 2 * MIB), name), snapshot_of(&after, name)]
}

fn hostile_stacks(name: &str, size: u64) -> Vec<(Stack, u64)> {
    vec![
        (in_main(frame(name, "/repo/train.py", 1)), size),
        (in_main(frame("step", &format!("/repo/{name}.py"), 2)), size + 512),
        (in_main(frame("step", &format!("/repo/{name}/model.py"), 3)), size + 1024),
        (in_main(frame("step", name, 4)), size + 1536),
        (in_main(frame(name, name, 5)), size + 2048),
        (vec![frame("aten::mm", "??", 0), frame(name, "/repo/a.cpp", 6), frame(name, &format!("{name}.py"), 6)], size),
    ]
}

/// The stack of a frame that the main function calls.
fn in_main(called: (String, String, i64)) -> Stack {
    vec![called, frame("main", "/repo/main.py", 1)]
}

/// Two snapshots that hold a name wherever a name can be.
struct Hostile<'n> {
    name: &'n str,
    before: Vec<u8>,
    after: Vec<u8>,
    group_by: GroupBy,
}

impl<'n> Hostile<'n> {
    fn new(name: &'n str, group_by: GroupBy) -> Self {
        let [before, after] = hostile_snapshots(name);
        Self { name, before, after, group_by }
    }

    fn profile(&self, snapshot: &[u8]) -> Profile {
        // How a path begins is up to who runs the tool.
        profile_of(snapshot, &format!("snapshots/{}", self.name), self.group_by)
    }

    /// The names that comparisons of one gate have.
    fn names_of_comparisons(&self) -> [Vec<Option<&'n str>>; 3] {
        [vec![None], vec![Some(self.name)], vec![Some(self.name), Some("other")]]
    }

    /// The names that searches for leaks have: several of one run are named.
    fn names_of_findings(&self) -> [Vec<Option<&'n str>>; 2] {
        [vec![None], vec![Some(self.name), Some("other")]]
    }

    /// One comparison for each name.
    fn gate(&self, names: &[Option<&str>], limits: &[&str]) -> Gate {
        let of = |name: &Option<&str>| compare(*name, self.profile(&self.before), self.profile(&self.after), limits);
        Gate { nodes: names.iter().map(|name| GateNode::One(of(name))).collect() }
    }

    fn check_comparisons(&self, names: &[Option<&str>]) {
        let gate = self.gate(names, &["0", "stack=0", "stack:nothing=0"]);
        Reports::of(&gate, &RenderOptions::default()).check(DEFAULT);
    }

    /// What leaks from the before to the after.
    fn finding(&self, name: Option<&str>) -> JudgedSearch {
        let options = leak::LeakOptions { min_growth: Some(1), ..leak::LeakOptions::default() };
        let mut search = leak::over(vec![self.profile(&self.before), self.profile(&self.after)], &[], &options);
        search.name = name.map(str::to_owned);
        search.rank = name.map(|_| 3);
        assert_ne!(search.leaks().count(), 0);
        let judgement = verdict::judge_leaks(&search, 0, true);
        JudgedSearch { search, judgement }
    }

    fn check_leaks(&self, names: &[Option<&str>]) {
        let gate = LeakGate { nodes: names.iter().map(|name| GateNode::One(self.finding(*name))).collect() };
        Reports::of(&gate, &RenderOptions::default()).check(DEFAULT);
    }

    /// Names of metadata and compile contexts.
    fn check_phases(&self) {
        let options = RenderOptions { phases: true, ..RenderOptions::default() };
        let gate = self.gate(&[None], &["phase:*=0", "phase:nothing=0"]);
        let grew = gate.only().unwrap().judgement.checks.iter().filter(|check| check.is_of_phases());
        assert!(self.name.is_empty() || grew.count() >= 2, "{}", self.name);
        Reports::of(&gate, &options).check(DEFAULT);
        Reports::of(&self.profile(&self.after), &options).check(DEFAULT);
    }

    fn check_profile(&self) {
        let profile = self.profile(&self.after);
        let thresholds = Thresholds { maximum: vec!["peak=1B".parse().unwrap()], ..Thresholds::default() };
        let judgement = verdict::judge_profile(&profile, &thresholds);
        Reports::of(&Reading { member: None, profile, judgement: Some(judgement) }, &RenderOptions::default())
            .check(DEFAULT);
    }
}

#[test]
fn names_stay_names_in_every_format() {
    for (index, name) in hostile_names().iter().enumerate() {
        let hostile = Hostile::new(name, GroupBy::Stack);
        hostile.check_comparisons(&hostile.names_of_comparisons()[index % 3]);
        hostile.check_leaks(&hostile.names_of_findings()[index % 2]);
        hostile.check_phases();
        hostile.check_profile();
    }
}

/// Every character of Unicode is printed as it is, or escaped; every one that nobody should see is put before each format.
#[test]
fn every_character_is_printable_or_escaped_in_every_format() {
    let all = (0..=u32::from(char::MAX)).filter_map(char::from_u32);
    let unseen: Vec<char> = all.clone().filter(|c| is_control(*c)).collect();
    assert!(unseen.len() > 4000);
    for c in all {
        let shown = printable(&c.to_string());
        assert!(!shown.contains(is_control), "{c:?}");
        assert!(shown == c.to_string() || shown.starts_with('\\'), "{c:?}");
    }
    for part in unseen.chunks(500) {
        let name: String = part.iter().collect();
        let hostile = Hostile::new(&name, GroupBy::Stack);
        hostile.check_comparisons(&[Some(&name)]);
        hostile.check_leaks(&[None]);
        hostile.check_profile();
    }
}

/// Profiles and comparisons whose stacks have all of these characters in their names.
fn check_characters(characters: &[char]) {
    // Longer names are cut where there is no room for them.
    for names in characters.chunks(40).collect::<Vec<_>>().chunks(1000) {
        let stacks: Vec<_> = names
            .iter()
            .map(|name| (in_main(frame(&name.iter().collect::<String>(), "/repo/train.py", 1)), MIB))
            .collect();
        let after = snapshot_of(&stacks, "");
        let before = snapshot_of(&stacks[..1], "");
        let profile = |snapshot: &[u8]| profile_of(snapshot, "snapshot.pkl", GroupBy::Stack);
        let options = RenderOptions { top: Some(0), ..RenderOptions::default() };
        let reports = Reports::of(&profile(&after), &options);
        reports.check(DEFAULT);
        assert_eq!(reports.json()["devices"][0]["stacks"].as_array().unwrap().len(), stacks.len());
        let comparison = compare(None, profile(&before), profile(&after), &["0"]);
        let gate = Gate::from(comparison);
        Reports::of(&gate, &options).check(DEFAULT);
    }
}

#[test]
fn every_character_of_the_first_scripts_is_put_before_each_format() {
    check_characters(&(0..0x3000).filter_map(char::from_u32).collect::<Vec<_>>());
}

/// Of planes that have no character, or only private ones, the last ones are enough.
#[test]
#[ignore = "every night: cargo test exhaustively -- --ignored"]
fn characters_are_put_exhaustively_before_each_format() {
    let all = (0..=u32::from(char::MAX)).filter(|c| matches!(c >> 16, 0..4 | 14) || c & 0xffff > 0xff00);
    check_characters(&all.filter_map(char::from_u32).collect::<Vec<_>>());
}

#[test]
#[ignore = "every night: cargo test exhaustively -- --ignored"]
fn names_stay_exhaustively_names_in_every_format() {
    for (index, name) in hostile_names().iter().enumerate() {
        // By turns: each name meets a third of the groupings, and of the ways to name comparisons and findings.
        let others = GroupBy::ALL.iter().filter(|by| **by != GroupBy::Stack);
        for (turn, &group_by) in (index..).zip(others).skip(index % 3).step_by(3) {
            let hostile = Hostile::new(name, group_by);
            hostile.check_comparisons(&hostile.names_of_comparisons()[turn % 3]);
            hostile.check_leaks(&hostile.names_of_findings()[turn % 2]);
            hostile.check_profile();
            let profile = hostile.profile(&hostile.after);
            Reports::of(&profile, &RenderOptions::default()).check(DEFAULT);
        }
    }
}
