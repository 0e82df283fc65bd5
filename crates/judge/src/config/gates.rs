//! The gates of `ptmem.toml`: where the recordings of each come from, how they are made, and its limits.

use ptmem_base::text::did_you_mean;

use super::file::FileGate;
use super::{Config, ConfigError};
use crate::verdict::{Level, Limits};

/// A gate: recordings with limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GateRules {
    /// Where the recordings come from.
    pub source: GateSource,
    /// Limits of its own.
    pub limits: Limits,
    /// What a base that cannot be recorded means; `None` leaves it to the file.
    pub broken_base: Option<BrokenBase>,
}

/// Where the recordings of a gate come from. Paths begin at the folder of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GateSource {
    /// Both sides are recorded.
    Recorded(Recording),
    /// Both sides are files, or folders and globs with a file for each rank.
    Files {
        /// Snapshot, saved profile or numbers of the code without the change.
        before: String,
        /// The same of the code with it.
        after: String,
    },
    /// A snapshot with absolute limits.
    Snapshot(String),
    /// Snapshots in which nothing may leak.
    Leak(Vec<String>),
}

impl GateSource {
    /// What a gate of it does.
    fn name(&self) -> &'static str {
        match self {
            Self::Recorded(_) | Self::Files { .. } => "a comparison",
            Self::Snapshot(_) => "a gate of one 'snapshot'",
            Self::Leak(_) => "a search for leaks",
        }
    }
}

/// How a commit is recorded.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Recording {
    /// The script that runs the program.
    pub script: String,
    /// The script that installs it, in an environment of its own.
    pub install: Option<String>,
    /// The steps to record, such as `1..3`; `all`, or `none` where the script writes the snapshot itself.
    pub steps: String,
    /// The card to simulate; `real` for that of the machine.
    pub gpu: String,
    /// Memory that may hold values on a simulated card; `None` leaves it to `ptmem simulate`.
    pub compute: Option<String>,
    /// Version of Python for the environment of `install`.
    pub python: Option<String>,
    /// Working directory, from the folder of the file.
    pub directory: Option<String>,
    /// Ranks of the job, of which the first is recorded.
    pub ranks: Option<u32>,
    /// Whether counters are compared first, and call stacks are recorded only where these do not decide.
    pub measure: bool,
}

impl Recording {
    /// The card that is simulated if nothing else is given.
    pub const DEFAULT_GPU: &str = "a100";

    /// The name of no simulated card.
    pub const REAL_GPU: &str = "real";

    /// The steps that are recorded if nothing else is given.
    pub const DEFAULT_STEPS: &str = "1..3";

    /// The steps of a script that writes its snapshot itself.
    pub const OWN_SNAPSHOT: &str = "none";

    /// The recording of a script, with all else left as it is by default.
    pub fn of(script: String) -> Self {
        Self {
            script,
            install: None,
            steps: Self::DEFAULT_STEPS.to_owned(),
            gpu: Self::DEFAULT_GPU.to_owned(),
            compute: None,
            python: None,
            directory: None,
            ranks: None,
            measure: false,
        }
    }

    /// Whether the script writes the snapshot itself.
    pub fn writes_snapshot(&self) -> bool {
        self.gpu == Self::REAL_GPU || self.steps == Self::OWN_SNAPSHOT
    }
}

/// What it means that the base cannot be recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, strum::EnumString)]
#[strum(serialize_all = "kebab-case")]
pub enum BrokenBase {
    /// The verdict is inconclusive.
    #[default]
    Inconclusive,
    /// Absolute limits decide.
    Pass,
}

impl Config {
    /// The gate of a name.
    ///
    /// # Errors
    /// If there is none; the error names those that there are.
    pub fn gate(&self, name: &str) -> Result<&GateRules, ConfigError> {
        self.gates.get(name).ok_or_else(|| {
            let names: Vec<_> = self.gates.keys().map(String::as_str).collect();
            let known =
                if names.is_empty() { "it has none".to_owned() } else { format!("it has {}", names.join(", ")) };
            let near = did_you_mean(name, names.iter().copied());
            ConfigError(format!("the configuration has no gate '{name}': {known}{near}"))
        })
    }
}

/// Whether a text can be the name of a gate, which becomes part of paths and of hidden lines in comments.
fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
}

