//! The file `ptmem.toml` as serde reads it.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::mem::take;

use ptmem_base::pattern::Pattern;
use ptmem_base::text::did_you_mean;
use ptmem_base::units::parse_size;
use ptmem_compare::diff::Occurrences;
use ptmem_snapshot::snapshot::AllocatorSettings;
use ptmem_trace::stack::GroupBy;
use serde::Deserialize;
use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use super::gates::BrokenBase;
use crate::verdict::{
    AcceptedBy, Day, GrowthLimit, Level, LimitKind, Limits, Maximum, NamedThing, ParseThresholdError, Target,
};

/// A table that may set limits beside its own keys: serde cannot flatten one struct into another that denies unknown
/// keys.
macro_rules! table_with_limits {
    ($name:ident { $($field:ident: $type:ty),* $(,)? }) => {
        #[derive(Deserialize, Default)]
        #[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
        pub(super) struct $name {
            max_growth: OneOrMore<Fail>,
            warn_growth: OneOrMore<Warn>,
            max: OneOrMore<Most>,
            min_delta: Option<Size>,
            strict: Option<bool>,
            allow_partial: Option<bool>,
            allow_oom: Option<bool>,
            beside_workspaces: Option<bool>,
            device_memory: Option<Size>,
            device_overhead: Option<Size>,
            min_headroom: Option<Size>,
            ignore: Option<OneOrMore<Glob>>,
            $(pub(super) $field: $type,)*
        }

        impl $name {
            /// Takes the limits out of the table.
            pub(super) fn take_limits(&mut self) -> Limits {
                let growth = take(&mut self.max_growth.0).into_iter().map(|limit| limit.0);
                let warn_growth = take(&mut self.warn_growth.0).into_iter().map(|limit| limit.0);
                Limits {
                    growth: growth.chain(warn_growth).collect(),
                    maximum: take(&mut self.max.0).into_iter().map(|limit| limit.0).collect(),
                    min_delta: self.min_delta.as_ref().map(|size| size.0),
                    strict: self.strict,
                    allow_partial: self.allow_partial,
                    allow_oom: self.allow_oom,
                    beside_workspaces: self.beside_workspaces,
                    device_memory: self.device_memory.as_ref().map(|size| size.0),
                    device_overhead: self.device_overhead.as_ref().map(|size| size.0),
                    min_headroom: self.min_headroom.as_ref().map(|size| size.0),
                    ignore: self.ignore.take().map(|all| all.0.into_iter().map(|glob| glob.0).collect()),
                }
            }
        }
    };
}

table_with_limits!(File {
    group_by: Option<By>,
    allocator_settings: Option<Settings>,
    match_ratio: Option<Ratio>,
    phase_occurrence: Option<Which>,
    skip_first: u32,
    unfold: u32,
    strip_prefix: OneOrMore<String>,
    own: OneOrMore<Search>,
    foreign: OneOrMore<Search>,
    category: Vec<FileCategory>,
    accept: Option<Vec<FileAccept>>,
    max_input: Option<Size>,
    simulate: FileSimulate,
    broken_base: Option<Broken>,
    gate: BTreeMap<String, FileGate>,
    pytest: Vec<FileTests>,
});

table_with_limits!(FileGate {
    record: Option<String>,
    install: Option<String>,
    steps: Option<String>,
    gpu: Option<String>,
    compute: Option<String>,
    python: Option<String>,
    directory: Option<String>,
    ranks: Option<u32>,
    measure: Option<bool>,
    broken_base: Option<Broken>,
    before: Option<String>,
    after: Option<String>,
    snapshot: Option<String>,
    leak: OneOrMore<String>,
});

/// Limits of tests. The plugin of pytest applies them; here they are only checked.
#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct FileTests {
    tests: OneOrMore<String>,
    max_growth: OneOrMore<Fail>,
    max: OneOrMore<Most>,
    max_leak: Option<Size>,
    strict: Option<bool>,
}

#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct FileSimulate {
    pub(super) known: KnownGuesses,
}

/// Functions whose guesses are known: a table of them with the reasons, or a list whose reasons are comments.
#[derive(Deserialize, Default)]
#[serde(try_from = "toml::Value")]
pub(super) struct KnownGuesses(pub(super) Vec<String>);

impl TryFrom<toml::Value> for KnownGuesses {
    type Error = String;

    fn try_from(value: toml::Value) -> Result<Self, String> {
        let marks: Option<Vec<String>> = match value {
            toml::Value::Array(list) => list.iter().map(|mark| mark.as_str().map(str::to_owned)).collect(),
            toml::Value::Table(table) => {
                table.into_iter().map(|(mark, reason)| is_reason(&reason).then_some(mark)).collect()
            }
            _ => None,
        };
        let marks = marks.ok_or("expected functions with reasons: { \"train.py:has_nan\" = \"the reason\" }")?;
        match marks.iter().find(|mark| !names_function(mark)) {
            Some(mark) => Err(format!("'{mark}': expected a file and a function, such as 'train.py:has_nan'")),
            None => Ok(Self(marks)),
        }
    }
}

fn is_reason(value: &toml::Value) -> bool {
    value.as_str().is_some_and(|text| !text.trim().is_empty())
}

