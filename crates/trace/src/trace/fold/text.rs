//! A folded sequence as text: lines such as `k3 (b1 b2*3 $9fk2)*24 k3`, and below them the rules that several places
//! share, such as `$9fk2= b7 b9`.
//!
//! Version control merges it: a rule is named after what it stands for, and where a line ends depends on the word there
//! alone, so that a change touches the lines around it and no others.

use std::borrow::Borrow;
use std::collections::{BTreeMap, HashMap};

use ptmem_base::interner::Interner;
use ptmem_base::text::cut;
use sha1::{Digest, Sha1};

use super::{Folded, Item, Unit, index};

/// Before the name of a rule.
const RULE: char = '$';

/// The least length of the name of a rule.
const SHORTEST_NAME: usize = 2;

/// Bytes of a line of a file besides its words.
const LINE: usize = 12;

/// Lines are no longer than this, but for their last word.
const LONGEST_LINE: usize = 100;

/// Of this many words, one ends a line.
const WORDS: u64 = 16;

/// The error of reading a folded sequence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(String);

impl Malformed {
    /// A word without a meaning.
    pub(crate) fn word(word: &str) -> Self {
        Self(format!("'{}' means nothing", cut(word, 32)))
    }

    fn brackets() -> Self {
        Self("brackets do not match".to_owned())
    }
}

impl Folded {
    /// The sequence as text, with these names for symbols: letters, digits, and any character except blanks and
    /// `()*=$`.
    #[must_use]
    pub fn lines<S: AsRef<str>>(&self, names: &[S]) -> Vec<String> {
        let mut writer = Writer { symbols: names, written: Vec::new(), rules: BTreeMap::new() };
        let Some((items, bodies)) = self.sequences.split_last() else { return Vec::new() };
        for (items, uses) in bodies.iter().zip(self.uses()) {
            writer.write(items, uses);
        }
        let mut lines = wrapped(writer.words(items));
        for (name, mut words) in writer.rules {
            words.insert(0, format!("{name}="));
            lines.extend(wrapped(words));
        }
        lines
    }

    /// Reads what [`Folded::lines`] wrote: the sequence, and the names that its symbols stand for.
    ///
    /// # Errors
    /// Where it is malformed, or stands for more than `most` symbols.
    pub fn parse<S: AsRef<str>>(lines: &[S], most: u64) -> Result<(Self, Vec<String>), Malformed> {
        let mut reader = Reader { open: vec![Vec::new()], sequences: vec![None], ..Reader::default() };
        for word in lines.iter().flat_map(|line| line.as_ref().split(' ')).filter(|word| !word.is_empty()) {
            reader.word(word)?;
        }
        let names = std::mem::take(&mut reader.names).into_items();
        let folded = Self::ordered(reader.finish()?, 0);
        let folded = folded.ok_or_else(|| Malformed("a rule stands for itself".to_owned()))?;
        let fits = folded.length().is_some_and(|length| length <= most);
        if fits { Ok((folded, names)) } else { Err(Malformed(format!("more than {most} symbols unfolded"))) }
    }
}

struct Writer<'f, S> {
    symbols: &'f [S],
    /// The bodies as written at their references: a single word is the name of a rule.
    written: Vec<Vec<String>>,
    /// The bodies of the rules, by name.
    rules: BTreeMap<String, Vec<String>>,
}

impl<S: AsRef<str>> Writer<'_, S> {
    /// Writes a body, where several places share it as a rule.
    fn write(&mut self, items: &[Item], uses: usize) {
        let words = self.words(items);
        let length: usize = words.iter().map(|word| word.len() + 1).sum();
        let name = SHORTEST_NAME + 2;
        // Written out everywhere, it is shorter than a rule with its name, its line and its uses.
        if uses * length <= uses * name + name + length + LINE || words.len() < 2 {
            self.written.push(words);
            return;
        }
        let name = free_name(&words, SHORTEST_NAME, |name| self.rules.contains_key(&format!("{RULE}{name}")));
        let name = format!("{RULE}{name}");
        self.written.push(vec![name.clone()]);
        self.rules.insert(name, words);
    }

    /// Items in words.
    fn words(&self, items: &[Item]) -> Vec<String> {
        let mut words: Vec<String> = Vec::new();
        for &Item { unit, count } in items {
            let first = words.len();
            match unit {
                Unit::Symbol(symbol) => words.push(self.symbols[symbol as usize].as_ref().to_owned()),
                Unit::Body(body) => words.extend_from_slice(&self.written[body as usize]),
            }
            let is_name = words.len() == first + 1;
            if count > 1 && !is_name {
                words[first].insert(0, '(');
            }
            if let Some(last) = words.last_mut().filter(|_| count > 1) {
                *last += &format!("{}*{count}", if is_name { "" } else { ")" });
            }
        }
        words
    }
}

/// The same for the same word, on every machine (FNV-1a).
fn hash(word: &str) -> u64 {
    word.bytes().fold(0xCBF2_9CE4_8422_2325, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3))
}

