//! How memory scales with a number that differs from run to run: a batch size, a context length, a number of layers.

mod fit;
mod moments;

use std::sync::Arc;

use crate::budget::{DeviceBudget, DeviceMemory};
use crate::diagnostic::Diagnostic;
use crate::profile::{self, Profile};
use crate::stack::GroupBy;
use crate::tracks::{self, DeviceTrack, StackTrack};

use fit::Sample;
pub use fit::{Fit, Polynomial, Range, Shape};
use moments::Moment;

/// The prediction that is asked for.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Places to predict the memory at.
    pub at: Vec<f64>,
    /// Memory of the device in bytes.
    pub device_memory: Option<DeviceMemory>,
}

/// The runs, and what follows from them.
#[derive(Debug)]
pub struct Scale {
    /// The runs, by the number that was varied.
    pub runs: Vec<Run>,
    /// Each device.
    pub devices: Vec<DeviceScale>,
    /// The grouping of stacks.
    pub group_by: GroupBy,
    /// Notes and warnings about the runs.
    pub diagnostics: Vec<Diagnostic>,
}

/// A run.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Run {
    /// Its file.
    pub path: String,
    /// The number that was varied.
    pub x: f64,
}

/// A device over the runs.
#[derive(Debug)]
pub struct DeviceScale {
    /// Its ordinal.
    pub device: u32,
    /// Allocated peaks of the runs; `None` where one is not known.
    pub peaks: Vec<Option<u64>>,
    /// Reserved peaks of the runs.
    pub reserved: Vec<Option<u64>>,
    /// True if the runs are compared at the same moments of the program; otherwise each at its own peak.
    pub is_aligned: bool,
    /// Moments that may be the peak, at which all runs are compared.
    pub moments: Vec<MomentScale>,
    /// The prediction for each place that was asked for.
    pub forecasts: Vec<Forecast>,
    /// The last run as the others predict it, where there are enough: a measure of how far to trust the forecasts.
    pub check: Option<Check>,
    /// Where the device is full, where its memory is known.
    pub full: Option<Full>,
    /// The memory of the device, where it is given.
    pub budget: Option<DeviceBudget>,
}

/// A moment of the program, over the runs.
#[derive(Debug)]
pub struct MomentScale {
    /// The stacks that hold memory then, the largest of the last run first.
    pub stacks: Vec<StackScale>,
    /// All stacks together, fitted as a whole.
    whole: Option<Fit>,
}

/// A stack over the runs.
#[derive(Debug)]
pub struct StackScale {
    /// Its bytes.
    pub track: StackTrack,
    /// How they depend on what was varied.
    pub fit: Fit,
}

/// The memory at a place.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Forecast {
    /// The place.
    pub x: f64,
    /// Which of the moments is the peak there.
    pub moment: usize,
    /// The allocated peak: all stacks together.
    pub peak: Range,
    /// The reserved peak.
    pub reserved: Option<Range>,
}

/// A run that the others predict.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Check {
    /// Its place.
    pub x: f64,
    /// The allocated peak that the others predict.
    pub predicted: f64,
    /// The one that it has.
    pub peak: u64,
}

/// The place at which a device is full.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Full {
    /// The first place that the samples allow; `None` where it is never full within reach.
    pub earliest: Option<f64>,
    /// The most likely one.
    pub best: Option<f64>,
    /// The last one.
    pub latest: Option<f64>,
}

/// The farthest place to look for a full device, in multiples of the last run's.
const FARTHEST: f64 = 1e6;

/// With fewer runs than these before it, the last one is not predicted as a test.
const FEWEST_TO_TEST: usize = 3;

