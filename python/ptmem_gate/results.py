"""The results of the commands, as their JSON contracts describe them. Sizes are bytes.

Made from docs/schemas by python/generate.py: do not edit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Optional

from ._result import Result


@dataclass(frozen=True)
class Tool:
    """The program that wrote this."""

    name: Literal["ptmem"]
    version: str


Verdict = Literal["pass", "regression", "inconclusive"]


@dataclass(frozen=True)
class SourceRunVersion:
    name: str
    """The package."""
    version: str
    """Its version."""


@dataclass(frozen=True)
class SourceRunFollowed:
    what: str
    """Sizes, conditions or whole numbers."""
    count: int
    """Number of them."""
    first: Optional[str]
    """The line where the first did, if known."""


@dataclass(frozen=True)
class SourceRun:
    """Facts about the recorded run; missing if the recorder states none."""

    recorder: str
    """The program that recorded."""
    first_step: Optional[int]
    """The first step that is there whole, from 1; null if steps were not counted."""
    last_step: Optional[int]
    """The last complete step, less than the first if there is none; null if steps were not counted."""
    failure: Optional[str]
    """Why it is not a whole run; null if it is one."""
    versions: list[SourceRunVersion]
    """Python, PyTorch, and the packages of which frames occur."""
    commit: Optional[str]
    """The commit that was checked out, if known."""
    followed: list[SourceRunFollowed]
    """Decisions of the program that depended on unknown values on simulated GPUs."""


@dataclass(frozen=True)
class Source:
    """A file that was read."""

    path: str
    """As it was given."""
    bytes: int
    """The size of the file."""
    kind: Literal["snapshot", "segments", "profile"]
    """'segments' is a list of segments without history, 'profile' one that was saved."""
    run: Optional[SourceRun] = None
    """Facts about the recorded run; missing if the recorder states none."""


GroupBy = Literal[
    "frames",
    "stack",
    "line",
    "function",
    "file",
    "category",
    "metadata",
    "compile-context",
    "annotation",
    "module",
    "purpose",
    "shape",
    "pool",
]


@dataclass(frozen=True)
class Place:
    """A place in the history of a side."""

    event: int
    """The event that it is just after; -1 for the start."""
    step: Optional[int]
    """The number of the step that contains it, from 0, if the history consists of equal steps; otherwise null."""
    phase: Optional[str]
    """The innermost phase that is open there, with its number."""
    allocated: int


@dataclass(frozen=True)
class Places:
    """Where the stacks of both sides are compared."""

    before: Place
    after: Place
    before_peak: Optional[Place]
    """The peak of the before; null if unknown."""
    reason: Optional[Literal["asked", "not-known", "no-order", "part-missing", "not-alike"]]
    """Why these are not the same place of the program; null if they are."""


@dataclass(frozen=True)
class Metric:
    """A figure on both sides."""

    before: Optional[int]
    """Null if unknown."""
    after: Optional[int]
    """Null if unknown."""
    delta: Optional[int]
    """Null if a side is not known."""
    percent: Optional[float]
    """Null if that is not known, or before is 0."""


@dataclass(frozen=True)
class DeviceDiffMetrics:
    """The figures of the device."""

    peak: Metric
    baseline: Metric
    end: Metric
    active: Metric
    requested: Metric
    reserved: Metric
    fragmentation: Metric


@dataclass(frozen=True)
class CategoryChange:
    """The memory of a category on both sides."""

    name: str
    """A category, or a row for memory without a known stack."""
    before: int
    after: int
    delta: int


BucketOfChange = Optional[
    Literal["before-recording", "allocation-not-recorded", "no-frames", "others", "peak-elsewhere"]
]


@dataclass(frozen=True)
class CodeLine:
    """A line of the code, by its path from the root of the checkout."""

    path: str
    line: int


@dataclass(frozen=True)
class ChangedHere:
    """The innermost touched line of each stack, on both sides."""

    delta: int
    before: list[CodeLine]
    after: list[CodeLine]


@dataclass(frozen=True)
class ChangedLine:
    """One of the lines of code that a stack sums, with its operator."""

    label: str
    """Its name for people, as in the after where it exists there; patterns match it as well."""
    before: int
    after: int
    delta: int
    before_blocks: int
    after_blocks: int


@dataclass(frozen=True)
class Frame:
    """A frame as it was recorded."""

    name: str
    """The function."""
    filename: str
    """Its file."""
    line: int
    """Its line; 0 where there is none."""


@dataclass(frozen=True)
class Row:
    """A stack on both sides."""

    change: Literal["grew", "shrank", "added", "removed", "same"]
    moved: bool
    """Whether the sides were paired although the code between them has changed."""
    label: str
    """Its name for people."""
    key: str
    bucket: BucketOfChange
    before: int
    after: int
    delta: int
    before_blocks: int
    after_blocks: int
    before_mean: int
    """The mean size of a block."""
    after_mean: int
    """The mean size of a block."""
    before_highest: Optional[int]
    """The highest value in the before at any moment; null if a saved profile does not have it."""
    after_highest: Optional[int]
    """The same of the after."""
    manner: Optional[str]
    """Whether there are more blocks or larger ones, as text."""
    changed_here: Optional[ChangedHere]
    """The part that changed through lines which the change of the code touches; null without --git."""
    lines: list[ChangedLine]
    """The lines of code that it sums, each with its operator, the largest change first; empty for a single line."""
    frames: list[Frame]
    """As in the after, innermost first."""
    forward_frames: list[Frame]
    """Those of the forward pass, as in the after."""
    before_frames: list[Frame]
    """As in the before."""
    shapes: Optional[list[ChangedLine]] = None
    """Types and shapes of the tensors that it consists of, where they were recorded."""


@dataclass(frozen=True)
class PhaseChange:
    """A phase on both sides."""

    name: str
    """Up to 512 bytes of it."""
    source: Literal["annotation", "metadata", "compile-context", "pass"]
    """The source of the name."""
    before_occurrence: Optional[int]
    """Number of the occurrence of that name, from 0; null if the phase is missing."""
    after_occurrence: Optional[int]
    """Number of the occurrence of that name, from 0; null if the phase is missing."""
    before: Optional[int]
    """Highest allocated bytes within it; null if it is missing."""
    after: Optional[int]
    """Highest allocated bytes within it; null if it is missing."""
    delta: Optional[int]
    """Null if a side is missing."""
    percent: Optional[float]
    """Null if that is not known, or before is 0."""


@dataclass(frozen=True)
class TreeLine:
    """A line of the call tree, with the memory held there and below."""

    depth: int
    """Number of callers above it."""
    name: str
    """The function, or what stands for one."""
    path: Optional[str]
    """Its file; null if there is none, or several."""
    line: Optional[int]
    """Its line; null if there is none, or several."""
    before: int
    after: int
    delta: int
    before_blocks: int
    after_blocks: int


@dataclass(frozen=True)
class DeviceDiff:
    """A device of one side or of both."""

    before_device: Optional[int]
    """Null if it is missing."""
    after_device: Optional[int]
    """Null if it is missing."""
    rank: Optional[int]
    """Its rank; null if there are no ranks, or if the file name does not contain it."""
    places: Optional[Places]
    """Where the stacks of both sides are compared; null if a side has no such moment."""
    metrics: DeviceDiffMetrics
    """The figures of the device."""
    categories: list[CategoryChange]
    """Memory by category; the deltas add up to the change at the moment of 'at'."""
    changed_here_delta: Optional[int]
    """Bytes that all rows gained through lines which the change of the code touches; null without --git."""
    stacks: list[Row]
    """Those that changed most; their deltas add up to the change at the moment of 'at'."""
    phases: Optional[list[PhaseChange]] = None
    """Phases in the order in which they begin. Only with --phases, or a limit on phases."""
    tree: Optional[list[TreeLine]] = None
    """The call tree: callees follow their caller. Only with --tree."""


@dataclass(frozen=True)
class Check:
    """One limit on one figure."""

    metric: str
    """The limited metric. 'stack:', 'phase:' and 'module:' are followed by a pattern. 'imbalance' and 'ranks' concern
    all ranks together; 'oom' is out-of-memory, 'headroom' the reserved peak compared with the memory of the device.
    """
    scope: Optional[str]
    """The label of the stack, or the phase with its occurrence; null if neither applies."""
    device: Optional[int]
    """Null if it concerns none, or all."""
    limit: str
    """The limit as it was given, in normal form."""
    before: Optional[int]
    """Null if it is not known, or the limit is absolute."""
    after: Optional[int]
    """Null if unknown."""
    delta: Optional[int]
    """Null if it is not known, or the limit is absolute."""
    allowed: Optional[int]
    """By how many bytes it may grow; of an absolute limit, how many there may be. Null if unknown."""
    level: Literal["fail", "warn"]
    """The consequence if the limit is exceeded."""
    result: Literal["pass", "exceeded", "inconclusive"]
    accepted: bool
    """Whether it passes only because the growth was accepted."""
    reason: Optional[str]
    """Why it is inconclusive, or another remark."""


Severity = Literal["note", "warning"]


@dataclass(frozen=True)
class Diagnostic:
    """Diagnostics."""

    code: str
    severity: Severity
    side: Optional[Literal["before", "after"]]
    """The side that it is about; null: the comparison."""
    device: Optional[int]
    """Null if it concerns none in particular."""
    message: str
    """One or two sentences."""


@dataclass(frozen=True, repr=False)
class Comparison(Result):
    """Two snapshots, as printed by 'ptmem diff --format json'. Readers should ignore unknown keys."""

    schema: Literal["ptmem.diff/2"]
    tool: Tool
    verdict: Verdict
    exit_code: int
    before: Source
    after: Source
    group_by: GroupBy
    at: str
    devices: list[DeviceDiff]
    checks: list[Check]
    """Every limit on every device, what explains the verdict first."""
    diagnostics: list[Diagnostic]


@dataclass(frozen=True)
class Counter:
    """A counter of the allocator."""

    baseline: Optional[int]
    """When the recording began; null if unknown."""
    peak: Optional[int]
    """The highest value; null if unknown."""
    peak_event: Optional[int]
    """The event that reached the peak; -1 where the peak is the baseline."""
    end: int
    """At the dump."""
    exact: bool
    """Whether baseline and peak are known to the byte."""
    max_error: Optional[int]
    """Error bound of baseline and peak; null if unknown."""
    baseline_error: Optional[int]
    """Error bound of the baseline, 0 if exact; null if unknown."""
    peak_error: Optional[int]
    """Error bound of the peak, 0 if exact; null if unknown."""
    at_least: bool
    """Whether baseline and peak are lower bounds: the true values are higher by at most max_error."""


@dataclass(frozen=True)
class Fragmentation:
    """Reserved minus active bytes."""

    peak: Optional[int]
    """At the reserved peak; null if unknown."""
    end: int
    """At the dump."""


@dataclass(frozen=True)
class SelfChecksSizes:
    """Recovered block sizes."""

    recovered: int
    total: int


@dataclass(frozen=True)
class SelfChecksCheckpoints:
    """Snapshot events within the history, which state active bytes."""

    matched: int
    total: int


@dataclass(frozen=True)
class SelfChecks:
    """Self-checks of the figures."""

    sizes: SelfChecksSizes
    """Recovered block sizes."""
    checkpoints: SelfChecksCheckpoints
    """Snapshot events within the history, which state active bytes."""
    end_matches: bool
    """Whether the history leads to the state at the dump."""


@dataclass(frozen=True)
class DeviceMemory:
    """The memory of the device (--device-memory), and the part of it that PyTorch's allocator cannot have."""

    memory: int
    overhead: int
    """The CUDA context, NCCL, and other programs. 0 where it is unknown."""
    overhead_is: Literal["given", "measured", "estimated", "unknown"]
    """given: --device-overhead; measured on the card at the dump; estimated by the card and its communicators; unknown:
    the recording does not name the card.
    """
    context: Optional[int]
    """The part of an estimate that is the CUDA context; null otherwise."""
    nccl: Optional[int]
    """The part of an estimate that is NCCL's; null otherwise."""


