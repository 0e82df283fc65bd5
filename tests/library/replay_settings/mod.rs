//! Random work under random allocator settings: a model of the caching allocator with private pools, expandable
//! segments and settings that change at run time counts, and every figure of the replay must be exact or within its
//! bound.

mod allocator;

use proptest::prelude::*;
use ptmem::device::DeviceId;
use ptmem::replay::{self, HistoryKind};
use ptmem::snapshot::{Action, Snapshot};

use crate::support::random;
use allocator::{Allocator, KIB, MIB, SHARED, Settings};

#[derive(Debug, Clone)]
enum Step {
    Malloc { size: u64, pool: (u64, u64) },
    Free { which: usize, later: bool },
    Synchronize,
    Release,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let size = prop_oneof![
        3 => 1..8 * KIB,
        2 => 1..MIB,
        4 => MIB..12 * MIB,
        4 => 10 * MIB..70 * MIB,
        2 => (2..60_u64, 0..3_u64).prop_map(|(mb, parts)| mb * MIB + parts * (700 << 10)),
    ];
    let pool = prop_oneof![8 => Just(SHARED), 1 => Just((0, 1)), 1 => Just((1, 0))];
    let step = prop_oneof![
        7 => (size, pool).prop_map(|(size, pool)| Step::Malloc { size, pool }),
        6 => (any::<usize>(), prop::bool::weighted(0.2)).prop_map(|(which, later)| Step::Free { which, later }),
        1 => Just(Step::Synchronize),
        1 => Just(Step::Release),
    ];
    prop::collection::vec(step, 1..150)
}

fn settings() -> impl Strategy<Value = Settings> {
    let max_split_mb = prop::option::weighted(0.4, prop_oneof![Just(20), Just(21), 20..64_u64]);
    let divisions = prop::option::weighted(0.3, prop_oneof![Just(2), Just(4), Just(8)]);
    (max_split_mb, divisions, prop::bool::weighted(0.3)).prop_map(|(max_split_mb, divisions, expandable)| Settings {
        max_split_mb,
        divisions,
        expandable,
    })
}

/// Does the steps, and changes the settings before some of them.
fn run(allocator: &mut Allocator, steps: &[Step], changes: &[(usize, Settings)]) {
    let mut in_use = Vec::new();
    let mut pending = Vec::new();
    for (i, step) in steps.iter().enumerate() {
        for &(_, settings) in changes.iter().filter(|(at, _)| *at == i) {
            allocator.settings = settings;
            allocator.text = settings.text();
        }
        match *step {
            Step::Malloc { size, pool } => in_use.push(allocator.malloc(size, pool)),
            Step::Free { which, later } if !in_use.is_empty() => {
                let addr = in_use.swap_remove(which % in_use.len());
                allocator.request_free(addr);
                if later { pending.push(addr) } else { allocator.complete_free(addr) }
            }
            Step::Free { .. } => {}
            Step::Synchronize => pending.drain(..).for_each(|addr| allocator.complete_free(addr)),
            Step::Release => allocator.release(),
        }
    }
}

/// Every figure is exact, or the truth is within its bound.
fn compare(allocator: &Allocator, first: usize, snapshot: &Snapshot) -> Result<(), TestCaseError> {
    let Some(device) = snapshot.devices.get(&DeviceId::FIRST) else { return Ok(()) };
    let replay = replay::run(snapshot, DeviceId::FIRST, device).unwrap();
    let figures = &replay.figures;
    if figures.history == HistoryKind::StateOnly {
        let of_blocks = [Action::Alloc, Action::FreeRequested, Action::FreeCompleted];
        let has_blocks = of_blocks.iter().any(|action| replay.actions.contains_key(action));
        prop_assert!(!has_blocks || allocator.events.len() - first <= 1);
        return Ok(());
    }
    let window = &allocator.history[first..];
    for (c, counter) in [figures.allocated, figures.active, figures.requested, figures.reserved].iter().enumerate() {
        prop_assert_eq!(counter.end, Some(allocator.counters[c]));
        let Some((baseline, peak)) = counter.baseline.zip(counter.peak) else { continue };
        let highest = window.iter().map(|counters| counters[c]).max().unwrap();
        let (of_baseline, of_peak) = (counter.baseline_error.unwrap(), counter.peak_error.unwrap());
        let truth = window[0][c];
        prop_assert!(
            baseline.abs_diff(truth) <= of_baseline,
            "counter {c}: baseline {baseline} ± {of_baseline}, truth {truth}"
        );
        prop_assert!(peak.abs_diff(highest) <= of_peak, "counter {c}: peak {peak} ± {of_peak}, truth {highest}");
    }
    Ok(())
}

