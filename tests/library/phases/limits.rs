//! Limits on phases.

use super::{Event, alloc, free, load, profile_of};
use ptmem::config::Config;
use ptmem::diff::{self, Occurrences, PhaseOptions};
use ptmem::profile::saved::text_of;
use ptmem::profile::{self, Profile, ReadOptions};
use ptmem::verdict::{Day, GrowthLimit, Judgement, Level, Outcome, Thresholds, Verdict, judge_diff};

fn thresholds(growth: &[&str]) -> Thresholds {
    let growth = growth.iter().map(|limit| GrowthLimit::parse(limit, Level::Fail).unwrap()).collect();
    Thresholds { growth, ..Thresholds::default() }
}

pub(super) fn judge(before: Profile, after: Profile, phases: PhaseOptions, growth: &[&str]) -> Judgement {
    let diff = diff::compare(before, after, diff::DiffOptions { phases, ..diff::DiffOptions::default() });
    judge_diff(&diff, &thresholds(growth))
}

/// A phase of each name, with its peak in MiB.
pub(super) fn peaks(occurrences: &[(&'static str, i64)]) -> Profile {
    let (mut events, mut marks) = (Vec::new(), Vec::new());
    for (i, &(name, mib)) in (0_i64..).zip(occurrences) {
        marks.extend([("START", name, i * 100), ("END", name, i * 100 + 50)]);
        events.extend([alloc(i * 100 + 10, mib), free(i * 100 + 20, i + 1)]);
    }
    profile_of(&events, &marks)
}

#[test]
fn a_peak_may_hide_the_growth_of_a_phase() {
    let judge =
        |growth: &[&str]| judge(load("phases-before.pkl"), load("phases-after.pkl"), PhaseOptions::default(), growth);
    assert_eq!(judge(&["0", "stack=0"]).verdict, Verdict::Pass);
    let failed = judge(&["0", "phase:*=0"]);
    assert_eq!(failed.verdict, Verdict::Regression);
    let check = &failed.checks[0];
    let growth = check.figures.delta.unwrap();
    assert_eq!((check.label(), &*check.of.name()), (Some("forward #0"), "phase:*"));
    assert_eq!(growth, 4 << 20);
    assert_reads!(check.reason.as_deref().unwrap() => str!["4 of 4 occurrences exceed it; largest growth there: forward (model.py:94) aten::mul +4.00 MiB"]);
    // One check for the phase, not one per occurrence.
    assert_eq!(failed.checks.len(), 2);
    assert_eq!(judge(&["phase:forward=4MiB"]).verdict, Verdict::Pass);
    assert_eq!(
        judge(&["phase=1GiB"]).headline().to_string(),
        "PASS no outermost named phase grew by more than 1.00 GiB"
    );
    // A limit on outermost phases says where an inner one grew by more.
    assert_eq!(
        judge(&["phase=1%"]).headline().to_string(),
        "PASS no outermost named phase grew by more than 1 % (inside another phase, forward grew 4.00 MiB: a limit on \
         phase:forward would gate it)"
    );
    assert_eq!(judge(&["phase:backward=0"]).headline().to_string(), "PASS no phase:backward grew by more than 0 B");
}

#[test]
fn occurrences_without_events_count() {
    // A stage of every other step works on memory that is there. The after counts something between the stages.
    let stages = |counts: bool, peaks: [i64; 4]| {
        let (mut events, mut marks) = (Vec::new(), Vec::new());
        for (i, peak) in (0_i64..).zip(peaks) {
            marks.extend([("START", "stage", i * 100), ("END", "stage", i * 100 + 50)]);
            if peak > 0 {
                let number = events.iter().filter(|event: &&Event| event.bytes > 0).count() as i64 + 1;
                events.extend([alloc(i * 100 + 10, peak), free(i * 100 + 20, number)]);
            }
            events.extend(counts.then(|| Event { bytes: 512, ..alloc(i * 100 + 60, 0) }));
        }
        profile_of(&events, &marks)
    };
    let judged = |after: [i64; 4], skip_first: u32| {
        let phases = PhaseOptions { skip_first, ..PhaseOptions::default() };
        let judgement = judge(stages(false, [0, 20, 0, 5]), stages(true, after), phases, &["phase=1MiB"]);
        judgement.headline().to_string()
    };
    assert_reads!(judged([0, 20, 0, 5], 0) => str!["PASS no outermost named phase grew by more than 1.00 MiB"]);
    // What grows after a warm-up is not left out with it.
    assert_reads!(judged([0, 20, 0, 9], 3) => str!["FAIL phase stage #3 grew 4.00 MiB (+80.0 %), allowed 1.00 MiB (largest growth there: f (a.py:7) +4.00 MiB)"]);
}

/// Training that steps an optimizer for each parameter, recorded up to the first step of the fourth round: the state of each in
/// MiB, in the order of the steps.
fn optimizer_of_each_parameter(states: &[i64], between: i64) -> Profile {
    let (mut events, mut marks) = (Vec::new(), Vec::new());
    for step in 0..4 {
        let start = step * 10_000;
        events.push(alloc(start, 64));
        for (at, &state) in (1_i64..).zip(states).take(if step < 3 { states.len() } else { 1 }) {
            let from = start + at * 100;
            marks.push(("START", "Optimizer.step#Adam.step", from));
            marks.extend((step < 3).then_some(("END", "Optimizer.step#Adam.step", from + 50)));
            // The state stays, another tensor of its size does not.
            events.extend((step == 0).then(|| alloc(from + 10, state)));
            events.push(alloc(from + 20, state));
            events.push(free(from + 30, events.iter().filter(|event| event.bytes > 0).count() as i64));
            events.extend((0..between).map(|_| alloc(from + 60, 1)));
        }
    }
    profile_of(&events, &marks)
}

#[test]
fn the_order_of_optimizers_that_step_in_turn_is_no_growth() {
    let [before, after] = [[4, 8, 20, 32], [32, 20, 8, 4]].map(|states| optimizer_of_each_parameter(&states, 0));
    let steps_of = |profile: &Profile| profile.devices[0].phases.all.iter().filter(|one| one.is_outermost).count();
    assert_eq!(steps_of(&before), 3);
    let saved = text_of(&before, &[]).unwrap();
    let saved = profile::read(saved.as_bytes(), "x", ReadOptions::default()).unwrap();
    assert_eq!(saved.devices[0].phases, before.devices[0].phases);
    let judgement = judge(before, after, PhaseOptions::default(), &["phase=5%"]);
    assert_eq!(judgement.verdict, Verdict::Pass, "{}", judgement.headline());
    let grown = optimizer_of_each_parameter(&[4, 8, 20, 96], 0);
    let judgement = judge(saved, grown, PhaseOptions::default(), &["phase=25%"]);
    assert_eq!(judgement.verdict, Verdict::Regression);
    // With other work between them, each has a peak of its own.
    let apart = optimizer_of_each_parameter(&[4, 8, 20, 32], 1);
    assert_eq!(steps_of(&apart), 13);
}

#[test]
fn saved_profiles_gate_phases() {
    let saved =
        |name: &str| profile::read(text_of(&load(name), &[]).unwrap().as_bytes(), "x", ReadOptions::default()).unwrap();
    for after in [load("phases-after.pkl"), saved("phases-after.pkl")] {
        let judgement = judge(saved("phases-before.pkl"), after, PhaseOptions::default(), &["phase:forward=5%"]);
        assert_eq!(judgement.verdict, Verdict::Regression);
    }
}

#[test]
fn what_cannot_be_compared_is_inconclusive() {
    let each = PhaseOptions { wanted: true, ..PhaseOptions::default() };
    for (before, after, limit, expected) in [
        (
            peaks(&[("a", 5)]),
            peaks(&[("a", 5)]),
            "phase:b=0",
            "the pattern matches no phase on either side; the nearest phase is 'a'",
        ),
        (peaks(&[]), peaks(&[]), "phase:b=0", "neither side"),
        (peaks(&[("a", 5)]), peaks(&[("b", 5)]), "phase:b=0", "phase b: the phase is missing in the before"),
        (peaks(&[("a", 5), ("b", 5)]), peaks(&[("b", 5)]), "phase:*=0", "phase a: the phase is missing in the after"),
        (load("phases-before.pkl"), load("state-only.pkl"), "phase:forward=0", "the after records no allocations"),
        (load("torch-1.13.pkl"), load("phases-after.pkl"), "phase:forward=0", "the before records no allocations"),
        (load("empty.pkl"), load("phases-after.pkl"), "phase:forward=0", "the device is missing in the before"),
    ] {
        let judgement = judge(before, after, each, &[limit]);
        assert_eq!(judgement.verdict, Verdict::Inconclusive, "{limit}: {}", judgement.headline());
        assert!(judgement.headline().sentence.contains(expected), "{expected}: {}", judgement.headline());
    }
    // A limit that is exceeded decides, even where another phase is missing.
    let judgement = judge(peaks(&[("a", 5), ("b", 5)]), peaks(&[("b", 6)]), each, &["phase:*=0"]);
    assert_eq!(judgement.verdict, Verdict::Regression);
}

#[test]
fn a_limit_on_all_phases_judges_those_that_both_sides_have() {
    let each = PhaseOptions { wanted: true, ..PhaseOptions::default() };
    let is_told = |judgement: &Judgement, message: &str| judgement.diagnostics.iter().any(|d| d.message == message);
    // The peak hides the growth of a phase below it.
    let grown = judge(peaks(&[("a", 9), ("b", 4)]), peaks(&[("a", 9), ("b", 6)]), each, &["5%", "phase=5%"]);
    assert!(
        grown
            .headline()
            .to_string()
            .starts_with("FAIL phase b grew 2.00 MiB (+50.0 %), allowed 5 % (largest growth there: ")
    );
    // One with a limit of its own has no other.
    let own =
        judge(peaks(&[("a", 9), ("b", 4)]), peaks(&[("a", 9), ("b", 6)]), each, &["5%", "phase=5%", "phase:b=50%"]);
    assert_eq!(own.verdict, Verdict::Pass, "{}", own.headline());
    // A limit on pinned memory is not one of its own.
    let of_host = ["5%", "phase=5%", "host:phase:b=50%"];
    let host = judge(peaks(&[("a", 9), ("b", 4)]), peaks(&[("a", 9), ("b", 6)]), each, &of_host);
    assert_eq!(host.verdict, Verdict::Regression, "{}", host.headline());
    // What is inside of another may grow below its peak.
    let nested = |inner: i64| {
        let events = [alloc(5, 9), free(8, 1), alloc(20, inner), free(25, 2)];
        profile_of(&events, &[("START", "a", 0), ("START", "b", 10), ("END", "b", 40), ("END", "a", 50)])
    };
    assert_eq!(judge(nested(4), nested(6), each, &["5%", "phase=5%"]).verdict, Verdict::Pass);
    assert_eq!(judge(nested(4), nested(6), each, &["5%", "phase:b=5%"]).verdict, Verdict::Regression);
    // A part that comes or goes is told, and the peak judges it.
    let added = judge(peaks(&[("a", 9)]), peaks(&[("a", 9), ("b", 4)]), each, &["5%", "phase=5%"]);
    assert_eq!(added.verdict, Verdict::Pass);
    assert!(is_told(&added, "the peak inside phase b is not compared: the phase is missing in the before"));
    let gone = judge(peaks(&[("a", 9), ("b", 4)]), peaks(&[("a", 9)]), each, &["5%", "phase=5%"]);
    assert!(is_told(&gone, "the peak inside phase b is not compared: the phase is missing in the after"));
    let fewer = judge(peaks(&[("a", 9), ("b", 4), ("c", 4), ("d", 4)]), peaks(&[("a", 9)]), each, &["5%", "phase=5%"]);
    assert_reads!(fewer.diagnostics[0].message => str!["the peak inside phase b is not compared: the phase is missing in the after; likewise inside 2 other phases"]);
    assert_eq!(fewer.diagnostics.len(), 1, "{:?}", fewer.diagnostics);
    // Nothing has a name: other limits judge what they can, and none is no gate.
    let nameless = |growth: &[&str]| judge(peaks(&[]), peaks(&[]), each, growth);
    let old = || (load("before.pkl"), load("before.pkl"));
    assert_eq!(nameless(&["phase=5%"]).verdict, Verdict::Inconclusive);
    let (before, after) = old();
    assert_eq!(judge(before, after, each, &["5%", "phase=5%"]).verdict, Verdict::Pass);
    let (before, after) = old();
    let alone = judge(before, after, each, &["phase=5%"]);
    assert!(
        alone
            .headline()
            .to_string()
            .starts_with("INCONCLUSIVE phase: neither side has any phases that the program names")
    );
    // A limit that only warns judges nothing for one that fails.
    let beside_warning = thresholds(&["phase=5%"]).warn_growth("baseline=1%").unwrap();
    let (before, after) = old();
    let warned = diff::compare(before, after, diff::DiffOptions { phases: each, ..diff::DiffOptions::default() });
    assert_eq!(judge_diff(&warned, &beside_warning).verdict, Verdict::Inconclusive);
    let of_warning = Thresholds::default().warn_growth("phase=5%").unwrap().warn_growth("baseline=1%").unwrap();
    assert_eq!(judge_diff(&warned, &of_warning).verdict, Verdict::Pass);
    let nothing_shared = judge(peaks(&[("a", 9)]), peaks(&[("b", 9)]), each, &["phase=5%"]);
    assert_eq!(nothing_shared.headline().to_string(), "INCONCLUSIVE phase: no phase is on both sides");
}

#[test]
fn names_may_hold_what_limits_are_written_with() {
    let judgement = judge(
        peaks(&[("step=1:forward", 5)]),
        peaks(&[("step=1:forward", 6)]),
        PhaseOptions::default(),
        &["phase:step=?:forward=10%", "phase:{step=1:*,x}=1GiB"],
    );
    let headline = judgement.headline().to_string();
    assert!(headline.starts_with("FAIL phase step=1:forward grew 1.00 MiB (+20.0 %), allowed 10 %"), "{headline}");
    assert_eq!(judgement.checks.len(), 2);
}

/// Parts of a program with phases in each, and the peak of each of these in MiB.
fn rounds(parts: &[&[(&'static str, i64)]]) -> Profile {
    let (mut events, mut marks, mut blocks) = (Vec::new(), Vec::new(), 0);
    for (start, phases) in (0_i64..).step_by(1000).zip(parts) {
        blocks += 1;
        marks.push(("START", "part", start));
        events.extend([alloc(start + 1, 1), free(start + 2, blocks)]);
        for (i, &(name, mib)) in (0_i64..).zip(*phases) {
            let at = start + 100 * i + 10;
            blocks += 1;
            marks.extend([("START", name, at), ("END", name, at + 50)]);
            events.extend([alloc(at + 10, mib), free(at + 20, blocks)]);
        }
        marks.push(("END", "part", start + 900));
    }
    profile_of(&events, &marks)
}

#[test]
fn occurrences_of_unequal_number_are_compared_within_the_phase_around_them() {
    let without = |skip_first: u32, before: &[&[(&'static str, i64)]], after: &[&[(&'static str, i64)]]| {
        let phases = PhaseOptions { wanted: true, skip_first, ..PhaseOptions::default() };
        let options = diff::DiffOptions { phases, ..diff::DiffOptions::default() };
        let diff = diff::compare(rounds(before), rounds(after), options);
        let rows = diff.devices[0].phases.iter().filter(|row| &*row.name == "a");
        let rows: Vec<_> = rows.map(|row| (row.title(), row.delta().unwrap() >> 20)).collect();
        (rows, judge_diff(&diff, &thresholds(&["phase:a=0"])).verdict)
    };
    let compare = |before: &[&[_]], after: &[&[_]]| without(0, before, after);
    // The small one of each round is gone; by number, the large ones would be compared with those.
    let both: &[&[_]] = &[&[("a", 2)], &[("a", 9)], &[("a", 2)], &[("a", 9)]];
    let large: &[&[_]] = &[&[("b", 2)], &[("a", 9)], &[("b", 2)], &[("a", 9)]];
    let rows = |titles: [&str; 2]| titles.map(|title| (title.to_owned(), 0)).to_vec();
    assert_eq!(compare(both, large), (rows(["a #1 -> #0", "a #3 -> #1"]), Verdict::Pass));
    assert_eq!(compare(large, both), (rows(["a #0 -> #1", "a #1 -> #3"]), Verdict::Pass));
    // One more in a round is compared with nothing, and the next round begins anew.
    let twice: &[&[_]] = &[&[("a", 3), ("a", 1)], &[("a", 9)]];
    assert_eq!(compare(&[&[("a", 3)], &[("a", 9)]], twice), (rows(["a #0", "a #1 -> #2"]), Verdict::Pass));
    let first_kept = vec![("a #2 -> #1".to_owned(), 0)];
    assert_eq!(without(1, twice, &[&[("a", 3)], &[("a", 9)]]), (first_kept, Verdict::Pass));
    // Those that have no partner at their place are compared by number.
    let moved: &[&[_]] = &[&[("b", 1)], &[("a", 4), ("a", 1)]];
    let grown = vec![("a #0".to_owned(), 1)];
    assert_eq!(compare(&[&[("a", 3)], &[("b", 1)]], moved), (grown, Verdict::Regression));
}

#[test]
fn occurrences_are_compared_by_number_or_by_their_highest() {
    let before = || peaks(&[("a", 9), ("a", 4), ("a", 5)]);
    let after = || peaks(&[("a", 9), ("a", 5), ("a", 5), ("a", 20)]);
    let compare = |phases: PhaseOptions| {
        diff::compare(before(), after(), diff::DiffOptions { phases, ..diff::DiffOptions::default() })
    };
    let wanted = PhaseOptions { wanted: true, ..PhaseOptions::default() };
    let each = compare(wanted);
    let deltas: Vec<_> = each.devices[0].phases.iter().map(|row| (row.title(), row.delta().unwrap() >> 20)).collect();
    assert_eq!(deltas, [("a #0".to_owned(), 0), ("a #1".to_owned(), 1), ("a #2".to_owned(), 0)]);
    let note = each.diagnostics.iter().find(|d| d.code.name() == "phase-occurrences-differ").unwrap();
    assert!(note.message.contains("(a 3 before, 4 after)"), "{}", note.message);
    assert!(judge_diff(&each, &thresholds(&["phase:a=0"])).headline().sentence.contains("phase a #1 grew 1.00 MiB"));
    // There is no diagnostic unless phases are asked for.
    assert!(compare(PhaseOptions::default()).diagnostics.iter().all(|d| d.code.name() != "phase-occurrences-differ"));
    let worst = compare(PhaseOptions { occurrences: Occurrences::Worst, ..wanted });
    let rows = &worst.devices[0].phases;
    assert_eq!((rows.len(), rows[0].title(), rows[0].delta()), (1, "a #0 -> #3".to_owned(), Some(11 << 20)));
    assert!(worst.diagnostics.iter().all(|d| d.code.name() != "phase-occurrences-differ"));
    // Without those that warm up.
    let later = compare(PhaseOptions { skip_first: 2, ..wanted });
    let rows: Vec<_> = later.devices[0].phases.iter().map(|row| (row.title(), row.delta())).collect();
    assert_eq!(rows, [("a #2".to_owned(), Some(0))]);
    assert_eq!(judge_diff(&later, &thresholds(&["phase:a=0"])).verdict, Verdict::Pass);
    let none = compare(PhaseOptions { skip_first: 3, ..wanted });
    let of_one = judge_diff(&none, &thresholds(&["phase:a=0"]));
    assert_reads!(of_one.headline().to_string() => str!["INCONCLUSIVE phase a: all its occurrences in the before are among the first, which skip-first leaves out"]);
    let beside = judge_diff(&none, &thresholds(&["5%", "phase=0"]));
    assert_reads!(beside.diagnostics[0].message => str!["the peak inside phase a is not compared: all its occurrences in the before are among the first, which skip-first leaves out"]);
    let none = compare(PhaseOptions { skip_first: 4, ..wanted });
    for (limit, name) in [("phase:a=0", "phase:a"), ("phase=0", "phase")] {
        let told = format!("INCONCLUSIVE {name}: all occurrences are among the first, which skip-first leaves out");
        assert_eq!(judge_diff(&none, &thresholds(&[limit])).headline().to_string(), told);
    }
    let beside = judge_diff(&none, &thresholds(&["5%", "phase=0"]));
    assert!(beside.diagnostics.iter().any(|d| d.message.ends_with("which skip-first leaves out")), "{beside:?}");
}

#[test]
fn growth_of_a_phase_can_be_accepted() {
    let config = |bytes: &str| {
        let text = format!(
            "max-growth = \"phase:forward=5%\"\nphase-occurrence = \"max\"\n[[accept]]\nmetric = \"phase:forw*\"\nbytes = \
             \"{bytes}\"\nreason = \"a wider layer\"\nexpires = 2026-12-31"
        );
        Config::parse(&text).unwrap()
    };
    assert_eq!(config("1MiB").phase_occurrence, Some(Occurrences::Worst));
    for (bytes, today, verdict) in [
        ("4MiB", "2026-12-31", Verdict::Pass),
        ("1MiB", "2026-12-31", Verdict::Regression),
        ("4MiB", "2027-01-01", Verdict::Regression),
    ] {
        let config = config(bytes);
        let today = today.parse::<Day>().unwrap();
        let thresholds =
            Thresholds { growth: config.limits.growth, accepted: config.accepted, today, ..Thresholds::default() };
        let diff = diff::compare(load("phases-before.pkl"), load("phases-after.pkl"), diff::DiffOptions::default());
        let judgement = judge_diff(&diff, &thresholds);
        assert_eq!(judgement.verdict, verdict, "{bytes} {}", judgement.headline());
        let check = &judgement.checks[0];
        assert_eq!(check.is_accepted(), verdict == Verdict::Pass);
        assert!(check.reason.as_deref().unwrap().contains("a wider layer"), "{check:?}");
        let told = judgement.diagnostics.iter().filter(|d| d.message.contains("phase forward #0 exceeds its limit"));
        assert_eq!(told.count(), usize::from(check.is_accepted()));
    }
    for text in ["max = \"phase:a=1MiB\"", "phase-occurrence = \"all\"", "max-growth = \"phase:=5%\""] {
        assert!(Config::parse(text).is_err(), "{text}");
    }
}

#[test]
fn phases_that_are_not_recorded_in_full_say_so() {
    let events = |mib| [alloc(10, mib), free(20, 1), alloc(30, 1)];
    let marks = [("END", "a", 25)];
    let judgement =
        judge(profile_of(&events(5), &marks), profile_of(&events(6), &marks), PhaseOptions::default(), &["phase:a=0"]);
    assert_eq!(judgement.checks[0].outcome, Outcome::Exceeded);
    assert_reads!(judgement.checks[0].reason.as_deref().unwrap() => str!["not recorded from its beginning to its end; largest growth there: f (a.py:7) +1.00 MiB"]);
}

// Saved profiles that were changed.

#[test]
fn figures_of_phases_that_cannot_be_are_refused() {
    let good = text_of(&peaks(&[("a", 5), ("a", 6), ("b", 7)]), &[]).unwrap();
    let line = good.lines().find(|line| line.contains("\"name\":\"a\"")).unwrap().trim().to_owned();
    let refusal = |from: &str, to: &str| {
        assert!(line.contains(from), "{line}");
        let text = good.replacen(&line, &line.replacen(from, to, 1), 1);
        profile::read(crate::support::signed(&text).as_bytes(), "x.json", ReadOptions::default())
            .unwrap_err()
            .to_string()
    };
    for (from, to, expected) in [
        ("annotation", "dream", "unknown variant `dream`"),
        ("[[0,3],[3,3]]", "[[0,3],[3]]", "invalid length 1"),
        ("[[0,3],[3,3]]", "[[0,3],[3,400]]", "is beyond the events"),
        ("[[0,3],[3,3]]", "[[0,3],[3,18446744073709551615]]", "is beyond the events"),
        ("[[0,3],[3,3]]", "[[4,3],[3,3]]", "is beyond the events"),
        ("[[0,3],[3,3]]", "[[0,3],[12,null]]", "is beyond the events"),
        ("[[0,3],[3,3]]", "[[0,3],[18446744073709551615,3]]", "is beyond the events"),
        ("[[0,3],[3,3]]", "[[0,3],[3,-2]]", "invalid value"),
    ] {
        let message = refusal(from, to);
        assert!(message.contains(expected), "{from}: {message}");
    }
}
