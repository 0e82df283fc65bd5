//! Numbers of bytes as inputs write them.

use ptmem_base::units::parse_size;

use super::key::Stage;

/// The bytes of a value: `None` where it says that they are not known; the error is the value that is not a number of bytes.
pub(super) type Stated = Result<Option<u64>, String>;

/// A series over iterations, of which one value is the figure.
#[derive(Debug, Default)]
pub(super) struct IterationSeries {
    highest: Option<u64>,
    /// The known value of the last iteration, which comes first.
    last: Option<(Option<u64>, u64)>,
    /// The first value that is not a number of bytes.
    wrong: Option<String>,
}

impl IterationSeries {
    /// Adds the value of an iteration; values without one follow each other.
    pub(super) fn add(&mut self, iteration: Option<u64>, stated: Stated) {
        match stated {
            Ok(None) => {}
            Ok(Some(bytes)) => {
                self.highest = self.highest.max(Some(bytes));
                if self.last.is_none_or(|(last, _)| last <= iteration) {
                    self.last = Some((iteration, bytes));
                }
            }
            Err(found) => _ = self.wrong.get_or_insert(found),
        }
    }

    /// The value at a stage of it.
    pub(super) fn at(self, stage: Stage) -> Stated {
        match (self.wrong, stage) {
            (Some(found), _) => Err(found),
            (None, Stage::Peak) => Ok(self.highest),
            (None, Stage::End) => Ok(self.last.map(|(_, bytes)| bytes)),
        }
    }
}

/// A floating-point number that is a whole number of bytes.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be whole and in range")]
pub(super) fn whole(number: f64) -> Option<u64> {
    // Beyond, not every whole number has a value of its own.
    (number.fract() == 0.0 && (0.0..=9_007_199_254_740_992.0).contains(&number)).then_some(number as u64)
}

/// The whole number that a text states, also as a floating-point number.
pub(super) fn whole_of_text(text: &str) -> Option<u64> {
    text.parse().ok().or_else(|| whole(text.parse().ok()?))
}

/// The bytes of a text.
pub(super) fn of_text(text: &str) -> Stated {
    let trimmed = text.trim();
    if trimmed.is_empty() || trimmed.eq_ignore_ascii_case("nan") {
        return Ok(None);
    }
    whole_of_text(trimmed).or_else(|| parse_size(trimmed).ok()).map(Some).ok_or_else(|| text.to_owned())
}
