//! A course as text that version control can compare: an entry such as `(b0c4d5 77e1f0*3)*24` a line.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{BySize, Course, Entry, Folded, Level, MOST_ENTRIES, PeakAllocation, SizeClass, Symbol};
use crate::interner::Interner;
use crate::snapshot::StackId;
use crate::stack::{GroupBy, Grouper};

/// The least length of the name of a stack: the beginning of its key.
const SHORTEST_NAME: usize = 6;

/// Name of allocations without frames.
const NO_FRAMES: &str = "-";

/// The deepest nesting of loops.
const DEEPEST: usize = 100;

/// The most allocations that a sequence stands for: a snapshot numbers its events in 32 bits.
const MOST_ALLOCATIONS: u64 = 1 << 32;

/// The most entries that are read, those of loops included. What is written has fewer, but writes a loop at each of its places.
const MOST_READ: usize = 4 * MOST_ENTRIES;

/// Between the name of a stack and a size that it asked for.
const OF_SIZE: char = ':';

/// The most groups of a course that is written by sizes as well.
const MOST_GROUPS_BY_SIZE: usize = 8;

/// Levels are kept in thousandths of the highest.
const PARTS: u64 = 1000;

/// A course as it is written.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SavedCourse {
    /// The entries.
    pub(crate) sequence: Vec<String>,
    /// The same by the sizes of allocations, where the groups are few.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) by_size: Option<Vec<String>>,
    /// The highest level, in bytes.
    pub(crate) highest: u64,
    /// Levels, in thousandths of that.
    pub(crate) held: Vec<u16>,
    pub(crate) passing: Vec<u16>,
    pub(crate) fresh: Vec<u16>,
    /// The allocation that made the peak, and its place among all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) peak: Option<(String, u64)>,
}

/// A course by groups of stacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grouped {
    /// The key of every symbol; for [`Symbol::Unlisted`] its beginning.
    pub keys: Vec<String>,
    /// Which of them allocate.
    pub sequence: Folded,
    /// The same by the sizes of allocations as well, where the stacks are few.
    pub by_size: Option<BySize>,
    /// The one that made the peak.
    pub peak: Option<u32>,
}

impl Course {
    /// The same course where the stacks of a group are one symbol. `grouper` groups by [`GroupBy::Stack`].
    #[must_use]
    pub fn grouped(&self, grouper: &Grouper<'_>) -> Grouped {
        debug_assert_eq!(grouper.by(), GroupBy::Stack);
        let mut keys = Interner::default();
        let numbers: Vec<u32> = self.symbols.iter().map(|symbol| keys.number(&symbol.key(grouper))).collect();
        let sequence = self.sequence.renamed(|symbol| numbers[symbol as usize]);
        let peak = self.peak.map(|peak| numbers[peak.symbol as usize]);
        let by_size = self.by_size.as_ref().map(|by_size| by_size.renumbered(&numbers));
        Grouped { keys: keys.into_items(), sequence, by_size, peak }
    }

    /// The course as it is written.
    pub(crate) fn saved(&self, grouper: &Grouper<'_>) -> SavedCourse {
        let Grouped { keys, sequence, by_size, peak } = self.grouped(grouper);
        let names = names(&keys);
        let highest = self.highest();
        let by_size = by_size.filter(|_| keys.len() <= MOST_GROUPS_BY_SIZE);
        SavedCourse {
            sequence: lines(&sequence, &names),
            by_size: by_size.map(|by_size| by_size.lines(&names)),
            highest,
            held: self.levels.iter().map(|level| part_of(level.held, highest)).collect(),
            passing: self.levels.iter().map(|level| part_of(level.passing, highest)).collect(),
            fresh: self.levels.iter().map(|level| part_of(level.fresh, highest)).collect(),
            peak: self.peak.zip(peak).map(|(peak, symbol)| (names[symbol as usize].to_owned(), peak.place)),
        }
    }
}

