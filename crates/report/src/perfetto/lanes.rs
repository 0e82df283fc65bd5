//! Slices on as few tracks as they need: those of one track are nested or disjoint.

use std::collections::BTreeSet;

use ptmem_trace::replay::Position;
use ptmem_trace::trace::Window;

/// The beginning of a slice, with its name, or the end of the innermost open one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Edge<'n> {
    pub(super) at: Position,
    pub(super) begins: Option<&'n str>,
}

/// Tracks of slices.
#[derive(Debug, Default)]
pub(super) struct Lanes<'n> {
    lanes: Vec<Lane<'n>>,
    /// The end of the innermost open slice of every lane, with the index of the lane; of one without open slices
    /// [`Position::NEVER`], since any slice fits into it.
    innermost: BTreeSet<(Position, usize)>,
}

#[derive(Debug, Default)]
struct Lane<'n> {
    /// The ends of open slices, the innermost last.
    open: Vec<Position>,
    edges: Vec<Edge<'n>>,
}

impl<'n> Lanes<'n> {
    /// The edges on each track. Slices are in order of their beginnings, and outer ones come first.
    pub(super) fn of(slices: impl Iterator<Item = (&'n str, Window)>) -> Vec<Vec<Edge<'n>>> {
        let mut lanes = Self::default();
        for (name, window) in slices {
            lanes.close_until(window.from);
            lanes.open(name, window);
        }
        lanes.close_until(Position::of_count(usize::MAX));
        lanes.lanes.into_iter().map(|lane| lane.edges).collect()
    }

    /// Closes the slices that end at a place or before it.
    fn close_until(&mut self, place: Position) {
        while let Some(&(at, index)) = self.innermost.first()
            && at <= place
        {
            self.innermost.pop_first();
            let lane = &mut self.lanes[index];
            lane.open.pop();
            lane.edges.push(Edge { at, begins: None });
            self.innermost.insert((lane.open.last().copied().unwrap_or(Position::NEVER), index));
        }
    }

    /// Opens a slice within the shortest one that encloses it, or in a lane without open slices.
    fn open(&mut self, name: &'n str, Window { from, to }: Window) {
        let to = to.max(from);
        let index = match self.innermost.range((to, 0)..).next().copied() {
            Some(fitting) => {
                self.innermost.remove(&fitting);
                fitting.1
            }
            None => {
                self.lanes.push(Lane::default());
                self.lanes.len() - 1
            }
        };
        let lane = &mut self.lanes[index];
        lane.open.push(to);
        lane.edges.push(Edge { at: from, begins: Some(name) });
        self.innermost.insert((to, index));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_that_overlap_get_tracks_of_their_own() {
        let slices = [("a", 0, 9), ("b", 1, 4), ("c", 2, 6), ("d", 4, 9), ("e", 6, 6), ("f", 9, 12)];
        let slices = slices.map(|(name, from, to)| (name, Window::of_counts(from, to)));
        let lanes = Lanes::of(slices.into_iter());
        let texts = lanes.iter().map(|edges| {
            let edges = edges.iter().map(|edge| format!("{}{}", edge.begins.unwrap_or("/"), edge.at.count()));
            edges.collect::<Vec<_>>().join(" ")
        });
        assert_eq!(texts.collect::<Vec<_>>(), ["a0 b1 /4 d4 e6 /6 /9 /9 f9 /12", "c2 /6"]);
    }
}
