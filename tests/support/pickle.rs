//! Pickles for tests: plain trees, a visitor that builds them, and a writer with the habits of the
//! producers that exist.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs, dead_code, unreachable_pub)]

use std::convert::Infallible;
use std::io::Read;

use ptmem::pickle::{self, AlikeDictionaries, Visitor};
use rustc_hash::FxHashMap;

/// A value as a test writes it down and compares it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Value {
    None,
    Bool(bool),
    Int(i128),
    /// One of more than 128 bits.
    BigInt,
    /// The bits of a float.
    Float(u64),
    /// UTF-8, possibly with lone surrogates.
    Str(Vec<u8>),
    Bytes(Vec<u8>),
    Tuple(Vec<Value>),
    List(Vec<Value>),
    Dict(Vec<(Value, Value)>),
    Set(Vec<Value>),
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Str(text.as_bytes().to_vec())
    }
}

macro_rules! from_ints {
    ($($int:ty),*) => {
        $(impl From<$int> for Value {
            fn from(value: $int) -> Self {
                Self::Int(i128::from(value))
            }
        })*
    };
}

from_ints!(i32, i64, u64, i128);

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

/// As Python's own `json` reads it. No test needs fractions.
impl From<serde_json::Value> for Value {
    fn from(json: serde_json::Value) -> Self {
        match json {
            serde_json::Value::Null => Self::None,
            serde_json::Value::Bool(value) => value.into(),
            serde_json::Value::Number(number) => number.as_u64().unwrap().into(),
            serde_json::Value::String(text) => text.as_str().into(),
            serde_json::Value::Array(items) => Self::List(items.into_iter().map(Self::from).collect()),
            serde_json::Value::Object(map) => {
                Self::Dict(map.into_iter().map(|(key, value)| (key.as_str().into(), value.into())).collect())
            }
        }
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Float(value.to_bits())
    }
}

impl From<Vec<Value>> for Value {
    fn from(items: Vec<Value>) -> Self {
        Self::List(items)
    }
}

impl Value {
    /// A dictionary with string keys.
    pub fn dict<const N: usize>(pairs: [(&str, Value); N]) -> Self {
        Self::Dict(pairs.into_iter().map(|(key, value)| (key.into(), value)).collect())
    }

    /// This dictionary with one entry more, or another one in place of it.
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        let Self::Dict(pairs) = &mut self else { panic!("not a dict: {self:?}") };
        let (key, value) = (Value::from(key), value.into());
        match pairs.iter_mut().find(|(k, _)| *k == key) {
            Some(pair) => pair.1 = value,
            None => pairs.push((key, value)),
        }
        self
    }

    /// This dictionary without an entry that it has.
    pub fn without(mut self, key: &str) -> Self {
        let Self::Dict(pairs) = &mut self else { panic!("not a dict: {self:?}") };
        let before = pairs.len();
        pairs.retain(|(k, _)| *k != Value::from(key));
        assert!(pairs.len() < before, "no key {key}");
        self
    }
}

/// One node of a [`Tree`]; children are positions in it.
#[derive(Debug, Clone, PartialEq)]
pub enum Node {
    Leaf(Value),
    Tuple(Vec<u32>),
    List(Vec<u32>),
    Dict(Vec<u32>),
    Set(Vec<u32>),
}

/// Builds plain trees in an arena, so that values may be shared and may hold themselves.
#[derive(Debug, Default, Clone)]
pub struct Tree {
    pub nodes: Vec<Node>,
    /// Whether it keeps runs of memo references.
    keeps_runs: bool,
    runs: Vec<Vec<u32>>,
    /// The list that was extended last, if it was empty before that.
    whole: Option<u32>,
    /// How often a run was recalled.
    pub recalled: usize,
    /// How many dictionaries were like an earlier one.
    pub alike: usize,
}

impl Tree {
    /// One that never answers to [`Visitor::remember`] and [`Visitor::shape`]: the reader decodes everything.
    pub fn plain() -> Self {
        Self::default()
    }

    /// One that lets the reader skip runs of references and dictionaries that it has seen.
    pub fn with_runs() -> Self {
        Self { keeps_runs: true, ..Self::default() }
    }

    fn push(&mut self, node: Node) -> u32 {
        self.nodes.push(node);
        u32::try_from(self.nodes.len() - 1).unwrap()
    }

    /// The value at `root` with everything in it; `None` where that is deeper than 64 levels or has more
    /// than 2^20 values, so for every value that holds itself.
    pub fn value(&self, root: u32) -> Option<Value> {
        self.value_within(root, 64, &mut (1 << 20))
    }

