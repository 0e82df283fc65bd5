//! The trace in the file: the classes of each stack, and the moves as folded text. `+a` hands out a block of class `a`,
//! `?a` requests its free, `!a` completes it, `~a` is both in a row, `-a` does both at once; `-a.2` takes the third newest.
//! `!a+b` hands out a block where another one ends, `^512` and `_512` are segments that come and go, `.` changes nothing.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

use super::super::phases::place;
use super::super::{DeviceProfile, Unlisted};
use super::Error;
use super::format::{SavedClass, SavedTrace};
use super::names::free_digest;
use crate::interner::Interner;
use crate::snapshot::Tables;
use crate::text::cut;
use crate::trace::fold::Folded;
use crate::trace::{Block, Class, ClassTags, Move, Origin, Position, Ranked, Spread, Start, Trace};

/// The most moves of a trace that is saved, and that a file can claim to hold: a few lines may stand for any number.
pub(super) const MOST_MOVES: u64 = 1 << 24;

/// The most blocks that a file can claim to be there at the start.
const MOST_BLOCKS: u64 = 1 << 24;

/// The history of a device as a file has it.
pub(super) struct Kept {
    words: Words,
    folded: Folded,
    /// How many of the moves belong to the dump.
    implied: usize,
    /// For every class the allocations that are left out, where the history repeats too little; `None` for one that is left
    /// out itself, with those of its kind.
    pub(super) unlisted: Option<Vec<Option<Unlisted>>>,
}

impl Kept {
    /// Allocations of a class that the trace leaves out; `None` where it leaves out the class.
    pub(super) fn unlisted(&self, class: usize) -> Option<Unlisted> {
        self.unlisted.as_ref().map_or(Some(Unlisted::default()), |unlisted| unlisted[class])
    }

    pub(super) fn new(device: &DeviceProfile) -> Self {
        let implied = device.trace.implied.len();
        let words = Words::new(&Ranked::new(&device.trace));
        match (Folded::new(&words.symbols), &device.coarse) {
            (None, None) => {
                let thin = thinned(device);
                let words = Words::new(&Ranked::new(&thin));
                let unlisted = Some(unlisted(&device.trace, &thin));
                Self { folded: Folded::of_any(&words.symbols), words, implied, unlisted }
            }
            (folded, known) => {
                let folded = folded.unwrap_or_else(|| Folded::of_any(&words.symbols));
                let unlisted = known.as_ref().map(|known| known.iter().copied().map(Some).collect());
                Self { words, folded, implied, unlisted }
            }
        }
    }
}

/// What a thinned trace leaves out of each class. Classes of which nothing is left count for the first of their kind.
fn unlisted(trace: &Trace, thin: &Trace) -> Vec<Option<Unlisted>> {
    let mut first = HashMap::new();
    let mut left_out: Vec<Option<Unlisted>> = Vec::with_capacity(trace.classes.len());
    let counts = trace.allocations().into_iter().zip(thin.allocations());
    for (number, ((all, listed), class)) in counts.zip(&trace.classes).enumerate() {
        let is_listed = listed > 0 || trace.start[number] != Start::default();
        let of_kind = *first.entry((class.origin, class.cpp, class.tags)).or_insert(number);
        left_out.push((is_listed || of_kind == number).then(Unlisted::default));
        if let Some(sum) = &mut left_out[of_kind] {
            sum.allocations += all - listed;
            sum.bytes = sum.bytes.saturating_add(class.bytes.saturating_mul(all - listed));
        }
    }
    left_out
}

/// A move with the rank of the block that it ends, and whether the completion of the free that it requests comes next.
type Word = (Move, u32, bool);

/// The moves of a history as words.
struct Words {
    all: Vec<Word>,
    symbols: Vec<u32>,
}

impl Words {
    fn new(ranked: &Ranked) -> Self {
        let mut moves = ranked.symbols.iter().map(|&symbol| ranked.moves[symbol as usize]).peekable();
        let mut all = Interner::default();
        let mut symbols = Vec::with_capacity(ranked.symbols.len());
        while let Some((one, rank)) = moves.next() {
            let is_completed = completion(one).is_some_and(|next| moves.next_if_eq(&next).is_some());
            symbols.push(all.number(&(one, rank, is_completed)));
        }
        Self { all: all.into_items(), symbols }
    }
}

/// The completion of the free that a move requests, where that is the newest one.
fn completion(one: Move) -> Option<(Move, u32)> {
    one.ends().filter(|_| one.completes().is_none()).map(|block| (Move::Free(Block { pending: true, ..block }), 0))
}

/// The history with those blocks alone that are held at the moments which every profile knows, where phases begin, end and
/// hold the most, and where their stack does.
fn thinned(device: &DeviceProfile) -> Trace {
    let DeviceProfile { trace, figures, phases, .. } = device;
    let mut places: Vec<Position> =
        phases.known_or_not().flat_map(|phase| [place(phase.from), place(phase.to)]).collect();
    places.sort_unstable();
    places.extend(trace.peaks_between(&places));
    places.extend([figures.allocated.peak_at, figures.first_oom(), Some(trace.dump())].into_iter().flatten());
    places.sort_unstable();
    let mut stacks = Interner::default();
    let of_class: Vec<u32> = trace.classes.iter().map(|class| stacks.number(&(class.origin, class.cpp))).collect();
    let highest = trace.highest(&of_class, stacks.items().len());
    trace.thinned(|life| {
        let next = places.get(places.partition_point(|&place| place < life.born));
        let highest = highest[of_class[life.class as usize] as usize].at;
        next.is_some_and(|&next| next < life.freed) || (life.born..life.freed).contains(&highest)
    })
}

