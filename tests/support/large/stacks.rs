//! Call stacks: a few hundred frames, put together over and over.

use std::io::{self, Write};

use super::pickler::Pickler;

/// Frames at the outer end of every stack, from `_start` to the training loop.
const OUTER: usize = 14;
/// New frames that each stack brings, in the middle.
const NEW: usize = 3;

pub(super) struct Stacks {
    /// How long each stack is.
    depths: Vec<usize>,
    /// The memo entries of the frames that were written.
    frames: Vec<Option<u32>>,
}

impl Stacks {
    pub(super) fn new(count: usize, depth: usize) -> Self {
        let depth = depth.max(1);
        // Between half and one and a half times the mean.
        let depths: Vec<_> = (0..count.max(1)).map(|stack| (depth / 2 + stack * 37 % (depth + 1)).max(1)).collect();
        let frames = OUTER + depths.len() * NEW + 2 * depth;
        Self { depths, frames: vec![None; frames] }
    }

    /// Writes the list of a stack and returns its memo entry.
    pub(super) fn write(&mut self, stack: u32, out: &mut Pickler<impl Write>) -> io::Result<u32> {
        let stack = stack as usize % self.depths.len();
        let depth = self.depths[stack];
        let (mut list, entry) = out.list(depth)?;
        let outer = OUTER.min(depth - 1);
        // Stacks differ in their innermost frame, and share most others with those before and after.
        let inner = (0..depth - outer).map(|i| OUTER + stack * NEW + i);
        for frame in inner.chain((0..outer).rev()) {
            out.item(&list);
            match self.frames[frame] {
                Some(entry) => out.get(entry)?,
                None => self.frames[frame] = Some(write_frame(frame, out)?),
            }
            out.added(&mut list);
        }
        Ok(entry)
    }
}

fn write_frame(number: usize, out: &mut Pickler<impl Write>) -> io::Result<u32> {
    let entry = out.dict()?;
    out.word("name")?;
    // One frame in three is the user's, one PyTorch's and one C++.
    let group = number / 8;
    let filename = match number % 3 {
        0 => {
            out.str(&format!("block_{group}_forward"))?;
            Some(format!("/workspace/train/model/layers_{}.py", number % 17))
        }
        1 => {
            out.str(&format!("_call_impl_{group}"))?;
            Some(format!("/opt/venv/lib/python3.12/site-packages/torch/nn/modules/module_{}.py", number % 11))
        }
        _ => {
            let types = "at::Tensor const&, c10::SymInt, ".repeat(number % 9);
            out.str(&format!("at::_ops::operator_{number}::redispatch(c10::DispatchKeySet, {types}bool)"))?;
            None
        }
    };
    out.word("filename")?;
    match filename {
        Some(filename) => out.str(&filename).map(drop)?,
        None => out.word("")?,
    }
    out.word("line")?;
    out.int(if number % 3 == 2 { 0 } else { i64::try_from(number * 7 % 2000).unwrap_or(0) })?;
    out.set_items();
    Ok(entry)
}
