//! Stacks that are paired across changes of the code.

use super::*;
use crate::stack::Lines;

/// Functions as letters: a small one before a large one of the same file, `a` `A`.
fn token(letter: char) -> Token {
    let file = u64::from(u32::from(letter.to_ascii_lowercase()));
    let function = u64::from(u32::from(letter));
    Token { file: file / 4, base: file / 4, function, name: function }
}

fn group(frames: &str, line: u32, figures: u64) -> StackGroup<'static> {
    let tokens: Vec<Token> = frames.chars().map(token).collect();
    let lines = vec![line; tokens.len()];
    let figures = GroupFigures { allocations: figures, blocks: figures, bytes: figures << 20, allocated_total: 0 };
    StackGroup { key: Key(frames.to_owned()), tokens, site: 0, node: 0, lines, operators: Vec::new(), figures }
}

fn pairs(before: &[(&str, u64)], after: &[(&str, u64)]) -> Vec<(usize, usize)> {
    paired(&groups(before), &groups(after)).0
}

fn groups(side: &[(&str, u64)]) -> Vec<StackGroup<'static>> {
    side.iter().map(|(frames, figures)| group(frames, 1, *figures)).collect()
}

fn function(file: u64, name: char) -> Token {
    let function = u64::from(u32::from(name));
    Token { file, base: file, function, name: function }
}

fn group_of(key: &str, tokens: &[Token], figures: u64) -> StackGroup<'static> {
    StackGroup { key: Key(key.to_owned()), tokens: tokens.to_vec(), ..group("x", 1, figures) }
}

#[test]
fn equal_keys_come_first() {
    assert_eq!(pairs(&[("abm", 1), ("acm", 2)], &[("acm", 1), ("abm", 2)]), [(0, 1), (1, 0)]);
}

#[test]
fn a_rename_is_learnt_and_holds_everywhere() {
    // `b` became `x`: beyond doubt in the first two, and so also in the one that grew.
    let before = [("cbm", 1), ("dbm", 2), ("bm", 3)];
    let after = [("xm", 90), ("cxm", 1), ("dxm", 2)];
    assert_eq!(pairs(&before, &after), [(0, 1), (1, 2), (2, 0)]);
}

#[test]
fn wrappers_are_learnt() {
    let before = [("am", 1), ("bm", 2), ("cm", 3)];
    let after = [("awm", 1), ("bwm", 2), ("cwm", 70)];
    assert_eq!(pairs(&before, &after), [(0, 0), (1, 1), (2, 2)]);
}

#[test]
fn no_function_becomes_one_that_is_there_already() {
    // `a` and `b` exist on both sides: one stack is gone, another one is new.
    let before = [("anopqrstm", 5), ("am", 1), ("bm", 2)];
    let after = [("bnopqrstm", 5), ("am", 1), ("bm", 2)];
    assert_eq!(pairs(&before, &after), [(1, 1), (2, 2)]);
}

#[test]
fn a_call_may_leave_a_function_that_others_call() {
    let before = [("hcm", 5), ("hm", 2)];
    assert_eq!(pairs(&before, &[("cm", 5), ("hm", 2)]), [(0, 0), (1, 1)]);
    // A different number of allocations means a different call.
    assert_eq!(pairs(&before, &[("cm", 4), ("hm", 2)]), [(1, 1)]);
}

#[test]
fn functions_of_one_name_may_go_to_two_files() {
    let main = function(9, 'm');
    // `f` of file 1 calls itself under three names of classes, and goes to the files 2 and 3; less is held as well.
    let [whole, caller, callee] = [1, 2, 3].map(|file| function(file, 'f'));
    let before =
        [group_of("a", &[whole, whole, whole, main], 8), group_of("b", &[function(8, 'g'), whole, whole, main], 3)];
    let after = [
        group_of("c", &[callee, caller, caller, main], 2),
        group_of("d", &[function(8, 'g'), caller, caller, main], 3),
    ];
    assert_eq!(paired(&before, &after).0, [(0, 0), (1, 1)]);
}