    fn value_within(&self, at: u32, depth: usize, left: &mut usize) -> Option<Value> {
        *left = left.checked_sub(1)?;
        let depth = depth.checked_sub(1)?;
        let mut all = |items: &[u32]| -> Option<Vec<Value>> {
            items.iter().map(|&item| self.value_within(item, depth, left)).collect()
        };
        Some(match &self.nodes[at as usize] {
            Node::Leaf(value) => value.clone(),
            Node::Tuple(items) => Value::Tuple(all(items)?),
            Node::List(items) => Value::List(all(items)?),
            Node::Set(items) => Value::Set(all(items)?),
            Node::Dict(items) => {
                let all = all(items)?;
                Value::Dict(all.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect())
            }
        })
    }

    pub fn node(&self, at: u32) -> &Node {
        &self.nodes[at as usize]
    }
}

impl Visitor for Tree {
    type Value = u32;
    type Kept = u32;
    type Run = usize;
    /// All items, and the places of those that vary.
    type Shape = (Vec<u32>, Vec<usize>);
    type Error = Infallible;

    fn keep(&mut self, value: u32) -> u32 {
        value
    }

    fn kept(&self, kept: u32) -> u32 {
        kept
    }

    fn none(&mut self) -> u32 {
        self.push(Node::Leaf(Value::None))
    }

    fn bool(&mut self, value: bool) -> u32 {
        self.push(Node::Leaf(Value::Bool(value)))
    }

    fn int(&mut self, value: i64) -> u32 {
        self.push(Node::Leaf(Value::Int(value.into())))
    }

    fn wide_int(&mut self, value: Option<i128>) -> u32 {
        self.push(Node::Leaf(value.map_or(Value::BigInt, Value::Int)))
    }

    fn float(&mut self, value: f64) -> u32 {
        self.push(Node::Leaf(value.into()))
    }

    fn str(&mut self, utf8: &[u8]) -> u32 {
        self.push(Node::Leaf(Value::Str(utf8.to_vec())))
    }

    fn bytes(&mut self, bytes: &[u8]) -> u32 {
        self.push(Node::Leaf(Value::Bytes(bytes.to_vec())))
    }

    fn tuple(&mut self, items: &[u32]) -> Result<u32, Infallible> {
        Ok(self.push(Node::Tuple(items.to_vec())))
    }

    fn list(&mut self) -> u32 {
        self.push(Node::List(Vec::new()))
    }

    fn dict(&mut self) -> u32 {
        self.push(Node::Dict(Vec::new()))
    }

    fn set(&mut self) -> u32 {
        self.push(Node::Set(Vec::new()))
    }

    fn extend(&mut self, list: u32, items: &[u32]) -> Result<(), Option<Infallible>> {
        let Node::List(all) = &mut self.nodes[list as usize] else { return Err(None) };
        self.whole = all.is_empty().then_some(list);
        all.extend(items);
        Ok(())
    }

    fn update(&mut self, dict: u32, items: &[u32]) -> Result<(), Option<Infallible>> {
        assert!(items.len().is_multiple_of(2));
        let Node::Dict(all) = &mut self.nodes[dict as usize] else { return Err(None) };
        all.extend(items);
        Ok(())
    }

    fn add(&mut self, set: u32, items: &[u32]) -> Result<(), Option<Infallible>> {
        let Node::Set(all) = &mut self.nodes[set as usize] else { return Err(None) };
        all.extend(items);
        Ok(())
    }

    fn remember(&mut self, list: u32) -> Option<usize> {
        let Node::List(items) = &self.nodes[list as usize] else { panic!("remember of no list") };
        if !self.keeps_runs || self.whole != Some(list) {
            return None;
        }
        self.runs.push(items.clone());
        Some(self.runs.len() - 1)
    }

    fn recall(&mut self, list: u32, run: usize) -> bool {
        match &mut self.nodes[list as usize] {
            Node::List(items) if items.is_empty() => {
                items.clone_from(&self.runs[run]);
                self.recalled += 1;
                true
            }
            _ => false,
        }
    }

    /// All dictionaries, which may differ in everything but texts: the reader has to see what it cannot skip.
    fn shape(&self, dict: u32, items: &[u32]) -> Option<AlikeDictionaries<Self::Shape>> {
        let is_whole = self.nodes[dict as usize] == Node::Dict(items.to_vec());
        let is_text = |item: u32| matches!(self.nodes[item as usize], Node::Leaf(Value::Str(_)));
        let varying: Vec<usize> = (0..items.len()).filter(|&at| !is_text(items[at])).collect();
        (self.keeps_runs && is_whole).then(|| AlikeDictionaries { shape: (items.to_vec(), varying.clone()), varying })
    }

