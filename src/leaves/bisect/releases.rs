//! Releases of a package, each installed over the packages of an environment.

use std::ffi::OsString;
use std::path::Path;
use std::{env, fs};

use anyhow::{Context as _, Result, bail};

use super::{FoundChange, Recordable};
use crate::cli::checkout::paths_of;
use crate::cli::pip::{Installer, printed};
use crate::cli::recorder::{Attempt, Candidate, Failure, InProgress, Program, Recorder};
use crate::leaves::search::{Answer, Asked, Candidates};

/// The releases between a good one and a bad one.
pub(super) struct Releases {
    package: String,
    python: OsString,
    /// In order, the good one first.
    versions: Vec<String>,
}

/// The numbers of a release, without zeros at its end, and that of a post-release.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ReleaseNumbers(Vec<u64>, u64);

impl ReleaseNumbers {
    fn of(text: &str) -> Option<Self> {
        let public = text.split('+').next()?;
        let (numbers, post) = public.split_once(".post").unwrap_or((public, "0"));
        let numbers = numbers.split('.').map(|part| part.parse().ok());
        let mut numbers: Vec<u64> = numbers.collect::<Option<_>>()?;
        while numbers.last() == Some(&0) {
            numbers.pop();
        }
        Some(Self(numbers, post.parse().ok()?))
    }
}

impl Releases {
    /// The releases that `NAME==GOOD..BAD` names, as the index of pip lists them.
    pub(super) fn of(package: &str, range: &str, python: OsString) -> Result<Self> {
        let expected =
            "expected a package and two of its releases, the older first, such as 'transformers==4.36..4.40'";
        let ends =
            range.split_once("..").and_then(|(good, bad)| Some((ReleaseNumbers::of(good)?, ReleaseNumbers::of(bad)?)));
        let ends = ends.filter(|(good, bad)| good < bad);
        let (good, bad) = ends.with_context(|| format!("{package}=={range}: {expected}"))?;
        let listed = printed(&python, &["-m", "pip", "index", "versions", package])
            .with_context(|| format!("{package}: pip lists no releases; {expected}, and a Python with pip"))?;
        let versions = listed.lines().find_map(|line| line.trim().strip_prefix("Available versions: "));
        let versions = versions.unwrap_or_default();
        let mut versions: Vec<(ReleaseNumbers, String)> = versions
            .split(", ")
            .filter_map(|text| Some((ReleaseNumbers::of(text)?, text.to_owned())))
            .filter(|(version, _)| *version >= good && *version <= bad)
            .collect();
        versions.sort_by(|a, b| a.0.cmp(&b.0));
        if versions.len() < 2 {
            bail!("{package}=={range}: {} of its releases are between these; {expected}", versions.len());
        }
        if versions[0].0 != good || versions[versions.len() - 1].0 != bad {
            let [first, last] = [&versions[0].1, &versions[versions.len() - 1].1];
            bail!(
                "{package}=={range}: pip lists only {first} to {last} in this range for this Python; expected releases that it lists"
            );
        }
        let versions: Vec<String> = versions.into_iter().map(|(_, text)| text).collect();
        Ok(Self { package: package.to_owned(), python, versions })
    }

    fn place(&self, version: &str) -> usize {
        self.versions.iter().position(|known| known == version).unwrap_or(0)
    }

    /// The places of the last good and the first bad release.
    fn bounds(&self, asked: &Asked<String>) -> (usize, usize) {
        let places = |wanted: &'static Answer| {
            asked.iter().filter(move |(_, answer)| answer == wanted).map(|(version, _)| self.place(version))
        };
        (places(&Answer::Good).max().unwrap_or(0), places(&Answer::Bad).min().unwrap_or(self.versions.len() - 1))
    }

    /// Installs a release over the packages of the Python, and gives the variables with which a command finds it. The reason
    /// where it cannot be installed.
    fn install(&self, version: &str, folder: &Path) -> Result<Result<Vec<(&'static str, OsString)>, String>> {
        let _ = fs::remove_dir_all(folder);
        printed(&self.python, &["-m", "venv", "--without-pip", &folder.to_string_lossy()])?;
        let paths = printed(
            &self.python,
            &["-c", "import sys; print('\\n'.join(p for p in sys.path if p.endswith('-packages')))"],
        )?;
        let bin = folder.join("bin");
        let pip = Installer::Pip(bin.join("python").into());
        let packages = pip.packages()?;
        fs::write(packages.join("environment.pth"), paths + "\n")?;
        let requirement = format!("{}=={version}", self.package);
        let quiet = ["--quiet", "--disable-pip-version-check", "--no-input"].map(OsString::from);
        let words: Vec<OsString> = quiet.into_iter().chain([requirement.into()]).collect();
        if let Err(reason) = pip.install(&words)? {
            return Ok(Err(format!("pip cannot install it: {reason}")));
        }
        let path = env::join_paths([bin].into_iter().chain(paths_of("PATH")))?;
        let python_path = env::join_paths([packages].into_iter().chain(paths_of("PYTHONPATH")))?;
        Ok(Ok(vec![("PATH", path), ("PYTHONPATH", python_path), ("VIRTUAL_ENV", folder.into())]))
    }
}

impl Recordable for Releases {
    fn ends(&self) -> [String; 2] {
        [0, self.versions.len() - 1].map(|place| self.versions[place].clone())
    }

    fn folder(one: &String) -> &str {
        one
    }

    fn record(&self, one: &String, recorder: &Recorder, program: Program<'_>) -> Attempt {
        let environment = recorder.place("environment");
        let variables = match self.install(one, &environment)? {
            Ok(variables) => variables,
            Err(reason) => return Ok(Err(Failure::Candidate(reason))),
        };
        let here = env::current_dir()?;
        let recorded = recorder.record(one, &Candidate::new(program, &here, &variables), &InProgress::new(one));
        let _ = fs::remove_dir_all(environment);
        recorded
    }

    fn found(&self, asked: &Asked<String>) -> Result<FoundChange<String>> {
        let (good, bad) = self.bounds(asked);
        let [before, bad_one] = [good, bad].map(|place| self.versions[place].clone());
        Ok(FoundChange { bad: bad_one, before, unknown: self.versions[good + 1..bad].to_vec() })
    }
}

impl Candidates for Releases {
    type One = String;

    fn next(&self, asked: &Asked<String>) -> Result<Option<(String, u64)>> {
        let (low, high) = self.bounds(asked);
        let mut unasked: Vec<usize> = (low + 1..high).collect();
        unasked.retain(|&place| !asked.iter().any(|(version, _)| *version == self.versions[place]));
        let next = unasked.iter().min_by_key(|place| place.abs_diff(low.midpoint(high)));
        Ok(next.map(|&place| (self.versions[place].clone(), unasked.len() as u64)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_have_an_order() {
        let order = ["4.9", "4.36.0", "4.36.1", "4.36.1.post1", "4.40"].map(|text| ReleaseNumbers::of(text).unwrap());
        assert!(order.is_sorted(), "{order:?}");
        assert_eq!(ReleaseNumbers::of("4.36"), ReleaseNumbers::of("4.36.0"));
        assert_eq!(ReleaseNumbers::of("2.1.post1+cu121"), ReleaseNumbers::of("2.1.post1"));
        assert_eq!(ReleaseNumbers::of("2.0rc1"), None);
    }
}