impl BySize {
    /// As it is written, where groups go by names.
    fn lines(&self, names: &[&str]) -> Vec<String> {
        let classes =
            self.classes.iter().map(|class| format!("{}{OF_SIZE}{}", names[class.symbol as usize], class.bytes));
        let classes: Vec<String> = classes.collect();
        lines(&self.sequence, &classes.iter().map(String::as_str).collect::<Vec<_>>())
    }
}

/// A sequence as it is written.
fn lines(sequence: &Folded, names: &[&str]) -> Vec<String> {
    sequence.entries.iter().map(|&entry| text(entry, sequence, names)).collect()
}

impl Symbol {
    /// The key of its group; for [`Symbol::Unlisted`] the beginning of it.
    fn key(&self, grouper: &Grouper<'_>) -> String {
        match self {
            Self::Stack(stack) => grouper.key(*stack).0,
            Self::Unlisted(name) => name.clone(),
            Self::NoFrames => NO_FRAMES.to_owned(),
        }
    }
}

impl SavedCourse {
    /// The levels in bytes.
    fn levels(&self) -> Vec<Level> {
        let samples = self.held.iter().zip(&self.passing).zip(&self.fresh);
        samples
            .map(|((&held, &passing), &fresh)| Level {
                held: bytes_of(held, self.highest),
                passing: bytes_of(passing, self.highest),
                fresh: bytes_of(fresh, self.highest),
            })
            .collect()
    }
}

/// Bytes as a part of the highest level.
fn part_of(bytes: u64, highest: u64) -> u16 {
    let part = (u128::from(bytes) * u128::from(PARTS) + u128::from(highest) / 2).checked_div(highest.into());
    part.and_then(|part| u16::try_from(part).ok()).unwrap_or(0)
}

