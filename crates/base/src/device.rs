//! The name of what memory belongs to.

use std::num::{ParseIntError, TryFromIntError};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::text::numbers;

/// A device, or the memory of the host that CUDA pinned, which has an allocator of its own and is measured as a device is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, strum::Display, Serialize, Deserialize)]
#[serde(into = "i64", try_from = "i64")]
pub enum DeviceId {
    /// The device with this ordinal.
    #[strum(to_string = "device {0}")]
    Ordinal(u32),
    /// Pinned host memory.
    #[strum(to_string = "pinned host memory")]
    Host,
}

impl DeviceId {
    /// The first device.
    pub const FIRST: Self = Self::Ordinal(0);
    /// The word for pinned host memory on the command line and in limits.
    pub const HOST: &'static str = "host";

    /// True unless it is the host.
    pub fn is_device(self) -> bool {
        self != Self::Host
    }

    /// The ordinal of a device.
    pub fn ordinal(self) -> Option<u32> {
        match self {
            Self::Ordinal(ordinal) => Some(ordinal),
            Self::Host => None,
        }
    }
}

impl Default for DeviceId {
    fn default() -> Self {
        Self::FIRST
    }
}

impl From<u32> for DeviceId {
    fn from(ordinal: u32) -> Self {
        Self::Ordinal(ordinal)
    }
}

impl FromStr for DeviceId {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == Self::HOST { Ok(Self::Host) } else { text.parse().map(Self::Ordinal) }
    }
}

/// The host's number in PyTorch's files and in machine-readable output.
const HOST_NUMBER: i64 = -1;

impl From<DeviceId> for i64 {
    fn from(device: DeviceId) -> Self {
        device.ordinal().map_or(HOST_NUMBER, Self::from)
    }
}

impl TryFrom<i64> for DeviceId {
    type Error = TryFromIntError;

    fn try_from(number: i64) -> Result<Self, Self::Error> {
        if number == HOST_NUMBER { Ok(Self::Host) } else { u32::try_from(number).map(Self::Ordinal) }
    }
}

/// Devices in words, such as those of a file.
pub fn listed(known: &[DeviceId]) -> String {
    let ordinals: Vec<u64> = known.iter().filter_map(|device| device.ordinal()).map(u64::from).collect();
    let devices = match &*ordinals {
        [] => None,
        [only] => Some(format!("device {only}")),
        _ => Some(format!("devices {}", numbers(ordinals))),
    };
    let host = known.contains(&DeviceId::Host).then(|| DeviceId::Host.to_string());
    let all: Vec<String> = devices.into_iter().chain(host).collect();
    if all.is_empty() { "none".to_owned() } else { all.join(" and ") }
}