/// A name for something of these contents, the same for the same ones: the shortest part of their digest, from `least`
/// characters on, that is not taken.
pub(crate) fn free_name<S: Borrow<str>>(contents: &[S], least: usize, is_taken: impl Fn(&str) -> bool) -> String {
    const DIGITS: &[u8; 62] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    let digest = Sha1::digest(contents.join("\0"));
    let digest: String = digest.iter().map(|byte| char::from(DIGITS[usize::from(*byte) % DIGITS.len()])).collect();
    let free = (least..=digest.len()).map(|length| &digest[..length]).find(|name| !is_taken(name));
    free.unwrap_or(&digest).to_owned()
}

/// Words in lines. A line ends after certain words wherever they occur, so that an insertion does not move the lines
/// that follow.
fn wrapped(words: Vec<String>) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut ends = true;
    for word in words {
        let is_end = hash(&word).is_multiple_of(WORDS);
        match lines.last_mut().filter(|line| !ends && line.len() < LONGEST_LINE) {
            Some(line) => *line += &format!(" {word}"),
            None => lines.push(word),
        }
        ends = is_end;
    }
    lines
}

/// A sequence that is being read.
#[derive(Default)]
struct Reader {
    /// The names of symbols.
    names: Interner<String>,
    /// The items of the current sequence so far, and those of each bracket that is open.
    open: Vec<Vec<Item>>,
    /// The sequence that is being read: 0 for the whole, which comes first, otherwise a rule.
    current: usize,
    /// The whole, the rules, and the parts in brackets, if known.
    sequences: Vec<Option<Vec<Item>>>,
    /// Rules by name.
    rules: HashMap<String, usize>,
}

impl Reader {
    fn word(&mut self, word: &str) -> Result<(), Malformed> {
        if let Some(name) = word.strip_suffix('=').filter(|name| name.starts_with(RULE)) {
            self.close()?;
            self.current = self.rule(name);
            return Ok(());
        }
        let rest = word.trim_start_matches('(');
        self.open.resize(self.open.len() + word.len() - rest.len(), Vec::new());
        let mut parts = rest.split(')');
        let first = parts.next().unwrap_or_default();
        let (name, count) = match first.split_once('*') {
            Some((name, count)) => (name, rounds(count, word)?),
            None => (first, 1),
        };
        let unit = self.unit(name, word)?;
        self.push(Item { unit, count })?;
        for part in parts {
            let items = self.open.pop().unwrap_or_default();
            // Without a count it would be a round that does nothing but cost time.
            let count = rounds(part.strip_prefix('*').unwrap_or_default(), word)?;
            self.sequences.push(Some(items));
            self.push(Item { unit: Unit::Body(index(self.sequences.len() - 1)), count })?;
        }
        Ok(())
    }

    /// The body of a name.
    fn unit(&mut self, name: &str, word: &str) -> Result<Unit, Malformed> {
        match name {
            "" => Err(Malformed::word(word)),
            _ if name.starts_with(RULE) => Ok(Unit::Body(index(self.rule(name)))),
            _ => Ok(Unit::Symbol(self.names.number(name))),
        }
    }

    fn push(&mut self, item: Item) -> Result<(), Malformed> {
        self.open.last_mut().ok_or_else(Malformed::brackets)?.push(item);
        Ok(())
    }

    /// The place of a rule among the sequences.
    fn rule(&mut self, name: &str) -> usize {
        if let Some(&rule) = self.rules.get(name) {
            return rule;
        }
        self.sequences.push(None);
        self.rules.insert(name.to_owned(), self.sequences.len() - 1);
        self.sequences.len() - 1
    }

    /// Ends the sequence or the rule that is being read.
    fn close(&mut self) -> Result<(), Malformed> {
        let [items] = &mut self.open[..] else { return Err(Malformed::brackets()) };
        let items = std::mem::take(items);
        if self.current > 0 && (items.len() < 2 || self.sequences[self.current].is_some()) {
            return Err(self.malformed_rule(self.current));
        }
        self.sequences[self.current] = Some(items);
        Ok(())
    }

    /// The sequences, the whole first.
    fn finish(mut self) -> Result<Vec<Vec<Item>>, Malformed> {
        self.close()?;
        if let Some(rule) = self.sequences.iter().position(Option::is_none) {
            return Err(self.malformed_rule(rule));
        }
        Ok(self.sequences.into_iter().flatten().collect())
    }

    fn malformed_rule(&self, rule: usize) -> Malformed {
        let name = self.rules.iter().find(|(_, of)| **of == rule).map_or("", |(name, _)| name);
        Malformed(format!("rule '{}' must be written once, with two words or more", cut(name, 32)))
    }
}

/// A number of rounds behind an asterisk.
fn rounds(text: &str, word: &str) -> Result<u64, Malformed> {
    text.parse().ok().filter(|&count| count > 1).ok_or_else(|| Malformed::word(word))
}
