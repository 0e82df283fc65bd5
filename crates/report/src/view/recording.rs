//! The recordings of the snapshots of a group: their lengths, their frames, and the settings of PyTorch's allocator.

use std::collections::BTreeSet;

use super::device::seconds;
use super::{Column, Row, Table, Tone, Value, words};
use crate::profile::{DeviceProfile, Profile};
use crate::stack::Languages;

/// Settings that are listed; PyTorch has about twenty.
const MOST_SETTINGS: usize = 64;

/// A column for each snapshot.
pub(super) fn table(profiles: &[(&str, &Profile)]) -> Table {
    let columns: Vec<Column> = [""].into_iter().chain(profiles.iter().map(|(head, _)| *head)).map(words).collect();
    let mut rows = vec![
        row("file".into(), profiles, |profile| Value::code(&*profile.source.path)),
        row("size".into(), profiles, |profile| Value::Size(profile.source.bytes)),
        row("kind".into(), profiles, |profile| profile.source.kind.name().into()),
        row("events".into(), profiles, |profile| {
            Value::Count(profile.devices.iter().map(|device| device.events).sum())
        }),
        row("time".into(), profiles, time),
        row("frames".into(), profiles, frames),
    ];
    let keys: BTreeSet<&String> = profiles.iter().flat_map(|(_, profile)| profile.settings.all.keys()).collect();
    let keys = keys.into_iter().take(MOST_SETTINGS);
    rows.extend(keys.map(|key| row(Value::code(&**key), profiles, |profile| setting(profile, key))));
    Table::new(columns, rows)
}

/// A row with a value of each snapshot.
fn row(head: Value, profiles: &[(&str, &Profile)], value: impl Fn(&Profile) -> Value) -> Row {
    let cells = std::iter::once(head).chain(profiles.iter().map(|(_, profile)| value(profile)));
    Row::new(Tone::Plain, cells)
}

/// The time that the longest history of a device covers.
fn time(profile: &Profile) -> Value {
    let longest = profile.devices.iter().filter_map(|device| device.duration_us).max();
    longest.map_or(Value::Unknown, |us| seconds(us).into())
}

fn setting(profile: &Profile, key: &str) -> Value {
    profile.settings.all.get(key).map_or(Value::Nothing, |text| Value::code(&**text))
}

/// The languages of the frames that were recorded.
fn frames(profile: &Profile) -> Value {
    let of_devices = profile.devices.iter().filter(|device| DeviceProfile::is_active(device));
    let languages = of_devices.fold(Languages::default(), |mut all, device| {
        all |= device.recorded_frames;
        all
    });
    match (languages.python, languages.cpp) {
        (true, true) => "Python and C++",
        (true, false) => "Python",
        (false, true) => "C++",
        (false, false) => "none",
    }
    .into()
}
