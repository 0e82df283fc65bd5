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
