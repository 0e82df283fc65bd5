//! A history with few of its blocks.

use ptmem_base::interner::Interner;

use super::{Block, Life, Move, Position, Trace};

impl Trace {
    /// The same history with only the blocks that are alive at the start or kept, and their classes. Every event has
    /// its place; no place holds more than it did, and those at which all blocks are kept hold as much.
    #[must_use]
    pub fn thinned(&self, is_kept: impl Fn(&Life) -> bool) -> Self {
        let mut classes = Interner::default();
        let mut kept: Vec<Option<u32>> = Vec::new();
        let mut count = 0;
        for life in self.lives() {
            let is_kept = life.born == Position::START || is_kept(&life);
            kept.push(is_kept.then_some(count));
            if is_kept {
                classes.number(&life.class);
                count += 1;
            }
        }
        let mut thin = Self { reserved: self.reserved, ..Self::default() };
        let mut moves: Interner<Move> = Interner::default();
        let mut ended = self.ended.iter().map(|&block| block as usize);
        let mut begun = self.start.iter().map(|start| (start.allocated + start.pending) as usize).sum::<usize>()..;
        for (at, symbol) in self.placed() {
            let one = self.moves[symbol as usize];
            let gone = one.ends().and_then(|_| ended.next()).and_then(|block| kept[block]);
            let comes = one.begins().filter(|_| begun.next().is_some_and(|block| kept[block].is_some()));
            let changed = match (one, gone, comes) {
                (Move::Replace(block, _), Some(_), None) => Move::Free(block),
                (Move::Reserve(_) | Move::Release(_), ..) | (_, Some(_), _) => one,
                (_, None, Some(block)) => Move::Alloc(block.class),
                (_, None, None) => Move::Nothing,
            };
            thin.ended.extend(gone);
            let symbols = if at == self.dump() { &mut thin.implied } else { &mut thin.symbols };
            symbols.push(moves.number(&changed.renumbered(|class| classes.number(&class))));
        }
        thin.moves = moves.into_items();
        for &class in classes.items() {
            thin.classes.push(self.classes[class as usize]);
            thin.start.push(self.start[class as usize]);
        }
        thin
    }
}

impl Move {
    /// The same with other numbers of classes.
    fn renumbered(self, mut number: impl FnMut(u32) -> u32) -> Self {
        match self {
            Self::Nothing | Self::Reserve(_) | Self::Release(_) => self,
            Self::Alloc(class) => Self::Alloc(number(class)),
            Self::Request(class) => Self::Request(number(class)),
            Self::Free(block) => Self::Free(Block { class: number(block.class), ..block }),
            Self::Replace(block, class) => Self::Replace(Block { class: number(block.class), ..block }, number(class)),
        }
    }
}
