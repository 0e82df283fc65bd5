//! The cards that can be simulated.

use std::fmt;

use crate::text::did_you_mean;

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

/// A name that no card has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown card '{name}'{}", did_you_mean(name, Card::ALL.iter().map(|card| card.key)))]
pub struct UnknownCard {
    name: String,
}

const MIB: u64 = 1 << 20;

const fn card(
    key: &'static str,
    name: &'static str,
    capability: u32,
    processors: u32,
    memory: u64,
    l2_cache: u64,
) -> Card {
    Card { key, name, capability, processors, memory: memory * MIB, l2_cache: l2_cache * MIB }
}

impl Card {
    /// All cards, by generation.
    pub const ALL: [Self; 45] = [
        card("p100", "Tesla P100-PCIE-16GB", 60, 56, 16_280, 4),
        card("p40", "Tesla P40", 61, 30, 22_919, 3),
        card("gtx-1080-ti", "NVIDIA GeForce GTX 1080 Ti", 61, 28, 11_178, 3),
        card("v100", "Tesla V100-SXM2-16GB", 70, 80, 16_160, 6),
        card("v100-32gb", "Tesla V100-SXM2-32GB", 70, 80, 32_510, 6),
        card("t4", "Tesla T4", 75, 40, 15_102, 4),
        card("rtx-2080-ti", "NVIDIA GeForce RTX 2080 Ti", 75, 68, 11_019, 6),
        card("titan-rtx", "NVIDIA TITAN RTX", 75, 72, 24_220, 6),
        card("quadro-rtx-6000", "Quadro RTX 6000", 75, 72, 24_190, 6),
        card("quadro-rtx-8000", "Quadro RTX 8000", 75, 72, 48_600, 6),
        card("a100", "NVIDIA A100-SXM4-80GB", 80, 108, 81_152, 40),
        card("a100-40gb", "NVIDIA A100-SXM4-40GB", 80, 108, 40_536, 40),
        card("a30", "NVIDIA A30", 80, 56, 24_062, 24),
        card("a10", "NVIDIA A10", 86, 72, 22_588, 6),
        card("a10g", "NVIDIA A10G", 86, 80, 22_723, 6),
        card("a40", "NVIDIA A40", 86, 84, 45_634, 6),
        card("rtx-a6000", "NVIDIA RTX A6000", 86, 84, 48_685, 6),
        card("rtx-a5000", "NVIDIA RTX A5000", 86, 64, 24_247, 6),
        card("rtx-a4000", "NVIDIA RTX A4000", 86, 48, 16_108, 4),
        card("rtx-3060", "NVIDIA GeForce RTX 3060", 86, 28, 12_037, 3),
        card("rtx-3070", "NVIDIA GeForce RTX 3070", 86, 46, 7_971, 4),
        card("rtx-3080-ti", "NVIDIA GeForce RTX 3080 Ti", 86, 80, 12_044, 6),
        card("rtx-3080", "NVIDIA GeForce RTX 3080", 86, 68, 10_015, 5),
        card("rtx-3090", "NVIDIA GeForce RTX 3090", 86, 82, 24_268, 6),
        card("l4", "NVIDIA L4", 89, 58, 22_563, 48),
        card("l40s", "NVIDIA L40S", 89, 142, 45_458, 96),
        card("rtx-6000-ada", "NVIDIA RTX 6000 Ada Generation", 89, 142, 48_645, 96),
        card("rtx-4060-ti", "NVIDIA GeForce RTX 4060 Ti", 89, 34, 16_060, 32),
        card("rtx-4070", "NVIDIA GeForce RTX 4070", 89, 46, 11_994, 36),
        card("rtx-4080", "NVIDIA GeForce RTX 4080", 89, 76, 15_992, 64),
        card("l20", "NVIDIA L20", 89, 92, 45_458, 96),
        card("rtx-4090", "NVIDIA GeForce RTX 4090", 89, 128, 24_217, 72),
        card("h100", "NVIDIA H100 80GB HBM3", 90, 132, 81_089, 50),
        card("h100-pcie", "NVIDIA H100 PCIe", 90, 114, 80_994, 50),
        card("h100-nvl", "NVIDIA H100 NVL", 90, 132, 95_334, 60),
        card("h20", "NVIDIA H20", 90, 78, 97_281, 60),
        card("h200", "NVIDIA H200", 90, 132, 143_166, 60),
        card("gh200", "NVIDIA GH200 480GB", 90, 132, 96_768, 60),
        card("b200", "NVIDIA B200", 100, 148, 182_642, 126),
        card("b300", "NVIDIA B300 SXM6 AC", 103, 148, 275_040, 126),
        card("rtx-5070-ti", "NVIDIA GeForce RTX 5070 Ti", 120, 70, 15_842, 48),
        card("rtx-5080", "NVIDIA GeForce RTX 5080", 120, 84, 15_842, 64),
        card("rtx-5090", "NVIDIA GeForce RTX 5090", 120, 170, 32_120, 96),
        card("rtx-pro-6000", "NVIDIA RTX PRO 6000 Blackwell Server Edition", 120, 188, 97_250, 128),
        card("gb10", "NVIDIA GB10", 121, 48, 122_570, 24),
    ];

    /// The card that is simulated unless another is asked for.
    pub const DEFAULT: &'static str = "a100";

    /// The card with a name: `a100`, in any case, with or without the dashes; or the driver's name.
    #[must_use]
    pub fn find(name: &str) -> Option<Self> {
        let wanted = simple(name);
        Self::ALL.into_iter().find(|card| simple(card.key) == wanted || simple(card.name) == wanted)
    }

    /// The same, or an error that names the card whose name is nearest.
    ///
    /// # Errors
    ///
    /// If there is no such card.
    pub fn named(name: &str) -> Result<Self, UnknownCard> {
        Self::find(name).ok_or_else(|| UnknownCard { name: name.to_owned() })
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
        assert_eq!(Card::find("A100").unwrap().name, "NVIDIA A100-SXM4-80GB");
        assert_eq!(Card::find("rtx 4090").unwrap().capability, 89);
        assert_eq!(Card::find("Tesla T4").unwrap().key, "t4");
        let unknown = Card::named("a1000").unwrap_err().to_string();
        assert_eq!(unknown, "unknown card 'a1000'; did you mean 'a100'?");
        assert!(Card::find(Card::DEFAULT).is_some());
    }

    #[test]
    fn no_two_cards_share_a_name() {
        for card in Card::ALL {
            let same = Card::ALL.iter().filter(|other| simple(other.key) == simple(card.key));
            assert_eq!(same.count(), 1, "{}", card.key);
        }
    }
}
