//! Leaks over a series of snapshots: what holds more from one to the next.

use std::collections::{HashMap, HashSet};

use super::trend::{Growing, Threshold, Trend};
use super::{
    DeviceLeaks, FRAGMENTATION, Failure, Growth, Leak, LeakMetric, Mode, Options, Point, Search, WORTH_TELLING,
};
use crate::diagnostic::{Code, Diagnostic};
use crate::diff::{self, Sides};
use crate::profile::{Bucket, DeviceProfile, Held, Profile, Source, StackTotal};
use crate::stack::Grouper;
use crate::text::count;
use crate::units::{Delta, Size};

/// A series of snapshots, of which only the latest is kept.
#[derive(Debug)]
pub struct Series {
    options: Options,
    sources: Vec<Source>,
    /// Files that could not be read, with the reason.
    skipped: Vec<(String, String)>,
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
    /// One for each snapshot that has the device.
    points: Vec<Point>,
    /// Peak of allocated bytes in the latest snapshot.
    peak: Option<u64>,
    /// True if memory ran out in the first snapshot that has the device.
    ran_out_at_first: bool,
    stacks: Vec<Track>,
    by_key: HashMap<String, usize>,
    /// The track of every stack of the latest snapshot.
    latest: Vec<usize>,
    /// Snapshots of the series that lack it.
    missing: Vec<String>,
}

/// Bytes and blocks that one stack held at the end of every snapshot that has the device.
#[derive(Debug)]
struct Track {
    held: Vec<Held>,
}

/// The device of the latest snapshot, as far as leaks refer to it.
struct Latest<'p> {
    device: &'p DeviceProfile,
    grouper: Grouper<'p>,
}