    fn update_alike(&mut self, dict: u32, (items, places): &Self::Shape, varying: &[u32]) -> bool {
        self.alike += 1;
        let mut items = items.clone();
        places.iter().zip(varying).for_each(|(&place, &value)| items[place] = value);
        self.update(dict, &items).is_ok()
    }
}

/// Decodes with a tree.
pub fn decode(source: impl Read, mut tree: Tree) -> Result<(Tree, u32), pickle::PickleError<Infallible>> {
    let root = pickle::read(source, &mut tree)?;
    Ok((tree, root))
}

/// How values get their numbers in the memo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Memo {
    /// No memo at all, and so no sharing.
    No,
    Memoize,
    /// BINPUT up to 255, LONG_BINPUT from there.
    BinPut,
    LongBinPut,
}

/// How items get into their container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Batch {
    /// As Python does: 1000 at once, a single one with APPEND or SETITEM.
    Thousand,
    /// All at once, however many.
    All,
    /// One by one.
    One,
}

/// The habits of a [`Writer`].
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// 2 to 5. What a protocol has no opcode for is written with that of a later one.
    pub protocol: u8,
    pub memo: Memo,
    /// Equal parts are one object.
    pub share: bool,
    /// Starts a new FRAME once one has this many bytes, also between memo references.
    pub frame: Option<usize>,
    pub batch: Batch,
    /// Lists and dictionaries get their number before their items, as in Python.
    pub memo_first: bool,
}

impl Default for Options {
    /// As `pickle.dump` writes.
    fn default() -> Self {
        Self {
            protocol: 4,
            memo: Memo::Memoize,
            share: false,
            frame: Some(64 * 1024),
            batch: Batch::Thousand,
            memo_first: true,
        }
    }
}

impl Options {
    pub fn shared() -> Self {
        Self { share: true, ..Self::default() }
    }
}

/// Writes pickles.
pub struct Writer {
    options: Options,
    out: Vec<u8>,
    /// Where the bytes of the current FRAME begin.
    frame: Option<usize>,
    /// Large values are hashed often, by code that is not optimized: a simple hash takes the least.
    known: FxHashMap<Value, usize>,
    next: usize,
}

/// The pickle of a value.
pub fn write(value: &Value, options: Options) -> Vec<u8> {
    let mut writer = Writer::new(options);
    writer.value(value);
    writer.finish()
}

impl Writer {
    pub fn new(options: Options) -> Self {
        Self { options, out: vec![0x80, options.protocol], frame: None, known: FxHashMap::default(), next: 0 }
    }

    pub fn finish(mut self) -> Vec<u8> {
        self.op(b".");
        self.close_frame();
        self.out
    }

    /// Whole opcodes as they are.
    pub fn op(&mut self, bytes: &[u8]) {
        if let Some(size) = self.options.frame
            && self.frame.is_none_or(|start| self.out.len() - start >= size)
        {
            self.close_frame();
            self.out.push(0x95);
            self.out.extend([0; 8]);
            self.frame = Some(self.out.len());
        }
        self.out.extend_from_slice(bytes);
    }

    fn close_frame(&mut self) {
        if let Some(start) = self.frame.take() {
            let length = (self.out.len() - start) as u64;
            self.out[start - 8..start].copy_from_slice(&length.to_le_bytes());
        }
    }

    fn long_op(&mut self, opcode: u8, length: &[u8], content: &[u8]) {
        let bytes = [&[opcode], length, content].concat();
        self.op(&bytes);
    }

    /// A reference to memo entry `index`.
    pub fn get(&mut self, index: usize) {
        if let Ok(short) = u8::try_from(index) {
            self.op(&[b'h', short]);
        } else {
            self.long_op(b'j', &u32::try_from(index).unwrap().to_le_bytes(), &[]);
        }
    }

    /// Gives the value on top the next number in the memo.
    pub fn memoize(&mut self) -> usize {
        let index = self.next;
        let number = u32::try_from(index).unwrap();
        match self.options.memo {
            Memo::No => return usize::MAX,
            Memo::Memoize => self.op(&[0x94]),
            Memo::BinPut if index < 256 => self.long_op(b'q', &number.to_le_bytes()[..1], &[]),
            Memo::BinPut | Memo::LongBinPut => self.long_op(b'r', &number.to_le_bytes(), &[]),
        }
        self.next += 1;
        index
    }

    fn memoize_as(&mut self, value: &Value) {
        let index = self.memoize();
        if self.options.share && self.options.memo != Memo::No {
            self.known.insert(value.clone(), index);
        }
    }

