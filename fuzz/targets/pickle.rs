//! Any bytes as a pickle: the reader builds the same values whether the bytes come at once or in pieces, and
//! whether or not it may skip runs of references that it has seen.

#![no_main]

#[path = "../../tests/support/pickle.rs"]
mod pickle;
mod trickle;

use std::io::Read;

use libfuzzer_sys::fuzz_target;
use pickle::{Tree, Value};
use trickle::Trickle;

fuzz_target!(|bytes: &[u8]| {
    let plain = decode(bytes, Tree::plain());
    assert!(plain == decode(bytes, Tree::with_runs()), "runs that are skipped change the result");
    assert!(plain == decode(Trickle::new(bytes), Tree::with_runs()), "pieces change the result");
});

/// The value on top, or the error of reading it. What is alike is not built again, so that the values below it may be fewer.
fn decode(source: impl Read, tree: Tree) -> Result<Option<Value>, String> {
    let (tree, root) = pickle::decode(source, tree).map_err(|error| error.to_string())?;
    Ok(tree.value(root))
}
