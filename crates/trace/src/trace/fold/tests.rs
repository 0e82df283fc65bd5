use proptest::prelude::*;

use super::*;

/// Letters as symbols.
fn symbols(text: &str) -> Vec<u32> {
    text.bytes().map(|byte| u32::from(byte - b'a')).collect()
}

/// Items as letters, with the bodies in brackets.
fn written(folded: &Folded, items: &[FoldItem]) -> String {
    let words = items.iter().map(|&FoldItem { unit, count }| {
        let word = match unit {
            FoldRound::Symbol(symbol) => char::from(b'a' + u8::try_from(symbol).unwrap()).to_string(),
            FoldRound::Body(body) => format!("({})", written(folded, &folded.sequences[body as usize])),
        };
        if count == 1 { word } else { format!("{word}*{count}") }
    });
    words.collect::<Vec<_>>().join(" ")
}

/// A folded text.
fn text(text: &str) -> String {
    let folded = Folded::new(&symbols(text), MOST_ITEMS).unwrap();
    written(&folded, folded.items())
}

/// The number of symbols of a sequence in a file, of which there are a few.
fn length(json: &str) -> Option<u64> {
    serde_json::from_str::<Folded>(json).ok()?.length(3)
}

/// Folds, unfolds, writes and reads a sequence. Returns the number of items.
fn round_trip(symbols: &[u32]) -> usize {
    let folded = Folded::new(symbols, MOST_ITEMS).unwrap();
    assert!(folded.unfolded().eq(symbols.iter().copied()));
    let json = serde_json::to_string(&folded).unwrap();
    let read: Folded = serde_json::from_str(&json).unwrap();
    assert_eq!(read, folded);
    let known = symbols.iter().max().map_or(0, |&most| most as usize + 1);
    assert_eq!(read.length(known), Some(symbols.len() as u64));
    assert_eq!(symbols.is_empty(), read.length(known.saturating_sub(1)).is_some(), "a symbol that is not there");
    assert_eq!(Folded::new(symbols, usize::MAX).unwrap(), folded, "the same sequence is folded in the same way");
    folded.size()
}

#[test]
fn loops_are_folded() {
    assert_eq!(text("abcabcabcd"), "(a b c)*3 d");
    assert_eq!(text("aaaa"), "a*4");
    assert_eq!(text("xabbabby"), "x (a b*2)*2 y");
    assert_eq!(text("abc"), "abc".split("").filter(|letter| !letter.is_empty()).collect::<Vec<_>>().join(" "));
    assert_eq!(text(&"ab".repeat(1000)), "(a b)*1000");
    let step = "f".repeat(24) + "h" + &"bc".repeat(24);
    assert_eq!(text(&("s".to_owned() + &step.repeat(3))), "s (f*24 h (b c)*24)*3");
}

#[test]
fn what_recurs_elsewhere_becomes_a_rule() {
    let folded = Folded::new(&symbols("xabcdefghyabcdefghzabcdefghwabcdefgh"), MOST_ITEMS).unwrap();
    assert_eq!(folded.sequences.len(), 2);
    assert_eq!(written(&folded, &folded.sequences[0]), "a b c d e f g h");
    assert_eq!(text("xabyabzabw"), "x (a b) y (a b) z (a b) w");
    assert_eq!(text("xabyabz"), "x a b y a b z", "a rule would be longer");
}

/// A training step: layers forward and backward, one symbol for each kind of allocation and free.
fn step(layers: u32, odd: impl Fn(u32) -> bool) -> Vec<u32> {
    let mut moves = vec![0, 1];
    for layer in 0..layers {
        moves.extend(10..40);
        moves.extend(odd(layer).then_some(99));
    }
    for layer in 0..layers {
        moves.extend(40..90);
        moves.extend(odd(layers + layer).then_some(98));
    }
    moves.extend((0..200).flat_map(|_| [3, 4, 5]));
    moves
}

#[test]
fn disturbed_loops_stay_short() {
    let whole: Vec<u32> = (0..250).flat_map(|_| step(24, |_| false)).collect();
    assert!(round_trip(&whole) < 120);
    let disturbed: Vec<u32> = (0..50).flat_map(|round| step(24, |layer| (layer * 7 + round) % 11 == 0)).collect();
    let size = round_trip(&disturbed);
    assert!(size < 2500, "{size} items of {}", disturbed.len());
}

#[test]
fn what_does_not_repeat_is_refused() {
    let distinct: Vec<u32> = (0..100_000).collect();
    assert_eq!(Folded::new(&distinct, MOST_ITEMS), None);
    assert_eq!(round_trip(&distinct[..MOST_ITEMS]), MOST_ITEMS);
    assert_eq!(Folded::new(&distinct[..=MOST_ITEMS], MOST_ITEMS), None);
    assert_eq!(round_trip(&[]), 0);
}

#[test]
fn lengths_do_not_overflow() {
    assert_eq!(length("[[[0, 9999], 1], [[-1, 9999]]]"), Some(10_000 * 9999));
    assert_eq!(length("[[[0, 18446744073709551615], 1], [[-1, 9]]]"), None);
    assert_eq!(length("[[[0, 18446744073709551615], 1]]"), None, "each fits, both do not");
    assert_eq!(length("[]"), Some(0));
}

#[test]
fn damaged_sequences_are_refused() {
    assert_eq!(length("[[0, 1], [-1, -1, [2, 3]]]"), Some(7));
    for json in [
        "[[3]]",
        "[[[0, 0]]]",
        "[[-1, 0]]",
        "[[-2, 0], [0, 1], [-1, -2]]",
        "[[], [-1]]",
        "[[0], [-1]]",
        "[[0, [0]]]",
        "[[0, 1.5]]",
        "[[-5000000000]]",
        "[[-9223372036854775808]]",
        "[[\"a\"]]",
    ] {
        assert_eq!(length(json), None, "{json}");
    }
}

proptest! {
    #[test]
    fn random_sequences_come_back(moves in proptest::collection::vec(0_u32..6, 0..400)) {
        round_trip(&moves);
    }

    #[test]
    fn nested_loops_come_back(
        inner in proptest::collection::vec(0_u32..5, 1..6),
        outer in proptest::collection::vec(0_u32..5, 0..6),
        counts in (1_usize..20, 1_usize..20),
        swaps in proptest::collection::vec(0_usize..10_000, 0..8),
    ) {
        let mut moves: Vec<u32> = (0..counts.0).flat_map(|_| [inner.repeat(counts.1), outer.clone()].concat()).collect();
        for swap in swaps {
            let place = swap % moves.len();
            let next = (place + 1) % moves.len();
            moves.swap(place, next);
        }
        round_trip(&moves);
    }
}
