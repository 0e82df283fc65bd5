//! Leaks over a series of snapshots: what holds more from one to the next.

use crate::tracks::{self, DeviceTrack};
use ptmem_base::diagnostic::{Code, Diagnostic};
use ptmem_base::text::count;
use ptmem_snapshot::snapshot::StackId;
use ptmem_trace::profile::{DeviceProfile, Held, Profile};

use super::found::{cycles_unknown, failure, fragmentation_grows};
use super::leaking::sort;
use super::together::Together;
use super::trend::{Growing, LatestTrend};
use super::{DeviceLeaks, FailedRequests, Leak, LeakMetric, LeakOptions, Mode, Search, SeriesPoint};

/// Looks for what grew over profiles, in order. Their stacks must have been computed for [`ptmem_trace::profile::Moment::End`].
/// `skipped` are files that could not be read or compared, with the reason.
pub fn over(mut profiles: Vec<Profile>, skipped: &[(String, String)], options: &LeakOptions) -> Search {
    let partial = take_partial(&mut profiles);
    let Some(latest) = profiles.last() else { return Search::default() };
    let mut diagnostics = tracks::diagnostics(&profiles);
    let left_out = skipped.len() + partial.len();
    let of_latest = diagnostics.iter_mut().filter(|found| found.code == Code::RunIncomplete);
    of_latest.for_each(|found| found.message = format!("{}: {}", latest.source.path, found.message));
    for (code, files, why) in [
        (Code::FilesSkipped, skipped, "they cannot be compared"),
        (Code::RunIncomplete, &partial, "a part of the run is missing"),
    ] {
        diagnostics.extend(files_left_out(code, files, left_out + profiles.len(), why));
    }
    if profiles.len() == 1 && options.skip.unwrap_or(0) == 0 && left_out == 0 {
        let path = &latest.source.path;
        let message = format!("{path} is the first of the series: growth cannot be judged before the next one");
        diagnostics.push(Diagnostic::new(Code::FirstOfSeries, None, message));
    }
    let mut devices = Vec::new();
    for device in tracks::devices(&profiles) {
        let series = DeviceSeries { profiles: &profiles, latest, device: &device, options };
        devices.push(series.leaks(left_out, &mut diagnostics));
    }
    Search {
        sources: profiles.iter().map(|profile| profile.source.clone()).collect(),
        ..Search::new(Mode::Series, latest, devices, diagnostics)
    }
}

/// Takes the earlier profiles whose runs are known to be not whole, with the reasons: they hold less than others would, whatever
/// leaks. That of the latest makes the verdict inconclusive.
fn take_partial(profiles: &mut Vec<Profile>) -> Vec<(String, String)> {
    let earlier = profiles.len().saturating_sub(1);
    let partial = profiles.extract_if(..earlier, |profile| failure(profile).is_some());
    partial.map(|profile| (profile.source.path.clone(), failure(&profile).unwrap_or_default())).collect()
}

/// Names the files that were left out of all.
fn files_left_out(code: Code, files: &[(String, String)], all: usize, why: &str) -> Option<Diagnostic> {
    const MOST: usize = 3;
    let mut reasons: Vec<String> = files.iter().take(MOST).map(|(path, reason)| format!("{path} ({reason})")).collect();
    if files.len() > MOST {
        reasons.push(format!("{} more", files.len() - MOST));
    }
    let message = format!(
        "{} of {} left out because {why}: {}",
        files.len(),
        count(all as u64, "file", "files"),
        reasons.join("; ")
    );
    (!files.is_empty()).then(|| Diagnostic::new(code, None, message))
}

/// One device over the series.
struct DeviceSeries<'s> {
    profiles: &'s [Profile],
    latest: &'s Profile,
    device: &'s DeviceTrack,
    options: &'s LeakOptions,
}

