//! Collects the ranks of a job one after the other, with no more in memory than the reports need.

use std::sync::Arc;

use super::{
    Comparison, Gate, JudgedRanks, Judgement, Matched, Member, Missing, RankPeak, Ranks, Reading, Readings, Thresholds,
    judge_ranks, peaks, peaks_of_one,
};
use crate::diff::{Change, Sides};
use crate::profile::Profile;
use crate::snapshot::Tables;

/// The comparisons of the ranks of one job.
#[derive(Debug)]
pub struct ComparedRanks {
    name: Option<String>,
    paths: Sides<String>,
    missing: Vec<Missing>,
    thresholds: Thresholds,
    comparisons: Vec<Comparison>,
    peaks: Vec<RankPeak>,
    matched: Matched,
    tables: Sides<Tables>,
}

impl ComparedRanks {
    /// A job without any rank yet: its name where there are several, the directory or glob of each side, the ranks that
    /// one side lacks, and the limits on each rank.
    #[must_use]
    pub fn new(name: Option<String>, paths: Sides<String>, missing: Vec<Missing>, thresholds: Thresholds) -> Self {
        Self {
            name,
            paths,
            missing,
            matched: Matched::new(&thresholds),
            thresholds: Thresholds { one_of_ranks: true, ..thresholds },
            comparisons: Vec::new(),
            peaks: Vec::new(),
            tables: Sides::default(),
        }
    }

    /// Adds the comparison of the next rank.
    pub fn push(&mut self, member: Member, mut comparison: Comparison) {
        self.peaks.extend(peaks(&member, &comparison.diff));
        self.matched.add_diff(&comparison.diff, &self.thresholds);
        comparison.diff.pool(&mut self.tables);
        comparison.member = Some(member);
        self.comparisons.push(comparison);
    }

    /// Judges the ranks together, and adds all of it to the gate.
    pub fn finish(self, gate: &mut Gate) {
        let Self { name, paths, missing, thresholds, mut comparisons, peaks, matched, tables } = self;
        let tables = Sides { before: Arc::new(tables.before), after: Arc::new(tables.after) };
        for comparison in &mut comparisons {
            comparison.diff.share(&tables);
        }
        let JudgedRanks { judgement, imbalance } =
            judge_ranks(comparisons.len(), &peaks, &missing, &matched, &thresholds);
        let first = gate.comparisons.len();
        let members = first..first + comparisons.len();
        gate.comparisons.extend(comparisons);
        let paths = Sides { before: Some(paths.before), after: Some(paths.after) };
        gate.ranks.push(Ranks { name, paths, members, missing, imbalance, judgement });
    }
}

/// The snapshots of the ranks of one job.
#[derive(Debug)]
pub struct ReadRanks {
    path: String,
    thresholds: Thresholds,
    readings: Vec<Reading>,
    peaks: Vec<RankPeak>,
    matched: Matched,
    tables: Tables,
}

impl ReadRanks {
    /// A job without any rank yet: its directory or glob, and the limits, where there are any.
    #[must_use]
    pub fn new(path: String, thresholds: Option<Thresholds>) -> Self {
        let thresholds = thresholds.unwrap_or_default();
        let matched = Matched::new(&thresholds);
        Self { path, thresholds, readings: Vec::new(), peaks: Vec::new(), matched, tables: Tables::default() }
    }

    /// Adds the next rank, and the judgement of its own where there are limits.
    pub fn push(&mut self, member: Member, mut profile: Profile, judgement: Option<Judgement>) {
        self.peaks.extend(peaks_of_one(&member, &profile));
        self.matched.add_profile(&profile, &self.thresholds);
        profile.pool(&mut self.tables);
        self.readings.push(Reading { member, profile, judgement });
    }

    /// All ranks, judged together.
    #[must_use]
    pub fn finish(self) -> Readings {
        let Self { path, thresholds, mut readings, peaks, matched, tables } = self;
        let tables = Arc::new(tables);
        for reading in &mut readings {
            reading.profile.tables = Arc::clone(&tables);
        }
        let JudgedRanks { judgement, imbalance } = judge_ranks(readings.len(), &peaks, &[], &matched, &thresholds);
        let ranks = Ranks {
            name: None,
            paths: Sides { before: None, after: Some(path) },
            members: 0..readings.len(),
            missing: Vec::new(),
            imbalance: Change { before: None, ..imbalance },
            judgement,
        };
        Readings { readings, ranks }
    }
}
