//! Rules that places share which are not neighbours: the pair of items that occurs most often becomes a rule, again and
//! again, over the sequence and the bodies of its loops at once (Larsson and Moffat's Re-Pair).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rustc_hash::FxHashMap;

use super::{Folded, Item, Unit, index};
use crate::interner::Interner;

/// A rule pays for itself from this number of places on.
const LEAST_PLACES: usize = 3;

/// Between sequences, and in place of items that became part of a rule.
const NONE: u32 = u32::MAX;

/// Writes once what occurs several times.
pub(super) fn share(folded: Folded) -> Folded {
    let mut pairs = Pairs::new(&folded);
    while let Some(pair) = pairs.most_frequent() {
        pairs.replace(pair);
    }
    pairs.finish()
}

/// Two items in a row.
type Pair = [u32; 2];

/// The places of a pair.
#[derive(Default)]
struct Places {
    /// Where it was seen; some may be outdated.
    all: Vec<u32>,
    /// Number of those that count.
    count: usize,
}

/// All sequences with their pairs.
struct Pairs {
    /// What the numbers in `at` mean.
    items: Vec<Item>,
    /// The bodies of the rules, which follow the sequences.
    rules: Vec<Vec<Item>>,
    /// The sequences one after another, as numbers of items.
    at: Vec<u32>,
    /// The place before and after each item, past those that are gone.
    previous: Vec<u32>,
    next: Vec<u32>,
    /// Where each sequence begins.
    starts: Vec<u32>,
    places: FxHashMap<Pair, Places>,
    /// Pairs by the number of their places at some time.
    queue: BinaryHeap<(usize, Reverse<Pair>)>,
}

impl Pairs {
    fn new(folded: &Folded) -> Self {
        let mut pairs = Self {
            items: Vec::new(),
            rules: Vec::new(),
            at: Vec::new(),
            previous: Vec::new(),
            next: Vec::new(),
            starts: Vec::new(),
            places: FxHashMap::default(),
            queue: BinaryHeap::new(),
        };
        let mut numbers = Interner::default();
        for sequence in &folded.sequences {
            pairs.starts.push(index(pairs.at.len()));
            for &item in sequence {
                pairs.at.push(numbers.number(&item));
            }
            pairs.at.push(NONE);
        }
        pairs.items = numbers.into_items();
        let length = index(pairs.at.len());
        pairs.previous = (0..length).map(|place| place.checked_sub(1).unwrap_or(NONE)).collect();
        pairs.next = (1..=length).collect();
        for place in 0..length {
            pairs.see(place);
        }
        let queue = pairs.places.iter().map(|(&pair, places)| (places.count, Reverse(pair)));
        pairs.queue = queue.filter(|(count, _)| *count >= LEAST_PLACES).collect();
        pairs
    }

    fn item(&self, place: u32) -> u32 {
        self.at.get(place as usize).copied().unwrap_or(NONE)
    }

    /// The pair that begins at a place, if one does.
    fn pair(&self, place: u32) -> Option<Pair> {
        let first = self.item(place);
        let second = self.item(self.next.get(place as usize).copied().unwrap_or(NONE));
        (first != NONE && second != NONE).then_some([first, second])
    }

    /// Adds the pair that begins at a place.
    fn see(&mut self, place: u32) -> Option<Pair> {
        let pair = self.pair(place)?;
        let places = self.places.entry(pair).or_default();
        places.all.push(place);
        places.count += 1;
        Some(pair)
    }

    /// Takes away the pair that begins at a place.
    fn forget(&mut self, place: u32) {
        if let Some(places) = self.pair(place).and_then(|pair| self.places.get_mut(&pair)) {
            places.count = places.count.saturating_sub(1);
        }
    }

    /// The pair with the most places, where these are enough.
    fn most_frequent(&mut self) -> Option<Pair> {
        while let Some((count, Reverse(pair))) = self.queue.pop() {
            let now = self.places.get(&pair).map_or(0, |places| places.count);
            if now == count {
                return Some(pair);
            }
            if now >= LEAST_PLACES {
                self.queue.push((now, Reverse(pair)));
            }
        }
        None
    }

    /// Makes a pair a rule.
    fn replace(&mut self, pair: Pair) {
        let Some(Places { all, .. }) = self.places.remove(&pair) else { return };
        // Where it overlaps itself, every other place counts.
        let mut end = 0;
        let mut places = all;
        places.retain(|&place| {
            let stays = place >= end && self.pair(place) == Some(pair);
            end = if stays { self.next[place as usize] + 1 } else { end };
            stays
        });
        if places.len() < LEAST_PLACES {
            return;
        }
        let [first, second] = pair.map(|number| self.items[number as usize]);
        let rule = index(self.items.len());
        self.items.push(Item { unit: Unit::Body(index(self.starts.len() + self.rules.len())), count: 1 });
        self.rules.push(vec![first, second]);
        let mut seen = Vec::new();
        for place in places {
            self.merge(place, rule, &mut seen);
        }
        seen.sort_unstable();
        seen.dedup();
        for pair in seen {
            let count = self.places.get(&pair).map_or(0, |places| places.count);
            if count >= LEAST_PLACES {
                self.queue.push((count, Reverse(pair)));
            }
        }
    }

    /// Puts a rule in place of the two items that begin at a place. Adds the pairs that arise.
    fn merge(&mut self, place: u32, rule: u32, seen: &mut Vec<Pair>) {
        let second = self.next[place as usize];
        let after = self.next[second as usize];
        let before = self.previous[place as usize];
        self.forget(before);
        self.forget(second);
        self.at[place as usize] = rule;
        self.at[second as usize] = NONE;
        self.next[place as usize] = after;
        if let Some(previous) = self.previous.get_mut(after as usize) {
            *previous = place;
        }
        seen.extend(self.see(before));
        seen.extend(self.see(place));
    }

    /// The items of the sequence that begins at a place.
    fn sequence(&self, start: u32) -> Vec<Item> {
        let places = std::iter::successors(Some(start), |&place| self.next.get(place as usize).copied());
        places.map_while(|place| self.items.get(self.item(place) as usize).copied()).collect()
    }

    /// The sequences with their rules, but for those that one place alone uses, since they became part of larger ones.
    fn finish(self) -> Folded {
        let sequences = self.starts.iter().map(|&start| self.sequence(start)).chain(self.rules.iter().cloned());
        // Pairs refer to sequences that lie before them: no body holds itself.
        let Some(folded) = Folded::ordered(sequences.collect(), self.starts.len().saturating_sub(1)) else {
            return Folded::default();
        };
        let uses = folded.uses();
        let mut written: Vec<Vec<Item>> = Vec::with_capacity(folded.sequences.len());
        for items in &folded.sequences {
            let items = rewritten(items, &uses, &mut written);
            written.push(items);
        }
        let last = written.len() - 1;
        Folded::ordered(written, last).unwrap_or_default()
    }
}

/// Items with the rules that are used once in their place, and without bodies that are a single item themselves.
fn rewritten(items: &[Item], uses: &[usize], written: &mut [Vec<Item>]) -> Vec<Item> {
    let mut all = Vec::with_capacity(items.len());
    for &item in items {
        match item.body() {
            Some(body) if item.count == 1 && uses[body] == 1 => all.append(&mut written[body]),
            body => {
                let only = body.and_then(|body| written[body].as_slice().first().filter(|_| written[body].len() == 1));
                let rounds = only.and_then(|only| only.count.checked_mul(item.count));
                all.push(only.zip(rounds).map_or(item, |(only, count)| Item { count, ..*only }));
            }
        }
    }
    all
}
