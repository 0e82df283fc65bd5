//! A sequence of symbols, folded: `a b c b c b c d` is `a (b c)*3 d`.
//!
//! A history repeats itself, layer by layer and step by step. Loops alone are brittle: one allocation of another size in
//! a layer takes the loop over layers apart. So what is left of them shares rules: whatever occurs three times or more,
//! neighbours or not, is written once. Folded, a history is as long as the program, however long that ran.

mod rules;
mod tandem;

use std::num::{NonZeroU64, TryFromIntError};

use serde::{Deserialize, Serialize};

/// The most items of a folded sequence. Real programs take up to 3,300; a history with more repeats too little.
pub const MOST_ITEMS: usize = 16_384;

/// Loops may leave this many times as many items for rules to share: swapped neighbours and varied sizes left up to 14
/// times as many.
const ITEMS_FOR_RULES: usize = 16;

/// An item of a folded sequence: a symbol or a body, once or several times in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "SavedItem", try_from = "SavedItem")]
struct FoldItem {
    unit: FoldRound,
    /// Number of rounds, at least 1.
    count: u64,
}

/// One round of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum FoldRound {
    Symbol(u32),
    /// The body of a loop or a rule, as an index into the sequences.
    Body(u32),
}

impl FoldItem {
    /// The body that it refers to.
    fn body(self) -> Option<usize> {
        match self.unit {
            FoldRound::Symbol(_) => None,
            FoldRound::Body(body) => Some(body as usize),
        }
    }
}

/// An item in a file: the number of a symbol, or -1 less that of a body; and how many rounds of it, where there are several.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum SavedItem {
    Once(i64),
    Often(i64, u64),
}

impl From<FoldItem> for SavedItem {
    fn from(FoldItem { unit, count }: FoldItem) -> Self {
        let number = match unit {
            FoldRound::Symbol(symbol) => symbol.into(),
            FoldRound::Body(body) => -1 - i64::from(body),
        };
        if count == 1 { Self::Once(number) } else { Self::Often(number, count) }
    }
}

impl TryFrom<SavedItem> for FoldItem {
    type Error = TryFromIntError;

    fn try_from(saved: SavedItem) -> Result<Self, Self::Error> {
        let (number, count) = match saved {
            SavedItem::Once(number) => (number, 1),
            SavedItem::Often(number, count) => (number, NonZeroU64::try_from(count)?.get()),
        };
        let body = u32::try_from(-1 - number).map(FoldRound::Body);
        Ok(Self { unit: body.or_else(|_| u32::try_from(number).map(FoldRound::Symbol))?, count })
    }
}

/// A folded sequence of symbols.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Folded {
    /// The bodies, and last the sequence itself. Each refers only to those before it, and no body is empty.
    sequences: Vec<Vec<FoldItem>>,
}

/// The state of a sequence while all are put in order.
#[derive(Clone, Copy)]
enum OrderState {
    New,
    Open,
    Placed(u32),
}

impl Folded {
    /// Folds a sequence of symbols. `None` where more than `most` items would be left.
    pub fn new(symbols: &[u32], most: usize) -> Option<Self> {
        let looped = tandem::fold(symbols, most.saturating_mul(ITEMS_FOR_RULES))?;
        Some(rules::share(looped)).filter(|folded| folded.size() <= most)
    }

    /// Puts sequences in order, without those that the one at `root` does not need. None contains itself.
    fn ordered(mut sequences: Vec<Vec<FoldItem>>, root: usize) -> Self {
        let mut states = vec![OrderState::New; sequences.len()];
        let mut ordered: Vec<Vec<FoldItem>> = Vec::with_capacity(sequences.len());
        // No recursion: rules may be nested as deeply as there are rules.
        let mut open = vec![root];
        while let Some(&at) = open.last() {
            match states[at] {
                OrderState::New => {
                    states[at] = OrderState::Open;
                    for inner in sequences[at].iter().filter_map(|item| item.body()) {
                        if let OrderState::New = states[inner] {
                            open.push(inner);
                        }
                    }
                }
                OrderState::Open => {
                    for item in &mut sequences[at] {
                        if let Some(OrderState::Placed(place)) = item.body().map(|body| states[body]) {
                            item.unit = FoldRound::Body(place);
                        }
                    }
                    states[at] = OrderState::Placed(index(ordered.len()));
                    ordered.push(std::mem::take(&mut sequences[at]));
                    open.pop();
                }
                OrderState::Placed(_) => {
                    open.pop();
                }
            }
        }
        Self { sequences: ordered }
    }