#[test]
fn a_name_that_many_files_have_is_little_evidence() {
    let main = function(9, 'm');
    // `f` of file 1 is gone, and another one is new in file 2.
    let known = group_of("c", &[function(3, 'f'), function(8, 'g'), main], 7);
    let before = [group_of("a", &[function(1, 'f'), main], 5), known.clone()];
    let after = [group_of("b", &[function(2, 'f'), main], 3), known];
    assert_eq!(paired(&before, &after).0, [(1, 1)]);
    // Without a third one, it went there.
    assert_eq!(paired(&before[..1], &after[..1]).0, [(0, 0)]);
}

#[test]
fn a_function_stands_where_its_file_moved_it() {
    let [old, new, kept, main] = [function(1, 'o'), function(1, 'n'), function(1, 'k'), function(9, 'm')];
    let before = [group_of("a", &[old, main], 5), group_of("k", &[kept, main], 7)];
    let after = [group_of("b", &[new, main], 3), group_of("k", &[kept, main], 7)];
    let lines = |function, own: u32, other: u32| -> Lines {
        [(function, [own].into()), (kept, [other].into()), (main, [1].into())].into_iter().collect()
    };
    let groups = Sides { before: &before[..], after: &after[..] };
    let moved = ComparedFunctions::of(Sides { before: lines(old, 20, 40), after: lines(new, 23, 43) });
    assert_eq!(pair(groups, &moved, 0.75).pairs, [(0, 0), (1, 1)]);
    let elsewhere = ComparedFunctions::of(Sides { before: lines(old, 20, 40), after: lines(new, 60, 43) });
    assert_eq!(pair(groups, &elsewhere, 0.75).pairs, [(1, 1)]);
}

#[test]
fn what_has_nothing_in_common_is_not_paired() {
    assert_eq!(pairs(&[("abm", 1)], &[("xyz", 9)]), []);
    assert_eq!(pairs(&[], &[("xyz", 9)]), []);
}

#[test]
fn another_way_to_the_same_function_is_similar() {
    let before = [("abcdefm", 1), ("nm", 7)];
    assert_eq!(pairs(&before, &[("abcdefgm", 4), ("nm", 7), ("gnm", 9)]), [(0, 0), (1, 1)]);
    // Not with most of it different.
    assert_eq!(pairs(&[("abcdm", 1), ("hijkm", 2)], &[("ahijkm", 4), ("bcdm", 3)]), []);
}

fn group_at(line: u32, figures: u64) -> StackGroup<'static> {
    StackGroup { key: Key(line.to_string()), ..group("am", line, figures) }
}

#[test]
fn moved_lines_are_paired_in_their_order() {
    let before = [(7, 1), (10, 2)].map(|(line, figures)| group_at(line, figures));
    let after = [(10, 1), (13, 9)].map(|(line, figures)| group_at(line, figures));
    assert_eq!(paired(&before, &after).0, [(0, 0), (1, 1)]);
}

type Indexes = Vec<(usize, usize)>;

fn paired(before: &[StackGroup<'_>], after: &[StackGroup<'_>]) -> (Indexes, Indexes) {
    let Paired { pairs, parts, .. } = pair(Sides { before, after }, &ComparedFunctions::default(), 0.75);
    (pairs, parts)
}

#[test]
fn parts_of_a_stack_go_with_their_whole() {
    // `f` of file 1 under two names of classes goes to the files 2 and 3.
    let [whole, one, other] = [1, 2, 3].map(|file| function(file, 'f'));
    let main = function(9, 'm');
    let before = [group_of("a", &[whole, main], 8), group_of("x", &[function(1, 'x'), main], 3)];
    let after =
        [group_of("c", &[one, main], 6), group_of("d", &[other, main], 2), group_of("x", &[function(1, 'x'), main], 3)];
    assert_eq!(paired(&before, &after), (vec![(0, 0), (1, 2)], vec![(0, 1)]));
    assert_eq!(paired(&after, &before), (vec![(0, 0), (2, 1)], vec![(1, 0)]));
    // Something else that is new allocates on its own account.
    let more = [after[0].clone(), group_of("d", &[other, main], 7), after[2].clone()];
    assert_eq!(paired(&before, &more).1, []);
}

