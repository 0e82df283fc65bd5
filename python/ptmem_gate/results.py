"""The results of the commands, as their JSON contracts describe them. Sizes are bytes.

Made from docs/schemas by python/generate.py: do not edit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Optional

from ._result import Result


@dataclass(frozen=True)
class Tool:
    """What wrote this."""

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
    """How many."""
    first: Optional[str]
    """The line where the first did, if known."""


@dataclass(frozen=True)
class SourceRun:
    """The recorder's facts about the recorded run; missing if there are none."""

    recorder: str
    """The program that recorded."""
    first_step: Optional[int]
    """The first step that is there whole, from 1; null where steps were not counted."""
    last_step: Optional[int]
    """The last one; less than the first if no step is complete; null if steps were not counted."""
    failure: Optional[str]
    """Why it is not a whole run; null where it is one."""
    versions: list[SourceRunVersion]
    """Python, PyTorch, and the packages of which frames occur."""
    commit: Optional[str]
    """The commit that was checked out, if known."""
    followed: list[SourceRunFollowed]
    """What followed from values that are not known on simulated GPUs."""


@dataclass(frozen=True)
class Source:
    """A file that was read."""

    path: str
    """As it was given."""
    bytes: int
    """The size of the file."""
    kind: Literal["snapshot", "segments", "profile", "numbers"]
    """'segments' is a list of segments without history, 'profile' one that was saved."""
    run: Optional[SourceRun] = None
    """The recorder's facts about the recorded run; missing if there are none."""


GroupBy = Literal[
    "frames", "stack", "line", "function", "category", "metadata", "compile-context", "module", "purpose", "shape"
]


@dataclass(frozen=True)
class Place:
    """A place in the history of a side."""

    event: int
    """The event that it is just after; -1 for the start."""
    step: Optional[int]
    """Its step, from 0, if the history consists of equal steps; null otherwise."""
    phase: Optional[str]
    """The innermost phase that is open there, with its number."""
    allocated: int


@dataclass(frozen=True)
class Places:
    """Where the stacks of both sides are compared."""

    before: Place
    after: Place
    before_peak: Optional[Place]
    """The peak of the before; null where it is not known."""
    reason: Optional[Literal["asked", "not-known", "no-order", "part-missing", "not-alike"]]
    """Why these are not the same place of the program; null where they are."""


@dataclass(frozen=True)
class Metric:
    """A figure on both sides."""

    before: Optional[int]
    """Null where it is not known."""
    after: Optional[int]
    """Null where it is not known."""
    delta: Optional[int]
    """Null where a side is not known."""
    percent: Optional[float]
    """Null where that is not known, or before is 0."""


@dataclass(frozen=True)
class DeviceDiffMetrics:
    """The figures of the device."""

    peak: Metric
    baseline: Metric
    end: Metric
    active: Metric
    requested: Metric
    reserved: Metric
    reserved_end: Metric
    fragmentation: Metric


@dataclass(frozen=True)
class CategoryChange:
    """The memory of a category on both sides."""

    name: str
    """A category, or what stands for memory without a known stack."""
    before: int
    after: int
    delta: int


@dataclass(frozen=True)
class PrivatePools:
    """Private pools at the end of the recording."""

    pools: int
    """Number of private pools that one function made."""
    segments: int
    reserved: int
    """Bytes of their segments."""
    allocated: int
    active: int
    free: int
    """Bytes reserved and not active, which only these pools can use."""


@dataclass(frozen=True)
class PrivatePoolChange:
    """The private pools of one name on both sides."""

    name: str
    """The function that obtained the first segment."""
    before: Optional[PrivatePools]
    """Null where it has none."""
    after: Optional[PrivatePools]
    """Null where it has none."""


@dataclass(frozen=True)
class Edit:
    """A line that was added or removed, a package of another version, or a file or submodule as a whole."""

    leads: bool
    """Whether the report names it first."""
    kind: Literal["code", "log", "configuration", "dependency"]
    """What it is about."""
    path: Optional[str]
    """Relative to the root of the checkout; null for a package that no changed file names."""
    line: Optional[int]
    """Of the after, or of the before where 'added' is null."""
    added: Optional[str]
    """The line as it is now; null where it was removed."""
    removed: Optional[str]
    """The line as it was; null where it was added."""
    scope: Optional[str]
    """The function or class around it; null at the level of a module."""
    package: Optional[str]
    """The name of the package."""
    before_version: Optional[str]
    """Its version in the before."""
    after_version: Optional[str]
    """Its version in the after."""
    bytes: Optional[int] = None
    """Its share of 'grown'. Only in 'edits'."""
    how: Optional[dict[str, int]] = None
    """Bytes by how stacks lead to the edit. Only in 'edits'."""
    growth: Optional[str] = None
    """How the largest row grew. Only in 'edits'."""
    largest: Optional[str] = None
    """The label of that row. Only in 'edits'."""