/// The classes of a device by their names.
pub(super) struct Named {
    pub(super) names: Vec<String>,
}

impl Named {
    /// Names of those that are kept, which depend on what a class is alone. `stacks` has the contents of the stack of every
    /// class.
    pub(super) fn new(classes: &[Class], stacks: &[String], tables: &Tables, kept: &Kept) -> Self {
        let contents: Vec<String> =
            classes.iter().zip(stacks).map(|(class, stack)| content(class, stack, tables)).collect();
        let mut order: Vec<usize> = (0..classes.len()).filter(|&class| kept.unlisted(class).is_some()).collect();
        order.sort_by_key(|&class| &contents[class]);
        let mut names = vec![String::new(); classes.len()];
        let mut taken = HashSet::new();
        for class in order {
            let name = free_digest(&[&contents[class]], 2, &taken);
            taken.insert(name.clone());
            names[class] = name;
        }
        Self { names }
    }

    fn name(&self, class: u32) -> &str {
        &self.names[class as usize]
    }

    fn word(&self, (one, rank, is_completed): Word) -> String {
        let suffix = if rank == 0 { String::new() } else { format!(".{rank}") };
        match one {
            Move::Nothing => ".".to_owned(),
            Move::Alloc(class) => format!("+{}", self.name(class)),
            Move::Request(class) => {
                format!("{}{}{suffix}", if is_completed { '~' } else { '?' }, self.name(class))
            }
            Move::Free(Block { class, pending }) => format!("{}{}{suffix}", sign(pending), self.name(class)),
            Move::Replace(Block { class: gone, pending }, class) => {
                format!("{}{}{suffix}+{}", sign(pending), self.name(gone), self.name(class))
            }
            Move::Reserve(bytes) => format!("^{bytes}"),
            Move::Release(bytes) => format!("_{bytes}"),
        }
    }

    /// The trace as it is written.
    pub(super) fn trace(&self, kept: &Kept, reserved: i128) -> SavedTrace {
        let words: Vec<String> = kept.words.all.iter().map(|&one| self.word(one)).collect();
        let reserved = i64::try_from(reserved).unwrap_or_default();
        SavedTrace { reserved, implied: kept.implied as u64, moves: kept.folded.lines(&words) }
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
    pub(super) fn new(class: &Class, start: Start, unlisted: Unlisted, tables: &Tables) -> Self {
        let Class { bytes, requested, spread: Spread { below, above }, .. } = *class;
        let [held, pending] = [start.allocated, start.pending].map(u64::from);
        let Unlisted { allocations, bytes: left_out } = unlisted;
        let maybe_pending = class.maybe_pending.into();
        let mut numbers = vec![bytes, requested, below, above, held, pending, maybe_pending, allocations, left_out];
        while numbers.len() > 2 && numbers.last() == Some(&0) {
            numbers.pop();
        }
        if numbers.len() == 2 && bytes == requested {
            numbers.pop();
        }
        let tags = ClassTags { origin: None, ..class.tags };
        Self(numbers, tags.map(|tag| tables.string(*tag).to_owned()))
    }
}

/// The classes of a device that are read.
#[derive(Default)]
pub(super) struct Classes {
    pub(super) all: Vec<Class>,
    start: Vec<Start>,
    /// For each the allocations that the trace leaves out.
    pub(super) unlisted: Vec<Unlisted>,
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
        let mut all = [0; 9];
        all.iter_mut().zip(numbers).for_each(|(number, &saved)| *number = saved);
        let [bytes, requested, below, above, held, pending, maybe_pending, allocations, left_out] = all;
        let start = block_count(held).zip(block_count(pending));
        let (allocated, pending) = start.ok_or_else(|| damaged(name, "has more blocks than a device can hold"))?;
        let tags = tags.map(|text| tables.intern_string(text));
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
        self.unlisted.push(Unlisted { allocations, bytes: left_out });
        Ok(())
    }

    /// The trace of a device with so many events.
    pub(super) fn trace(self, saved: &SavedTrace, events: u64, place: &str) -> Result<Trace, Error> {
        let blocks: u64 = self.start.iter().map(|start| u64::from(start.allocated) + u64::from(start.pending)).sum();
        let length = events.checked_add(saved.implied).filter(|&length| length <= MOST_MOVES);
        let length =
            length.filter(|_| blocks <= MOST_BLOCKS).ok_or_else(|| wrong(place, "is longer than one can be"))?;
        let moves = RefCell::new(Moves::default());
        let folded = Folded::parse(&saved.moves, |word: &str| moves.borrow_mut().symbol(word, &self.by_name), length);
        let folded = folded.map_err(|error| wrong(place, &format!("cannot be read: {error}")))?;
        let Moves { all: words, .. } = moves.into_inner();
        let mut ranked = Interner::default();
        let mut symbols = Vec::new();
        for (one, rank, is_completed) in folded.unfolded().map(|word| words[word as usize]) {
            let completion = completion(one).filter(|_| is_completed);
            symbols.extend([(one, rank)].into_iter().chain(completion).map(|one| ranked.number(&one)));
        }
        if symbols.len() as u64 != length {
            return Err(wrong(place, "has not one move for each event"));
        }
        let implied = usize::try_from(saved.implied).unwrap_or(usize::MAX);
        let ranked = Ranked { moves: ranked.into_items(), symbols, implied };
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
    all: Vec<Word>,
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
