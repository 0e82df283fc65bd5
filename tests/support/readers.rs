//! Reads reports as those programs do that they are made for, and holds every report of one run against the others.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs, dead_code, unreachable_pub)]

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::OnceLock;

use ptmem::report::{Format, RenderOptions, Report};
use pulldown_cmark::{Event, HeadingLevel, Parser, Tag};
use serde_json::Value;
use uppsala::XsdValidator;

use super::html::check_html;
use super::json_schema::JsonSchema;

/// The reports of one run, by the names of their formats.
pub struct Reports(pub BTreeMap<&'static str, String>);

impl Reports {
    pub fn of(report: &dyn Report, options: &RenderOptions) -> Self {
        Self(
            Format::ALL
                .iter()
                .copied()
                .map(|format| (format.name(), format.render(report, options).unwrap()))
                .collect(),
        )
    }

    pub fn text(&self, format: Format) -> &str {
        &self.0[format.name()]
    }

    /// The JSON, which the other formats are held against.
    pub fn json(&self) -> Value {
        serde_json::from_str(self.text(Format::Json)).unwrap()
    }

    /// Checks every format.
    pub fn check(&self, max_bytes: usize) {
        let json = self.json();
        check_json(&json);
        for format in [Format::Json, Format::Sarif, Format::Gitlab, Format::Junit] {
            require_printable(self.text(format), format.name());
        }
        check_table(self.text(Format::Table));
        check_markdown(self.text(Format::Markdown), max_bytes);
        check_markdown(self.text(Format::Brief), max_bytes);
        check_github(self.text(Format::Github));
        check_gitlab(self.text(Format::Gitlab), &json);
        check_junit(self.text(Format::Junit), &json);
        check_sarif(self.text(Format::Sarif), &json);
        check_csv(self.text(Format::Csv));
        check_github_output(self.text(Format::GithubOutput));
        check_html(self.text(Format::Html));
    }
}

fn read(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

/// The name of a contract with its version. That of saved profiles is the third of its name.
fn versioned(name: &str) -> String {
    match name {
        "diff" | "fit" => format!("{name}-2"),
        "saved" => "profile-3".to_owned(),
        _ => format!("{name}-1"),
    }
}

/// The text of a published schema, such as that of `diff`.
pub fn schema(name: &str) -> Value {
    serde_json::from_str(&read(&format!("docs/schemas/ptmem.{}.schema.json", versioned(name)))).unwrap()
}

/// The same schema for a writer: an object has no other keys than those that are named.
fn closed(schema: &Value) -> Value {
    match schema {
        Value::Object(map) => {
            let mut map: serde_json::Map<_, _> = map.iter().map(|(key, value)| (key.clone(), closed(value))).collect();
            let is_object = map.get("type").is_some_and(|of| of == "object") && map.contains_key("properties");
            if is_object && !map.contains_key("additionalProperties") {
                map.insert("additionalProperties".to_owned(), false.into());
            }
            map.into()
        }
        Value::Array(items) => items.iter().map(closed).collect(),
        other => other.clone(),
    }
}

/// A schema as it is published, and as it binds the writer.
pub struct Contract {
    pub open: JsonSchema,
    pub closed: JsonSchema,
}

/// The contract that an object says it follows.
pub fn contract(json: &Value) -> &'static Contract {
    static ALL: OnceLock<BTreeMap<String, Contract>> = OnceLock::new();
    let all = ALL.get_or_init(|| {
        let contract = |name: &str| {
            let schema = schema(name);
            (
                format!("ptmem.{}", versioned(name).replace('-', "/")),
                Contract { open: JsonSchema::new(&schema), closed: JsonSchema::new(&closed(&schema)) },
            )
        };
        ["profile", "saved", "diff", "suite", "gate", "leak", "ranks", "history", "fit", "settings", "repeat"]
            .map(contract)
            .into()
    });
    &all[json["schema"].as_str().unwrap()]
}

fn require(schema: &JsonSchema, json: &Value, what: &str) {
    assert!(schema.is_valid(json), "{what}: {}", schema.error(json).unwrap_or_default());
}

pub fn check_json(json: &Value) {
    let contract = contract(json);
    require(&contract.open, json, "the schema");
    require(&contract.closed, json, "the schema without further keys");
}

/// Whether a character moves the cursor, turns text around, is seen by nobody, or is none.
pub fn is_control(c: char) -> bool {
    let is_invisible = matches!(
        c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}' | '\u{fdd0}'..='\u{fdef}'
    );
    c.is_control() || is_invisible || u32::from(c) % 0x1_0000 >= 0xfffe
}

