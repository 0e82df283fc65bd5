//! The cards that can be simulated.

use std::fmt;

use ptmem_base::text::did_you_mean;
use ptmem_base::units::cuda_context;

/// A card as its driver reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Card {
    /// Name on the command line.
    pub key: &'static str,
    /// Name that the driver gives.
    pub name: &'static str,
    /// Compute capability times ten.
    pub capability: u32,
    /// Streaming multiprocessors.
    pub processors: u32,
    /// Memory that a program sees, in bytes. It differs by up to one percent between boards and drivers.
    pub memory: u64,
    /// Second-level cache, in bytes.
    pub l2_cache: u64,
}

const MIB: u64 = 1 << 20;

/// The table of all cards, by generation; memory and cache in MiB.
const TABLE: &str = include_str!("cards.csv");

impl Card {
    /// The card that is simulated by default.
    pub const DEFAULT: &'static str = "a100";

    /// All cards, by generation.
    pub fn all() -> impl Iterator<Item = Self> {
        TABLE.lines().skip(1).filter_map(Self::parse)
    }

    fn parse(line: &'static str) -> Option<Self> {
        let mut cells = line.split(',');
        Some(Self {
            key: cells.next()?,
            name: cells.next()?,
            capability: cells.next()?.parse().ok()?,
            processors: cells.next()?.parse().ok()?,
            memory: cells.next()?.parse::<u64>().ok()? * MIB,
            l2_cache: cells.next()?.parse::<u64>().ok()? * MIB,
        })
    }

    /// The card with a name: `a100`, in any case, with or without the dashes; or the driver's name.
    ///
    /// # Errors
    /// If there is no such card; names the one whose name is nearest.
    pub fn named(name: &str) -> Result<Self, String> {
        let wanted = simple(name);
        let found = Self::all().find(|card| simple(card.key) == wanted || simple(card.name) == wanted);
        let near = did_you_mean(name, Self::all().map(|card| card.key));
        found.ok_or_else(|| format!("unknown card '{name}'{near}"))
    }

    /// Bytes of its memory that the CUDA context takes.
    #[must_use]
    pub fn context(&self) -> u64 {
        cuda_context(self.processors.into())
    }

    /// Compute capability as people write it.
    #[must_use]
    pub fn capability_text(&self) -> String {
        format!("{}.{}", self.capability / 10, self.capability % 10)
    }
}

impl fmt::Display for Card {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// A name without case and separators.
fn simple(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|letter| letter.to_ascii_lowercase()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cards_are_found_by_short_and_full_names() {
        assert_eq!(Card::named("A100").unwrap().name, "NVIDIA A100-SXM4-80GB");
        assert_eq!(Card::named("rtx 4090").unwrap().capability, 89);
        assert_eq!(Card::named("Tesla T4").unwrap().key, "t4");
        let unknown = Card::named("a1000").unwrap_err();
        assert_eq!(unknown, "unknown card 'a1000'; did you mean 'a100'?");
        assert!(Card::named(Card::DEFAULT).is_ok());
    }

    #[test]
    fn no_two_cards_share_a_name() {
        for card in Card::all() {
            let same = Card::all().filter(|other| simple(other.key) == simple(card.key));
            assert_eq!(same.count(), 1, "{}", card.key);
        }
    }

    #[test]
    fn every_line_of_the_table_is_a_card() {
        assert_eq!(Card::all().count(), TABLE.lines().count() - 1);
    }
}
