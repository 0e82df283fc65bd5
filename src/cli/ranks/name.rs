//! Reads from the name of a file which rank wrote it.
//!
//! Every program names its files in its own way: `snapshot_rank3.pkl`, `rank-03`, `step_100_device_3.pickle`,
//! `step_100/rank3.pickle`, `node1_gpu0.pkl`, `snapshot_3.pickle`. A number belongs to the word in front of it; one
//! without such a word may be the rank if it differs between the files.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// Endings of what can be read; the longest first.
const ENDINGS: [&str; 9] = [".ptmem.json", ".snapshot", ".pickle", ".json", ".pkl", ".pth", ".pt", ".pk", ".p"];
const COMPRESSED: [&str; 3] = [".gz", ".zst", ".zstd"];

/// Meaning of a number in a name, by the word in front of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Counts {
    /// The rank of a process in the job.
    Rank,
    /// The rank or the device of a process on its node.
    Local,
    /// The node, or the process where nothing says more.
    Outer,
    /// Something else, such as a step.
    Other,
    /// Nothing that is known.
    Bare,
}

/// Numbers stated in one name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct StatedNumbers {
    /// The rank that it states in words.
    pub(super) rank: Option<u64>,
    /// The node that it states beside a rank.
    pub(super) node: Option<u64>,
    /// The name with a mark in place of every number: names that differ in numbers only have the same.
    template: String,
    /// The numbers behind no word that says what they count, and at which place among all.
    bare: Vec<(usize, u64)>,
}

impl StatedNumbers {
    fn bare_at(&self, place: usize) -> Option<u64> {
        self.bare.iter().find(|(at, _)| *at == place).map(|(_, number)| *number)
    }
}

/// A name without the ending that says what kind of file it is; `None` where no ending is known.
pub(crate) fn stem(name: &str) -> Option<&str> {
    let plain = COMPRESSED.iter().find_map(|ending| ends(name, ending)).unwrap_or(name);
    ENDINGS.iter().find_map(|ending| ends(plain, ending))
}

fn ends<'n>(name: &'n str, ending: &str) -> Option<&'n str> {
    let from = name.len().checked_sub(ending.len()).filter(|&from| from > 0)?;
    name.get(from..)?.eq_ignore_ascii_case(ending).then(|| &name[..from])
}

/// Reads a relative name whose folders are separated by `/`.
pub(super) fn stated(name: &str) -> StatedNumbers {
    let runs = runs_of(stem(name).unwrap_or(name));
    let digits = runs.iter().enumerate().filter(|(_, run)| run.class == CharacterClass::Digits);
    let numbers: Vec<Number> = digits.map(|(at, run)| (counts_at(&runs, at), run.text)).collect();
    let outer = only(&numbers, Counts::Outer);
    let mut kinds = [Counts::Rank, Counts::Local].into_iter();
    let kind = kinds.find(|kind| numbers.iter().any(|(counts, _)| counts == kind));
    let rank = kind.map_or(outer, |kind| only(&numbers, kind));
    let bare = numbers.iter().enumerate().filter(|(_, (counts, _))| *counts == Counts::Bare);
    StatedNumbers {
        rank,
        node: outer.filter(|_| kind.is_some() && rank.is_some()),
        template: runs.iter().map(|run| if run.class == CharacterClass::Digits { "#" } else { run.text }).collect(),
        bare: bare.filter_map(|(at, (_, digits))| Some((at, digits.parse().ok()?))).collect(),
    }
}

/// Names of the files of a set.
pub(super) struct SetNames {
    stems: HashSet<String>,
    templates: HashSet<String>,
}

impl SetNames {
    pub(super) fn of(names: &[String]) -> Self {
        Self {
            stems: names.iter().map(|name| stem(name).unwrap_or(name).to_owned()).collect(),
            templates: names.iter().map(|name| stated(name).template).collect(),
        }
    }

    /// True if another file is of the set by its name, which states a rank, or differs from another one in numbers only. A file that is
    /// called like one of them, such as `rank0.json` beside `rank0.pkl`, only describes that one.
    pub(super) fn include(&self, name: &str) -> bool {
        // A folder of a rank may hold anything.
        let file = name.rsplit('/').next().unwrap_or(name);
        let is_alike = self.templates.contains(&stated(name).template) || stated(file).rank.is_some();
        is_alike && !self.stems.contains(stem(name).unwrap_or(name))
    }
}

