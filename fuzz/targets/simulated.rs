// The readers of device code, as the library of `ptmem simulate` has them. Targets include this file at their root, where
// its modules look for each other.

extern crate alloc;

#[path = "../../crates/simulate/library/src/card.rs"]
#[allow(dead_code)]
mod card;
#[path = "../../crates/simulate/library/src/code/mod.rs"]
#[allow(dead_code)]
mod code;
#[path = "../../crates/simulate/library/src/ffi.rs"]
#[allow(dead_code)]
mod ffi;
#[path = "../../crates/simulate/library/src/little_endian.rs"]
#[allow(dead_code)]
mod little_endian;
#[path = "../../crates/simulate/library/src/settings.rs"]
#[allow(dead_code)]
mod settings;

#[path = "simulated/sys.rs"]
#[allow(dead_code)]
mod sys;
