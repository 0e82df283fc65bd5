//! Searches for the place in an ordered set at which an answer changes: commits, releases or numbers, each recorded at most once.

use std::fmt::Display;
use std::time::Instant;

use anyhow::Result;

/// The answer for a candidate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    /// It is before the change.
    Good,
    /// It is after the change.
    Bad,
    /// It cannot be known, for this reason.
    Skipped(String),
}

/// The questions that were asked, in order, with their answers.
pub(super) type Asked<C> = Vec<(C, Answer)>;

/// A set in which good candidates come before bad ones.
pub(super) trait Candidates {
    /// One of them.
    type One: Clone + PartialEq + Display;

    /// The next to ask, and the number that it and later questions halve: that of the candidates of which nothing is known, or less
    /// if the search doubles first. `None` once the first bad one is known.
    fn next(&self, asked: &Asked<Self::One>) -> Result<Option<(Self::One, u64)>>;
}

/// Asks until the first bad candidate is known, and tells how far it is. An answer may add to its candidate.
pub(super) fn search<C: Candidates>(
    set: &C,
    mut asked: Asked<C::One>,
    mut tell: impl FnMut(&str),
    mut ask: impl FnMut(&mut C::One) -> Result<Answer>,
) -> Result<Asked<C::One>> {
    let began = Instant::now();
    let given = asked.len();
    while let Some((mut next, unknown)) = set.next(&asked)? {
        // If each question halves them: a guess or a candidate that is skipped leaves more.
        let more = unknown.max(1).ilog2();
        let rest = if unknown == 1 { "the last".to_owned() } else { format!("then about {more} more") };
        let each = u64::try_from(asked.len() - given).ok().and_then(|done| began.elapsed().as_secs().checked_div(done));
        // Kept recordings take no time.
        let each = each.filter(|&each| each > 0);
        let estimate = each.map(|each| format!(", about {} s in all", each * u64::from(more + 1))).unwrap_or_default();
        tell(&format!("trying {next} ({rest}{estimate})"));
        let answer = ask(&mut next)?;
        if let Answer::Skipped(reason) = &answer {
            tell(&format!("{next} is skipped: {reason}"));
        }
        asked.push((next, answer));
    }
    Ok(asked)
}