impl Scale {
    /// Fits runs in the order of the number that was varied. Their profiles are those at the peak; where the runs tell which
    /// moments of them are the same ones, they are compared at each that may be the peak of another.
    #[must_use]
    pub fn new(runs: Vec<Run>, mut profiles: Vec<Profile>, options: &Options) -> Self {
        let places: Vec<f64> = runs.iter().map(|run| run.x).collect();
        let mut devices = Vec::new();
        for device in tracks::devices(&profiles) {
            devices.push(DeviceScale::new(&places, &mut profiles, &device, options));
        }
        let group_by = profiles.last().map(|profile| profile.options.group_by).unwrap_or_default();
        Self { runs, devices, group_by, diagnostics: tracks::diagnostics(&profiles) }
    }

    /// True if all devices are compared at the same moments of the program.
    #[must_use]
    pub fn is_aligned(&self) -> bool {
        self.devices.iter().all(|device| device.is_aligned)
    }
}

impl MomentScale {
    fn new(profiles: &[Profile], device: &DeviceTrack, places: &[f64]) -> Self {
        let tracks = tracks::stacks(profiles, device);
        let mut samples = Vec::with_capacity(places.len());
        for (run, &x) in places.iter().enumerate() {
            let total = tracks.iter().fold(0, |sum: u64, track| sum.saturating_add(track.bytes(run)));
            samples.push(Sample::new(x, total));
        }
        let stacks = tracks.into_iter().filter_map(|track| StackScale::new(track, places)).collect();
        Self { whole: Fit::of(&samples, 1), stacks }
    }

    /// The memory at a place, `reach` times as far as the farthest run.
    fn at(&self, x: f64, reach: f64) -> Range {
        let mut all = Range::default();
        for stack in &self.stacks {
            let range = stack.fit.at(x, reach);
            all = Range { low: all.low + range.low, best: all.best + range.best, high: all.high + range.high };
        }
        // The fit of the sum is a second estimate.
        match self.whole.as_ref().map(|fit| fit.at(x, reach).best) {
            Some(whole) => Range { low: all.low.min(whole), high: all.high.max(whole), ..all },
            None => all,
        }
    }
}

impl StackScale {
    fn new(track: StackTrack, places: &[f64]) -> Option<Self> {
        let held = places.iter().zip(&track.held);
        let samples: Vec<Sample> = held.clone().map(|(&x, held)| Sample::new(x, held.bytes)).collect();
        let blocks = held.map(|(_, held)| held.blocks).max().unwrap_or(0);
        Some(Self { fit: Fit::of(&samples, blocks)?, track })
    }
}

impl DeviceScale {
    fn new(places: &[f64], profiles: &mut [Profile], device: &DeviceTrack, options: &Options) -> Self {
        let mut peaks = Vec::with_capacity(profiles.len());
        let mut reserved = Vec::with_capacity(profiles.len());
        for run in device.in_each(profiles) {
            peaks.push(run.and_then(|run| run.figures.allocated.peak));
            reserved.push(run.and_then(|run| run.figures.reserved.peak));
        }
        let moments = moments::moments(profiles, device, places, &options.at);
        let mut scale = Self {
            device: device.device,
            peaks,
            reserved,
            is_aligned: moments.is_some(),
            moments: Vec::new(),
            forecasts: Vec::new(),
            check: None,
            full: None,
            budget: None,
        };
        let last = places.last().copied().unwrap_or(1.0);
        let predicted = scale.look_at(moments.as_deref(), profiles, device, places);
        let peak = scale.peaks.last().copied().flatten();
        scale.check = predicted.zip(peak).map(|(predicted, peak)| Check { x: last, predicted, peak });
        scale.forecasts = options.at.iter().map(|&x| scale.forecast(x, last)).collect();
        scale.budget = options.device_memory.map(|memory| memory.budget_of_last(profiles, device.device));
        scale.full = scale.budget.map(|budget| scale.full(budget.usable(), last));
        scale
    }

