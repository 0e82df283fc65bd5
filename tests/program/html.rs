//! The page of `--format html`: its markup, its size, its independence of anything else, and its use in a browser.
//!
//! `PTMEM_TEST_BROWSER` names what drives a browser; `.ci/browser` lays it out. The tests that need one are run by `cargo test --
//! --ignored`, and by `.ci/run`.

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::page_data::History;
use crate::support::html::data;
use crate::support::program::Program;
use crate::support::tool::{browser, commit, ptmem, text, verdict_line};

/// The driver of the tests in a browser.
const DRIVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/browser/page.mjs");

/// The largest page of a fixture.
const MOST_BYTES: usize = 300_000;

fn fixture(name: &str) -> String {
    format!("{}/fixtures/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// Runs the tool, which may fail a gate, and gives its report.
fn report(arguments: &[&str]) -> String {
    let output = ptmem(Path::new("."), arguments);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 1 | 3)), "{arguments:?}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

fn page(arguments: &[&str]) -> String {
    report(&[arguments, &["--format", "html"]].concat())
}

/// Uses the page of a run in a browser, and compares it with the JSON of the same run.
fn use_page(story: &str, arguments: &[&str]) {
    let folder = browser();
    let temporary = tempfile::tempdir().unwrap();
    let path = |name: &str| temporary.path().join(name).display().to_string();
    let exports = [format!("html={}", path("page.html")), format!("json={}", path("page.json"))];
    report(&[arguments, &["--export", &exports[0], "--export", &exports[1]]].concat());
    drive(&folder, story, &path("page.html"), &path("page.json"));
}

fn drive(folder: &Path, story: &str, page: &str, json: &str) {
    let mut command = Command::new("node");
    command.args([DRIVER, story, page, json]).env("PTMEM_TEST_BROWSER", folder).stdin(Stdio::null());
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{story}: {said}");
}

/// A job may print a page, and a line that begins with `::` is a command to it.
#[test]
fn no_name_of_a_case_begins_a_line() {
    let folder = tempfile::tempdir().unwrap();
    for (name, peak) in [("before.csv", 100), ("after.csv", 1000)] {
        let table = format!("case,device,peak\n\"x\n::error::y\",0,{peak}\nz,0,{peak}\n");
        fs::write(folder.path().join(name), table).unwrap();
    }
    let page = text(&ptmem(folder.path(), &["diff", "before.csv", "after.csv", "--format", "html"]).stdout);
    assert!(page.contains(r"x\n::error::y") && !page.contains("\n::"), "{page}");
}

#[test]
#[ignore = "needs a browser, named by PTMEM_TEST_BROWSER"]
fn comparisons_are_used_in_a_browser() {
    let (before, after) = (fixture("before.pkl"), fixture("after.pkl"));
    let limits = ["--max-growth", "5%", "--all", "--min-delta", "0", "--top", "0"];
    use_page("diff", &[&["diff", &before, &after][..], &limits].concat());
}

#[test]
#[ignore = "needs a browser, named by PTMEM_TEST_BROWSER"]
fn leaks_are_used_in_a_browser() {
    use_page("leak", &["leak", &fixture("leak.pkl")]);
}

#[test]
#[ignore = "needs a browser, named by PTMEM_TEST_BROWSER"]
fn ranks_are_used_in_a_browser() {
    use_page("ranks", &["diff", &fixture("ranks-before"), &fixture("ranks-after"), "--max-growth", "5%"]);
}

#[test]
fn pages_of_fixtures_are_small_and_always_the_same() {
    let snapshots = crate::support::fixtures::snapshots();
    assert!(snapshots.len() > 20);
    for path in snapshots {
        let path = path.display().to_string();
        let first = page(&["show", &path]);
        assert!(first.len() < MOST_BYTES, "{path}: {}", first.len());
        assert_eq!(first, page(&["show", &path]), "{path}");
    }
}

#[test]
fn the_history_of_a_page_has_the_figures_of_the_json() {
    let (before, after) = (fixture("before.pkl"), fixture("after.pkl"));
    let section = data(&page(&["diff", &before, &after]))["sections"][0].clone();
    let json: Value = serde_json::from_str(&report(&["diff", &before, &after, "--format", "json"])).unwrap();
    let metrics = &json["devices"][0]["metrics"];
    for side in ["before", "after"] {
        let history = History::of(&section, side);
        let counters = history.counters();
        let peaks = [0, 1].map(|at| counters.iter().map(|values| values[at]).max());
        assert_eq!(peaks, ["peak", "reserved"].map(|metric| metrics[metric][side].as_i64()));
        let moments = section["moments"].as_array().unwrap();
        for (title, metric) in [("peak", "peak"), ("start of the recording", "baseline"), ("end", "end")] {
            let moment = moments.iter().find(|moment| moment["title"] == title).unwrap();
            let held = history.held(moment[side].as_u64().unwrap());
            assert_eq!(Some(held), metrics[metric][side].as_i64(), "{title}");
        }
    }
}

#[test]
fn rows_hold_what_the_json_says_where_lines_have_moved() {
    let before = fixture("phases-before.pkl");
    let after = fixture("phases-after.pkl");
    for by in ["stack", "line"] {
        let arguments = ["diff", &before, &after, "--group-by", by, "--all", "--min-delta", "0", "--top", "0"];
        let json: Value = serde_json::from_str(&report(&[&arguments[..], &["--format", "json"]].concat())).unwrap();
        let section = data(&page(&arguments))["sections"][0].clone();
        let labels = section["rows"].as_array().unwrap();
        for side in ["before", "after"] {
            let history = History::of(&section, side);
            let place = section["moments"][0][side].as_u64().unwrap();
            for stack in json["devices"][0]["stacks"].as_array().unwrap() {
                let row = labels.iter().position(|label| *label == stack["label"]).unwrap();
                assert_eq!(Some(history.held_by_row(place, row)), stack[side].as_i64(), "{side} {}", stack["label"]);
            }
        }
    }
}

/// The segments of the map at the dump, with their streams and pools, are those that PyTorch wrote.
#[test]
fn segments_have_the_streams_and_pools_of_the_snapshot() {
    let mut homes = HashSet::new();
    for name in ["streams.pkl", "private-pool.pkl", "expandable.pkl", "oom.pkl"] {
        let page = page(&["show", &fixture(name)]);
        let snapshot = ptmem::snapshot::read(fs::File::open(fixture(name)).unwrap()).unwrap();
        let device = snapshot.devices.values().next().unwrap();
        let expected = device.segments.iter().map(|segment| {
            let mut home = match segment.stream.unwrap() {
                0 => "default stream".to_owned(),
                stream => format!("stream 0x{stream:x}"),
            };
            match segment.pool_id {
                None | Some((0, 0)) => {}
                Some((first, second)) => home += &format!(", private pool {first}:{second}"),
            }
            home += if segment.small_pool { ", requests up to 1 MiB" } else { ", larger requests" };
            home += if segment.is_expandable { ", expandable" } else { "" };
            let from = i64::try_from(segment.address).unwrap();
            (from, from + i64::try_from(segment.total_size).unwrap(), home)
        });
        let mut expected: Vec<_> = expected.collect();
        expected.sort();
        assert_eq!(History::of(&data(&page)["sections"][0], "after").segments_at_dump(), expected, "{name}");
        homes.extend(expected.into_iter().map(|(_, _, home)| home));
    }
    assert!(homes.len() >= 8, "{homes:?}");
}

#[test]
fn pages_say_why_a_category_is_other_and_why_there_is_no_map() {
    let folder = tempfile::tempdir().unwrap();
    let saved = folder.path().join("before.json").display().to_string();
    report(&["profile", &fixture("before.pkl"), "-o", &saved]);
    let [live, saved] = [&fixture("before.pkl"), &saved].map(|path| page(&["show", path]));
    for page in [&live, &saved] {
        assert!(page.contains("title=\"These stacks do not show the purpose of the memory"));
    }
    let missing = "No segment map";
    assert!(saved.contains(missing) && !live.contains(missing));
}

/// The map of a page at the dump is the state that PyTorch wrote.
#[test]
fn blocks_lie_where_the_snapshot_says() {
    for name in ["before.pkl", "oom.pkl", "leak.pkl"] {
        let page = page(&["show", &fixture(name)]);
        let section = &data(&page)["sections"][0];
        let snapshot = ptmem::snapshot::read(fs::File::open(fixture(name)).unwrap()).unwrap();
        let device = snapshot.devices.values().next().unwrap();
        let blocks = device.segments.iter().flat_map(|segment| &segment.blocks);
        let active = blocks.filter(|block| block.state != ptmem::snapshot::BlockState::Inactive);
        let mut expected: Vec<_> =
            active.map(|block| (i64::try_from(block.address).unwrap(), i64::try_from(block.size).unwrap())).collect();
        expected.sort_unstable();
        assert!(!expected.is_empty(), "{name}");
        assert_eq!(History::of(section, "after").blocks_at_dump(), expected, "{name}");
    }
}

#[test]
fn the_aligned_moment_is_that_of_the_command_line() {
    for [before, after] in [
        ["before.pkl", "after.pkl"],
        ["after.pkl", "before.pkl"],
        ["before.pkl", "moved.pkl"],
        ["phases-before.pkl", "phases-after.pkl"],
        ["phases-after.pkl", "phases-before.pkl"],
        ["leak.pkl", "no-leak.pkl"],
    ] {
        let data = data(&page(&["diff", &fixture(before), &fixture(after)]));
        let moments = data["sections"][0]["moments"].as_array().unwrap();
        let aligned =
            moments.iter().find(|moment| moment["title"].as_str().unwrap().starts_with("peak of the after")).unwrap();
        let all = ["--at", "aligned", "--all", "--min-delta", "0", "--top", "0", "--format", "json"];
        let json = report(&[&["diff", &fixture(before), &fixture(after)][..], &all].concat());
        let json: Value = serde_json::from_str(&json).unwrap();
        for side in ["before", "after"] {
            let drawn = History::of(&data["sections"][0], side).held(aligned[side].as_u64().unwrap());
            let rows = json["devices"][0]["stacks"].as_array().unwrap().iter();
            let stacks = rows.filter(|row| row["bucket"] != "peak-elsewhere");
            let listed = stacks.map(|stack| stack[side].as_u64().unwrap());
            assert_eq!(drawn.unsigned_abs(), listed.sum::<u64>(), "{before} {after}: {side}");
        }
    }
}

#[test]
fn frames_of_the_checkout_show_their_source() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(
        folder.path().join("train.py"),
        "import torch\n\ndef main():\n    x = 1\n    return torch.zeros(1 << 20)\n",
    )
    .unwrap();
    commit(folder.path(), &["train.py"]);
    let mut program = Program::default();
    program.alloc_under("a", &["/elsewhere/repo/train.py:main:5"], 1 << 20);
    program.free("a");
    fs::write(folder.path().join("a.pkl"), program.snapshot()).unwrap();
    let page = text(&ptmem(folder.path(), &["show", "a.pkl", "--format", "html"]).stdout);
    let nodes = &data(&page)["sections"][0]["nodes"];
    let sources: Vec<_> = nodes.as_array().unwrap().iter().filter_map(|node| node["source"].as_str()).collect();
    assert_eq!(sources, ["return torch.zeros(1 << 20)"]);
}

