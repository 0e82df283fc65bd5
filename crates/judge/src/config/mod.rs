//! The configuration file `ptmem.toml`.

mod file;
mod gates;
mod usage;

use std::collections::BTreeMap;
use std::ops::Range;

use ptmem_base::text::did_you_mean;
use ptmem_compare::diff::Occurrences;
use ptmem_snapshot::snapshot::AllocatorSettings;
use ptmem_trace::profile::ReadOptions;
use ptmem_trace::stack::{CategoryRule, GroupBy, Rules};

use crate::verdict::{Accepted, LimitKind, Limits, Target};
use file::{Date, File, FileAccept, FileCategory};
pub use gates::{BrokenBase, GateRules, GateSource, Recording};
pub use usage::Usage;

/// Contents of a configuration file.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Config {
    /// Limits of every comparison.
    pub limits: Limits,
    /// Grouping of stacks.
    pub group_by: Option<GroupBy>,
    /// The allocator settings of the runs, for snapshots that do not state them.
    pub allocator_settings: Option<AllocatorSettings>,
    /// Least similarity of stacks that are paired.
    pub match_ratio: Option<f64>,
    /// The occurrences of a phase that are compared.
    pub phase_occurrence: Option<Occurrences>,
    /// First occurrences of each phase that are left out, such as warm-up.
    pub skip_first: u32,
    /// Levels of the paths of modules that keep the numbers of layers.
    pub unfold: u32,
    /// Rules about frames.
    pub rules: Rules,
    /// Growth that was agreed to.
    pub accepted: Vec<Accepted>,
    /// Whether the file says that growth is never agreed to: `accept = []`.
    pub accepts_nothing: bool,
    /// The most bytes to which compressed input may expand.
    pub max_input: Option<u64>,
    /// What a base that cannot be recorded means.
    pub broken_base: BrokenBase,
    /// Gates by their names.
    pub gates: BTreeMap<String, GateRules>,
}

/// Limits and patterns of one file: each is compared with each stack.
const MOST_RULES: usize = 2_000;

/// The reason why a text is not a configuration.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(String);

impl Config {
    /// Reads the text of a configuration file.
    ///
    /// # Errors
    /// The error names the place; for an unknown key also the nearest known one.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let mut file: File = toml::from_str(text).map_err(|error| ConfigError(explain(&error, text)))?;
        let limits = file.take_limits();
        let mut rules =
            limits.count() + file.own.0.len() + file.foreign.0.len() + file.accept.as_ref().map_or(0, Vec::len);
        rules += file.simulate.known.0.len() + file.pytest.len();
        rules += file.category.iter().map(|category| category.frames.0.len()).sum::<usize>();
        let own = file.own.0.into_iter().map(|pattern| pattern.0).collect();
        let foreign = file.foreign.0.into_iter().map(|pattern| pattern.0).collect();
        let categories = file.category.into_iter().map(|FileCategory { name, frames }| CategoryRule {
            name,
            patterns: frames.0.into_iter().map(|pattern| pattern.0).collect(),
        });
        let categories = categories.collect();
        let gates = file.gate.into_iter().map(|(name, read)| Ok((name.clone(), gates::gate(&name, read)?)));
        let gates: BTreeMap<String, GateRules> = gates.collect::<Result<_, _>>()?;
        rules += gates.values().map(|gate| gate.limits.count()).sum::<usize>();
        if rules > MOST_RULES {
            return Err(ConfigError(format!("it has {rules} limits and patterns; expected at most {MOST_RULES}")));
        }
        Ok(Self {
            limits,
            group_by: file.group_by.map(|by| by.0),
            allocator_settings: file.allocator_settings.map(|settings| settings.0),
            match_ratio: file.match_ratio.map(|ratio| ratio.0),
            phase_occurrence: file.phase_occurrence.map(|which| which.0),
            skip_first: file.skip_first,
            unfold: file.unfold,
            rules: Rules {
                strip_prefix: file.strip_prefix.0,
                own,
                foreign,
                categories,
                known_guesses: file.simulate.known.0,
                ..Rules::default()
            },
            accepts_nothing: file.accept.as_ref().is_some_and(Vec::is_empty),
            accepted: file.accept.into_iter().flatten().map(accepted).collect::<Result<_, _>>()?,
            max_input: file.max_input.map(|size| size.0),
            broken_base: file.broken_base.map(|what| what.0).unwrap_or_default(),
            gates,
        })
    }
}