pub fn require_printable(text: &str, what: &str) {
    if let Some(at) = text.find(|c| is_control(c) && c != '\n') {
        panic!("{what}: {:?}", text[at..].chars().take(40).collect::<String>());
    }
}

/// Where the placeholder of an escape sequence ends up as one.
pub const ESCAPE: &str = "\u{1b}[7;35;43m";

pub fn check_table(text: &str) {
    assert!(!text.contains(ESCAPE), "{text}");
    // Colours are ours, and taken away where the output is no terminal.
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("\u{1b}[") {
        plain.push_str(before);
        let end = after.find(|c: char| !c.is_ascii_digit() && c != ';').unwrap();
        rest = after[end..].strip_prefix('m').unwrap_or_else(|| panic!("{:?}", &after[..end + 1]));
    }
    plain.push_str(rest);
    require_printable(&plain, "table");
    // In the log of a GitHub job, nothing of it is a command.
    assert!(!plain.contains("##["), "{plain}");
    assert!(!plain.lines().any(|line| line.trim_start().starts_with("::")), "{plain}");
}

/// Replaces a part of a text by spaces, so that what is searched for has to stand in the rest.
fn blank(text: &mut [u8], range: std::ops::Range<usize>) {
    text[range].iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
}

/// Markdown as GitHub reads it: nothing but what a report is made of, whatever the names in it.
pub fn check_markdown(text: &str, max_bytes: usize) {
    assert!(text.len() <= max_bytes, "{} of {max_bytes} bytes", text.len());
    // Two of them are the report's own: one makes a sign an emoji, one keeps a name from being a mention.
    require_printable(&text.replace(['\u{fe0f}', '\u{200b}'], ""), "markdown");
    let marker = text.lines().next().unwrap();
    assert!(marker.starts_with("<!-- ptmem:") && marker.ends_with(" -->"), "{marker}");
    let mut prose = text.as_bytes().to_vec();
    let (mut open, mut titles, mut rows, mut heads, mut cells) = (Vec::new(), 0, 0, 0, 0);
    let (mut in_block, mut words) = (false, String::new());
    use pulldown_cmark::Options as Extensions;
    let extensions = Extensions::ENABLE_TABLES
        | Extensions::ENABLE_FOOTNOTES
        | Extensions::ENABLE_STRIKETHROUGH
        | Extensions::ENABLE_TASKLISTS
        | Extensions::ENABLE_MATH
        | Extensions::ENABLE_GFM;
    for (event, range) in Parser::new_ext(text, extensions).into_offset_iter() {
        let source = &text[range.clone()];
        if !matches!(event, Event::Text(_)) {
            // Once entities are read, an address or a name would become a link.
            let calls = words.match_indices('@').any(|(at, _)| !words[at + 1..].starts_with('\u{200b}'));
            assert!(!calls, "{words}");
            words.clear();
        }
        match event {
            Event::Start(Tag::CodeBlock(_)) => {
                blank(&mut prose, range);
                in_block = true;
                assert!(source.starts_with("```") && source.trim_end().ends_with("```"), "open: {source}");
            }
            Event::End(pulldown_cmark::TagEnd::CodeBlock) => in_block = false,
            Event::Code(_) => blank(&mut prose, range),
            Event::Html(_) | Event::InlineHtml(_) => {
                for (at, _) in source.match_indices('<') {
                    let end = source[at..].find('>').map_or(source.len(), |end| at + end + 1);
                    let tag = &source[at..end];
                    blank(&mut prose, range.start + at..range.start + end);
                    match tag {
                        "<details>" | "<summary>" | "<sub>" | "<code>" => open.push(tag[1..].to_owned()),
                        "</details>" | "</summary>" | "</sub>" | "</code>" => {
                            assert_eq!(open.pop().as_deref(), Some(&tag[2..]), "{text}");
                        }
                        comment => assert!(comment == marker && range.start == 0, "{tag}\nin {text}"),
                    }
                }
            }
            Event::Start(Tag::Heading { level, .. }) => {
                let (first, mark) = match level {
                    HeadingLevel::H3 => (range.start == marker.len() + 1, "### "),
                    HeadingLevel::H4 => (true, "#### "),
                    other => panic!("a heading of level {other}: {source}"),
                };
                assert!(first && source.starts_with(mark), "{source}");
                titles += usize::from(level == HeadingLevel::H3);
            }
            Event::Start(Tag::TableHead) => {
                heads += 1;
                cells = source.matches('|').count();
            }
            Event::Start(Tag::TableRow) => {
                rows += 1;
                assert_eq!(source.matches('|').count(), cells, "{source}");
            }
            Event::Text(part) if !in_block => words.push_str(&part),
            Event::Start(Tag::Paragraph | Tag::Table(_) | Tag::TableCell | Tag::Strong | Tag::HtmlBlock) => {}
            // Facts that belong together.
            Event::Start(Tag::List(None) | Tag::Item) => {}
            // Remarks are quotes that begin with a mark, a name, or a side.
            Event::Start(Tag::BlockQuote(_)) => assert!(source.starts_with("> "), "{source}"),
            Event::Text(_) | Event::End(_) | Event::SoftBreak => {}
            other => panic!("{other:?}: {source}\nin {text}"),
        }
    }
    assert!(open.is_empty(), "not closed: {open:?}");
    assert_eq!(titles, 1, "{text}");
    let prose = String::from_utf8(prose).unwrap();
    let lines = prose.lines().filter(|line| line.starts_with('|')).count();
    assert_eq!(lines, rows + 2 * heads, "a row outside of a table: {prose}");
    for link in ["://", "www."] {
        assert!(!prose.contains(link), "{link} in {prose}");
    }
    let issue = |(at, _): (usize, &str)| prose[at + 1..].starts_with(|c: char| c.is_ascii_digit());
    assert!(!prose.match_indices('#').filter(|(at, _)| !prose[..*at].ends_with('&')).any(issue), "{prose}");
}