/// True for a file and a function, as in `train.py:has_nan`, and not for a line.
fn names_function(mark: &str) -> bool {
    mark.rsplit_once(':').is_some_and(|(_, name)| name.parse::<u64>().is_err() && !name.is_empty())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct FileCategory {
    pub(super) name: String,
    pub(super) frames: OneOrMore<Search>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct FileAccept {
    #[serde(default)]
    pub(super) pattern: OneOrMore<Glob>,
    #[serde(default)]
    pub(super) metric: OneOrMore<MetricName>,
    pub(super) through: Option<Glob>,
    pub(super) bytes: Size,
    pub(super) reason: String,
    pub(super) expires: Option<Date>,
}

/// Values that are read from a text.
macro_rules! from_text {
    ($name:ident($inner:ty), $parse:expr) => {
        #[derive(Deserialize)]
        #[serde(try_from = "String")]
        pub(super) struct $name(pub(super) $inner);

        impl TryFrom<String> for $name {
            type Error = String;

            fn try_from(text: String) -> Result<Self, String> {
                $parse(&text).map(Self).map_err(|error| error.to_string())
            }
        }
    };
}

from_text!(Size(u64), parse_size);
from_text!(Settings(AllocatorSettings), str::parse::<AllocatorSettings>);
from_text!(Glob(Pattern), Pattern::glob);
from_text!(Search(Pattern), Pattern::search_code);
from_text!(MetricName(Target), target);
from_text!(Which(Occurrences), str::parse::<Occurrences>);
from_text!(By(GroupBy), grouping);
from_text!(Broken(BrokenBase), broken_base);
from_text!(Fail(GrowthLimit), |text| GrowthLimit::parse(text, Level::Fail));
from_text!(Warn(GrowthLimit), |text| GrowthLimit::parse(text, Level::Warn));
from_text!(Most(Maximum), str::parse::<Maximum>);

fn broken_base(text: &str) -> Result<BrokenBase, String> {
    text.parse().map_err(|_| format!("unknown value '{text}'; accepted are inconclusive and pass"))
}

fn target(text: &str) -> Result<Target, String> {
    let target: Target = text.parse().map_err(|error: ParseThresholdError| error.to_string())?;
    match target.kind.accepted_by() {
        AcceptedBy::Metric => Ok(target),
        AcceptedBy::Name(NamedThing::Stack) => {
            let is_of_host = target.kind == LimitKind::Stacks && target.of_host && target.pattern.is_some();
            let mistake = "expected the name of a figure; stacks are named by 'pattern'";
            is_of_host.then_some(target).ok_or_else(|| mistake.to_owned())
        }
        AcceptedBy::Name(thing) if target.pattern.is_none() => {
            let noun = thing.noun();
            Err(format!("expected the {noun} whose growth is accepted, such as {noun}:forward"))
        }
        AcceptedBy::Name(_) => Ok(target),
        AcceptedBy::Nothing(why) => Err(why.to_owned()),
    }
}

fn grouping(text: &str) -> Result<GroupBy, String> {
    let known: Vec<_> = GroupBy::ALL.iter().map(|by| by.name()).collect();
    GroupBy::ALL.iter().copied().find(|by| by.name() == text).ok_or_else(|| {
        let near = did_you_mean(text, known.iter().copied());
        format!("unknown grouping '{text}'; accepted are {}{near}", known.join(", "))
    })
}

pub(super) struct Ratio(pub(super) f64);

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
pub(super) struct Date(pub(super) Day);

impl<'de> Deserialize<'de> for Date {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = match toml::Value::deserialize(deserializer)? {
            toml::Value::Datetime(date) => date.to_string(),
            value => value.as_str().unwrap_or_default().to_owned(),
        };
        text.parse().map(Self).map_err(|_| de::Error::custom("expected a date such as 2026-12-31"))
    }
}

/// One value that is read from a text, a list of them, or a table: each text as it would be written on the command line.
pub(super) struct OneOrMore<T>(pub(super) Vec<T>);

impl<T> Default for OneOrMore<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: TryFrom<String, Error: fmt::Display>> Deserialize<'de> for OneOrMore<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OneOrMoreVisitor(PhantomData)).map(Self)
    }
}

struct OneOrMoreVisitor<T>(PhantomData<T>);

impl<'de, T: TryFrom<String, Error: fmt::Display>> Visitor<'de> for OneOrMoreVisitor<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text in quotes, such as \"5%\" or \"60GiB\", a list of texts, or a table of texts")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Vec<T>, E> {
        TextSeed { name: None, kind: PhantomData }.visit_str(text).map(|item| vec![item])
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut texts: A) -> Result<Vec<T>, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = texts.next_element_seed(TextSeed { name: None, kind: PhantomData })? {
            items.push(item);
        }
        Ok(items)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut texts: A) -> Result<Vec<T>, A::Error> {
        let mut items = Vec::new();
        while let Some(name) = texts.next_key()? {
            items.push(texts.next_value_seed(TextSeed { name: Some(name), kind: PhantomData })?);
        }
        Ok(items)
    }
}

/// Reads a value from a text, after its name in a table. An error arises here, where the reader of TOML knows the line.
struct TextSeed<T> {
    name: Option<String>,
    kind: PhantomData<T>,
}

impl<'de, T: TryFrom<String, Error: fmt::Display>> DeserializeSeed<'de> for TextSeed<T> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<T: TryFrom<String, Error: fmt::Display>> Visitor<'_> for TextSeed<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text in quotes, such as \"5%\" or \"60GiB\"")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        let named = self.name.map_or_else(|| text.to_owned(), |name| format!("{name}={text}"));
        T::try_from(named).map_err(|error| E::custom(format!("'{text}': {error}")))
    }
}
