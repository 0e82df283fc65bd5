//! What is decided where a recording lacks its beginning or its end: bounds decide where they can.

use crate::support::history::oom;
use crate::support::program::Program;
use ptmem::device::DeviceId;
use ptmem::diff::{Side, Sides};
use ptmem::profile::{self, InputKind, Profile, ReadOptions, Source};
use ptmem::snapshot::{self, DeviceModules, Ending, EndingKind, RunFacts};
use ptmem::verdict::{Accepted, Comparison, GateNode, Thresholds, Verdict};

/// The part of a run that is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Whole,
    NoHead,
    NoTail,
}

use Part::{NoHead, NoTail, Whole};

const LAYERS: usize = 40;

/// Layers of a forward pass, each of which keeps a block that the backward pass frees, with gradients in between: the peak lies
/// where the backward pass begins. Every size is a multiple of `scale`.
fn program(scale: u64, part: Part) -> Program {
    let mut program = Program::default();
    program.reserved = 4096 * scale;
    program.alloc("weights", "load:5", 51200 * scale);
    program.events.clear();
    program.mark("START", "forward");
    for layer in 0..LAYERS {
        program.alloc(format!("{layer}"), &format!("layer_{layer}:{}", layer + 10), 51200 * scale);
    }
    program.mark("END", "forward");
    program.mark("START", "backward");
    let last = if part == NoTail { LAYERS / 2 } else { 0 };
    for layer in (last..LAYERS).rev() {
        program.alloc("gradient", &format!("grad_{layer}:{}", layer + 60), 5120 * scale);
        program.free(&format!("{layer}"));
        program.free("gradient");
    }
    if part != NoTail {
        program.mark("END", "backward");
        program.alloc("state", "step:9", 25600 * scale);
    }
    if part == NoHead {
        program.events.drain(..LAYERS / 2);
    }
    program
}

fn recorded(scale: u64, part: Part) -> Profile {
    let mut snapshot = snapshot::read(&*program(scale, part).snapshot()).unwrap();
    let modules = DeviceModules {
        device: DeviceId::FIRST,
        names: vec![String::new(), "model".to_owned()],
        purposes: Vec::new(),
        shapes: Vec::new(),
        allocations: vec![[1000, 1]],
        blocks: Vec::new(),
    };
    snapshot.run = Some(RunFacts { modules: vec![modules], ..RunFacts::default() });
    let source = Source { path: "run.pkl".to_owned(), bytes: 0, kind: InputKind::Snapshot };
    profile::measure(snapshot, source, ReadOptions::default()).unwrap()
}

/// A run before and after, as its scale and the recorded part.
type Pair = [(u64, Part); 2];

fn compare([before, after]: Pair, limits: &Thresholds) -> Comparison {
    // Blocks of the program are small.
    let limits = Thresholds { min_delta: 0, ..limits.clone() };
    let gate = ptmem::compare(recorded(before.0, before.1), recorded(after.0, after.1), &limits);
    let GateNode::One(pair) = gate.nodes.into_iter().next().unwrap() else { panic!("nothing is a job") };
    pair
}

fn verdict(pair: Pair, limit: &str) -> Verdict {
    let comparison = compare(pair, &Thresholds::default().max_growth(limit).unwrap());
    comparison.judgement.verdict
}

const SAME: [u64; 2] = [10, 10];
const GREW: [u64; 2] = [10, 20];

fn pair(scales: [u64; 2], parts: [Part; 2]) -> Pair {
    [(scales[0], parts[0]), (scales[1], parts[1])]
}

const PASS: Verdict = Verdict::Pass;
const FAIL: Verdict = Verdict::Regression;
const OPEN: Verdict = Verdict::Inconclusive;

/// Verdicts on a limit where the same was recorded, and where twice as much was.
fn both(parts: [Part; 2], limit: &str) -> [Verdict; 2] {
    [verdict(pair(SAME, parts), limit), verdict(pair(GREW, parts), limit)]
}

#[test]
fn whole_recordings_are_compared_by_their_figures() {
    for metric in
        METRICS.iter().chain(&["baseline", "end", "stack", "stack-highest", "phase", "phase:forward", "module:*"])
    {
        assert_eq!(both([Whole, Whole], &format!("{metric}=5%")), [PASS, FAIL], "{metric}");
    }
    assert_eq!(both([Whole, Whole], "fragmentation=5%"), [PASS, FAIL]);
}

