//! Leaks over a series of snapshots: what holds more from one to the next.

use std::collections::{HashMap, HashSet};

use super::{DeviceLeaks, Leak, Mode, Options, Point, Search, growth, slope};
use crate::diagnostic::Diagnostic;
use crate::diff::{self, Sides};
use crate::profile::{Bucket, DeviceProfile, Held, Profile, Source};
use crate::stack::Grouper;

/// A series of snapshots, of which only the latest is kept.
#[derive(Debug)]
pub struct Series {
    options: Options,
    sources: Vec<Source>,
    devices: Vec<Device>,
    latest: Option<Profile>,
    diagnostics: Vec<Diagnostic>,
}

/// One device over the series.
#[derive(Debug, Default)]
struct Device {
    /// Its ordinal in the latest snapshot that has it.
    device: u32,
    /// Its index in the latest snapshot, if that has it.
    index: Option<usize>,
    points: Vec<Point>,
    /// Peak of allocated bytes in the latest snapshot.
    peak: Option<u64>,
    stacks: Vec<Track>,
    by_key: HashMap<String, usize>,
    /// The track of every stack of the latest snapshot.
    latest: Vec<usize>,
    /// A snapshot of the series lacks it.
    missing: Option<String>,
}

/// What one stack held at the end of every snapshot.
#[derive(Debug)]
struct Track {
    held: Vec<Held>,
}

impl Series {
    /// A series without any snapshot.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self { options, sources: Vec::new(), devices: Vec::new(), latest: None, diagnostics: Vec::new() }
    }

    /// The next snapshot. Its stacks must have been computed for [`crate::profile::Moment::End`].
    pub fn add(&mut self, profile: Profile) {
        let number = self.sources.len();
        let active: Vec<usize> =
            (0..profile.devices.len()).filter(|&index| profile.devices[index].is_active()).collect();
        let grouper = profile.grouper();
        let mut indices: Vec<Option<usize>> = vec![None; self.devices.len()];
        for &index in &active {
            let found = self.find(&profile.devices[index], active.len() == 1);
            match found {
                Some(device) => indices[device] = Some(index),
                None => {
                    let mut device = Device { device: profile.devices[index].device, ..Device::default() };
                    if number > 0 {
                        device.missing = Some(self.sources[0].path.clone());
                    }
                    self.devices.push(device);
                    indices.push(Some(index));
                }
            }
        }
        let before = self.latest.take();
        let grouper_before = before.as_ref().map(Profile::grouper);
        for (device, index) in self.devices.iter_mut().zip(indices) {
            let Some(index) = index else {
                device.missing.get_or_insert_with(|| profile.source.path.clone());
                device.index = None;
                continue;
            };
            let earlier = before.as_ref().zip(grouper_before.as_ref()).zip(device.index);
            let earlier = earlier.map(|((profile, grouper), index)| (&profile.devices[index], grouper));
            device.add(number, &profile.source.path, &profile.devices[index], &grouper, earlier);
            device.index = Some(index);
        }
        drop((grouper, grouper_before));
        // What several snapshots say of themselves is said once, as of the latest.
        for diagnostic in &profile.diagnostics {
            let same = |other: &&mut Diagnostic| other.code == diagnostic.code && other.device == diagnostic.device;
            match self.diagnostics.iter_mut().find(same) {
                Some(earlier) => *earlier = diagnostic.clone(),
                None => self.diagnostics.push(diagnostic.clone()),
            }
        }
        self.sources.push(profile.source.clone());
        self.latest = Some(profile);
    }

    /// The device of the same number, or the only one: `CUDA_VISIBLE_DEVICES` renumbers them.
    fn find(&self, device: &DeviceProfile, only: bool) -> Option<usize> {
        if only && self.devices.len() == 1 {
            return Some(0);
        }
        self.devices.iter().position(|known| known.device == device.device)
    }

    /// What grew.
    #[must_use]
    pub fn finish(self) -> Search {
        let Self { options, sources, devices, latest, mut diagnostics } = self;
        let skip = options.skip.unwrap_or(0);
        let mut found = Vec::with_capacity(devices.len());
        for device in &devices {
            let (leaks, remarks) = device.leaks(latest.as_ref(), &options, skip, sources.len());
            diagnostics.extend(remarks);
            found.push(leaks);
        }
        let has_leaks = found.iter().any(|device| !device.leaks.is_empty());
        let rules = latest.as_ref().map(|profile| profile.options.rules.clone()).unwrap_or_default();
        Search {
            name: None,
            rank: None,
            sources,
            mode: Mode::Series,
            devices: found,
            diagnostics,
            group_by: options.group_by,
            tables: latest.filter(|_| has_leaks).map(|profile| profile.tables).unwrap_or_default(),
            rules,
        }
    }
}

