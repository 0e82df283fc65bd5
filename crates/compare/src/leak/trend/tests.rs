use super::*;

const UNIT: u64 = 1 << 20;

/// Values in MiB.
fn trend(values: &[u64]) -> Trend {
    let values: Vec<u64> = values.iter().map(|value| value * UNIT).collect();
    Trend::of(&values, UNIT, 0.8).unwrap()
}

fn grows_since(values: &[u64]) -> Option<usize> {
    let trend = trend(values);
    (trend.growth == Growing::Yes).then_some(trend.since)
}

/// Parts of (number of values, rise from one to the next, jump before the first).
fn course(parts: &[(usize, i64, i64)]) -> Vec<u64> {
    let mut level = 500;
    let mut values = Vec::new();
    for &(count, rise, jump) in parts {
        level += jump;
        for _ in 0..count {
            level += rise;
            values.push(u64::try_from(level).unwrap());
        }
    }
    values
}

#[test]
fn what_grows_now_is_found_with_its_beginning() {
    for (parts, since) in [
        (&[(2, 20, 0)][..], 0),
        (&[(3, 20, 0)], 0),
        (&[(30, 20, 0)], 0),
        (&[(25, 0, 0), (3, 20, 0)], 24),
        (&[(25, 0, 0), (5, 20, 0)], 24),
        (&[(4, 0, 0), (3, 20, 0)], 3),
        (&[(10, 0, 0), (10, 0, 100), (6, 5, 0)], 19),
        // Mended, and back again.
        (&[(5, 0, 0), (10, 20, 0), (6, 0, -200), (5, 20, 0)], 20),
        // Mended in part, and on it goes.
        (&[(5, 20, 0), (6, 20, -200)], 5),
        // Few steps need not be even.
        (&[(2, 3, 0), (1, 9, 0)], 0),
        // Two nights are missing.
        (&[(20, 0, 0), (3, 20, 0), (4, 20, 40)], 19),
        (&[(200, 7, 0), (100, 3, 0)], 0),
    ] {
        assert_eq!(grows_since(&course(parts)), Some(since), "{parts:?}");
    }
    let every_second: Vec<u64> = (0..20).map(|night| 500 + night / 2 * 20).collect();
    assert_eq!(grows_since(&every_second), Some(0));
    let values: Vec<u64> = every_second.iter().map(|value| value * UNIT).collect();
    assert_eq!(Trend::of(&values, UNIT, 0.99).unwrap().growth, Growing::No, "ten of 190 pairs do not rise");
    let faster: Vec<u64> = (0..20).map(|night| 500 + night * night).collect();
    assert!(grows_since(&faster).is_some());
}

#[test]
fn what_does_not_grow_now_is_no_leak() {
    for parts in [
        &[(1, 0, 0)][..],
        &[(2, 0, 0)],
        &[(30, 0, 0)],
        &[(20, 0, 0), (1, 0, 400)],
        &[(20, 0, 0), (2, 0, 400)],
        &[(20, 0, 0), (10, 0, 400)],
        &[(8, 0, 0), (9, 0, 100), (7, 0, 100), (10, 0, 100)],
        // Mended: back to where it was, or left where it is.
        &[(5, 0, 0), (15, 20, 0), (1, 0, -300)],
        &[(5, 0, 0), (15, 20, 0), (8, 0, -300)],
        &[(5, 0, 0), (15, 20, 0), (2, 0, 0)],
        &[(5, 0, 0), (15, 20, 0), (10, 0, 0)],
        &[(20, -20, 0)],
    ] {
        assert_eq!(grows_since(&course(parts)), None, "{parts:?}");
    }
    let sawtooth: Vec<u64> = (0..29).map(|night| 500 + night % 6 * 20).collect();
    assert_eq!(grows_since(&sawtooth), None);
    let odd: Vec<u64> = (0..30).map(|night| if [3, 9, 10, 17, 29].contains(&night) { 900 } else { 500 }).collect();
    assert_eq!(grows_since(&odd), None);
}