impl Series {
    /// A series without any snapshot.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self {
            options,
            sources: Vec::new(),
            skipped: Vec::new(),
            devices: Vec::new(),
            latest: None,
            diagnostics: Vec::new(),
        }
    }

    /// Leaves out a file of the series that cannot be read, for a reason.
    pub fn skip(&mut self, path: impl Into<String>, reason: impl Into<String>) {
        self.skipped.push((path.into(), reason.into()));
    }

    /// Adds the next snapshot. Its stacks must have been computed for [`crate::profile::Moment::End`].
    pub fn add(&mut self, profile: Profile) {
        let indices = self.match_devices(&profile);
        let grouper = profile.grouper();
        let before = self.latest.take();
        let grouper_before = before.as_ref().map(Profile::grouper);
        for (device, index) in self.devices.iter_mut().zip(indices) {
            let Some(index) = index else {
                device.missing.push(profile.source.path.clone());
                device.index = None;
                continue;
            };
            let earlier = before.as_ref().zip(grouper_before.as_ref()).zip(device.index);
            let earlier = earlier.map(|((profile, grouper), index)| (&profile.devices[index], grouper));
            device.add(&profile.source.path, &profile.devices[index], &grouper, earlier);
            device.index = Some(index);
        }
        drop((grouper, grouper_before));
        // A diagnostic of several snapshots is given once, as of the latest.
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

    /// For every device of the series its index in a snapshot; new devices join the series.
    fn match_devices(&mut self, profile: &Profile) -> Vec<Option<usize>> {
        let active: Vec<usize> =
            (0..profile.devices.len()).filter(|&index| profile.devices[index].is_active()).collect();
        let mut indices: Vec<Option<usize>> = vec![None; self.devices.len()];
        for &index in &active {
            match self.find(&profile.devices[index], active.len() == 1) {
                Some(device) => indices[device] = Some(index),
                None => {
                    self.devices.push(Device {
                        device: profile.devices[index].device,
                        missing: self.sources.iter().map(|source| source.path.clone()).collect(),
                        ..Device::default()
                    });
                    indices.push(Some(index));
                }
            }
        }
        indices
    }

    /// The device of the same number, or the only one: `CUDA_VISIBLE_DEVICES` renumbers them.
    fn find(&self, device: &DeviceProfile, only: bool) -> Option<usize> {
        if only && self.devices.len() == 1 {
            return Some(0);
        }
        self.devices.iter().position(|known| known.device == device.device)
    }

    /// Looks for what grew.
    #[must_use]
    pub fn finish(self) -> Search {
        let Self { options, sources, skipped, devices, latest, mut diagnostics } = self;
        diagnostics.extend(skipped_files(&skipped, sources.len()));
        let is_first = sources.len() == 1 && options.skip.unwrap_or(0) == 0;
        if is_first && skipped.is_empty() {
            diagnostics.push(first_of_series(&sources[0].path));
        }
        let mut found = Vec::with_capacity(devices.len());
        for device in &devices {
            found.push(device.leaks(latest.as_ref(), &options, skipped.len(), &mut diagnostics));
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

/// Names the files that were left out.
fn skipped_files(skipped: &[(String, String)], read: usize) -> Option<Diagnostic> {
    const MOST: usize = 3;
    let mut reasons: Vec<String> =
        skipped.iter().take(MOST).map(|(path, reason)| format!("{path} ({reason})")).collect();
    if skipped.len() > MOST {
        reasons.push(format!("{} more", skipped.len() - MOST));
    }
    let message = format!(
        "{} of {} left out because they cannot be read: {}",
        skipped.len(),
        count((skipped.len() + read) as u64, "file", "files"),
        reasons.join("; ")
    );
    (!skipped.is_empty()).then(|| Diagnostic::new(Code::FilesSkipped, None, message))
}

fn first_of_series(path: &str) -> Diagnostic {
    let message =
        format!("{path} is the first of the series: nothing can have grown yet, and the next one is compared with it");
    Diagnostic::new(Code::FirstOfSeries, None, message)
}

impl Options {
    fn threshold(&self) -> Threshold {
        Threshold { bytes: self.min_growth.unwrap_or(WORTH_TELLING), share: self.min_share }
    }
}

impl Device {
    fn add(
        &mut self,
        name: &str,
        device: &DeviceProfile,
        grouper: &Grouper<'_>,
        earlier: Option<(&DeviceProfile, &Grouper<'_>)>,
    ) {
        let number = self.points.len();
        let reserved = device.figures.reserved.end;
        self.points.push(Point {
            name: name.to_owned(),
            allocated: Some(device.figures.allocated.end),
            reserved: Some(reserved),
            fragmentation: Some(reserved.saturating_sub(device.figures.active.end)),
            active_peak: None,
        });
        self.peak = device.figures.allocated.peak;
        self.ran_out_at_first |= number == 0 && device.ran_out_of_memory();
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
            // A stack that was away for a while comes back under its name.
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

    fn leaks(
        &self,
        latest: Option<&Profile>,
        options: &Options,
        skipped: usize,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> DeviceLeaks {
        let skip = options.skip.unwrap_or(0);
        let judged = self.points.len().saturating_sub(skip + 1);
        let mut found = DeviceLeaks {
            device: self.device,
            how: None,
            points: self.points.clone(),
            skip,
            judged,
            leaks: Vec::new(),
            growth: Growth::default(),
            unclear: None,
            failure: latest.zip(self.index).and_then(|(latest, index)| self.failure(&latest.devices[index], options)),
        };
        let latest = latest
            .zip(self.index)
            .map(|(profile, index)| Latest { device: &profile.devices[index], grouper: profile.grouper() });
        let Some(latest) = latest else {
            let path = self.missing.last().map_or("", String::as_str);
            found.unclear = Some(format!("the latest snapshot does not have the device: {path} lacks it"));
            return found;
        };
        if judged == 0 {
            found.unclear = self.too_few(skip, skipped);
            return found;
        }
        diagnostics.extend(self.missing_in_some());
        found.growth = self.growth(options, skip);
        found.unclear = self.find_leaks(&latest, options, skip, &mut found.leaks);
        diagnostics.extend(self.pool_grows(&found.leaks));
        diagnostics.extend(self.too_soon(&found.leaks, options, skip));
        super::sort(&mut found.leaks);
        found
    }

    /// The reason why so few snapshots say nothing. The first one of a series has nothing to be compared with, and that
    /// is no reason.
    fn too_few(&self, skip: usize, skipped: usize) -> Option<String> {
        let is_first = self.points.len() == 1 && skip == 0 && skipped == 0 && self.missing.is_empty();
        let enough = count(self.points.len() as u64, "snapshot is", "snapshots are");
        (!is_first).then(|| format!("{enough} too few where {skip} are warm-up; two more than those are needed"))
    }

    fn missing_in_some(&self) -> Option<Diagnostic> {
        let first = self.missing.first()?;
        let message = format!(
            "{} of {} lack the device, the first {first}; the others are compared",
            self.missing.len(),
            count((self.missing.len() + self.points.len()) as u64, "snapshot", "snapshots"),
        );
        Some(Diagnostic::new(Code::DeviceMissing, self.device, message))
    }

    /// Requests that failed in the latest snapshot.
    fn failure(&self, latest: &DeviceProfile, options: &Options) -> Option<Failure> {
        let failure = Failure::new(&latest.figures.ooms, latest.failed_request.clone(), options)?;
        Some(Failure { from_the_first: self.ran_out_at_first && self.points.len() > 1, ..failure })
    }

    /// How the totals grow now.
    fn growth(&self, options: &Options, skip: usize) -> Growth {
        let slope = |value: fn(&Point) -> Option<u64>| Trend::of(&self.totals(skip, value), options.threshold())?.slope;
        let growth = Growth {
            allocated: slope(|point| point.allocated),
            reserved: slope(|point| point.reserved),
            fragmentation: slope(|point| point.fragmentation),
            runs_out_after: None,
        };
        growth.with_end(options, self.points.last(), self.peak)
    }

    /// A total of every snapshot that counts. All of a series are known.
    fn totals(&self, skip: usize, value: fn(&Point) -> Option<u64>) -> Vec<u64> {
        self.points[skip..].iter().filter_map(value).collect()
    }

    /// Collects what leaks; returns a reason where that cannot be told.
    fn find_leaks(&self, latest: &Latest<'_>, options: &Options, skip: usize, leaks: &mut Vec<Leak>) -> Option<String> {
        let mut is_cut = false;
        for (total, &track) in latest.device.stacks.iter().zip(&self.latest) {
            let held = self.stacks[track].held.get(skip..).unwrap_or_default();
            let Some(growth) = Course::of(held, options).filter(|course| course.trend.growth == Growing::Yes) else {
                continue;
            };
            if total.bucket == Some(Bucket::Others) {
                is_cut = true;
                continue;
            }
            leaks.push(self.leak_of_stack(latest, total, options, &growth, skip));
        }
        if !is_cut {
            leaks.extend(self.unnamed(leaks, options, skip));
        }
        leaks.extend(self.fragmentation(options, skip));
        is_cut.then(|| {
            "the profiles do not list all stacks, and those that they do not list grow together; save them without --top \
             and --min-bytes"
                .to_owned()
        })
    }

    fn leak_of_stack(
        &self,
        latest: &Latest<'_>,
        total: &StackTotal,
        options: &Options,
        course: &Course<'_>,
        skip: usize,
    ) -> Leak {
        let labels = total.members.iter().map(|member| latest.grouper.label(member.stack));
        let names = Leak::names(labels.filter(|_| !options.group_by.is_tag()));
        Leak {
            label: total.label.clone(),
            key: total.key.0.clone(),
            bucket: total.bucket,
            stack: total.stack(),
            also: names.map(|(_, also)| also).unwrap_or_default(),
            ..self.leak(course, skip)
        }
    }

    /// The figures of a leak without its name.
    fn leak(&self, course: &Course<'_>, skip: usize) -> Leak {
        let Course { held, trend, values } = course;
        let first = held[trend.since];
        let end = held.last().copied().unwrap_or_default();
        Leak {
            metric: LeakMetric::Allocated,
            label: String::new(),
            key: String::new(),
            bucket: None,
            stack: None,
            also: Vec::new(),
            bytes: trend.gain(values),
            blocks: i128::from(end.blocks) - i128::from(first.blocks),
            bytes_per_step: trend.slope.unwrap_or_default(),
            since: (trend.since > 0).then(|| self.points[skip + trend.since].name.clone()),
            grew: trend.grew,
            judged: trend.steps,
            end,
            course: held.iter().map(|held| held.bytes).collect(),
        }
    }

    /// Growth of the total although no single stack grows: a little in each of many, or in new ones every time.
    fn unnamed(&self, leaks: &[Leak], options: &Options, skip: usize) -> Option<Leak> {
        let held = self.others(leaks, skip);
        // Stacks that leak less than what is worth telling are no news where others leak more.
        let course = Course::of(&held, options).filter(|course| course.trend.growth == Growing::Yes)?;
        Some(Leak {
            label: "<many stacks, a little each>".to_owned(),
            key: Bucket::Others.label().to_owned(),
            bucket: Some(Bucket::Others),
            ..self.leak(&course, skip)
        })
    }

    /// The sum of all stacks that are not among the leaks.
    fn others(&self, leaks: &[Leak], skip: usize) -> Vec<Held> {
        let named: HashSet<&str> = leaks.iter().map(|leak| leak.key.as_str()).collect();
        let tracks: HashSet<usize> =
            self.by_key.iter().filter(|(key, _)| named.contains(key.as_str())).map(|(_, track)| *track).collect();
        let mut sums = vec![Held::default(); self.points.len() - skip];
        for (_, track) in self.stacks.iter().enumerate().filter(|(track, _)| !tracks.contains(track)) {
            for (sum, held) in sums.iter_mut().zip(track.held.get(skip..).unwrap_or_default()) {
                *sum = sum.plus(*held);
            }
        }
        sums
    }

    /// Reserved memory that nothing uses and that grows. It fills the card as a leak does.
    fn fragmentation(&self, options: &Options, skip: usize) -> Option<Leak> {
        let reserved = self.totals(skip, |point| point.reserved);
        let unused: Vec<Held> =
            self.totals(skip, |point| point.fragmentation).into_iter().map(|bytes| Held { bytes, blocks: 0 }).collect();
        let pool = Trend::of(&reserved, options.threshold()).filter(|trend| trend.growth == Growing::Yes)?;
        let course = Course::of(&unused, options).filter(|course| course.trend.growth == Growing::Yes)?;
        let leak = self.leak(&course, skip);
        // A pool that grows with what is allocated is a little larger than that, and so is what nothing uses.
        (leak.bytes * 2 > pool.gain(&reserved)).then(|| Leak {
            metric: LeakMetric::Fragmentation,
            label: FRAGMENTATION.to_owned(),
            key: FRAGMENTATION.to_owned(),
            ..leak
        })
    }

    fn pool_grows(&self, leaks: &[Leak]) -> Option<Diagnostic> {
        let leak = leaks.iter().find(|leak| leak.metric == LeakMetric::Fragmentation)?;
        let message = format!(
            "reserved bytes that nothing uses grow by {} per snapshot, {} in all. The pool grows although what is allocated \
             does not; look at sizes that vary, or set expandable_segments",
            Delta(leak.bytes_per_step).to_string().trim_start_matches('+'),
            Delta(leak.bytes).to_string().trim_start_matches('+'),
        );
        Some(Diagnostic::new(Code::FragmentationGrows, self.device, message))
    }

    /// A remark where something rose in the last snapshots, too few to be called a leak.
    fn too_soon(&self, leaks: &[Leak], options: &Options, skip: usize) -> Option<Diagnostic> {
        if !leaks.is_empty() {
            return None;
        }
        let held = self.others(leaks, skip);
        let course = Course::of(&held, options).filter(|course| course.trend.growth == Growing::TooSoon)?;
        let leak = self.leak(&course, skip);
        let message = format!(
            "allocated bytes rose by {} since {}, in each of the last {}: too few to tell a leak from steps up, the next \
             ones will",
            Size(u64::try_from(leak.bytes).unwrap_or_default()),
            leak.since.unwrap_or_default(),
            count(leak.judged as u64, "snapshot", "snapshots"),
        );
        Some(Diagnostic::new(Code::GrowthTooRecent, self.device, message))
    }
}

/// The values of something over the series, and their trend.
struct Course<'h> {
    held: &'h [Held],
    values: Vec<u64>,
    trend: Trend,
}

impl<'h> Course<'h> {
    /// `None` where the end is not above what was held before: most stacks are left out early.
    fn of(held: &'h [Held], options: &Options) -> Option<Self> {
        let threshold = options.threshold();
        let last = held.last()?.bytes;
        let least = held.iter().map(|held| held.bytes).min()?;
        if last - least < threshold.bytes.max(1) {
            return None;
        }
        let values: Vec<u64> = held.iter().map(|held| held.bytes).collect();
        let trend = Trend::of(&values, threshold)?;
        Some(Self { held, values, trend })
    }
}