#[test]
fn functions_of_one_name_that_both_sides_have_are_no_parts() {
    // `f` of the files 1 and 2 both call `x`; one allocated itself before, the other one does now.
    let [one, other, inner, main] = [function(1, 'f'), function(2, 'f'), function(8, 'x'), function(9, 'm')];
    let kept = [group_of("c", &[inner, one, main], 2), group_of("d", &[inner, other, main], 3)];
    let before = [kept.as_slice(), &[group_of("a", &[one, main], 8)]].concat();
    let after = [kept.as_slice(), &[group_of("b", &[other, main], 8)]].concat();
    assert_eq!(paired(&before, &after), (vec![(0, 0), (1, 1)], vec![]));
    // It is a whole of which one part went to a file that is new.
    let part = group_of("b", &[function(3, 'f'), main], 5);
    let after = [kept.as_slice(), &[group_of("b", &[other, main], 3), part, group_of("a", &[one, main], 3)]].concat();
    assert_eq!(paired(&before, &after), (vec![(0, 0), (1, 1), (2, 4)], vec![(2, 3)]));
}

/// A file may have many devices: none may look at all functions again.
#[test]
fn a_device_adds_in_proportion_to_its_stacks() {
    let all = |line| -> Lines { ('a'..='z').map(|name| (function(1, name), [line].into())).collect() };
    let functions = ComparedFunctions::of(Sides { before: all(1), after: all(4) });
    let groups = [group_of("a", &[function(1, 'a'), function(2, 'x')], 1)];
    let mut pairing = Pairing::new(Sides { before: &groups, after: &groups }, &functions);
    assert_eq!(pairing.kept.len(), 2);
    assert!(pairing.common_names.is_empty());
    pairing.learn(0.75);
    assert!(pairing.renamed_shifts.is_empty());
}

#[test]
fn renames_count_among_the_distances_of_their_file() {
    let [a, b, c, y, z] = ['a', 'b', 'c', 'y', 'z'].map(|name| function(1, name));
    let lines = |all: &[(Token, u32)]| -> Lines { all.iter().map(|&(token, line)| (token, [line].into())).collect() };
    let before = lines(&[(a, 10), (b, 20), (c, 30)]);
    let after = lines(&[(a, 10), (b, 25), (y, 35), (z, 37)]);
    let functions = ComparedFunctions::of(Sides { before, after });
    // Of distances that as many functions have, the smaller one.
    assert_eq!(functions.shift(1), Some(0));
    let shifts = |renamed: &[(Token, Token)]| functions.shifts_with(&renamed.iter().copied().collect());
    assert!(shifts(&[]).is_empty());
    assert_eq!(shifts(&[(c, y)])[&1], 5);
    assert_eq!(shifts(&[(c, z)])[&1], 0);
}

/// A function may have as many lines as its file has stacks, so two of them are compared by the numbers of their shapes.
#[test]
fn lines_that_are_equally_far_apart_have_one_shape() {
    let [f, g, h] = ['f', 'g', 'h'].map(|name| function(1, name));
    let lines = |all: &[(Token, &[u32])]| -> Lines {
        all.iter().map(|(token, lines)| (*token, lines.iter().copied().collect())).collect()
    };
    let before = lines(&[(f, &[3, 5, 9]), (h, &[])]);
    let after = lines(&[(f, &[3, 5]), (g, &[13, 15, 19]), (h, &[1])]);
    let functions = ComparedFunctions::of(Sides { before, after });
    assert_eq!(functions.shape_shift(&f, &g), Some(10));
    assert_eq!(functions.shape_shift(&f, &f), None);
    assert_eq!(functions.shape_shift(&h, &h), None);
}