@dataclass(frozen=True)
class Oom:
    """An allocation that failed."""

    event: int
    """Its index."""
    requested: int
    """The requested size."""
    device_free: int
    """Free memory of the device."""
    allocated: Optional[int]
    """Allocated bytes at that moment."""
    active: Optional[int]
    """Active bytes at that moment."""
    reserved: Optional[int]
    """Reserved bytes at that moment."""
    demand: Optional[int]
    """Allocated bytes plus the request."""
    fragmentation: Optional[int]
    """Reserved minus active bytes."""
    pool_free: Optional[int]
    """The part of it that was free in the requested pool: on the same stream, for requests of that size."""
    largest_free: Optional[int]
    """The largest block of those."""
    max_error: Optional[int]
    """Error bound of these figures; null if unknown."""
    frames: list[Frame]
    """The stack of the request, innermost first; of the first 16 of a device, and empty where it was not captured."""


Bucket = Optional[Literal["before-recording", "allocation-not-recorded", "no-frames", "others"]]


@dataclass(frozen=True)
class SummedLine:
    """One of the lines of code that a stack sums, with its operator."""

    label: str
    """Its name for people, which patterns match as well."""
    at: int
    """Bytes held at the moment that was asked for."""
    at_blocks: int
    """Blocks held then."""


