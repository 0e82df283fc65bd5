//! The configuration file `ptmem.toml`.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, SeqAccess, Visitor};

use super::accepted::{Accepted, Day, Subject};
use super::threshold::{Growth, Level, Limits, Maximum, Target};
use crate::diff::Occurrences;
use crate::pattern::Pattern;
use crate::stack::{CategoryRule, GroupBy, Rules};
use crate::text::did_you_mean;
use crate::units::parse_size;

/// What a configuration file says.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Config {
    /// Limits of every comparison.
    pub limits: Limits,
    /// What counts as one stack.
    pub group_by: Option<GroupBy>,
    /// How similar stacks must be to be paired.
    pub match_ratio: Option<f64>,
    /// Which occurrences of a phase are compared.
    pub phase_occurrence: Option<Occurrences>,
    /// Rules about frames.
    pub rules: Rules,
    /// Growth that was agreed to.
    pub accepted: Vec<Accepted>,
    /// Suites by their names.
    pub suites: BTreeMap<String, Suite>,
}

/// Comparisons with one verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suite {
    /// Limits of its comparisons.
    pub limits: Limits,
    /// The comparisons.
    pub pairs: Vec<Pair>,
}

/// One comparison of a suite.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair {
    /// What it is called.
    pub name: String,
    /// Path of the before, from the working directory.
    pub before: String,
    /// Path of the after.
    pub after: String,
    /// Limits of its own.
    pub limits: Limits,
}

/// Why a text is no configuration.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    message: String,
}

impl Config {
    /// Reads the text of a configuration file.
    ///
    /// # Errors
    /// Says where it is wrong; of an unknown key, which known one is nearest.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let file: File = toml::from_str(text).map_err(|error| Error { message: explain(&error, text) })?;
        let wrong = |message: String| Error { message };
        let rules = Rules {
            strip_prefix: file.strip_prefix.0,
            own: file.own.0.into_iter().map(|pattern| pattern.0).collect(),
            foreign: file.foreign.0.into_iter().map(|pattern| pattern.0).collect(),
            categories: file
                .category
                .into_iter()
                .map(|rule| CategoryRule {
                    name: rule.name,
                    patterns: rule.frames.0.into_iter().map(|pattern| pattern.0).collect(),
                })
                .collect(),
        };
        let mut accepted = Vec::new();
        for accept in file.accept {
            let subject = match (accept.pattern, accept.metric) {
                (Some(pattern), None) => Subject::Stacks(pattern.0),
                (None, Some(metric)) => metric.0,
                _ => return Err(wrong("[[accept]] needs either 'pattern' or 'metric'".to_owned())),
            };
            if accept.reason.trim().is_empty() {
                return Err(wrong("[[accept]] needs a 'reason' that says something".to_owned()));
            }
            let Some(Date(expires)) = accept.expires else {
                return Err(wrong(
                    "[[accept]] needs 'expires', the last day on which it counts, such as 2026-12-31".to_owned(),
                ));
            };
            let (bytes, reason) = (accept.bytes.0, accept.reason);
            accepted.push(Accepted { subject, bytes, reason, expires });
        }
        let mut suites = BTreeMap::new();
        for (name, suite) in file.suite {
            if suite.compare.is_empty() {
                return Err(wrong(format!("the suite '{name}' compares nothing; add [[suite.{name}.compare]]")));
            }
            let mut pairs: Vec<Pair> = Vec::new();
            for pair in suite.compare {
                let limits = limits(pair.max_growth, pair.warn_growth, pair.max, pair.min_delta, pair.strict);
                if pair.name.is_empty() {
                    return Err(wrong(format!("the suite '{name}' has a comparison without a 'name'")));
                }
                if pairs.iter().any(|other| other.name == pair.name) {
                    return Err(wrong(format!("the suite '{name}' has two comparisons named '{}'", pair.name)));
                }
                pairs.push(Pair { name: pair.name, before: pair.before, after: pair.after, limits });
            }
            let limits = limits(suite.max_growth, suite.warn_growth, suite.max, suite.min_delta, suite.strict);
            suites.insert(name, Suite { limits, pairs });
        }
        Ok(Self {
            limits: limits(file.max_growth, file.warn_growth, file.max, file.min_delta, file.strict),
            group_by: file.group_by.map(|by| by.0),
            match_ratio: file.match_ratio.map(|ratio| ratio.0),
            phase_occurrence: file.phase_occurrence.map(|which| which.0),
            rules,
            accepted,
            suites,
        })
    }

    /// The suite of a name.
    ///
    /// # Errors
    /// Where there is none: says which there are.
    pub fn suite(&self, name: &str) -> Result<&Suite, Error> {
        self.suites.get(name).ok_or_else(|| {
            let names: Vec<_> = self.suites.keys().map(String::as_str).collect();
            let known =
                if names.is_empty() { "it has none".to_owned() } else { format!("it has {}", names.join(", ")) };
            let near = did_you_mean(name, names.iter().copied());
            Error { message: format!("the configuration has no suite '{name}': {known}{near}") }
        })
    }
}