/// A part of the highest level in bytes, to the nearest byte: so what is read is written again as it was.
fn bytes_of(part: u16, highest: u64) -> u64 {
    let bytes = (u128::from(part) * u128::from(highest) + u128::from(PARTS) / 2) / u128::from(PARTS);
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// The shortest beginnings of the keys that tell them apart.
fn names(keys: &[String]) -> Vec<&str> {
    let mut sorted: Vec<&str> = keys.iter().map(String::as_str).collect();
    sorted.sort_unstable();
    let longest = sorted.windows(2).map(|pair| common_length(pair[0], pair[1])).max().unwrap_or(0);
    let length = SHORTEST_NAME.max(longest + 1);
    keys.iter().map(|key| key.get(..length).unwrap_or(key)).collect()
}

/// The number of bytes with which both texts begin.
fn common_length(a: &str, b: &str) -> usize {
    a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count()
}

fn text(entry: Entry, sequence: &Folded, names: &[&str]) -> String {
    match entry {
        Entry::One(symbol) => names[symbol as usize].to_owned(),
        Entry::Loop { body, count } => {
            let body = &sequence.bodies[body as usize];
            let items: Vec<String> = body.iter().map(|&entry| text(entry, sequence, names)).collect();
            match body[..] {
                [Entry::One(_)] => format!("{}*{count}", items.join(" ")),
                _ => format!("({})*{count}", items.join(" ")),
            }
        }
    }
}

/// Reads what [`Course::saved`] wrote. `stacks` are the keys of the stacks that are listed.
///
/// # Errors
/// Where it is malformed, with the problem in words.
pub(crate) fn parse(saved: &SavedCourse, stacks: &BTreeMap<String, StackId>) -> Result<Course, String> {
    let mut names = Interner::default();
    let sequence = parse_sequence(&saved.sequence, &mut names)?;
    let samples = saved.held.len();
    if saved.sequence.is_empty() || samples < 2 || saved.passing.len() != samples || saved.fresh.len() != samples {
        return Err("has lists of the wrong length".to_owned());
    }
    let peak = saved.peak.as_ref().map(|(name, place)| PeakAllocation { symbol: names.number(name), place: *place });
    let by_size = saved.by_size.as_ref().map(|lines| parse_by_size(lines, &mut names)).transpose()?;
    let symbols = names.items().iter().map(|name| symbol(name, stacks)).collect();
    Ok(Course { symbols, sequence, by_size, levels: saved.levels(), peak })
}

/// The sequence that lines describe.
fn parse_sequence(lines: &[String], names: &mut Interner<String>) -> Result<Folded, String> {
    let mut parser = Parser { names, folded: Folded::default(), lengths: Vec::new(), length: 0, entries: 0 };
    for line in lines {
        let mut rest = line.as_str();
        let entry = parser.entry(&mut rest, 0)?;
        if !rest.is_empty() {
            return Err(format!("cannot be read from '{}' on", crate::text::cut(rest, 32)));
        }
        parser.folded.entries.push(entry);
        parser.length = parser.sum(parser.length, &entry)?;
    }
    Ok(parser.folded)
}

/// The sequence by sizes that lines describe.
fn parse_by_size(lines: &[String], names: &mut Interner<String>) -> Result<BySize, String> {
    let mut texts = Interner::default();
    let sequence = parse_sequence(lines, &mut texts)?;
    let mut classes = Vec::with_capacity(texts.items().len());
    for text in texts.items() {
        let class = text.rsplit_once(OF_SIZE).and_then(|(name, bytes)| Some((name, bytes.parse().ok()?)));
        let (name, bytes) = class.ok_or_else(|| "has an allocation without a size".to_owned())?;
        classes.push(SizeClass { symbol: names.number(name), bytes });
    }
    Ok(BySize { classes, sequence })
}

/// The symbol that goes by a name.
fn symbol(name: &str, stacks: &BTreeMap<String, StackId>) -> Symbol {
    let listed = stacks.range(name.to_owned()..).next().filter(|(key, _)| key.starts_with(name));
    match listed {
        _ if name == NO_FRAMES => Symbol::NoFrames,
        Some((_, &stack)) => Symbol::Stack(stack),
        None => Symbol::Unlisted(name.to_owned()),
    }
}

struct Parser<'n> {
    names: &'n mut Interner<String>,
    folded: Folded,
    /// The number of allocations that each body stands for.
    lengths: Vec<u64>,
    /// Those of the entries so far.
    length: u64,
    /// Number of entries so far, those of bodies included.
    entries: usize,
}