#[test]
fn pages_ask_nothing_of_anybody() {
    let text = page(&["diff", &fixture("before.pkl"), &fixture("after.pkl"), "--max-growth", "5%"]);
    let (_, policy) = text.split_once("http-equiv=\"Content-Security-Policy\" content=\"").unwrap();
    let (policy, _) = policy.split_once('"').unwrap();
    assert!(policy.starts_with("default-src 'none'; style-src 'sha256-"), "{policy}");
    assert!(!policy.contains("unsafe") && !policy.contains("http"), "{policy}");
    for tag in ["<img", "<iframe", "@import", "src=", "url(", " style=", " onclick="] {
        assert!(!text.contains(tag), "{tag}");
    }
    // The only addresses are the name of SVG.
    let addresses = text.match_indices("http").filter(|(at, _)| !text[*at..].starts_with("http://www.w3.org/2000/svg"));
    let addresses: Vec<_> = addresses.map(|(at, _)| &text[at..(at + 40).min(text.len())]).collect();
    assert!(addresses.iter().all(|address| address.starts_with("http-equiv")), "{addresses:?}");
}

/// Names that try to end the script, to begin elements, to turn what follows, and to fill the page.
fn hostile(folder: &Path) -> String {
    let mut program = Program::default();
    let names = [
        "</script><script>window.broken=1</script>".to_owned(),
        "<b class=\"injected\" onclick='x'>&amp;</b><!--".to_owned(),
        "\u{202e}desrever\u{2066}\u{1b}[31m\u{7}\u{2028}".to_owned(),
        "x".repeat(16 << 10),
    ];
    for (at, name) in names.iter().enumerate() {
        let frames = [format!("/repo/<i>{name}</i>.py:{name}:7"), "/repo/train.py:main:1".to_owned()];
        let frames: Vec<&str> = frames.iter().map(String::as_str).collect();
        program.alloc_under(format!("{at}"), &frames, 512 << at);
    }
    (0..4).for_each(|at| program.free(&at.to_string()));
    let path = folder.join("hostile&'.pkl").display().to_string();
    fs::write(&path, program.snapshot()).unwrap();
    path
}

