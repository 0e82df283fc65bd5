//! How the snapshots of a group were recorded: their lengths, their frames, and the settings of PyTorch's allocator.

use std::collections::BTreeSet;

use super::{Column, Row, Table, Tone, Value};
use crate::profile::{DeviceProfile, Profile};
use crate::stack::Languages;

/// Settings that are listed; PyTorch has about twenty.
const MOST_SETTINGS: usize = 64;

/// A column for each snapshot.
pub(super) fn table(profiles: &[(&str, &Profile)]) -> Table {
    let mut columns = vec![Column::words("")];
    columns.extend(profiles.iter().map(|(head, _)| Column::words(*head)));
    let row = |name: &str, value: fn(&Profile) -> Value| {
        let cells = std::iter::once(name.into()).chain(profiles.iter().map(|(_, profile)| value(profile)));
        Row::new(Tone::Plain, cells)
    };
    let mut rows = vec![
        row("file", |profile| Value::code(&*profile.source.path)),
        row("size", |profile| Value::Size(profile.source.bytes)),
        row("kind", |profile| profile.source.kind.name().into()),
        row("events", |profile| Value::Count(profile.devices.iter().map(|device| device.events).sum())),
        row("time", |profile| {
            profile.devices.iter().filter_map(|device| device.duration_us).max().map_or(Value::Unknown, time)
        }),
        row("frames", frames),
    ];
    let keys: BTreeSet<&String> = profiles.iter().flat_map(|(_, profile)| profile.settings.all.keys()).collect();
    rows.extend(keys.into_iter().take(MOST_SETTINGS).map(|key| {
        let setting =
            |profile: &Profile| profile.settings.all.get(key).map_or(Value::Nothing, |text| Value::code(&**text));
        let cells = std::iter::once(Value::code(&**key)).chain(profiles.iter().map(|(_, profile)| setting(profile)));
        Row::new(Tone::Plain, cells)
    }));
    Table { columns, rows, ..Table::default() }
}

fn time(us: u64) -> Value {
    format!("{}.{:03} s", us / 1_000_000, us % 1_000_000 / 1000).into()
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