/// The rank that a case is called after: `rank3`, `rank-3`.
pub(super) fn rank_of_case(name: &str) -> Option<u64> {
    let runs = runs_of(name);
    let mut words = runs.iter().filter(|run| run.class != CharacterClass::Separators);
    let (word, number) = (words.next()?, words.next()?);
    let is_rank = word.text.eq_ignore_ascii_case("rank") && words.next().is_none();
    number.text.parse().ok().filter(|_| is_rank)
}

/// A number in a name, by its digits.
type Number<'n> = (Counts, &'n str);

/// The value that all numbers of a kind share: both the folder and the file may state the rank. None beyond 64 bits.
fn only(numbers: &[Number<'_>], kind: Counts) -> Option<u64> {
    let mut values = numbers.iter().filter(|(counts, _)| *counts == kind).map(|(_, digits)| digits.parse().ok());
    let first = values.next()?;
    values.all(|value| value == first).then_some(first)?
}

/// Class of a character in a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CharacterClass {
    Digits,
    Letters,
    Separators,
}

impl CharacterClass {
    fn of(c: char) -> Self {
        if c.is_ascii_digit() {
            Self::Digits
        } else if c.is_alphabetic() {
            Self::Letters
        } else {
            Self::Separators
        }
    }
}

/// The longest piece of a name with characters of one class.
struct NamePiece<'n> {
    text: &'n str,
    class: CharacterClass,
}

impl<'n> NamePiece<'n> {
    fn order(&self) -> (usize, &'n str) {
        match self.class {
            CharacterClass::Digits => {
                let number = self.text.trim_start_matches('0');
                (1 + number.len(), number)
            }
            CharacterClass::Letters | CharacterClass::Separators => (0, self.text),
        }
    }
}

fn runs_of(stem: &str) -> Vec<NamePiece<'_>> {
    let mut runs = Vec::new();
    let mut rest = stem;
    while let Some(class) = rest.chars().next().map(CharacterClass::of) {
        let length = rest.find(|c| CharacterClass::of(c) != class).unwrap_or(rest.len());
        runs.push(NamePiece { text: &rest[..length], class });
        rest = &rest[length..];
    }
    runs
}

/// Digits of the largest rank. A longer number is a date, a time or a process id.
const MOST_DIGITS: usize = 5;

