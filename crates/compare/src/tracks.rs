//! Devices and stacks of several profiles, followed from one to the next, also through changes of the code.

use std::collections::HashMap;

use ptmem_base::device::DeviceId;
use ptmem_base::diagnostic::Diagnostic;
use ptmem_base::label::More;
use ptmem_base::sides::Sides;
use ptmem_trace::profile::{Bucket, DeviceProfile, Held, Profile};
use ptmem_trace::stack::ComparedFunctions;

use crate::diff;

/// A device over several profiles.
#[derive(Debug)]
pub struct DeviceTrack {
    /// Its ordinal in the latest profile that has it.
    pub device: DeviceId,
    /// Its index in each profile; `None` where that lacks it.
    pub indices: Vec<Option<usize>>,
}

impl DeviceTrack {
    /// The device in each profile.
    pub fn in_each<'p>(&self, profiles: &'p [Profile]) -> impl Iterator<Item = Option<&'p DeviceProfile>> {
        profiles.iter().zip(&self.indices).map(|(profile, index)| Some(&profile.devices[(*index)?]))
    }
}

/// A stack over several profiles.
#[derive(Debug, Clone, Default)]
pub struct StackTrack {
    /// Its key in the latest profile that has it.
    pub key: String,
    /// Its name there.
    pub label: String,
    /// Number of further lines that it sums there.
    pub more: More,
    /// Set where the stack is not known.
    pub bucket: Option<Bucket>,
    /// The number of profiles.
    pub profiles: usize,
    /// Held in each profile that has it, by its place among them, at the moment that it was computed for. Of long series, most
    /// stacks may be in few profiles.
    pub held: Vec<(usize, Held)>,
}

impl StackTrack {
    /// Held in a profile.
    pub fn at(&self, at: usize) -> Held {
        let place = self.held.binary_search_by_key(&at, |(at, _)| *at);
        place.map_or(Held::default(), |place| self.held[place].1)
    }

    /// Held in each profile.
    pub fn in_each(&self) -> impl Iterator<Item = Held> + Clone {
        (0..self.profiles).map(|at| self.at(at))
    }

    /// Bytes in a profile.
    pub fn bytes(&self, at: usize) -> u64 {
        self.at(at).bytes
    }

    /// Adds what is held in the latest profile so far.
    fn add(&mut self, at: usize, more: Held) {
        match self.held.last_mut().filter(|(last, _)| *last == at) {
            Some((_, held)) => *held += more,
            None => self.held.push((at, more)),
        }
    }

    /// Bytes that several stacks hold together in each of the first profiles.
    pub fn sums<'t>(tracks: impl IntoIterator<Item = &'t Self>, profiles: usize) -> Vec<u64> {
        let mut sums = vec![0_u64; profiles];
        for track in tracks {
            for (at, held) in track.held.iter().filter(|(at, _)| *at < profiles) {
                sums[*at] = sums[*at].saturating_add(held.bytes);
            }
        }
        sums
    }

    /// Its bytes in the latest profile, then the most in any.
    fn size(&self) -> impl Ord + use<> {
        (self.bytes(self.profiles.saturating_sub(1)), self.held.iter().map(|(_, held)| held.bytes).max())
    }
}

/// The devices that do something in any of the profiles. Where each has one, it is the same, whatever its number:
/// `CUDA_VISIBLE_DEVICES` renumbers them.
pub fn devices(profiles: &[Profile]) -> Vec<DeviceTrack> {
    let active: Vec<Vec<usize>> = profiles.iter().map(active).collect();
    if active.iter().all(|active| active.len() <= 1) {
        let indices: Vec<Option<usize>> = active.iter().map(|active| active.first().copied()).collect();
        let track = DeviceTrack { device: DeviceId::FIRST, indices };
        let latest = track.in_each(profiles).flatten().last().map(|latest| latest.device);
        return latest.map(|device| DeviceTrack { device, ..track }).into_iter().collect();
    }
    let mut numbers: Vec<DeviceId> = Vec::new();
    for (profile, active) in profiles.iter().zip(&active) {
        numbers.extend(active.iter().map(|&index| profile.devices[index].device));
    }
    numbers.sort_unstable();
    numbers.dedup();
    let tracks = numbers.into_iter().map(|device| DeviceTrack {
        device,
        indices: profiles.iter().map(|profile| position(profile, device)).collect(),
    });
    tracks.collect()
}

fn active(profile: &Profile) -> Vec<usize> {
    (0..profile.devices.len()).filter(|&index| profile.devices[index].is_active_device()).collect()
}

fn position(profile: &Profile, number: DeviceId) -> Option<usize> {
    profile.devices.iter().position(|device| device.device == number && device.is_active())
}

/// The diagnostics of all profiles; one that several have is given once, as the latest has it.
pub fn diagnostics(profiles: &[Profile]) -> Vec<Diagnostic> {
    let mut all: Vec<Diagnostic> = Vec::new();
    for diagnostic in profiles.iter().flat_map(|profile| &profile.diagnostics) {
        match all.iter_mut().find(|known| known.code == diagnostic.code && known.device == diagnostic.device) {
            Some(earlier) => *earlier = diagnostic.clone(),
            None => all.push(diagnostic.clone()),
        }
    }
    all
}

/// The stacks of a device, those that hold most in the latest profile first.
pub fn stacks(profiles: &[Profile], device: &DeviceTrack) -> Vec<StackTrack> {
    let mut tracks: Vec<StackTrack> = Vec::new();
    let mut by_key: HashMap<&str, usize> = HashMap::new();
    let mut earlier: Option<(&Profile, &DeviceProfile)> = None;
    // The track of every stack of the profile before.
    let mut latest: Vec<usize> = Vec::new();
    for (at, (profile, now)) in profiles.iter().zip(device.in_each(profiles)).enumerate() {
        let Some(now) = now else { continue };
        let mut known: Vec<Option<usize>> = vec![None; now.stacks.len()];
        if let Some((profile_before, before)) = earlier {
            let stacks = Sides { before: &*before.stacks, after: &*now.stacks };
            let groupers = Sides { before: &profile_before.grouper(), after: &profile.grouper() };
            let functions = ComparedFunctions::new(groupers.map(|grouper| grouper.code()));
            for (before, after) in diff::paired(stacks, groupers, &functions, diff::DiffOptions::default()).pairs {
                known[after] = Some(latest[before]);
            }
        }
        latest.clear();
        for (total, known) in now.stacks.iter().zip(known) {
            // One without a partner may have been away for a while.
            let number = known.or_else(|| by_key.get(&*total.key.0).copied()).unwrap_or(tracks.len());
            if number == tracks.len() {
                let profiles = profiles.len();
                tracks.push(StackTrack { bucket: total.bucket, profiles, ..StackTrack::default() });
            }
            by_key.insert(&total.key.0, number);
            let track = &mut tracks[number];
            track.key.clone_from(&total.key.0);
            track.label.clone_from(&total.label);
            track.more = total.lines(profile.options.group_by, &profile.code()).more;
            // Two stacks that were distinct before may have the same name.
            track.add(at, total.at);
            latest.push(number);
        }
        earlier = Some((profile, now));
    }
    tracks.sort_by(|a, b| b.size().cmp(&a.size()).then_with(|| a.label.cmp(&b.label)));
    tracks
}