#[test]
fn a_limit_on_both_sides_fails_by_what_is_certainly_less() {
    let verdicts = |parts: [Part; 2], metric: &str| {
        [SAME, GREW, [20, 10]].map(|scales| verdict(pair(scales, parts), &format!("{metric}=±5%")))
    };
    let peaks = METRICS.into_iter().chain(["stack-highest"]);
    let others = ["baseline", "end", "stack", "phase", "phase:forward", "module:*", "fragmentation"];
    for metric in peaks.clone().chain(others) {
        assert_eq!(verdicts([Whole, Whole], metric), [PASS, FAIL, FAIL], "{metric}");
    }
    for part in [NoHead, NoTail] {
        for metric in peaks.clone() {
            assert_eq!(verdicts([Whole, part], metric), [OPEN, FAIL, OPEN], "{metric} {part:?}");
            assert_eq!(verdicts([part, Whole], metric), [OPEN, OPEN, FAIL], "{metric} {part:?}");
        }
    }
    let limit = Thresholds::default().max_growth("±5%").unwrap();
    let said = |parts: [Part; 2]| compare(pair([20, 10], parts), &limit).judgement.headline().to_string();
    assert!(
        said([Whole, NoTail]).contains("needs less than the limit allows, and the rest may not"),
        "{}",
        said([Whole, NoTail])
    );
    let least = said([NoTail, Whole]);
    assert!(least.starts_with("FAIL peak improved by at least ") && least.contains(": update the before"), "{least}");
}

/// Peaks, of which a part of the history tells the least that they can be.
const METRICS: [&str; 4] = ["peak", "active", "requested", "reserved"];

#[test]
fn a_peak_of_an_after_that_lacks_a_part_can_only_fail() {
    for part in [NoHead, NoTail] {
        for metric in METRICS.iter().chain(&["stack-highest"]) {
            assert_eq!(both([Whole, part], &format!("{metric}=5%")), [OPEN, FAIL], "{metric} {part:?}");
        }
        let compared = compare(pair(GREW, [Whole, part]), &Thresholds::default().max_growth("5%").unwrap());
        let line = compared.judgement.headline().to_string();
        assert!(line.starts_with("FAIL peak grew by at least 20.") && line.contains("the after lacks the "), "{line}");
        // The warning says why, and the line does not repeat it.
        let why = "the recording ended earlier, or its program does less";
        let says_why = compared.diff.diagnostics.iter().any(|found| found.message.contains(why));
        assert_eq!(says_why, matches!(part, NoTail), "{:?}", compared.diff.diagnostics);
        assert!(!line.contains(why), "{line}");
    }
}

#[test]
fn a_peak_of_a_before_that_lacks_a_part_can_only_pass() {
    for part in [NoHead, NoTail] {
        for metric in METRICS {
            assert_eq!(both([part, Whole], &format!("{metric}=5%")), [PASS, OPEN], "{metric} {part:?}");
        }
        // Of some stacks it records nothing; of those of the forward pass, the end tells nothing more.
        assert_eq!(both([part, Whole], "stack-highest=5%"), [OPEN, OPEN], "{part:?}");
        let same = if part == NoTail { PASS } else { OPEN };
        assert_eq!(both([part, Whole], "stack-highest:layer_*=5%"), [same, OPEN], "{part:?}");
        let limits = Thresholds::default().max_growth("5%").unwrap();
        let line = compare(pair([20, 10], [part, Whole]), &limits).judgement.headline().to_string();
        assert!(line.starts_with("PASS peak shrank by at least "), "{line}");
        let line = compare(pair(SAME, [part, Whole]), &limits).judgement.headline().to_string();
        assert!(line.starts_with("PASS peak did not grow") && line.contains("the before lacks the "), "{line}");
    }
}

