//! A folded sequence as text: lines such as `k3 (b1 b2*3 $9fk2)*24 k3`, and below them the rules that several places
//! share, such as `$9fk2= b7 b9`.
//!
//! Version control merges it: a rule is named after what it stands for, and where a line ends depends on the word there
//! alone, so that a change touches the lines around it and no others.

use std::borrow::Borrow;
use std::collections::{BTreeMap, HashMap};

use sha1::{Digest, Sha1};

use super::order::ordered;
use super::{Folded, Item, index};
use crate::text::cut;

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
    fn word(word: &str) -> Self {
        Self(format!("'{}' means nothing", cut(word, 32)))
    }

    fn brackets() -> Self {
        Self("brackets do not match".to_owned())
    }
}

impl Folded {
    /// The sequence as text, where symbols go by these names: letters, digits, and whatever else is no blank and none of
    /// `()*=$`.
    #[must_use]
    pub fn lines<S: AsRef<str>>(&self, names: &[S]) -> Vec<String> {
        let mut writer = Writer::new(self, names);
        for body in 0..self.bodies.len() {
            writer.name(body);
        }
        let mut lines = wrapped(writer.words(&self.items));
        for (name, mut words) in writer.rules {
            words.insert(0, format!("{name}="));
            lines.extend(wrapped(words));
        }
        lines
    }

    /// Reads what [`Folded::lines`] wrote. `symbol` gives each name its number.
    ///
    /// # Errors
    /// Where it is malformed, or stands for more than `most` symbols.
    pub fn parse<S: AsRef<str>>(
        lines: &[S],
        symbol: impl Fn(&str) -> Option<u32>,
        most: u64,
    ) -> Result<Self, Malformed> {
        let mut reader = Reader::new(symbol);
        for word in lines.iter().flat_map(|line| line.as_ref().split(' ')).filter(|word| !word.is_empty()) {
            reader.word(word)?;
        }
        let folded = ordered(reader.finish()?);
        let folded = folded.ok_or_else(|| Malformed("a rule stands for itself".to_owned()))?;
        let fits = folded.length().is_some_and(|length| length <= most);
        if fits { Ok(folded) } else { Err(Malformed(format!("more than {most} symbols unfolded"))) }
    }
}

struct Writer<'f, S> {
    folded: &'f Folded,
    symbols: &'f [S],
    /// Number of places that refer to each body.
    uses: Vec<usize>,
    /// Names of the bodies that stand below as rules, as far as they are known.
    names: Vec<Option<String>>,
    /// What they stand for.
    rules: BTreeMap<String, Vec<String>>,
}

/// A body that is being written.
struct Level<'f> {
    items: &'f [Item],
    at: usize,
    count: u64,
}

impl<'f, S: AsRef<str>> Writer<'f, S> {
    fn new(folded: &'f Folded, symbols: &'f [S]) -> Self {
        Self { folded, symbols, uses: folded.uses(), names: vec![None; folded.bodies.len()], rules: BTreeMap::new() }
    }

    /// Names a body, where several places share it. Those that it refers to have their names by then.
    fn name(&mut self, body: usize) {
        let words = self.words(&self.folded.bodies[body]);
        let length: usize = words.iter().map(|word| word.len() + 1).sum();
        let name = SHORTEST_NAME + 2;
        // Written out everywhere, it is shorter than a rule with its name, its line and its uses.
        if self.uses[body] * length <= self.uses[body] * name + name + length + LINE || words.len() < 2 {
            return;
        }
        let name = free_name(&words, SHORTEST_NAME, |name| self.rules.contains_key(&format!("{RULE}{name}")));
        let name = format!("{RULE}{name}");
        self.names[body] = Some(name.clone());
        self.rules.insert(name, words);
    }

    /// Items in words.
    fn words(&self, items: &'f [Item]) -> Vec<String> {
        let mut words: Vec<String> = Vec::new();
        let mut brackets = String::new();
        // No recursion: loops may lie in loops as deep as there are items.
        let mut open = vec![Level { items, at: 0, count: 1 }];
        while let Some(level) = open.last_mut() {
            let Some(&item) = level.items.get(level.at) else {
                let count = level.count;
                open.pop();
                if let Some(last) = words.last_mut().filter(|_| count > 1) {
                    *last += &format!(")*{count}");
                }
                continue;
            };
            level.at += 1;
            let (name, count) = match item {
                Item::One(symbol) => (self.symbols[symbol as usize].as_ref(), 1),
                Item::Loop { body, count } => {
                    let items = &self.folded.bodies[body as usize];
                    match (&self.names[body as usize], &items[..]) {
                        (Some(name), _) => (name.as_str(), count),
                        (None, [Item::One(symbol)]) => (self.symbols[*symbol as usize].as_ref(), count),
                        (None, _) => {
                            brackets.extend((count > 1).then_some('('));
                            open.push(Level { items, at: 0, count });
                            continue;
                        }
                    }
                }
            };
            words.push(format!("{}{name}{}", std::mem::take(&mut brackets), times(count)));
        }
        words
    }
}

