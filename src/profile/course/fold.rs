//! A sequence with its loops folded: `a b c b c b c d` is `a (b c)*3 d`.
//!
//! A history repeats itself, layer by layer and step by step. Folded, it is as long as the program, however long that
//! ran.

mod places;

use rustc_hash::FxHashMap;

use places::{Due, Last};

/// An item of a folded sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Entry {
    /// One symbol.
    One(u32),
    /// A body, several times.
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
    /// The sequence.
    pub entries: Vec<Entry>,
    /// The bodies of loops; each refers to those before it alone.
    pub bodies: Vec<Vec<Entry>>,
}

/// The most places that are tried as the start of a repetition, per entry.
const MOST_CANDIDATES: usize = 8;

/// The base of the rolling hash; any large odd number does.
const BASE: u64 = 0x9E37_79B9_7F4A_7C15;

impl Folded {
    /// Folds a sequence of symbols. `None` where more than `most` entries would be left.
    #[must_use]
    pub fn new(symbols: impl IntoIterator<Item = u32>, most: usize) -> Option<Self> {
        let mut folder = Folder::default();
        let mut symbols = symbols.into_iter().peekable();
        while let Some(symbol) = symbols.next() {
            // Most loops are of one symbol: they need no search.
            let mut count = 1;
            while symbols.next_if_eq(&symbol).is_some() {
                count += 1;
            }
            let entry = match count {
                1 => Entry::One(symbol),
                _ => Entry::Loop { body: folder.body(&[Entry::One(symbol)]), count },
            };
            folder.push(entry);
            if folder.size > most {
                return None;
            }
        }
        Some(folder.finish())
    }

    /// The same sequence with other symbols, of which several may become one.
    #[must_use]
    pub fn renamed(&self, name: impl Fn(u32) -> u32) -> Self {
        let mut folder = Folder::default();
        let mut renamed: Vec<Entry> = Vec::with_capacity(self.bodies.len());
        for body in &self.bodies {
            body.iter().for_each(|&entry| folder.push(rename(entry, &renamed, &name)));
            let entries = folder.take();
            renamed.push(match entries[..] {
                [one @ Entry::Loop { .. }] => one,
                _ => Entry::Loop { body: folder.body(&entries), count: 1 },
            });
        }
        self.entries.iter().for_each(|&entry| folder.push(rename(entry, &renamed, &name)));
        folder.finish()
    }

    /// The number of symbols that every body stands for.
    #[must_use]
    pub fn lengths(&self) -> Vec<u64> {
        let mut lengths = Vec::with_capacity(self.bodies.len());
        for body in &self.bodies {
            lengths.push(length(body, &lengths));
        }
        lengths
    }

    /// The number of symbols that it stands for.
    #[must_use]
    pub fn length(&self) -> u64 {
        length(&self.entries, &self.lengths())
    }
}

impl Entry {
    /// The number of symbols that it stands for.
    pub(super) fn length(self, lengths: &[u64]) -> u64 {
        match self {
            Self::One(_) => 1,
            Self::Loop { body, count } => count.saturating_mul(lengths[body as usize]),
        }
    }

    /// The same where bodies have new places.
    fn moved(self, places: &[u32]) -> Self {
        match self {
            Self::Loop { body, count } => Self::Loop { body: places[body as usize], count },
            one @ Self::One(_) => one,
        }
    }
}

fn rename(entry: Entry, renamed: &[Entry], name: &impl Fn(u32) -> u32) -> Entry {
    match entry {
        Entry::One(symbol) => Entry::One(name(symbol)),
        Entry::Loop { body, count } => match renamed[body as usize] {
            Entry::Loop { body, count: inner } => Entry::Loop { body, count: count.saturating_mul(inner) },
            one @ Entry::One(_) => one,
        },
    }
}

/// The number of symbols that entries stand for.
pub(super) fn length(entries: &[Entry], lengths: &[u64]) -> u64 {
    entries.iter().map(|entry| entry.length(lengths)).fold(0, u64::saturating_add)
}

/// The sequence folded so far.
#[derive(Debug, Default)]
struct Folder {
    out: Vec<Entry>,
    /// For each entry the latest equal one before it.
    earlier: Vec<Option<u32>>,
    last: Last,
    /// A hash of all entries up to each.
    hashes: Vec<u64>,
    powers: Vec<u64>,
    due: Due,
    bodies: Vec<Vec<Entry>>,
    known: FxHashMap<Vec<Entry>, u32>,
    /// Entries, those of bodies included.
    size: usize,
}