/// A workflow command as the runner takes it apart: level, properties and message.
pub fn command(line: &str) -> (&str, BTreeMap<String, String>, String) {
    let data = |text: &str| text.replace("%0A", "\n").replace("%0D", "\r").replace("%25", "%");
    let property = |text: &str| data(&text.replace("%3A", ":").replace("%2C", ","));
    let (head, message) = line.strip_prefix("::").unwrap().split_once("::").unwrap();
    let (level, properties) = head.split_once(' ').unwrap();
    let pairs = properties.split(',').map(|pair| pair.split_once('=').unwrap());
    (level, pairs.map(|(name, value)| (name.to_owned(), property(value))).collect(), data(message))
}

pub fn check_github(text: &str) {
    let mut levels = BTreeMap::from([("error", 0), ("warning", 0), ("notice", 0)]);
    require_printable(text, "github");
    for line in text.lines() {
        let (level, properties, message) = command(line);
        *levels.get_mut(level).unwrap_or_else(|| panic!("{line}")) += 1;
        assert!(!message.is_empty() && !message.contains('\r'), "{line}");
        let names: Vec<_> = properties.keys().map(String::as_str).collect();
        assert!(names == ["title"] || names == ["file", "line", "title"], "{line}");
        let title = &properties["title"];
        assert!(title.starts_with("GPU memory: ") || title.starts_with("ptmem: "), "{line}");
        assert!(properties.get("line").is_none_or(|number| number.parse::<u32>().is_ok()), "{line}");
    }
    assert!(levels.values().all(|&count| count <= 10), "{levels:?}");
}

/// All checks of a report.
fn checks(json: &Value) -> Vec<&Value> {
    match json["comparisons"].as_array() {
        Some(comparisons) => comparisons.iter().flat_map(checks).collect(),
        None => json["checks"].as_array().into_iter().flatten().collect(),
    }
}

/// That of a well-known reader, and a stricter one.
fn xsds() -> &'static [XsdValidator; 2] {
    static XSDS: OnceLock<[XsdValidator; 2]> = OnceLock::new();
    XSDS.get_or_init(|| {
        ["junit-10.xsd", "junit.xsd"].map(|name| {
            let schema = read(&format!("tests/schemas/{name}"));
            XsdValidator::from_schema(&uppsala::parse(&schema).unwrap()).unwrap()
        })
    })
}

/// The errors of a JUnit report.
pub fn junit_errors(text: &str) -> Vec<String> {
    match uppsala::parse(text) {
        Ok(document) => xsds().iter().flat_map(|xsd| xsd.validate(&document)).map(|error| error.to_string()).collect(),
        Err(error) => vec![error.to_string()],
    }
}