    /// The memory at a place; `last` is that of the last run.
    #[must_use]
    pub fn forecast(&self, x: f64, last: f64) -> Forecast {
        let mut peak = Range::default();
        let mut moment = 0;
        for (index, ranges) in self.moments.iter().map(|moment| moment.at(x, x / last)).enumerate() {
            if ranges.best > peak.best {
                moment = index;
            }
            let Range { low, best, high } = ranges;
            peak = Range { low: peak.low.max(low), best: peak.best.max(best), high: peak.high.max(high) };
        }
        Forecast { x, moment, peak, reserved: self.overheads().map(|overheads| peak.times(overheads)) }
    }

    /// How much more was reserved than allocated at the peaks of the runs; `None` where one is not known.
    fn overheads(&self) -> Option<Range> {
        let runs = self.reserved.iter().zip(&self.peaks);
        let all: Option<Vec<f64>> = runs.map(|(&reserved, &peak)| Some(ratio(reserved?, peak?))).collect();
        let all = all?;
        Some(Range {
            low: all.iter().copied().fold(f64::INFINITY, f64::min),
            best: *all.last()?,
            high: all.iter().copied().fold(0.0, f64::max),
        })
    }

    /// Fits the runs at each moment, or at their peaks. Gives the peak of the last run as three or more others predict it.
    fn look_at(
        &mut self,
        moments: Option<&[Moment]>,
        profiles: &mut [Profile],
        device: &DeviceTrack,
        places: &[f64],
    ) -> Option<f64> {
        let &[ref earlier @ .., x] = places else { return None };
        let count = earlier.len();
        let of_earlier = DeviceTrack { device: device.device, indices: device.indices[..count].to_vec() };
        let mut predicted: f64 = 0.0;
        for moment in moments.map_or(vec![None], |moments| moments.iter().map(Some).collect()) {
            for ((profile, index), at) in profiles.iter_mut().zip(&device.indices).zip(moment.into_iter().flatten()) {
                let places = index.map(|index| (profile.devices[index].device, *at)).into_iter().collect();
                profile.look_at(profile::Moment::Aligned(Arc::new(places)));
            }
            self.moments.push(MomentScale::new(profiles, device, places));
            if count >= FEWEST_TO_TEST {
                let earlier_scale = MomentScale::new(&profiles[..count], &of_earlier, earlier);
                predicted = predicted.max(earlier_scale.at(x, x / earlier[count - 1]).best);
            }
        }
        (count >= FEWEST_TO_TEST).then_some(predicted)
    }

    /// Where the device is full: where the reserved or the allocated peak exceeds its memory.
    fn full(&self, memory: u64, last: f64) -> Full {
        Full {
            earliest: first_place(last, |x| self.forecast(x, last).exceeds(memory, |range| range.high)),
            best: first_place(last, |x| self.forecast(x, last).exceeds(memory, |range| range.best)),
            latest: first_place(last, |x| self.forecast(x, last).exceeds(memory, |range| range.low)),
        }
    }
}

impl Range {
    fn times(self, other: Self) -> Self {
        Self { low: self.low * other.low, best: self.best * other.best, high: self.high * other.high }
    }
}

impl Forecast {
    /// True if one of the values of either peak is more than the memory of a device.
    fn exceeds(&self, memory: u64, value: fn(&Range) -> f64) -> bool {
        let reserved = self.reserved.as_ref().map_or(0.0, value);
        value(&self.peak).max(reserved) > float(memory)
    }
}

/// The first place at which a condition holds that also holds at all later places.
fn first_place(last: f64, holds: impl Fn(f64) -> bool) -> Option<f64> {
    /// Enough for any precision that is printed.
    const HALVINGS: u32 = 60;
    let mut high = last / 1024.0;
    while !holds(high) {
        high *= 2.0;
        if high > last * FARTHEST {
            return None;
        }
    }
    let mut low = high / 2.0;
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(low, high);
        if holds(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    Some(high)
}

#[allow(clippy::cast_precision_loss, reason = "2^53 bytes are more than any device has")]
fn float(bytes: u64) -> f64 {
    bytes as f64
}

/// How many times as much is reserved as allocated.
fn ratio(reserved: u64, allocated: u64) -> f64 {
    float(reserved) / float(allocated.max(1))
}