/// The truth is within the bounds, and that of the allocated peak is not 0.
fn assert_counted_with_a_bound(allocator: &Allocator, snapshot: &Snapshot) {
    compare(allocator, 0, snapshot).unwrap();
    let replay = replay::run(snapshot, DeviceId::FIRST, &snapshot.devices[&DeviceId::FIRST]).unwrap();
    assert!(replay.figures.allocated.peak_error.is_some_and(|error| error > 0));
}

/// The limit on splitting was switched on behind the block, and expandable segments off: it left the rest of its pages
/// free, where the settings at the dump would have given it the whole.
#[test]
fn a_block_that_is_older_than_a_switch_is_counted_with_a_bound() {
    let steps = [
        Step::Malloc { size: 22_019_585, pool: SHARED },
        Step::Malloc { size: 1, pool: SHARED },
        Step::Free { which: 0, later: false },
    ];
    let before = Settings { expandable: true, ..Settings::default() };
    let after = Settings { max_split_mb: Some(21), divisions: Some(4), expandable: false };
    let mut allocator = Allocator::new(before, None);
    run(&mut allocator, &steps, &[(1, after)]);
    assert_counted_with_a_bound(&allocator, &allocator.snapshot(0, true));
}

/// Pools with an allocator of their own keep ordinary segments, which are split finely all the same while segments are
/// to be expandable. Nothing in the file shows that they were.
#[test]
fn a_switch_that_leaves_no_trace_is_counted_with_a_bound() {
    let steps = [
        Step::Malloc { size: 53_476_865, pool: (0, 1) },
        Step::Free { which: 0, later: false },
        Step::Malloc { size: 1, pool: SHARED },
    ];
    let mut allocator = Allocator::new(Settings { expandable: true, ..Settings::default() }, None);
    run(&mut allocator, &steps, &[(2, Settings { divisions: Some(8), ..Settings::default() })]);
    compare(&allocator, 0, &allocator.snapshot(0, true)).unwrap();
}

/// Segments were expandable when the history began. The block is older than that, in an ordinary segment that it took
/// whole.
#[test]
fn a_block_in_an_ordinary_segment_may_be_older_than_expandable_segments() {
    let steps = [
        Step::Malloc { size: 1_048_577, pool: (0, 1) },
        Step::Malloc { size: 19_922_433, pool: (0, 1) },
        Step::Malloc { size: 1, pool: SHARED },
        Step::Free { which: 1, later: false },
    ];
    let mut allocator = Allocator::new(Settings { max_split_mb: Some(30), ..Settings::default() }, None);
    run(&mut allocator, &steps, &[(2, Settings { expandable: true, ..Settings::default() })]);
    let first = allocator.events.len() - 2;
    compare(&allocator, first, &allocator.snapshot(first, true)).unwrap();
}

/// Private pools keep ordinary segments, which the allocator hands out whole while segments are not to be expandable.
/// Nothing shows that they were not, but the text that was given last says nothing about them, so they were switched on
/// by another.
#[test]
fn a_text_that_does_not_name_a_setting_tells_that_settings_were_switched() {
    let on = Settings { expandable: true, ..Settings::default() };
    let mut allocator = Allocator::new(on, None);
    let steps = [
        Step::Malloc { size: 7 * MIB, pool: SHARED },
        Step::Malloc { size: 53 * MIB / 4, pool: (0, 1) },
        Step::Free { which: 1, later: false },
    ];
    run(&mut allocator, &steps, &[(1, Settings::default()), (2, on)]);
    "garbage_collection_threshold:0.3".clone_into(&mut allocator.text);
    assert_counted_with_a_bound(&allocator, &allocator.snapshot(0, true));
}

