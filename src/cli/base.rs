//! The rules of the base, applied to the same recordings: a change cannot loosen its own gate unnoticed.

use anyhow::Result;
use ptmem::config;
use ptmem::diagnostic::{Code, Diagnostic};
use ptmem::verdict::{Headline, Verdict};

use super::args::ConfigArguments;
use super::config::{Loaded, load_of_base};
use super::gates;
use super::git::Base;
use super::hint;

/// The answer by one set of rules.
pub(super) struct Answer {
    pub(super) headline: Headline,
    /// Whether the run succeeds by it.
    pub(super) passes: bool,
    /// The stored before, where it was taken from the base, too.
    pub(super) before: Option<String>,
}

/// Rules to apply to the same recordings.
pub(super) struct Rules<'b> {
    pub(super) base: &'b Base,
    /// The configuration of the base.
    pub(super) loaded: &'b Loaded,
    /// Whether that of the change is the same.
    pub(super) are_same: bool,
}

impl Answer {
    pub(super) fn new(headline: Headline, is_approved: bool) -> Self {
        let passes = headline.verdict == Verdict::Pass || is_approved;
        Self { headline, passes, before: None }
    }
}

/// The remarks on rules that the checkout changes since the base which `--git` names: where what passes by them does not by
/// those of the base, or where these cannot be applied. `evaluate` judges the same recordings by other rules, and gives an
/// answer for each comparison.
pub(super) fn remarks(
    git: Option<&str>,
    arguments: &ConfigArguments,
    own: &Loaded,
    answer: &Answer,
    evaluate: impl Fn(&Rules<'_>) -> Result<Vec<Result<Answer>>>,
) -> Result<Vec<Diagnostic>> {
    let Some(git) = git else { return Ok(Vec::new()) };
    let base = Base::find(git)?;
    let mut remarks = Vec::from_iter(gates::remark(&base)?);
    remarks.extend(of_rules(&base, arguments, own, answer, evaluate).unwrap_or_else(|error| vec![unknown(&error)]));
    Ok(remarks)
}

fn of_rules(
    base: &Base,
    arguments: &ConfigArguments,
    own: &Loaded,
    answer: &Answer,
    evaluate: impl Fn(&Rules<'_>) -> Result<Vec<Result<Answer>>>,
) -> Result<Vec<Diagnostic>> {
    let of_base = load_of_base(base, arguments)?;
    if !answer.passes {
        return Ok(Vec::new());
    }
    let are_same = of_base.is_same(own);
    let answers = evaluate(&Rules { base, loaded: &of_base, are_same })?;
    let remarks = answers.into_iter().filter_map(|by_base| match by_base {
        Ok(by_base) if by_base.passes => None,
        Ok(by_base) => Some(loosened(own, answer, &of_base, &by_base)),
        Err(error) => Some(unknown(&error)),
    });
    Ok(remarks.collect())
}

fn unknown(error: &anyhow::Error) -> Diagnostic {
    let reason = hint::explained(error);
    let message = format!(
        "whether this change loosens its own limits is not known: the rules of the base cannot be applied: {reason}"
    );
    Diagnostic::new(Code::BaseRulesUnknown, None, message)
}

/// Keys that a remark names.
const MOST_KEYS: usize = 5;

fn loosened(own: &Loaded, answer: &Answer, of_base: &Loaded, by_base: &Answer) -> Diagnostic {
    let of_before = by_base.before.as_ref().map(|path| format!(" and {path}")).unwrap_or_default();
    if let (Some(path), true) = (&by_base.before, of_base.is_same(own)) {
        let message = format!(
            "this change rewrites {path} without a reason: with that of the base {}; with that of the change {}",
            by_base.headline, answer.headline
        );
        return Diagnostic::new(Code::LimitsLoosened, None, message);
    }
    let mut changes = config::changes(of_base.text(), own.text());
    changes.iter_mut().for_each(|change| *change = super::shortened(change));
    let more = changes.len().saturating_sub(MOST_KEYS);
    changes.truncate(MOST_KEYS);
    if more > 0 {
        changes.push(super::many(more, "further change"));
    }
    let message = format!(
        "this change loosens its own limits: with {}{of_before} of the base {}; with {} of the change {} ({})",
        of_base.name(),
        by_base.headline,
        own.name(),
        answer.headline,
        changes.join("; ")
    );
    Diagnostic::new(Code::LimitsLoosened, None, message)
}