#[test]
fn what_is_held_at_a_place_is_compared_where_both_sides_record_it() {
    // The peak lies where both record it. The before may have held more of a stack elsewhere, but not of a module at that place.
    // What is older than a recording has no stack.
    for part in [NoHead, NoTail] {
        let [same, grew] = if part == NoTail { [PASS, FAIL] } else { [OPEN, OPEN] };
        assert_eq!(both([part, Whole], "stack=5%"), [same, OPEN], "{part:?}");
        assert_eq!(both([part, Whole], "module:*=5%"), [same, grew], "{part:?}");
        // The peak of the after may be another one.
        assert_eq!(both([Whole, part], "stack=5%"), [OPEN, OPEN], "{part:?}");
        assert_eq!(both([Whole, part], "module:*=5%"), [OPEN, OPEN], "{part:?}");
    }
}

#[test]
fn figures_of_one_moment_need_that_moment() {
    for parts in [[Whole, NoHead], [NoHead, Whole]] {
        assert_eq!(both(parts, "baseline=5%"), [OPEN, OPEN], "{parts:?}");
        assert_eq!(both(parts, "end=5%"), [PASS, FAIL], "{parts:?}");
    }
    for parts in [[Whole, NoTail], [NoTail, Whole]] {
        assert_eq!(both(parts, "baseline=5%"), [PASS, FAIL], "{parts:?}");
        assert_eq!(both(parts, "end=5%"), [OPEN, OPEN], "{parts:?}");
    }
    for parts in [[Whole, NoHead], [NoHead, Whole], [Whole, NoTail], [NoTail, Whole]] {
        assert_eq!(both(parts, "fragmentation=5%"), [OPEN, OPEN], "{parts:?}");
    }
}

#[test]
fn phases_are_compared_as_far_as_they_are_recorded() {
    // The forward pass is whole without the tail.
    for parts in [[Whole, NoTail], [NoTail, Whole]] {
        assert_eq!(both(parts, "phase:forward=5%"), [PASS, FAIL], "{parts:?}");
    }
    assert_eq!(both([Whole, NoTail], "phase:backward=5%"), [OPEN, FAIL], "the after may hold more in it");
    assert_eq!(both([NoTail, Whole], "phase:backward=5%"), [PASS, OPEN], "the before may have held more in it");
    assert_eq!(both([Whole, NoTail], "phase=5%"), [OPEN, FAIL]);
    // Without the head, it is not known which occurrence is which.
    for parts in [[Whole, NoHead], [NoHead, Whole]] {
        assert_eq!(both(parts, "phase:backward=5%"), [OPEN, OPEN], "{parts:?}");
    }
}

#[test]
fn two_recordings_that_both_lack_a_part_bound_nothing() {
    for ran_over in [Side::Before, Side::After] {
        let other = if ran_over == Side::Before { [Whole, NoTail] } else { [NoTail, Whole] };
        for scales in [SAME, GREW] {
            for metric in METRICS.iter().chain(&["stack", "stack-highest"]) {
                let mut sides = Sides { before: recorded(scales[0], other[0]), after: recorded(scales[1], other[1]) };
                sides.of_mut(ran_over).devices[0].ran_over = true;
                let limits = Thresholds { min_delta: 0, ..Thresholds::default() };
                let limits = limits.max_growth(&format!("{metric}=5%")).unwrap();
                let verdict = ptmem::compare(sides.before, sides.after, &limits).verdict();
                assert_eq!(verdict, OPEN, "{metric}: the {ran_over} ran over");
            }
        }
    }
}

#[test]
fn growth_that_was_agreed_to_is_known_only_of_a_whole_after() {
    let accepted = |parts| {
        let accepted = Accepted {
            subjects: vec!["peak".parse().unwrap()],
            through: None,
            bytes: 1 << 40,
            reason: "wider".to_owned(),
            expires: "9999-01-01".parse().unwrap(),
        };
        let limits = Thresholds::default().max_growth("peak=5%").unwrap();
        compare(pair(GREW, parts), &Thresholds { accepted: vec![accepted], ..limits }).judgement.verdict
    };
    assert_eq!(accepted([NoTail, Whole]), PASS);
    assert_eq!(accepted([Whole, NoTail]), OPEN, "it may have grown by more");
}