@dataclass(frozen=True)
class Stack:
    """A call stack and what it holds."""

    label: str
    """Its name for people."""
    key: str
    bucket: Bucket
    baseline: Optional[int]
    """Bytes held when the recording began; null without a history."""
    peak: Optional[int]
    """Bytes held at the allocated peak; null without a history."""
    end: int
    """Bytes held at the dump."""
    at: int
    """Bytes held at the moment of 'at'."""
    baseline_blocks: Optional[int]
    """Its blocks when the recording began; null without a history."""
    peak_blocks: Optional[int]
    """Its blocks at the allocated peak; null without a history."""
    end_blocks: int
    """Its blocks at the dump."""
    at_blocks: int
    """Its blocks at the moment of 'at'."""
    allocations: int
    """In the whole history."""
    allocated_total: int
    """Bytes of all allocations."""
    highest: Optional[int]
    """The highest value at any moment of the recording; null if a saved profile does not have it."""
    highest_event: Optional[int]
    """The event just before that moment, -1 for the start."""
    lines: list[SummedLine]
    """The lines of code that it sums, each with its operator, the largest first, at the requested moment; empty for a
    single line.
    """
    frames: list[Frame]
    """Innermost first, of the member that holds most."""
    forward_frames: list[Frame]
    """Those of the forward pass, which PyTorch records in anomaly mode."""
    oom: Optional[int] = None
    """Bytes held when an allocation first failed; only if one did."""
    oom_blocks: Optional[int] = None
    """Its blocks then."""
    shapes: Optional[list[SummedLine]] = None
    """Types and shapes of the tensors that it consists of, where they were recorded."""


