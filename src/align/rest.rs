//! A history that is, allocation by allocation, the rest of another one.
//!
//! The mixture of stacks tells little where few allocations are left, or where the stacks of the part that is gone
//! occur in the rest as well. The order tells then: no change to the code leaves all allocations of one history at the
//! end, or at the beginning, of the other.

use rustc_hash::FxHashSet;

use super::End;
use super::written::written;
use crate::profile::course::Folded;

/// Longer histories are not written out.
const MOST_ALLOCATIONS: u64 = 1 << 20;

/// Fewer allocations than these are the same by chance.
pub(super) const LEAST_ALLOCATIONS: usize = 4;

/// Of this many allocations, one may have another stack.
const MISMATCH_PART: usize = 50;

/// A missing part is at least the length of the other history divided by this.
const SHORTEST_PART: usize = 40;

/// Number of allocations in a row by which a part of a round is recognised.
const IN_A_ROW: usize = 8;

/// The allocations that one history lacks at an end of another, of which its own are the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CutOff {
    /// Their number.
    pub(super) gone: u64,
    /// True if they are another round of what is left.
    pub(super) is_another_round: bool,
}

/// Finds the allocations that `one` lacks at an end of `whole`. `None` where its own are not the rest of those.
pub(super) fn cut_off(one: &Folded, whole: &Folded, end: End) -> Option<CutOff> {
    let shorter = one.length();
    if shorter >= whole.length() || whole.length() > MOST_ALLOCATIONS {
        return None;
    }
    let one = symbols(one);
    let whole = symbols(whole);
    let gone = whole.len() - one.len();
    let rest = match end {
        End::Head => &whole[gone..],
        End::Tail => &whole[..one.len()],
    };
    let mismatches = one.iter().zip(rest).filter(|(own, other)| own != other).count();
    let is_rest = one.len() >= LEAST_ALLOCATIONS && mismatches <= one.len() / MISMATCH_PART;
    let is_part = gone >= LEAST_ALLOCATIONS.max(whole.len() / SHORTEST_PART);
    if !is_rest || !is_part {
        return None;
    }
    Some(CutOff { gone: u64::try_from(gone).ok()?, is_another_round: is_another_round(rest, &whole, end) })
}

/// True if nearly all of what is not in the rest occurs there in the same order.
fn is_another_round(rest: &[u32], whole: &[u32], end: End) -> bool {
    let known: FxHashSet<&[u32]> = rest.windows(IN_A_ROW).collect();
    // Those in a row that reach into the rest belong to the cut.
    let beyond = (whole.len() - rest.len() + IN_A_ROW - 1).min(whole.len());
    let gone = match end {
        End::Head => &whole[..beyond],
        End::Tail => &whole[whole.len() - beyond..],
    };
    let all = gone.windows(IN_A_ROW);
    let count = all.len();
    let unknown = all.filter(|row| !known.contains(row)).count();
    count > 0 && unknown * 10 <= count
}

/// The symbol of every allocation.
pub(super) fn symbols(folded: &Folded) -> Vec<u32> {
    written(folded, |_| true).iter().map(|allocation| allocation.symbol).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(one: &str, whole: &str, end: End) -> Option<u64> {
        let [one, whole] = [one, whole].map(|text| Folded::new(text.bytes().map(u32::from), usize::MAX).unwrap());
        cut_off(&one, &whole, end).filter(|rest| !rest.is_another_round).map(|rest| rest.gone)
    }

    #[test]
    fn the_rest_is_found_at_its_end() {
        let whole = "abcdefghijklmnopqrstuvwxyz";
        assert_eq!(cut("uvwxyz", whole, End::Head), Some(20));
        assert_eq!(cut("uvwxyz", whole, End::Tail), None);
        assert_eq!(cut("abcdefghijklmn", whole, End::Tail), Some(12));
        assert_eq!(cut("abcdefghijklmn", whole, End::Head), None);
        assert_eq!(cut("xyz", whole, End::Head), None, "too few");
        assert_eq!(cut(whole, whole, End::Head), None, "nothing is gone");
        assert_eq!(cut("uvwXyz", whole, End::Head), None, "another one");
    }

    #[test]
    fn a_stack_that_recurs_elsewhere_is_no_other_round() {
        let whole = "abcabdacbdbacabcdcbadbcadcabbacdabdcacbdabcddbac";
        assert_eq!(cut(&whole[20..], whole, End::Head), Some(20));
        assert_eq!(cut(&whole[..30], whole, End::Tail), Some(18));
    }

    #[test]
    fn another_round_is_no_missing_part() {
        let step = "abcdefghijkl";
        assert_eq!(cut(&step.repeat(3), &step.repeat(5), End::Head), None);
        assert_eq!(cut(&step.repeat(2), &step.repeat(5), End::Tail), None);
        assert_eq!(cut(&"a".repeat(30), &"a".repeat(90), End::Tail), None);
        // Less than one round is left.
        assert_eq!(cut("ghijkl", &step.repeat(3), End::Head), Some(30));
    }
}
