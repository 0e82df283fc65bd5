//! Facts about the run that a snapshot was recorded from: what recorders add under the key `ptmem`, and saved profiles keep.
//!
//! All of it may be missing, and comes from a file: each part that is not of the expected form reads as missing.

use std::collections::BTreeMap;
use std::fmt;

use ptmem_base::text::cut;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value as Json;

use super::run_devices::{CardFacts, CollectedBlocks, DeviceCounters, DeviceModules, OutermostCalls};

/// Facts about a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunFacts {
    /// The program that recorded.
    #[serde(deserialize_with = "lenient")]
    pub recorder: String,
    /// The recorded steps.
    #[serde(deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub steps: Option<RecordedSteps>,
    /// How the program ended, seen from its recorded part.
    #[serde(deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub ending: Option<Ending>,
    /// The rank of the process, and the number of ranks, where it was one of several.
    #[serde(deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub rank: Option<[u64; 2]>,
    /// Versions of Python, PyTorch, and the packages of which frames occur.
    #[serde(deserialize_with = "lenient", skip_serializing_if = "Vec::is_empty")]
    pub versions: Vec<(String, String)>,
    /// The commit that was checked out.
    #[serde(deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The repository's own packages of which frames occur.
    #[serde(deserialize_with = "lenient", skip_serializing_if = "Vec::is_empty")]
    pub packages: Vec<OwnPackage>,
    /// The program that ran, where the recorder says it.
    #[serde(deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub program: Option<ProgramFacts>,
    /// Names of functions within their classes.
    #[serde(deserialize_with = "lenient", skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<FunctionsOfFile>,
    /// What followed from values that are not known on simulated GPUs.
    #[serde(deserialize_with = "lenient", skip_serializing_if = "Vec::is_empty")]
    pub followed: Vec<Followed>,
    /// The functions in which it did.
    #[serde(deserialize_with = "lenient", skip_serializing_if = "Vec::is_empty")]
    pub guesses: Vec<Guess>,
    /// Allocations whose sizes follow from supposed ones: the device, the number among the recorded allocations of the device, and
    /// the index of the guess. A saved profile has them with its classes.
    #[serde(deserialize_with = "lenient", skip_serializing)]
    pub supposed: Vec<[u64; 3]>,
    /// Bytes of memory up to which simulated GPUs computed values; at least 2^63 where they computed whatever they can.
    #[serde(deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub compute: Option<u64>,
    /// PyTorch's own counters, by device.
    #[serde(deserialize_with = "lenient", skip_serializing_if = "Vec::is_empty")]
    pub counters: Vec<DeviceCounters>,
    /// The cards that the process used.
    #[serde(deserialize_with = "lenient", skip_serializing_if = "Vec::is_empty")]
    pub cards: Vec<CardFacts>,
    /// What Python's garbage collector freed, where the recorder notes it. A saved profile has it with its devices.
    #[serde(deserialize_with = "lenient", skip_serializing)]
    pub collected: Option<Vec<CollectedBlocks>>,
    /// The outermost calls of modules, by device, where the recorder notes them.
    #[serde(deserialize_with = "lenient", skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<OutermostCalls>,
    /// For each call of an optimizer, in order, a number of that optimizer, where the recorder notes them.
    #[serde(deserialize_with = "lenient", skip_serializing_if = "Vec::is_empty")]
    pub optimizers: Vec<u64>,
    /// The modules that allocated, by device. A saved profile has them with its classes.
    #[serde(deserialize_with = "lenient", skip_serializing)]
    pub modules: Vec<DeviceModules>,
    /// Number of modules of each kind: of one path apart from the numbers of layers.
    #[serde(deserialize_with = "lenient", skip_serializing_if = "BTreeMap::is_empty")]
    pub module_counts: BTreeMap<String, u64>,
}

/// The recorded steps, counted from 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedSteps {
    /// The first that is there whole.
    pub first: u64,
    /// The last complete step; less than the first if there is none.
    pub last: u64,
    /// The first and the last that were to be recorded; `None` for all of the program.
    #[serde(default)]
    pub asked: Option<[u64; 2]>,
    /// Number of optimizers on a device that made no recorded step.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub idle_optimizers: u64,
}

/// How a program ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ending {
    /// The kind of end.
    pub kind: EndingKind,
    /// The last line of an exception; empty for an end without.
    #[serde(default)]
    pub message: String,
}