#[test]
fn hostile_names_are_text() {
    let folder = tempfile::tempdir().unwrap();
    let path = hostile(folder.path());
    let text = page(&["diff", &path, &path]);
    assert_eq!(text.matches("<script").count(), 2, "the data and the script");
    assert_eq!(text.matches("</script").count(), 2);
    assert!(!text.contains("<b class") && !text.contains("<i>") && !text.contains("<!--"));
    assert!(!text.contains('\u{202e}') && !text.contains('\u{1b}') && !text.contains('\u{2028}'));
    assert!(text.len() < MOST_BYTES, "{}", text.len());
    assert!(data(&text)["sections"][0]["nodes"].to_string().contains("</script>"), "as it is called");
}

#[test]
#[ignore = "needs a browser, named by PTMEM_TEST_BROWSER"]
fn hostile_names_are_text_in_a_browser() {
    let folder = tempfile::tempdir().unwrap();
    use_page("hostile", &["show", &hostile(folder.path())]);
}

#[test]
fn private_pools_have_a_line_of_their_own() {
    let [graphs, more] =
        ["graphs", "graphs-for-more"].map(|name| fixture(&format!("recorded/corners/{name}-2.15.0.pkl.zst")));
    let drawn = page(&["diff", &graphs, &more]);
    let lines =
        ["before", "after"].map(|side| drawn.matches(&format!("<path class=\"line pool {side}\" d=\"M0.0 ")).count());
    assert_eq!(lines, [2, 1]);
    assert!(drawn.contains("after private pools") && drawn.contains("<title>scratch (corners.py)</title>"));
    assert!(!page(&["diff", &fixture("before.pkl"), &fixture("after.pkl")]).contains("private pools"));
}