/// A gate as the file has it.
pub(super) fn gate(name: &str, mut read: FileGate) -> Result<GateRules, ConfigError> {
    if !is_name(name) {
        let expected = "expected letters, digits and . _ -, a letter or digit first";
        return Err(ConfigError(format!("[gate.\"{}\"]: {expected}", name.escape_debug())));
    }
    let limits = read.take_limits();
    let broken_base = read.broken_base.as_ref().map(|what| what.0);
    let source = source(read).and_then(|source| match unused_limit(&source, &limits) {
        Some(key) => Err(format!("has '{key}', which {} does not use", source.name())),
        None => Ok(source),
    });
    let source = source.map_err(|wrong| ConfigError(format!("[gate.{name}] {wrong}")))?;
    Ok(GateRules { source, limits, broken_base })
}

/// The first key of limits that has no effect on a source.
fn unused_limit(source: &GateSource, limits: &Limits) -> Option<&'static str> {
    let of_comparisons = [
        ("max-growth", limits_growth(limits, Level::Fail)),
        ("warn-growth", limits_growth(limits, Level::Warn)),
        ("beside-workspaces", limits.beside_workspaces.is_some()),
        ("min-delta", limits.min_delta.is_some()),
        ("allow-partial", limits.allow_partial.is_some()),
    ];
    let of_figures = [("max", !limits.maximum.is_empty()), ("min-headroom", limits.min_headroom.is_some())];
    let unused: [&[(&'static str, bool)]; 2] = match source {
        GateSource::Recorded(_) | GateSource::Files { .. } => [&[], &[]],
        GateSource::Snapshot(_) => [&of_comparisons, &[]],
        GateSource::Leak(_) => [&of_comparisons, &of_figures],
    };
    unused.concat().into_iter().find(|(_, is_there)| *is_there).map(|(key, _)| key)
}

fn limits_growth(limits: &Limits, level: Level) -> bool {
    limits.growth.iter().any(|limit| limit.level == level)
}

fn source(read: FileGate) -> Result<GateSource, String> {
    let sources = [read.record.is_some(), read.before.is_some() || read.after.is_some(), read.snapshot.is_some()];
    let count = sources.into_iter().chain([!read.leak.0.is_empty()]).filter(|is_there| *is_there).count();
    if count != 1 {
        return Err("needs either 'record', 'before' and 'after', 'snapshot' or 'leak'".to_owned());
    }
    if read.record.is_some() {
        return recording(read).map(GateSource::Recorded);
    }
    if let Some(key) = key_of_recording(&read) {
        return Err(format!("has '{key}', which needs 'record'"));
    }
    Ok(match (read.before, read.after, read.snapshot) {
        (Some(before), Some(after), None) => GateSource::Files { before, after },
        (None, None, Some(snapshot)) => GateSource::Snapshot(snapshot),
        (None, None, None) => GateSource::Leak(read.leak.0),
        _ => return Err("needs both 'before' and 'after'".to_owned()),
    })
}

/// The first key that a gate without a recording does not use.
fn key_of_recording(read: &FileGate) -> Option<&'static str> {
    let keys = [
        ("install", read.install.is_some()),
        ("steps", read.steps.is_some()),
        ("gpu", read.gpu.is_some()),
        ("compute", read.compute.is_some()),
        ("python", read.python.is_some()),
        ("directory", read.directory.is_some()),
        ("ranks", read.ranks.is_some()),
        ("measure", read.measure.is_some()),
        ("broken-base", read.broken_base.is_some()),
    ];
    keys.into_iter().find(|(_, is_there)| *is_there).map(|(key, _)| key)
}

