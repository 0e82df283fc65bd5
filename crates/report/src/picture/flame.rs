//! The memory at a moment by call stack: frames within their callers, with the bytes of each moment.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use ptmem_base::sides::{Side, Sides};
use ptmem_compare::tree::{CallFrame, DEEPEST};
use ptmem_trace::profile::{self, Held};
use ptmem_trace::replay::Position;

/// A node below the largest total divided by this is drawn as part of its caller.
const LEAST_PART: u64 = 20_000;

/// Nodes of one picture.
const MOST_NODES: usize = 3_000;

/// Number of candidate nodes. The units with the most memory come first; the others count for their caller.
const MOST_COLLECTED: usize = 30_000;

/// The frames that hold memory at any of several moments.
#[derive(Debug, Default)]
pub(crate) struct Flame {
    /// The frames; callers come before what they call.
    pub nodes: Vec<FlameNode>,
    /// The moments, the one that the report is about first.
    pub moments: Vec<FlameMoment>,
    /// The node of the innermost frame of each unit.
    pub(super) leaves: Vec<usize>,
}

/// A frame within its callers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FlameNode {
    /// The caller; `None` for an outermost frame.
    pub parent: Option<usize>,
    /// The frame.
    pub frame: CallFrame,
}

/// The memory at a moment.
#[derive(Debug)]
pub(crate) struct FlameMoment {
    /// Which one it is.
    pub which: profile::Moment,
    /// Its position on each side; `None` where it does not exist.
    pub at: Sides<Option<Position>>,
    /// The memory of each node itself, beside that of what it calls; until nodes are numbered, that of each unit.
    pub own: BTreeMap<usize, Sides<Held>>,
}

impl FlameMoment {
    /// A moment without its memory.
    pub(super) fn new(which: profile::Moment, at: Sides<Option<Position>>) -> Self {
        Self { which, at, own: BTreeMap::new() }
    }

    /// Adds memory of a unit.
    pub(super) fn add(&mut self, unit: u32, side: Side, held: Held) {
        if held.blocks > 0 {
            *self.own.entry(unit as usize).or_default().of_mut(side) += held;
        }
    }

    /// Adds up what gets the same number.
    fn renumber(&mut self, numbers: &[usize]) {
        for (number, held) in std::mem::take(&mut self.own) {
            let sum = self.own.entry(numbers[number]).or_default();
            *sum = sum.plus(held);
        }
    }
}

/// Nodes while they are collected.
#[derive(Default)]
struct Nodes {
    all: Vec<FlameNode>,
    numbers: HashMap<(Option<usize>, CallFrame), usize>,
}

impl Nodes {
    /// The node of the innermost frame of a path, or of the last one that there is room for.
    fn leaf(&mut self, path: &[CallFrame], lines: bool) -> usize {
        let mut parent = None;
        for frame in path.iter().take(DEEPEST) {
            let identity = (parent, CallFrame { line: frame.line.filter(|_| lines), ..frame.clone() });
            let number = match self.numbers.get(&identity) {
                Some(&known) => known,
                None if parent.is_some() && self.all.len() >= MOST_COLLECTED => break,
                None => {
                    self.all.push(FlameNode { parent, frame: frame.clone() });
                    self.numbers.insert(identity, self.all.len() - 1);
                    self.all.len() - 1
                }
            };
            if self.all[number].frame.line != frame.line {
                self.all[number].frame.line = None;
            }
            parent = Some(number);
        }
        parent.unwrap_or_else(|| self.leaf(&[CallFrame::named("<no frames>")], lines))
    }
}

impl Flame {
    /// The picture of units, whose frames are `frames`. `lines` says whether frames with different lines are different;
    /// `highest` is the most that each unit holds at any moment, as far as that is known.
    pub(super) fn new(
        mut moments: Vec<FlameMoment>,
        frames: impl Fn(usize) -> Vec<CallFrame>,
        lines: bool,
        highest: &[u64],
    ) -> Self {
        let mut most = highest.to_vec();
        for (&unit, held) in moments.iter().flat_map(|moment| &moment.own) {
            most[unit] = held.before.bytes.max(held.after.bytes).max(most[unit]);
        }
        let mut units: Vec<usize> = (0..most.len()).collect();
        units.sort_by_key(|&unit| Reverse(most[unit]));
        let mut nodes = Nodes::default();
        let mut leaves = vec![0; units.len()];
        for unit in units {
            leaves[unit] = nodes.leaf(&frames(unit), lines);
        }
        moments.iter_mut().for_each(|moment| moment.renumber(&leaves));
        let mut most = vec![0_u64; nodes.all.len()];
        leaves.iter().zip(highest).for_each(|(&leaf, highest)| most[leaf] = highest.saturating_add(most[leaf]));
        Self { moments, nodes: nodes.all, leaves }.without_small_ones(most)
    }

