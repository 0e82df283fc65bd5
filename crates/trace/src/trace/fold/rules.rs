//! Rules that places share which are not neighbours: the pairs of items that occur most often become rules, again and
//! again, in the sequence and in the bodies of its loops at once. That is Larsson and Moffat's Re-Pair with many pairs at a
//! time, as Jeż's recompression has them: no item is the first of one pair and the second of another, so none overlap.

use std::cmp::Reverse;

use rustc_hash::FxHashMap;

use super::{FoldItem, FoldRound, Folded, index};

/// The number of occurrences at which a rule pays for itself.
const LEAST_PLACES: usize = 3;

/// Two items in a row.
type SymbolPair = [FoldItem; 2];

/// Writes once what occurs several times.
pub(super) fn share(folded: Folded) -> Folded {
    let mut sequences = folded.sequences;
    let count = sequences.len();
    let mut rules: Vec<Vec<FoldItem>> = Vec::new();
    loop {
        let pairs = frequent_pairs(&sequences);
        if pairs.is_empty() {
            break;
        }
        let mut rule_of: FxHashMap<SymbolPair, FoldItem> = FxHashMap::default();
        for pair in pairs {
            rule_of.insert(pair, FoldItem { unit: FoldRound::Body(index(count + rules.len())), count: 1 });
            rules.push(pair.to_vec());
        }
        for items in &mut sequences {
            *items = with_rules(items, &rule_of);
        }
    }
    sequences.append(&mut rules);
    inlined(sequences, count.saturating_sub(1))
}

/// The pairs that occur most often. Of two that could overlap the more frequent one is taken.
fn frequent_pairs(sequences: &[Vec<FoldItem>]) -> Vec<SymbolPair> {
    let mut counts: FxHashMap<SymbolPair, usize> = FxHashMap::default();
    for pair in sequences.iter().flat_map(|items| items.windows(2)) {
        *counts.entry([pair[0], pair[1]]).or_default() += 1;
    }
    let mut pairs: Vec<(usize, SymbolPair)> = counts.into_iter().map(|(pair, count)| (count, pair)).collect();
    pairs.retain(|(count, [first, second])| *count >= LEAST_PLACES && first != second);
    pairs.sort_unstable_by_key(|&(count, pair)| (Reverse(count), pair));
    let mut is_first: FxHashMap<FoldItem, bool> = FxHashMap::default();
    pairs.retain(|&(_, [first, second])| {
        let is_free = is_first.get(&first) != Some(&false) && is_first.get(&second) != Some(&true);
        if is_free {
            is_first.extend([(first, true), (second, false)]);
        }
        is_free
    });
    pairs.into_iter().map(|(_, pair)| pair).collect()
}

/// Items with rules in place of pairs.
fn with_rules(items: &[FoldItem], rule_of: &FxHashMap<SymbolPair, FoldItem>) -> Vec<FoldItem> {
    let mut shorter = Vec::with_capacity(items.len());
    let mut rest = items;
    while let [first, after @ ..] = rest {
        let rule = after.first().and_then(|second| rule_of.get(&[*first, *second]));
        shorter.push(*rule.unwrap_or(first));
        rest = if rule.is_some() { &after[1..] } else { after };
    }
    shorter
}

/// Sequences without the rules that only one place uses, since they became part of larger ones.
fn inlined(sequences: Vec<Vec<FoldItem>>, root: usize) -> Folded {
    let folded = Folded::ordered(sequences, root);
    let uses = folded.uses();
    let mut written: Vec<Vec<FoldItem>> = Vec::with_capacity(folded.sequences.len());
    for items in &folded.sequences {
        let items = rewritten(items, &uses, &mut written);
        written.push(items);
    }
    let last = written.len() - 1;
    Folded::ordered(written, last)
}

/// Items with the rules that are used once in their place, and without bodies that are a single item themselves.
fn rewritten(items: &[FoldItem], uses: &[usize], written: &mut [Vec<FoldItem>]) -> Vec<FoldItem> {
    let mut all = Vec::with_capacity(items.len());
    for &item in items {
        match item.body() {
            Some(body) if item.count == 1 && uses[body] == 1 => all.append(&mut written[body]),
            body => {
                let only = body.and_then(|body| written[body].as_slice().first().filter(|_| written[body].len() == 1));
                let rounds = only.and_then(|only| only.count.checked_mul(item.count));
                all.push(only.zip(rounds).map_or(item, |(only, count)| FoldItem { count, ..*only }));
            }
        }
    }
    all
}
