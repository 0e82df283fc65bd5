//! Which of several blocks of a class a move ends, as a rank: 0 is the newest, 1 the one before. Ranks repeat where a
//! program does, which the numbers of blocks do not.

use super::{Move, MovedBlock, Trace};

/// Some of the blocks of a class, by the order in which they came: a Fenwick tree.
#[derive(Clone)]
struct FenwickTree(Vec<u32>);

impl FenwickTree {
    /// Adds a block, or takes it away.
    fn change(&mut self, index: u32, by: i32) {
        let mut at = index as usize + 1;
        while let Some(count) = self.0.get_mut(at) {
            *count = count.wrapping_add_signed(by);
            at += at & at.wrapping_neg();
        }
    }

    /// The number of blocks among the first ones.
    fn among(&self, first: usize) -> u32 {
        // There is none at 0.
        std::iter::successors(Some(first), |&at| (at > 0).then(|| at & (at - 1))).map(|at| self.0[at]).sum()
    }

    /// The number of blocks that are newer.
    fn rank(&self, index: u32) -> u32 {
        self.among(self.0.len() - 1) - self.among(index as usize + 1)
    }

    /// The block of a rank; `None` if there are fewer blocks.
    fn find(&self, rank: u32) -> Option<u32> {
        let mut left = self.among(self.0.len() - 1).checked_sub(rank)?.checked_sub(1)?;
        let mut at = 0;
        let mut half = self.0.len().next_power_of_two() / 2;
        while half > 0 {
            if let Some(&count) = self.0.get(at + half).filter(|&&count| count <= left) {
                at += half;
                left -= count;
            }
            half /= 2;
        }
        u32::try_from(at).ok()
    }
}

/// The blocks while the moves are gone through.
struct RankedBlocks {
    /// By class, those that are allocated, and those whose free is pending.
    alive: [Vec<FenwickTree>; 2],
    /// By class, the numbers of its blocks.
    of_class: Vec<Vec<u32>>,
    /// The place of each block among those of its class.
    index: Vec<u32>,
}

impl RankedBlocks {
    /// Goes through the moves of a trace. `ended` gives, for each that ends a block, the place of that among those of its
    /// class.
    fn follow(trace: &Trace, mut ended: impl FnMut(&Self, MovedBlock) -> Option<u32>) -> Option<()> {
        let mut all: Vec<usize> = trace.start.iter().map(|start| (start.allocated + start.pending) as usize).collect();
        trace.all_moves().filter_map(Move::begins).for_each(|block| all[block.class as usize] += 1);
        let trees: Vec<FenwickTree> = all.iter().map(|&blocks| FenwickTree(vec![0; blocks + 1])).collect();
        let mut blocks = Self {
            alive: [trees.clone(), trees],
            of_class: all.iter().map(|&blocks| Vec::with_capacity(blocks)).collect(),
            index: Vec::with_capacity(all.iter().sum()),
        };
        for (class, start) in (0_u32..).zip(&trace.start) {
            (0..start.pending).for_each(|_| blocks.begin(MovedBlock { class, pending: true }));
            (0..start.allocated).for_each(|_| blocks.begin(MovedBlock { class, pending: false }));
        }
        for one in trace.all_moves() {
            if let Some(block) = one.ends() {
                let index = ended(&blocks, block)?;
                blocks.tree(block).change(index, -1);
                if one.completes().is_none() {
                    blocks.tree(MovedBlock { pending: true, ..block }).change(index, 1);
                }
            }
            one.begins().into_iter().for_each(|block| blocks.begin(block));
        }
        Some(())
    }

    fn tree(&mut self, block: MovedBlock) -> &mut FenwickTree {
        &mut self.alive[usize::from(block.pending)][block.class as usize]
    }

    fn begin(&mut self, block: MovedBlock) {
        let of_class = &mut self.of_class[block.class as usize];
        let index = u32::try_from(of_class.len()).unwrap_or(u32::MAX);
        of_class.push(u32::try_from(self.index.len()).unwrap_or(u32::MAX));
        self.index.push(index);
        self.tree(block).change(index, 1);
    }
}

impl Trace {
    /// The ranks of the blocks that moves end, in order.
    pub fn ranks(&self) -> Vec<u32> {
        let mut ranks = Vec::with_capacity(self.ended.len());
        let mut numbers = self.ended.iter();
        RankedBlocks::follow(self, |blocks, block| {
            let index = blocks.index[*numbers.next()? as usize];
            ranks.push(blocks.alive[usize::from(block.pending)][block.class as usize].rank(index));
            Some(index)
        });
        ranks
    }

    /// The blocks that moves end, by their ranks. `None` where a move ends a block that is not there.
    pub fn ended_by_rank(&self, ranks: &[u32]) -> Option<Vec<u32>> {
        let mut ended = Vec::with_capacity(ranks.len());
        let mut ranks = ranks.iter();
        RankedBlocks::follow(self, |blocks, block| {
            let index = blocks.alive[usize::from(block.pending)][block.class as usize].find(*ranks.next()?)?;
            ended.push(blocks.of_class[block.class as usize][index as usize]);
            Some(index)
        })?;
        Some(ended)
    }
}
