//! Which of several blocks of a class a move ends, as a rank: 0 is the newest, 1 the one before. Ranks repeat where a
//! program does, which the numbers of blocks do not.

use super::{Class, Move, Start, Trace};

/// A trace whose moves say which blocks they end.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ranked {
    /// Moves, each with the rank of the block that it ends; 0 for others.
    pub moves: Vec<(Move, u32)>,
    /// The moves of every event, and then those at the dump, as indices into `moves`.
    pub symbols: Vec<u32>,
    /// How many of the symbols belong to the dump.
    pub implied: usize,
}

/// The blocks of every class that are allocated, or those whose free is pending: a Fenwick tree for each class.
struct Alive {
    /// Where the tree of each class begins, and where the last one ends.
    first: Vec<usize>,
    tree: Vec<u32>,
    count: Vec<u32>,
}

impl Alive {
    fn new(blocks: &[u32]) -> Self {
        let mut first = vec![0];
        for &blocks in blocks {
            first.push(first.last().copied().unwrap_or(0) + blocks as usize + 1);
        }
        let tree = vec![0; first.last().copied().unwrap_or(0)];
        Self { first, tree, count: vec![0; blocks.len()] }
    }

    fn of(&mut self, class: u32) -> &mut [u32] {
        let class = class as usize;
        &mut self.tree[self.first[class]..self.first[class + 1]]
    }

    fn insert(&mut self, class: u32, index: u32) {
        self.count[class as usize] += 1;
        let tree = self.of(class);
        let mut at = index as usize + 1;
        while let Some(count) = tree.get_mut(at) {
            *count += 1;
            at += at & at.wrapping_neg();
        }
    }

    fn remove(&mut self, class: u32, index: u32) {
        self.count[class as usize] -= 1;
        let tree = self.of(class);
        let mut at = index as usize + 1;
        while let Some(count) = tree.get_mut(at) {
            *count -= 1;
            at += at & at.wrapping_neg();
        }
    }

    /// The number of blocks that are newer.
    fn rank(&mut self, class: u32, index: u32) -> u32 {
        let count = self.count[class as usize];
        let tree = self.of(class);
        let mut at = index as usize + 1;
        let mut no_newer = 0;
        while at > 0 {
            no_newer += tree[at];
            at &= at - 1;
        }
        count - no_newer
    }

    /// The block of a rank; `None` where there are not so many.
    fn find(&mut self, class: u32, rank: u32) -> Option<u32> {
        let mut left = self.count[class as usize].checked_sub(rank)?.checked_sub(1)?;
        let tree = self.of(class);
        let mut at = 0;
        let mut half = tree.len().next_power_of_two() / 2;
        while half > 0 {
            if let Some(&count) = tree.get(at + half)
                && count <= left
            {
                at += half;
                left -= count;
            }
            half /= 2;
        }
        u32::try_from(at).ok()
    }
}

/// The blocks while the moves are gone through.
struct Blocks {
    allocated: Alive,
    pending: Alive,
    /// Number of blocks of each class so far.
    begun: Vec<u32>,
    /// The index of each block within its class.
    index: Vec<u32>,
}

impl Blocks {
    fn new(start: &[Start], symbols: impl Iterator<Item = Move>) -> Self {
        let older: Vec<u32> = start.iter().map(|start| start.allocated + start.pending).collect();
        let mut all = older.clone();
        symbols.filter_map(Move::begins).for_each(|block| all[block.class as usize] += 1);
        let mut blocks =
            Self { allocated: Alive::new(&all), pending: Alive::new(&all), begun: older, index: Vec::new() };
        for (class, start) in (0_u32..).zip(start) {
            (0..start.pending).for_each(|index| blocks.pending.insert(class, index));
            (start.pending..start.pending + start.allocated).for_each(|index| blocks.allocated.insert(class, index));
            blocks.index.extend(0..start.pending + start.allocated);
        }
        blocks
    }