PhaseSource = Literal["annotation", "metadata", "compile-context", "pass"]


@dataclass(frozen=True)
class Phase:
    """One occurrence of a phase."""

    name: str
    """Up to 512 bytes of it."""
    source: PhaseSource
    occurrence: int
    """Number of the occurrence of that name and source, from 0."""
    depth: int
    """Number of enclosing phases."""
    first_event: int
    """Its first event, or that which follows where it has none."""
    events: int
    """Number of its events."""
    start: int
    """Allocated just before its first event."""
    peak: int
    """Highest allocated bytes within it, including its start."""
    end: int
    """Allocated just after its last event."""
    change: int
    """From its start to its end."""
    begins: bool
    """Whether its beginning was recorded."""
    ends: bool
    """Whether its end was recorded."""


@dataclass(frozen=True)
class Interval:
    """A part of the history."""

    name: str
    """From where to where it lasts."""
    first_event: int
    """Its first event, or that which follows where it has none."""
    events: int
    """Number of its events."""
    start: int
    """Allocated just before its first event."""
    peak: int
    """Highest allocated bytes within it, including its start."""
    end: int
    """Allocated just after its last event."""
    reserved_peak: Optional[int]
    """Highest reserved bytes within it; null if unknown."""


@dataclass(frozen=True)
class ProfileTreeLine:
    """A line of the call tree."""

    depth: int
    """Number of callers above it."""
    name: str
    """The function, or what stands for one."""
    path: Optional[str]
    """Its file; null if there is none, or several."""
    line: Optional[int]
    """Its line; null if there is none, or several."""
    bytes: int
    """Bytes held there and below."""
    blocks: int
    """Its blocks."""


