//! The trace in the file: the classes of each stack, and the moves as folded text. `+a` hands out a block of class `a`,
//! `?a` requests its free, `!a` completes it, `~a` is both in a row, `-a` does both at once; `-a.2` takes the third newest.
//! `!a+b` hands out a block where another one ends, `^512` and `_512` are segments that come and go, `.` changes nothing.

use std::collections::{HashMap, HashSet};

use ptmem_base::interner::Interner;
use ptmem_snapshot::snapshot::Tables;

use super::Error;
use super::format::{SavedClass, SavedTrace};
use crate::trace::fold::{Folded, Malformed, free_name};
use crate::trace::{Block, Class, ClassTags, Move, Origin, Spread, Start, Trace};

/// The most moves of a trace that is saved, and that a file can claim to hold: a few lines may stand for any number.
pub(super) const MOST_MOVES: u64 = 1 << 24;

/// The most blocks that a file can claim to be there at the start.
const MOST_BLOCKS: u64 = 1 << 24;

/// A move with the rank of the block that it ends, and whether the completion of the free that it requests comes next.
type Word = (Move, u32, bool);

/// The completion of the free that a move requests, where that is the newest one.
fn completion(one: Move) -> Option<(Move, u32)> {
    one.ends().filter(|_| one.completes().is_none()).map(|block| (Move::Free(Block { pending: true, ..block }), 0))
}

/// The moves of a history as words, each once, and as the numbers of words.
fn words(trace: &Trace) -> (Vec<Word>, Vec<u32>) {
    let mut ranks = trace.ranks().into_iter();
    let ranked = trace.all_moves().map(|one| (one, one.ends().and_then(|_| ranks.next()).unwrap_or(0)));
    let mut ranked = ranked.peekable();
    let mut words = Interner::default();
    let mut symbols = Vec::with_capacity(trace.symbols.len());
    while let Some((one, rank)) = ranked.next() {
        let is_completed = completion(one).is_some_and(|next| ranked.next_if_eq(&next).is_some());
        symbols.push(words.number(&(one, rank, is_completed)));
    }
    (words.into_items(), symbols)
}

/// A history, folded.
#[derive(Default)]
pub(super) struct Kept {
    words: Vec<Word>,
    folded: Folded,
}

impl Kept {
    /// `None` where more than `most` items would be left, as it repeats too little.
    pub(super) fn new(trace: &Trace, most: usize) -> Option<Self> {
        let (words, symbols) = words(trace);
        Folded::new(&symbols, most).map(|folded| Self { words, folded })
    }

    /// The trace in the file, where the classes go by these names.
    pub(super) fn saved(&self, trace: &Trace, names: &[String]) -> SavedTrace {
        let texts: Vec<String> = self.words.iter().map(|&one| text(one, names)).collect();
        SavedTrace {
            reserved: i64::try_from(trace.reserved).unwrap_or_default(),
            implied: trace.implied.len() as u64,
            moves: self.folded.lines(&texts),
        }
    }
}

/// Names of classes, which depend only on the contents of a class. `stacks` has the contents of the stack of every
/// class.
pub(super) fn names(classes: &[Class], stacks: &[String], tables: &Tables) -> Vec<String> {
    let contents: Vec<String> =
        classes.iter().zip(stacks).map(|(class, stack)| content(class, stack, tables)).collect();
    let mut order: Vec<usize> = (0..classes.len()).collect();
    order.sort_by_key(|&class| &contents[class]);
    let mut names = vec![String::new(); classes.len()];
    let mut taken = HashSet::new();
    for class in order {
        let name = free_name(&[&*contents[class]], 2, |name| taken.contains(name));
        taken.insert(name.clone());
        names[class] = name;
    }
    names
}

fn text((one, rank, is_completed): Word, names: &[String]) -> String {
    let suffix = if rank == 0 { String::new() } else { format!(".{rank}") };
    match one {
        Move::Nothing => ".".to_owned(),
        Move::Alloc(class) => format!("+{}", names[class as usize]),
        Move::Request(class) => {
            format!("{}{}{suffix}", if is_completed { '~' } else { '?' }, names[class as usize])
        }
        Move::Free(gone) => format!("{}{suffix}", end(gone, names)),
        Move::Replace(gone, class) => format!("{}{suffix}+{}", end(gone, names), names[class as usize]),
        Move::Reserve(bytes) => format!("^{bytes}"),
        Move::Release(bytes) => format!("_{bytes}"),
    }
}

/// The free of a block, without its rank.
fn end(Block { class, pending }: Block, names: &[String]) -> String {
    format!("{}{}", if pending { '!' } else { '-' }, names[class as usize])
}

/// The key of a class.
fn content(class: &Class, stack: &str, tables: &Tables) -> String {
    let Class { bytes, requested, spread, maybe_pending, .. } = class;
    format!("{stack} {bytes} {requested} {spread:?} {maybe_pending} {:?}", tags(class, tables))
}

/// The tags that a file keeps.
fn tags(class: &Class, tables: &Tables) -> ClassTags<String> {
    ClassTags { origin: None, ..class.tags }.map(|tag| tables.string(*tag).to_owned())
}