impl Parser<'_> {
    fn entry(&mut self, rest: &mut &str, depth: usize) -> Result<Entry, String> {
        let is_loop = rest.starts_with('(');
        let body = if is_loop { self.round(rest, depth)? } else { vec![self.symbol(rest)?] };
        let Some(count) = rest.strip_prefix('*') else {
            let [one] = body[..] else { return Err("has a loop without a count".to_owned()) };
            return Ok(one);
        };
        let digits = count.bytes().take_while(u8::is_ascii_digit).count();
        let number = count[..digits].parse::<u64>().ok().filter(|&number| number > 0);
        let Some(number) = number else { return Err("has a count that is no number".to_owned()) };
        *rest = &count[digits..];
        let length = body.iter().try_fold(0, |length, entry| self.sum(length, entry))?;
        self.lengths.push(length);
        self.folded.bodies.push(body);
        let body = u32::try_from(self.folded.bodies.len() - 1).map_err(|_| "is too long".to_owned())?;
        Ok(Entry::Loop { body, count: number })
    }

    /// The number of allocations with those of one more entry.
    fn sum(&self, length: u64, entry: &Entry) -> Result<u64, String> {
        let own = entry.length(&self.lengths);
        let sum = length.checked_add(own).filter(|&sum| sum <= MOST_ALLOCATIONS);
        sum.ok_or_else(|| format!("stands for more than {MOST_ALLOCATIONS} allocations"))
    }

    /// The body of a loop, in brackets.
    fn round(&mut self, rest: &mut &str, depth: usize) -> Result<Vec<Entry>, String> {
        if depth == DEEPEST {
            return Err("has too many loops within loops".to_owned());
        }
        let mut body = Vec::new();
        loop {
            // The bracket, or the space between two.
            *rest = rest.get(1..).unwrap_or_default();
            body.push(self.entry(rest, depth + 1)?);
            match rest.as_bytes().first() {
                Some(b' ') => {}
                Some(b')') => break,
                _ => return Err("has a bracket that is not closed".to_owned()),
            }
        }
        *rest = &rest[1..];
        Ok(body)
    }

    fn symbol(&mut self, rest: &mut &str) -> Result<Entry, String> {
        let text = *rest;
        let end = text.find([' ', ')', '*', '(']).unwrap_or(text.len());
        let name = &text[..end];
        if name.is_empty() {
            return Err("has an empty name".to_owned());
        }
        *rest = &text[end..];
        self.entries += 1;
        if self.entries > MOST_READ {
            return Err(format!("has more than {MOST_READ} entries"));
        }
        Ok(Entry::One(self.names.number(name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(lines: &[&str]) -> Result<Course, String> {
        let saved = SavedCourse {
            sequence: lines.iter().map(|&line| line.to_owned()).collect(),
            by_size: None,
            highest: 5000,
            held: vec![0, 1000],
            passing: vec![0, 500],
            fresh: vec![0, 0],
            peak: None,
        };
        parse(&saved, &BTreeMap::new())
    }

    #[test]
    fn what_is_written_is_read() {
        let lines = ["aaaaaa", "(bbbbbb (cccccc*3 aaaaaa)*2)*24", "-", "dddddd*1164"];
        let course = parsed(&lines).unwrap();
        assert_eq!(course.sequence.length(), 1 + 24 * 9 + 1 + 1164);
        assert_eq!(course.levels[1], Level { held: 5000, passing: 2500, fresh: 0 });
        let names = ["aaaaaa", "bbbbbb", "cccccc", "-", "dddddd"];
        let entries = course.sequence.entries.iter();
        assert_eq!(entries.map(|&entry| text(entry, &course.sequence, &names)).collect::<Vec<_>>(), lines);
    }

    #[test]
    fn sizes_are_written_and_read() {
        let lines = ["aaaaaa:512", "(bbbbbb:1024 -:7*3)*24"].map(str::to_owned).to_vec();
        let mut names = Interner::default();
        names.number("-");
        let by_size = parse_by_size(&lines, &mut names).unwrap();
        assert_eq!(by_size.classes[2], SizeClass { symbol: 0, bytes: 7 });
        assert_eq!(by_size.lines(&["-", "aaaaaa", "bbbbbb"]), lines);
        for line in ["aaaaaa", "aaaaaa:", "aaaaaa:x"] {
            assert!(parse_by_size(&[line.to_owned()], &mut names).is_err(), "{line}");
        }
    }

    #[test]
    fn damaged_text_is_refused() {
        for line in ["", "(a", "(a b)", "a*", "a*0", "a*x", "(a)*3)", "a b", "()*2", "a*99999999999999999999"] {
            assert!(parsed(&[line]).is_err(), "{line}");
        }
        assert!(parsed(&[&"(".repeat(10_000)]).is_err());
        // Longer than any history, also where 64 bits do not hold the length.
        for line in
            ["a*4294967297", "((((a b*9999)*9999)*9999)*9999)*9999", "(a*18446744073709551615)*18446744073709551615"]
        {
            assert!(parsed(&[line]).unwrap_err().contains("allocations"), "{line}");
            assert!(parse_by_size(&[line.replace(['a', 'b'], "a:1")], &mut Interner::default()).is_err(), "{line}");
        }
        assert!(parsed(&["a*4294967296", "b"]).is_err());
        assert!(parsed(&["a*4294967296"]).is_ok());
        let many: Vec<String> = (0..=MOST_READ).map(|number| number.to_string()).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(parsed(&many).unwrap_err().contains("entries"));
        assert!(parsed(&many[1..]).is_ok());
        assert!(parsed(&[]).is_err());
    }
}