#[test]
fn growth_is_that_since_the_change() {
    let late = trend(&course(&[(25, 0, 0), (5, 20, 0)]));
    assert_eq!((late.slope, late.grew, late.steps), (Some(20 * i128::from(UNIT)), 5, 5));
    let mended = trend(&course(&[(5, 0, 0), (15, 20, 0), (8, 0, -300)]));
    assert_eq!((mended.slope, mended.since), (Some(0), 20));
    // A flat trend begins where it becomes flat, not before.
    assert_eq!(trend(&[68, 68, 35, 68, 54, 68, 54, 68, 68, 68]).slope, Some(0));
    // One value after a change says nothing about a slope.
    assert_eq!(trend(&course(&[(20, 0, 0), (1, 0, 400)])).slope, None);
}

#[test]
fn two_rises_are_too_few_to_tell() {
    assert_eq!(trend(&course(&[(25, 0, 0), (2, 20, 0)])).growth, Growing::TooSoon);
}

/// Growth that was found stays found while every night rises by about as much or more.
#[test]
fn a_larger_rise_does_not_end_growth() {
    for parts in [
        &[(12, 5, 0), (4, 5, 105)][..],
        &[(10, 5, 0), (5, 5, 30)],
        &[(12, 5, 0), (2, 5, 100), (2, 5, 100), (4, 5, 100)],
        &[(3, 10, 0), (1, 10, 90)],
    ] {
        let values = course(parts);
        for nights in 4..=values.len() {
            assert!(grows_since(&values[..nights]).is_some(), "{nights} of {parts:?}");
        }
    }
    let jump = trend(&course(&[(12, 5, 0), (2, 5, 105)]));
    assert_eq!((jump.since, jump.slope, jump.grew, jump.steps), (0, Some(5 * i128::from(UNIT)), 13, 13));
}

/// The number of the last night of growth that has possibly not ended.
fn grew_until(parts: &[(usize, i64, i64)]) -> Option<usize> {
    let values: Vec<u64> = course(parts).iter().map(|value| value * UNIT).collect();
    let growth = LatestTrend::of(&values, UNIT, 0.8)?.paused?;
    Some(growth.since + growth.steps)
}

#[test]
fn few_level_nights_do_not_end_growth() {
    for parts in [
        &[(12, 5, 0), (1, 0, 0)][..],
        &[(12, 5, 0), (3, 0, 0)],
        &[(12, 20, 0), (2, 2, 0)],
        // Level after a step up, and rises with rests.
        &[(12, 5, 0), (3, 0, 105)],
        &[(12, 5, 0), (2, 5, 105), (1, 0, 0), (1, 5, 0)],
    ] {
        assert_eq!((grew_until(parts), grows_since(&course(parts))), (Some(11), None), "{parts:?}");
    }
    for parts in [
        &[(12, 5, 0), (4, 0, 0)][..],
        &[(12, 5, 0), (5, 0, 105)],
        &[(12, 5, 0), (1, 0, -30)],
        &[(12, 5, 0), (3, 0, -30)],
        // It goes on, or there was too little of it.
        &[(12, 5, 0), (2, 5, 105)],
        &[(3, 10, 0), (2, 0, 0)],
        &[(8, 0, 0), (2, 5, 0), (1, 0, 0)],
        &[(8, 0, 0), (2, 0, 100), (2, 0, 100)],
    ] {
        assert_eq!(grew_until(parts), None, "{parts:?}");
    }
}

#[test]
fn one_odd_night_hides_no_leak() {
    for night in [1, 15, 20, 27, 28] {
        let mut values = course(&[(10, 0, 0), (20, 20, 0)]);
        values[night] = 2000;
        assert_eq!(grows_since(&values), Some(9), "{night}");
    }
}

/// Random numbers that are the same on every machine.
struct Random {
    state: u64,
}

impl Random {
    fn new(seed: u64) -> Self {
        Self { state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 }
    }