pub fn check_junit(text: &str, json: &Value) {
    let errors = junit_errors(text);
    assert!(errors.is_empty(), "{errors:?}\n{text}");
    let checks = checks(json);
    let count =
        |result: &str, level: &str| checks.iter().filter(|c| c["result"] == result && c["level"] == level).count();
    // Warnings that make a result untrustworthy are no check of a limit.
    let untrusted = text.matches("<testcase name=\"trust ").count();
    let (tests, failures) = (checks.len() + untrusted, count("exceeded", "fail"));
    let errors = count("inconclusive", "fail") + untrusted;
    assert!(json["exit_code"] != 3 || errors > 0, "{text}");
    assert_eq!(text.matches("<testcase ").count(), tests);
    assert_eq!(text.matches("<failure ").count(), failures);
    assert_eq!(text.matches("<error ").count(), errors);
    let totals = format!("<testsuites name=\"ptmem\" tests=\"{tests}\" failures=\"{failures}\" errors=\"{errors}\">");
    assert!(text.contains(&totals), "{totals}");
}

pub fn check_gitlab(text: &str, json: &Value) {
    static SCHEMA: OnceLock<JsonSchema> = OnceLock::new();
    let schema = SCHEMA.get_or_init(|| {
        JsonSchema::new(&serde_json::from_str(&read("tests/schemas/gitlab-code-quality.schema.json")).unwrap())
    });
    let issues: Value = serde_json::from_str(text).unwrap();
    require(schema, &issues, "the Code Quality report");
    let issues = issues.as_array().unwrap();
    let bad = checks(json).into_iter().filter(|check| check["result"] != "pass").count();
    let untrusted = issues.iter().filter(|issue| issue["check_name"] == "ptmem/trust").count();
    assert_eq!(issues.len(), (bad + untrusted).min(5000));
    assert!(json["exit_code"] != 3 || !issues.is_empty(), "{text}");
    let fingerprints: HashSet<_> = issues.iter().map(|issue| issue["fingerprint"].as_str().unwrap()).collect();
    assert_eq!(fingerprints.len(), issues.len(), "{text}");
    for issue in issues {
        require_printable(issue["description"].as_str().unwrap(), "a description");
        require_printable(issue["location"]["path"].as_str().unwrap(), "a path");
    }
}

pub fn check_sarif(text: &str, json: &Value) {
    static SCHEMA: OnceLock<JsonSchema> = OnceLock::new();
    let schema = SCHEMA.get_or_init(|| {
        let mut schema: Value = serde_json::from_str(&read("tests/schemas/sarif-2.1.0.schema.json")).unwrap();
        // As published, this pattern is no regular expression of the standard. No report names its language.
        for owner in ["run", "toolComponent"] {
            schema["definitions"][owner]["properties"]["language"].as_object_mut().unwrap().remove("pattern").unwrap();
        }
        JsonSchema::new(&schema)
    });
    let log: Value = serde_json::from_str(text).unwrap();
    require(schema, &log, "SARIF");
    let run = &log["runs"][0];
    let rules: Vec<_> = run["tool"]["driver"]["rules"].as_array().unwrap().iter().map(|rule| &rule["id"]).collect();
    let results = run["results"].as_array().unwrap();
    let bad = checks(json).into_iter().filter(|check| check["result"] != "pass").count();
    let untrusted = results.iter().filter(|result| result["ruleId"] == "trust").count();
    assert_eq!(results.len(), (bad + untrusted).min(5000));
    assert!(json["exit_code"] != 3 || !results.is_empty(), "{text}");
    let prints = results.iter().map(|result| result["partialFingerprints"]["ptmem/v1"].as_str().unwrap());
    assert_eq!(prints.collect::<HashSet<_>>().len(), results.len(), "{text}");
    for result in results {
        assert!(rules.contains(&&result["ruleId"]), "{result}");
        assert!(result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"].is_string(), "{result}");
    }
}

/// Neither an unprintable field nor a formula.
pub fn require_cell(field: &str) {
    require_printable(field, "csv");
    assert!(!field.starts_with(['=', '+', '-', '@']) || field.parse::<f64>().is_ok(), "{field}");
}

/// Rows of as many cells as there are columns, behind the names of their places.
pub fn check_csv(text: &str) {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let header = reader.headers().unwrap().clone();
    assert_eq!(header.iter().take(3).collect::<Vec<_>>(), ["group", "section", "table"]);
    for record in reader.records() {
        let record = record.unwrap();
        assert_eq!(record.len(), header.len());
        record.iter().for_each(require_cell);
    }
}

pub fn check_github_output(text: &str) {
    let names: Vec<_> = text.lines().map(|line| line.split_once('=').unwrap().0).collect();
    assert_eq!(
        names,
        ["verdict", "exit-code", "peak-before", "peak-after", "delta", "percent", "changed", "announce", "approved"]
    );
    require_printable(text, "github-output");
}
