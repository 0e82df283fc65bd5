//! Searches for the place in an ordered set at which an answer changes: commits, releases or numbers, each recorded at most once.

pub(super) mod bisect;
mod commits;
mod failure;
pub(super) mod fitting;
mod numbers;
mod recordable;
pub(super) mod recorder;
mod releases;

use std::fmt::Display;
use std::time::Instant;

use anyhow::Result;

use super::output;

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

    /// The next to ask, and the most questions that follow it; `None` once the first bad one is known.
    fn next(&self, asked: &Asked<Self::One>) -> Result<Option<(Self::One, u32)>>;
}

/// Asks until the first bad candidate is known, and says how far it is. An answer may add to its candidate.
pub(super) fn search<C: Candidates>(
    set: &C,
    mut asked: Asked<C::One>,
    mut ask: impl FnMut(&mut C::One) -> Result<Answer>,
) -> Result<Asked<C::One>> {
    let began = Instant::now();
    let given = asked.len();
    while let Some((mut next, more)) = set.next(&asked)? {
        let done = asked.len() - given;
        let each = began.elapsed().as_secs() / u64::try_from(done.max(1)).unwrap_or(1);
        let estimate =
            if done > 0 { format!(", about {} s in all", each * u64::from(more + 1)) } else { String::new() };
        let rest = if more == 0 { "the last".to_owned() } else { format!("then at most {more} more") };
        output::print_note(&format!("trying {next} ({rest}{estimate})"));
        let answer = ask(&mut next)?;
        if let Answer::Skipped(reason) = &answer {
            output::print_note(&format!("{next} is skipped: {reason}"));
        }
        asked.push((next, answer));
    }
    Ok(asked)
}