/// The kind of an [`Ending`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EndingKind {
    /// It reached its end, or the end of the part to record.
    Whole,
    /// An exception ended it, or an exit status that says failure.
    Exception,
    /// A signal ended it.
    Signal,
    /// Memory ran out.
    Oom,
    /// An end that this version does not know.
    #[serde(other)]
    Unknown,
}

/// A package or module that the checkout holds, as the program imported it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnPackage {
    /// Name in an import.
    pub name: String,
    /// The imported folder or file; relative to the checkout if inside it.
    pub path: String,
    /// True if it was imported from the checkout.
    pub inside: bool,
    /// A digest of its Python files.
    pub digest: String,
    /// True if its files are those of the checkout.
    pub same: bool,
}

/// Digests of the code that a program ran. Each part is `None` where it is not known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramFacts {
    /// Python files and native libraries.
    pub code: Option<String>,
    /// Files of the repository that were opened.
    pub opened: Option<String>,
    /// Words of the command line, and the folder in which it ran.
    pub arguments: Option<String>,
    /// Variables of the environment.
    pub environment: Option<String>,
}

impl ProgramFacts {
    fn is_known(&self) -> bool {
        let Self { code, opened, arguments, environment } = self;
        [code, opened, arguments, environment].into_iter().all(Option::is_some)
    }
}

/// A file, and functions in it: the first line, the last line, and the qualified name of each.
pub type FunctionsOfFile = (String, Vec<(u64, u64, String)>);

/// What (`sizes`, `conditions` …) followed from values that are not known, how many, and the line where the first did.
pub type Followed = (String, u64, Option<String>);

/// Decisions of a function by values that are not known on simulated GPUs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Guess {
    /// Their kind: `sizes`, `conditions` …
    pub what: String,
    /// The file and the function: `train.py:has_nan`.
    pub at: String,
    /// The line of the first; `None` if it is not known.
    pub line: Option<u64>,
    /// Their number.
    pub count: u64,
    /// The sum of the sizes.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub total: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl RecordedSteps {
    /// Number of whole steps.
    #[must_use]
    pub fn count(self) -> u64 {
        (self.last.saturating_add(1)).saturating_sub(self.first)
    }

    /// Number of steps that were to be recorded and are not whole.
    #[must_use]
    pub fn missing(self) -> u64 {
        self.asked.map_or(0, |[_, last]| last.saturating_sub(self.last))
    }
}

impl fmt::Display for RecordedSteps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.count() {
            0 => f.write_str("no whole step"),
            1 => write!(f, "step {}", self.first),
            _ => write!(f, "steps {} to {}", self.first, self.last),
        }
    }
}

/// In one line: steps, versions, commit, and what followed from values that are not known.
impl fmt::Display for RunFacts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts: Vec<String> = Vec::new();
        parts.extend(self.rank.map(|[rank, of]| format!("rank {rank} of {of}")));
        // Nobody counts the steps where the program itself records.
        let counted = self.steps.filter(|steps| steps.count() > 0 || steps.asked.is_some());
        parts.extend(counted.map(|steps| steps.to_string()));
        parts.extend(self.versions.iter().take(MOST_TOLD).map(|(name, version)| format!("{name} {version}")));
        let commit = self.commit.as_deref().map(|commit| format!("commit {}", cut(commit, SHORT_COMMIT)));
        parts.extend(commit);
        for (what, count, line) in &self.followed {
            let first = line.as_ref().map(|line| format!(", first at {line}")).unwrap_or_default();
            parts.push(format!("{count} {what} followed from values that are not known{first}"));
        }
        f.write_str(&parts.join(", "))
    }
}

/// Maximum number of versions listed in a line.
const MOST_TOLD: usize = 12;

/// Characters of a commit that people write.
const SHORT_COMMIT: usize = 10;

impl RunFacts {
    /// The facts in a value of the key `ptmem`.
    pub(super) fn of(value: Json) -> Option<Self> {
        // A number of the format that this version does not know may give the keys another meaning.
        let is_known = value.get("format").and_then(Json::as_u64) == Some(FORMAT);
        if is_known { serde_json::from_value(value).ok() } else { None }
    }