#[test]
fn absolute_limits_hold_for_what_an_after_records() {
    let judged = |parts, limit: &str| {
        let limits = Thresholds::default().max(limit).unwrap();
        let verdict = compare(pair(SAME, parts), &limits).judgement.verdict;
        let partial = Thresholds { allow_partial: true, ..limits };
        assert_ne!(compare(pair(SAME, parts), &partial).judgement.verdict, OPEN, "{limit}");
        verdict
    };
    for metric in ["peak", "reserved", "stack", "module:*"] {
        for part in [NoHead, NoTail] {
            assert_eq!(judged([Whole, part], &format!("{metric}=1KiB")), FAIL, "{metric} {part:?}");
            assert_eq!(judged([Whole, part], &format!("{metric}=1TiB")), OPEN, "{metric} {part:?}");
            assert_eq!(judged([part, Whole], &format!("{metric}=1TiB")), PASS, "{metric} {part:?}");
        }
    }
    assert_eq!(judged([Whole, NoTail], "end=1KiB"), OPEN, "it is not the end");
    assert_eq!(judged([Whole, NoHead], "end=1KiB"), FAIL);
}

#[test]
fn a_program_that_failed_passes_no_limit() {
    let failed = |scales: [u64; 2], parts: [Part; 2]| {
        let [before, mut after] = [0, 1].map(|side| recorded(scales[side], parts[side]));
        let ending = Ending { kind: EndingKind::Exception, message: "no such file".to_owned() };
        after.run.as_mut().unwrap().ending = Some(ending);
        let limits = Thresholds::default().max_growth("5%").unwrap();
        ptmem::compare(before, after, &limits).verdict()
    };
    assert_eq!(failed(SAME, [NoTail, Whole]), OPEN);
    assert_eq!(failed(SAME, [Whole, NoTail]), OPEN);
    assert_eq!(failed(GREW, [Whole, NoTail]), FAIL);
    let mut after = recorded(10, Whole);
    let ending = Ending { kind: EndingKind::Exception, message: "no such file".to_owned() };
    after.run.as_mut().unwrap().ending = Some(ending);
    assert_reads!(ptmem::compare(recorded(20, Whole), after, &Thresholds::default()).headline().to_string() => str!["PASS nothing was gated (no limit was given): peak cannot be compared: the after is not a whole run: the program failed: no such file"]);
}

#[test]
fn growth_without_a_limit_is_told_as_far_as_it_is_known() {
    let line = |scales, parts| {
        let limits = Thresholds::default();
        compare(pair(scales, parts), &limits).judgement.headline().to_string()
    };
    for part in [NoHead, NoTail] {
        assert!(line(GREW, [Whole, part]).contains(": peak grew by at least "), "{}", line(GREW, [Whole, part]));
        assert!(line(SAME, [part, Whole]).contains(": peak did not grow"), "{}", line(SAME, [part, Whole]));
        assert!(line([20, 10], [part, Whole]).contains(": peak shrank by at least "));
        for (scales, parts) in [(SAME, [Whole, part]), ([20, 10], [Whole, part]), (GREW, [part, Whole])] {
            let line = line(scales, parts);
            assert!(line.contains(": peak cannot be compared: the ") && line.contains(" lacks the "), "{line}");
        }
    }
}

#[test]
fn memory_no_longer_runs_out_only_where_the_after_records_as_much() {
    let compared = |part, limits: &Thresholds| {
        let mut program = program(10, Whole);
        program.events.push(oom(1 << 30));
        let source = Source { path: "run.pkl".to_owned(), bytes: 0, kind: InputKind::Snapshot };
        let before = snapshot::read(&*program.snapshot()).unwrap();
        let before = profile::measure(before, source, ReadOptions::default()).unwrap();
        ptmem::compare(before, recorded(10, part), limits)
    };
    let limits = Thresholds::default().max_growth("5%").unwrap();
    assert_eq!([Whole, NoTail, NoHead].map(|part| compared(part, &limits).verdict()), [PASS, OPEN, OPEN]);
    assert_reads!(compared(Whole, &Thresholds::default()).headline().to_string() => str!["PASS nothing was gated (no limit was given): peak did not grow"]);
    assert_reads!(compared(Whole, &Thresholds { allow_oom: true, ..Thresholds::default() }).headline().to_string() => str!["PASS nothing was gated (no limit was given): peak did not change"]);
}