    /// For every node the width of its box at a moment: the bytes of everything in it, of the side with more.
    fn widths(&self, moment: &FlameMoment) -> Vec<u64> {
        let mut widths = vec![0_u64; self.nodes.len()];
        for (node, held) in &moment.own {
            widths[*node] = held.before.bytes.max(held.after.bytes);
        }
        self.roll_up(&mut widths);
        widths
    }

    /// Adds to every node the bytes below it.
    fn roll_up(&self, bytes: &mut [u64]) {
        for node in (0..self.nodes.len()).rev() {
            if let Some(parent) = self.nodes[node].parent {
                bytes[parent] = bytes[parent].saturating_add(bytes[node]);
            }
        }
    }

    /// Leaves out nodes that are too small to see at any moment: their bytes count as their caller's own. `most` has the
    /// most that each holds itself.
    fn without_small_ones(mut self, mut most: Vec<u64>) -> Self {
        self.roll_up(&mut most);
        let mut total = 0_u64;
        for moment in &self.moments {
            let widths = self.widths(moment);
            let outermost = self.nodes.iter().zip(&widths).filter(|(node, _)| node.parent.is_none());
            total = total.max(outermost.fold(0, |sum: u64, (_, &width)| sum.saturating_add(width)));
            most.iter_mut().zip(widths).for_each(|(most, width)| *most = width.max(*most));
        }
        let mut sorted = most.clone();
        sorted.sort_unstable_by(|a, b| b.cmp(a));
        let least = sorted.get(MOST_NODES).map_or(0, |width| width.saturating_add(1)).max(total / LEAST_PART).max(1);
        let mut kept_as: Vec<usize> = Vec::with_capacity(self.nodes.len());
        let mut kept: Vec<FlameNode> = Vec::new();
        for (number, node) in self.nodes.iter().enumerate() {
            let parent = node.parent.map(|parent| kept_as[parent]);
            kept_as.push(match parent {
                // Outermost frames stay: no caller could take their bytes.
                Some(parent) if most[number] < least => parent,
                _ => {
                    kept.push(FlameNode { parent, frame: node.frame.clone() });
                    kept.len() - 1
                }
            });
        }
        self.moments.iter_mut().for_each(|moment| moment.renumber(&kept_as));
        self.leaves.iter_mut().for_each(|leaf| *leaf = kept_as[*leaf]);
        Self { nodes: kept, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(names: &str) -> Vec<CallFrame> {
        names.split('>').map(CallFrame::named).collect()
    }

    fn held(bytes: u64) -> Held {
        Held { bytes, blocks: 1 }
    }

    fn flame(units: &[(&str, u64, u64)]) -> Flame {
        let paths: Vec<_> = units.iter().map(|(names, _, _)| path(names)).collect();
        let mut moment = FlameMoment::new(profile::Moment::Peak, Sides::default());
        for (unit, (_, before, after)) in (0..).zip(units) {
            moment.add(unit, Side::Before, held(*before));
            moment.add(unit, Side::After, held(*after));
        }
        Flame::new(vec![moment], |unit| paths[unit].clone(), false, &vec![0; paths.len()])
    }

    /// The bytes of all nodes on both sides.
    fn held_in_all(flame: &Flame) -> (u64, u64) {
        let own = flame.moments[0].own.values();
        own.fold((0, 0), |(before, after), held| (before + held.before.bytes, after + held.after.bytes))
    }

    #[test]
    fn boxes_add_up_to_their_caller() {
        let flame = flame(&[("main>a", 10, 30), ("main>b", 20, 5), ("main", 1, 1)]);
        let moment = &flame.moments[0];
        let names: Vec<_> = flame.nodes.iter().map(|node| node.frame.name.as_str()).collect();
        assert_eq!(names, ["main", "a", "b"]);
        assert_eq!(flame.widths(moment), [51, 30, 20]);
        assert_eq!(held_in_all(&flame), (31, 36));
    }

    #[test]
    fn small_boxes_become_part_of_their_caller() {
        let flame = flame(&[("main>big", 0, 1_000_000), ("main>small>smaller", 7, 3)]);
        assert_eq!(flame.nodes.len(), 2);
        assert_eq!(held_in_all(&flame), (7, 1_000_003));
    }

    /// Distinct frames without end take no more room than a picture can use, and no byte is lost.
    #[test]
    fn what_has_no_room_counts_for_its_caller() {
        let paths: Vec<String> = (0..200).map(|unit| (0..200).map(|at| format!("{unit}-{at}>")).collect()).collect();
        let units: Vec<(String, u64)> =
            paths.iter().zip(1..).map(|(path, size)| (format!("main>{path}"), size)).collect();
        let mut nodes = Nodes::default();
        for (path, _) in &units {
            nodes.leaf(&self::path(path), false);
        }
        assert_eq!(nodes.all.len(), MOST_COLLECTED);
        let units: Vec<_> = units.iter().map(|(path, size)| (path.as_str(), 0, *size)).collect();
        let flame = flame(&units);
        assert_eq!(held_in_all(&flame).1, (1..=200).sum::<u64>());
        // The largest has its frames.
        assert!(flame.nodes.iter().any(|node| node.frame.name == "199-199"));
    }
}