#[test]
fn a_category_has_one_colour_on_both_sides_and_on_every_page() {
    let colours = |arguments: &[&str]| -> Vec<(String, u64)> {
        let data = data(&page(arguments));
        let categories = data["sections"][0]["categories"].as_array().unwrap().iter();
        categories.map(|of| (of[0].as_str().unwrap().to_owned(), of[1].as_u64().unwrap())).collect()
    };
    let mut all = colours(&["diff", &fixture("before.pkl"), &fixture("after.pkl")]);
    all.extend(colours(&["diff", &fixture("leak.pkl"), &fixture("before.pkl")]));
    all.extend(colours(&["show", &fixture("phases-after.pkl")]));
    assert!(all.len() > 8, "{all:?}");
    for (name, colour) in &all {
        assert!(all.iter().all(|(other, of)| (other == name) == (of == colour)), "{name}: {all:?}");
    }
}

#[test]
fn the_page_of_the_readme_is_kept_true() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/examples/report.html");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let arguments = ["diff", "fixtures/before.pkl", "fixtures/after.pkl", "--max-growth", "5%", "--format", "html"];
    let page = text(&ptmem(root, &arguments).stdout);
    if std::env::var_os("TRYCMD").is_some_and(|mode| mode == "overwrite") {
        fs::write(&path, &page).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap();
    assert!(
        kept == page,
        "docs/examples/report.html is not what the README's command writes; run with TRYCMD=overwrite"
    );
}

