use std::fmt::Write;

use proptest::prelude::*;

use super::*;

/// Letters as symbols.
fn symbols(text: &str) -> Vec<u32> {
    text.bytes().map(|byte| u32::from(byte - b'a')).collect()
}

fn names(count: u32) -> Vec<String> {
    (0..count).map(|symbol| format!("n{symbol}")).collect()
}

/// A folded text, in lines that are joined.
fn text(text: &str) -> String {
    let letters: Vec<String> = ('a'..='z').map(String::from).collect();
    Folded::new(&symbols(text), MOST_ITEMS).unwrap().lines(&letters).join(" ")
}

/// Expands a text whose names are single letters.
fn parsed(lines: &[&str]) -> Result<Folded, Malformed> {
    let (folded, names) = Folded::parse(lines, 1 << 20)?;
    let other = names.iter().find(|name| name.len() > 1);
    other.map_or(Ok(folded), |name| Err(Malformed::word(name)))
}

/// Folds, unfolds, writes and reads a sequence. Returns the number of items.
fn round_trip(symbols: &[u32]) -> usize {
    let folded = Folded::new(symbols, MOST_ITEMS).unwrap();
    assert!(folded.unfolded().eq(symbols.iter().copied()));
    assert_eq!(folded.length(), Some(symbols.len() as u64));
    let names = names(symbols.iter().max().map_or(0, |most| most + 1));
    let lines = folded.lines(&names);
    let (read, names_read) = Folded::parse(&lines, symbols.len() as u64).unwrap();
    assert!(
        read.unfolded()
            .map(|name| &names_read[name as usize])
            .eq(symbols.iter().map(|&symbol| &names[symbol as usize]))
    );
    assert_eq!(Folded::new(symbols, usize::MAX).unwrap().lines(&names), lines, "the same sequence has the same text");
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
    let lines = text("xabcdefghyabcdefghzabcdefghwabcdefgh");
    let (sequence, rule) = lines.split_once("= ").unwrap();
    assert_eq!(rule, "a b c d e f g h");
    let name = sequence.rsplit(' ').next().unwrap();
    assert_eq!(sequence.matches(name).count(), 5, "{lines}");
    assert_eq!(text("xabyabzabwab"), "x a b y a b z a b w a b", "a rule would be longer");
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

/// Loops of 9,999 rounds, `deep` of them around another one.
fn nested(deep: usize) -> String {
    format!("{}a{}", "(".repeat(deep), "*9999)".repeat(deep) + "*9999")
}

#[test]
fn lengths_do_not_overflow() {
    let most = 9999_u64.pow(3);
    assert_eq!(Folded::parse(&[nested(2)], most).unwrap().0.length(), Some(most));
    assert!(Folded::parse(&[nested(2)], most - 1).is_err());
    assert!(Folded::parse(&[nested(5)], u64::MAX).is_err(), "10^24 symbols");
    // Each of two fits, both do not.
    let twice = format!("a*{} a*{}", u64::MAX, 1_u64 << 63);
    assert!(Folded::parse(&[twice], u64::MAX).is_err());
}

#[test]
fn damaged_text_is_refused() {
    let words =
        ["(a", "(a b", "a*", "a*0", "a*1", "a*x", "a)*3", "()*2", "a*99999999999999999999", "a*2*3", "(", ")", "a(b"];
    for line in words.into_iter().chain([
        "ab",
        "$x",
        "$x $x= ",
        "$x $x= a b $x= b a",
        "$x $x= b $x",
        "$x $x= b",
        "(a b)",
        "$x $x= (b",
        "a=b",
    ]) {
        assert!(parsed(&[line]).is_err(), "{line}");
    }
    let cycle = parsed(&["$x", "$x= $y a", "$y= $z a", "$z= $x a"]);
    assert_eq!(cycle.unwrap_err().to_string(), "a rule stands for itself");
    assert!(parsed(&[&"(".repeat(100_000)]).is_err());
    let deep = "(".repeat(10_000) + "a" + &")*2".repeat(10_000);
    assert!(parsed(&[&deep]).unwrap_err().to_string().starts_with("more than"));
    assert_eq!(parsed(&["$x*2 a", "$x= b*3 c"]).unwrap().length(), Some(9));
    assert_eq!(parsed(&[]).unwrap().length(), Some(0));
}

#[test]
fn rules_of_rules_need_no_recursion() {
    let mut chain = String::from("$r9999 $r9999");
    for rule in 1..10_000 {
        write!(chain, " $r{rule}= a $r{}", rule - 1).unwrap();
    }
    chain += " $r0= a a";
    let folded = Folded::parse(&[&chain], 1 << 20);
    assert_eq!(folded.unwrap().0.length(), Some(2 * 10_001));
}

#[test]
fn an_insertion_changes_few_lines() {
    let moves: Vec<u32> = (0..500).map(|place| place * 7 % 501).collect();
    let mut changed = moves.clone();
    changed.insert(250, 500);
    let names = names(502);
    let [old, new] = [&moves, &changed].map(|moves| Folded::new(moves, MOST_ITEMS).unwrap().lines(&names));
    let kept = old.iter().filter(|line| new.contains(line)).count();
    assert!(old.len() > 20 && old.len() - kept <= 3, "{kept} of {} lines", old.len());
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
