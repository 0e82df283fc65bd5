//! Figures that cannot be: more memory than the card has, or more allocated than reserved.
//!
//! PyTorch counts what its allocator was asked for. A custom allocator may serve it from elsewhere, or give memory back that
//! PyTorch goes on to count: after vLLM's sleep mode, 198 GB were "reserved" on a card of 140 GB
//! (<https://github.com/vllm-project/vllm/issues/33625>).

use ptmem_base::diagnostic::{Code, Diagnostic};
use ptmem_base::units::Size;

use super::{DeviceProfile, Profile};
use crate::trace::Measure;

/// What explains it, as far as can be inferred.
const WHY: &str = "a custom allocator (a pluggable allocator or a MemPool, as of vLLM's sleep mode) probably holds other memory than \
                   PyTorch counts";

impl Profile {
    /// The reason why a counter of a device cannot be what the device holds; `None` if it can.
    pub fn impossible(&self, device: &DeviceProfile, measure: Measure) -> Option<String> {
        let words = self.beyond_card(device, measure).or_else(|| beyond_reserved(device, measure))?;
        Some(format!("{words}: {WHY}"))
    }

    /// The diagnostics of counters that cannot be, one for each device.
    pub(super) fn impossible_figures(&self) -> Vec<Diagnostic> {
        let found = self.devices.iter().filter_map(|device| {
            let words = Measure::ALL.into_iter().rev().find_map(|measure| self.impossible(device, measure))?;
            Some(Diagnostic::new(Code::FiguresImpossible, device.device, words))
        });
        found.collect()
    }

    fn beyond_card(&self, device: &DeviceProfile, measure: Measure) -> Option<String> {
        let cards = self.run.iter().flat_map(|run| &run.cards);
        let memory = cards.filter(|card| card.device == device.device).find_map(|card| card.memory)?;
        let most = highest(device, measure).filter(|most| *most > memory)?;
        let name = <&str>::from(measure);
        Some(format!("{name} bytes reach {}, and the card has {}", Size(most), Size(memory)))
    }
}

/// The most that a counter is known to have been.
fn highest(device: &DeviceProfile, measure: Measure) -> Option<u64> {
    let counter = device.figures.counter(measure);
    counter.peak.max(counter.end)
}

/// Only figures without a history can say so: reserved bytes of a recording are then not known.
fn beyond_reserved(device: &DeviceProfile, measure: Measure) -> Option<String> {
    let allocated = highest(device, Measure::Allocated).filter(|_| device.is_numbers())?;
    let reserved = device.figures.reserved.peak.filter(|reserved| *reserved < allocated)?;
    matches!(measure, Measure::Allocated | Measure::Reserved)
        .then(|| format!("allocated bytes reach {}, and reserved ones only {}", Size(allocated), Size(reserved)))
}
