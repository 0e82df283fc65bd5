//! The file `ptmem.toml` as serde reads it.

use std::collections::BTreeMap;
use std::fmt;
use std::mem::take;

use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, SeqAccess, Visitor};

use crate::diff::Occurrences;
use crate::pattern::Pattern;
use crate::snapshot::AllocatorSettings;
use crate::stack::GroupBy;
use crate::text::did_you_mean;
use crate::units::parse_size;
use crate::verdict::{Day, Growth, Level, Limits, Maximum, Subject, Target};

/// A table that may set limits beside its own keys: serde cannot flatten one struct into another that denies unknown
/// keys.
macro_rules! table_with_limits {
    ($name:ident { $($(#[$attribute:meta])* $field:ident: $type:ty),* $(,)? }) => {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields, rename_all = "kebab-case")]
        pub(super) struct $name {
            #[serde(default)]
            max_growth: Growths<true>,
            #[serde(default)]
            warn_growth: Growths<false>,
            #[serde(default)]
            max: Maxima,
            min_delta: Option<Size>,
            strict: Option<bool>,
            allow_partial: Option<bool>,
            allow_oom: Option<bool>,
            device_memory: Option<Size>,
            device_overhead: Option<Size>,
            min_headroom: Option<Size>,
            $($(#[$attribute])* pub(super) $field: $type,)*
        }

        impl $name {
            /// Takes the limits out of the table.
            pub(super) fn take_limits(&mut self) -> Limits {
                let mut growth = take(&mut self.max_growth.0);
                growth.extend(take(&mut self.warn_growth.0));
                Limits {
                    growth,
                    maximum: take(&mut self.max.0),
                    min_delta: self.min_delta.as_ref().map(|size| size.0),
                    strict: self.strict,
                    allow_partial: self.allow_partial,
                    allow_oom: self.allow_oom,
                    device_memory: self.device_memory.as_ref().map(|size| size.0),
                    device_overhead: self.device_overhead.as_ref().map(|size| size.0),
                    min_headroom: self.min_headroom.as_ref().map(|size| size.0),
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
});

table_with_limits!(FileSuite {
    #[serde(default)]
    compare: Vec<FilePair>,
});

table_with_limits!(FilePair { name: String, before: String, after: String });

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct FileCategory {
    pub(super) name: String,
    pub(super) frames: OneOrMore<Search>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct FileAccept {
    pub(super) pattern: Option<Label>,
    pub(super) metric: Option<MetricName>,
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
                let parse: fn(&str) -> Result<$inner, String> = $parse;
                parse(&text).map(Self)
            }
        }
    };
}

from_text!(Size(u64), |text| parse_size(text).map_err(|error| error.to_string()));
from_text!(Settings(AllocatorSettings), |text| text
    .parse()
    .map_err(|error: crate::snapshot::ParseSettingsError| error.to_string()));

from_text!(Label(Pattern), |text| Pattern::search(text).map_err(|error| error.to_string()));
from_text!(Search(Pattern), |text| Pattern::search_code(text).map_err(|error| error.to_string()));
from_text!(MetricName(Subject), |text| match text.parse() {
    Ok(Target::Metric(metric)) => Ok(Subject::Metric(metric)),
    Ok(Target::Phase(Some(pattern))) => Ok(Subject::Phases(pattern)),
    Ok(Target::Phase(None)) => Err("expected the phase whose growth is accepted, such as phase:forward".to_owned()),
    Ok(Target::Module(pattern)) => Ok(Subject::Modules(pattern)),
    Ok(Target::Imbalance) => Err("imbalance is no figure of one rank; accept what grew on its ranks".to_owned()),
    Ok(Target::Stack(_) | Target::StackHighest(_)) =>
        Err("expected the name of a figure; stacks are named by 'pattern'".to_owned()),
    Err(error) => Err(error.to_string()),
});
from_text!(Which(Occurrences), |text| match text {
    "each" => Ok(Occurrences::Each),
    "max" => Ok(Occurrences::Worst),
    _ => Err(format!("unknown value '{text}'; accepted are each, max")),
});
from_text!(By(GroupBy), |text| {
    let known: Vec<_> = GroupBy::ALL.iter().map(|by| by.name()).collect();
    GroupBy::ALL.iter().copied().find(|by| by.name() == text).ok_or_else(|| {
        let near = did_you_mean(text, known.iter().copied());
        format!("unknown grouping '{text}'; accepted are {}{near}", known.join(", "))
    })
});

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
        text.parse().map(Self).map_err(|_| de::Error::custom(expected))
    }
}

/// One value, or a list of them.
pub(super) struct OneOrMore<T>(pub(super) Vec<T>);

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
pub(super) struct Growths<const FAIL: bool>(pub(super) Vec<Growth>);

impl<'de, const FAIL: bool> Deserialize<'de> for Growths<FAIL> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let expecting = "a limit such as \"5%\", or a table of metrics with their limits";
        deserializer.deserialize_any(LimitsOf { expecting, parse: Self::parse }).map(Self)
    }
}

impl<const FAIL: bool> Growths<FAIL> {
    fn parse(text: &str) -> Result<Growth, String> {
        let level = if FAIL { Level::Fail } else { Level::Warn };
        Growth::parse(text, level).map_err(|error| error.to_string())
    }
}

/// Absolute limits.
#[derive(Default)]
pub(super) struct Maxima(pub(super) Vec<Maximum>);

impl<'de> Deserialize<'de> for Maxima {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let expecting = "a table of metrics with sizes, such as reserved = \"75GiB\"";
        deserializer.deserialize_any(LimitsOf { expecting, parse: Self::parse }).map(Self)
    }
}

impl Maxima {
    fn parse(text: &str) -> Result<Maximum, String> {
        text.parse::<Maximum>().map_err(|error| error.to_string())
    }
}
