//! How much is computed.

use std::fmt;
use std::str::FromStr;

use ptmem_base::units::{GivenSize, parse_size};

/// Memory that may hold values: operators whose values are beyond it are not computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compute {
    /// This many bytes; large products, convolutions and attention are not computed.
    UpTo(u64),
    /// Whatever the host can compute.
    All,
}

impl Compute {
    /// Room for the masks of a detector over all of its anchors. Of the limits in `limits.py` of benches/public, the largest
    /// with which no program takes more than 1.1 times as long as with 1 MiB.
    pub const DEFAULT: Self = Self::UpTo(256 << 20);

    /// The limit in bytes.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        match self {
            Self::UpTo(bytes) => bytes,
            Self::All => u64::MAX,
        }
    }
}

impl fmt::Display for Compute {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UpTo(bytes) => GivenSize(*bytes).fmt(out),
            Self::All => out.write_str("all"),
        }
    }
}

impl FromStr for Compute {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "all" {
            return Ok(Self::All);
        }
        let size = parse_size(text).map_err(|error| format!("{error}, or all"))?;
        Ok(Self::UpTo(size))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_a_size_or_all() {
        assert_eq!("all".parse(), Ok(Compute::All));
        assert_eq!("2GiB".parse(), Ok(Compute::UpTo(2 << 30)));
        assert_eq!(Compute::DEFAULT.to_string().parse(), Ok(Compute::DEFAULT));
        assert!("some".parse::<Compute>().is_err());
    }
}
