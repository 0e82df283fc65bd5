//! Any bytes as the output of `git diff`, followed by the text of a Python file.

#![no_main]

use libfuzzer_sys::fuzz_target;
use ptmem::patch::Patch;
use ptmem::sides::Side;

fuzz_target!(|bytes: &[u8]| {
    let (diff, text) = bytes.split_at(bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len()));
    let Ok(mut patch) = Patch::parse(diff, "src/") else { return };
    let text = String::from_utf8_lossy(text);
    for side in [Side::Before, Side::After] {
        let files: Vec<String> = patch.files(side).map(str::to_owned).collect();
        for file in &files {
            assert_eq!(patch.find(side, file), Some(&**file));
            let touched: Vec<u32> = (0..100).filter(|&line| patch.touches(side, file, line)).collect();
            patch.widen_to_statements(side, file, &text);
            assert!(touched.iter().all(|&line| patch.touches(side, file, line)), "statements only add lines");
        }
    }
});
