//! How memory scales with a number that differs from run to run: a batch size, a context length, a number of layers.

mod fit;
mod moments;

use std::ops::{Add, Mul};
use std::sync::Arc;

use ptmem_base::diagnostic::Diagnostic;
use ptmem_base::units::approximate;
use ptmem_compare::budget::{DeviceBudget, DeviceMemory};
use ptmem_compare::tracks::{self, DeviceTrack, StackTrack};
use ptmem_trace::profile::{self, Profile};
use ptmem_trace::stack::GroupBy;

pub use fit::{Fit, Polynomial, Range, Shape};
use moments::Moment;

/// The requested prediction.
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
    /// The name of the number that was varied.
    pub name: String,
    /// The search that made the runs; `None` for recordings that were there.
    pub search: Option<Search>,
    /// The runs, by the number that was varied.
    pub runs: Vec<Run>,
    /// Each device.
    pub devices: Vec<DeviceScale>,
    /// The grouping of stacks.
    pub group_by: GroupBy,
    /// Notes and warnings about the runs.
    pub diagnostics: Vec<Diagnostic>,
}

/// A search for the largest number that fits.
#[derive(Debug)]
pub struct Search {
    /// The numbers that were searched, as the user gives them.
    pub range: String,
    /// The card, in words.
    pub card: String,
    /// The numbers that were tried and do not fit.
    pub too_large: Vec<f64>,
    /// A number, and a larger one that took so much less memory that numbers beyond the first that does not fit may fit.
    pub falling: Option<[f64; 2]>,
    /// The first number that does not fit, and its recording.
    pub beyond: Option<(f64, Profile)>,
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
    /// The prediction for each requested x-value.
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
    pub fn new(name: String, runs: Vec<Run>, mut profiles: Vec<Profile>, options: &Options) -> Self {
        let places: Vec<f64> = runs.iter().map(|run| run.x).collect();
        let mut devices = Vec::new();
        for device in tracks::devices(&profiles) {
            devices.push(DeviceScale::new(&places, &mut profiles, &device, options));
        }
        let group_by = profiles.last().map(|profile| profile.options.group_by).unwrap_or_default();
        Self { name, search: None, runs, devices, group_by, diagnostics: tracks::diagnostics(&profiles) }
    }

    /// True if all devices are compared at the same moments of the program.
    #[must_use]
    pub fn is_aligned(&self) -> bool {
        self.devices.iter().all(|device| device.is_aligned)
    }
}

impl MomentScale {
    fn new(profiles: &[Profile], device: &DeviceTrack, places: &[f64]) -> Self {
        let tracks = tracks::stacks(profiles, device).into_iter();
        let stacks = tracks.filter_map(|track| Some(StackScale { fit: Fit::of(places, &track.held)?, track }));
        Self { stacks: stacks.collect() }
    }

    /// The memory at a place, `reach` times as far as the farthest run.
    fn at(&self, x: f64, reach: f64) -> Range {
        let ranges = self.stacks.iter().map(|stack| stack.fit.at(x, reach));
        ranges.fold(Range::default(), |sum, range| sum.with(range, Add::add))
    }

    /// The memory at a place, as the runs at some of the places predict it.
    fn predicted(&self, x: f64, places: &[f64]) -> f64 {
        let fits = self.stacks.iter().filter_map(|stack| Fit::of(places, &stack.track.held));
        fits.map(|fit| fit.best.at(x).max(0.0)).sum()
    }
}

impl DeviceScale {
    fn new(places: &[f64], profiles: &mut [Profile], device: &DeviceTrack, options: &Options) -> Self {
        let aligned = moments::moments(profiles, device, places, &options.at);
        let mut scale = Self {
            device: device.device,
            peaks: device.in_each(profiles).map(|run| run?.figures.allocated.peak).collect(),
            reserved: device.in_each(profiles).map(|run| run?.figures.reserved.peak).collect(),
            is_aligned: aligned.is_some(),
            moments: Vec::new(),
            forecasts: Vec::new(),
            check: None,
            full: None,
            budget: options.device_memory.map(|memory| memory.budget_of_last(profiles, device.device)),
        };
        // Runs without common moments are compared at their peaks.
        for moment in aligned.unwrap_or_else(|| vec![Moment::new()]) {
            for ((profile, index), at) in profiles.iter_mut().zip(&device.indices).zip(moment) {
                let places = index.map(|index| (profile.devices[index].device, at)).into_iter().collect();
                profile.look_at(profile::Moment::Aligned(Arc::new(places)));
            }
            scale.moments.push(MomentScale::new(profiles, device, places));
        }
        let last = places.last().copied().unwrap_or(1.0);
        scale.check = scale.check(places);
        scale.forecasts = options.at.iter().map(|&x| scale.forecast(x, last)).collect();
        scale.full = scale.budget.map(|budget| scale.full(budget.usable(), last));
        scale
    }

    /// The last run as the others predict it, where these are enough.
    fn check(&self, places: &[f64]) -> Option<Check> {
        let (&x, earlier) = places.split_last().filter(|(_, earlier)| earlier.len() >= FEWEST_TO_TEST)?;
        let predicted = self.moments.iter().map(|moment| moment.predicted(x, earlier)).fold(0.0, f64::max);
        Some(Check { x, predicted, peak: self.peaks.last().copied().flatten()? })
    }

    /// The memory at a place; `last` is that of the last run.
    #[must_use]
    pub fn forecast(&self, x: f64, last: f64) -> Forecast {
        let mut peak = Range::default();
        let mut moment = 0;
        for (index, range) in self.moments.iter().map(|moment| moment.at(x, x / last)).enumerate() {
            if range.best > peak.best {
                moment = index;
            }
            peak = peak.with(range, f64::max);
        }
        Forecast { x, moment, peak, reserved: self.overheads().map(|overheads| peak.with(overheads, Mul::mul)) }
    }

    /// How many times as much was reserved as allocated at the peaks of the runs; `None` where one is not known.
    fn overheads(&self) -> Option<Range> {
        let runs = self.reserved.iter().zip(&self.peaks);
        let ratios = runs.map(|(&reserved, &peak)| Some(approximate(reserved?) / approximate(peak?.max(1))));
        let ratios: Vec<f64> = ratios.collect::<Option<_>>()?;
        Some(Range {
            low: ratios.iter().copied().fold(f64::INFINITY, f64::min),
            best: *ratios.last()?,
            high: ratios.iter().copied().fold(0.0, f64::max),
        })
    }

    /// Where the device is full: where the reserved or the allocated peak exceeds its memory.
    fn full(&self, memory: u64, last: f64) -> Full {
        const VALUES: [fn(Range) -> f64; 3] = [|peak| peak.high, |peak| peak.best, |peak| peak.low];
        let [earliest, best, latest] = VALUES
            .map(|value| first_place(last, |x| value(self.forecast(x, last).higher_peak()) > approximate(memory)));
        Full { earliest, best, latest }
    }
}

impl Forecast {
    /// The allocated or the reserved peak, whichever is higher.
    fn higher_peak(&self) -> Range {
        self.reserved.map_or(self.peak, |reserved| self.peak.with(reserved, f64::max))
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