@dataclass(frozen=True)
class Cause:
    """The shares of edits in the growth of all rows; with 'no_edit' they add up to 'grown'."""

    place: str
    """Where it grew, in words: at the peak, at the end, or at the peak inside a phase."""
    lead: Optional[str]
    """The edit that explains most, in words; null where the change has no edit that can matter."""
    grown: int
    """Bytes by which rows grew."""
    no_edit: int
    """Bytes of these that lead to no edit."""
    without_python: int
    """Those of 'no_edit' whose stacks have no Python frames, as in the backward pass."""
    shrunk: int
    """Bytes by which rows shrank."""
    before_peak_elsewhere: int
    """Bytes by which the peak of the before, which is elsewhere, exceeds the compared place."""
    edits: list[Edit]
    """Those with a share; the one that explains most first."""
    others: list[Edit]
    """Further edits that can matter."""


BucketOfChange = Optional[
    Literal["before-recording", "allocation-not-recorded", "no-frames", "others", "peak-elsewhere"]
]


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
    """The most that the before held at any moment; null where a saved profile does not say."""
    after_highest: Optional[int]
    """The same of the after."""
    manner: Optional[str]
    """Whether there are more blocks or larger ones, in words."""
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
    """What names the phase."""
    before_occurrence: Optional[int]
    """Which one of that name it is, from 0; null where the phase is missing."""
    after_occurrence: Optional[int]
    """Which one of that name it is, from 0; null where the phase is missing."""
    before: Optional[int]
    """The most that is allocated in it; null where it is missing."""
    after: Optional[int]
    """The most that is allocated in it; null where it is missing."""
    delta: Optional[int]
    """Null where a side is missing."""
    percent: Optional[float]
    """Null where that is not known, or before is 0."""
    reserved: Metric
    """The most that is reserved in it."""


@dataclass(frozen=True)
class TreeLine:
    """A line of the call tree: the bytes held there and below."""

    depth: int
    """How many callers are above it."""
    name: str
    """The function, or what stands for one."""
    path: Optional[str]
    """Its file; null where there is none, or several."""
    line: Optional[int]
    """Its line; null where there is none, or several."""
    before: int
    after: int
    delta: int
    before_blocks: int
    after_blocks: int


@dataclass(frozen=True)
class DeviceDiff:
    """A device of one side or of both."""

    before_device: Optional[int]
    """Null where it is missing."""
    after_device: Optional[int]
    """Null where it is missing."""
    rank: Optional[int]
    """The rank; null if there is only one, or if the file name does not contain it."""
    places: Optional[Places]
    """Where the stacks of both sides are compared; null where a side has no such moment."""
    metrics: DeviceDiffMetrics
    """The figures of the device."""
    categories: list[CategoryChange]
    """What memory is for, by category; their deltas add up to the change at the moment of 'at'."""
    stacks: list[Row]
    """Those that changed most; their deltas add up to the change at the moment of 'at'."""
    private_pools: Optional[list[PrivatePoolChange]] = None
    """By name. Only where there are some."""
    cause: Optional[Cause] = None
    """The edits of the change that the growth leads to which decides, otherwise that at the peak. Only with --git."""
    phases: Optional[list[PhaseChange]] = None
    """Phases in the order in which they begin. Only with --phases, or a limit on phases."""
    tree: Optional[list[TreeLine]] = None
    """The call tree: callees follow their caller. Only with --tree."""