impl Folder {
    fn push(&mut self, entry: Entry) {
        self.append(entry);
        while self.fold_once() {}
    }

    fn append(&mut self, entry: Entry) {
        let at = index(self.out.len());
        let before = self.hashes.last().copied().unwrap_or(0);
        self.hashes.push(before.wrapping_mul(BASE).wrapping_add(digest(entry)));
        if self.powers.len() < self.hashes.len() + 1 {
            let power = self.powers.last().map_or(1, |power: &u64| power.wrapping_mul(BASE));
            self.powers.push(power);
        }
        self.earlier.push(self.last.set(entry, Some(at)));
        self.out.push(entry);
        self.size += 1;
        if let Entry::Loop { body, .. } = entry {
            self.due.push(self.out.len() + self.bodies[body as usize].len(), at);
        }
    }

    /// Takes entries off the end.
    fn cut(&mut self, left: usize) {
        while self.out.len() > left {
            let (Some(entry), Some(earlier)) = (self.out.pop(), self.earlier.pop()) else { return };
            self.hashes.pop();
            self.size -= 1;
            self.last.set(entry, earlier);
            if let Entry::Loop { body, .. } = entry {
                self.due.pop(self.out.len() + 1 + self.bodies[body as usize].len());
            }
        }
    }

    /// Takes all entries.
    fn take(&mut self) -> Vec<Entry> {
        let entries = self.out.clone();
        self.cut(0);
        entries
    }

    /// A hash of the entries from `from` to `to`.
    fn hash(&self, from: usize, to: usize) -> u64 {
        self.hash_until(to).wrapping_sub(self.hash_until(from).wrapping_mul(self.power(to - from)))
    }

    /// A hash of the entries before a place.
    fn hash_until(&self, at: usize) -> u64 {
        at.checked_sub(1).map_or(0, |last| self.hashes[last])
    }

    fn power(&self, exponent: usize) -> u64 {
        self.powers.get(exponent).copied().unwrap_or(0)
    }

    /// Folds the end of the sequence if that is one more round of a loop. Returns true if it is.
    fn fold_once(&mut self) -> bool {
        self.next_round() || self.round_before() || self.second_round()
    }

    /// One more round of a loop that is there already.
    fn next_round(&mut self) -> bool {
        let Some((at, more)) = self.complete_loop() else { return false };
        self.cut(at);
        self.append(more);
        true
    }

    /// The loop of which another round is complete, with that round.
    fn complete_loop(&self) -> Option<(usize, Entry)> {
        let end = self.out.len();
        self.due.at(end).find_map(|at| match self.out[at] {
            Entry::Loop { body, count } if self.bodies[body as usize] == self.out[at + 1..end] => {
                Some((at, Entry::Loop { body, count: count.saturating_add(1) }))
            }
            Entry::Loop { .. } | Entry::One(_) => None,
        })
    }

    /// A loop of which a round, or a loop, comes right before it, where symbols were renamed.
    fn round_before(&mut self) -> bool {
        let Some((&Entry::Loop { body, count }, before)) = self.out.split_last() else { return false };
        let round = &self.bodies[body as usize];
        let more = match before {
            [.., Entry::Loop { body: again, count }] if *again == body => Some((1, *count)),
            _ if before.ends_with(round) => Some((round.len(), 1)),
            _ => None,
        };
        if let Some((entries, more)) = more {
            self.cut(self.out.len() - 1 - entries);
            self.append(Entry::Loop { body, count: count.saturating_add(more) });
        }
        more.is_some()
    }

    /// The first repetition of what comes before it.
    fn second_round(&mut self) -> bool {
        let end = self.out.len();
        let mut earlier = self.earlier.last().copied().flatten();
        for _ in 0..MOST_CANDIDATES {
            let Some(at) = earlier else { return false };
            let length = end - 1 - at as usize;
            let Some(start) = end.checked_sub(2 * length) else { return false };
            let middle = end - length;
            let is_same =
                self.hash(start, middle) == self.hash(middle, end) && self.out[start..middle] == self.out[middle..end];
            if is_same {
                let entries = self.out[middle..].to_vec();
                self.cut(start);
                let folded = match entries[..] {
                    [Entry::Loop { body, count }] => Entry::Loop { body, count: count.saturating_mul(2) },
                    _ => Entry::Loop { body: self.body(&entries), count: 2 },
                };
                self.append(folded);
                return true;
            }
            earlier = self.earlier[at as usize];
        }
        false
    }

