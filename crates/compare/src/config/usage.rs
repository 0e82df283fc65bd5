//! Rules of the configuration that nothing in a comparison matched.

use std::collections::BTreeSet;

use super::Config;
use crate::diagnostic::{Code, Diagnostic};
use crate::diff::{Diff, Row};
use crate::pattern::Pattern;
use crate::verdict::{Subject, module_names};

/// The names that the rules of a configuration are compared with, and which of the rules matched one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Usage {
    accepted: Vec<bool>,
    categories: Vec<bool>,
    own: Vec<bool>,
    foreign: Vec<bool>,
    labels: BTreeSet<String>,
    phases: BTreeSet<String>,
    modules: BTreeSet<String>,
    paths: BTreeSet<String>,
}

impl Usage {
    /// The rules that a comparison uses.
    #[must_use]
    pub fn of(config: &Config, diff: &Diff) -> Self {
        let mut usage = Self::default();
        usage.look_at_accepted(config, diff);
        let rules = &config.rules;
        if !rules.own.is_empty() || !rules.foreign.is_empty() || !rules.categories.is_empty() {
            usage.look_at_frames(config, diff);
        }
        usage
    }

    fn look_at_accepted(&mut self, config: &Config, diff: &Diff) {
        if config.accepted.is_empty() {
            return;
        }
        let devices = &diff.devices;
        let rows: Vec<&Row> = devices.iter().flat_map(|device| &device.rows).collect();
        let phases: Vec<&str> = devices.iter().flat_map(|device| &device.phases).map(|row| &*row.name).collect();
        if config.accepted.iter().any(|accepted| matches!(accepted.subject, Subject::Modules(_))) {
            let profiles = [&diff.profiles.before, &diff.profiles.after];
            self.modules.extend(profiles.into_iter().flat_map(module_names));
        }
        for accepted in &config.accepted {
            self.accepted.push(match &accepted.subject {
                Subject::Stacks(pattern) => rows.iter().any(|row| row.naming(pattern).is_some()),
                Subject::Phases(pattern) => phases.iter().any(|name| pattern.matches(name)),
                Subject::Modules(pattern) => self.modules.iter().any(|name| pattern.matches(name)),
                Subject::Metric(_) => true,
            });
        }
        self.labels.extend(rows.iter().map(|row| row.label.clone()));
        self.phases.extend(phases.into_iter().map(str::to_owned));
    }

    fn look_at_frames(&mut self, config: &Config, diff: &Diff) {
        for (_, code) in diff.codes().each() {
            any(&mut self.categories, &code.used_categories());
            for path in code.paths() {
                any(&mut self.own, &matching(&config.rules.own, path));
                any(&mut self.foreign, &matching(&config.rules.foreign, path));
                self.paths.insert(path.to_owned());
            }
        }
    }

    /// Adds the rules that another comparison uses.
    pub fn merge(&mut self, other: Self) {
        any(&mut self.accepted, &other.accepted);
        any(&mut self.categories, &other.categories);
        any(&mut self.own, &other.own);
        any(&mut self.foreign, &other.foreign);
        self.labels.extend(other.labels);
        self.phases.extend(other.phases);
        self.modules.extend(other.modules);
        self.paths.extend(other.paths);
    }

    /// A warning for each rule that nothing matched, with the nearest name that there is.
    #[must_use]
    pub fn unused(&self, config: &Config) -> Vec<Diagnostic> {
        let mut found = Vec::new();
        for (accepted, _) in config.accepted.iter().zip(&self.accepted).filter(|(_, used)| !**used) {
            match &accepted.subject {
                Subject::Stacks(pattern) => found.push(unused("[[accept]] pattern", pattern, "stack", &self.labels)),
                Subject::Phases(pattern) => found.push(unused("[[accept]] phase", pattern, "phase", &self.phases)),
                Subject::Modules(pattern) => found.push(unused("[[accept]] module", pattern, "module", &self.modules)),
                Subject::Metric(_) => {}
            }
        }
        for (rule, _) in config.rules.categories.iter().zip(&self.categories).filter(|(_, used)| !**used) {
            let message =
                format!("the [[category]] '{}' in the configuration matches no frame of any comparison", rule.name);
            found.push(Diagnostic::new(Code::UnusedRule, None, message));
        }
        for (key, patterns, used) in
            [("own", &config.rules.own, &self.own), ("foreign", &config.rules.foreign, &self.foreign)]
        {
            for (pattern, _) in patterns.iter().zip(used).filter(|(_, used)| !**used) {
                found.push(unused(key, pattern, "path", &self.paths));
            }
        }
        found
    }
}

fn matching(patterns: &[Pattern], text: &str) -> Vec<bool> {
    patterns.iter().map(|pattern| pattern.matches(text)).collect()
}

/// Adds the rules that another comparison uses.
fn any(used: &mut Vec<bool>, more: &[bool]) {
    used.resize(used.len().max(more.len()), false);
    for (used, more) in used.iter_mut().zip(more) {
        *used |= more;
    }
}

fn unused(key: &str, pattern: &Pattern, noun: &str, names: &BTreeSet<String>) -> Diagnostic {
    let near = pattern.unmatched(noun, names.iter().map(String::as_str));
    let message =
        format!("{key} '{}' in the configuration matches no {noun} of any comparison{near}", pattern.as_str());
    Diagnostic::new(Code::UnusedRule, None, message)
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
            accepted: vec![false],
            own: vec![true, false],
            labels: ["attention (model.py:7)".to_owned(), "mlp (model.py:9)".to_owned()].into(),
            ..Usage::default()
        };
        usage.merge(Usage { accepted: vec![false], own: vec![false, false], ..Usage::default() });
        let messages: Vec<String> = usage.unused(&config).into_iter().map(|found| found.message).collect();
        assert_eq!(
            messages,
            [
                "[[accept]] pattern 'atention' in the configuration matches no stack of any comparison; the nearest stacks are \
                 'attention (model.py:7)' and 'mlp (model.py:9)'",
                "own '*/gone/*' in the configuration matches no path of any comparison",
            ]
        );
        usage.merge(Usage { accepted: vec![true], own: vec![false, true], ..Usage::default() });
        assert!(usage.unused(&config).is_empty());
        config.accepted.clear();
        assert!(Usage::default().unused(&config).is_empty());
    }
}
