//! The trace in the file: the classes of each stack, and the moves as folded text. `+a` hands out a block of class `a`,
//! `?a` requests its free, `!a` completes it, `-a` does both at once; `-a.2` takes the third newest. `!a+b` hands out a block
//! where another one ends, `^512` and `_512` are segments that come and go, `.` changes nothing.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

use super::Error;
use super::format::{SavedClass, SavedTags, SavedTrace};
use super::names::free_digest;
use crate::snapshot::{StringId, Tables};
use crate::text::cut;
use crate::trace::fold::Folded;
use crate::trace::{Block, Class, ClassTags, Move, Origin, Ranked, Spread, Start, Trace};

/// The most moves of a trace that is saved, and that a file can claim to hold: a few lines may stand for any number.
const MOST_MOVES: usize = 1 << 24;

/// The most blocks that a file can claim to be there at the start.
const MOST_BLOCKS: u64 = 1 << 24;

/// The classes of a device by their names.
pub(super) struct Named {
    pub(super) names: Vec<String>,
}

impl Named {
    /// Names that depend on what a class is alone. `stacks` has the contents of the stack of every class.
    pub(super) fn new(classes: &[Class], stacks: &[String], tables: &Tables) -> Self {
        let contents: Vec<String> =
            classes.iter().zip(stacks).map(|(class, stack)| content(class, stack, tables)).collect();
        let mut order: Vec<usize> = (0..classes.len()).collect();
        order.sort_by_key(|&class| &contents[class]);
        let mut names = vec![String::new(); classes.len()];
        let mut taken = HashSet::new();
        for class in order {
            let name = free_digest(&[&contents[class]], 3, &taken);
            taken.insert(name.clone());
            names[class] = name;
        }
        Self { names }
    }

    fn name(&self, class: u32) -> &str {
        &self.names[class as usize]
    }

    fn word(&self, (one, rank): (Move, u32)) -> String {
        let suffix = if rank == 0 { String::new() } else { format!(".{rank}") };
        match one {
            Move::Nothing => ".".to_owned(),
            Move::Alloc(class) => format!("+{}", self.name(class)),
            Move::Request(class) => format!("?{}{suffix}", self.name(class)),
            Move::Free(Block { class, pending }) => format!("{}{}{suffix}", sign(pending), self.name(class)),
            Move::Replace(Block { class: gone, pending }, class) => {
                format!("{}{}{suffix}+{}", sign(pending), self.name(gone), self.name(class))
            }
            Move::Reserve(bytes) => format!("^{bytes}"),
            Move::Release(bytes) => format!("_{bytes}"),
        }
    }

    /// The trace as it is written; `None` where it repeats too little.
    pub(super) fn trace(&self, trace: &Trace) -> Option<SavedTrace> {
        let reserved = i64::try_from(trace.reserved).ok()?;
        let blocks: u64 = trace.start.iter().map(|start| u64::from(start.allocated) + u64::from(start.pending)).sum();
        if trace.symbols.len() + trace.implied.len() > MOST_MOVES || blocks > MOST_BLOCKS {
            return None;
        }
        let ranked = Ranked::new(trace);
        let folded = Folded::new(&ranked.symbols)?;
        let words: Vec<String> = ranked.moves.iter().map(|&one| self.word(one)).collect();
        Some(SavedTrace { reserved, implied: ranked.implied as u64, moves: folded.lines(&words) })
    }
}

/// The sign of a free.
fn sign(pending: bool) -> char {
    if pending { '!' } else { '-' }
}

fn content(class: &Class, stack: &str, tables: &Tables) -> String {
    let Class { bytes, requested, spread: Spread { below, above }, maybe_pending, tags, .. } = class;
    let [metadata, context] = [tags.metadata, tags.compile_context].map(|tag| tag.map(|tag| tables.string(tag)));
    let mut content = format!("{stack} {bytes} {requested} {below} {above} {maybe_pending} {metadata:?} {context:?}");
    // Names of classes without these are as old as the format.
    for tag in [tags.module, tags.purpose, tags.shape].into_iter().flatten() {
        content.push('\0');
        content.push_str(tables.string(tag));
    }
    content
}

impl SavedClass {
    pub(super) fn new(class: &Class, start: Start, tables: &Tables) -> Self {
        let ClassTags { metadata, compile_context, module, purpose, shape, origin: _ } = class.tags;
        let Class { bytes, requested, spread: Spread { below, above }, .. } = *class;
        let [held, pending] = [start.allocated, start.pending].map(u64::from);
        let mut numbers = vec![bytes, requested, below, above, held, pending, class.maybe_pending.into()];
        while numbers.len() > 2 && numbers.last() == Some(&0) {
            numbers.pop();
        }
        if numbers.len() == 2 && bytes == requested {
            numbers.pop();
        }
        let tags = SavedTags {
            metadata: text(tables, metadata),
            compile_context: text(tables, compile_context),
            module: text(tables, module),
            purpose: text(tables, purpose),
            shape: text(tables, shape),
        };
        Self(numbers, tags)
    }
}