#[test]
fn a_page_of_memory_that_ran_out_says_so_in_its_title() {
    let page = page(&["show", &fixture("oom.pkl")]);
    let (_, title) = page.split_once("<title>").unwrap();
    let (title, _) = title.split_once("</title>").unwrap();
    for part in [
        "out of memory: 76.34 MiB requested by backward: LogSoftmaxBackward0",
        "12.00 MiB free on the device",
        "largest free block of its pool ",
    ] {
        assert!(title.contains(part), "{title}");
    }
}

#[test]
fn a_comparison_without_limits_says_what_grew() {
    let text = report(&["diff", &fixture("before.pkl"), &fixture("after.pkl")]);
    let verdict = verdict_line(&text);
    let grew = "peak grew 53.80 MiB (+19.2 %), most by attention (model.py:40) aten::_softmax (+53.74 MiB)";
    assert_eq!(verdict, format!("PASS nothing was gated (no limit was given): {grew}"));
    let text = report(&["diff", &fixture("before.pkl"), &fixture("before.pkl")]);
    assert_eq!(verdict_line(&text), "PASS nothing was gated (no limit was given): peak did not change");
}

#[test]
fn a_saved_profile_has_the_curve_of_its_snapshot() {
    let folder = tempfile::tempdir().unwrap();
    let profile = folder.path().join("before.json").display().to_string();
    report(&["profile", &fixture("before.pkl"), "-o", &profile]);
    let [saved, live] = [&profile, &fixture("before.pkl")].map(|before| page(&["diff", before, &fixture("after.pkl")]));
    assert!(!saved.contains("The curve is coarse"));
    let [saved, live] = [&saved, &live].map(|page| data(page)["sections"][0].clone());
    assert_eq!(saved["moments"], live["moments"]);
    assert_eq!(saved["curves"], live["curves"]);
    let text = page(&["show", &fixture("state-only.pkl")]);
    assert!(text.contains("No timeline"));
}

#[test]
fn charts_number_phases_as_tables_do() {
    let page = page(&["diff", &fixture("phases-before.pkl"), &fixture("phases-after.pkl"), "--phases"]);
    let bands = data(&page)["sections"][0]["curves"][1]["bands"].clone();
    let names: Vec<&str> = bands.as_array().unwrap().iter().map(|band| band["name"].as_str().unwrap()).collect();
    assert_reads!(names.join(", ") => str!["epoch, step #0, forward #0, backward #0, optimizer #0, step #1, forward #1, backward #1, optimizer #1, step #2, forward #2, prefetch, backward #2, reduce, optimizer #2, step #3, forward #3, backward #3, optimizer #3"]);
}

#[test]
fn charts_have_axes_values_and_labels() {
    let leak = page(&["leak", &fixture("leak.pkl"), "--device-memory", "8MiB"]);
    for part in [">4 MiB</text>", ">5.01 MiB</text>", ">ProfilerStep#11</text>", ">device memory 8.00 MiB</text>"] {
        assert!(leak.contains(part), "{part}");
    }
    let ranks = page(&["diff", &fixture("ranks-before"), &fixture("ranks-after")]);
    for part in [">rank 3</text>", ">+25.25 MiB</text>", ">20 MiB</text>", "backward #1"] {
        assert!(ranks.contains(part), "{part}");
    }
    assert!(ranks.contains("most on rank 3: peak grew 25.25 MiB"), "the verdict names the rank that grew most");
}