@dataclass(frozen=True)
class DeviceReport:
    """A device of the snapshot."""

    device: int
    events: int
    duration_us: Optional[int]
    """Microseconds from the first event to the last; null if events have no time."""
    actions: dict[str, int]
    allocated: Counter
    active: Counter
    requested: Counter
    reserved: Counter
    fragmentation: Fragmentation
    checks: SelfChecks
    allocations: int
    frees: int
    allocated_total: int
    """Of all allocations together."""
    ooms: list[Oom]
    at_event: Optional[int]
    """The event that 'at' means here; null: there is no such moment."""
    stacks: list[Stack]
    """The stacks that hold most at that moment; together they hold all allocated memory."""
    phases: list[Phase]
    """The named parts of the history, in the order in which they begin, outer ones first."""
    device_memory: Optional[DeviceMemory] = None
    intervals: Optional[list[Interval]] = None
    """Equal parts of the history. Only with --every."""
    tree: Optional[list[ProfileTreeLine]] = None
    """The call tree: callees follow their caller. Only with --tree."""


@dataclass(frozen=True)
class ProfileDiagnostic:
    """Diagnostics."""

    code: str
    severity: Severity
    device: Optional[int]
    """Null if it concerns none in particular."""
    message: str
    """One or two sentences."""


@dataclass(frozen=True, repr=False)
class Snapshot(Result):
    """The output of 'ptmem show' and 'ptmem check'."""

    schema: Literal["ptmem.profile/1"]
    tool: Tool
    source: Source
    group_by: GroupBy
    at: str
    devices: list[DeviceReport]
    """By number."""
    diagnostics: list[ProfileDiagnostic]
    verdict: Optional[Verdict] = None
    """Of 'ptmem check' only."""
    exit_code: Optional[int] = None
    checks: Optional[list[Check]] = None
    """Every limit on every device, what explains the verdict first."""


@dataclass(frozen=True)
class LeakSource:
    """A file that was read."""

    path: str
    """As it was given."""
    bytes: int
    """The size of the file."""
    kind: Literal["snapshot", "segments", "profile"]
    """'segments' is a list of segments without history, 'profile' one that was saved."""
    rank: Optional[int]
    """Null if the snapshots are of one process."""


@dataclass(frozen=True)
class Step:
    """Memory held by a device at the end of a snapshot or step."""

    name: str
    """The path of the snapshot, or the name of the step."""
    allocated_end: Optional[int]
    """Null if unknown."""
    reserved_end: Optional[int]
    """Null if unknown."""
    fragmentation_end: Optional[int]
    """Reserved, and not active. Null if unknown."""


