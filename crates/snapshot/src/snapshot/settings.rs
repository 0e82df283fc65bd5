//! The settings of the caching allocator.

use std::collections::BTreeMap;
use std::str::FromStr;

/// Key under which a snapshot keeps the text that was last given to the allocator.
const TEXT: &str = "PYTORCH_CUDA_ALLOC_CONF";

/// The same in snapshots of GPUs of Intel, which lack that key. Their allocator rounds as the one for CUDA
/// does by default, and of this text it follows `expandable_segments` alone (c10/xpu/XPUCachingAllocator.cpp, 2026-05).
const TEXT_OF_XPU: &str = "PYTORCH_ALLOC_CONF";

/// A key of snapshots since PyTorch 2.9.
const SINCE_2_9: &str = "graph_capture_record_stream_reuse";

/// The part of `allocator_settings` that the figures depend on, and all of it as text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllocatorSettings {
    /// True if the file has them (PyTorch 2.3 and later), or the user gave them.
    pub present: bool,
    /// True if the user gave them, as those of the whole run.
    pub given: bool,
    /// `expandable_segments`.
    pub expandable_segments: bool,
    /// `max_split_size` in bytes; `None` where unlimited.
    pub max_split_size: Option<u64>,
    /// `max_non_split_rounding_mb` in bytes, which only the text states; `None` for the default.
    pub max_non_split_rounding: Option<u64>,
    /// `roundup_power2_divisions` for 1 MiB, 2 MiB, … 32 GiB; all 0 where off.
    pub roundup_power2_divisions: [u64; 16],
    /// Every setting as text, by key, to say what differs between two snapshots.
    pub all: BTreeMap<String, String>,
}

/// A text that states no allocator settings.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid allocator setting '{0}': expected settings as in PYTORCH_CUDA_ALLOC_CONF, for example \
     max_split_size_mb:64,roundup_power2_divisions:4,expandable_segments:True"
)]
pub struct ParseSettingsError(String);

impl FromStr for AllocatorSettings {
    type Err = ParseSettingsError;

    /// Reads settings that the user states for the whole run.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self { given: true, ..Self::parse(text)? })
    }
}

impl AllocatorSettings {
    /// Key of [`AllocatorSettings::roundup_power2_divisions`] in a snapshot.
    pub(super) const DIVISIONS: &str = "roundup_power2_divisions";

    /// Reads settings as PyTorch reads `PYTORCH_CUDA_ALLOC_CONF`. Settings that block sizes do not depend on are kept
    /// as text only.
    fn parse(text: &str) -> Result<Self, ParseSettingsError> {
        let mut settings = Self { present: true, ..Self::default() };
        settings.all.insert(TEXT.to_owned(), text.to_owned());
        for setting in split_outside_brackets(text) {
            settings.set(setting).ok_or_else(|| ParseSettingsError(setting.to_owned()))?;
        }
        Ok(settings)
    }

    /// Takes over a setting `key:value`; `None` where it cannot be read.
    fn set(&mut self, setting: &str) -> Option<()> {
        let (key, value) = setting.split_once(':')?;
        match key.trim() {
            "max_split_size_mb" => self.max_split_size = Some(mebibytes(value)?),
            "max_non_split_rounding_mb" => self.max_non_split_rounding = Some(mebibytes(value)?),
            "expandable_segments" => self.expandable_segments = truth(value)?,
            Self::DIVISIONS => self.roundup_power2_divisions = divisions(value.trim())?,
            _ => {}
        }
        Some(())
    }

    /// Takes what only the text of the settings states.
    pub(super) fn complete_from_text(&mut self) {
        let text = self.all.get(TEXT).and_then(|text| Self::parse(text).ok());
        self.max_non_split_rounding = text.and_then(|settings| settings.max_non_split_rounding);
    }

