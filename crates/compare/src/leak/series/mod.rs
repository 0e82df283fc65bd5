//! Leaks over a series of snapshots: what holds more from one to the next.

mod growth;

use super::{Options, Point, Search};
use crate::diagnostic::{Code, Diagnostic};
use crate::profile::{DeviceProfile, Profile, Source};
use crate::stack::Grouper;
use crate::text::count;
use crate::tracks::Followed;

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
    stacks: Followed,
    /// Snapshots of the series that lack it.
    missing: Vec<String>,
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
            self.add_diagnostic(diagnostic);
        }
        self.sources.push(profile.source.clone());
        self.latest = Some(profile);
    }

    /// Adds a diagnostic in place of an earlier one of the same code and device.
    fn add_diagnostic(&mut self, diagnostic: &Diagnostic) {
        let mut known = self.diagnostics.iter_mut();
        match known.find(|known| known.code == diagnostic.code && known.device == diagnostic.device) {
            Some(earlier) => *earlier = diagnostic.clone(),
            None => self.diagnostics.push(diagnostic.clone()),
        }
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
            sources,
            devices: found,
            diagnostics,
            failure: latest.as_ref().and_then(|profile| profile.run.as_ref()?.failure()),
            group_by: options.group_by,
            tables: latest.filter(|_| has_leaks).map(|profile| profile.tables).unwrap_or_default(),
            rules,
            ..Search::default()
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
        self.stacks.add(number, device, grouper, earlier);
    }
}