    /// A number from -0.5 to 0.5, each equally likely.
    fn even(&mut self) -> f64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        approximate(self.state >> 11) / approximate(1_u64 << 53) - 0.5
    }

    /// Normal enough: the sum of four even ones.
    fn normal(&mut self, deviation: f64) -> f64 {
        (self.even() + self.even() + self.even() + self.even()) * deviation * 3.0_f64.sqrt()
    }

    /// A value in MiB with noise around it, in bytes.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some hundreds of MiB")]
    fn around(&mut self, value: u64, deviation: f64) -> u64 {
        ((approximate(value) + self.normal(deviation)) * approximate(UNIT)) as u64
    }
}

fn noisy(values: &[u64], deviation: f64, seed: u64) -> Vec<u64> {
    let mut random = Random::new(seed);
    values.iter().map(|value| random.around(*value, deviation)).collect()
}

/// How often a leak is found in a hundred series with noise.
fn found_of_100(values: &[u64], deviation: f64) -> usize {
    let trends = (1..=100).filter_map(|seed| Trend::of(&noisy(values, deviation, seed), UNIT, 0.8));
    trends.filter(|trend| trend.growth == Growing::Yes).count()
}

#[test]
fn noise_neither_hides_nor_makes_a_leak() {
    let leaking = [course(&[(10, 20, 0)]), course(&[(25, 0, 0), (5, 20, 0)]), course(&[(25, 0, 0), (8, 20, 0)])];
    let clean = [
        course(&[(5, 0, 0)]),
        course(&[(10, 0, 0)]),
        course(&[(30, 0, 0)]),
        course(&[(90, 0, 0)]),
        course(&[(15, 0, 0), (15, 0, 100)]),
        course(&[(5, 0, 0), (15, 20, 0), (8, 0, -300)]),
        course(&[(5, 0, 0), (15, 20, 0), (8, 0, 0)]),
    ];
    for deviation in [0.5, 2.0, 5.0] {
        for values in &leaking {
            let found = found_of_100(values, deviation);
            assert!(found >= 97, "{deviation} {values:?}: {found}");
        }
        for values in &clean {
            let found = found_of_100(values, deviation);
            assert!(found <= 3, "{deviation} {values:?}: {found}");
        }
    }
}

#[test]
fn several_steps_up_are_no_leak() {
    for parts in [&[(2, 0, 0), (3, 0, 100), (4, 0, 100)], &[(7, 0, 0), (8, 0, 100), (5, 0, 100)]] {
        for deviation in [0.5, 2.0] {
            let found = found_of_100(&course(parts), deviation);
            assert!(found <= 5, "{deviation} {parts:?}: {found}");
        }
    }
}

/// A flat series is taken for a leak by its chance order in less than one of fifty cases.
#[test]
fn noise_alone_is_hardly_ever_a_leak() {
    let seeds = 1..=1000_u64;
    let flat = [8, 9, 10, 12].map(|count| vec![500; count]);
    let found = flat.iter().flat_map(|values| seeds.clone().map(|seed| noisy(values, 5.0, seed * 31)));
    let found = found.filter(|values| Trend::of(values, UNIT, 0.8).is_some_and(|trend| trend.growth == Growing::Yes));
    let found = found.count();
    assert!(found < 70, "{found} of 4,000");
}

#[test]
fn the_median_slope_ignores_odd_values() {
    assert_eq!(slope(&[]), None);
    assert_eq!(slope(&[7]), None);
    assert_eq!(slope(&[7, 9]), Some(2));
    assert_eq!(slope(&[0, 10, 20, 9000, 40, 50, 60]), Some(10));
    assert_eq!(slope(&[60, 50, 40, 30]), Some(-10));
    assert_eq!(slope(&[5, 5, 5, 5, 999]), Some(0));
    assert_eq!(slope(&[0, 1, 1, 2]), Some(1), "(1, 1/2, 2/3, 0, 1/2, 1) has the median 7/12");
    assert_eq!(slope(&[1 << 53, 0]), Some(-(1 << 53)));
    let long: Vec<u64> = (0..10_000).map(|step| step * 4096).collect();
    assert_eq!(slope(&long), Some(4096));
}