    /// The items of the sequence itself.
    fn items(&self) -> &[FoldItem] {
        self.sequences.last().map_or(&[], Vec::as_slice)
    }

    /// Number of items, those of bodies included.
    pub fn size(&self) -> usize {
        self.sequences.iter().map(Vec::len).sum()
    }

    /// How many places refer to each body.
    fn uses(&self) -> Vec<usize> {
        let mut uses = vec![0; self.sequences.len()];
        self.sequences.iter().flatten().filter_map(|item| item.body()).for_each(|body| uses[body] += 1);
        uses
    }

    /// The number of symbols that it expands to; `None` where 64 bits do not hold it, and in a file that was edited: where it
    /// has other symbols than the first `symbols`, or bodies that would take more time than they have symbols.
    pub fn length(&self, symbols: usize) -> Option<u64> {
        let units = self.sequences.iter().flatten().map(|item| item.unit);
        let are_known =
            units.clone().all(|unit| !matches!(unit, FoldRound::Symbol(symbol) if symbol as usize >= symbols));
        let bodies = self.sequences.split_last().map_or(&[][..], |(_, bodies)| bodies);
        let are_long = bodies.iter().all(|items| items.len() > 1);
        if are_known && are_long { self.lengths().pop().unwrap_or(Some(0)) } else { None }
    }

    /// The number of symbols that each sequence expands to.
    fn lengths(&self) -> Vec<Option<u64>> {
        let mut lengths = Vec::with_capacity(self.sequences.len());
        for items in &self.sequences {
            let length = items.iter().try_fold(0_u64, |sum, item| sum.checked_add(length(*item, &lengths)?));
            lengths.push(length);
        }
        lengths
    }

    /// The loop that expands to most symbols: where it starts, how long a round is, and how many rounds there are.
    pub fn longest_loop(&self) -> Option<[u64; 3]> {
        let lengths = self.lengths();
        let mut start = 0_u64;
        let mut longest: Option<[u64; 3]> = None;
        for &item in self.items() {
            let all = length(item, &lengths)?;
            if item.count > 1 && longest.is_none_or(|[_, round, count]| round * count < all) {
                longest = Some([start, all / item.count, item.count]);
            }
            start = start.checked_add(all)?;
        }
        longest
    }

    /// The symbols, one by one.
    pub fn unfolded(&self) -> impl Iterator<Item = u32> {
        // The items that are left of the bodies around the next symbol, and how often the first of them was there.
        let mut open = vec![(self.items(), 0)];
        std::iter::from_fn(move || {
            loop {
                let (items, rounds) = open.last_mut()?;
                let Some(&FoldItem { unit, count }) = items.first() else {
                    open.pop();
                    continue;
                };
                *rounds += 1;
                if *rounds == count {
                    *items = &items[1..];
                    *rounds = 0;
                }
                match unit {
                    FoldRound::Symbol(symbol) => return Some(symbol),
                    FoldRound::Body(body) => open.push((&self.sequences[body as usize], 0)),
                }
            }
        })
    }
}

/// The number of symbols that an item expands to; `None` where 64 bits do not hold it. An outer body may use such an
/// inner one only if it does not fit itself, as no count is 0.
fn length(item: FoldItem, lengths: &[Option<u64>]) -> Option<u64> {
    item.body().map_or(Some(1), |body| *lengths.get(body)?)?.checked_mul(item.count)
}

fn index(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
