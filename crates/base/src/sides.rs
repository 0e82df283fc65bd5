//! The two sides of a comparison.

use std::ops::Add;
use std::thread;

/// One side of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, strum::Display, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Side {
    /// The code base as it was.
    Before,
    /// The code base with the change.
    After,
}

crate::named!(Side);

impl Side {
    /// Both, the before first.
    pub const BOTH: [Self; 2] = [Self::Before, Self::After];

    /// The side that it is compared with.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::Before => Self::After,
            Self::After => Self::Before,
        }
    }
}

/// Something that may exist before, after, or on both sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct Sides<T> {
    /// In the before.
    pub before: T,
    /// In the after.
    pub after: T,
}

impl Sides<Side> {
    /// Each side by itself.
    pub const BOTH: Self = Self { before: Side::Before, after: Side::After };
}

impl<T: Copy + Into<i128>> Sides<T> {
    /// Gain from the before to the after.
    pub fn delta(&self) -> i128 {
        self.after.into() - self.before.into()
    }
}

impl<T: Add<Output = T>> Sides<T> {
    /// The sum on each side.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self { before: self.before + other.before, after: self.after + other.after }
    }
}

impl<T> Sides<T> {
    /// Applies `f` to each side.
    pub fn map<'s, U>(&'s self, mut f: impl FnMut(&'s T) -> U) -> Sides<U> {
        Sides { before: f(&self.before), after: f(&self.after) }
    }

    /// Each value with the other of its side.
    pub fn zip<U>(self, other: Sides<U>) -> Sides<(T, U)> {
        Sides { before: (self.before, other.before), after: (self.after, other.after) }
    }

    /// Applies `f` to both sides at the same time.
    pub fn map_at_once<'s, U: Send>(&'s self, f: impl Fn(&'s T) -> U + Sync) -> Sides<U>
    where
        T: Sync,
    {
        thread::scope(|scope| {
            let before = scope.spawn(|| f(&self.before));
            let after = f(&self.after);
            let before = before.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            Sides { before, after }
        })
    }

    /// The value of one side.
    pub fn of(&self, side: Side) -> &T {
        match side {
            Side::Before => &self.before,
            Side::After => &self.after,
        }
    }

    /// The value of one side, to be changed.
    pub fn of_mut(&mut self, side: Side) -> &mut T {
        match side {
            Side::Before => &mut self.before,
            Side::After => &mut self.after,
        }
    }

    /// Both values with their sides, the before first.
    pub fn each(&self) -> [(Side, &T); 2] {
        Side::BOTH.map(|side| (side, self.of(side)))
    }
}

impl Sides<Option<u64>> {
    /// Gain from the before to the after; `None` where a side is not known.
    pub fn gained(self) -> Option<i128> {
        Some(self.both()?.delta())
    }
}

impl<T> Sides<Option<T>> {
    /// Both values, where both sides have one.
    pub fn both(self) -> Option<Sides<T>> {
        Some(Sides { before: self.before?, after: self.after? })
    }

    /// The first side that has no value.
    pub fn missing(&self) -> Option<Side> {
        Side::BOTH.into_iter().find(|side| self.of(*side).is_none())
    }
}