@dataclass(frozen=True)
class Leak:
    """A stack that leaks."""

    metric: Literal["allocated", "fragmentation"]
    """The memory that grows: allocated bytes of a stack, or reserved bytes that nothing uses."""
    label: str
    """Its name for people."""
    also: list[str]
    """Names of other lines that are compared as the same stack and leak as well."""
    key: str
    bucket: Bucket
    device: int
    rank: Optional[int]
    """Null if the snapshots are of one process."""
    bytes: int
    """Growth over the snapshots or steps that count."""
    blocks: int
    """Growth over the snapshots or steps that count; may be negative if blocks became fewer and larger."""
    bytes_per_step: int
    """Gained per snapshot or step."""
    since: Optional[str]
    """Path of the last snapshot of a series before the growth began; null if it grew from the beginning."""
    share_of_steps: float
    """Share of the steps or snapshots that count in which it grew."""
    steps_grown: int
    steps_judged: int
    end: int
    """Held at the end."""
    end_blocks: int
    frames: list[Frame]
    """Innermost first, of the stack that leaks most."""
    forward_frames: list[Frame]
    """Those of the forward pass."""


@dataclass(frozen=True)
class Totals:
    """Growth in bytes per snapshot or step: the median of the slopes between all pairs of them, warm-up left out."""

    allocated_slope: Optional[int]
    """Null if unknown."""
    reserved_slope: Optional[int]
    """Null if unknown."""
    fragmentation_slope: Optional[int]
    """Null if unknown."""
    runs_out_after: Optional[int]
    """Number of further snapshots or steps after which the memory of the device (--device-memory) is full. Null if it
    does not grow, or is unknown.
    """


@dataclass(frozen=True)
class DeviceLeaks:
    """One device of one process."""

    device: int
    rank: Optional[int]
    """Null if the snapshots are of one process."""
    steps_by: Optional[str]
    """How the steps of a single snapshot were found: the names, 'recurring: ' and what recurs, or 'windows'. Null for a
    series, and where there are none.
    """
    steps_skipped: int
    """Warm-up."""
    steps_judged: int
    """Number of snapshots or steps that count."""
    unclear: Optional[str]
    """Why leaks cannot be judged; otherwise null."""
    steps: list[Step]
    totals: Totals
    device_memory: Optional[DeviceMemory] = None


@dataclass(frozen=True)
class LeakCheck:
    """A check for each leak, or one that passes; and out-of-memory."""

    rank: Optional[int]
    """Null if the snapshots are of one process."""
    metric: Literal["leak", "oom"]
    """The limited metric: 'leak', or 'oom' if memory ran out."""
    scope: Optional[str]
    """The label of the stack; null if it concerns none in particular."""
    device: Optional[int]
    """Null if it concerns none, or all."""
    limit: str
    """The limit as it was given, in normal form."""
    before: None
    """Always null."""
    after: None
    """Always null."""
    delta: Optional[int]
    """Growth in bytes per snapshot or step. Null if unknown."""
    allowed: Optional[int]
    """How many bytes all leaks of the device may gain per snapshot or step; null if memory ran out."""
    level: Literal["fail", "warn"]
    """The consequence if the limit is exceeded."""
    result: Literal["pass", "exceeded", "inconclusive"]
    accepted: bool
    """Whether it passes only because the growth was accepted."""
    reason: Optional[str]
    """Why it is inconclusive, or another remark."""


@dataclass(frozen=True)
class LeakDiagnostic:
    """Diagnostics."""

    rank: Optional[int]
    """Null if the snapshots are of one process."""
    code: str
    severity: Severity
    device: Optional[int]
    """Null if it concerns none in particular."""
    message: str
    """One or two sentences."""