fn limits(
    max_growth: Growths<true>,
    warn_growth: Growths<false>,
    max: Maxima,
    min_delta: Option<Size>,
    strict: Option<bool>,
) -> Limits {
    let growth = max_growth.0.into_iter().chain(warn_growth.0).collect();
    Limits { growth, maximum: max.0, min_delta: min_delta.map(|size| size.0), strict }
}

/// What the reader of TOML says, in one line, with the nearest name of an unknown key.
fn explain(error: &toml::de::Error, text: &str) -> String {
    let message = error.message();
    let line = error.span().map(|span| text[..span.start.min(text.len())].matches('\n').count() + 1);
    let line = line.map(|line| format!("line {line}: ")).unwrap_or_default();
    let mut quoted = message.split('`').skip(1).step_by(2);
    let near = match (message.starts_with("unknown field"), quoted.next()) {
        (true, Some(found)) => did_you_mean(found, quoted),
        _ => String::new(),
    };
    format!("{line}{}{near}", message.replace("unknown field", "unknown key").replace('\n', " ").replace('`', "'"))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct File {
    #[serde(default)]
    max_growth: Growths<true>,
    #[serde(default)]
    warn_growth: Growths<false>,
    #[serde(default)]
    max: Maxima,
    min_delta: Option<Size>,
    strict: Option<bool>,
    group_by: Option<By>,
    match_ratio: Option<Ratio>,
    phase_occurrence: Option<Which>,
    #[serde(default)]
    strip_prefix: OneOrMore<String>,
    #[serde(default)]
    own: OneOrMore<Search>,
    #[serde(default)]
    foreign: OneOrMore<Search>,
    #[serde(default)]
    category: Vec<FileCategory>,
    #[serde(default)]
    accept: Vec<FileAccept>,
    #[serde(default)]
    suite: BTreeMap<String, FileSuite>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct FileCategory {
    name: String,
    frames: OneOrMore<Search>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct FileAccept {
    pattern: Option<Search>,
    metric: Option<MetricName>,
    bytes: Size,
    reason: String,
    expires: Option<Date>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct FileSuite {
    #[serde(default)]
    max_growth: Growths<true>,
    #[serde(default)]
    warn_growth: Growths<false>,
    #[serde(default)]
    max: Maxima,
    min_delta: Option<Size>,
    strict: Option<bool>,
    #[serde(default)]
    compare: Vec<FilePair>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct FilePair {
    name: String,
    before: String,
    after: String,
    #[serde(default)]
    max_growth: Growths<true>,
    #[serde(default)]
    warn_growth: Growths<false>,
    #[serde(default)]
    max: Maxima,
    min_delta: Option<Size>,
    strict: Option<bool>,
}

/// Values that are read from a text.
macro_rules! from_text {
    ($name:ident($inner:ty), $parse:expr) => {
        #[derive(Deserialize)]
        #[serde(try_from = "String")]
        struct $name($inner);

        impl TryFrom<String> for $name {
            type Error = String;

            fn try_from(text: String) -> Result<Self, String> {
                let parse: fn(&str) -> Result<$inner, String> = $parse;
                parse(&text).map(Self)
            }
        }
    };
}

from_text!(Size(u64), |text| parse_size(text).map_err(|error| error.to_string()));

from_text!(Search(Pattern), |text| Pattern::search(text).map_err(|error| error.to_string()));
from_text!(MetricName(Subject), |text| match text.parse() {
    Ok(Target::Metric(metric)) => Ok(Subject::Metric(metric)),
    Ok(Target::Phase(pattern)) => Ok(Subject::Phases(pattern)),
    Ok(Target::Imbalance) => Err("imbalance is no figure of one rank; accept what grew on its ranks".to_owned()),
    Ok(Target::Stack(_)) => Err("expected the name of a figure; stacks are named by 'pattern'".to_owned()),
    Err(error) => Err(error.to_string()),
});
from_text!(Which(Occurrences), |text| match text {
    "each" => Ok(Occurrences::Each),
    "max" => Ok(Occurrences::Worst),
    _ => Err(format!("unknown value '{text}'; accepted are each, max")),
});
from_text!(By(GroupBy), |text| {
    let names = || GroupBy::ALL.iter().map(|by| by.name());
    GroupBy::ALL.into_iter().find(|by| by.name() == text).ok_or_else(|| {
        let known: Vec<_> = names().collect();
        format!("unknown grouping '{text}'; accepted are {}{}", known.join(", "), did_you_mean(text, names()))
    })
});

struct Ratio(f64);

impl<'de> Deserialize<'de> for Ratio {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let ratio = f64::deserialize(deserializer)?;
        if !(0.0..=1.0).contains(&ratio) {
            return Err(de::Error::custom("expected a number from 0 to 1, such as 0.75"));
        }
        Ok(Self(ratio))
    }
}

/// A date, as TOML writes it or as a text.
struct Date(Day);

impl<'de> Deserialize<'de> for Date {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Date(toml::value::Datetime),
            Text(String),
        }
        let expected = "expected a date such as 2026-12-31";
        let written = Written::deserialize(deserializer).map_err(|_| de::Error::custom(expected))?;
        let text = match written {
            Written::Date(date) => date.to_string(),
            Written::Text(text) => text,
        };
        text.parse().map(Self).map_err(|()| de::Error::custom(expected))
    }
}

/// One value, or a list of them.
struct OneOrMore<T>(Vec<T>);

impl<T> Default for OneOrMore<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OneOrMore<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Items<T>(std::marker::PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Items<T> {
            type Value = Vec<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text or a list of texts")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Vec<T>, E> {
                Ok(vec![T::deserialize(de::value::StrDeserializer::new(text))?])
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = list.next_element()? {
                    items.push(item);
                }
                Ok(items)
            }
        }
        deserializer.deserialize_any(Items(std::marker::PhantomData)).map(Self)
    }
}