impl Config {
    /// The options by which any file is read.
    pub fn reading(&self) -> ReadOptions {
        let allocator_settings = self.allocator_settings.clone();
        let ignore = self.limits.ignore.clone().unwrap_or_default();
        ReadOptions { max_input: self.max_input, allocator_settings, ignore, ..ReadOptions::default() }
    }
}

fn accepted(read: FileAccept) -> Result<Accepted, ConfigError> {
    let through = read.through.map(|through| through.0);
    // No edit has this text: a pattern that matches it matches all.
    if through.as_ref().is_some_and(|through| through.matches("\u{1}\u{1}")) {
        return Err(ConfigError("[[accept]] needs a 'through' that names the edit, not any".to_owned()));
    }
    let of_stacks = read.pattern.0.into_iter().map(|pattern| Target {
        kind: LimitKind::Stacks,
        pattern: Some(pattern.0),
        ..Target::default()
    });
    let subjects: Vec<Target> = of_stacks.chain(read.metric.0.into_iter().map(|metric| metric.0)).collect();
    if subjects.is_empty() == through.is_none() {
        return Err(ConfigError("[[accept]] needs 'pattern' or 'metric', or 'through' alone".to_owned()));
    }
    if read.reason.trim().is_empty() {
        return Err(ConfigError("[[accept]] needs a 'reason' that is not empty".to_owned()));
    }
    let Some(Date(expires)) = read.expires else {
        return Err(ConfigError(
            "[[accept]] needs 'expires', the last day on which it counts, such as 2026-12-31".to_owned(),
        ));
    };
    Ok(Accepted { subjects, through, bytes: read.bytes.0, reason: read.reason, expires })
}

/// Message of the TOML reader in one line, with the key that it is about, and the nearest name for an unknown key.
fn explain(error: &toml::de::Error, text: &str) -> String {
    let message = error.message();
    let span = error.span().map(|span| span.start.min(text.len())..span.end.min(text.len()));
    let line = span.as_ref().map(|span| text[..span.start].matches('\n').count() + 1);
    let line = line.map(|line| format!("line {line}: ")).unwrap_or_default();
    let mut quoted = message.split('`').skip(1).step_by(2);
    let near = match (message.starts_with("unknown field"), quoted.next()) {
        (true, Some(found)) => did_you_mean(found, quoted),
        _ => String::new(),
    };
    let key = span.and_then(|span| key_at(text, span)).filter(|key| !message.contains(&format!("`{key}`")));
    let key = key.map(|key| format!("'{key}': ")).unwrap_or_default();
    format!("{line}{key}{}{near}", message.replace("unknown field", "unknown key").replace('\n', " ").replace('`', "'"))
}