    /// The reason why the recorded run is incomplete, if it is. Out-of-memory is known from the history.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        let ending = self.ending.as_ref();
        let failed = ending.and_then(|Ending { kind, message }| match kind {
            EndingKind::Whole | EndingKind::Oom => None,
            EndingKind::Exception => Some(format!("the program failed: {message}")),
            EndingKind::Signal => Some("a signal ended the program".to_owned()),
            EndingKind::Unknown => Some("the program ended in a way that this version does not know".to_owned()),
        });
        let steps = self.steps.filter(|steps| failed.is_none() && steps.missing() > 0);
        let short = steps.and_then(|steps| {
            let [first, last] = steps.asked?;
            Some(format!("steps {first} to {last} were to be recorded, and the program made {}", steps.last))
        });
        failed.or(short)
    }

    /// True if both runs are known to be of the same program: code, opened files, arguments, environment, versions, cards and
    /// recorded steps.
    #[must_use]
    pub fn ran_same_program(&self, other: &Self) -> bool {
        let is_known = self.program.as_ref().is_some_and(ProgramFacts::is_known);
        is_known
            && self.program == other.program
            && self.recorder == other.recorder
            && self.versions == other.versions
            && self.rank == other.rank
            && self.steps.map(|steps| steps.asked) == other.steps.map(|steps| steps.asked)
            && self.cards.iter().map(CardFacts::kind).eq(other.cards.iter().map(CardFacts::kind))
    }

    /// Takes in the exit status of a program whose end said nothing of a failure.
    pub fn end_with(&mut self, status: u64) {
        if self.ending.as_ref().is_none_or(|ending| ending.kind == EndingKind::Whole) {
            self.ending = Some(Ending { kind: EndingKind::Exception, message: format!("exit status {status}") });
        }
    }
}

/// Version of the key that this version reads.
const FORMAT: u64 = 1;

/// A value, or the default where it is of another form.
fn lenient<'de, D: Deserializer<'de>, T: DeserializeOwned + Default>(deserializer: D) -> Result<T, D::Error> {
    let value = Json::deserialize(deserializer)?;
    Ok(serde_json::from_value(value).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_part_of_another_form_reads_as_missing_and_leaves_the_others() {
        let facts = RunFacts::of(json!({
            "format": 1,
            "steps": {"first": 2, "last": 3, "asked": [2, 4]},
            "ending": 7,
            "versions": [["torch", "2.11.0"], ["numpy"]],
            "commit": null,
            "tomorrow": {"a": [1, 2]},
            "rank": [0, 2],
        }));
        let facts = facts.unwrap();
        assert_eq!(facts.steps.map(|steps| (steps.count(), steps.missing())), Some((2, 1)));
        assert_eq!((facts.ending, facts.versions.len(), facts.rank), (None, 0, Some([0, 2])));
        assert_eq!(RunFacts::of(json!({"format": 2, "commit": "a"})), None);
        assert_eq!(RunFacts::of(json!("text")), None);
    }

    #[test]
    fn numbers_of_steps_are_never_more_than_they_can_be() {
        let steps = RecordedSteps { first: 5, asked: Some([1, u64::MAX]), ..RecordedSteps::default() };
        assert_eq!((steps.count(), steps.missing()), (0, u64::MAX));
        assert_eq!(RecordedSteps { last: u64::MAX, ..RecordedSteps::default() }.count(), u64::MAX);
    }

    #[test]
    fn programs_are_the_same_where_all_of_them_is_known_and_equal() {
        let of = |opened: Option<&str>, version: &str| {
            let program = json!({"code": "c", "opened": opened, "arguments": "a", "environment": "e"});
            RunFacts::of(json!({"format": 1, "program": program, "versions": [["torch", version]]})).unwrap()
        };
        assert!(of(Some("o"), "2.11").ran_same_program(&of(Some("o"), "2.11")));
        assert!(!of(Some("o"), "2.11").ran_same_program(&of(Some("p"), "2.11")));
        assert!(!of(Some("o"), "2.10").ran_same_program(&of(Some("o"), "2.11")));
        assert!(!of(None, "2.11").ran_same_program(&of(None, "2.11")), "the opened files are not known");
        assert!(!RunFacts::default().ran_same_program(&RunFacts::default()));
    }

    #[test]
    fn an_end_that_is_not_whole_is_a_failure() {
        let ended = |kind, asked| RunFacts {
            ending: Some(Ending { kind, message: "ValueError: bad".to_owned() }),
            steps: Some(RecordedSteps { first: 1, last: 2, asked, ..RecordedSteps::default() }),
            ..RunFacts::default()
        };
        assert_eq!(ended(EndingKind::Whole, None).failure(), None);
        assert_eq!(ended(EndingKind::Oom, None).failure(), None);
        assert_eq!(
            ended(EndingKind::Exception, Some([1, 3])).failure().as_deref(),
            Some("the program failed: ValueError: bad")
        );
        let short = "steps 1 to 3 were to be recorded, and the program made 2";
        assert_eq!(ended(EndingKind::Whole, Some([1, 3])).failure().as_deref(), Some(short));
    }
}
