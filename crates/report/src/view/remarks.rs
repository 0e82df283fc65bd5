//! Remarks on the input, and checks with their sentences.

use std::cmp::Reverse;

use super::{Group, Mark};
use crate::diagnostic::{Code, Diagnostic, Severity};
use crate::sides::Side;
use crate::verdict::Judgement;

/// Something about the input that a reader must know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Remark {
    /// The side that it concerns; none where it concerns the comparison, or where nothing is compared.
    pub(crate) side: Option<RemarkSide>,
    /// The device, where there are several.
    pub(crate) device: Option<u32>,
    /// Its code, which knows its severity, meaning and help.
    pub(crate) code: Code,
    /// One or two sentences.
    pub(crate) message: String,
}

/// The side that a remark concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RemarkSide {
    /// One of them.
    One(Side),
    /// Each of them.
    Both,
}

impl RemarkSide {
    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::One(side) => side.name(),
            Self::Both => "both",
        }
    }
}

impl Remark {
    fn new(side: Option<RemarkSide>, diagnostic: &Diagnostic, many_devices: bool) -> Self {
        Self {
            side,
            device: diagnostic.device.filter(|_| many_devices),
            code: diagnostic.code,
            message: diagnostic.message.clone(),
        }
    }

    /// Whether it belongs to the verdict or weakens it, so that no page folds it away.
    pub(crate) fn is_open(&self) -> bool {
        self.code.severity() == Severity::Warning || matches!(self.code, Code::AcceptedGrowth | Code::Improved)
    }

    /// The side and the device, in words before the message.
    pub(crate) fn scope(&self) -> String {
        let side = self.side.map(|side| format!("{}: ", side.name())).unwrap_or_default();
        let device = self.device.map(|device| format!("device {device}: ")).unwrap_or_default();
        side + &device
    }
}

/// Diagnostics as remarks: warnings before notes, and those that hold for both sides once.
pub(super) fn remarks<'d>(
    diagnostics: impl Iterator<Item = (Option<Side>, &'d Diagnostic)>,
    many_devices: bool,
) -> Vec<Remark> {
    let mut found: Vec<(Option<RemarkSide>, &Diagnostic)> = Vec::new();
    for (side, diagnostic) in diagnostics {
        let side = side.map(RemarkSide::One);
        match found.iter_mut().find(|(other, twin)| *other != side && *twin == diagnostic) {
            Some((other, _)) => *other = Some(RemarkSide::Both),
            None => found.push((side, diagnostic)),
        }
    }
    found.sort_by_key(|(_, diagnostic)| Reverse(diagnostic.severity()));
    found.into_iter().map(|(side, diagnostic)| Remark::new(side, diagnostic, many_devices)).collect()
}

impl Group {
    /// The remarks that every format shows: warnings, and what the verdict rests on or asks for.
    pub(crate) fn open_remarks(&self) -> Vec<&Remark> {
        self.remarks.iter().filter(|remark| remark.is_open()).collect()
    }

    /// The remarks that a page folds away and a terminal counts: other notes.
    pub(crate) fn folded_remarks(&self) -> Vec<&Remark> {
        self.remarks.iter().filter(|remark| !remark.is_open()).collect()
    }
}

/// The checks of a group.
#[derive(Debug, Clone, Default)]
pub(crate) struct Checks {
    /// Each check, the worst first.
    pub(crate) lines: Vec<CheckLine>,
    /// Whether the tables of the sections say the same.
    pub(crate) is_in_tables: bool,
}

/// A check in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CheckLine {
    /// Its finding.
    pub(crate) mark: Mark,
    /// The figure and its limit.
    pub(crate) sentence: String,
    /// Whether it is about all ranks of a job together.
    pub(crate) is_of_all_ranks: bool,
}

impl Checks {
    /// The checks of a judgement.
    pub(super) fn new(judgement: &Judgement, is_in_tables: bool) -> Self {
        Self { lines: lines(judgement, false), is_in_tables }
    }

    /// The checks of all ranks of a job together, and those of the worst rank.
    pub(super) fn of_job(all: &Judgement, worst: Option<&Judgement>, is_in_tables: bool) -> Self {
        let mut of_job = lines(all, true);
        of_job.extend(worst.into_iter().flat_map(|judgement| lines(judgement, false)));
        Self { lines: of_job, is_in_tables }
    }
}

fn lines(judgement: &Judgement, is_of_all_ranks: bool) -> Vec<CheckLine> {
    let checks = judgement.checks.iter();
    checks
        .map(|check| CheckLine { mark: Mark::of(check), sentence: judgement.sentence(check), is_of_all_ranks })
        .collect()
}
