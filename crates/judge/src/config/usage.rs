//! Rules of the configuration that nothing in a comparison matched.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use ptmem_base::diagnostic::{Code, Diagnostic};
use ptmem_base::pattern::Pattern;
use ptmem_compare::diff::cause::Cause;
use ptmem_compare::diff::{DeviceDiff, Diff};
use ptmem_compare::patch::Edit;
use ptmem_trace::profile::Profile;

use super::Config;
use crate::verdict::{AcceptedBy, LimitKind, NamedThing, Target, Verdict, names};

/// A kind of names that patterns are compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Noun {
    /// Of devices, or of pinned host memory.
    Thing {
        thing: NamedThing,
        of_host: bool,
    },
    Path,
    /// Of a change of the code.
    Edit,
}

impl Noun {
    /// The word for it in messages.
    fn name(self) -> &'static str {
        match self {
            Self::Thing { thing, .. } => thing.noun(),
            Self::Path => "path",
            Self::Edit => "edit",
        }
    }

    /// The names of a comparison.
    fn names(self, diff: &Diff) -> BTreeSet<String> {
        match self {
            Self::Thing { thing: NamedThing::Stack, of_host } => {
                devices(diff, of_host).flat_map(|device| &device.rows).map(|row| row.label.clone()).collect()
            }
            Self::Thing { thing: NamedThing::Phase, of_host } => {
                devices(diff, of_host).flat_map(|device| &device.phases).map(|row| row.name.to_string()).collect()
            }
            Self::Thing { thing: NamedThing::Module, .. } => names_of(LimitKind::Modules, diff).collect(),
            // The function alone names a pool, too.
            Self::Thing { thing: NamedThing::Pool, .. } => {
                let functions =
                    names_of(LimitKind::Pools, diff).filter_map(|name| Some(name.split_once(" (")?.0.to_owned()));
                names_of(LimitKind::Pools, diff).chain(functions).collect()
            }
            Self::Path => {
                let codes = diff.codes();
                let paths = codes.each().into_iter().flat_map(|(_, code)| code.paths());
                paths.map(str::to_owned).collect()
            }
            Self::Edit => {
                let edits = causes(diff).filter(|cause| cause.is_code_known).flat_map(|cause| cause.edits.iter());
                edits.filter_map(Edit::name).map(str::to_owned).collect()
            }
        }
    }
}

/// A cause of the growth of each device: all of one have the same edits.
fn causes(diff: &Diff) -> impl Iterator<Item = &Cause> {
    diff.devices.iter().filter_map(|device| device.causes.first())
}

/// The devices of a comparison, or its pinned host memory.
fn devices(diff: &Diff, of_host: bool) -> impl Iterator<Item = &DeviceDiff> + Clone {
    diff.devices.iter().filter(move |device| device.is_host() == of_host)
}

/// The names of both sides.
fn names_of(kind: LimitKind, diff: &Diff) -> impl Iterator<Item = String> {
    diff.profiles.each().into_iter().flat_map(move |(_, profile)| names(kind, profile))
}

/// A pattern of the configuration.
#[derive(Debug)]
struct Rule<'c> {
    /// Where it stands.
    key: Cow<'static, str>,
    pattern: &'c Pattern,
    noun: Noun,
}

impl Rule<'_> {
    fn is_used(&self, diff: &Diff, names: &BTreeSet<String>) -> bool {
        match self.noun {
            // A stack has other names beside its label; those of lines that it sums at any moment take longest.
            Noun::Thing { thing: NamedThing::Stack, of_host } => {
                let mut rows = devices(diff, of_host).flat_map(|device| &device.rows);
                let groupers = diff.profiles.map(Profile::grouper);
                rows.clone().any(|row| row.naming(self.pattern).is_some())
                    || rows.any(|row| row.naming_at_any_moment(self.pattern, &groupers).is_some())
            }
            Noun::Thing { thing: NamedThing::Phase | NamedThing::Module | NamedThing::Pool, .. } | Noun::Path => {
                names.iter().any(|name| self.pattern.matches(name))
            }
            Noun::Edit => causes(diff).flat_map(|cause| cause.edits.iter()).any(|edit| edit.is_named(self.pattern)),
        }
    }
}

