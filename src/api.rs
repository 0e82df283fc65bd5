//! The five functions of the library.

use std::io::{self, Read};

use crate::diff::{self, PhaseOptions};
use crate::leak;
use crate::profile::{self, Moment, Profile};
use crate::report::{self, Format, Report};
use crate::sides::Sides;
use crate::verdict::{self, Comparison, Gate, JudgedSearch, Judgement, LeakGate, LeakLimits, Thresholds};

/// Reads a snapshot, plain, compressed or in an archive of `torch.save`, or a saved profile, and computes its figures.
///
/// `name` stands for the input in reports, such as its path.
///
/// # Errors
/// If the input is none of these, or damaged.
pub fn read(input: impl Read, name: &str, options: profile::ReadOptions) -> Result<Profile, profile::ProfileError> {
    profile::read(input, name, options)
}

/// Compares a before with an after and judges the change by limits. Without limits it only compares.
///
/// Profiles of their peaks are compared at corresponding places: at the peak of the after, and at the same place of the
/// program in the before. ([`diff::compare`] takes them as they are.)
pub fn compare(before: Profile, after: Profile, limits: &Thresholds) -> Gate {
    let mut profiles = Sides { before, after };
    if profiles.each().iter().all(|(_, profile)| profile.options.at == Moment::Peak) {
        profiles.before.options.at = Moment::Aligned;
        profiles.after.options.at = Moment::Aligned;
    }
    let wanted = limits.growth.iter().any(|growth| growth.target.kind.is_of_phases());
    let phases = PhaseOptions { wanted, ..PhaseOptions::default() };
    let diff =
        diff::compare(profiles.before, profiles.after, diff::DiffOptions { phases, ..diff::DiffOptions::default() });
    let judgement = verdict::judge_diff(&diff, limits);
    let comparison = Comparison { name: None, member: None, diff, judgement, min_delta: limits.min_delta };
    comparison.into()
}

/// Judges one snapshot by the absolute limits among `limits`.
pub fn check(profile: &Profile, limits: &Thresholds) -> Judgement {
    verdict::judge_profile(profile, limits)
}

/// Finds leaks: in one snapshot over its steps, in two or more over the series, in order. Each comes with its name.
///
/// More growth per step or snapshot than the limits allow is a failure. A number limits all stacks of a device together.
///
/// # Errors
/// If an input cannot be read, or there is none.
pub fn find_leaks<R: Read>(
    inputs: impl IntoIterator<Item = (String, R)>,
    options: &leak::LeakOptions,
    limits: impl Into<LeakLimits>,
) -> Result<LeakGate, FindLeaksError> {
    let reading = options.reading();
    let mut inputs = inputs.into_iter().peekable();
    let Some((name, first)) = inputs.next() else { return Err(FindLeaksError::NoInput) };
    let search = if inputs.peek().is_none() {
        let profile = profile::read(first, &name, reading).map_err(|error| FindLeaksError::read(&name, error))?;
        leak::search(&profile, options)
    } else {
        let mut profiles = Vec::new();
        for (name, input) in std::iter::once((name, first)).chain(inputs) {
            let profile = profile::read(input, &name, reading.clone());
            let mut profile = profile.map_err(|error| FindLeaksError::read(&name, error))?;
            profile.forget_history();
            profiles.push(profile);
        }
        leak::over(profiles, &[], options)
    };
    let judgement = verdict::judge_leaks(&search, limits, false);
    Ok(JudgedSearch { search, judgement }.into())
}

/// The error of [`find_leaks`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FindLeaksError {
    /// The input is empty.
    #[error("no snapshot was given; expected one, or two or more in order")]
    NoInput,
    /// An input cannot be read.
    #[error("{name}: {error}")]
    Read {
        /// Name of the input.
        name: String,
        /// The reason.
        #[source]
        error: profile::ProfileError,
    },
}

impl FindLeaksError {
    fn read(name: &str, error: profile::ProfileError) -> Self {
        Self::Read { name: name.to_owned(), error }
    }
}

/// Writes a result in any format: of [`compare`] and [`find_leaks`], or a profile with or without the judgement of
/// [`check`].
///
/// # Errors
/// If the data of a page cannot be compressed.
pub fn render(result: &dyn Report, format: Format, options: &report::RenderOptions) -> io::Result<String> {
    format.render(result, options)
}
