//! How memory scales with a number that differs from run to run: a batch size, a context length, a number of layers.

mod fit;

use ptmem_base::device::DeviceId;
use ptmem_base::diagnostic::Diagnostic;
use ptmem_base::units::{approximate, whole};
use ptmem_compare::budget::{DeviceBudget, DeviceMemory};
use ptmem_compare::tracks::{self, DeviceTrack, StackTrack};
use ptmem_trace::profile::{Held, Profile};
use ptmem_trace::stack::GroupBy;

pub use fit::{Fit, Range, Shape};

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
    pub runs: Vec<MeasuredRun>,
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
pub struct MeasuredRun {
    /// Its file.
    pub path: String,
    /// The number that was varied.
    pub x: f64,
}

/// A device over the runs.
#[derive(Debug)]
pub struct DeviceScale {
    /// Its ordinal.
    pub device: DeviceId,
    /// Allocated peaks of the runs; `None` where one is not known.
    pub peaks: Vec<Option<u64>>,
    /// Reserved peaks of the runs.
    pub reserved: Vec<Option<u64>>,
    /// How the allocated peak depends on what was varied; `None` if no run has a known one.
    pub fit: Option<Fit>,
    /// The stacks at the peaks of the runs, the largest of the last run first.
    pub stacks: Vec<StackScale>,
    /// The prediction for each requested x-value.
    pub forecasts: Vec<Forecast>,
    /// The first place at which the device is full, where its memory is known; `None` where it is never full within reach.
    pub full: Option<Range<Option<f64>>>,
    /// The memory of the device, where it is given.
    pub budget: Option<DeviceBudget>,
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
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Forecast {
    /// The place.
    pub x: f64,
    /// The allocated peak.
    pub peak: Range<u64>,
    /// The reserved peak.
    pub reserved: Option<Range<u64>>,
}

/// With fewer runs, no full device is forecast: a line fits any two.
const FEWEST: usize = 3;

/// The farthest place to look for a full device, in multiples of the last run's.
const FARTHEST: f64 = 1e6;

impl Scale {
    /// Fits runs in the order of the number that was varied. Their profiles are those at the peak.
    #[must_use]
    pub fn new(name: String, runs: Vec<MeasuredRun>, profiles: &[Profile], options: &Options) -> Self {
        let places: Vec<f64> = runs.iter().map(|run| run.x).collect();
        let devices =
            tracks::devices(profiles).iter().map(|of| DeviceScale::new(&places, profiles, of, options)).collect();
        let group_by = profiles.last().map(|profile| profile.options.group_by).unwrap_or_default();
        Self { name, search: None, runs, devices, group_by, diagnostics: tracks::diagnostics(profiles) }
    }
}

impl DeviceScale {
    fn new(places: &[f64], profiles: &[Profile], device: &DeviceTrack, options: &Options) -> Self {
        let mut tracks = tracks::stacks(profiles, device);
        tracks.retain(|track| track.held.iter().any(|held| held.bytes > 0));
        let peaks: Vec<_> = device.in_each(profiles).map(|run| run?.figures.allocated.peak).collect();
        let known = places.iter().zip(&peaks).enumerate().filter_map(|(at, (&x, &peak))| {
            Some((x, Held { bytes: peak?, blocks: tracks.iter().map(|track| track.held[at].blocks).sum() }))
        });
        let (known, held): (Vec<_>, Vec<_>) = known.unzip();
        let stacks =
            tracks.into_iter().filter_map(|track| Some(StackScale { fit: Fit::of(places, &track.held)?, track }));
        let mut scale = Self {
            device: device.device,
            peaks,
            reserved: device.in_each(profiles).map(|run| run?.figures.reserved.peak).collect(),
            fit: Fit::of(&known, &held),
            stacks: stacks.collect(),
            forecasts: Vec::new(),
            full: None,
            budget: options.device_memory.map(|memory| memory.budget_of_last(profiles, device.device)),
        };
        let last = places.last().copied().unwrap_or(1.0);
        scale.forecasts = options.at.iter().filter_map(|&x| scale.forecast(x, last)).collect();
        let budget = scale.budget.filter(|_| known.len() >= FEWEST);
        scale.full = budget.map(|budget| scale.full(budget.usable(), last));
        scale
    }

    /// The memory at a place; `last` is that of the last run.
    #[must_use]
    pub fn forecast(&self, x: f64, last: f64) -> Option<Forecast> {
        let peak = self.fit.as_ref()?.at(x, x / last);
        let reserved = self.overheads().map(|overheads| peak.with(overheads, |peak, more| whole(peak * more)));
        Some(Forecast { x, peak: peak.map(whole), reserved })
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
    fn full(&self, memory: u64, last: f64) -> Range<Option<f64>> {
        const VALUES: [fn(Range<u64>) -> u64; 3] = [|peak| peak.high, |peak| peak.best, |peak| peak.low];
        let [low, best, high] = VALUES.map(|value| {
            first_place(last, |x| self.forecast(x, last).is_some_and(|at| value(at.higher_peak()) > memory))
        });
        Range { low, best, high }
    }
}

impl Forecast {
    /// The allocated or the reserved peak, whichever is higher.
    fn higher_peak(&self) -> Range<u64> {
        self.reserved.map_or(self.peak, |reserved| self.peak.with(reserved, u64::max))
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