impl DeviceSeries<'_> {
    fn leaks(&self, left_out: usize, diagnostics: &mut Vec<Diagnostic>) -> DeviceLeaks {
        let mut points = Vec::with_capacity(self.profiles.len());
        let mut missing: Vec<&str> = Vec::new();
        for (profile, device) in self.profiles.iter().zip(self.device.in_each(self.profiles)) {
            let Some(DeviceProfile { figures, .. }) = device else {
                missing.push(&profile.source.path);
                continue;
            };
            points.push(SeriesPoint {
                name: profile.source.path.as_str().into(),
                allocated: figures.allocated.end,
                reserved: figures.reserved.end,
                fragmentation: figures.fragmentation.end,
                active_peak: figures.active.peak,
            });
        }
        let skip = self.options.skip.unwrap_or(0);
        let memory = self.options.device_memory;
        let mut found = DeviceLeaks {
            device: self.device.device,
            skip,
            judged: points.len().saturating_sub(skip + 1),
            budget: memory.map(|memory| memory.budget(self.latest.run.as_ref(), self.device.device)),
            points: points.into(),
            min_growth: Some(self.options.least_growth()),
            ..DeviceLeaks::default()
        };
        let Some(latest) = self.device.in_each(self.profiles).last().flatten() else {
            let path = missing.last().copied().unwrap_or_default();
            found.unclear = Some(format!("the latest snapshot does not have the device: {path} lacks it").into());
            return found;
        };
        let ran_out_at_first =
            self.device.in_each(self.profiles).flatten().next().is_some_and(DeviceProfile::ran_out_of_memory);
        found.failure = FailedRequests::of(latest)
            .filter(|_| !self.options.allow_oom)
            .map(|of| FailedRequests { from_the_first: ran_out_at_first && found.points.len() > 1, ..of });
        if found.judged == 0 {
            // The first snapshot of a series has no predecessor to compare with, which is expected.
            let is_first = found.points.len() == 1 && skip == 0 && left_out == 0 && missing.is_empty();
            let enough = count(found.points.len() as u64, "snapshot is", "snapshots are");
            let reason = format!("{enough} too few where {skip} are warm-up; two more than those are needed");
            found.unclear = (!is_first).then(|| reason.into());
            return found;
        }
        diagnostics.extend(missing_in_some(&found, &missing));
        self.find_leaks(latest, &mut found, diagnostics);
        found.add_growth(latest.figures.allocated.peak, self.options);
        found
    }

    /// Adds the leaks, the fastest first, and remarks on what grows.
    fn find_leaks(&self, latest: &DeviceProfile, found: &mut DeviceLeaks, diagnostics: &mut Vec<Diagnostic>) {
        let grouper = self.latest.grouper();
        let has_stacks = !self.counted(found.skip).any(|at| self.profiles[at].is_numbers());
        found.has_totals_only = !has_stacks;
        let mut together = if has_stacks {
            Together::of_stacks()
        } else if let Some(totals) = found.totals(|point| point.allocated) {
            Together::of_totals(totals)
        } else {
            found.unclear = Some("not all of them state the allocated bytes at their end".to_owned().into());
            return;
        };
        diagnostics.extend(self.stacks_not_compared(found));
        let mut leaks = Vec::new();
        let tracks = if has_stacks { tracks::stacks(self.profiles, self.device) } else { Vec::new() };
        for track in tracks {
            let held: Vec<Held> = self.counted(found.skip).map(|at| track.at(at)).collect();
            let course = found.latest(&held, self.options);
            if let Some(LatestTrend { trend, .. }) = course.filter(|course| course.trend.growth == Growing::Yes) {
                let members = latest.stacks.iter().filter(|total| total.key.0 == track.key);
                let stacks: Vec<StackId> =
                    members.flat_map(|total| &total.members).map(|member| member.stack).collect();
                let leak =
                    Leak { label: track.label, key: track.key, bucket: track.bucket, ..found.leak_of(trend, &held) };
                leaks.push(leak.of_stacks(&grouper, &stacks));
            } else {
                let paused = course.and_then(|course| found.paused_growth(course));
                together.add(track.label, &held, paused, self.options);
            }
        }
        leaks.extend(together.leak(found, self.options));
        // What a snapshot needed before its end is used. Without a history, the peak is not known.
        let unneeded = found.fragmentation(|point| point.active_peak.or_else(|| point.active()), self.options);
        leaks.extend(found.fragmentation(SeriesPoint::active, self.options).filter(|_| unneeded.is_some()));
        let growing_pool = leaks.iter().filter(|leak| leak.metric == LeakMetric::Fragmentation);
        diagnostics.extend(growing_pool.map(|leak| fragmentation_grows(found.device, Mode::Series.noun(), leak)));
        sort(&mut leaks);
        found.leaks = leaks;
        diagnostics.extend(together.remarks(found, self.options));
        if found.leaks_of(LeakMetric::Allocated).next().is_some() {
            diagnostics.push(cycles_unknown(found.device, Mode::Series));
        }
    }

    /// The places of the snapshots that count.
    fn counted(&self, skip: usize) -> impl Iterator<Item = usize> {
        let indices = self.device.indices.iter().enumerate();
        indices.filter(|(_, index)| index.is_some()).map(|(at, _)| at).skip(skip)
    }

    /// A warning if some files have stacks that are not compared, because others have only figures.
    fn stacks_not_compared(&self, found: &DeviceLeaks) -> Option<Diagnostic> {
        let counted: Vec<&Profile> = self.counted(found.skip).map(|at| &self.profiles[at]).collect();
        let figures: Vec<&&Profile> = counted.iter().filter(|profile| profile.is_numbers()).collect();
        let first = figures.first().filter(|_| figures.len() < counted.len())?;
        let message = format!(
            "{} of {} without stacks, the first {}: only totals are compared",
            figures.len(),
            count(counted.len() as u64, "file", "files"),
            first.source.path
        );
        Some(Diagnostic::new(Code::StacksNotCompared, found.device, message))
    }
}

fn missing_in_some(found: &DeviceLeaks, missing: &[&str]) -> Option<Diagnostic> {
    let first = missing.first()?;
    let message = format!(
        "{} of {} lack the device, the first {first}; the others are compared",
        missing.len(),
        count((missing.len() + found.points.len()) as u64, "snapshot", "snapshots"),
    );
    Some(Diagnostic::new(Code::DeviceMissing, found.device, message))
}