/// The patterns of a configuration, but those of categories.
fn rules(config: &Config) -> Vec<Rule<'_>> {
    let subjects = config.accepted.iter().flat_map(|accepted| &accepted.subjects);
    let accepted = subjects.filter_map(|&Target { of_host, kind, ref pattern }| {
        let AcceptedBy::Name(thing) = kind.accepted_by() else { return None };
        let key = format!("[[accept]] {}", if of_host { "metric" } else { thing.key() });
        Some(Rule { key: key.into(), pattern: pattern.as_ref()?, noun: Noun::Thing { thing, of_host } })
    });
    let edits = config.accepted.iter().filter_map(|accepted| accepted.through.as_ref());
    let edits = edits.map(|pattern| Rule { key: "[[accept]] through".into(), pattern, noun: Noun::Edit });
    let own = config.rules.own.iter().map(|pattern| Rule { key: "own".into(), pattern, noun: Noun::Path });
    let foreign = config.rules.foreign.iter().map(|pattern| Rule { key: "foreign".into(), pattern, noun: Noun::Path });
    accepted.chain(edits).chain(own).chain(foreign).collect()
}

/// The rules of a configuration that nothing matched so far, and the names that they were compared with.
#[derive(Debug, Default)]
pub struct Usage<'c> {
    rules: Vec<Rule<'c>>,
    /// Categories by their places in the configuration.
    categories: Vec<(usize, &'c str)>,
    names: BTreeMap<Noun, BTreeSet<String>>,
    /// Whether a comparison had anything but numbers, which no rule names.
    has_names: bool,
}

impl<'c> Usage<'c> {
    /// All rules of a configuration.
    pub fn new(config: &'c Config) -> Self {
        let categories = config.rules.categories.iter().map(|category| &*category.name);
        Self { rules: rules(config), categories: categories.enumerate().collect(), ..Self::default() }
    }

    /// Leaves out the rules that a comparison uses. Edits count where it is a regression: once a change is merged, an agreement about
    /// it has no edit any more, and need not be there.
    pub fn add(&mut self, diff: &Diff, verdict: Verdict) {
        if diff.profiles.each().into_iter().any(|(_, profile)| profile.is_numbers()) {
            return;
        }
        self.has_names = true;
        let nouns: BTreeSet<Noun> = self.rules.iter().map(|rule| rule.noun).collect();
        let nouns = nouns.into_iter().filter(|noun| *noun != Noun::Edit || verdict == Verdict::Regression);
        for noun in nouns {
            self.names.entry(noun).or_default().extend(noun.names(diff));
        }
        let none = BTreeSet::new();
        self.rules.retain(|rule| !rule.is_used(diff, self.names.get(&rule.noun).unwrap_or(&none)));
        if !self.categories.is_empty() {
            let used = diff.codes().each().map(|(_, code)| code.used_categories());
            self.categories.retain(|(at, _)| !used.iter().any(|used| used.get(*at) == Some(&true)));
        }
    }

    /// A warning for each rule that nothing matched, with the nearest name that there is.
    pub fn unused(&self) -> Vec<Diagnostic> {
        if !self.has_names {
            return Vec::new();
        }
        // Where the change is not known, no edits are.
        let has_edits = self.names.get(&Noun::Edit).is_some_and(|edits| !edits.is_empty());
        let rules = self.rules.iter().filter(|rule| rule.noun != Noun::Edit || has_edits);
        let of_rules = rules.map(|Rule { key, pattern, noun }| {
            let names = self.names.get(noun).into_iter().flatten();
            let noun = noun.name();
            let near = pattern.unmatched(noun, names.map(String::as_str));
            format!("{key} '{}' in the configuration matches no {noun} of any comparison{near}", pattern.as_str())
        });
        let of_categories = self.categories.iter().map(|(_, name)| {
            format!("the [[category]] '{name}' in the configuration matches no frame of any comparison")
        });
        of_rules.chain(of_categories).map(|message| Diagnostic::new(Code::UnusedRule, None, message)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_that_match_nothing_are_told_with_the_nearest_name() {
        let config = Config::parse(
            "own = [\"*/mine/*\", \"*/gone/*\"]\n[[accept]]\npattern = \"atention\"\nbytes = \"1MiB\"\nreason = \"x\"\nexpires = 2026-12-31\n",
        )
        .unwrap();
        let mut usage = Usage::new(&config);
        usage.rules.remove(1);
        usage.has_names = true;
        usage.names = [(
            Noun::Thing { thing: NamedThing::Stack, of_host: false },
            ["attention (model.py:7)", "mlp (model.py:9)"].map(str::to_owned).into(),
        )]
        .into();
        let messages: Vec<String> = usage.unused().into_iter().map(|found| found.message).collect();
        assert_eq!(
            messages,
            [
                "[[accept]] pattern 'atention' in the configuration matches no stack of any comparison; the nearest stacks are \
                 'attention (model.py:7)' and 'mlp (model.py:9)'",
                "own '*/gone/*' in the configuration matches no path of any comparison",
            ]
        );
    }
}
