//! How many random cases a test tries, and from which seed.

#![allow(dead_code, unreachable_pub, missing_docs)]

use proptest::test_runner::{Config, RngSeed};

/// The same `cases` in every run, so that a change cannot break an unrelated build. Where `PROPTEST_CASES` is set, that
/// number of other cases in each run, to look for one that fails.
pub fn config(cases: u32) -> Config {
    let random = Config { failure_persistence: None, ..Config::default() };
    if std::env::var_os("PROPTEST_CASES").is_some() {
        return random;
    }
    Config { cases, rng_seed: RngSeed::Fixed(0), ..random }
}

/// Numbers without an order: those of SplitMix64.
pub fn numbers(seed: u64) -> impl Iterator<Item = u64> {
    (1..).map(move |at: u64| {
        let mut mixed = seed.wrapping_mul(0xD134_2543_DE82_EF95).wrapping_add(at.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    })
}
