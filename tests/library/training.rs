//! A small training loop under changes of its code and of its recording, which no gate may take for something else.

use std::collections::BTreeMap;

use ptmem::align::{End, MissingPart};
use ptmem::diff::{self, Diff};
use ptmem::patch::Patch;
use ptmem::profile::{self, Profile, ReadOptions};
use ptmem::sides::{Side, Sides};
use ptmem::verdict::{GrowthLimit, Judgement, Level, Thresholds, Verdict, judge_diff};

use crate::support::history;
use crate::support::pickle::Value;
use crate::support::program::Program;

const LAYERS: u64 = 30;
const PARAMETERS: u64 = 60;

/// The program as it is written, and as it is recorded.
#[derive(Clone, Copy)]
struct Training {
    /// The files of the classes `Attention` and `Mlp`.
    files: [&'static str; 2],
    /// Bytes of an activation of `Mlp`.
    mlp: u64,
    steps: u64,
    /// Allocations of the optimizer for each parameter.
    each: u64,
    /// True for a recording that begins after the first step.
    later: bool,
    /// True for a recording without frames.
    unnamed: bool,
    /// True for a backward pass that has the frames of the forward pass, false for one without any.
    anomaly: Option<bool>,
    /// True for a recording that ends because memory runs out in the second step.
    fails: bool,
}

impl Training {
    const PLAIN: Self = Self {
        files: ["/repo/model.py"; 2],
        mlp: 512 * 1024,
        steps: 2,
        each: 1,
        later: false,
        unnamed: false,
        anomaly: None,
        fails: false,
    };

    fn record(self) -> Profile {
        let mut program = Program::default();
        for step in 0..self.steps {
            self.step(&mut program, step);
            if self.later && step == 0 {
                program.events.clear();
            }
        }
        profile::read(&*program.snapshot(), "snapshot.pkl", ReadOptions::default()).unwrap()
    }

    fn alloc(self, program: &mut Program, name: String, frames: &[&str], bytes: u64) {
        program.alloc_under(name, if self.unnamed { &[] } else { frames }, bytes);
    }

