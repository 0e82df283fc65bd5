//! The versions of Python that the wheels of the allowed releases of PyTorch are for.

use std::fs;
use std::ops::RangeInclusive;
use std::path::Path;

use super::clauses::keeps;

/// Minor versions of Python 3 with wheels for Linux, by release of PyTorch.
const WHEELS: [((u32, u32), RangeInclusive<u32>); 7] = [
    ((1, 12), 7..=10),
    ((1, 13), 7..=11),
    ((2, 0), 8..=11),
    ((2, 2), 8..=12),
    ((2, 5), 9..=13),
    ((2, 9), 10..=14),
    ((2, 15), 10..=15),
];

/// A minor version that none exceeds.
const MOST: u32 = 99;

/// Files that name packages, and the name of PyTorch there.
const FILES: [&str; 5] = ["requirements.txt", "pyproject.toml", "setup.py", "environment.yml", "environment.yaml"];

/// The requirement of PyTorch in a repository.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Torch {
    /// The file and the requirement: `requirements.txt (torch==2.1.0)`; empty if no file limits the release.
    pub(super) source: String,
    /// The newest release that is allowed, as far as it is limited.
    newest: Option<(u32, u32)>,
}

impl Torch {
    /// The requirement of the first file that has one with an upper limit.
    pub(super) fn of(root: &Path) -> Self {
        let found = FILES.into_iter().find_map(|file| {
            let text = fs::read_to_string(root.join(file)).ok()?;
            let (requirement, newest) = text.lines().find_map(limited)?;
            Some(Self { source: format!("{file} ({requirement})"), newest: Some(newest) })
        });
        found.unwrap_or_default()
    }

    /// The versions of Python that the newest allowed release has wheels for.
    fn pythons(&self) -> RangeInclusive<u32> {
        let newest = self.newest.unwrap_or((2, MOST));
        let since = WHEELS.into_iter().rev().find(|(release, _)| *release <= newest);
        since.map_or(7..=10, |(_, pythons)| pythons)
    }

    /// True if a release has wheels for a version of Python.
    pub(super) fn allows(&self, minor: u32) -> bool {
        minor <= *self.pythons().end()
    }

    /// The oldest version of Python that gets the newest allowed release.
    pub(super) fn least(&self) -> u32 {
        *self.pythons().start()
    }
}

/// The requirement of PyTorch in a line, and the newest release that it allows, if it limits that.
fn limited(line: &str) -> Option<(String, (u32, u32))> {
    let line = line.trim().trim_start_matches("- ").trim_start_matches(['"', '\'']);
    let rest = line.strip_prefix("torch").or_else(|| line.strip_prefix("pytorch"))?;
    let end = rest.find(['"', '\'', ';', '#']).unwrap_or(rest.len());
    let clauses = rest[..end].trim();
    let mut versions = (0..3).rev().flat_map(|major| (0..=MOST).rev().map(move |minor| (major, minor)));
    let newest = versions.find(|version| clauses.split(',').all(|clause| keeps(clause.trim(), *version)));
    let newest = newest.filter(|version| *version != (2, MOST))?;
    let name = &line[..line.len() - rest.len()];
    Some((format!("{name}{clauses}"), newest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_release_that_a_requirement_allows() {
        for (line, newest) in [
            ("torch==2.1.0", Some((2, 1))),
            ("torch==2.1.2+cu118", Some((2, 1))),
            ("    \"torch>=1.13,<2.3\",", Some((2, 2))),
            ("torch < 2", Some((1, 99))),
            ("torch~=2.4.0", Some((2, 4))),
            ("  - pytorch=2.1=py3.9", Some((2, 1))),
            ("  - pytorch=1.*", Some((1, 99))),
            ("torch>=2.0", None),
            ("torch", None),
            ("torchvision==0.16", None),
            ("torch~=2.4", None),
        ] {
            assert_eq!(limited(line).map(|(_, newest)| newest), newest, "{line}");
        }
    }

    #[test]
    fn its_wheels_decide_which_pythons_do() {
        let place = tempfile::tempdir().unwrap();
        assert_eq!(Torch::of(place.path()).pythons(), 10..=15);
        fs::write(place.path().join("requirements.txt"), "numpy==1.24\ntorch==2.1.0 # as in the paper\n").unwrap();
        let torch = Torch::of(place.path());
        assert_eq!((torch.pythons(), &*torch.source), (8..=11, "requirements.txt (torch==2.1.0)"));
        assert!(torch.allows(11) && !torch.allows(12));
    }
}
