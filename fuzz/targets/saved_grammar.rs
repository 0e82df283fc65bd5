//! Saved profiles of few bytes that stand for many events, some with a number that is another one. None unfolds to more than a file
//! of its size may stand for, and what does not is read.

#![no_main]

mod checks;
#[path = "../../tests/support/made.rs"]
mod made;

use libfuzzer_sys::fuzz_target;
use made::{Bomb, Choices, MOVE};
use ptmem::profile::{Profile, ReadOptions, read};
use ptmem::report;

/// What most files may stand for, so that each takes little time.
const MOST: u64 = 1 << 14;

/// What a file may stand for without an option: this, or two events or blocks for each byte.
const MOST_OF_SMALL: u64 = 1_398_101;

fuzz_target!(|bytes: &[u8]| {
    let mut choices = Choices(bytes);
    let bombs: Vec<Bomb> = (0..=choices.below(4)).map(|_| Bomb::of(&mut choices)).collect();
    let moves: u64 = bombs.iter().map(Bomb::moves).sum();
    let mut text = made::saved(&bombs);
    let is_whole = choices.byte() < 128;
    if !is_whole {
        replace_number(&mut text, &mut choices);
    }
    let text = checks::signed(&text);
    // Few, which are read and no more.
    if choices.byte() > 250 {
        let most = MOST_OF_SMALL.max(100 * text.len() as u64 / MOVE);
        match read(text.as_bytes(), "saved", ReadOptions::default()) {
            Ok(profile) => assert!(moves_of(&profile) <= most && (!is_whole || moves_of(&profile) == moves)),
            Err(error) => assert!(!is_whole || moves > most, "{error}"),
        }
        return;
    }
    let options = ReadOptions { max_input: Some(MOST * MOVE), ..ReadOptions::default() };
    match read(text.as_bytes(), "saved", options) {
        Ok(profile) => {
            assert!(!is_whole || moves_of(&profile) == moves, "{moves}");
            assert!(moves_of(&profile) <= MOST);
            checks::adds_up(&profile);
            checks::is_saved_whole(&profile);
            checks::report(&profile, &report::RenderOptions::default());
        }
        Err(error) => assert!(!is_whole || moves > MOST, "{error}"),
    }
});

/// The number of events, and of blocks at the beginning.
fn moves_of(profile: &Profile) -> u64 {
    let traces = profile.devices.iter().map(|device| &device.trace);
    let start = traces.clone().flat_map(|trace| &trace.start);
    let blocks: u64 = start.map(|start| u64::from(start.allocated) + u64::from(start.pending)).sum();
    blocks + traces.map(|trace| (trace.symbols.len() + trace.implied.len()) as u64).sum::<u64>()
}

/// Writes another number in the place of one.
fn replace_number(text: &mut String, choices: &mut Choices<'_>) {
    let place = usize::from(u16::from_le_bytes([choices.byte(), choices.byte()])) % text.len();
    let Some(from) = text[place..].find(|c: char| c.is_ascii_digit()).map(|at| place + at) else { return };
    let length = text[from..].find(|c: char| !c.is_ascii_digit()).unwrap_or(0);
    let number = [0, 1, u64::from(choices.byte()), 1 << choices.below(64), u64::MAX][choices.below(5)];
    text.replace_range(from..from + length, &number.to_string());
}