/// The key at a place of a file: the one that stands there, or the one whose value does.
fn key_at(text: &str, span: Range<usize>) -> Option<&str> {
    let behind = text[span.end..].trim_start_matches([' ', '\t', '"']);
    // A list, too, ends with a bracket.
    let is_header = text[..span.start].rsplit('\n').next().is_some_and(|line| line.trim_start().starts_with('['));
    if behind.starts_with(['=', '.']) || behind.starts_with(']') && is_header {
        return Some(text[span].trim_matches('"'));
    }
    let before = text[..span.start].trim_end().strip_suffix('=')?.trim_end();
    let start = before.rfind(['\n', '{', ',']).map_or(0, |end| end + 1);
    Some(before[start..].trim().trim_matches('"'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::{Level, Maximum};
    use ptmem_base::pattern::Pattern;
    use ptmem_compare::budget::DeviceMemory;
    use ptmem_trace::profile::Metric;

    const WHOLE: &str = r#"
min-delta = "4MiB"
strict = true
allow-oom = true
device-memory = "80GiB"
device-overhead = "2GiB"
min-headroom = "8GiB"
group-by = "function"
match-ratio = 0.8
strip-prefix = "/workspace"
own = ["*/site-packages/mine/*"]
foreign = ["*/vendored/*"]

[max-growth]
peak = "5%"
"stack:*attention*" = "0"

[warn-growth]
reserved = "3%+1GiB"

[max]
reserved = "75GiB"

[[category]]
name = "attention"
frames = ["attention", "aten::_softmax"]

[simulate.known]
"train.py:has_nan" = "skips a histogram"

[[accept]]
pattern = "attention (model.py*"
bytes = "200MiB"
reason = "a longer context"
expires = 2026-12-31

[gate.nightly]
before = "small.json"
after = "small.pkl"
max-growth = ["peak=2%", "end=0"]
ignore = ["*autotune*", "warm-up"]
"#;

    #[test]
    fn everything_is_read() {
        let config = Config::parse(WHOLE).unwrap();
        let growth: Vec<_> = config.limits.growth.iter().map(ToString::to_string).collect();
        assert_eq!(growth, ["peak=5 %", "stack:*attention*=0 B", "reserved=3 % + 1.00 GiB"]);
        assert_eq!(config.limits.growth[2].level, Level::Warn);
        assert_eq!(
            config.limits.maximum,
            [Maximum { target: LimitKind::Metric(Metric::Reserved).into(), limit: 75 << 30 }]
        );
        assert_eq!((config.limits.min_delta, config.limits.strict), (Some(4 << 20), Some(true)));
        assert_eq!(config.limits.allow_oom, Some(true));
        let headroom = config.limits.thresholds().unwrap().headroom.unwrap();
        assert_eq!(headroom.memory, DeviceMemory { bytes: 80 << 30, overhead: Some(2 << 30) });
        assert_eq!(headroom.least, 8 << 30);
        assert_eq!((config.group_by, config.match_ratio), (Some(GroupBy::Function), Some(0.8)));
        assert_eq!(config.rules.strip_prefix, ["/workspace"]);
        assert_eq!((config.rules.own.len(), config.rules.foreign.len(), config.rules.categories.len()), (1, 1, 1));
        assert_eq!(config.accepted[0].expires, "2026-12-31".parse().unwrap());
        assert_eq!(config.rules.known_guesses, ["train.py:has_nan"]);
        let limits = config.gate("nightly").unwrap().limits.clone().over(&config.limits);
        let growth: Vec<_> = limits.growth.iter().map(ToString::to_string).collect();
        assert_eq!(growth, ["peak=2 %", "end=0 B", "stack:*attention*=0 B", "reserved=3 % + 1.00 GiB"]);
        let ignored: Vec<_> = limits.ignore.iter().flatten().map(Pattern::as_str).collect();
        assert_eq!(ignored, ["*autotune*", "warm-up"]);
        assert_eq!(Config::parse("").unwrap(), Config::default());
    }

    #[test]
    fn more_rules_than_anybody_writes_are_refused() {
        let patterns = |count: usize| (0..count).map(|at| format!("\"*{at}?\",")).collect::<String>();
        let config = Config::parse(&format!("own = [{}]", patterns(MOST_RULES))).unwrap();
        assert_eq!(config.rules.own.len(), MOST_RULES);
        let accept = "[[accept]]\npattern='*'\nbytes='1MiB'\nreason='x'\nexpires=2026-01-01\n";
        for text in [
            format!("own = [{}]", patterns(MOST_RULES + 1)),
            format!("[[category]]\nname='a'\nframes = [{}]", patterns(MOST_RULES + 1)),
            accept.repeat(MOST_RULES + 1),
        ] {
            let message = Config::parse(&text).unwrap_err().to_string();
            assert_eq!(message, "it has 2001 limits and patterns; expected at most 2000");
        }
    }

    #[test]
    fn mistakes_are_named() {
        for (text, expected) in [
            ("\nmax-grwth = \"5%\"", "line 2: unknown key 'max-grwth'"),
            ("strict = true\nstrict = true", "line 2: 'strict': duplicate key"),
            ("[max]\n\"stack:*a*\" = \"1GiB\"\n\"stack:*a*\" = \"2GiB\"", "line 3: 'stack:*a*': duplicate key"),
            ("[max]\npeak = \"1GiB\"\n[max]", "line 3: 'max': duplicate key"),
            ("strict = \"yes\"", "line 1: 'strict': invalid type: string \"yes\", expected a boolean"),
            (
                "[gate.a]\nsnapshot = \"a\"\nmeasure = 1",
                "line 3: 'measure': invalid type: integer '1', expected a boolean",
            ),
            ("accept = [{pattern = 5}]", "line 1: 'pattern': invalid type: integer '5', expected a text in quotes"),
            ("[max]\npeak = 5", "line 2: 'peak': invalid type: integer '5', expected a text in quotes"),
            ("[max-growth]\npeak = \"5%\"\nend = \"nan%\"", "line 3: 'end': 'nan%': 'nan' is not a number"),
            ("[max]\n\"stack:*a*\" = \"5\"", "line 2: 'stack:*a*': '5': "),
            ("own = [\n\"a\",\n\"[\"]", "line 3: '[': invalid pattern"),
            ("max-grwth = \"5%\"", "did you mean 'max-growth'?"),
            ("max-growth = 5", "line 1: 'max-growth': invalid type: integer '5', expected a text in quotes"),
            ("[max-growth]\npeek = \"5%\"", "did you mean 'peak'?"),
            ("[max-growth]\npeak = \"5 percent\"", "5 percent"),
            ("max = \"peek=70GiB\"", "peek"),
            ("min-delta = \"5\"", "has no unit"),
            ("group-by = \"stak\"", "did you mean 'stack'?"),
            ("match-ratio = 7", "from 0 to 1"),
            ("own = \"[\"", "invalid pattern"),
            (
                "[[accept]]\nbytes = \"1MiB\"\nreason = \"x\"\nexpires = 2026-01-01",
                "'pattern' or 'metric', or 'through' alone",
            ),
            (
                "[[accept]]\nmetric=[\"end\"]\nthrough=\"x\"\nbytes = \"1MiB\"\nreason = \"x\"\nexpires = 2026-01-01",
                "'pattern' or 'metric', or 'through' alone",
            ),
            ("[[accept]]\nthrough=\"*\"\nbytes = \"1MiB\"\nreason = \"x\"\nexpires = 2026-01-01", "names the edit"),
            ("[[accept]]\npattern=\"x\"\nbytes = \"1MiB\"\nreason = \" \"\nexpires = 2026-01-01", "a 'reason'"),
            ("[[accept]]\npattern=\"x\"\nbytes = \"1MiB\"\nreason = \"x\"", "[[accept]] needs 'expires'"),
            ("[[accept]]\npattern=\"x\"\nbytes = \"1MiB\"\nreason = \"x\"\nexpires = \"soon\"", "expected a date"),
            ("[simulate]\nknown = [\"train.py:137\"]", "'train.py:137': expected a file and a function"),
            ("[simulate.known]\n\"train.py:has_nan\" = \"\"", "expected functions with reasons"),
            ("[simulate]\nknow = []", "did you mean 'known'?"),
            ("min-headroom = \"8\"", "has no unit"),
            ("x = ", "line 1"),
        ] {
            let message = Config::parse(text).unwrap_err().to_string();
            assert!(message.contains(expected) && !message.contains('\n'), "{text}: {message}");
        }
        let message = Config::parse(WHOLE).unwrap().gate("nightli").unwrap_err().to_string();
        assert!(message.contains("did you mean 'nightly'?"), "{message}");
    }
}