    /// True if the allocator was given no settings at all, neither at its start nor later: the defaults always held.
    #[must_use]
    pub fn never_set(&self) -> bool {
        let is_default = !self.expandable_segments
            && self.max_split_size.is_none()
            && self.roundup_power2_divisions.iter().all(|&divisions| divisions <= 1);
        is_default && self.present && self.text().is_some_and(String::is_empty)
    }

    /// The text that was last given to the allocator. Where it is known, other settings may have been before.
    #[must_use]
    pub fn text(&self) -> Option<&String> {
        self.all.get(TEXT).or_else(|| self.all.get(TEXT_OF_XPU))
    }

    /// True if the settings cannot all come from the text that was given last: texts that do not name
    /// `expandable_segments` leave it as it was, so another text named it.
    #[must_use]
    pub fn are_of_several_texts(&self) -> bool {
        let text = self.text().filter(|text| !text.is_empty());
        self.expandable_segments && text.is_some_and(|text| !text.contains("expandable_segments"))
    }

    /// True if there can be pools that never split (`MemPool(no_split=True)`, PyTorch 2.10 and later): the release is 2.9 or later.
    #[must_use]
    pub fn may_have_unsplit_pools(&self) -> bool {
        self.all.contains_key(SINCE_2_9)
    }
}

/// The settings in a text; commas within brackets belong to one of them.
fn split_outside_brackets(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_i32;
    text.split(move |letter| {
        depth += i32::from(letter == '[') - i32::from(letter == ']');
        letter == ',' && depth == 0
    })
    .filter(|setting| !setting.trim().is_empty())
}

fn mebibytes(text: &str) -> Option<u64> {
    text.trim().parse::<u64>().ok()?.checked_mul(1 << 20)
}

fn truth(text: &str) -> Option<bool> {
    match text.trim() {
        "True" | "true" => Some(true),
        "False" | "false" => Some(false),
        _ => None,
    }
}

fn power_of_two(text: &str) -> Option<u64> {
    text.trim().parse::<u64>().ok().filter(|number| number.is_power_of_two())
}

/// A number for all sizes, or a list such as `[256:1,512:2,1024:4,>:8]`, in which each entry applies from its size in
/// MiB up to the next.
fn divisions(text: &str) -> Option<[u64; 16]> {
    let Some(list) = text.strip_prefix('[').and_then(|list| list.strip_suffix(']')) else {
        return Some([power_of_two(text)?; 16]);
    };
    let mut found = [0; 16];
    let mut next = 0;
    let mut latest = 0;
    for entry in list.split(',') {
        let (size, value) = entry.split_once(':')?;
        latest = power_of_two(value)?;
        if size.trim() == ">" {
            found[next..].fill(latest);
            return Some(found);
        }
        let interval = (power_of_two(size)?.ilog2() as usize).min(found.len() - 1);
        if interval >= next {
            found[next..=interval].fill(latest);
            next = interval + 1;
        }
    }
    found[next..].fill(latest);
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_as_pytorch_reads_them() {
        let text = "max_split_size_mb:64, roundup_power2_divisions:[256:1,512:2,1024:4,>:8],expandable_segments:True";
        let settings = AllocatorSettings::parse(text).unwrap();
        assert_eq!(settings.max_split_size, Some(64 << 20));
        assert!(settings.expandable_segments && settings.present && !settings.never_set());
        assert_eq!(settings.roundup_power2_divisions, [1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 4, 8, 8, 8, 8, 8]);
        assert_eq!(AllocatorSettings::parse("roundup_power2_divisions:4").unwrap().roundup_power2_divisions, [4; 16]);
        assert_eq!(
            AllocatorSettings::parse("max_non_split_rounding_mb:40,max_split_size_mb:50")
                .unwrap()
                .max_non_split_rounding,
            Some(40 << 20)
        );
        assert!(AllocatorSettings::parse("").unwrap().never_set());
        for text in ["max_split_size_mb", "max_split_size_mb:x", "expandable_segments:2", "roundup_power2_divisions:3"]
        {
            assert!(AllocatorSettings::parse(text).is_err(), "{text}");
        }
    }
}