fn text(tables: &Tables, tag: Option<StringId>) -> Option<String> {
    tag.map(|tag| tables.string(tag).to_owned())
}

/// The classes of a device that are read.
#[derive(Default)]
pub(super) struct Classes {
    pub(super) all: Vec<Class>,
    start: Vec<Start>,
    by_name: HashMap<String, u32>,
}

impl Classes {
    /// Takes in a class of a stack. `interned` gives texts their numbers.
    pub(super) fn add(
        &mut self,
        name: &str,
        saved: &SavedClass,
        (origin, cpp): (Origin, Option<u64>),
        tables: &mut Tables,
    ) -> Result<(), Error> {
        let SavedClass(numbers, tags) = saved;
        let mut all = [0; 7];
        all.iter_mut().zip(numbers).for_each(|(number, &saved)| *number = saved);
        let [bytes, requested, below, above, held, pending, maybe_pending] = all;
        let start = block_count(held).zip(block_count(pending));
        let (allocated, pending) = start.ok_or_else(|| damaged(name, "has more blocks than a device can hold"))?;
        let tags = ClassTags {
            metadata: tags.metadata.as_deref().map(|text| tables.intern_string(text)),
            compile_context: tags.compile_context.as_deref().map(|text| tables.intern_string(text)),
            module: tags.module.as_deref().map(|text| tables.intern_string(text)),
            purpose: tags.purpose.as_deref().map(|text| tables.intern_string(text)),
            shape: tags.shape.as_deref().map(|text| tables.intern_string(text)),
            origin: None,
        };
        let number = u32::try_from(self.all.len()).unwrap_or(u32::MAX);
        if self.by_name.insert(name.to_owned(), number).is_some() {
            return Err(damaged(name, "is there twice"));
        }
        self.all.push(Class {
            origin,
            bytes,
            requested: if numbers.len() == 1 { bytes } else { requested },
            spread: Spread { below, above },
            maybe_pending: maybe_pending != 0,
            tags,
            cpp,
        });
        self.start.push(Start { allocated, pending });
        Ok(())
    }

    /// The trace of a device with so many events.
    pub(super) fn trace(self, saved: &SavedTrace, events: u64, place: &str) -> Result<Trace, Error> {
        let blocks: u64 = self.start.iter().map(|start| u64::from(start.allocated) + u64::from(start.pending)).sum();
        let length = events.checked_add(saved.implied).filter(|&length| length <= MOST_MOVES as u64);
        let length =
            length.filter(|_| blocks <= MOST_BLOCKS).ok_or_else(|| wrong(place, "is longer than one can be"))?;
        let moves = RefCell::new(Moves::default());
        let folded = Folded::parse(&saved.moves, |word: &str| moves.borrow_mut().symbol(word, &self.by_name), length);
        let folded = folded.map_err(|error| wrong(place, &format!("cannot be read: {error}")))?;
        if folded.length() != Some(length) {
            return Err(wrong(place, "has not one move for each event"));
        }
        let implied = usize::try_from(saved.implied).unwrap_or(usize::MAX);
        let ranked = Ranked { moves: moves.into_inner().all, symbols: folded.unfolded().collect(), implied };
        let trace = ranked.trace(self.all, self.start, saved.reserved.into());
        trace.ok_or_else(|| wrong(place, "frees a block that is not there"))
    }
}

/// A number of blocks that a device can hold.
fn block_count(blocks: u64) -> Option<u32> {
    u32::try_from(blocks).ok().filter(|_| blocks <= MOST_BLOCKS)
}

fn wrong(place: &str, what: &str) -> Error {
    Error::Damaged(format!("the trace of {place} {what}"))
}

fn damaged(class: &str, what: &str) -> Error {
    Error::Damaged(format!("the class '{}' {what}", cut(class, 64)))
}

/// The moves that are read.
#[derive(Default)]
struct Moves {
    all: Vec<(Move, u32)>,
    known: HashMap<String, u32>,
}

impl Moves {
    fn symbol(&mut self, word: &str, classes: &HashMap<String, u32>) -> Option<u32> {
        if let Some(&symbol) = self.known.get(word) {
            return Some(symbol);
        }
        let one = parse(word, classes)?;
        let symbol = u32::try_from(self.all.len()).ok()?;
        self.all.push(one);
        self.known.insert(word.to_owned(), symbol);
        Some(symbol)
    }
}

/// Reads a word.
fn parse(word: &str, classes: &HashMap<String, u32>) -> Option<(Move, u32)> {
    let sign = word.chars().next()?;
    let rest = &word[sign.len_utf8()..];
    Some(match sign {
        '.' if rest.is_empty() => (Move::Nothing, 0),
        '+' => (Move::Alloc(*classes.get(rest)?), 0),
        '^' => (Move::Reserve(rest.parse().ok()?), 0),
        '_' => (Move::Release(rest.parse().ok()?), 0),
        '?' => {
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
    })
}

/// A name and the rank behind it.
fn ranked(text: &str) -> Option<(&str, u32)> {
    match text.split_once('.') {
        Some((name, rank)) => Some((name, rank.parse().ok()?)),
        None => Some((text, 0)),
    }
}
