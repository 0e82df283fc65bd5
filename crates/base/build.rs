//! Makes the enum of diagnostic codes from the text that describes them.

use std::env;
use std::error::Error;
use std::fs;
use std::path::Path;

const DESCRIPTIONS: &str = "src/diagnostic/codes.txt";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={DESCRIPTIONS}");
    let text = fs::read_to_string(DESCRIPTIONS)?.replace("\r\n", "\n");
    let codes: Option<String> = text.trim_end().split("\n\n").map(code).collect();
    let codes =
        codes.ok_or("codes.txt: each code has a line with its name and weight, one of meaning and one of help")?;
    fs::write(Path::new(&env::var("OUT_DIR")?).join("codes.rs"), format!("codes! {{\n{codes}}}\n"))?;
    Ok(())
}

/// A line for the macro `codes!`.
fn code(description: &str) -> Option<String> {
    let [head, meaning, help] = description.lines().collect::<Vec<_>>().try_into().ok()?;
    let (name, weight) = head.split_once(' ')?;
    let words = name.split('-').map(|word| word[..1].to_uppercase() + &word[1..]);
    Some(format!("{} {weight} {meaning:?} {help:?};\n", words.collect::<String>()))
}
