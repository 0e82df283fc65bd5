//! Rules of the configuration that nothing in a comparison matched.

use std::collections::{BTreeMap, BTreeSet};

use super::Config;
use crate::diagnostic::{Code, Diagnostic};
use crate::diff::Diff;
use crate::pattern::Pattern;
use crate::verdict::{Subject, module_names};

/// A kind of names that patterns are compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
enum Noun {
    Stack,
    Phase,
    Module,
    Path,
}

impl Noun {
    /// The names of a comparison.
    fn names(self, diff: &Diff) -> BTreeSet<String> {
        let devices = diff.devices.iter();
        match self {
            Self::Stack => devices.flat_map(|device| &device.rows).map(|row| row.label.clone()).collect(),
            Self::Phase => devices.flat_map(|device| &device.phases).map(|row| row.name.to_string()).collect(),
            Self::Module => [&diff.profiles.before, &diff.profiles.after].into_iter().flat_map(module_names).collect(),
            Self::Path => {
                let codes = diff.codes();
                let paths = codes.each().into_iter().flat_map(|(_, code)| code.paths());
                paths.map(str::to_owned).collect()
            }
        }
    }
}

/// A pattern of the configuration.
struct Rule<'c> {
    /// Where it stands.
    key: &'static str,
    pattern: &'c Pattern,
    noun: Noun,
}

impl Rule<'_> {
    fn is_used(&self, diff: &Diff, names: &BTreeSet<String>) -> bool {
        match self.noun {
            // A stack has other names beside its label.
            Noun::Stack => {
                let mut rows = diff.devices.iter().flat_map(|device| &device.rows);
                rows.any(|row| row.naming(self.pattern).is_some())
            }
            Noun::Phase | Noun::Module | Noun::Path => names.iter().any(|name| self.pattern.matches(name)),
        }
    }
}

/// The patterns of a configuration, but those of categories.
fn rules(config: &Config) -> Vec<Rule<'_>> {
    let accepted = config.accepted.iter().filter_map(|accepted| match &accepted.subject {
        Subject::Stacks(pattern) => Some(Rule { key: "[[accept]] pattern", pattern, noun: Noun::Stack }),
        Subject::Phases(pattern) => Some(Rule { key: "[[accept]] phase", pattern, noun: Noun::Phase }),
        Subject::Modules(pattern) => Some(Rule { key: "[[accept]] module", pattern, noun: Noun::Module }),
        Subject::Metric(_) => None,
    });
    let own = config.rules.own.iter().map(|pattern| Rule { key: "own", pattern, noun: Noun::Path });
    let foreign = config.rules.foreign.iter().map(|pattern| Rule { key: "foreign", pattern, noun: Noun::Path });
    accepted.chain(own).chain(foreign).collect()
}

/// The names that the rules of a configuration are compared with, and which of the rules matched one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Usage {
    /// For each of the rules.
    used: Vec<bool>,
    categories: Vec<bool>,
    names: BTreeMap<Noun, BTreeSet<String>>,
}

impl Usage {
    /// The rules that a comparison uses.
    #[must_use]
    pub fn of(config: &Config, diff: &Diff) -> Self {
        let mut usage = Self::default();
        for rule in rules(config) {
            let names = usage.names.entry(rule.noun).or_insert_with(|| rule.noun.names(diff));
            usage.used.push(rule.is_used(diff, names));
        }
        if !config.rules.categories.is_empty() {
            diff.codes().each().iter().for_each(|(_, code)| any(&mut usage.categories, &code.used_categories()));
        }
        usage
    }

    /// Adds the rules that another comparison uses.
    pub fn merge(&mut self, other: Self) {
        any(&mut self.used, &other.used);
        any(&mut self.categories, &other.categories);
        for (noun, names) in other.names {
            self.names.entry(noun).or_default().extend(names);
        }
    }

    /// A warning for each rule that nothing matched, with the nearest name that there is.
    #[must_use]
    pub fn unused(&self, config: &Config) -> Vec<Diagnostic> {
        let rules = rules(config).into_iter().zip(&self.used).filter(|(_, used)| !**used);
        let of_rules = rules.map(|(Rule { key, pattern, noun }, _)| {
            let names = self.names.get(&noun).into_iter().flatten();
            let noun: &str = noun.into();
            let near = pattern.unmatched(noun, names.map(String::as_str));
            format!("{key} '{}' in the configuration matches no {noun} of any comparison{near}", pattern.as_str())
        });
        let categories = config.rules.categories.iter().zip(&self.categories).filter(|(_, used)| !**used);
        let of_categories = categories.map(|(rule, _)| {
            format!("the [[category]] '{}' in the configuration matches no frame of any comparison", rule.name)
        });
        of_rules.chain(of_categories).map(|message| Diagnostic::new(Code::UnusedRule, None, message)).collect()
    }
}

/// Adds the rules that another comparison uses.
fn any(used: &mut Vec<bool>, more: &[bool]) {
    used.resize(used.len().max(more.len()), false);
    for (used, more) in used.iter_mut().zip(more) {
        *used |= more;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_that_matched_anywhere_are_used() {
        let mut config = Config::parse(
            "own = [\"*/mine/*\", \"*/gone/*\"]\n[[accept]]\npattern = \"atention\"\nbytes = \"1MiB\"\nreason = \"x\"\nexpires = 2026-12-31\n",
        )
        .unwrap();
        let mut usage = Usage {
            used: vec![false, true, false],
            names: [(Noun::Stack, ["attention (model.py:7)", "mlp (model.py:9)"].map(str::to_owned).into())].into(),
            ..Usage::default()
        };
        usage.merge(Usage { used: vec![false; 3], ..Usage::default() });
        let messages: Vec<String> = usage.unused(&config).into_iter().map(|found| found.message).collect();
        assert_eq!(
            messages,
            [
                "[[accept]] pattern 'atention' in the configuration matches no stack of any comparison; the nearest stacks are \
                 'attention (model.py:7)' and 'mlp (model.py:9)'",
                "own '*/gone/*' in the configuration matches no path of any comparison",
            ]
        );
        usage.merge(Usage { used: vec![true, false, true], ..Usage::default() });
        assert!(usage.unused(&config).is_empty());
        config.accepted.clear();
        assert!(Usage::default().unused(&config).is_empty());
    }
}
