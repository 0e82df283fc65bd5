// The readers of device code, as the library of `ptmem simulate` has them. Targets include this file at their root, where
// its modules look for each other.

extern crate alloc;

#[path = "../../simulate/src/card.rs"]
#[allow(dead_code)]
mod card;
#[path = "../../simulate/src/code/mod.rs"]
#[allow(dead_code)]
mod code;
#[path = "../../simulate/src/ffi.rs"]
#[allow(dead_code)]
mod ffi;
#[path = "../../simulate/src/little_endian.rs"]
#[allow(dead_code)]
mod little_endian;
#[path = "../../simulate/src/settings.rs"]
#[allow(dead_code)]
mod settings;

#[path = "simulated/sys.rs"]
#[allow(dead_code)]
mod sys;