    fn body(&mut self, entries: &[Entry]) -> u32 {
        if let Some(&body) = self.known.get(entries) {
            return body;
        }
        let body = index(self.bodies.len());
        self.bodies.push(entries.to_vec());
        self.known.insert(entries.to_vec(), body);
        self.size += entries.len();
        body
    }

    /// The sequence, with the bodies that it needs alone.
    fn finish(self) -> Folded {
        let mut needed = vec![false; self.bodies.len()];
        mark(&self.out, &mut needed);
        for body in (0..self.bodies.len()).rev() {
            if needed[body] {
                mark(&self.bodies[body], &mut needed);
            }
        }
        Folded { entries: self.out, bodies: self.bodies }.without(&needed)
    }
}

impl Folded {
    /// Leaves out the bodies that are not needed.
    fn without(self, needed: &[bool]) -> Self {
        let mut places = Vec::with_capacity(needed.len());
        let mut next = 0;
        for needed in needed {
            places.push(next);
            next += u32::from(*needed);
        }
        let bodies = self.bodies.into_iter().zip(needed).filter(|(_, needed)| **needed);
        let bodies = bodies.map(|(body, _)| moved(&body, &places)).collect();
        Self { entries: moved(&self.entries, &places), bodies }
    }
}

/// The entries where bodies have new places.
fn moved(entries: &[Entry], places: &[u32]) -> Vec<Entry> {
    entries.iter().map(|entry| entry.moved(places)).collect()
}

/// Marks the bodies that entries refer to.
fn mark(entries: &[Entry], needed: &mut [bool]) {
    for entry in entries {
        if let Entry::Loop { body, .. } = entry {
            needed[*body as usize] = true;
        }
    }
}

fn index(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

fn digest(entry: Entry) -> u64 {
    match entry {
        Entry::One(symbol) => mixed(1, symbol, 0),
        Entry::Loop { body, count } => mixed(2, body, count),
    }
}

fn mixed(kind: u64, value: u32, count: u64) -> u64 {
    let mixed = (u64::from(value) << 2 | kind).wrapping_mul(0xD6E8_FEB8_6659_FD93) ^ count.wrapping_mul(BASE);
    (mixed ^ mixed >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Letters as symbols.
    fn folded(text: &str) -> Folded {
        Folded::new(text.bytes().map(u32::from), usize::MAX).unwrap()
    }

    fn show(folded: &Folded, entries: &[Entry]) -> String {
        entries.iter().map(|&entry| show_entry(folded, entry)).collect()
    }

    fn show_entry(folded: &Folded, entry: Entry) -> String {
        match entry {
            Entry::One(symbol) => char::from_u32(symbol).unwrap().to_string(),
            Entry::Loop { body, count } => format!("({})*{count}", show(folded, &folded.bodies[body as usize])),
        }
    }

    /// The text with y in place of z.
    fn renamed(text: &str) -> String {
        let renamed = folded(text).renamed(|symbol| if symbol == u32::from('z') { u32::from('y') } else { symbol });
        assert_eq!(renamed.length(), text.len() as u64);
        show(&renamed, &renamed.entries)
    }

    fn text(text: &str) -> String {
        let folded = folded(text);
        assert_eq!(folded.length(), text.len() as u64);
        show(&folded, &folded.entries)
    }

    #[test]
    fn loops_are_folded() {
        assert_eq!(text("abcabcabcd"), "(abc)*3d");
        assert_eq!(text("aaaa"), "(a)*4");
        assert_eq!(text("xabbabby"), "x(a(b)*2)*2y");
        assert_eq!(text("abc"), "abc");
        assert_eq!(text(&"ab".repeat(1000)), "(ab)*1000");
        assert_eq!(
            text(&("s".to_owned() + &("f".repeat(24) + "h" + &"bc".repeat(24)).repeat(3))),
            "s((f)*24h(bc)*24)*3"
        );
    }

    #[test]
    fn what_is_renamed_is_folded_again() {
        assert_eq!(renamed(&"yz".repeat(10)), "(y)*20");
        assert_eq!(renamed(&"ayzb".repeat(3)), "(a(y)*2b)*3");
        assert_eq!(renamed("yyyzzz"), "(y)*6");
    }

    #[test]
    fn what_does_not_repeat_has_a_bound() {
        assert_eq!(Folded::new(0..100, 99), None);
        assert_eq!(Folded::new(0..100, 100).unwrap().length(), 100);
    }
}
