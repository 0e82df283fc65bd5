//! Wraps the list of names in a call of the macro that exports them, as the build script of ptmem does.

use std::env::var_os;
use std::fs;
use std::path::Path;

const LIST: &str = "../src/names.txt";

fn main() -> std::io::Result<()> {
    println!("cargo::rerun-if-changed={LIST}");
    let folder = var_os("OUT_DIR").unwrap_or_default();
    fs::write(Path::new(&folder).join("names.rs"), format!("names! {{\n{}}}\n", fs::read_to_string(LIST)?))
}
