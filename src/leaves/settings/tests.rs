//! What a study says of the settings that were tried.

use ptmem::device::DeviceId;
use ptmem::replay::Position;
use ptmem::report::{Format, RenderOptions};

use super::allocator::{Pin, Pinned, PinnedSegment, SelfCheck, SettingsOutcome, SettingsStudy, Trial, advice};

const MIB: u64 = 1 << 20;

const NAME: &str = "=1|<b>`%0A\u{202e}";

fn outcome(settings: &str, peak: u64) -> SettingsOutcome {
    SettingsOutcome {
        settings: settings.to_owned(),
        earlier_memory_as_recorded: settings.is_empty(),
        reserved_peak: peak,
        free_at_peak: MIB,
        segments_obtained: 3,
        segments_returned: 1,
        failed_requests_avoided: usize::from(peak < 90 * MIB),
        new_failed_requests: usize::from(peak < 70 * MIB),
    }
}

/// Settings that reserve less, of which the best two let another request fail.
fn study() -> SettingsStudy {
    let trial = Trial {
        pytorch: NAME.to_owned(),
        device_memory: Some(128 * MIB),
        failed_requests: 1,
        private_pools: 0,
        streams: 2,
        in_use_before: MIB,
        free_before: MIB,
        self_check: SelfCheck::new(100 * MIB, 100 * MIB, MIB),
        compared_with: 0,
        settings: vec![outcome("", 100 * MIB), outcome(NAME, 80 * MIB), outcome("c:1", 60 * MIB)],
        left_out: vec![NAME.to_owned()],
        advice: String::new(),
    };
    let largest =
        PinnedSegment { address: 0, bytes: 20 * MIB, free: 19 * MIB, blocks: 1, stack_of_largest: NAME.to_owned() };
    let pin = Pin { stack: NAME.to_owned(), blocks: 1, bytes: MIB, segments: 1, free: 19 * MIB };
    SettingsStudy {
        snapshot: NAME.to_owned(),
        bytes: 5,
        device: DeviceId::FIRST,
        recorded_settings: String::new(),
        settings_stated: true,
        settings_changed: false,
        has_history: true,
        pinned: Pinned {
            reserved_peak_event: Position::of_count(4),
            reserved_peak: 100 * MIB,
            active_then: 60 * MIB,
            without_free_memory: 60 * MIB,
            unused_segments: 0,
            mostly_free_segments: vec![largest; 12],
            pinning_stacks: vec![pin; 12],
        },
        trial: Some(trial),
    }
}

fn render(study: &SettingsStudy) -> String {
    let mut advised = study.clone();
    advised.trial.iter_mut().for_each(|trial| trial.advice = advice(study, trial));
    Format::Table.render(&advised, &RenderOptions::default()).unwrap()
}

#[test]
fn the_best_settings_let_no_other_request_fail() {
    let table = render(&study());
    for expected in [
        "the same requests reserve 20.00 MiB (20.0 %) less with =1|<b>`",
        "the recorded out-of-memory error is avoided by =1|<b>`",
        "100.00 MiB at the peak, event 3",
        "228.00 MiB in 12 segments that are more than half free",
        "c:1; 1 other request did not fit",
        "differ from the recording by at most 1.00 MiB (1.0 % of the peak)",
        "2 streams\n",
        "38.00 MiB  40.00 MiB       2  [2 others]",
    ] {
        assert!(table.contains(expected), "{expected}: {table}");
    }
}

#[test]
fn settings_under_which_other_requests_fail_count_as_tried() {
    let mut study = study();
    let trial = study.trial.as_mut().unwrap();
    trial.settings.retain(|outcome| outcome.settings != NAME);
    let table = render(&study);
    assert!(
        table.contains("with each of the tried settings, requests fail that succeeded in the recording"),
        "{table}"
    );
    // One of them avoids one error, and causes another.
    study.trial.as_mut().unwrap().failed_requests = 2;
    let table = render(&study);
    assert!(
        table.contains("; none of them avoids all 2 recorded out-of-memory errors without causing others"),
        "{table}"
    );
    study.trial.as_mut().unwrap().settings.truncate(1);
    let table = render(&study);
    assert!(table.contains("no other settings were tried") && !table.contains("avoid"), "{table}");
}

#[test]
fn the_defaults_have_a_name_where_they_avoid_an_error() {
    let mut study = study();
    study.recorded_settings = NAME.to_owned();
    study.trial.as_mut().unwrap().settings = vec![outcome(NAME, 100 * MIB), outcome("", 80 * MIB)];
    let table = render(&study);
    assert!(table.contains("the recorded out-of-memory error is avoided by the defaults"), "{table}");
}

#[test]
fn advice_needs_a_repetition_that_follows_the_recording() {
    let mut study = study();
    let trial = study.trial.as_mut().unwrap();
    trial.self_check = SelfCheck::new(100 * MIB, 100 * MIB, MIB + 1);
    assert!(!trial.self_check.trusted);
    let table = render(&study);
    for cause in [
        "requests failed, perhaps",
        "before the recording are unknown",
        "or a memory limit that the program set",
        "the program may have changed the allocator settings: the snapshot states only those at the dump",
        "recorded with the defaults\n",
    ] {
        assert!(table.contains(cause), "{cause}: {table}");
    }
    assert!(!table.contains("the allocator settings changed"), "{table}");
    study.settings_changed = true;
    let table = render(&study);
    for cause in ["the allocator settings changed", "recorded with the defaults at the dump, and with others before it"]
    {
        assert!(table.contains(cause), "{cause}: {table}");
    }
    assert!(!table.contains("may have changed"), "{table}");
    study.settings_stated = false;
    assert!(render(&study).contains("Give them in ptmem.toml: allocator-settings"));
    study.trial.as_mut().unwrap().device_memory = Some(99 * MIB);
    let table = render(&study);
    let reason = "no advice: the recording reserved 100.00 MiB, more than the 99.00 MiB of the device; give its memory";
    assert!(table.contains(reason) && !table.contains("Possible causes"), "{table}");
}
