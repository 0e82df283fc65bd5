//! Options in the documentation: each belongs to the command that it stands beside or that its heading names, or else to any.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory};
use pulldown_cmark::{Event, Parser, Tag, TagEnd};

use super::Arguments;

/// Options of other programs, named without their command line.
const OF_OTHERS: [&str; 7] = [
    "parallelism.pipeline_parallel_degree",
    "parallelism.pipeline_parallel_schedule",
    "pipeline-model-parallel-size",
    "ptmem-gpu",
    "ptmem-simulate",
    "ptmem-update",
    "timing-log-level",
];

/// A heading, and the lines of prose and of code below it.
#[derive(Default)]
struct DocumentedSection {
    heading: String,
    lines: Vec<DocumentedLine>,
}

struct DocumentedLine {
    text: String,
    is_code: bool,
}

fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let docs = fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let pages = docs.filter(|path| path.extension().is_some_and(|ending| ending == "md"));
    pages.chain([root.join("README.md"), root.join("python/ptmem_gate/SKILL.md")]).collect()
}

fn sections(text: &str) -> Vec<DocumentedSection> {
    let mut sections = vec![DocumentedSection::default()];
    let mut within = None;
    for event in Parser::new(&text.replace("\\\n", " ")) {
        let section = sections.last_mut().unwrap();
        let is_code = matches!(event, Event::Code(_)) || within == Some(TagEnd::CodeBlock);
        match event {
            Event::Start(tag @ Tag::CodeBlock(_)) => within = Some(tag.to_end()),
            Event::Start(tag @ Tag::Heading { .. }) => {
                sections.push(DocumentedSection::default());
                within = Some(tag.to_end());
            }
            Event::End(end) if within == Some(end) => within = None,
            Event::Text(text) | Event::Code(text) if matches!(within, Some(TagEnd::Heading(_))) => {
                section.heading.push_str(&text);
            }
            Event::Text(text) | Event::Code(text) => {
                section.lines.extend(text.lines().map(|line| DocumentedLine { text: line.to_owned(), is_code }));
            }
            _ => {}
        }
    }
    sections
}

/// The name of an option that a word consists of or begins with.
fn option(word: &str) -> Option<&str> {
    let name = word.trim_start_matches(['(', '[', '\'']).strip_prefix("--")?;
    let name = name.split(['=', '[']).next()?.trim_end_matches(['.', ',', ';', ':', ')', ']', '\'']);
    (!name.is_empty()).then_some(name)
}

/// The command that a word names behind the word before it: `ptmem diff`, `target/dist/ptmem diff` or `cargo run -- diff`.
fn command<'a>(all: &'a Command, before: &str, word: &str) -> Option<&'a Command> {
    let program = before.trim_start_matches(['(', '\'']).rsplit('/').next();
    let found = all.find_subcommand(word.trim_end_matches(['.', ',', ';', ':', ')', '\'']));
    found.filter(|_| program == Some("ptmem") || before == "--")
}

fn has(command: &Command, option: &str) -> bool {
    let mut arguments = command.get_arguments();
    arguments
        .any(|of| of.get_long() == Some(option) || of.get_visible_aliases().is_some_and(|all| all.contains(&option)))
}

/// The options of a line that the command lacks to which they belong.
fn unknown<'a>(all: &Command, section: &DocumentedSection, line: &'a DocumentedLine) -> Vec<&'a str> {
    let title = section.heading.split([':', ' ']).next().unwrap().to_lowercase();
    let mut of_line = None;
    let mut unknown = Vec::new();
    let mut before = "";
    for word in line.text.split_whitespace() {
        if word == "--" && of_line.is_some() {
            break;
        }
        if let Some(option) = option(word).filter(|option| !OF_OTHERS.contains(option)) {
            // Code may be the command line of another program.
            let is_ours = of_line.is_some() || !line.is_code || line.text.trim_start().starts_with("--");
            let is_known = match all.find_subcommand(before).or(of_line).or(all.find_subcommand(&title)) {
                Some(command) => has(command, option),
                None => all.get_subcommands().chain([all]).any(|command| has(command, option)),
            };
            if !is_known && is_ours {
                unknown.push(option);
            }
        }
        of_line = command(all, before, word).or(of_line);
        before = word;
    }
    unknown
}

#[test]
fn options_in_the_documentation_exist() {
    let mut all = Arguments::command();
    all.build();
    let mut wrong = BTreeSet::new();
    for page in pages() {
        for section in sections(&fs::read_to_string(&page).unwrap()) {
            for line in &section.lines {
                for option in unknown(&all, &section, line) {
                    wrong.insert(format!("{}, {}: --{option} in: {}", page.display(), section.heading, line.text));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn an_option_of_another_command_is_found_wherever_it_stands() {
    let mut all = Arguments::command();
    all.build();
    for (text, expected) in [
        ("# Profile: a stored before\n\nGive `--device`, `--top N` or --keep.\n", vec!["top", "keep"]),
        ("Run `ptmem profile a.pkl --top 3`, or 'ptmem profile --phases'.\n", vec!["top", "phases"]),
        ("As `cargo run -- show --max-growth 5%` and show --max.\n", vec!["max-growth", "max"]),
        ("```sh\ngit commit --message x\nptmem show a \\\n  --git HEAD\n```\n", vec!["git"]),
        ("```sh\nptmem simulate --gpus 2 -- python train.py --lr 1\n```\n", vec![]),
        ("Like `--top 3`, `--tops` and `--strict --maxi 3`.\n", vec!["tops", "maxi"]),
    ] {
        let sections = sections(text);
        let lines = sections.iter().flat_map(|section| section.lines.iter().map(move |line| (section, line)));
        let found: Vec<&str> = lines.flat_map(|(section, line)| unknown(&all, section, line)).collect();
        assert_eq!(found, expected, "{text}");
    }
}
