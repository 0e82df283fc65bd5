//! The memory of a device that PyTorch's allocator can have: all of it but what the CUDA context, NCCL and others take.

use std::fmt;

use ptmem_base::device::DeviceId;
use ptmem_base::text::count;
use ptmem_base::units::{Size, cuda_context};
use ptmem_snapshot::snapshot::{CardFacts, RunFacts};
use ptmem_trace::profile::Profile;

/// The memory of a device, as the user gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceMemory {
    /// Bytes of the device.
    pub bytes: u64,
    /// Bytes that PyTorch's allocator cannot have; `None` leaves them to the recording.
    pub overhead: Option<u64>,
}

/// The memory of a device, and the part of it that PyTorch's allocator cannot have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceBudget {
    /// Bytes of the device.
    pub memory: u64,
    /// The part that PyTorch's allocator cannot have.
    pub overhead: Overhead,
}

/// The part of a device's memory that PyTorch's allocator cannot have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum Overhead {
    /// As the user gives it.
    Given(u64),
    /// As it was on the card when the snapshot was taken.
    Measured(u64),
    /// Estimated by the card and its communicators.
    Estimated(Estimate),
    /// The recording does not name the card: nothing is subtracted.
    Unknown,
}

/// An estimate of what a card loses to the CUDA context and to NCCL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Estimate {
    /// Bytes of the CUDA context with the kernels that are loaded.
    pub context: u64,
    /// Multiprocessors of the card, which decide that.
    pub processors: u64,
    /// Bytes of the buffers of NCCL's communicators.
    pub nccl: u64,
    /// Number of these with more than one rank.
    pub communicators: u64,
}

const MIB: u64 = 1 << 20;

/// The buffers of a connection of a channel of NCCL: 10 MiB where it receives (its three protocols), 2 MiB where it sends.
const CONNECTION: u64 = 12 * MIB;

impl DeviceMemory {
    /// What PyTorch's allocator can have of it on a device, by the recording.
    pub fn budget(self, run: Option<&RunFacts>, device: DeviceId) -> DeviceBudget {
        let card = run.and_then(|run| run.cards.iter().find(|card| card.device == device));
        let overhead = match (self.overhead, card) {
            (Some(bytes), _) => Overhead::Given(bytes),
            (None, Some(CardFacts { others: Some(bytes), .. })) => Overhead::Measured(*bytes),
            (None, Some(card)) => Overhead::Estimated(Estimate::of(card)),
            (None, None) => Overhead::Unknown,
        };
        DeviceBudget { memory: self.bytes, overhead }
    }

    /// The same on a device of several profiles, by the last that has it.
    pub fn budget_of_last(self, profiles: &[Profile], device: DeviceId) -> DeviceBudget {
        let mut from_last = profiles.iter().rev().map(|profile| profile.run.as_ref());
        let run = from_last.find(|run| run.is_some_and(|run| run.cards.iter().any(|card| card.device == device)));
        self.budget(run.flatten(), device)
    }
}

/// Memory in use on a device outside of PyTorch's allocator when the snapshot was taken.
pub fn outside(run: Option<&RunFacts>, device: DeviceId) -> Overhead {
    DeviceMemory { bytes: 0, overhead: None }.budget(run, device).overhead
}

impl DeviceBudget {
    /// Bytes that PyTorch's allocator can have.
    pub fn usable(self) -> u64 {
        self.memory.saturating_sub(self.overhead.bytes())
    }

    /// Bytes that reserved ones leave of it; negative where both do not fit.
    pub fn left(self, reserved: u64) -> i128 {
        i128::from(self.memory) - i128::from(self.overhead.bytes()) - i128::from(reserved)
    }
}

ptmem_base::named!(Overhead);

impl Overhead {
    /// Bytes of it.
    pub fn bytes(self) -> u64 {
        match self {
            Self::Given(bytes) | Self::Measured(bytes) => bytes,
            Self::Estimated(Estimate { context, nccl, .. }) => context.saturating_add(nccl),
            Self::Unknown => 0,
        }
    }

    /// Its parts, where it is estimated.
    pub fn estimate(self) -> Option<Estimate> {
        if let Self::Estimated(estimate) = self { Some(estimate) } else { None }
    }

    /// Its size and origin in a few words.
    pub fn in_short(self) -> String {
        match self {
            Self::Unknown => "overhead unknown".to_owned(),
            _ => format!("{} overhead ({})", Size(self.bytes()), self.name()),
        }
    }
}

/// Where it is from, without its size.
impl fmt::Display for Overhead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Given(_) => f.write_str("given"),
            Self::Measured(_) => f.write_str("measured at the dump: CUDA context, NCCL and other programs"),
            Self::Estimated(estimate) => estimate.fmt(f),
            Self::Unknown => f.write_str("unknown, nothing subtracted: the recording does not name the card"),
        }
    }
}

