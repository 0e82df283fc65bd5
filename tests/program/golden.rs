//! Command lines with their whole output. `TRYCMD=overwrite cargo test --test program golden` rewrites the files.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::tool::program;

#[test]
fn command_lines_print_what_is_written() {
    cases().case("tests/cmd/*.md");
}

/// The examples in the documentation show exit codes as a shell does, by `echo $?`; trycmd writes `? 1`. So it runs
/// copies of the pages, and rewritten copies go back to their pages.
#[test]
fn examples_in_the_documentation_print_what_is_written() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pages");
    fs::create_dir_all(&folder).unwrap();
    let mut copies = Vec::new();
    for page in pages() {
        let name = page.strip_prefix(env!("CARGO_MANIFEST_DIR")).unwrap().display().to_string();
        let copy = folder.join(name.replace(['/', '\\'], "-"));
        let text = fs::read_to_string(&page).unwrap();
        fs::write(&copy, for_trycmd(&text)).unwrap();
        copies.push((page, text, copy));
    }
    let cases = cases();
    for (_, _, copy) in &copies {
        cases.case(copy);
    }
    cases.run();
    for (page, text, copy) in copies {
        let run = for_readers(&fs::read_to_string(copy).unwrap());
        if run != text {
            fs::write(page, run).unwrap();
        }
    }
}

/// README.md, docs/*.md, the page of `ptmem simulate` and the skill for agents.
fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let docs = fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let mut pages: Vec<_> = docs.filter(|path| path.extension().is_some_and(|ending| ending == "md")).collect();
    pages.push(root.join("README.md"));
    pages.push(root.join("crates/simulate/README.md"));
    pages.push(root.join("python/ptmem_gate/SKILL.md"));
    pages.sort();
    pages
}

fn cases() -> trycmd::TestCases {
    let cases = trycmd::TestCases::new();
    // Variables of the surroundings must not change the output.
    cases
        .register_bin("ptmem", program())
        .env("COLUMNS", "100")
        .env("NO_COLOR", "1")
        .env("TERM", "dumb")
        .env("LC_ALL", "C.UTF-8")
        .env("PTMEM_TODAY", "2026-11-21")
        .env("GITHUB_RUN_ID", "")
        .insert_var("[VERSION]", env!("CARGO_PKG_VERSION"))
        .expect("a variable of that name");
    cases
}

const ECHO: &str = "$ echo $?";

/// Moves each exit code from behind the output, where `echo $?` prints it, to behind its command, where trycmd wants
/// it.
fn for_trycmd(text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut command = None;
    let mut input = text.lines();
    while let Some(line) = input.next() {
        if line == ECHO {
            let code = input.next().expect("an exit code behind echo $?");
            lines.insert(command.expect("a command before echo $?") + 1, format!("? {code}"));
            continue;
        }
        if line.starts_with("$ ") {
            command = Some(lines.len());
        }
        lines.push(line.to_owned());
    }
    lines.join("\n") + "\n"
}

/// Moves each exit code back.
fn for_readers(text: &str) -> String {
    let mut lines: Vec<&str> = Vec::new();
    let mut exit_code = None;
    let mut in_console = false;
    for line in text.lines() {
        if in_console && (line == "```" || line.starts_with("$ ")) {
            if let Some(exit_code) = exit_code.take() {
                lines.extend([ECHO, exit_code]);
            }
            in_console = line != "```";
        } else if line == "```console" {
            in_console = true;
        } else if let (true, Some(code)) = (in_console, line.strip_prefix("? ")) {
            exit_code = Some(code);
            continue;
        }
        lines.push(line);
    }
    lines.join("\n") + "\n"
}

#[test]
fn links_in_the_documentation_lead_to_files() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let others = ["CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "fixtures/README.md"].map(|name| root.join(name));
    for page in pages().into_iter().chain(others) {
        let text = fs::read_to_string(&page).unwrap();
        for event in pulldown_cmark::Parser::new(&text) {
            use pulldown_cmark::{Event, Tag};
            let (Event::Start(Tag::Link { dest_url: to, .. }) | Event::Start(Tag::Image { dest_url: to, .. })) = event
            else {
                continue;
            };
            let file = to.split('#').next().unwrap();
            let there = file.is_empty() || file.contains("://") || page.parent().unwrap().join(file).exists();
            assert!(there, "{} links to {to}, which does not exist", page.display());
        }
    }
}

#[test]
fn exit_codes_move_to_their_command_and_back() {
    let page = "Text.\n\n```console\n$ ptmem a\nFAIL\n\n$ echo $?\n1\n$ ptmem b\nOK\n\n```\n\n? 1 in a text.\n";
    let case = "Text.\n\n```console\n$ ptmem a\n? 1\nFAIL\n\n$ ptmem b\nOK\n\n```\n\n? 1 in a text.\n";
    assert_eq!(for_trycmd(page), case);
    assert_eq!(for_readers(case), page);
}
