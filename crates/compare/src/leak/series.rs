//! Leaks over a series of snapshots: what holds more from one to the next.

use super::trend::{Growing, Trend};
use super::{DeviceLeaks, Failure, Leak, LeakMetric, Mode, Options, Point, Search, WORTH_TELLING, sort};
use crate::diagnostic::{Code, Diagnostic};
use crate::profile::{Bucket, DeviceProfile, Held, Profile};
use crate::snapshot::StackId;
use crate::text::count;
use crate::tracks::{self, DeviceTrack, StackTrack};
use crate::units::Size;

/// Looks for what grew over profiles, in order. Their stacks must have been computed for [`crate::profile::Moment::End`].
/// `skipped` are files that could not be read, with the reason.
#[must_use]
pub fn over(profiles: &[Profile], skipped: &[(String, String)], options: &Options) -> Search {
    let Some(latest) = profiles.last() else { return Search::default() };
    let mut diagnostics = tracks::diagnostics(profiles);
    diagnostics.extend(skipped_files(skipped, profiles.len()));
    if profiles.len() == 1 && options.skip.unwrap_or(0) == 0 && skipped.is_empty() {
        diagnostics.push(first_of_series(&latest.source.path));
    }
    let mut devices = Vec::new();
    for device in tracks::devices(profiles) {
        let series = DeviceSeries { profiles, latest, device: &device, options };
        devices.push(series.leaks(skipped.len(), &mut diagnostics));
    }
    Search {
        sources: profiles.iter().map(|profile| profile.source.clone()).collect(),
        ..Search::new(Mode::Series, latest, devices, diagnostics)
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

impl Point {
    /// The end of a snapshot.
    fn at_end(path: &str, device: &DeviceProfile) -> Self {
        let reserved = device.figures.reserved.end;
        Self {
            name: path.to_owned(),
            allocated: Some(device.figures.allocated.end),
            reserved: Some(reserved),
            fragmentation: Some(reserved.saturating_sub(device.figures.active.end)),
            active_peak: None,
        }
    }
}

/// One device over the series.
struct DeviceSeries<'s> {
    profiles: &'s [Profile],
    latest: &'s Profile,
    device: &'s DeviceTrack,
    options: &'s Options,
}

impl DeviceSeries<'_> {
    fn leaks(&self, skipped: usize, diagnostics: &mut Vec<Diagnostic>) -> DeviceLeaks {
        let known: Vec<Option<&DeviceProfile>> = self.device.in_each(self.profiles).collect();
        let each = self.profiles.iter().zip(&known);
        let points = each.clone().filter_map(|(profile, device)| Some(Point::at_end(&profile.source.path, (*device)?)));
        let points: Vec<Point> = points.collect();
        let missing: Vec<&str> =
            each.filter(|(_, device)| device.is_none()).map(|(profile, _)| &*profile.source.path).collect();
        let skip = self.options.skip.unwrap_or(0);
        let memory = self.options.device_memory;
        let mut found = DeviceLeaks {
            device: self.device.device,
            skip,
            judged: points.len().saturating_sub(skip + 1),
            budget: memory.map(|memory| memory.budget(self.latest.run.as_ref(), self.device.device)),
            points,
            ..DeviceLeaks::default()
        };
        let Some(latest) = known.last().copied().flatten() else {
            let path = missing.last().copied().unwrap_or_default();
            found.unclear = Some(format!("the latest snapshot does not have the device: {path} lacks it").into());
            return found;
        };
        let ran_out_at_first = known.iter().flatten().next().is_some_and(|first| first.ran_out_of_memory());
        let failure = Failure::new(&latest.figures.ooms, latest.failed_request.clone(), self.options);
        found.failure = failure.map(|of| Failure { from_the_first: ran_out_at_first && found.points.len() > 1, ..of });
        if found.judged == 0 {
            // The first one of a series has nothing to be compared with, and that is no reason.
            let is_first = found.points.len() == 1 && skip == 0 && skipped == 0 && missing.is_empty();
            let enough = count(found.points.len() as u64, "snapshot is", "snapshots are");
            let reason = format!("{enough} too few where {skip} are warm-up; two more than those are needed");
            found.unclear = (!is_first).then(|| reason.into());
            return found;
        }
        diagnostics.extend(missing_in_some(&found, &missing));
        found.add_growth(latest.figures.allocated.peak, |values| {
            Trend::of(values, self.options.least_growth(), self.options.min_share)?.slope
        });
        self.find_leaks(latest, &mut found, diagnostics);
        found
    }

    /// Adds the leaks, the fastest first, and remarks on what grows.
    fn find_leaks(&self, latest: &DeviceProfile, found: &mut DeviceLeaks, diagnostics: &mut Vec<Diagnostic>) {
        let grouper = self.latest.grouper();
        // The sum of all stacks that do not leak by themselves.
        let mut others = vec![Held::default(); found.counted().len()];
        let mut leaks = Vec::new();
        for track in tracks::stacks(self.profiles, self.device) {
            let held = self.held(&track, found.skip);
            if let Some(leak) = self.figures(found, &held, Growing::Yes) {
                let members = latest.stacks.iter().filter(|total| total.key.0 == track.key);
                let stacks: Vec<StackId> =
                    members.flat_map(|total| &total.members).map(|member| member.stack).collect();
                let leak = Leak { label: track.label, key: track.key, bucket: track.bucket, ..leak };
                leaks.push(leak.of_stacks(&grouper, &stacks));
            } else {
                others.iter_mut().zip(held).for_each(|(sum, held)| *sum = sum.plus(held));
            }
        }
        // A little in each of many stacks, or in new ones every time.
        leaks.extend(self.figures(found, &others, Growing::Yes).map(|leak| Leak {
            label: "<many stacks, a little each>".to_owned(),
            key: Bucket::Others.label().to_owned(),
            bucket: Some(Bucket::Others),
            ..leak
        }));
        let pool = self.total(found, |point| point.reserved);
        let unused = self.total(found, |point| point.fragmentation);
        leaks.extend(pool.zip(unused).and_then(|(pool, unused)| Leak::fragmentation(&pool, unused)));
        if leaks.is_empty() {
            let recent = self.figures(found, &others, Growing::TooSoon);
            diagnostics.extend(recent.map(|leak| too_soon(found.device, leak)));
        }
        let growing_pool = leaks.iter().filter(|leak| leak.metric == LeakMetric::Fragmentation);
        diagnostics
            .extend(growing_pool.map(|leak| super::fragmentation_grows(found.device, Mode::Series.nouns(), leak)));
        sort(&mut leaks);
        found.leaks = leaks;
    }

    /// What a stack holds in each snapshot that counts.
    fn held(&self, track: &StackTrack, skip: usize) -> Vec<Held> {
        let all = track.held.iter().zip(&self.device.indices);
        all.filter(|(_, index)| index.is_some()).map(|(held, _)| *held).skip(skip).collect()
    }

    /// The same of a total that grows.
    fn total(&self, found: &DeviceLeaks, value: fn(&Point) -> Option<u64>) -> Option<Leak> {
        let held = found.totals(value)?.into_iter().map(|bytes| Held { bytes, blocks: 0 });
        self.figures(found, &held.collect::<Vec<_>>(), Growing::Yes)
    }

    /// The figures of a leak, without its name: of something that held so much in each snapshot that counts, if that grows
    /// like this.
    fn figures(&self, found: &DeviceLeaks, held: &[Held], growth: Growing) -> Option<Leak> {
        let values: Vec<u64> = held.iter().map(|held| held.bytes).collect();
        let least = self.options.least_growth();
        // Most stacks are left out here.
        if values.last()? - values.iter().min()? < least.max(1) {
            return None;
        }
        let trend = Trend::of(&values, least, self.options.min_share).filter(|trend| trend.growth == growth)?;
        let first = held[trend.since];
        let end = held.last().copied().unwrap_or_default();
        Some(Leak {
            bytes: i128::from(end.bytes) - i128::from(first.bytes),
            blocks: i128::from(end.blocks) - i128::from(first.blocks),
            bytes_per_step: trend.slope.unwrap_or_default(),
            since: (trend.since > 0).then(|| found.counted()[trend.since].name.clone()),
            grew: trend.grew,
            judged: trend.steps,
            end,
            course: values,
            ..Leak::default()
        })
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

/// A remark where something rose in the last snapshots, too few to be called a leak.
fn too_soon(device: u32, leak: Leak) -> Diagnostic {
    let message = format!(
        "allocated bytes rose by {} since {}, in each of the last {}: too few to tell a leak from steps up, the next \
         ones will",
        Size(u64::try_from(leak.bytes).unwrap_or_default()),
        leak.since.unwrap_or_default(),
        count(leak.judged as u64, "snapshot", "snapshots"),
    );
    Diagnostic::new(Code::GrowthTooRecent, device, message)
}

impl Options {
    /// The least growth of a stack over a series, and of totals.
    pub(super) fn least_growth(&self) -> u64 {
        self.min_growth.unwrap_or(WORTH_TELLING)
    }
}