/// An ordinary segment shows that expandable ones were switched off within the history, and a mapped range that they
/// were switched on again. A later switch to and fro leaves no trace but the block that it took whole.
#[test]
fn settings_that_are_seen_to_switch_may_switch_again() {
    let on = Settings { expandable: true, ..Settings::default() };
    let off = Settings::default();
    let mut allocator = Allocator::new(on, None);
    let steps = [
        Step::Malloc { size: 7 * MIB, pool: SHARED },
        Step::Malloc { size: 30 * MIB, pool: SHARED },
        Step::Malloc { size: 40 * MIB, pool: SHARED },
        Step::Malloc { size: 53 * MIB / 4, pool: (0, 1) },
        Step::Free { which: 3, later: false },
    ];
    run(&mut allocator, &steps, &[(1, off), (2, on), (3, off), (4, on)]);
    compare(&allocator, 0, &allocator.snapshot(0, true)).unwrap();
}

/// A block of an expandable segment was allocated while segments were expandable, however often the setting was switched.
#[test]
fn a_block_of_an_expandable_segment_is_as_large_as_these_give_it() {
    let on = Settings { expandable: true, ..Settings::default() };
    let off = Settings::default();
    let mut allocator = Allocator::new(on, None);
    let steps = [
        Step::Malloc { size: 25 * MIB / 2, pool: SHARED },
        Step::Malloc { size: 7 * MIB, pool: SHARED },
        Step::Free { which: 0, later: false },
        Step::Malloc { size: 30 * MIB, pool: SHARED },
        Step::Malloc { size: 12 * MIB, pool: SHARED },
        Step::Free { which: 2, later: false },
    ];
    run(&mut allocator, &steps, &[(3, off), (4, on)]);
    let snapshot = allocator.snapshot(0, true);
    compare(&allocator, 0, &snapshot).unwrap();
    let replay = replay::run(&snapshot, DeviceId::FIRST, &snapshot.devices[&DeviceId::FIRST]).unwrap();
    assert_eq!(replay.figures.allocated.peak_error, Some(0));
}

/// The ordinary segment that shows the switch is gone at the end, and its event does not name its pool: it may as well
/// be that of a private pool. The block took it whole, as it does while segments are not to be expandable.
#[test]
fn an_ordinary_segment_of_an_unknown_pool_does_not_speak_for_expandable_ones() {
    let on = Settings { expandable: true, ..Settings::default() };
    let mut allocator = Allocator::new(on, None);
    // From 2.9 on it may also be a pool that never splits.
    allocator.leaves_unrounded = true;
    allocator.names_pools = false;
    let steps = [
        // Shows how sizes are rounded.
        Step::Malloc { size: MIB + 1, pool: SHARED },
        Step::Malloc { size: 15 * MIB, pool: SHARED },
        Step::Malloc { size: 27 * MIB / 2, pool: SHARED },
        Step::Free { which: 2, later: false },
        Step::Release,
        Step::Malloc { size: 1, pool: SHARED },
    ];
    run(&mut allocator, &steps, &[(2, Settings::default()), (5, on)]);
    compare(&allocator, 0, &allocator.snapshot(0, true)).unwrap();
}

/// Releases before 2.9 may leave sizes as they are where a list of divisions says 1. The block is older than the switch
/// to other settings, and nothing shows its size.
#[test]
fn a_block_of_a_size_that_was_not_rounded_is_counted_with_a_bound() {
    let steps = [
        Step::Malloc { size: 600, pool: SHARED },
        Step::Malloc { size: 3 * MIB, pool: SHARED },
        Step::Free { which: 0, later: false },
        Step::Malloc { size: 512, pool: SHARED },
    ];
    let mut allocator = Allocator::new(Settings { divisions: Some(1), ..Settings::default() }, None);
    allocator.leaves_unrounded = true;
    let after = Settings { max_split_mb: Some(64), ..Settings::default() };
    run(&mut allocator, &steps, &[(1, after)]);
    let first = allocator.events.len() - 3;
    compare(&allocator, first, &allocator.snapshot(first, true)).unwrap();
}

