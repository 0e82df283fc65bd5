//! The JSON Schema of ptmem.toml knows what its reader knows, and refuses what it refuses.

use std::collections::BTreeSet;
use std::path::Path;

use ptmem::config::Config;
use ptmem::profile::Metric;
use ptmem::stack::GroupBy;
use ptmem::verdict::{GrowthLimit, Maximum};
use serde_json::{Value as Json, json};

use crate::support::json_schema::JsonSchema;

fn text(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

fn schema() -> Json {
    serde_json::from_str(&text("docs/schemas/ptmem.toml.schema.json")).unwrap()
}

/// A table of TOML as editors hold it against the schema: a date is a text.
fn as_json(value: toml::Value) -> Json {
    match value {
        toml::Value::String(text) => text.into(),
        toml::Value::Integer(number) => number.into(),
        toml::Value::Float(number) => number.into(),
        toml::Value::Boolean(flag) => flag.into(),
        toml::Value::Datetime(date) => date.to_string().into(),
        toml::Value::Array(items) => items.into_iter().map(as_json).collect(),
        toml::Value::Table(table) => table.into_iter().map(|(key, value)| (key, as_json(value))).collect(),
    }
}

fn is_valid(schema: &JsonSchema, toml: &str) -> bool {
    schema.is_valid(&as_json(toml::Value::Table(toml.parse().unwrap())))
}

/// The keys that the reader knows where `toml` has the unknown key `nothing`.
fn known_keys(toml: &str) -> BTreeSet<String> {
    let message = Config::parse(toml).unwrap_err().to_string();
    let (_, known) = message.split_once("expected").unwrap_or_else(|| panic!("{message}"));
    known.split('\'').skip(1).step_by(2).map(str::to_owned).collect()
}

fn keys(schema: &Json, place: &str) -> BTreeSet<String> {
    schema.pointer(place).unwrap_or_else(|| panic!("{place}")).as_object().unwrap().keys().cloned().collect()
}

#[test]
fn the_schema_has_the_keys_of_the_reader() {
    let schema = schema();
    for (toml, place) in [
        ("nothing = 1", ""),
        ("[[category]]\nnothing = 1", "/properties/category/items"),
        ("[[accept]]\nnothing = 1", "/properties/accept/items"),
        ("[[pytest]]\nnothing = 1", "/properties/pytest/items"),
        ("[gate.x]\nnothing = 1", "/properties/gate/additionalProperties"),
    ] {
        let known = known_keys(toml);
        assert!(known.len() > 1, "{toml}: {known:?}");
        assert_eq!(keys(&schema, &format!("{place}/properties")), known, "{place}");
        assert_eq!(schema.pointer(place).unwrap()["additionalProperties"], json!(false), "{place}");
    }
}

#[test]
fn the_schema_has_the_names_of_the_reader() {
    let published = schema();
    let schema = JsonSchema::new(&published);
    let groupings: Vec<_> = GroupBy::ALL.iter().map(|by| by.name()).collect();
    assert_eq!(published["$defs"]["group_by"]["enum"], json!(groupings));
    for metric in Metric::ALL {
        for toml in [
            format!("max-growth.{metric} = \"5%\"", metric = metric.name()),
            format!("max.{metric} = \"1GiB\"", metric = metric.name()),
            format!(
                "accept = [{{ metric = \"{}\", bytes = \"1MiB\", reason = \"x\", expires = 2026-12-31 }}]",
                metric.name()
            ),
        ] {
            Config::parse(&toml).unwrap();
            assert!(is_valid(&schema, &toml), "{toml}");
        }
    }
}

/// The blocks of TOML in a page.
fn blocks(page: &str) -> Vec<String> {
    let blocks = page.split("```toml\n").skip(1);
    blocks.map(|block| block.split("```").next().unwrap().to_owned()).collect()
}

#[test]
fn examples_follow_the_schema() {
    let schema = JsonSchema::new(&schema());
    let mut examples = 0;
    for page in ["README.md", "docs/configuration.md", "docs/python.md", "docs/reference.md", "docs/ranks.md"] {
        for block in blocks(&text(page)) {
            Config::parse(&block).unwrap_or_else(|error| panic!("{page}: {error}\n{block}"));
            assert!(is_valid(&schema, &block), "{page}:\n{block}");
            examples += 1;
        }
    }
    assert!(examples >= 4, "{examples}");
    for good in [
        "",
        "max-growth = \"5%\"",
        "max-growth = [\"5%\", \"end=0\"]\nwarn-growth = { \"stack:*a*\" = \"5%+1.5GiB\", imbalance = \"0\" }",
        "max = \"70GiB\"",
        "min-delta = \".5GB\"\ndevice-memory = \"0.001 PiB\"\nmax-input = \"1.eib\"",
        "max-growth = { peak = \"±5%\", \"phase-reserved:load\" = \" +- 5% + 1MiB\" }\nignore = [\"*autotune*\", \"warm-up\"]",
        "[gate.a]\nsnapshot = \"a\"\nignore = \"warm-up\"",
        "max = { peak = \"70 GB\", imbalance = \"1.5gib\" }\nmin-delta = \"0\"",
        "strip-prefix = [\"/a\", \"/b\"]\nown = \"*/x/*\"\nmatch-ratio = 1",
        "[simulate]\nknown = [\"train.py:has_nan\"]",
        "[gate.a]\nrecord = \"x\"\ninstall = \"y\"\npython = \"3.9\"\nmeasure = true\nmax-growth = \"2%\"",
        "accept = []\nmax-input = \"64GiB\"\n[[pytest]]\ntests = [\"a.py::*\", \"b\"]\nmax-leak = \"1MiB\"\nmax = \"1GiB\"",
        "[gate.a]\nleak = [\"x/*.pkl\", \"y\"]",
        "[gate.a]\nbefore = \"x\"\nafter = \"y\"\nstrict = true",
        "accept = [{ metric = \"phase:f*\", bytes = \"1B\", reason = \"r\", expires = \"2026-12-31\" }]",
    ] {
        Config::parse(good).unwrap_or_else(|error| panic!("{good}: {error}"));
        assert!(is_valid(&schema, good), "{good}");
    }
}

#[test]
fn mistakes_are_refused_by_reader_and_schema() {
    let schema = JsonSchema::new(&schema());
    for bad in [
        "max-grwth = \"5%\"",
        "max-growth = 5",
        "[max-growth]\npeek = \"5%\"",
        "[max-growth]\npeak = \"percent\"",
        "[max]\nstack = 5",
        "max = \"70\"",
        "min-delta = \"5\"",
        "min-delta = 5",
        "strict = \"yes\"",
        "group-by = \"stak\"",
        "phase-occurrence = \"all\"",
        "match-ratio = 7",
        "own = 5",
        "[[category]]\nname = \"x\"",
        "[[accept]]\nbytes = \"1MiB\"\nreason = \"x\"\nexpires = 2026-01-01",
        "[[accept]]\npattern=\"x\"\nthrough=\"f\"\nbytes = \"1MiB\"\nreason = \"x\"\nexpires = 2026-01-01",
        "[[accept]]\npattern=\"x\"\nbytes = \"1MiB\"\nreason = \" \"\nexpires = 2026-01-01",
        "[[accept]]\npattern=\"x\"\nbytes = \"1MiB\"\nreason = \"x\"",
        "[[accept]]\nmetric=\"imbalance\"\nbytes = \"1MiB\"\nreason = \"x\"\nexpires = 2026-01-01",
        "[simulate]\nknown = [\"train.py:137\"]",
        "[simulate.known]\n\"train.py:has_nan\" = \" \"",
        "[gate.a]",
        "[gate.a]\nrecord = \"x\"\nsnapshot = \"y\"",
        "[gate.a]\nbefore = \"x\"",
        "[gate.a]\nsnapshot = \"y\"\nsteps = \"3\"",
        "[gate.a]\nsnapshot = \"y\"\nmax-growth = \"5%\"",
        "[gate.a]\nleak = \"y\"\nmax = \"5GiB\"",
        "[gate.a]\nleak = \"y\"\nmin-delta = \"5MiB\"",
        "[gate.a]\nrecord = \" \"",
        "[gate.a]\nrecord = \"x\"\npython = \"3.9\"",
        "[gate.a]\nrecord = \"x\"\nranks = 0",
        "[gate.a]\nrecord = \"x\"\nbroken-base = \"fine\"",
        "[gate.\"a b\"]\nrecord = \"x\"",
        "[[pytest]]\nmax-growth = 5",
        "max-input = \"64\"",
        "[suite.a]",
    ] {
        assert!(Config::parse(bad).is_err(), "{bad}");
        assert!(!is_valid(&schema, bad), "{bad}");
    }
}

/// Files of schemas that list metrics; `python/generate.py` copies those of the shared one into the others.
const SCHEMAS: [&str; 3] = ["shared.json", "ptmem.ranks-1.schema.json", "ptmem.toml.schema.json"];

/// The metrics of a schema as its lines list them: in patterns, among required keys, and as properties of one kind.
fn with_metrics(schema: &str) -> String {
    let keys = Metric::ALL.map(|metric| format!("\"{}\"", metric.key()));
    let mut lines = schema.lines().peekable();
    let mut text = String::new();
    while let Some(line) = lines.next() {
        let property =
            line.split_once("\"peak\": { \"$ref\"").map(|(indent, rest)| (indent, rest.trim_end_matches(',')));
        let property =
            property.filter(|_| lines.peek().is_some_and(|next| next.trim().starts_with("\"baseline\": { \"$ref\"")));
        if let Some((indent, rest)) = property {
            while lines.next_if(|line| line.trim_end_matches(',').ends_with(rest)).is_some() {}
            let properties = keys.each_ref().map(|key| format!("{indent}{key}: {{ \"$ref\"{rest}"));
            text += &(properties.join(",\n") + "\n");
            continue;
        }
        let listed = with_list(
            line,
            "peak|baseline|end|active|",
            &["|headroom", "|imbalance", "|("],
            &Metric::ALL.map(Metric::name).join("|"),
        );
        text += &(with_list(&listed, "\"peak\", \"baseline\"", &["]"], &keys.join(", ")) + "\n");
    }
    text
}

/// A line with another list from its beginning on, up to what follows it.
fn with_list(line: &str, beginning: &str, ends: &[&str], list: &str) -> String {
    let Some(start) = line.find(beginning) else { return line.to_owned() };
    let end = ends.iter().filter_map(|end| line[start..].find(end)).min().unwrap();
    format!("{}{list}{}", &line[..start], &line[start + end..])
}

/// `TRYCMD=overwrite` adds a metric to them, as it rewrites other expected output.
#[test]
fn the_schemas_list_the_rows_of_all_metrics() {
    for schema in SCHEMAS {
        let path = format!("docs/schemas/{schema}");
        let (found, expected) = (text(&path), with_metrics(&text(&path)));
        if std::env::var_os("TRYCMD").is_some_and(|mode| mode == "overwrite") {
            std::fs::write(Path::new(env!("CARGO_MANIFEST_DIR")).join(&path), &expected).unwrap();
        }
        assert!(found == expected, "{path} lacks a metric: TRYCMD=overwrite cargo test --test library all_metrics");
    }
}

/// The names of metrics in a pattern of a schema, which has some as `(a|b):.+`.
fn named(pattern: &str) -> BTreeSet<String> {
    let (mut names, mut group) = (BTreeSet::new(), false);
    for part in pattern.trim_start_matches("^(").split('|') {
        group |= part.starts_with('(');
        let name = part.trim_start_matches('(').split([':', ')']).next().unwrap();
        let has_glob = group || part.contains(':');
        names.insert(if has_glob { format!("{name}:GLOB") } else { name.to_owned() });
        group &= !part.contains(')');
    }
    names
}

#[test]
fn the_schemas_have_the_names_of_all_metrics() {
    let accepted = |text: String| -> BTreeSet<String> {
        let text = text.replace(" and ", ", ").replace("host:METRIC", "host:GLOB");
        text.split(", ").map(str::to_owned).collect()
    };
    let own = schema();
    let names = |place: &str| named(own.pointer(place).unwrap().as_str().unwrap());
    let growth = accepted(GrowthLimit::accepted());
    assert_eq!(names("/$defs/growing/pattern"), growth);
    assert_eq!(names("/$defs/maxima/anyOf/2/propertyNames/pattern"), accepted(Maximum::accepted()));
    // Reports also say what no limit names.
    let beyond = ["headroom", "oom", "ranks", "growth"].map(str::to_owned);
    let of_reports: BTreeSet<String> = growth.into_iter().chain(beyond).collect();
    for schema in ["diff-2", "profile-1", "ranks-1", "suite-1"] {
        let text = text(&format!("docs/schemas/ptmem.{schema}.schema.json"));
        let mut patterns = text.lines().filter(|line| line.contains("\"pattern\"") && line.contains("fragmentation"));
        let line = patterns.next().unwrap();
        let pattern = line.split('"').nth(3).unwrap();
        assert_eq!(named(pattern), of_reports, "{schema}");
        assert!(patterns.all(|other| other.contains(pattern)), "{schema}");
    }
}
