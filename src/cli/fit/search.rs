//! Finds the place in an ordered set at which an answer changes, with as few questions as it can.

use anyhow::Result;

/// The answer for a number: the bytes that it took if it fits.
pub(super) type Fits = Option<u64>;

/// The numbers that were tried, in their order, and the bytes of those that fit.
pub(super) type Tried = Vec<(u64, Fits)>;

/// Tries numbers until the largest that fits has a neighbour that does not, or is the last. `room` is the number of bytes that fit.
/// Numbers above one that does not fit are taken not to fit, which only the asked ones prove.
pub(super) fn search(
    first: u64,
    last: u64,
    room: u64,
    mut ask: impl FnMut(u64, &[(u64, Fits)]) -> Result<Fits>,
) -> Result<Tried> {
    let mut tried = Tried::new();
    let mut next = first;
    let mut is_guess = false;
    loop {
        let fits = ask(next, &tried)?;
        let at = tried.partition_point(|&(number, _)| number < next);
        tried.insert(at, (next, fits));
        let below = tried.iter().rev().find(|(_, fits)| fits.is_some()).map(|&(number, _)| number);
        let above = tried.iter().find(|(_, fits)| fits.is_none()).map(|&(number, _)| number);
        let Some(low) = below.filter(|&low| low < last && above != Some(low + 1)) else { return Ok(tried) };
        let high = above.unwrap_or(last + 1);
        let middle = if above.is_some() { low + (high - low) / 2 } else { low.saturating_mul(2).min(last) };
        // A guess is only as good as a line: every other question halves what is left.
        is_guess = !is_guess;
        next = guess(&tried, room).filter(|_| is_guess).map_or(middle, |guess| guess.clamp(low + 1, high - 1));
    }
}

/// The number at which the line through the two largest that fit leaves no room.
fn guess(tried: &[(u64, Fits)], room: u64) -> Option<u64> {
    let mut fitting = tried.iter().rev().filter_map(|&(number, bytes)| Some((number, bytes?)));
    let ((high, most), (low, less)) = (fitting.next()?, fitting.next()?);
    let [run, rise, rest] =
        [high - low, most.checked_sub(less).filter(|&rise| rise > 0)?, room.saturating_sub(most)].map(u128::from);
    u64::try_from(rest * run / rise).ok()?.checked_add(high)
}

/// Two numbers where the larger took less memory, by enough that some number above the first that does not fit may fit.
/// A line through the two largest that fit predicts how much memory that first one lacks: a smaller fall does not
/// matter.
pub(super) fn falling(tried: &[(u64, Fits)], room: u64) -> Option<(u64, u64)> {
    let above = tried.iter().find(|(_, fits)| fits.is_none())?.0;
    let fitting: Vec<_> = tried.iter().filter_map(|&(number, bytes)| Some((number, bytes?))).collect();
    let lacking = match fitting[..] {
        [.., (low, less), (high, most)] => {
            let rise = u128::from(most.saturating_sub(less)) * u128::from(above.saturating_sub(high));
            (u128::from(most) + rise / u128::from(high - low)).saturating_sub(room.into())
        }
        _ => return None,
    };
    let mut pairs = fitting.windows(2);
    let pair = pairs.find(|pair| u128::from(pair[0].1.saturating_sub(pair[1].1)) > lacking)?;
    Some((pair[0].0, pair[1].0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn largest(first: u64, last: u64, bytes: impl Fn(u64) -> u64) -> (Option<u64>, usize) {
        let room = 1000;
        let tried = search(first, last, room, |x, _| Ok(Some(bytes(x)).filter(|&bytes| bytes <= room))).unwrap();
        (tried.iter().rev().find(|(_, fits)| fits.is_some()).map(|&(x, _)| x), tried.len())
    }

    #[test]
    fn the_largest_that_fits_is_found_in_few_questions() {
        assert_eq!(largest(1, 4096, |x| 100 + 3 * x).0, Some(300));
        assert!(largest(1, 4096, |x| 100 + 3 * x).1 <= 6);
        for (expected, bytes) in [
            (31, (|x| x * x) as fn(u64) -> u64),
            (1, |x| x * 501),
            (1000, |x| x),
            (99, |x| if x < 100 { 5 } else { 5000 }),
        ] {
            let (found, asked) = largest(1, 4096, bytes);
            assert_eq!(found, Some(expected));
            assert!(asked <= 26, "{asked}");
        }
        assert_eq!(largest(1, 64, |_| 10).0, Some(64));
        assert_eq!(largest(5, 64, |_| 1001), (None, 1));
        assert_eq!(largest(7, 7, |_| 10), (Some(7), 1));
    }

    #[test]
    fn a_larger_number_that_took_less_is_told() {
        let tried = [(1, Some(5)), (2, Some(9)), (3, Some(7)), (4, None)];
        assert_eq!(falling(&tried, 10), Some((2, 3)));
        assert_eq!(falling(&[(1, Some(5)), (2, Some(5)), (3, None)], 10), None);
        // All fit: no larger number is left.
        assert_eq!(falling(&tried[..3], 10), None);
        // Far from the answer, where each step takes 400 more and the first that does not fit lacks 200.
        let tried = [(1, Some(50)), (2, Some(45)), (3, Some(500)), (4, Some(900)), (5, None)];
        assert_eq!(falling(&tried, 1100), None);
        assert_eq!(falling(&tried, 1298), Some((1, 2)));
    }
}