/// Releases before 2.3 do not state their settings. No single rounding explains the sizes, so settings were switched:
/// that a large block was split does not tell that an older one was.
#[test]
fn settings_that_are_not_stated_are_in_doubt_once_they_are_seen_to_switch() {
    let mut allocator = Allocator::new(Settings { max_split_mb: Some(64), ..Settings::default() }, None);
    let steps = [
        Step::Malloc { size: 142 * MIB, pool: SHARED },
        Step::Free { which: 0, later: false },
        // Takes all of it.
        Step::Malloc { size: 128 * MIB, pool: SHARED },
        Step::Malloc { size: 300_000, pool: SHARED },
    ];
    run(&mut allocator, &steps, &[(3, Settings { divisions: Some(4), ..Settings::default() })]);
    let first = allocator.events.len();
    let large = allocator.segments[0].addr;
    allocator.settings = Settings::default();
    let steps = [
        Step::Malloc { size: MIB + 1, pool: SHARED },
        Step::Malloc { size: 200 * MIB, pool: SHARED },
        Step::Free { which: 1, later: false },
        Step::Malloc { size: 150 * MIB, pool: SHARED },
    ];
    run(&mut allocator, &steps, &[]);
    allocator.request_free(large);
    allocator.complete_free(large);
    compare(&allocator, first, &allocator.snapshot(first, false)).unwrap();
}

/// Releases before 2.3 do not state their settings, and nothing shows how they round.
#[test]
fn a_size_that_may_not_be_rounded_is_counted_with_a_bound_where_no_settings_are_stated() {
    let mut allocator = Allocator::new(Settings { divisions: Some(1), ..Settings::default() }, None);
    allocator.leaves_unrounded = true;
    run(&mut allocator, &[Step::Malloc { size: 600, pool: SHARED }, Step::Free { which: 0, later: false }], &[]);
    compare(&allocator, 0, &allocator.snapshot(0, false)).unwrap();
    // A block that took a free one whole, which is smaller than its rounded request, tells nothing.
    let steps = [
        Step::Malloc { size: 900, pool: SHARED },
        Step::Malloc { size: 700, pool: SHARED },
        Step::Free { which: 0, later: false },
        Step::Malloc { size: 600, pool: SHARED },
        Step::Malloc { size: 513, pool: (1, 0) },
        Step::Malloc { size: 513, pool: (2, 0) },
        Step::Malloc { size: 513, pool: (3, 0) },
        Step::Free { which: 2, later: false },
        Step::Free { which: 2, later: false },
        Step::Free { which: 2, later: false },
    ];
    let mut allocator = Allocator::new(Settings { divisions: Some(1), ..Settings::default() }, None);
    allocator.leaves_unrounded = true;
    run(&mut allocator, &steps, &[]);
    compare(&allocator, 0, &allocator.snapshot(0, false)).unwrap();
    // A block that was split off, and is rounded, speaks for all.
    let mut allocator = Allocator::new(Settings::default(), None);
    let steps = [
        Step::Malloc { size: 600, pool: SHARED },
        Step::Malloc { size: 700, pool: SHARED },
        Step::Free { which: 0, later: false },
    ];
    run(&mut allocator, &steps, &[]);
    let snapshot = allocator.snapshot(0, false);
    let replay = replay::run(&snapshot, DeviceId::FIRST, &snapshot.devices[&DeviceId::FIRST]).unwrap();
    assert_eq!((replay.figures.allocated.peak, replay.figures.allocated.peak_error), (Some(2048), Some(0)));
}

/// The history begins between the request of a free and its completion, and the highest value lies at a block of
/// uncertain size. The truth at the start is lower by the whole block, so that start says nothing about the least that
/// the peak was.
#[test]
fn a_free_that_was_requested_before_the_history_widens_the_bound_of_the_peak() {
    let before = Settings { max_split_mb: Some(20), divisions: Some(4), expandable: true };
    let mut allocator = Allocator::new(before, None);
    let steps = [
        Step::Malloc { size: 1_048_577, pool: SHARED },
        Step::Malloc { size: 33_554_433, pool: SHARED },
        Step::Free { which: 1, later: false },
    ];
    run(&mut allocator, &steps, &[]);
    let first = allocator.events.len() - 1;
    let steps = [
        Step::Malloc { size: 1_048_577, pool: SHARED },
        Step::Malloc { size: 16_777_217, pool: SHARED },
        Step::Malloc { size: 8_388_609, pool: SHARED },
        Step::Free { which: 1, later: false },
    ];
    run(&mut allocator, &steps, &[(2, Settings { expandable: false, ..before })]);
    compare(&allocator, first, &allocator.snapshot(first, true)).unwrap();
}

