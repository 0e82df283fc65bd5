//! The figures by which a stack or another part of a device is judged: it exceeds a limit if all of them do, in one direction.

use ptmem_base::units::Limit;
use ptmem_compare::diff::{JointChange, Row, Sides};

use super::LimitKind;
use super::growth::{Gated, has_rows_at_peak};

/// The subject of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FigureOf {
    /// The bytes that the limit names.
    Limited,
    /// The most that the stack held at any moment.
    Highest,
    /// The bytes that the program asked for: without a change of them, only slack in the blocks of the allocator changed.
    Requested,
    /// The memory of its code, also where checkpoints run that again.
    Code,
}

/// A figure of a part.
#[derive(Debug, Clone, Copy)]
pub(super) struct JudgedFigure {
    pub(super) of: FigureOf,
    delta: i128,
    /// The most bytes by which it may change.
    most: i128,
    /// How far the change may be from the truth.
    pub(super) error: i128,
}

/// All figures of a part.
#[derive(Debug, Clone)]
pub(super) struct JudgedFigures {
    /// The first is the one that the limit names.
    all: Vec<JudgedFigure>,
    is_two_sided: bool,
}

/// The most bytes by which a figure of these bytes may change.
fn most(limit: &Limit, before: u64) -> i128 {
    i128::try_from(limit.allowed(before)).unwrap_or(i128::MAX)
}

impl JudgedFigure {
    fn new(of: FigureOf, limit: &Limit, figure: Sides<u64>, errors: Sides<u64>) -> Self {
        let error = i128::from(errors.before) + i128::from(errors.after);
        Self { of, delta: figure.delta(), most: most(limit, figure.before), error }
    }

    /// That of requested bytes, which explain growth if they grew at all.
    fn requested(requested: Sides<u64>) -> Self {
        Self { of: FigureOf::Requested, delta: requested.delta(), most: 0, error: 0 }
    }

    fn of_code(limit: &Limit, code: &JointChange) -> Self {
        let most = most(limit, code.before);
        Self { of: FigureOf::Code, delta: code.delta, most, error: i128::from(code.error) }
    }

    /// Whether it is beyond the limit in the direction of a sign, if it is off by an error.
    fn is_beyond(&self, sign: i128, error: i128) -> bool {
        (sign * self.delta).saturating_add(error) > self.most
    }

    /// Whether its error decides about a part that exceeds the limit, or does not.
    fn may_decide(&self, signs: &[i128], exceeds: bool) -> bool {
        let mut signs = signs.iter().filter(|sign| self.is_beyond(**sign, 0) == exceeds);
        signs.any(|sign| self.is_beyond(*sign, self.error) && !self.is_beyond(*sign, -self.error))
    }
}

impl JudgedFigures {
    /// Those of a part that is judged by one.
    pub(super) fn of_one(limit: &Limit, figure: Sides<u64>) -> Self {
        let limited = JudgedFigure::new(FigureOf::Limited, limit, figure, Sides::default());
        Self { all: vec![limited], is_two_sided: limit.is_two_sided() }
    }

    /// The same with a limit that is higher by the accepted bytes, and that changes of fewer than `least` bytes keep.
    pub(super) fn beyond(&self, accepted: u128, least: u64) -> Self {
        let mut beyond = self.clone();
        let limited = &mut beyond.all[0];
        limited.most = limited.most.saturating_add(i128::try_from(accepted).unwrap_or(i128::MAX));
        limited.most = limited.most.max(i128::from(least) - 1);
        beyond
    }

    /// Whether the sizes of blocks are not certain.
    pub(super) fn are_inexact(&self) -> bool {
        self.all.iter().any(|figure| figure.error > 0)
    }

    /// Bytes gained of what the limit names.
    pub(super) fn delta(&self) -> i128 {
        self.all[0].delta
    }

    /// The first that keeps the part within the limit; `None` if it exceeds that.
    pub(super) fn kept_by(&self) -> Option<FigureOf> {
        let sign = if self.is_two_sided { self.delta().signum() } else { 1 };
        self.all.iter().find(|figure| !figure.is_beyond(sign, 0)).map(|figure| figure.of)
    }

    /// Whether it exceeds the limit, or would if all had changed by as much in the other direction.
    pub(super) fn differ_by_more_than_allowed(&self) -> bool {
        self.all.iter().all(|figure| figure.is_beyond(self.delta().signum(), 0))
    }

    /// The directions in which it may exceed the limit.
    fn signs(&self) -> &'static [i128] {
        if self.is_two_sided { &[1, -1] } else { &[1] }
    }

    /// Whether it exceeds the limit if each figure is off by an error.
    pub(super) fn exceed_within(&self, error: impl Fn(&JudgedFigure) -> i128) -> bool {
        self.signs().iter().any(|sign| self.all.iter().all(|figure| figure.is_beyond(*sign, error(figure))))
    }

    /// The most bytes by which what the limit names may be beyond it, if each figure is off by its error, or by bytes that are not
    /// known; 0 if the part stays within the limit.
    pub(super) fn most_excess(&self, unknown: i128, least: u64) -> i128 {
        let JudgedFigure { delta, most, error, .. } = self.all[0];
        let change = if self.is_two_sided { delta.saturating_abs() } else { delta };
        // Memory of one code may be in several rows.
        let is_possible = self.beyond(0, least).exceed_within(|figure| match figure.of {
            FigureOf::Code => i128::MAX,
            FigureOf::Limited | FigureOf::Highest | FigureOf::Requested => figure.error.max(unknown),
        });
        if is_possible { change.saturating_add(error.max(unknown)).saturating_sub(most) } else { 0 }
    }

    /// The first figure whose error decides whether the part exceeds the limit.
    pub(super) fn in_doubt(&self) -> Option<&JudgedFigure> {
        let exceeds = self.kept_by().is_none();
        let could = if exceeds { self.exceed_within(|of| -of.error) } else { self.exceed_within(|of| of.error) };
        self.all.iter().find(|figure| could != exceeds && figure.may_decide(self.signs(), exceeds))
    }
}

impl Gated<'_> {
    /// The figures by which a row is judged by a limit on stacks; `None` where the one that it names is not known.
    pub(super) fn figures_of(&self, row: &Row) -> Option<JudgedFigures> {
        let limit = &self.growth.limit;
        let of_code = row.joint.as_ref();
        let mut all = Vec::with_capacity(4);
        if self.growth.target.kind == LimitKind::StackHighest {
            all.push(JudgedFigure::new(FigureOf::Limited, limit, row.highest.both()?, row.highest_errors));
            let highest = of_code.and_then(|code| Some((code.highest.both()?, code.highest_errors)));
            all.extend(highest.map(|(of, errors)| JudgedFigure::new(FigureOf::Code, limit, of, errors)));
        } else {
            let held = row.held.map(|held| held.bytes);
            all.push(JudgedFigure::new(FigureOf::Limited, limit, held, row.held_errors));
            // At other moments than the peak, the bytes held then count.
            let highest = row.highest.both().filter(|_| has_rows_at_peak(self.diff));
            all.extend(highest.map(|of| JudgedFigure::new(FigureOf::Highest, limit, of, row.highest_errors)));
            all.extend(row.known_requests().map(JudgedFigure::requested));
            all.extend(of_code.map(|code| JudgedFigure::of_code(limit, code)));
        }
        Some(JudgedFigures { all, is_two_sided: limit.is_two_sided() })
    }
}