@dataclass(frozen=True, repr=False)
class Leaks(Result):
    """Growing memory: the output of 'ptmem leak --format json'. Readers should ignore unknown keys."""

    schema: Literal["ptmem.leak/1"]
    tool: Tool
    verdict: Verdict
    exit_code: int
    sources: list[LeakSource]
    """The snapshots, in order, rank by rank."""
    mode: Literal["series", "steps"]
    """The input: a series of snapshots, or the steps of one."""
    group_by: GroupBy
    steps: list[Step]
    """Those of the device that leaks most."""
    leaks: list[Leak]
    """All of them, those of the worst rank first."""
    totals: Totals
    """Those of the device that leaks most."""
    devices: list[DeviceLeaks]
    """All devices of all ranks, the worst rank first."""
    checks: list[LeakCheck]
    """A check for each leak, or one that passes."""
    diagnostics: list[LeakDiagnostic]


@dataclass(frozen=True)
class SuiteComparison:
    """Two snapshots and what the limits say about them."""

    schema: Literal["ptmem.diff/2"]
    tool: Tool
    name: str
    """Its name in the configuration, and its rank."""
    verdict: Verdict
    exit_code: int
    before: Source
    after: Source
    group_by: GroupBy
    at: str
    devices: list[DeviceDiff]
    checks: list[Check]
    """Every limit on every device, what explains the verdict first."""
    diagnostics: list[Diagnostic]


@dataclass(frozen=True)
class MissingRank:
    """A rank that only one side has."""

    name: str
    """Its name."""
    rank: Optional[int]
    """Null if the file name does not contain it."""
    node: Optional[int]
    """The node, where ranks are counted on each."""
    side: Literal["before", "after"]
    """The side that lacks it."""
    path: str
    """Its file on the other side."""


@dataclass(frozen=True)
class RankLine:
    """One device of one rank."""

    name: str
    """The rank, and the device where there are several."""
    comparison: Optional[str]
    """The name of its comparison."""
    rank: Optional[int]
    """Null if the file name does not contain it."""
    node: Optional[int]
    """The node, where ranks are counted on each."""
    before_device: Optional[int]
    """Null if it is missing."""
    after_device: Optional[int]
    """Null if it is missing."""
    verdict: Verdict
    """That of the rank."""
    peak: Metric


@dataclass(frozen=True)
class RankRow:
    """The change of a stack on the worst rank."""

    label: str
    """Its name."""
    key: str
    delta: int
    median: Optional[int]
    """Its change on the median rank; null if there is none."""
    ranks: int
    """Number of ranks on which it changed by exactly as many bytes."""


@dataclass(frozen=True)
class SuiteRanks:
    """The ranks of a job."""

    name: Optional[str]
    """The name of the comparison in the configuration; null if it has none."""
    before: Optional[str]
    """The directory or glob, as it was given."""
    after: Optional[str]
    """The directory or glob, as it was given."""
    verdict: Verdict
    """The worst of the ranks and of the checks of all ranks together."""
    missing: list[MissingRank]
    """Ranks that only one side has."""
    imbalance: Metric
    """The highest peak minus the median of the peaks."""
    median: Optional[str]
    """The rank, and the device where there are several, whose peak changed by the median; null if there is only one."""
    worst: Optional[str]
    """The first of the table."""
    table: list[RankLine]
    """Every device of every rank, the worst first."""
    stacks: list[RankRow]
    """The stacks of the worst as they are listed, and how the others stand to them."""
    checks: list[Check]
    """Checks of all ranks together."""
    diagnostics: list[Diagnostic]
    """Those of the ranks, each once, with the ranks that it is about."""


@dataclass(frozen=True, repr=False)
class Suite(Result):
    """Several comparisons: what 'ptmem diff --suite NAME --format json' prints, and 'ptmem diff' of the ranks of a job.
    Readers should ignore unknown keys.
    """

    schema: Literal["ptmem.suite/1"]
    tool: Tool
    verdict: Verdict
    """The worst of all."""
    exit_code: int
    comparisons: list[SuiteComparison]
    ranks: list[SuiteRanks]
    """Results for all ranks of a job, for every comparison of directories or globs."""


