//! A sequence of symbols, folded: `a b c b c b c d` is `a (b c)*3 d`.
//!
//! A history repeats itself, layer by layer and step by step. Loops alone are brittle: one allocation of another size in
//! a layer takes the loop over layers apart. So what is left of them shares rules: whatever occurs three times or more,
//! neighbours or not, is written once. Folded, a history is as long as the program, however long that ran.

mod order;
mod rules;
mod tandem;
mod text;

pub use text::Malformed;
pub(crate) use text::free_name;

/// The most items of a folded sequence. Real programs take up to 3,300; a history with more repeats too little.
pub const MOST_ITEMS: usize = 16_384;

/// Loops may leave this many times as many items for rules to share: swapped neighbours and varied sizes left up to 14
/// times as many.
const ITEMS_FOR_RULES: usize = 16;

/// An item of a folded sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Item {
    /// One symbol.
    One(u32),
    /// A body, once or several times in a row.
    Loop {
        /// Index into [`Folded::bodies`].
        body: u32,
        /// Number of rounds, at least 1.
        count: u64,
    },
}

/// A folded sequence of symbols.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Folded {
    items: Vec<Item>,
    /// What loops and rules stand for; each refers to those before it alone, and none is empty.
    bodies: Vec<Vec<Item>>,
}

impl Folded {
    /// Folds a sequence of symbols. `None` where more than [`MOST_ITEMS`] items would be left.
    #[must_use]
    pub fn new(symbols: &[u32]) -> Option<Self> {
        let looped = tandem::fold(symbols, MOST_ITEMS * ITEMS_FOR_RULES)?;
        Some(rules::share(looped)).filter(|folded| folded.size() <= MOST_ITEMS)
    }

    /// Folds a sequence of symbols, however little repeats.
    #[must_use]
    pub fn of_any(symbols: &[u32]) -> Self {
        rules::share(tandem::fold(symbols, usize::MAX).unwrap_or_default())
    }

    /// The sequence.
    #[must_use]
    pub fn items(&self) -> &[Item] {
        &self.items
    }

    /// The bodies of loops and rules; each refers to those before it alone.
    #[must_use]
    pub fn bodies(&self) -> &[Vec<Item>] {
        &self.bodies
    }

    /// Number of items, those of bodies included.
    #[must_use]
    pub fn size(&self) -> usize {
        self.items.len() + self.bodies.iter().map(Vec::len).sum::<usize>()
    }

    /// How many places refer to each body.
    fn uses(&self) -> Vec<usize> {
        let mut uses = vec![0; self.bodies.len()];
        for item in self.bodies.iter().flatten().chain(&self.items) {
            if let Item::Loop { body, .. } = item {
                uses[*body as usize] += 1;
            }
        }
        uses
    }

    /// The number of symbols that it stands for; `None` where 64 bits do not hold it.
    #[must_use]
    pub fn length(&self) -> Option<u64> {
        length(&self.items, &self.lengths())
    }

    /// The number of symbols that each body stands for.
    fn lengths(&self) -> Vec<Option<u64>> {
        let mut lengths = Vec::with_capacity(self.bodies.len());
        for body in &self.bodies {
            lengths.push(length(body, &lengths));
        }
        lengths
    }

    /// The loop that stands for most symbols: where it starts, how long a round is, and how many rounds there are.
    #[must_use]
    pub fn longest_loop(&self) -> Option<[u64; 3]> {
        let lengths = self.lengths();
        let mut start = 0_u64;
        let mut longest: Option<[u64; 3]> = None;
        for item in &self.items {
            let all = length(&[*item], &lengths)?;
            if let Item::Loop { body, count } = *item
                && count > 1
                && longest.is_none_or(|[_, round, count]| round * count < all)
            {
                longest = Some([start, lengths[body as usize]?, count]);
            }
            start = start.checked_add(all)?;
        }
        longest
    }

    /// The symbols, one by one.
    #[must_use]
    pub fn unfolded(&self) -> Unfolded<'_> {
        Unfolded { bodies: &self.bodies, open: vec![Round { items: &self.items, at: 0, left: 0 }] }
    }
}

/// The number of symbols that items stand for; `None` where 64 bits do not hold it. An outer body may use such an inner
/// one only if it does not fit itself, as no count is 0.
fn length(items: &[Item], lengths: &[Option<u64>]) -> Option<u64> {
    items.iter().try_fold(0_u64, |sum, item| {
        let length = match *item {
            Item::One(_) => 1,
            Item::Loop { body, count } => lengths[body as usize]?.checked_mul(count)?,
        };
        sum.checked_add(length)
    })
}

/// The symbols of a folded sequence, without a copy of them.
#[derive(Debug, Clone)]
pub struct Unfolded<'f> {
    bodies: &'f [Vec<Item>],
    /// The bodies around the next symbol.
    open: Vec<Round<'f>>,
}

/// A body in one of its rounds.
#[derive(Debug, Clone)]
struct Round<'f> {
    items: &'f [Item],
    at: usize,
    /// Rounds that follow.
    left: u64,
}

impl Iterator for Unfolded<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        loop {
            let round = self.open.last_mut()?;
            let item = round.items.get(round.at).copied();
            round.at += 1;
            match item {
                Some(Item::One(symbol)) => return Some(symbol),
                Some(Item::Loop { body, count }) => {
                    self.open.push(Round { items: &self.bodies[body as usize], at: 0, left: count - 1 });
                }
                None if round.left > 0 => {
                    round.left -= 1;
                    round.at = 0;
                }
                None => {
                    self.open.pop();
                }
            }
        }
    }
}

fn index(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
