//! Any bytes as the two texts of a Python file.

#![no_main]

use libfuzzer_sys::fuzz_target;
use ptmem::patch::Patch;
use ptmem::sides::{Side, Sides};

fuzz_target!(|bytes: &[u8]| {
    let (before, after) = bytes.split_at(bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len()));
    let texts = [before, after].map(String::from_utf8_lossy);
    let mut patch = Patch::default();
    let paths = Sides { before: Some("old.py"), after: Some("src/new.py") };
    patch.add(paths, Sides { before: &texts[0], after: &texts[1] });
    patch.leave_out_moved();
    for (side, path) in [(Side::Before, "old.py"), (Side::After, "src/new.py")] {
        assert_eq!(patch.find(side, path), Some(path));
    }
    assert!(patch.edits.is_empty() || texts[0] != texts[1], "equal texts have no edits");
});