@dataclass(frozen=True)
class Check:
    """One limit on one figure."""

    metric: str
    """The limited metric; a pattern of stacks follows 'stack:', one of phases 'phase:' or 'phase-reserved:', one of
    modules 'module:', one of private pools 'pool:'; a metric of pinned host memory 'host:'. 'imbalance' and 'ranks' are
    about all ranks together; 'oom' is memory that ran out, 'headroom' the reserved peak against the memory of the
    device, 'growth' a missing before.
    """
    scope: Optional[str]
    """The label of the stack, or the phase with its occurrence; null where it is about no single one."""
    device: Optional[int]
    """Null where it is about none, or about all."""
    limit: str
    """The limit as it was given, in normal form."""
    before: Optional[int]
    """Null where it is not known, or the limit is absolute."""
    after: Optional[int]
    """Null where it is not known."""
    delta: Optional[int]
    """Null where it is not known, or the limit is absolute."""
    allowed: Optional[int]
    """By how many bytes it may grow, or change if the limit begins with ±; of an absolute limit, how many there may be.
    Null where it is not known.
    """
    level: Literal["fail", "warn"]
    """The consequence of exceeding the limit."""
    result: Literal["pass", "exceeded", "inconclusive"]
    accepted: bool
    """Whether it passes only because the growth was agreed to."""
    reason: Optional[str]
    """Why it is inconclusive, or another remark."""


Severity = Literal["note", "warning"]


@dataclass(frozen=True)
class Diagnostic:
    """The remarks that a reader must see."""

    code: str
    severity: Severity
    side: Optional[Literal["before", "after"]]
    """The side that it is about; null: the comparison."""
    device: Optional[int]
    """Null where it is about no single one."""
    message: str
    """One or two sentences."""


@dataclass(frozen=True, repr=False)
class Comparison(Result):
    """Two snapshots: what 'ptmem diff --format json' prints. Readers should ignore keys that are not named here."""

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
    """When the recording began; null where it is not known."""
    peak: Optional[int]
    """The most there was; null where it is not known."""
    peak_event: Optional[int]
    """The event that reached the peak; -1 where the peak is the baseline."""
    end: Optional[int]
    """At the dump; null where it is not known."""
    exact: bool
    """Whether baseline and peak are known to the byte."""
    max_error: Optional[int]
    """How far baseline or peak may be from the truth; null where that is not known."""
    baseline_error: Optional[int]
    """How far baseline may be from the truth, 0 where it is exact; null where that is not known."""
    peak_error: Optional[int]
    """How far peak may be from the truth, 0 where it is exact; null where that is not known."""
    at_least: bool
    """Whether baseline and peak are lower bounds: the true values are higher by at most max_error."""


@dataclass(frozen=True)
class Fragmentation:
    """Reserved minus active bytes."""

    peak: Optional[int]
    """At the reserved peak; null where it is not known."""
    end: Optional[int]
    """At the dump; null where it is not known."""
    peak_error: Optional[int] = None
    """How far that may be from the truth, because the sizes of blocks are not certain. Only where it may."""


@dataclass(frozen=True)
class PrivatePool:
    """The private pools of one name at the end of the recording."""

    name: str
    """The function that obtained the first segment."""
    pools: int
    """Number of private pools that one function made."""
    segments: int
    reserved: int
    """Bytes of their segments."""
    allocated: int
    active: int
    free: int
    """Bytes reserved and not active, which only these pools can use."""


@dataclass(frozen=True)
class SelfChecksSizes:
    """Sizes of blocks, which events do not state."""

    recovered: int
    total: int


@dataclass(frozen=True)
class SelfChecksCheckpoints:
    """Amounts that events do state."""

    matched: int
    total: int


@dataclass(frozen=True)
class SelfChecks:
    """The results of the self-checks."""

    sizes: SelfChecksSizes
    """Sizes of blocks, which events do not state."""
    checkpoints: SelfChecksCheckpoints
    """Amounts that events do state."""
    end_matches: bool
    """Whether the history leads to the state at the dump."""


