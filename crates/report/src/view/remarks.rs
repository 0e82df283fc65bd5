//! Remarks on the input, and checks with their findings and sentences.

use std::cmp::Reverse;

use ptmem_base::diagnostic::{Code, Diagnostic, Severity};
use ptmem_base::sides::Side;
use ptmem_judge::verdict::{Check, Judgement, Mark};

/// Something about the input that a reader must know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remark {
    /// The side that it concerns, or both, and the device where there are several, in words before the message.
    pub(crate) scope: String,
    /// Its code, which knows its severity, meaning and help.
    pub(crate) code: Code,
    /// One or two sentences.
    pub(crate) message: String,
}

impl Remark {
    /// Whether it belongs to the verdict or weakens it, so that no page folds it away.
    pub(crate) fn is_open(&self) -> bool {
        self.code.severity() == Severity::Warning || matches!(self.code, Code::AcceptedGrowth | Code::Improved)
    }
}

/// Diagnostics as remarks: what reviewers must see before other warnings and notes, and those that hold for both sides once.
pub fn remarks<'d>(
    diagnostics: impl IntoIterator<Item = (Option<Side>, &'d Diagnostic)>,
    many_devices: bool,
) -> Vec<Remark> {
    let mut found: Vec<(Option<&'static str>, &Diagnostic)> = Vec::new();
    for (side, diagnostic) in diagnostics {
        let side = side.map(Side::name);
        match found.iter_mut().find(|(other, twin)| *other != side && *twin == diagnostic) {
            Some((other, _)) => *other = Some("both"),
            None => found.push((side, diagnostic)),
        }
    }
    found.sort_by_key(|(_, diagnostic)| Reverse((diagnostic.code.is_announced(), diagnostic.severity())));
    let remarks = found.into_iter().map(|(side, found)| {
        let side = side.map(|side| format!("{side}: ")).unwrap_or_default();
        let device = found.device.filter(|_| many_devices).map(|device| format!("{device}: "));
        Remark { scope: side + &device.unwrap_or_default(), code: found.code, message: found.message.clone() }
    });
    remarks.collect()
}

/// A check in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CheckLine {
    /// Its finding.
    pub(crate) mark: Mark,
    /// The figure and its limit.
    pub(crate) sentence: String,
    /// Other checks of the same cause, which the sentence announces.
    pub(crate) others: Vec<String>,
}

/// The checks of a judgement, the worst first; those of one cause in one line.
pub(super) fn checks(judgement: &Judgement) -> Vec<CheckLine> {
    checks_of(judgement, |_| true)
}

/// Of these those that `is_shown` selects.
pub(super) fn checks_of(judgement: &Judgement, is_shown: impl Fn(&Check) -> bool) -> Vec<CheckLine> {
    let causes = judgement.by_cause().into_iter().filter(|(check, _)| is_shown(check));
    let lines = causes.map(|(check, others)| CheckLine {
        mark: Mark::of(check),
        sentence: judgement.sentence_of_cause(check, &others),
        others: Judgement::named(&others),
    });
    lines.collect()
}