    fn step(self, program: &mut Program, step: u64) {
        let [attention, mlp] = self.files.map(|file| format!("{file}:forward"));
        let outer = ["/repo/model.py:forward:61", "/repo/model.py:forward:73", "/repo/train.py:main:20"];
        let [attention, mlp] = [format!("{attention}:19"), format!("{mlp}:37")];
        if step > 0 {
            (0..LAYERS).for_each(|layer| program.free(&format!("gradient {layer}")));
        }
        for layer in 0..LAYERS {
            let frames = [&[&*attention][..], &outer[..]].concat();
            self.alloc(program, format!("attention {layer}"), &frames, 512 * 700);
            let frames = [&[&*mlp][..], &outer[..]].concat();
            self.alloc(program, format!("mlp {layer}"), &frames, self.mlp);
            self.alloc(program, format!("sum {layer}"), &outer[1..], 512 * 20);
        }
        self.alloc(program, "loss".to_owned(), &["/repo/loss.py:loss:9", "/repo/train.py:main:21"], 512 * 40);
        for layer in (0..LAYERS).rev() {
            if self.fails && step == 1 && layer == LAYERS / 2 {
                program.events.push(history::oom(512 * 300));
                return;
            }
            let frames = if self.anomaly.is_none() { &["/repo/train.py:backward:22"][..] } else { &[] };
            self.alloc(program, format!("gradient {layer}"), frames, 512 * 300);
            if self.anomaly == Some(true) {
                let line = "  File \"/repo/model.py\", line 19, in forward\n    return self.out(y)\n";
                let event = program.events.pop().unwrap();
                program.events.push(event.with("forward_frames", Value::List(vec![line.into()])));
            }
            for name in ["attention", "mlp", "sum"] {
                program.free(&format!("{name} {layer}"));
            }
        }
        program.free("loss");
        if step == 0 {
            let frames = ["/repo/optimizer.py:state:5", "/repo/train.py:main:23"];
            (0..LAYERS).for_each(|layer| self.alloc(program, format!("state {layer}"), &frames, 512 * 1500));
        }
        for parameter in 0..PARAMETERS * self.each {
            let frames = ["/repo/optimizer.py:update:12", "/repo/train.py:main:23"];
            self.alloc(program, format!("square {parameter}"), &frames, 512);
            program.free(&format!("square {parameter}"));
        }
    }
}

fn compare(before: Training, after: Training) -> Diff {
    diff::compare(before.record(), after.record(), diff::DiffOptions::default())
}

fn judge(diff: &Diff, limits: &[&str]) -> Judgement {
    let growth = limits.iter().map(|limit| GrowthLimit::parse(limit, Level::Fail).unwrap()).collect();
    judge_diff(diff, &Thresholds { growth, ..Thresholds::default() })
}

fn missing(diff: &Diff) -> Vec<(Side, End)> {
    diff.devices[0].missing.iter().map(|&MissingPart { side, end, .. }| (side, end)).collect()
}

#[test]
fn classes_that_move_to_files_of_their_own_are_no_change() {
    let split = Training { files: ["/repo/layers/attention.py", "/repo/layers/mlp.py"], ..Training::PLAIN };
    let one_moved = Training { files: ["/repo/layers/attention.py", "/repo/model.py"], ..Training::PLAIN };
    for (before, after) in [(Training::PLAIN, split), (split, Training::PLAIN), (Training::PLAIN, one_moved)] {
        let diff = compare(before, after);
        assert_eq!(missing(&diff), []);
        let changed: Vec<_> = diff.devices[0].rows.iter().filter(|row| row.delta() != 0).collect();
        assert!(changed.is_empty(), "{changed:?}");
        let judgement = judge(&diff, &["0", "stack=0", "stack-highest=0"]);
        assert_eq!(judgement.verdict, Verdict::Pass, "{}", judgement.headline());
    }
}

#[test]
fn growth_in_a_class_that_moved_is_told_as_what_it_is() {
    let split = Training { files: ["/repo/attention.py", "/repo/mlp.py"], mlp: 1 << 20, ..Training::PLAIN };
    let diff = compare(Training::PLAIN, split);
    let [row, ..] = &diff.devices[0].rows[..] else { panic!("no rows") };
    assert_eq!((row.delta(), &*row.label), (i128::from(LAYERS << 19), "forward (mlp.py:37)"));
    assert_eq!(judge(&diff, &["stack=10%"]).verdict, Verdict::Regression);
    let highest = judge(&diff, &["stack-highest=10%"]);
    assert_eq!(highest.verdict, Verdict::Regression, "{}", highest.headline());
}

#[test]
fn more_allocations_for_each_parameter_are_no_missing_part() {
    for each in [2, 3] {
        let twice = Training { each, later: true, ..Training::PLAIN };
        let once = Training { each: 1, ..twice };
        for (before, after) in [(once, twice), (twice, once)] {
            assert_eq!(missing(&compare(before, after)), []);
        }
    }
}

#[test]
fn a_peak_in_a_step_that_one_side_does_not_record_cannot_be_compared() {
    let one = Training { steps: 1, ..Training::PLAIN };
    let many = Training { steps: 4, ..Training::PLAIN };
    for (before, after, side) in [(one, many, Side::Before), (many, one, Side::After)] {
        let diff = compare(before, after);
        assert_eq!(missing(&diff), [(side, End::Tail)]);
        assert_eq!(judge(&diff, &["5%"]).verdict, Verdict::Inconclusive);
    }
    // Every later step is as high as the others.
    let three = Training { steps: 3, ..Training::PLAIN };
    assert_eq!(missing(&compare(three, many)), []);
    assert_eq!(judge(&compare(three, many), &["0", "stack=0"]).verdict, Verdict::Pass);
}

#[test]
fn stacks_of_recordings_with_other_frames_are_no_growth() {
    let unnamed = Training { unnamed: true, ..Training::PLAIN };
    for (before, after) in [(Training::PLAIN, unnamed), (unnamed, Training::PLAIN)] {
        let diff = compare(before, after);
        for limit in ["stack=0", "stack-highest=0"] {
            let judgement = judge(&diff, &[limit]);
            assert_eq!(judgement.verdict, Verdict::Inconclusive, "{}", judgement.headline());
        }
        assert_eq!(judge(&diff, &["0"]).verdict, Verdict::Pass, "the peak is the same");
    }
}

#[test]
fn a_recording_that_ends_because_memory_ran_out_is_told_from_one_that_was_ended() {
    let whole = Training { later: true, ..Training::PLAIN };
    let failed = Training { fails: true, ..whole };
    let diff = compare(failed, whole);
    assert_eq!(missing(&diff), [(Side::Before, End::Tail)]);
    let judgement = judge(&diff, &["5%"]);
    assert_reads!(judgement.headline().to_string() => str!["PASS memory ran out in the before and no longer does; peak is now 47.69 MiB"]);
    assert_eq!(judgement.verdict, Verdict::Pass, "memory that no longer runs out is the fix");
    let mut told = diff.diagnostics.iter().map(|diagnostic| &*diagnostic.message);
    assert!(told.any(|message| message.ends_with("memory ran out there. Record both sides where memory suffices")));
}

#[test]
fn the_most_that_a_stack_held_is_not_told_as_what_it_holds_at_the_peak() {
    let mut diff = compare(Training::PLAIN, Training { mlp: 1 << 20, ..Training::PLAIN });
    let texts = ["old()", "new()"].map(|call| format!("{}{call}\n", "#\n".repeat(36)));
    let mut patch = Patch::default();
    let path = Some("model.py");
    patch.add(Sides { before: path, after: path }, Sides { before: &texts[0], after: &texts[1] });
    patch.leave_out_moved();
    let checkout = ["model.py", "/repo/model.py"].map(|file| (file.to_owned(), "model.py".to_owned()));
    diff.find_causes(Some(&patch), &BTreeMap::from(checkout));
    let at_peak = judge(&diff, &["stack=10%"]);
    let cause = at_peak.cause.unwrap_or_default();
    assert!(cause.contains("of the growth at the peak") && cause.contains("passes through model.py:37"), "{cause}");
    let highest = judge(&diff, &["stack-highest=10%"]).headline().to_string();
    assert!(
        highest.starts_with("FAIL the most held by stack forward (model.py:37) (+1 more line) grew 15.00 MiB"),
        "{highest}"
    );
}

#[test]
fn stacks_that_anomaly_mode_names_are_no_growth() {
    let plain = Training { anomaly: Some(false), ..Training::PLAIN };
    let anomaly = Training { anomaly: Some(true), ..Training::PLAIN };
    for (before, after, side) in [(plain, anomaly, "after"), (anomaly, plain, "before")] {
        let diff = compare(before, after);
        let line = judge(&diff, &["stack-highest=0"]).headline().to_string();
        let reason = format!(
            "only the {side} records frames of the forward pass (anomaly mode); stack-highest cannot be compared"
        );
        assert!(line.starts_with("INCONCLUSIVE the most held by stack ") && line.ends_with(&reason), "{line}");
        assert!(diff.diagnostics.iter().any(|diagnostic| diagnostic.message.ends_with("on both sides")));
    }
    assert_eq!(judge(&compare(anomaly, anomaly), &["stack-highest=0"]).verdict, Verdict::Pass);
}
