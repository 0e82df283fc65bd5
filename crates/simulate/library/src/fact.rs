//! Facts to report at the end of a run. The library counts them, and ptmem reads them: both compile this file.

/// Something that the library counts. The order is that of the counters in the shared file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CountedFact {
    /// Processes that loaded the library.
    Processes,
    /// Questions for the number of devices: somebody uses CUDA.
    DeviceCounts,
    /// Kernels that were launched and did nothing.
    Launches,
    /// Copies from a device to the host.
    Reads,
    /// Copies to the host of values that no copy to the device ever set.
    UnsetReads,
    /// Copies to the host of values that were set, but were too large to be kept.
    LargeReads,
    /// Copies to the host of values that a kernel or another rank may have changed since they were set.
    DoubtfulReads,
    /// Sizes of results that followed from values which are not known.
    Sizes,
    /// Conditions that the program read and that followed from such values.
    Conditions,
    /// Whole numbers of that kind.
    Numbers,
    /// Allocations that did not fit.
    OutOfMemory,
    /// cuDNN plans, which were given the workspace of the settings.
    CudnnPlans,
    /// Collective operations of NCCL.
    Collectives,
    /// Requested times between events: autotuning, or a stopwatch.
    ElapsedTimes,
    /// Graphs that were launched.
    GraphLaunches,
    /// Highest number of bytes in use on one device.
    HighestUse,
    /// Processes that took memory of a device.
    AllocatingProcesses,
    /// Those of them that are Pythons which did not run the hook.
    ProcessesWithoutHook,
}

impl CountedFact {
    /// Number of facts.
    pub(crate) const COUNT: usize = Self::ProcessesWithoutHook as usize + 1;
}