/// True if the number at a place is a part of a date, such as `2026-11-30`.
fn is_in_date(runs: &[NamePiece<'_>], at: usize) -> bool {
    let starts = [0, 2, 4].into_iter().filter_map(|before| at.checked_sub(before));
    starts.filter_map(|start| runs.get(start..start + 5)).any(|part| {
        let [year, first, month, second, day] = [0, 1, 2, 3, 4].map(|place| part[place].text);
        let is_number = part.iter().step_by(2).all(|piece| piece.class == CharacterClass::Digits);
        let is_year = year.starts_with("19") || year.starts_with("20");
        is_number && is_year && [year, month, day].map(str::len) == [4, 2, 2] && first == second && first.len() == 1
    })
}

/// Meaning of the number at a place, by its digits, the words in front of it and the letters behind it.
fn counts_at(runs: &[NamePiece<'_>], at: usize) -> Counts {
    if runs[at].text.trim_start_matches('0').len() > MOST_DIGITS || is_in_date(runs, at) {
        return Counts::Other;
    }
    // `8b` and hexadecimal digests; but not `3of8`.
    let next = runs.get(at + 1).filter(|next| next.class == CharacterClass::Letters);
    if next.is_some_and(|next| !next.text.eq_ignore_ascii_case("of")) {
        return Counts::Other;
    }
    // The last word in front of the number, and the one before that, with no other number in between.
    let since_number = runs[..at].iter().rev().take_while(|run| run.class != CharacterClass::Digits);
    let mut words = since_number.filter(|run| run.class == CharacterClass::Letters).map(|run| run.text.to_lowercase());
    let last = words.next().unwrap_or_default();
    let before = words.next().unwrap_or_default();
    counts(&last, &before)
}

fn counts(word: &str, before: &str) -> Counts {
    match word {
        "localrank" | "localid" | "device" | "dev" | "gpu" | "cuda" | "xpu" | "npu" | "hpu" => Counts::Local,
        "noderank" | "groupnoderank" => Counts::Outer,
        "rank" | "ranks" => match before {
            "local" => Counts::Local,
            "node" | "host" | "machine" => Counts::Outer,
            // The place in one direction of a grid: the rank is all of them together.
            "tp" | "pp" | "dp" | "cp" | "ep" | "mp" | "sp" | "tensor" | "pipeline" | "data" | "model" | "expert"
            | "context" | "group" => Counts::Bare,
            _ => Counts::Rank,
        },
        _ if word.ends_with("rank") && !matches!(word, "tprank" | "pprank" | "dprank" | "mprank" | "grouprank") => {
            Counts::Rank
        }
        "node" | "nodeid" | "host" | "machine" | "worker" | "pod" | "replica" | "trainer" | "proc" | "procid"
        | "process" | "task" | "completion" => Counts::Outer,
        "step" | "steps" | "iter" | "iters" | "iteration" | "it" | "epoch" | "batch" | "pid" | "of" | "world"
        | "size" | "worldsize" | "ws" | "seed" | "version" | "v" | "time" | "timestamp" | "ts" | "t" | "date"
        | "job" | "jobid" | "run" | "runid" | "attempt" | "retry" | "restart" => Counts::Other,
        _ => Counts::Bare,
    }
}

/// For each name the bare number that could be the rank: the only one, or the one in which the names differ.
pub(super) fn bare_ranks(all: &[StatedNumbers]) -> Vec<Option<u64>> {
    let mut alike: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, stated) in all.iter().enumerate() {
        alike.entry(&stated.template).or_default().push(index);
    }
    let mut ranks = vec![None; all.len()];
    for members in alike.values() {
        let places = all[members[0]].bare.iter().map(|(place, _)| *place);
        let columns = places.filter_map(|place| members.iter().map(|&member| all[member].bare_at(place)).collect());
        let columns: Vec<Vec<u64>> = columns.collect();
        let Some(column) = column_of_ranks(&columns) else { continue };
        for (&member, &value) in members.iter().zip(column) {
            ranks[member] = Some(value);
        }
    }
    ranks
}

/// Chooses the numbers that are the ranks. `columns` are the bare numbers that all names have at the same places.
/// Chosen is the only column, otherwise the only one that varies, or varies without repetition, or counts from 0.
fn column_of_ranks(columns: &[Vec<u64>]) -> Option<&Vec<u64>> {
    let varying = columns.iter().filter(|column| values(column).len() > 1);
    let distinct = varying.clone().filter(|column| values(column).len() == column.len());
    let dense = distinct.clone().filter(|column| values(column).into_iter().zip(0..).all(|(value, at)| value == at));
    let only = the_only(columns.iter()).or_else(|| the_only(varying));
    only.or_else(|| the_only(distinct)).or_else(|| the_only(dense))
}

fn values(column: &[u64]) -> BTreeSet<u64> {
    column.iter().copied().collect()
}

fn the_only<T>(mut all: impl Iterator<Item = T>) -> Option<T> {
    all.next().filter(|_| all.next().is_none())
}

/// Compares names so that `rank2` comes before `rank10`.
pub(crate) fn natural(a: &str, b: &str) -> Ordering {
    // Names may be equal but for zeros in front of numbers, and need an order all the same.
    pieces(a).cmp(pieces(b)).then_with(|| a.cmp(b))
}

/// True if names differ in numbers only, which then state their order.
pub(crate) fn differ_in_numbers<'n>(names: impl IntoIterator<Item = &'n str>) -> bool {
    let mut names = names.into_iter().map(|name| stated(name).template);
    names.next().is_some_and(|first| names.all(|template| template == first))
}