@dataclass(frozen=True)
class JobRankLine:
    """One device of one rank."""

    name: str
    """The rank, and the device where there are several."""
    rank: Optional[int]
    """Null if the file name does not contain it."""
    node: Optional[int]
    """The node, where ranks are counted on each."""
    device: Optional[int]
    """Null if the rank holds nothing on any."""
    verdict: Optional[Verdict]
    """That of the rank; null if nothing was checked."""
    baseline: Optional[int]
    """Null if unknown."""
    peak: Optional[int]
    """Null if unknown."""
    end: Optional[int]
    """Null if unknown."""
    active: Optional[int]
    """Null if unknown."""
    requested: Optional[int]
    """Null if unknown."""
    reserved: Optional[int]
    """Null if unknown."""
    fragmentation: Optional[int]
    """Null if unknown."""


@dataclass(frozen=True)
class JobRankRow:
    """Memory held by a stack of the first rank."""

    label: str
    """Its name."""
    key: str
    bytes: int
    median: Optional[int]
    """Bytes held on the median rank; null if there is none."""
    ranks: int
    """Number of ranks on which it holds exactly as many bytes."""


@dataclass(frozen=True)
class RanksDiagnostic:
    """Diagnostics."""

    code: str
    severity: Severity
    side: None
    """Always null: there is one side."""
    device: Optional[int]
    """Null if it concerns none in particular."""
    message: str
    """One or two sentences."""


@dataclass(frozen=True)
class JobSource:
    """A file that was read."""

    path: str
    """As it was given."""
    bytes: int
    """The size of the file."""
    kind: Literal["snapshot", "segments", "profile"]
    """'segments' is a list of segments without history, 'profile' one that was saved."""


@dataclass(frozen=True)
class Report:
    """The output of 'ptmem show' and 'ptmem check'."""

    schema: Literal["ptmem.profile/1"]
    tool: Tool
    source: JobSource
    group_by: GroupBy
    at: str
    devices: list[DeviceReport]
    """By number."""
    diagnostics: list[ProfileDiagnostic]
    verdict: Optional[Verdict] = None
    """Of 'ptmem check' only."""
    exit_code: Optional[int] = None
    checks: Optional[list[Check]] = None
    """Every limit on every device, what explains the verdict first."""


@dataclass(frozen=True)
class RankReport:
    """The snapshot of one rank."""

    name: str
    """Its name."""
    rank: Optional[int]
    """Null if the file name does not contain it."""
    node: Optional[int]
    """The node, where ranks are counted on each."""
    profile: Report
    """As 'ptmem show' has it of one snapshot."""


@dataclass(frozen=True, repr=False)
class Ranks(Result):
    """The snapshots of the ranks of a job: what 'ptmem show' and 'ptmem check' print of a directory or a glob with
    --format json. Readers should ignore unknown keys.
    """

    schema: Literal["ptmem.ranks/1"]
    tool: Tool
    path: Optional[str]
    """The directory or glob, as it was given."""
    group_by: GroupBy
    at: str
    verdict: Optional[Verdict]
    """The worst of all; null if nothing was checked."""
    exit_code: Optional[int]
    """Null if nothing was checked."""
    imbalance: Optional[int]
    """The highest peak minus the median of the peaks; null if unknown."""
    median: Optional[str]
    """The rank, and the device where there are several, with the median peak; null if there is only one."""
    worst: Optional[str]
    """The first of the table."""
    table: list[JobRankLine]
    """Every device of every rank: what fails first, then the highest peak."""
    stacks: list[JobRankRow]
    """The stacks of the first of the table as they are listed, and how the others stand to them."""
    checks: list[Check]
    """Checks of all ranks together."""
    diagnostics: list[RanksDiagnostic]
    """Those of the ranks, each once, with the ranks that it is about."""
    ranks: list[RankReport]
    """In order of the ranks; stacks only of as many as --top asks for, the first of the table."""
