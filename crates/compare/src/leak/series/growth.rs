//! The growth on one device over a series.

use super::Device;
use crate::diagnostic::{Code, Diagnostic};
use crate::leak::trend::{Growing, Threshold, Trend};
use crate::leak::{
    DeviceLeaks, Failure, Growth, Leak, LeakMetric, Mode, Names, Options, Point, Unclear, WORTH_TELLING,
    fragmentation_grows, sort,
};
use crate::profile::{Bucket, DeviceProfile, Held, Profile, StackTotal};
use crate::snapshot::StackId;
use crate::stack::Grouper;
use crate::text::count;
use crate::units::Size;

/// The device of the latest snapshot, as far as leaks refer to it.
struct Latest<'p> {
    device: &'p DeviceProfile,
    grouper: Grouper<'p>,
}

impl Options {
    fn threshold(&self) -> Threshold {
        Threshold { bytes: self.min_growth.unwrap_or(WORTH_TELLING), share: self.min_share }
    }
}

impl Device {
    pub(super) fn leaks(
        &self,
        latest: Option<&Profile>,
        options: &Options,
        skipped: usize,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> DeviceLeaks {
        let skip = options.skip.unwrap_or(0);
        let judged = self.points.len().saturating_sub(skip + 1);
        let mut found = DeviceLeaks {
            points: self.points.clone(),
            skip,
            judged,
            budget: options
                .device_memory
                .zip(latest)
                .map(|(memory, latest)| memory.budget(latest.run.as_ref(), self.device)),
            failure: latest.zip(self.index).and_then(|(latest, index)| self.failure(&latest.devices[index], options)),
            device: self.device,
            ..DeviceLeaks::default()
        };
        let latest = latest
            .zip(self.index)
            .map(|(profile, index)| Latest { device: &profile.devices[index], grouper: profile.grouper() });
        let Some(latest) = latest else {
            let path = self.missing.last().map_or("", String::as_str);
            found.unclear = Some(format!("the latest snapshot does not have the device: {path} lacks it").into());
            return found;
        };
        if judged == 0 {
            found.unclear = self.too_few(skip, skipped);
            return found;
        }
        diagnostics.extend(self.missing_in_some());
        found.growth = self.growth(options, skip).with_end(found.budget, self.points.last(), self.peak);
        found.leaks = self.find_leaks(&latest, options, skip);
        diagnostics.extend(self.pool_grows(&found.leaks));
        diagnostics.extend(self.too_soon(&found.leaks, options, skip));
        found
    }

    /// The reason why so few snapshots say nothing. The first one of a series has nothing to be compared with, and that
    /// is no reason.
    fn too_few(&self, skip: usize, skipped: usize) -> Option<Unclear> {
        let is_first = self.points.len() == 1 && skip == 0 && skipped == 0 && self.missing.is_empty();
        let enough = count(self.points.len() as u64, "snapshot is", "snapshots are");
        let reason = format!("{enough} too few where {skip} are warm-up; two more than those are needed");
        (!is_first).then(|| reason.into())
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

    /// The present growth of the totals.
    fn growth(&self, options: &Options, skip: usize) -> Growth {
        Growth {
            allocated: self.slope_of(options, skip, |point| point.allocated),
            reserved: self.slope_of(options, skip, |point| point.reserved),
            fragmentation: self.slope_of(options, skip, |point| point.fragmentation),
            runs_out_after: None,
        }
    }

    fn slope_of(&self, options: &Options, skip: usize, value: fn(&Point) -> Option<u64>) -> Option<i128> {
        Trend::of(&self.totals(skip, value), options.threshold())?.slope
    }

    /// A total of every snapshot that counts. All of a series are known.
    fn totals(&self, skip: usize, value: fn(&Point) -> Option<u64>) -> Vec<u64> {
        self.points[skip..].iter().filter_map(value).collect()
    }

    /// The leaks, the fastest first.
    fn find_leaks(&self, latest: &Latest<'_>, options: &Options, skip: usize) -> Vec<Leak> {
        let mut leaks = Vec::new();
        for (total, &track) in latest.device.stacks.iter().zip(&self.stacks.latest) {
            let held = self.stacks.tracks[track].held.get(skip..).unwrap_or_default();
            let Some(growth) = Course::of(held, options).filter(|course| course.trend.growth == Growing::Yes) else {
                continue;
            };
            leaks.push(self.leak_of_stack(latest, total, &growth, skip));
        }
        leaks.extend(self.unnamed(&leaks, options, skip));
        leaks.extend(self.fragmentation(options, skip));
        sort(&mut leaks);
        leaks
    }

    fn leak_of_stack(&self, latest: &Latest<'_>, total: &StackTotal, course: &Course<'_>, skip: usize) -> Leak {
        let stacks: Vec<StackId> = total.members.iter().map(|member| member.stack).collect();
        let Names { also, more, .. } = Names::new(&latest.grouper, &stacks);
        Leak {
            label: total.label.clone(),
            key: total.key.0.clone(),
            bucket: total.bucket,
            stack: total.stack(),
            also,
            more,
            ..self.leak(course, skip)
        }
    }

    /// The figures of a leak without its name.
    fn leak(&self, course: &Course<'_>, skip: usize) -> Leak {
        let Course { held, trend, values } = course;
        let first = held[trend.since];
        let end = held.last().copied().unwrap_or_default();
        Leak {
            bytes: trend.gain(values),
            blocks: i128::from(end.blocks) - i128::from(first.blocks),
            bytes_per_step: trend.slope.unwrap_or_default(),
            since: (trend.since > 0).then(|| self.points[skip + trend.since].name.clone()),
            grew: trend.grew,
            judged: trend.steps,
            end,
            course: held.iter().map(|held| held.bytes).collect(),
            ..Leak::default()
        }
    }

    /// Growth of the total although no single stack grows: a little in each of many, or in new ones every time.
    fn unnamed(&self, leaks: &[Leak], options: &Options, skip: usize) -> Option<Leak> {
        let held = self.others(leaks, skip);
        // Stacks below the least growth that is reported are left out where others leak more.
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
        let named = self.stacks.with_keys(leaks.iter().map(|leak| leak.key.as_str()));
        let mut sums = vec![Held::default(); self.points.len() - skip];
        for (_, track) in self.stacks.tracks.iter().enumerate().filter(|(track, _)| !named.contains(track)) {
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
        (leak.bytes * 2 > pool.gain(&reserved)).then(|| Leak::fragmentation(leak))
    }

    fn pool_grows(&self, leaks: &[Leak]) -> Option<Diagnostic> {
        let leak = leaks.iter().find(|leak| leak.metric == LeakMetric::Fragmentation)?;
        Some(fragmentation_grows(self.device, Mode::Series.nouns(), leak.bytes_per_step, leak.bytes))
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