impl SavedClass {
    pub(super) fn new(class: &Class, start: Start, tables: &Tables) -> Self {
        let Class { bytes, requested, spread: Spread { below, above }, .. } = *class;
        let unrequested = bytes.wrapping_sub(requested);
        let [held, pending] = [start.allocated, start.pending].map(u64::from);
        let mut numbers = vec![bytes, unrequested, below, above, held, pending, class.maybe_pending.into()];
        while numbers.len() > 1 && numbers.last() == Some(&0) {
            numbers.pop();
        }
        Self(numbers, tags(class, tables))
    }
}

/// The classes of a device that are read.
#[derive(Default)]
pub(super) struct Classes {
    all: Vec<Class>,
    start: Vec<Start>,
    by_name: HashMap<String, u32>,
}

impl Classes {
    /// Takes in a class of a stack.
    pub(super) fn add(
        &mut self,
        name: &str,
        SavedClass(numbers, tags): &SavedClass,
        (origin, cpp): (Origin, Option<u64>),
        tables: &mut Tables,
    ) {
        let mut all = [0; 7];
        all.iter_mut().zip(numbers).for_each(|(known, &number)| *known = number);
        let [bytes, unrequested, below, above, held, pending, maybe_pending] = all;
        // A trace with more blocks than fit is refused later.
        let [allocated, pending] = [held, pending].map(|blocks| u32::try_from(blocks).unwrap_or(u32::MAX));
        self.by_name.insert(name.to_owned(), u32::try_from(self.all.len()).unwrap_or(u32::MAX));
        self.start.push(Start { allocated, pending });
        self.all.push(Class {
            origin,
            bytes,
            requested: bytes.wrapping_sub(unrequested),
            spread: Spread { below, above },
            maybe_pending: maybe_pending != 0,
            tags: tags.map(|text| tables.intern_string(text)),
            cpp,
        });
    }

    /// The trace of a device with this number of events.
    pub(super) fn trace(self, saved: &SavedTrace, events: u64, place: &str) -> Result<Trace, Error> {
        let blocks: u64 = self.start.iter().map(|start| u64::from(start.allocated) + u64::from(start.pending)).sum();
        let length = events.checked_add(saved.implied).filter(|&length| length <= MOST_MOVES);
        let length = length.filter(|_| blocks <= MOST_BLOCKS);
        let length = length
            .ok_or_else(|| wrong(place, "is longer than one can be, or has more blocks than a device can hold"))?;
        let (folded, texts) = Folded::parse(&saved.moves, length).map_err(|error| unreadable(place, &error))?;
        let mut words = Vec::with_capacity(texts.len());
        for text in &texts {
            words.push(parse(text, &self.by_name).ok_or_else(|| unreadable(place, &Malformed::word(text)))?);
        }
        let mut moves = Interner::default();
        let mut symbols = Vec::new();
        let mut ranks = Vec::new();
        for (one, rank, is_completed) in folded.unfolded().map(|word| words[word as usize]) {
            let completion = completion(one).filter(|_| is_completed);
            for (one, rank) in [(one, rank)].into_iter().chain(completion) {
                symbols.push(moves.number(&one));
                ranks.extend(one.ends().map(|_| rank));
            }
        }
        if symbols.len() as u64 != length {
            return Err(wrong(place, "has not one move for each event"));
        }
        let implied = symbols.split_off(usize::try_from(events).unwrap_or(usize::MAX));
        let mut trace = Trace {
            classes: self.all,
            moves: moves.into_items(),
            symbols,
            implied,
            start: self.start,
            reserved: saved.reserved.into(),
            ended: Vec::new(),
        };
        trace.ended = trace.ended_by_rank(&ranks).ok_or_else(|| wrong(place, "frees a block that is not there"))?;
        Ok(trace)
    }
}

fn wrong(place: &str, what: &str) -> Error {
    Error::Damaged(format!("the trace of {place} {what}"))
}

fn unreadable(place: &str, error: &Malformed) -> Error {
    wrong(place, &format!("cannot be read: {error}"))
}

/// Reads a word.
fn parse(word: &str, classes: &HashMap<String, u32>) -> Option<Word> {
    let sign = word.chars().next()?;
    let rest = &word[sign.len_utf8()..];
    let (one, rank) = match sign {
        '.' if rest.is_empty() => (Move::Nothing, 0),
        '+' => (Move::Alloc(*classes.get(rest)?), 0),
        '^' => (Move::Reserve(rest.parse().ok()?), 0),
        '_' => (Move::Release(rest.parse().ok()?), 0),
        '?' | '~' => {
            let (name, rank) = ranked(rest)?;
            (Move::Request(*classes.get(name)?), rank)
        }
        '!' | '-' => {
            let (gone, begun) = rest.split_once('+').map_or((rest, None), |(gone, begun)| (gone, Some(begun)));
            let (name, rank) = ranked(gone)?;
            let gone = Block { class: *classes.get(name)?, pending: sign == '!' };
            match begun {
                Some(begun) => (Move::Replace(gone, *classes.get(begun)?), rank),
                None => (Move::Free(gone), rank),
            }
        }
        _ => return None,
    };
    Some((one, rank, sign == '~'))
}

/// A name and the rank behind it.
fn ranked(text: &str) -> Option<(&str, u32)> {
    match text.split_once('.') {
        Some((name, rank)) => Some((name, rank.parse().ok()?)),
        None => Some((text, 0)),
    }
}