fn recording(read: FileGate) -> Result<Recording, String> {
    let script = read.record.filter(|script| !script.trim().is_empty()).ok_or("needs a 'record' that is not empty")?;
    let of = Recording::of(script);
    if read.python.is_some() && read.install.is_none() {
        return Err("has 'python', which needs 'install'".to_owned());
    }
    if read.ranks == Some(0) {
        return Err("has 0 'ranks'; expected at least 1".to_owned());
    }
    let recording = Recording {
        install: read.install.filter(|script| !script.trim().is_empty()),
        steps: read.steps.unwrap_or(of.steps),
        gpu: read.gpu.unwrap_or(of.gpu),
        compute: read.compute,
        python: read.python,
        directory: read.directory,
        ranks: read.ranks,
        measure: read.measure.unwrap_or(false),
        script: of.script,
    };
    match recording.ranks {
        Some(_) if recording.writes_snapshot() => {
            Err("has 'ranks', which needs a simulated 'gpu' and 'steps'".to_owned())
        }
        _ => Ok(recording),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_name_their_recordings() {
        let text = "
            [max-growth]
            peak = '5%'
            [gate.train]
            record = 'python train.py'
            install = 'ptmem pip install .'
            python = '3.10'
            ranks = 8
            compute = 'all'
            max-growth = '2%'
            [gate.server]
            before = 'a.json'
            after = 'b.pkl'
            [gate.large]
            snapshot = 'c.pkl'
            max = { reserved = '75GiB' }
            [gate.nightly]
            leak = 'n/*.pkl'
        ";
        let config = Config::parse(text).unwrap();
        assert_eq!(config.gates.keys().collect::<Vec<_>>(), ["large", "nightly", "server", "train"]);
        let train = config.gate("train").unwrap();
        let GateSource::Recorded(recording) = &train.source else { panic!("{train:?}") };
        let expected = Recording {
            install: Some("ptmem pip install .".to_owned()),
            python: Some("3.10".to_owned()),
            ranks: Some(8),
            compute: Some("all".to_owned()),
            ..Recording::of("python train.py".to_owned())
        };
        assert_eq!(*recording, expected);
        assert_eq!(train.limits.clone().over(&config.limits).growth[0].to_string(), "peak=2 %");
        assert_eq!(config.gate("large").unwrap().source, GateSource::Snapshot("c.pkl".to_owned()));
        assert_eq!(config.gate("nightly").unwrap().source, GateSource::Leak(vec!["n/*.pkl".to_owned()]));
        let message = config.gate("sever").unwrap_err().to_string();
        assert!(message.contains("did you mean 'server'?"), "{message}");
    }

    #[test]
    fn a_gate_has_one_source_and_no_keys_without_effect() {
        for (text, expected) in [
            ("[gate.a]", "[gate.a] needs either 'record'"),
            ("[gate.a]\nrecord = 'x'\nsnapshot = 'y'", "needs either"),
            ("[gate.a]\nbefore = 'x'", "needs both 'before' and 'after'"),
            ("[gate.a]\nsnapshot = 'y'\nsteps = '3'", "has 'steps', which needs 'record'"),
            ("[gate.a]\nleak = 'y'\nbroken-base = 'pass'", "has 'broken-base', which needs 'record'"),
            (
                "[gate.a]\nsnapshot = 'y'\nmax-growth = '5%'",
                "has 'max-growth', which a gate of one 'snapshot' does not use",
            ),
            ("[gate.a]\nsnapshot = 'y'\nwarn-growth = '5%'", "has 'warn-growth'"),
            ("[gate.a]\nsnapshot = 'y'\nbeside-workspaces = true", "has 'beside-workspaces'"),
            ("[gate.a]\nsnapshot = 'y'\nmin-delta = '5MiB'", "has 'min-delta'"),
            ("[gate.a]\nleak = 'y'\nallow-partial = true", "has 'allow-partial'"),
            ("[gate.a]\nleak = 'y'\nmax = '5GiB'", "has 'max', which a search for leaks does not use"),
            ("[gate.a]\nleak = 'y'\nmin-headroom = '5GiB'", "has 'min-headroom'"),
            ("[gate.a]\nrecord = ' '", "a 'record' that is not empty"),
            ("[gate.a]\nrecord = 'x'\npython = '3.9'", "needs 'install'"),
            ("[gate.a]\nrecord = 'x'\nranks = 8\ngpu = 'real'", "needs a simulated 'gpu'"),
            ("[gate.a]\nrecord = 'x'\nranks = 0", "expected at least 1"),
            ("[gate.a]\nrecord = 'x'\nbroken-base = 'fine'", "line 3"),
            ("[gate.a]\nrecrod = 'x'", "did you mean 'record'?"),
            ("[gate.'a b']\nrecord = 'x'", "expected letters, digits"),
            ("[gate.'../a']\nrecord = 'x'", "expected letters, digits"),
        ] {
            let message = Config::parse(text).unwrap_err().to_string();
            assert!(message.contains(expected), "{text}: {message}");
        }
    }
}
