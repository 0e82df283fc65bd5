//! The pickle reader against everything that a pickle can hold, and against what none should.

mod hostile;
mod integers;
mod memo;
mod refusals;
mod round_trips;

use std::io::Read;

use crate::support::pickle::{Tree, Value, decode};

/// The whole value, decoded with and without the cache of runs, which must not differ.
fn read(bytes: &[u8]) -> Result<Value, String> {
    let [plain, cached] = [Tree::plain(), Tree::with_runs()].map(|tree| {
        let (tree, root) = decode(bytes, tree).map_err(|error| error.to_string())?;
        Ok(tree.value(root).expect("small and without cycles"))
    });
    assert_eq!(plain, cached, "the cache of runs changes the result");
    cached
}

fn cat(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

/// Gives its bytes in pieces of the given sizes, over and over.
pub(crate) struct Dribble<'d> {
    data: &'d [u8],
    sizes: Vec<usize>,
    turn: usize,
}

impl<'d> Dribble<'d> {
    pub(crate) fn new(data: &'d [u8], sizes: &[usize]) -> Self {
        Self { data, sizes: sizes.to_vec(), turn: 0 }
    }
}

impl Read for Dribble<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.turn += 1;
        // As a signal would.
        if self.turn.is_multiple_of(1013) {
            return Err(std::io::ErrorKind::Interrupted.into());
        }
        let count = self.sizes[self.turn % self.sizes.len()].min(buffer.len()).min(self.data.len());
        let (now, later) = self.data.split_at(count);
        buffer[..count].copy_from_slice(now);
        self.data = later;
        Ok(count)
    }
}

fn ints(values: impl IntoIterator<Item = i32>) -> Value {
    Value::List(values.into_iter().map(Value::from).collect())
}
