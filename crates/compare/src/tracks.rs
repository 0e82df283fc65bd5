//! Devices and stacks of several profiles, followed from one to the next, also through changes of the code.

use std::collections::{HashMap, HashSet};

use crate::diff;
use crate::profile::{Bucket, DeviceProfile, Held, Profile, StackTotal};
use crate::sides::Sides;
use crate::stack::Grouper;

/// A device over several profiles.
#[derive(Debug)]
pub struct DeviceTrack {
    /// Its ordinal in the latest profile that has it.
    pub device: u32,
    /// Its index in each profile; `None` where that lacks it.
    pub indices: Vec<Option<usize>>,
}

/// A stack over several profiles.
#[derive(Debug, Clone)]
pub struct StackTrack {
    /// Its name in the latest profile that has it.
    pub label: String,
    /// Set where the stack is not known.
    pub bucket: Option<Bucket>,
    /// Held in each profile, at the moment that it was computed for.
    pub held: Vec<Held>,
}

impl StackTrack {
    /// Bytes in a profile.
    #[must_use]
    pub fn bytes(&self, at: usize) -> u64 {
        self.held.get(at).map_or(0, |held| held.bytes)
    }

    /// Bytes that several stacks hold together in each of the first profiles.
    pub fn sums<'t>(tracks: impl IntoIterator<Item = &'t Self>, profiles: usize) -> Vec<u64> {
        let mut sums = vec![0_u64; profiles];
        for track in tracks {
            sums.iter_mut().enumerate().for_each(|(at, sum)| *sum = sum.saturating_add(track.bytes(at)));
        }
        sums
    }

    /// Its bytes in the latest profile, then the most in any.
    fn size(&self) -> impl Ord + use<> {
        let bytes = self.held.iter().map(|held| held.bytes);
        (bytes.clone().next_back(), bytes.max())
    }
}

/// The devices that do something in any of the profiles. Where each has one, it is the same, whatever its number:
/// `CUDA_VISIBLE_DEVICES` renumbers them.
#[must_use]
pub fn devices(profiles: &[Profile]) -> Vec<DeviceTrack> {
    let active: Vec<Vec<usize>> = profiles.iter().map(active).collect();
    if active.iter().all(|active| active.len() <= 1) {
        let indices: Vec<Option<usize>> = active.iter().map(|active| active.first().copied()).collect();
        let latest = profiles.iter().zip(&indices).rev().find_map(|(profile, index)| Some(&profile.devices[(*index)?]));
        return latest.map(|latest| DeviceTrack { device: latest.device, indices }).into_iter().collect();
    }
    let mut numbers: Vec<u32> = Vec::new();
    for (profile, active) in profiles.iter().zip(&active) {
        numbers.extend(active.iter().map(|&index| profile.devices[index].device));
    }
    numbers.sort_unstable();
    numbers.dedup();
    numbers.into_iter().map(|number| DeviceTrack::of(profiles, number)).collect()
}

impl DeviceTrack {
    /// The device of one number.
    fn of(profiles: &[Profile], number: u32) -> Self {
        Self { device: number, indices: profiles.iter().map(|profile| position(profile, number)).collect() }
    }
}

fn active(profile: &Profile) -> Vec<usize> {
    (0..profile.devices.len()).filter(|&index| profile.devices[index].is_active()).collect()
}

fn position(profile: &Profile, number: u32) -> Option<usize> {
    profile.devices.iter().position(|device| device.device == number && device.is_active())
}

/// The stacks of a device, those that hold most in the latest profile first.
#[must_use]
pub fn stacks(profiles: &[Profile], device: &DeviceTrack) -> Vec<StackTrack> {
    let mut followed = Followed::default();
    let mut earlier: Option<(&DeviceProfile, Grouper<'_>)> = None;
    for (at, (profile, index)) in profiles.iter().zip(&device.indices).enumerate() {
        let Some(index) = *index else { continue };
        let now = &profile.devices[index];
        let grouper = profile.grouper();
        followed.add(at, now, &grouper, earlier.as_ref().map(|(device, grouper)| (*device, grouper)));
        earlier = Some((now, grouper));
    }
    let mut tracks = followed.tracks;
    for track in &mut tracks {
        track.held.resize(profiles.len(), Held::default());
    }
    tracks.sort_by(|a, b| b.size().cmp(&a.size()).then_with(|| a.label.cmp(&b.label)));
    tracks
}

/// The stacks up to some profile.
#[derive(Debug, Default)]
pub(crate) struct Followed {
    /// Held up to the latest profile that has the stack.
    pub(crate) tracks: Vec<StackTrack>,
    by_key: HashMap<String, usize>,
    /// The track of every stack of the latest profile.
    pub(crate) latest: Vec<usize>,
}

impl Followed {
    /// Adds the stacks of the profile at a place of the series. `earlier` is the latest one before it.
    pub(crate) fn add(
        &mut self,
        at: usize,
        device: &DeviceProfile,
        grouper: &Grouper<'_>,
        earlier: Option<(&DeviceProfile, &Grouper<'_>)>,
    ) {
        let mut tracks: Vec<Option<usize>> = vec![None; device.stacks.len()];
        if let Some((before, grouper_before)) = earlier {
            let stacks = Sides { before: &*before.stacks, after: &*device.stacks };
            let groupers = Sides { before: grouper_before, after: grouper };
            for (before, after) in diff::pairs(stacks, groupers, diff::Options::default()) {
                tracks[after] = Some(self.latest[before]);
            }
        }
        self.latest.clear();
        for (total, track) in device.stacks.iter().zip(tracks) {
            let track = self.track(total, track);
            let held = &mut self.tracks[track].held;
            held.resize(at + 1, Held::default());
            // Two stacks that were told apart before may be one by name.
            held[at] = held[at].plus(total.at);
            self.latest.push(track);
        }
    }

    /// The tracks that have one of these keys.
    pub(crate) fn with_keys<'k>(&self, keys: impl Iterator<Item = &'k str>) -> HashSet<usize> {
        keys.filter_map(|key| self.by_key.get(key).copied()).collect()
    }

    /// The track of a stack: the one that it was paired with, or one of its name that was away for a while, or a new
    /// one.
    fn track(&mut self, total: &StackTotal, paired: Option<usize>) -> usize {
        let known = paired.or_else(|| self.by_key.get(&total.key.0).copied());
        let track = known.unwrap_or_else(|| {
            self.tracks.push(StackTrack { label: String::new(), bucket: total.bucket, held: Vec::new() });
            self.tracks.len() - 1
        });
        self.by_key.insert(total.key.0.clone(), track);
        self.tracks[track].label.clone_from(&total.label);
        track
    }
}