/// The folders and the name of a file, each in its numbers and what is between them: folders end before longer names go
/// on. A longer number is larger, but for zeros in front.
fn pieces(name: &str) -> impl Iterator<Item = Vec<(usize, &str)>> {
    name.split('/').map(|part| runs_of(part).iter().map(NamePiece::order).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_read_from_names() {
        for (name, rank, node) in [
            ("snapshot_rank3.pkl", Some(3), None),
            ("rank-3", Some(3), None),
            ("rank_03.pickle", Some(3), None),
            ("RANK=3.pkl.gz", Some(3), None),
            ("Rank 3.pt", Some(3), None),
            ("globalRank7.pkl", Some(7), None),
            ("global_rank_7.pkl", Some(7), None),
            ("step_100_device_3.pickle", Some(3), None),
            ("oom_rank3.pickle", Some(3), None),
            ("snapshot_oom_rank-3.pickle", Some(3), None),
            ("snapshot_stop_step_rank3.pickle", Some(3), None),
            ("step_100/rank3.pickle", Some(3), None),
            ("rank3/snapshot.pickle", Some(3), None),
            ("rank/3.pickle", Some(3), None),
            ("rank3/snapshot_rank3.pickle", Some(3), None),
            ("rank3/snapshot_rank4.pickle", None, None),
            ("rank3of8.ptmem.json", Some(3), None),
            ("rank_3_of_8.ptmem.json", Some(3), None),
            ("world_size_8_rank_3.pkl", Some(3), None),
            ("gpu-node-12_rank3.pkl", Some(3), Some(12)),
            ("host2_rank11.pkl", Some(11), Some(2)),
            ("node1_gpu0.pkl", Some(0), Some(1)),
            ("node_rank_1/local_rank_0.pkl", Some(0), Some(1)),
            ("node1/device/0.pkl", Some(0), Some(1)),
            ("rank3_device0.pkl", Some(3), None),
            ("worker-5.pkl", Some(5), None),
            ("slurm_procid_5.pkl", Some(5), None),
            ("snapshot_3.pickle", None, None),
            ("tp_rank_1_pp_rank_0.pkl", None, None),
            ("dev-20261110.ptmem.json", None, None),
            ("gpu-2026-12-30.pkl", None, None),
            ("task_2026_12_30_rank3.pkl", Some(3), None),
            ("2026.12.30/rank3.pkl", Some(3), None),
            ("node-2026-12.pkl", Some(2026), None),
            ("rank-1-20261110.pkl", Some(1), None),
            ("worker-0000012.pkl", Some(12), None),
            ("step_100.pkl", None, None),
            ("rank.pkl", None, None),
            ("rank3b.pkl", None, None),
            ("rank99999999999999999999.pkl", None, None),
            ("", None, None),
        ] {
            let stated = stated(name);
            assert_eq!((stated.rank, stated.node), (rank, node), "{name}");
        }
    }

    fn ranks(names: &[&str]) -> Vec<Option<u64>> {
        bare_ranks(&names.iter().map(|name| stated(name)).collect::<Vec<_>>())
    }

    #[test]
    fn of_bare_numbers_the_one_that_varies_counts() {
        assert_eq!(ranks(&["snapshot_3.pickle"]), [Some(3)]);
        assert_eq!(ranks(&["snapshot_0.pickle", "snapshot_oom_1.pickle"]), [Some(0), Some(1)]);
        assert_eq!(ranks(&["h100_0.pkl", "h100_1.pkl"]), [Some(0), Some(1)]);
        assert_eq!(ranks(&["step_100_0.pkl", "step_100_1.pkl"]), [Some(0), Some(1)]);
        assert_eq!(ranks(&["pid4711_0.pkl", "pid4712_1.pkl"]), [Some(0), Some(1)]);
        assert_eq!(
            ranks(&["ip-10-0-3-7_0.pkl", "ip-10-0-3-7_1.pkl", "ip-10-0-3-8_2.pkl"]),
            [Some(0), Some(1), Some(2)]
        );
        assert_eq!(ranks(&["2026-12-30.pkl", "2026-12-31.pkl"]), [None, None], "dates");
        assert_eq!(ranks(&["0/1732180000000.pkl", "1/1732180000007.pkl"]), [Some(0), Some(1)]);
        assert_eq!(ranks(&["417_0.pkl", "418_1.pkl"]), [Some(0), Some(1)], "both vary; one counts from 0");
        assert_eq!(ranks(&["tp0_pp0.pkl", "tp0_pp1.pkl", "tp1_pp0.pkl", "tp1_pp1.pkl"]), [None; 4]);
        assert_eq!(ranks(&["a_1_2.pkl"]), [None], "nothing tells which");
        assert_eq!(ranks(&["encoder.pkl", "8b.pkl"]), [None, None]);
    }

    #[test]
    fn endings_are_known() {
        for (name, expected) in [
            ("a.pkl", Some("a")),
            ("a.PKL", Some("a")),
            ("a.b.pickle.gz", Some("a.b")),
            ("a.ptmem.json.zst", Some("a")),
            ("a.json", Some("a")),
            ("README.md", None),
            ("a.html", None),
            (".pkl", None),
            ("é", None),
            ("", None),
        ] {
            assert_eq!(stem(name), expected, "{name}");
        }
    }

    #[test]
    fn numbers_are_ordered_by_value() {
        let mut names = ["rank10", "rank2", "rank02", "rank1/b", "rank1-a", "rank1", "a", "rank100000000000000000000"];
        names.sort_by(|a, b| natural(a, b));
        assert_eq!(
            names,
            ["a", "rank1", "rank1/b", "rank1-a", "rank02", "rank2", "rank10", "rank100000000000000000000"]
        );
    }
}