impl fmt::Display for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { context, processors, nccl, communicators } = *self;
        write!(f, "estimated: {} for the CUDA context ({processors} multiprocessors)", Size(context))?;
        match communicators {
            0 => f.write_str(", no NCCL"),
            _ => {
                let communicators = count(communicators, "communicator", "communicators");
                write!(f, ", {} for {communicators} of NCCL", Size(nccl))
            }
        }
    }
}

impl Estimate {
    fn of(card: &CardFacts) -> Self {
        let channels = channels(card);
        let mut nccl: u64 = 0;
        let mut communicators: u64 = 0;
        for &[ranks, count] in &card.communicators {
            if ranks > 1 {
                let bytes = channels * connections(ranks) * CONNECTION;
                nccl = nccl.saturating_add(bytes.saturating_mul(count));
                communicators = communicators.saturating_add(count);
            }
        }
        Self { context: cuda_context(card.processors), processors: card.processors, nccl, communicators }
    }
}

/// Connections of each channel: a ring has one neighbour to receive from, a tree has one with two ranks and two with more.
/// More ranks share these.
fn connections(ranks: u64) -> u64 {
    if ranks == 2 { 2 } else { 3 }
}

/// Channels of a communicator: for cards on NVLink the number that NCCL opens in a node of eight, otherwise two.
fn channels(card: &CardFacts) -> u64 {
    let on_bridge = ["PCIe", "PCIE", "NVL", "A30"].iter().any(|part| card.name.contains(part));
    match card.capability {
        _ if on_bridge => 2,
        [7, 0] => 12,
        [8, 0] => 24,
        [9 | 10, _] => 32,
        _ => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(name: &str, capability: [u32; 2], processors: u64, communicators: &[[u64; 2]]) -> CardFacts {
        let communicators = communicators.to_vec();
        CardFacts {
            device: DeviceId::FIRST,
            name: name.to_owned(),
            capability,
            processors,
            communicators,
            others: None,
            memory: None,
        }
    }

    fn budget(card: CardFacts) -> DeviceBudget {
        let run = RunFacts { cards: vec![card], ..RunFacts::default() };
        DeviceMemory { bytes: 80 << 30, overhead: None }.budget(Some(&run), DeviceId::FIRST)
    }

    #[test]
    fn a_card_loses_memory_to_its_context_and_to_each_communicator() {
        let alone = budget(card("NVIDIA H100 80GB HBM3", [9, 0], 132, &[]));
        assert_eq!(alone.overhead.bytes(), 546 * MIB);
        assert_eq!(alone.usable(), (80 << 30) - 546 * MIB);
        assert!(alone.overhead.to_string().ends_with("(132 multiprocessors), no NCCL"));
        // A communicator of one rank has nobody to talk to.
        let of_eight = budget(card("NVIDIA H100 80GB HBM3", [9, 0], 132, &[[1, 4], [8, 1]]));
        assert_eq!(of_eight.overhead.bytes(), (546 + 32 * 36) * MIB);
        let more = budget(card("NVIDIA A100-SXM4-80GB", [8, 0], 108, &[[2, 1], [512, 2]]));
        assert_eq!(more.overhead.bytes(), (474 + 24 * 24 + 2 * 24 * 36) * MIB);
        assert!(more.overhead.to_string().ends_with("2.25 GiB for 3 communicators of NCCL"));
    }

    #[test]
    fn cards_without_nvlink_have_two_channels() {
        for (name, capability) in [("NVIDIA GeForce RTX 4090", [8, 9]), ("NVIDIA H100 PCIe", [9, 0])] {
            let Overhead::Estimated(estimate) = budget(card(name, capability, 100, &[[8, 1]])).overhead else {
                panic!()
            };
            assert_eq!(estimate.nccl, 72 * MIB, "{name}");
        }
    }

    #[test]
    fn the_user_knows_better_and_a_measured_figure_is_better_than_an_estimate() {
        let run = RunFacts {
            cards: vec![CardFacts { others: Some(700 * MIB), ..card("A", [8, 0], 108, &[[8, 1]]) }],
            ..RunFacts::default()
        };
        let memory = DeviceMemory { bytes: 1 << 30, overhead: None };
        assert_eq!(memory.budget(Some(&run), DeviceId::FIRST).overhead, Overhead::Measured(700 * MIB));
        let given = DeviceMemory { overhead: Some(2 << 30), ..memory }.budget(Some(&run), DeviceId::FIRST);
        assert_eq!((given.overhead, given.usable()), (Overhead::Given(2 << 30), 0));
        assert_eq!(given.left(1 << 20), -(1 << 30) - (1 << 20));
        assert_eq!(memory.budget(Some(&run), DeviceId::Ordinal(1)).overhead, Overhead::Unknown);
        assert_eq!(memory.budget(None, DeviceId::FIRST).usable(), 1 << 30);
    }

    #[test]
    fn counts_that_no_run_has_do_not_overflow() {
        let many = budget(card("H100", [9, 0], u64::MAX, &[[u64::MAX, u64::MAX], [3, 9]]));
        assert_eq!(many.usable(), 0);
    }
}