proptest! {
    #![proptest_config(random::config(512))]

    #[test]
    fn settings_that_never_change_give_figures_within_their_bounds(
        steps in steps(),
        settings in settings(),
        cut in any::<prop::sample::Index>(),
        from_start in any::<bool>(),
        unsplit in any::<bool>(),
    ) {
        let mut allocator = Allocator::new(settings, unsplit.then_some((0, 1)));
        run(&mut allocator, &steps, &[]);
        let first = if from_start { 0 } else { cut.index(allocator.events.len() + 1) };
        compare(&allocator, first, &allocator.snapshot(first, true))?;
    }

    #[test]
    fn gpus_of_intel_follow_expandable_segments_alone(
        steps in steps(),
        given in settings(),
        cut in any::<prop::sample::Index>(),
        from_start in any::<bool>(),
    ) {
        let mut allocator = Allocator::of_xpu(given);
        run(&mut allocator, &steps, &[]);
        let first = if from_start { 0 } else { cut.index(allocator.events.len() + 1) };
        compare(&allocator, first, &allocator.snapshot(first, true))?;
    }

    #[test]
    fn settings_that_change_at_run_time_give_figures_within_their_bounds(
        steps in steps(),
        before in settings(),
        after in settings(),
        change in any::<prop::sample::Index>(),
        cut in any::<prop::sample::Index>(),
        from_start in any::<bool>(),
        names_pools in any::<bool>(),
    ) {
        // Without a text, no settings were ever given. Blocks that are older than the history and confirm that sizes
        // are not rounded up are taken to speak for all of those.
        let mut after = Settings { divisions: after.divisions.or(before.divisions), ..after };
        after.expandable |= after == Settings::default();
        let mut allocator = Allocator::new(before, None);
        allocator.names_pools = names_pools;
        allocator.leaves_unrounded = !names_pools;
        run(&mut allocator, &steps, &[(change.index(steps.len()), after)]);
        let first = if from_start { 0 } else { cut.index(allocator.events.len() + 1) };
        compare(&allocator, first, &allocator.snapshot(first, true))?;
    }

    #[test]
    fn settings_that_are_switched_many_times_give_figures_within_their_bounds(
        steps in steps(),
        first_settings in settings(),
        later_settings in prop::collection::vec((any::<prop::sample::Index>(), settings()), 2..6),
        cut in any::<prop::sample::Index>(),
        from_start in any::<bool>(),
    ) {
        let mut places: Vec<usize> = later_settings.iter().map(|(place, _)| place.index(steps.len())).collect();
        places.sort_unstable();
        let mut changes: Vec<_> = places.into_iter().zip(later_settings.iter().map(|&(_, settings)| settings)).collect();
        let last = &mut changes.last_mut().unwrap().1;
        last.expandable = true;
        let mut allocator = Allocator::new(first_settings, None);
        run(&mut allocator, &steps, &changes);
        // The last text leaves segments expandable, as another text made them.
        allocator.text = Settings { expandable: false, ..allocator.settings }.text() + ",garbage_collection_threshold:0.3";
        let first = if from_start { 0 } else { cut.index(allocator.events.len() + 1) };
        compare(&allocator, first, &allocator.snapshot(first, true))?;
    }

    #[test]
    fn settings_that_the_file_does_not_state_give_figures_within_their_bounds(
        steps in steps(),
        max_split_mb in prop::option::of(20..64_u64),
        divisions in prop::option::weighted(0.3, prop_oneof![Just(1), Just(2), Just(4), Just(8)]),
        expandable in any::<bool>(),
        cut in any::<prop::sample::Index>(),
        from_start in any::<bool>(),
    ) {
        let mut allocator = Allocator::new(Settings { max_split_mb, divisions, expandable }, None);
        allocator.leaves_unrounded = true;
        run(&mut allocator, &steps, &[]);
        let first = if from_start { 0 } else { cut.index(allocator.events.len() + 1) };
        compare(&allocator, first, &allocator.snapshot(first, false))?;
    }
}