@dataclass(frozen=True)
class DeviceMemory:
    """The memory of the device (--device-memory), and the part of it that PyTorch's allocator cannot have."""

    memory: int
    overhead: int
    """The CUDA context, NCCL, and other programs. 0 where it is unknown."""
    overhead_is: Literal["given", "measured", "estimated", "unknown"]
    """given: device-overhead in ptmem.toml; measured on the card at the dump; estimated by the card and its
    communicators; unknown: the recording does not name the card.
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
    """The requested bytes."""
    device_free: int
    """Free bytes of the device."""
    allocated: Optional[int]
    """The bytes allocated then."""
    active: Optional[int]
    """The bytes active then."""
    reserved: Optional[int]
    """The bytes reserved then."""
    demand: Optional[int]
    """The bytes that would have been allocated: those allocated, and the request."""
    fragmentation: Optional[int]
    """The bytes reserved and not active."""
    pool_free: Optional[int]
    """The part of it that was free in the requested pool: on its stream, for requests of its size."""
    largest_free: Optional[int]
    """The largest block of those."""
    max_error: Optional[int]
    """How far any of these figures may be from the truth; null: not known."""
    frames: list[Frame]
    """The stack of the request, innermost first; of the first 16 of a device, and empty where it was not captured."""


Bucket = Optional[Literal["before-recording", "allocation-not-recorded", "no-frames", "others"]]


@dataclass(frozen=True)
class SummedLine:
    """One of the lines of code that a stack sums, with its operator."""

    label: str
    """Its name for people, which patterns match as well."""
    at: int
    """Bytes held at the requested moment."""
    at_blocks: int
    """Blocks held then."""


@dataclass(frozen=True)
class Stack:
    """A call stack and its bytes."""

    label: str
    """Its name for people."""
    key: str
    bucket: Bucket
    baseline: Optional[int]
    """Bytes alive when the recording began; null without a history."""
    peak: Optional[int]
    """Bytes alive at the allocated peak; null without a history."""
    end: int
    """Bytes alive at the dump."""
    at: int
    """Bytes alive at the moment of 'at'."""
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
    """Their bytes together."""
    highest: Optional[int]
    """The most that was alive at any moment of the recording; null where a saved profile does not say."""
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
    """Bytes alive when an allocation failed for the first time; only if one did."""
    oom_blocks: Optional[int] = None
    """Its blocks then."""
    highest_error: Optional[int] = None
    """How far that may be from the truth, because the sizes of blocks are not certain. Only where it may."""
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
    """Which one of that name and source it is, from 0."""
    depth: int
    """How many other phases are around it."""
    first_event: int
    """Its first event, or that which follows where it has none."""
    events: int
    """How many events are in it."""
    start: int
    """Allocated just before its first event."""
    peak: int
    """The most that is allocated in it, its start included."""
    end: int
    """Allocated just after its last event."""
    change: int
    """From its start to its end."""
    begins: bool
    """Whether its beginning was recorded."""
    ends: bool
    """Whether its end was recorded."""
    max_error: Optional[int] = None
    """How far the peak may be from the truth, because the sizes of blocks are not certain. Only where it may."""


@dataclass(frozen=True)
class Interval:
    """A part of the history."""

    name: str
    """From where to where it lasts."""
    first_event: int
    """Its first event, or that which follows where it has none."""
    events: int
    """How many events are in it."""
    start: int
    """Allocated just before its first event."""
    peak: int
    """The most that is allocated in it, its start included."""
    end: int
    """Allocated just after its last event."""
    reserved_peak: Optional[int]
    """The most that is reserved in it; null where that is not known."""


@dataclass(frozen=True)
class ProfileTreeLine:
    """A line of the call tree."""

    depth: int
    """How many callers are above it."""
    name: str
    """The function, or what stands for one."""
    path: Optional[str]
    """Its file; null where there is none, or several."""
    line: Optional[int]
    """Its line; null where there is none, or several."""
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
    """Microseconds from the first event to the last; null where events have no time."""
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
    """The largest at that moment; together they hold all allocated bytes."""
    phases: list[Phase]
    """The named parts of the history, in the order in which they begin, outer ones first."""
    private_pools: Optional[list[PrivatePool]] = None
    """By name. Only where there are some."""
    device_memory: Optional[DeviceMemory] = None
    failed_count: Optional[int] = None
    """Requests that failed, of which only the number is known; absent for none."""
    intervals: Optional[list[Interval]] = None
    """Equal parts of the history. Only with --every."""
    tree: Optional[list[ProfileTreeLine]] = None
    """The call tree: callees follow their caller. Only with --tree."""


@dataclass(frozen=True)
class ProfileDiagnostic:
    """The remarks that a reader must see."""

    code: str
    severity: Severity
    device: Optional[int]
    """Null where it is about no single one."""
    message: str
    """One or two sentences."""


@dataclass(frozen=True, repr=False)
class Snapshot(Result):
    """What 'ptmem show' and 'ptmem check' print."""

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
    kind: Literal["snapshot", "segments", "profile", "numbers"]
    """'segments' is a list of segments without history, 'profile' one that was saved."""
    name: Optional[str]
    rank: Optional[int]
    """Null where the snapshots are of one process."""


@dataclass(frozen=True)
class Step:
    """The bytes of a device at the end of a snapshot or step."""

    name: str
    """The path of the snapshot, or the name of the step."""
    allocated_end: Optional[int]
    """Null where it is not known."""
    reserved_end: Optional[int]
    """Null where it is not known."""
    fragmentation_end: Optional[int]
    """Reserved, and not active. Null where it is not known."""


@dataclass(frozen=True)
class Leak:
    """A stack that leaks."""

    metric: Literal["allocated", "fragmentation", "cycles"]
    """The memory that grows: allocated bytes of a stack, reserved bytes that nothing uses, or allocated bytes that only
    reference cycles hold.
    """
    label: str
    """Its name for people."""
    also: list[str]
    """Names of other lines that are compared as the same stack and leak as well."""
    key: str
    bucket: Bucket
    device: int
    name: Optional[str]
    rank: Optional[int]
    """Null where the snapshots are of one process."""
    bytes: int
    """Gained in the snapshots or steps that count."""
    blocks: int
    """Gained in the snapshots or steps that count; there may be fewer of them that are larger."""
    bytes_per_step: int
    """Gained per snapshot or step."""
    since: Optional[str]
    """Path of the snapshot of a series after which it began to grow; null if it grew from the first."""
    share_of_steps: float
    """In which share of those that can tell it grew."""
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
    """Growth in bytes per snapshot or step: the median of the slopes between all pairs of them, warm-up left out, and
    of a series only since its course last changed.
    """

    allocated_slope: Optional[int]
    """Null where it is not known."""
    reserved_slope: Optional[int]
    """Null where it is not known."""
    fragmentation_slope: Optional[int]
    """Null where it is not known."""
    runs_out_after: Optional[int]
    """The number of further snapshots or steps after which the memory of the device (--device-memory) is full. Null if
    it does not grow, or is not known.
    """


@dataclass(frozen=True)
class DeviceLeaksCallsPerStep:
    """The calls of optimizers in a step, if they make the steps."""

    count: int
    may_be_more: bool
    """Whether the recording leaves open if a step has more, and leaks more."""


@dataclass(frozen=True)
class DeviceLeaks:
    """One device of one process."""

    device: int
    name: Optional[str]
    rank: Optional[int]
    """Null where the snapshots are of one process."""
    steps_by: Optional[str]
    """How the steps of a single snapshot were found: the names, 'recurring: ' and what recurs, 'calls: ' and the
    outermost module, or 'windows'. Null for a series, and where there are none.
    """
    steps_skipped: int
    """Warm-up."""
    steps_judged: int
    """The number of them that count."""
    unclear: Optional[str]
    """Why nothing can be said about leaks; null otherwise."""
    steps: list[Step]
    totals: Totals
    calls_per_step: Optional[DeviceLeaksCallsPerStep] = None
    """The calls of optimizers in a step, if they make the steps."""
    device_memory: Optional[DeviceMemory] = None


@dataclass(frozen=True)
class LeakCheck:
    """The leaks, or that there are none; and memory that ran out."""

    name: Optional[str]
    rank: Optional[int]
    """Null where the snapshots are of one process."""
    metric: Literal["leak", "oom"]
    """The limited metric: 'leak', or 'oom' where memory ran out."""
    scope: Optional[str]
    """The label of the stack; null where it is about no single one."""
    device: Optional[int]
    """Null where it is about none, or about all."""
    limit: str
    """The limit as it was given, in normal form."""
    before: None
    """Always null."""
    after: None
    """Always null."""
    delta: Optional[int]
    """Bytes that it gains per snapshot or step. Null if unknown."""
    allowed: Optional[int]
    """How many bytes all leaks of the device may gain per snapshot or step; null where memory ran out."""
    level: Literal["fail", "warn"]
    """The consequence of exceeding the limit."""
    result: Literal["pass", "exceeded", "inconclusive"]
    accepted: bool
    """Whether it passes only because the growth was agreed to."""
    reason: Optional[str]
    """Why it is inconclusive, or another remark."""


@dataclass(frozen=True)
class LeakDiagnostic:
    """The remarks that a reader must see."""

    name: Optional[str]
    rank: Optional[int]
    """Null where the snapshots are of one process."""
    code: str
    severity: Severity
    device: Optional[int]
    """Null where it is about no single one."""
    message: str
    """One or two sentences."""


@dataclass(frozen=True, repr=False)
class Leaks(Result):
    """What grows: what 'ptmem leak --format json' prints. Readers should ignore keys that are not named here."""

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
    """The stacks that leak, and those that do not."""
    diagnostics: list[LeakDiagnostic]


@dataclass(frozen=True)
class SuiteComparison:
    """Two snapshots and the result of the limits."""

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
    """Null where it is missing."""
    after_device: Optional[int]
    """Null where it is missing."""
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
    """Its change on the rank in the middle; null where there is none."""
    ranks: int
    """On how many ranks it changed by as much."""


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
    """The worst of the ranks, and of the checks of all together."""
    missing: list[MissingRank]
    """Ranks that only one side has."""
    imbalance: Metric
    """The difference between the highest peak and the median of the peaks."""
    median: Optional[str]
    """The rank, and the device where there are several, whose peak changed by the median; null where there is only one.
    """
    worst: Optional[str]
    """The first of the table."""
    table: list[RankLine]
    """Every device of every rank, the worst first."""
    stacks: list[RankRow]
    """The stacks of the worst as they are listed, and how the others stand to them."""
    checks: list[Check]
    """The checks of all ranks together."""
    diagnostics: list[Diagnostic]
    """Those of the ranks, each once, with the ranks that it is about."""


@dataclass(frozen=True, repr=False)
class Suite(Result):
    """Several comparisons: what 'ptmem gate --format json' prints, and 'ptmem diff' of the ranks of a job. Readers
    should ignore keys that are not named here.
    """

    schema: Literal["ptmem.suite/1"]
    tool: Tool
    verdict: Verdict
    """The worst of all."""
    exit_code: int
    comparisons: list[SuiteComparison]
    ranks: list[SuiteRanks]
    """What holds for the ranks of a job together, for every comparison of directories or globs."""


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
    """Null where the rank holds nothing on any."""
    verdict: Optional[Verdict]
    """That of the rank; null where nothing was checked."""
    peak: Optional[int]
    baseline: Optional[int]
    end: Optional[int]
    active: Optional[int]
    requested: Optional[int]
    reserved: Optional[int]
    reserved_end: Optional[int]
    fragmentation: Optional[int]


@dataclass(frozen=True)
class JobRankRow:
    """The bytes of a stack of the first rank."""

    label: str
    """Its name."""
    key: str
    bytes: int
    median: Optional[int]
    """Bytes on the median rank; null where there is none."""
    ranks: int
    """On how many ranks it holds as much."""


@dataclass(frozen=True)
class RanksDiagnostic:
    """The remarks that a reader must see."""

    code: str
    severity: Severity
    side: None
    """Always null: there is one side."""
    device: Optional[int]
    """Null where it is about no single one."""
    message: str
    """One or two sentences."""


@dataclass(frozen=True)
class Report:
    """What 'ptmem show' and 'ptmem check' print."""

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
    --format json. Readers should ignore keys that are not named here.
    """

    schema: Literal["ptmem.ranks/1"]
    tool: Tool
    path: Optional[str]
    """The directory or glob, as it was given."""
    group_by: GroupBy
    at: str
    verdict: Optional[Verdict]
    """The worst of all; null where nothing was checked."""
    exit_code: Optional[int]
    """Null where nothing was checked."""
    imbalance: Optional[int]
    """The difference between the highest peak and the median of the peaks; null if not known."""
    median: Optional[str]
    """The rank, and the device where there are several, with the median peak; null where there is only one."""
    worst: Optional[str]
    """The first of the table."""
    table: list[JobRankLine]
    """Every device of every rank: what fails first, then the highest peak."""
    stacks: list[JobRankRow]
    """The stacks of the first of the table as they are listed, and how the others stand to them."""
    checks: list[Check]
    """The checks of all ranks together."""
    diagnostics: list[RanksDiagnostic]
    """Those of the ranks, each once, with the ranks that it is about."""
    ranks: list[RankReport]
    """In order of the ranks; stacks only of as many as --top asks for, the first of the table."""