/// Limits as a table of metrics, or a text or list of texts as on the command line.
struct LimitsOf<T> {
    expecting: &'static str,
    parse: fn(&str) -> Result<T, String>,
}

impl<'de, T> Visitor<'de> for LimitsOf<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expecting)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Vec<T>, E> {
        Ok(vec![(self.parse)(text).map_err(de::Error::custom)?])
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
        let mut limits = Vec::new();
        while let Some(text) = list.next_element::<String>()? {
            limits.push((self.parse)(&text).map_err(de::Error::custom)?);
        }
        Ok(limits)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut table: A) -> Result<Vec<T>, A::Error> {
        let mut limits = Vec::new();
        while let Some((metric, limit)) = table.next_entry::<String, String>()? {
            let parsed = (self.parse)(&format!("{metric}={limit}"));
            limits.push(parsed.map_err(|error| de::Error::custom(format!("{metric} = \"{limit}\": {error}")))?);
        }
        Ok(limits)
    }
}

/// Limits on growth; exceeding them fails or warns.
#[derive(Default)]
struct Growths<const FAIL: bool>(Vec<Growth>);

impl<'de, const FAIL: bool> Deserialize<'de> for Growths<FAIL> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let parse = |text: &str| {
            let level = if FAIL { Level::Fail } else { Level::Warn };
            Growth::parse(text, level).map_err(|error| error.to_string())
        };
        let expecting = "a limit such as \"5%\", or a table of metrics with their limits";
        deserializer.deserialize_any(LimitsOf { expecting, parse }).map(Self)
    }
}

/// Absolute limits.
#[derive(Default)]
struct Maxima(Vec<Maximum>);

impl<'de> Deserialize<'de> for Maxima {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let parse = |text: &str| text.parse::<Maximum>().map_err(|error| error.to_string());
        let expecting = "a table of metrics with sizes, such as reserved = \"75GiB\"";
        deserializer.deserialize_any(LimitsOf { expecting, parse }).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::super::threshold::Figure;
    use super::*;
    use crate::diff::Metric;

