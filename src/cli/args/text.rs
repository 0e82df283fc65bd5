//! The texts of `--help` other than those of the options.

use ptmem::profile::Metric;

/// Headings of options.
pub(crate) mod heading {
    /// Limits that decide the verdict.
    pub(crate) const LIMITS: &str = "Limits";
    /// The comparison itself.
    pub(crate) const COMPARED: &str = "What is compared";
    /// Selection for a report on one snapshot.
    pub(crate) const SHOWN: &str = "What is shown";
    /// The candidates of a search, and how they are recorded.
    #[cfg(feature = "simulate")]
    pub(crate) const SEARCHED: &str = "What is recorded";
    /// Definition of a leak.
    pub(crate) const LEAK: &str = "What counts as a leak";
    /// Contents of a saved profile.
    pub(crate) const KEPT: &str = "What is kept";
    /// Keeping the stored before up to date.
    pub(crate) const STORED: &str = "Stored before";
    /// The call tree in reports.
    pub(crate) const TREE: &str = "Call tree";
    /// Doubt and failure.
    pub(crate) const TRUST: &str = "Trust";
    /// Files to read, and how.
    pub(crate) const INPUT: &str = "Input";
    /// Reports and where they go.
    pub(crate) const OUTPUT: &str = "Output";
}

/// After the help of every command but `leak`.
pub(crate) const EXIT_CODES: &str = include_str!("help/exit_codes.txt").trim_ascii_end();

/// After the long help of `diff`.
pub(super) fn diff() -> String {
    let metrics = Metric::ALL.map(|metric| format!("  {:<15}{}", metric.name(), metric.description()));
    include_str!("help/diff.txt").trim_ascii_end().replace("{metrics}", &metrics.join("\n"))
}

/// After the help of `leak`.
pub(super) const LEAK_EXIT_CODES: &str = include_str!("help/leak_exit_codes.txt").trim_ascii_end();

/// After the long help of `leak`.
pub(super) const LEAK: &str = include_str!("help/leak.txt").trim_ascii_end();