    /// Takes a block of this index away from those that a move can end.
    fn end(&mut self, one: Move, index: u32) {
        let Some(block) = one.ends() else { return };
        if block.pending {
            self.pending.remove(block.class, index);
        } else {
            self.allocated.remove(block.class, index);
            if one.completes().is_none() {
                self.pending.insert(block.class, index);
            }
        }
    }

    fn begin(&mut self, one: Move) {
        if let Some(block) = one.begins() {
            let begun = &mut self.begun[block.class as usize];
            self.index.push(*begun);
            self.allocated.insert(block.class, *begun);
            *begun += 1;
        }
    }

    fn alive(&mut self, pending: bool) -> &mut Alive {
        if pending { &mut self.pending } else { &mut self.allocated }
    }
}

/// The moves of a trace in order, those of the dump last.
fn moves(trace: &Trace) -> impl Iterator<Item = Move> + '_ {
    trace.symbols.iter().chain(&trace.implied).map(|&symbol| trace.moves[symbol as usize])
}

impl Ranked {
    /// The moves of a trace with their ranks.
    #[must_use]
    pub fn new(trace: &Trace) -> Self {
        let mut blocks = Blocks::new(&trace.start, moves(trace));
        let mut known = foldhash::HashMap::default();
        let mut ranked = Self { implied: trace.implied.len(), ..Self::default() };
        let mut ended = trace.ended.iter();
        for one in moves(trace) {
            let mut rank = 0;
            if let Some((block, &number)) = one.ends().and_then(|block| Some((block, ended.next()?))) {
                let index = blocks.index[number as usize];
                rank = blocks.alive(block.pending).rank(block.class, index);
                blocks.end(one, index);
            }
            blocks.begin(one);
            let next = u32::try_from(ranked.moves.len()).unwrap_or(u32::MAX);
            let symbol = *known.entry((one, rank)).or_insert(next);
            if symbol == next {
                ranked.moves.push((one, rank));
            }
            ranked.symbols.push(symbol);
        }
        ranked
    }

    /// The trace. `None` where a move ends a block that is not there.
    #[must_use]
    pub fn trace(self, classes: Vec<Class>, start: Vec<Start>, reserved: i128) -> Option<Trace> {
        let all = self.symbols.iter().map(|&symbol| self.moves[symbol as usize].0);
        let mut blocks = Blocks::new(&start, all);
        // By class, the numbers of its blocks in their order.
        let mut numbers: Vec<Vec<u32>> = vec![Vec::new(); classes.len()];
        let mut next: u32 = 0;
        for (numbers, start) in numbers.iter_mut().zip(&start) {
            let count = start.pending + start.allocated;
            numbers.extend(next..next + count);
            next += count;
        }
        let mut ended = Vec::new();
        for &symbol in &self.symbols {
            let (one, rank) = self.moves[symbol as usize];
            if let Some(block) = one.ends() {
                let index = blocks.alive(block.pending).find(block.class, rank)?;
                ended.push(numbers[block.class as usize][index as usize]);
                blocks.end(one, index);
            }
            blocks.begin(one);
            if let Some(block) = one.begins() {
                numbers[block.class as usize].push(next);
                next += 1;
            }
        }
        let mut moves = Vec::new();
        let mut known = foldhash::HashMap::default();
        let mut of_ranked = Vec::with_capacity(self.moves.len());
        for (one, _) in self.moves {
            let next = u32::try_from(moves.len()).unwrap_or(u32::MAX);
            let symbol = *known.entry(one).or_insert(next);
            if symbol == next {
                moves.push(one);
            }
            of_ranked.push(symbol);
        }
        let mut symbols = self.symbols;
        symbols.iter_mut().for_each(|symbol| *symbol = of_ranked[*symbol as usize]);
        let implied = symbols.split_off(symbols.len() - self.implied);
        Some(Trace { classes, moves, symbols, implied, start, reserved, ended })
    }
}