    const WHOLE: &str = r#"
min-delta = "4MiB"
strict = true
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

[[accept]]
pattern = "attention (model.py*"
bytes = "200MiB"
reason = "a longer context"
expires = 2026-12-31

[suite.nightly]
max-growth = "10%"
[[suite.nightly.compare]]
name = "small"
before = "small.json"
after = "small.pkl"
[[suite.nightly.compare]]
name = "large"
before = "large.json"
after = "large.pkl"
max-growth = ["peak=2%", "end=0"]
"#;

    #[test]
    fn everything_is_read() {
        let config = Config::parse(WHOLE).unwrap();
        let growth: Vec<_> = config.limits.growth.iter().map(ToString::to_string).collect();
        assert_eq!(growth, ["peak=5 %", "stack:*attention*=0 B", "reserved=3 % + 1.00 GiB"]);
        assert_eq!(config.limits.growth[2].level, Level::Warn);
        assert_eq!(config.limits.maximum, [Maximum { figure: Figure::Metric(Metric::Reserved), limit: 75 << 30 }]);
        assert_eq!((config.limits.min_delta, config.limits.strict), (Some(4 << 20), Some(true)));
        assert_eq!((config.group_by, config.match_ratio), (Some(GroupBy::Function), Some(0.8)));
        assert_eq!(config.rules.strip_prefix, ["/workspace"]);
        assert_eq!((config.rules.own.len(), config.rules.foreign.len(), config.rules.categories.len()), (1, 1, 1));
        assert_eq!(config.accepted[0].expires, Day::from_date(2026, 12, 31).unwrap());
        let suite = config.suite("nightly").unwrap();
        let limits = |pair: &Pair| {
            let limits = pair.limits.clone().over(&suite.limits).over(&config.limits);
            limits.growth.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(limits(&suite.pairs[0]), ["peak=10 %", "stack:*attention*=0 B", "reserved=3 % + 1.00 GiB"]);
        assert_eq!(
            limits(&suite.pairs[1]),
            ["peak=2 %", "end=0 B", "stack:*attention*=0 B", "reserved=3 % + 1.00 GiB"]
        );
        assert_eq!(Config::parse("").unwrap(), Config::default());
    }

    #[test]
    fn mistakes_are_named() {
        for (text, expected) in [
            ("\nmax-grwth = \"5%\"", "line 2: unknown key 'max-grwth'"),
            ("max-grwth = \"5%\"", "did you mean 'max-growth'?"),
            ("max-growth = 5", "a limit such as \"5%\""),
            ("[max-growth]\npeek = \"5%\"", "did you mean 'peak'?"),
            ("[max-growth]\npeak = \"5 percent\"", "5 percent"),
            ("max = \"70GiB\"", "METRIC=SIZE"),
            ("min-delta = \"5\"", "has no unit"),
            ("group-by = \"stak\"", "did you mean 'stack'?"),
            ("match-ratio = 7", "from 0 to 1"),
            ("own = \"[\"", "is no pattern"),
            ("[[accept]]\nbytes = \"1MiB\"\nreason = \"x\"\nexpires = 2026-01-01", "either 'pattern' or 'metric'"),
            ("[[accept]]\npattern=\"x\"\nbytes = \"1MiB\"\nreason = \" \"\nexpires = 2026-01-01", "a 'reason'"),
            ("[[accept]]\npattern=\"x\"\nbytes = \"1MiB\"\nreason = \"x\"", "[[accept]] needs 'expires'"),
            ("[[accept]]\npattern=\"x\"\nbytes = \"1MiB\"\nreason = \"x\"\nexpires = \"soon\"", "expected a date"),
            ("[suite.a]", "the suite 'a' compares nothing"),
            ("[[suite.a.compare]]\nname=\"x\"\nbefore=\"b\"\nafter=\"c\"\nafer=\"d\"", "did you mean 'after'?"),
            ("x = ", "line 1"),
        ] {
            let message = Config::parse(text).unwrap_err().to_string();
            assert!(message.contains(expected) && !message.contains('\n'), "{text}: {message}");
        }
        let message = Config::parse(WHOLE).unwrap().suite("nightli").unwrap_err().to_string();
        assert!(message.contains("did you mean 'nightly'?"), "{message}");
    }
}