    pub fn value(&mut self, value: &Value) {
        if self.options.share
            && let Some(&index) = self.known.get(value)
        {
            self.get(index);
            return;
        }
        let protocol = self.options.protocol;
        match value {
            Value::None => self.op(b"N"),
            Value::Bool(value) => self.op(if *value { b"\x88" } else { b"\x89" }),
            Value::Int(value) => self.int(*value),
            Value::BigInt => self.op(&[&[0x8a, 30], [7; 30].as_slice()].concat()),
            Value::Float(bits) => self.long_op(b'G', &bits.to_be_bytes(), &[]),
            Value::Str(utf8) => {
                self.str(utf8);
                self.memoize_as(value);
            }
            Value::Bytes(bytes) => {
                let length = bytes.len() as u64;
                match u8::try_from(length) {
                    Ok(short) => self.long_op(b'C', &[short], bytes),
                    Err(_) if protocol < 4 => self.long_op(b'B', &length.to_le_bytes()[..4], bytes),
                    Err(_) => self.long_op(0x8e, &length.to_le_bytes(), bytes),
                }
                self.memoize_as(value);
            }
            Value::Tuple(items) => {
                let fixed = items.len() <= 3;
                if !fixed {
                    self.op(b"(");
                }
                items.iter().for_each(|item| self.value(item));
                self.op(&[if fixed { [b')', 0x85, 0x86, 0x87][items.len()] } else { b't' }]);
                // Python memoises the empty tuple never.
                if !items.is_empty() {
                    self.memoize_as(value);
                }
            }
            Value::List(items) => self.filled(value, [b']', b'a', b'e'], items.iter().map(|item| [item])),
            Value::Dict(pairs) => {
                self.filled(value, [b'}', b's', b'u'], pairs.iter().map(|(key, value)| [key, value]));
            }
            Value::Set(items) => {
                self.op(b"\x8f");
                if self.options.memo_first {
                    self.memoize_as(value);
                }
                let batch = if self.options.batch == Batch::One { 1 } else { 1000 };
                for items in items.chunks(batch) {
                    self.op(b"(");
                    items.iter().for_each(|item| self.value(item));
                    self.op(b"\x90");
                }
                if !self.options.memo_first {
                    self.memoize_as(value);
                }
            }
        }
    }

    fn filled<'v, const N: usize>(
        &mut self,
        value: &Value,
        [empty, one, many]: [u8; 3],
        items: impl ExactSizeIterator<Item = [&'v Value; N]> + Clone,
    ) {
        self.op(&[empty]);
        if self.options.memo_first {
            self.memoize_as(value);
        }
        let mut left = items.len();
        let batch = match self.options.batch {
            Batch::Thousand => 1000,
            Batch::All => left,
            Batch::One => 1,
        };
        let mut items = items;
        while left > 0 {
            let here = left.min(batch);
            let marked = here > 1 || self.options.batch == Batch::All;
            if marked {
                self.op(b"(");
            }
            for item in items.by_ref().take(here) {
                item.into_iter().for_each(|part| self.value(part));
            }
            self.op(&[if marked { many } else { one }]);
            left -= here;
        }
        if !self.options.memo_first {
            self.memoize_as(value);
        }
    }

    fn int(&mut self, value: i128) {
        if let Ok(byte) = u8::try_from(value) {
            self.op(&[b'K', byte]);
        } else if let Ok(word) = u16::try_from(value) {
            self.long_op(b'M', &word.to_le_bytes(), &[]);
        } else if let Ok(small) = i32::try_from(value) {
            self.long_op(b'J', &small.to_le_bytes(), &[]);
        } else {
            let bytes = long_bytes(value);
            self.long_op(0x8a, &[u8::try_from(bytes.len()).unwrap()], &bytes);
        }
    }

    fn str(&mut self, utf8: &[u8]) {
        let length = utf8.len() as u64;
        if self.options.protocol >= 4 && length < 256 {
            self.long_op(0x8c, &length.to_le_bytes()[..1], utf8);
        } else {
            self.long_op(b'X', &length.to_le_bytes()[..4], utf8);
        }
    }
}

/// The fewest bytes, as Python's `encode_long` gives them.
pub fn long_bytes(value: i128) -> Vec<u8> {
    let mut bytes = value.to_le_bytes().to_vec();
    if value == 0 {
        return Vec::new();
    }
    while let [.., before, last] = bytes[..] {
        if last == 0 && before < 0x80 || last == 0xff && before >= 0x80 {
            bytes.pop();
        } else {
            break;
        }
    }
    bytes
}