impl Device {
    fn add(
        &mut self,
        number: usize,
        name: &str,
        device: &DeviceProfile,
        grouper: &Grouper<'_>,
        earlier: Option<(&DeviceProfile, &Grouper<'_>)>,
    ) {
        let reserved = device.figures.reserved.end;
        self.points.push(Point {
            name: name.to_owned(),
            allocated: Some(device.figures.allocated.end),
            reserved: Some(reserved),
            fragmentation: Some(reserved.saturating_sub(device.figures.active.end)),
        });
        self.peak = device.figures.allocated.peak;
        self.device = device.device;
        let mut tracks: Vec<Option<usize>> = vec![None; device.stacks.len()];
        if let Some((before, grouper_before)) = earlier {
            let stacks = Sides { before: &*before.stacks, after: &*device.stacks };
            for (before, after) in
                diff::pairs(stacks, Sides { before: grouper_before, after: grouper }, diff::Options::default())
            {
                tracks[after] = Some(self.latest[before]);
            }
        }
        self.latest.clear();
        for (total, track) in device.stacks.iter().zip(tracks) {
            // What was away for a while comes back under its name.
            let track = track.or_else(|| self.by_key.get(&total.key.0).copied()).unwrap_or_else(|| {
                self.stacks.push(Track { held: Vec::new() });
                self.stacks.len() - 1
            });
            self.by_key.insert(total.key.0.clone(), track);
            let held = &mut self.stacks[track].held;
            held.resize(number, Held::default());
            // Two stacks that were told apart before may be one by name.
            match held.get_mut(number) {
                Some(held) => *held = held.plus(total.at),
                None => held.push(total.at),
            }
            self.latest.push(track);
        }
    }

    /// What grows although no single stack does: a little in each of many, or in new ones every time.
    fn unnamed(&self, leaks: &[Leak], options: &Options, skip: usize, judged: usize) -> Option<Leak> {
        let named: HashSet<&str> = leaks.iter().map(|leak| leak.key.as_str()).collect();
        let tracks: HashSet<usize> =
            self.by_key.iter().filter(|(key, _)| named.contains(key.as_str())).map(|(_, track)| *track).collect();
        let rest = |at: usize| {
            let others = self.stacks.iter().enumerate().filter(|(track, _)| !tracks.contains(track));
            let held = others.filter_map(|(_, track)| track.held.get(at).copied());
            held.fold(Held::default(), Held::plus)
        };
        let held: Vec<Held> = (skip..self.points.len()).map(rest).collect();
        let (first, last) = (*held.first()?, *held.last()?);
        let grew = held.windows(2).filter(|pair| pair[1].bytes > pair[0].bytes).count();
        let bytes = i128::from(last.bytes) - i128::from(first.bytes);
        let least = i128::from(options.min_growth.unwrap_or(super::WORTH_TELLING)).max(1);
        // Stacks that leak less than what is worth telling are no news where others leak more.
        if bytes < least || !options.is_steady(grew, judged) {
            return None;
        }
        let values: Vec<u64> = held.iter().map(|held| held.bytes).collect();
        Some(Leak {
            label: "<many stacks, a little each>".to_owned(),
            key: Bucket::Others.label().to_owned(),
            bucket: Some(Bucket::Others),
            stack: None,
            also: Vec::new(),
            bytes,
            blocks: i128::from(last.blocks) - i128::from(first.blocks),
            bytes_per_step: slope(&values)?,
            grew,
            judged,
            end: last,
        })
    }

    fn leaks(
        &self,
        latest: Option<&Profile>,
        options: &Options,
        skip: usize,
        count: usize,
    ) -> (DeviceLeaks, Option<Diagnostic>) {
        let judged = count.saturating_sub(skip + 1);
        let mut found = DeviceLeaks {
            device: self.device,
            how: None,
            points: self.points.clone(),
            skip,
            judged,
            leaks: Vec::new(),
            growth: super::Growth::default(),
            unclear: None,
        };
        if let Some(path) = &self.missing {
            found.unclear = Some(format!("not every snapshot has the device: {path} lacks it"));
            return (found, None);
        }
        if judged == 0 {
            let enough = crate::text::count(count as u64, "snapshot is", "snapshots are");
            found.unclear = Some(format!("{enough} too few where {skip} are warm-up; two more than those are needed"));
            return (found, None);
        }
        let (growth, remark) = growth(self.device, &self.points, skip, self.peak, Mode::Series, options);
        found.growth = growth;
        let grouper = latest.map(Profile::grouper);
        let by_stack = !options.group_by.is_tag();
        let device = latest.zip(self.index).map(|(profile, index)| &profile.devices[index]);
        let mut cut = false;
        for (total, &track) in device.iter().flat_map(|device| &device.stacks).zip(&self.latest) {
            let held = self.stacks[track].held.get(skip..).unwrap_or_default();
            let (Some(first), Some(last)) = (held.first(), held.last()) else { continue };
            let grew = held.windows(2).filter(|pair| pair[1].bytes > pair[0].bytes).count();
            let bytes = i128::from(last.bytes) - i128::from(first.bytes);
            let least = i128::from(options.min_growth.unwrap_or(super::WORTH_TELLING)).max(1);
            if bytes < least || !options.is_steady(grew, judged) {
                continue;
            }
            if total.bucket == Some(Bucket::Others) {
                cut = true;
                continue;
            }
            let labels = total.members.iter().map(|member| grouper.as_ref().map(|grouper| grouper.label(member.stack)));
            let labels = labels.flatten().filter(|_| by_stack);
            let also = Leak::names(std::iter::once(total.label.clone()).chain(labels));
            let values: Vec<u64> = held.iter().map(|held| held.bytes).collect();
            found.leaks.push(Leak {
                label: total.label.clone(),
                key: total.key.0.clone(),
                bucket: total.bucket,
                stack: total.stack(),
                also: also.map(|(_, also)| also).unwrap_or_default(),
                bytes,
                blocks: i128::from(last.blocks) - i128::from(first.blocks),
                bytes_per_step: slope(&values).unwrap_or_default(),
                grew,
                judged,
                end: *last,
            });
        }
        if let Some(leak) = self.unnamed(&found.leaks, options, skip, judged).filter(|_| !cut) {
            found.leaks.push(leak);
        }
        if cut {
            found.unclear = Some(
                "the profiles do not list all stacks, and those that they do not list grow together; save them without \
                 --top and --min-bytes"
                    .to_owned(),
            );
        }
        super::sort(&mut found.leaks);
        (found, remark)
    }
}