/// A number of rounds as it is written.
fn times(count: u64) -> String {
    if count == 1 { String::new() } else { format!("*{count}") }
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

/// Words in lines. A line ends after certain words wherever they stand, so that an insertion does not move all that
/// follows.
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
struct Reader<F> {
    symbol: F,
    /// The items so far, and those of each bracket that is open.
    open: Vec<Vec<Item>>,
    /// The rule that is being read; `None` in the sequence itself, which comes first.
    rule: Option<usize>,
    items: Vec<Item>,
    /// Bodies, where they are known.
    bodies: Vec<Option<Vec<Item>>>,
    /// Rules by name, as indices of bodies.
    rules: HashMap<String, usize>,
}

impl<F: Fn(&str) -> Option<u32>> Reader<F> {
    fn new(symbol: F) -> Self {
        Self {
            symbol,
            open: vec![Vec::new()],
            rule: None,
            items: Vec::new(),
            bodies: Vec::new(),
            rules: HashMap::new(),
        }
    }

    fn word(&mut self, word: &str) -> Result<(), Malformed> {
        if let Some(name) = word.strip_suffix('=').filter(|name| name.starts_with(RULE)) {
            self.close()?;
            self.rule = Some(self.rule(name));
            return Ok(());
        }
        let rest = word.trim_start_matches('(');
        self.open.resize(self.open.len() + word.len() - rest.len(), Vec::new());
        let end = rest.find([')', '*']).unwrap_or(rest.len());
        let item = self.item(&rest[..end], word)?;
        self.push(item)?;
        let mut rest = &rest[end..];
        while !rest.is_empty() {
            rest = self.suffix(rest, word)?;
        }
        Ok(())
    }

    /// What a name stands for.
    fn item(&mut self, name: &str, word: &str) -> Result<Item, Malformed> {
        if name.is_empty() {
            return Err(Malformed::word(word));
        }
        if name.starts_with(RULE) {
            return Ok(Item::Loop { body: index(self.rule(name)), count: 1 });
        }
        let symbol = (self.symbol)(name).ok_or_else(|| Malformed::word(name))?;
        Ok(Item::One(symbol))
    }

    /// The bracket or the count that text begins with. Returns what follows.
    fn suffix<'t>(&mut self, text: &'t str, word: &str) -> Result<&'t str, Malformed> {
        if let Some(rest) = text.strip_prefix(')') {
            let items = self.open.pop().unwrap_or_default();
            // Without a count it would be a round that does nothing but cost time.
            if !rest.starts_with('*') {
                return Err(Malformed::word(word));
            }
            let body = self.body(items);
            self.push(Item::Loop { body, count: 1 })?;
            return Ok(rest);
        }
        let number = text.strip_prefix('*').ok_or_else(|| Malformed::word(word))?;
        let digits = number.bytes().take_while(u8::is_ascii_digit).count();
        let count =
            number[..digits].parse().ok().filter(|&count: &u64| count > 1).ok_or_else(|| Malformed::word(word))?;
        match self.open.last_mut().and_then(Vec::pop) {
            Some(Item::Loop { body, count: 1 }) => self.push(Item::Loop { body, count })?,
            Some(one @ Item::One(_)) => {
                let body = self.body(vec![one]);
                self.push(Item::Loop { body, count })?;
            }
            Some(Item::Loop { .. }) | None => return Err(Malformed::word(word)),
        }
        Ok(&number[digits..])
    }

    fn body(&mut self, items: Vec<Item>) -> u32 {
        self.bodies.push(Some(items));
        index(self.bodies.len() - 1)
    }

    fn push(&mut self, item: Item) -> Result<(), Malformed> {
        self.open.last_mut().ok_or_else(Malformed::brackets)?.push(item);
        Ok(())
    }

    /// The place of a rule among the bodies.
    fn rule(&mut self, name: &str) -> usize {
        if let Some(&rule) = self.rules.get(name) {
            return rule;
        }
        self.bodies.push(None);
        self.rules.insert(name.to_owned(), self.bodies.len() - 1);
        self.bodies.len() - 1
    }

    /// Ends the sequence or the rule that is being read.
    fn close(&mut self) -> Result<(), Malformed> {
        let [items] = &mut self.open[..] else { return Err(Malformed::brackets()) };
        let items = std::mem::take(items);
        match self.rule {
            None => self.items = items,
            Some(rule) if self.bodies[rule].is_none() && items.len() > 1 => self.bodies[rule] = Some(items),
            Some(rule) => return Err(self.malformed_rule(rule)),
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Folded, Malformed> {
        self.close()?;
        if let Some(rule) = self.bodies.iter().position(Option::is_none) {
            return Err(self.malformed_rule(rule));
        }
        Ok(Folded { items: self.items, bodies: self.bodies.into_iter().flatten().collect() })
    }

    fn malformed_rule(&self, rule: usize) -> Malformed {
        let name = self.rules.iter().find(|(_, of)| **of == rule).map_or("", |(name, _)| name);
        Malformed(format!("rule '{}' must be written once, with two words or more", cut(name, 32)))
    }
}
