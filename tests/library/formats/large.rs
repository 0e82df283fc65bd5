//! Reports of large results stay within what their readers take.

use super::DEFAULT;
use super::names::{Stack, compare, frame, profile_of, snapshot_of};
use crate::support::readers::{Reports, check_markdown};
use ptmem::leak;
use ptmem::profile::{Moment, Profile};
use ptmem::report::{Format, MarkdownOptions, RenderOptions};
use ptmem::stack::GroupBy;
use ptmem::verdict::{self, Gate, JudgedSearch, LeakGate};
use serde_json::Value;
use std::io::{self, Write};

/// More than the 5,000 results that code scanning shows, which is the largest number that a reader takes.
const MANY: u64 = 5_200;
/// More rows than fit into any report of Markdown that has the default length.
const SOME: u64 = 1_500;
/// More than a megabyte of rows.
const MEGABYTES: u64 = 20_000;

/// A before and an after with `count` stacks each, all of which grew, the last one most.
fn many_stacks(count: u64) -> [Profile; 2] {
    let before: Vec<_> = (0..count).map(|number| (stack_of_layer(number), 512)).collect();
    let after: Vec<_> = (0..count).map(|number| (stack_of_layer(number), 1024 + 512 * number)).collect();
    [before, after].map(|stacks| profile_of(&snapshot_of(&stacks, "many"), "many.pkl", GroupBy::Stack))
}

fn stack_of_layer(number: u64) -> Stack {
    vec![frame(&format!("layer_{number}"), "/repo/model.py", 7), frame("main", "/repo/model.py", 3)]
}

/// How Markdown names a stack of these.
fn label(number: u64) -> String {
    format!("`layer_{number} (model.py:7)`")
}

/// The number of rows that a text says it leaves out, below its tables and in a row of its own.
fn left_out(text: &str, below: &str) -> u64 {
    let rows = text.lines().filter_map(|line| Some(line.split_once(" others&#93;")?.0.rsplit_once("&#91;")?.1));
    let below = text.lines().filter_map(|line| line.strip_prefix("… and ")?.strip_suffix(below));
    below.chain(rows).map(|number| number.replace(',', "").parse::<u64>().unwrap()).sum()
}

#[test]
fn reports_of_many_leaks_stay_within_what_readers_take() {
    leaks_stay_within_what_readers_take(SOME);
}

#[test]
#[ignore = "every night: cargo test exhaustively -- --ignored"]
fn reports_of_leaks_stay_exhaustively_within_what_readers_take() {
    leaks_stay_within_what_readers_take(MEGABYTES);
}

fn leaks_stay_within_what_readers_take(count: u64) {
    let options = leak::LeakOptions { min_growth: Some(1), ..leak::LeakOptions::default() };
    let mut profiles = many_stacks(count);
    profiles.iter_mut().for_each(|profile| profile.options.at = Moment::End);
    let search = leak::over(profiles.into(), &[], &options);
    assert_eq!(search.leaks().count() as u64, count);
    let judgement = verdict::judge_leaks(&search, 0, false);
    let gate = LeakGate::from(JudgedSearch { search, judgement });
    Reports::of(&gate, &RenderOptions::default()).check(DEFAULT);
    for (top, max_bytes) in [(0, 4096), (0, 1 << 20), (10, 4096), (10, DEFAULT)] {
        let text = Format::Markdown
            .render(
                &gate,
                &RenderOptions {
                    top: Some(top),
                    markdown: MarkdownOptions { max_bytes: Some(max_bytes), ..Default::default() },
                    ..RenderOptions::default()
                },
            )
            .unwrap();
        check_markdown(&text, max_bytes);
        let rows = text.lines().filter(|line| line.starts_with("| +") && line.contains("layer_")).count();
        assert!(text.contains(&label(count - 1)), "{}", &text[..1024]);
        assert_eq!(rows as u64 + left_out(&text, " more rows"), count, "{top} {max_bytes}");
    }
}

#[test]
fn reports_of_many_stacks_stay_within_what_readers_take() {
    stacks_stay_within_what_readers_take(MANY);
}

#[test]
#[ignore = "every night: cargo test exhaustively -- --ignored"]
fn reports_of_stacks_stay_exhaustively_within_what_readers_take() {
    stacks_stay_within_what_readers_take(MEGABYTES);
}

fn stacks_stay_within_what_readers_take(count: u64) {
    let [before, after] = many_stacks(count);
    let gate = Gate::from(compare(None, before, after, &["5%", "stack=0"]));
    assert!(gate.only().unwrap().judgement.checks.len() as u64 > count);
    let all = RenderOptions { top: Some(0), ..RenderOptions::default() };
    let json: Value = serde_json::from_str(&Format::Json.render(&gate, &all).unwrap()).unwrap();
    assert_eq!(json["devices"][0]["stacks"].as_array().unwrap().len() as u64, count);
    assert_eq!(Format::Github.render(&gate, &all).unwrap().lines().count(), 20);
    Reports::of(&gate, &RenderOptions::default()).check(DEFAULT);
    for (top, max_bytes) in [(0, 4096), (0, 1 << 20), (10, DEFAULT), (100, 4096), (100, DEFAULT)] {
        let text = Format::Markdown
            .render(
                &gate,
                &RenderOptions {
                    top: Some(top),
                    markdown: MarkdownOptions { max_bytes: Some(max_bytes), ..Default::default() },
                    ..RenderOptions::default()
                },
            )
            .unwrap();
        check_markdown(&text, max_bytes);
        assert!(text.contains(&format!("{} grew: **+", label(count - 1))), "{}", &text[..1024]);
        // The rows that are shown, and the number of those that are not.
        let (_, stacks) = text.split_once("**Stacks at the peak**").unwrap();
        let rows = stacks.lines().skip(4).take_while(|line| line.starts_with('|')).count();
        assert_eq!(rows as u64 + left_out(stacks, " more rows"), count, "{top} {max_bytes}");
        assert!(rows > 10 || top == 10, "{rows}");
    }
}

/// Takes so many bytes and then breaks, and remembers the largest piece that it was given.
struct Pipe {
    left: usize,
    largest: usize,
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.largest = self.largest.max(bytes.len());
        self.left = self.left.checked_sub(bytes.len()).ok_or(io::ErrorKind::BrokenPipe)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Otherwise a report of a small file could fill the memory, and a reader who has seen enough would wait for the rest.
#[test]
fn formats_with_a_part_for_each_stack_are_written_piece_by_piece() {
    let [before, after] = many_stacks(MANY);
    let gate = Gate::from(compare(None, before, after, &["stack=0"]));
    let all = RenderOptions { top: Some(0), ..RenderOptions::default() };
    for format in [Format::Json, Format::Sarif, Format::Gitlab, Format::Csv] {
        let mut whole = Pipe { left: usize::MAX, largest: 0 };
        format.write(&gate, &all, &mut whole).unwrap();
        let length = usize::MAX - whole.left;
        assert!(length > 100_000 && whole.largest < 32 << 10, "{format}: {length} in pieces up to {}", whole.largest);
        let broken = format.write(&gate, &all, &mut Pipe { left: 50_000, largest: 0 });
        assert_eq!(broken.unwrap_err().kind(), io::ErrorKind::BrokenPipe, "{format}");
    }
}
