//! The texts of `--help` beside those of the options.

/// Headings of options.
pub(crate) mod heading {
    /// Limits that decide the verdict.
    pub(crate) const LIMITS: &str = "Limits";
    /// The comparison itself.
    pub(crate) const COMPARED: &str = "What is compared";
    /// Selection for a report on one snapshot.
    pub(crate) const SHOWN: &str = "What is shown";
    /// Files that set a gate up.
    pub(crate) const WRITTEN: &str = "What is written";
    /// Profiles over time.
    pub(crate) const HISTORY: &str = "History";
    /// Runs that differ in one number.
    pub(crate) const SCALED: &str = "What was varied";
    /// Definition of a leak.
    pub(crate) const LEAK: &str = "What counts as a leak";
    /// Contents of a saved profile.
    pub(crate) const KEPT: &str = "What is kept";
    /// Keeping the stored before up to date.
    pub(crate) const STORED: &str = "Stored before";
    /// The call tree in reports.
    pub(crate) const TREE: &str = "Call tree";
    /// Cards that do not exist, and what runs on them.
    pub(crate) const SIMULATED: &str = "Simulated GPUs";
    /// Doubt and failure.
    pub(crate) const TRUST: &str = "Trust";
    /// Files to read, and how.
    pub(crate) const INPUT: &str = "Input";
    /// Reports and where they go.
    pub(crate) const OUTPUT: &str = "Output";
}

/// After the help of every command but `leak`.
pub(super) const EXIT_CODES: &str = "\
Exit codes:
  0  pass, or a command that only reports
  1  regression: a limit is exceeded
  2  could not run: usage, unreadable or invalid input, configuration
  3  inconclusive: a gated figure cannot be computed or compared";

/// After the long help of `diff`.
pub(super) const DIFF: &str = "\
Examples of limits:
  --max-growth 5%                     the peak of allocated bytes may grow by 5 percent
  --max-growth reserved=5%+128MiB     the reserved peak by 5 percent and 128 MiB
  --max-growth stack=64MiB            no single call stack by more than 64 MiB
  --max-growth 'stack:*attention*=0'  stacks with a matching label not at all
  --max-growth phase:forward=5%       the peak inside phases of that name by 5 percent
  --max reserved=75GiB                the after may reserve at most 75 GiB
  --max stack=4GiB                    no single call stack may hold more than 4 GiB at the peak
  --device-memory 80GiB --min-headroom 8GiB
                                      the reserved peak leaves 8 GiB of the device free

Metrics, in bytes per device: peak, baseline, end (allocated bytes); active, requested, reserved
(peaks of these counters); fragmentation (reserved minus active at the reserved peak); stack (each
stack's total at the peak); stack:GLOB (stacks with a matching label); phase (the peak inside every
phase that both sides have and no other encloses); phase:GLOB (inside those with a matching name).
Over all ranks: imbalance (the highest peak minus the median peak).

A limit on stack:GLOB replaces the limit on stack for the stacks that match. An option replaces the
same limit in ptmem.toml.

Ranks: give a directory or a quoted glob with one file per rank, as in
'ptmem diff runs/before runs/after'. Files are paired by the rank in their names (rank3, device_3,
snapshot_3), otherwise by equal names. There is one verdict for all ranks.

Stored before: run 'ptmem profile before.pkl -o baseline.ptmem.json' once, then
'ptmem diff baseline.ptmem.json after.pkl'. Record an improvement with
'ptmem diff --update baseline.ptmem.json after.pkl'.

Always inconclusive: a gated device or rank is missing on one side; no allocation was recorded;
only one side has a history; a pattern matches no stack or phase; a phase is missing on one side.
Inconclusive with --strict, otherwise a warning: the history is truncated; a self-check failed;
allocator settings or recording modes differ; the error bound of a figure reaches across its limit.";

/// After the help of `leak`.
pub(super) const LEAK_EXIT_CODES: &str = "\
Exit codes:
  0  nothing leaks, or no more than --max-leak
  1  something leaks, or memory ran out
  2  could not run: usage, unreadable or invalid input, configuration
  3  inconclusive: too few steps or snapshots, or no steps were found";

/// After the long help of `leak`.
pub(super) const LEAK: &str = "\
Steps of a single snapshot are the first of these that exists: ranges of torch.profiler
(ProfilerStep#*), calls of an optimizer (Optimizer.step#*), rounds in which the same stacks allocate
again and again, ten equal parts of the history. --step and --windows choose others. The report
names the steps that were used.

Not reported: memory left behind by the warm-up, memory that the last step still uses, blocks that
live no longer than others of their stack that were freed, and growth that has stopped.

A directory or glob stands for its files in natural order. Where file names contain ranks, such as
rank3, each rank has its own series, or its own snapshot.";

pub(super) const SIMULATE: &str = "\
Examples:
  ptmem simulate -- python record_memory.py                             the script records by itself
  ptmem simulate --record after.pkl,steps=3 -- python train.py       the third step, without a change
  ptmem simulate --gpu t4 --record ranks.pkl -- torchrun --nproc-per-node 4 train.py --gpus 4";

pub(super) const SIMULATE_EXIT_CODES: &str = "\
Exit codes: that of the command; 128 and the number of the signal that ended it; and
  2    could not run: usage, no such system, nothing recorded
  126  the command cannot be executed
  127  the command was not found";

/// After the help of `doctor`.
pub(super) const DOCTOR_EXIT_CODES: &str = "\
Exit codes:
  0  fit to gate
  2  could not run: usage, unreadable or invalid input, configuration
  3  not fit: a limit on the peak would be inconclusive, or memory ran out";
