//! Reads from the name of a file which rank wrote it.
//!
//! Every program names its files in its own way: `snapshot_rank3.pkl`, `rank-03`, `step_100_device_3.pickle`,
//! `step_100/rank3.pickle`, `node1_gpu0.pkl`, `snapshot_3.pickle`. A number belongs to the word in front of it; one
//! that stands behind no such word may be the rank if it differs between the files.

use std::cmp::Ordering;
use std::collections::BTreeMap;

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
pub(super) struct Stated {
    /// The rank that it states in words.
    pub(super) rank: Option<u64>,
    /// The node that it states beside a rank.
    pub(super) node: Option<u64>,
    /// The name with a mark in place of every number: names that differ in numbers only have the same.
    template: String,
    /// The numbers behind no word that says what they count, and at which place among all.
    bare: Vec<(usize, u64)>,
}

/// A number in a name.
struct Number<'n> {
    digits: &'n str,
    counts: Counts,
}

/// A name without the ending that says what kind of file it is; `None` where no ending is known.
pub(super) fn stem(name: &str) -> Option<&str> {
    let plain = COMPRESSED.iter().find_map(|ending| ends(name, ending)).unwrap_or(name);
    ENDINGS.iter().find_map(|ending| ends(plain, ending))
}

fn ends<'n>(name: &'n str, ending: &str) -> Option<&'n str> {
    let from = name.len().checked_sub(ending.len()).filter(|&from| from > 0)?;
    name.get(from..)?.eq_ignore_ascii_case(ending).then(|| &name[..from])
}

/// Reads a relative name whose folders are separated by `/`.
pub(super) fn stated(name: &str) -> Stated {
    let stem = stem(name).unwrap_or(name);
    let (template, numbers) = numbers(stem);
    let all = |counts: Counts| numbers.iter().filter(move |number| number.counts == counts);
    // The same rank may be said twice: by the folder and by the file.
    let only = |counts: Counts| {
        let mut values = all(counts).map(|number| number.digits.parse::<u64>().ok());
        let first = values.next()?;
        values.all(|value| value == first).then_some(first)?
    };
    let [rank, local, outer] = [Counts::Rank, Counts::Local, Counts::Outer].map(only);
    let says = |counts| all(counts).next().is_some();
    let (rank, node) = match () {
        () if says(Counts::Rank) => (rank, outer),
        () if says(Counts::Local) => (local, outer),
        () => (outer, None),
    };
    // A longer number is a time or a process id.
    let bare = |(at, number): (usize, &Number<'_>)| {
        let short = number.counts == Counts::Bare && number.digits.len() <= 6;
        Some((at, number.digits.parse().ok().filter(|_| short)?))
    };
    Stated {
        rank,
        node: node.filter(|_| rank.is_some()),
        template,
        bare: numbers.iter().enumerate().filter_map(bare).collect(),
    }
}

/// Every number of a name, and the name without them.
fn numbers(stem: &str) -> (String, Vec<Number<'_>>) {
    let class = |c: char| {
        if c.is_ascii_digit() {
            0
        } else if c.is_alphabetic() {
            1
        } else {
            2
        }
    };
    let mut runs: Vec<&str> = Vec::new();
    let mut start = 0;
    for (at, pair) in stem.char_indices().zip(stem.chars().skip(1)) {
        let (index, c) = at;
        if class(c) != class(pair) {
            let end = index + c.len_utf8();
            runs.push(&stem[start..end]);
            start = end;
        }
    }
    runs.push(&stem[start..]);
    let is = |at: usize, of: u8| runs.get(at).and_then(|run| run.chars().next()).is_some_and(|c| class(c) == of);
    let (mut template, mut numbers) = (String::new(), Vec::new());
    for (at, run) in runs.iter().enumerate() {
        if !is(at, 0) {
            template.push_str(run);
            continue;
        }
        template.push('#');
        // The last word in front of it, and the one before that, with no other number in between.
        let mut words =
            runs[..at].iter().enumerate().rev().take_while(|(at, _)| !is(*at, 0)).filter(|(at, _)| is(*at, 1));
        let [last, before] =
            [words.next(), words.next()].map(|word| word.map_or(String::new(), |(_, word)| word.to_lowercase()));
        let mut counts = counts(&last, &before);
        // `8b` and hexadecimal digests; but not `3of8`.
        if is(at + 1, 1) && !runs[at + 1].eq_ignore_ascii_case("of") {
            counts = Counts::Other;
        }
        numbers.push(Number { digits: run, counts });
    }
    (template, numbers)
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
pub(super) fn bare_ranks(all: &[Stated]) -> Vec<Option<u64>> {
    let mut alike: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, stated) in all.iter().enumerate() {
        alike.entry(&stated.template).or_default().push(index);
    }
    let mut ranks = vec![None; all.len()];
    for members in alike.values() {
        let value = |index: usize, place: usize| all[index].bare.iter().find(|(at, _)| *at == place).map(|(_, n)| *n);
        let column = |place: usize| members.iter().map(|&index| value(index, place)).collect::<Option<Vec<u64>>>();
        let columns: Vec<_> =
            all[members[0]].bare.iter().filter_map(|&(place, _)| Some((place, column(place)?))).collect();
        if let Some(place) = place_of_rank(&columns) {
            for &index in members {
                ranks[index] = value(index, place);
            }
        }
    }
    ranks
}

/// Which number it is, given what every file has at every place.
fn place_of_rank(columns: &[(usize, Vec<u64>)]) -> Option<usize> {
    if let [(only, _)] = columns {
        return Some(*only);
    }
    let sorted = |column: &[u64]| {
        let mut column = column.to_vec();
        column.sort_unstable();
        column
    };
    let varies = |column: &[u64]| column.iter().any(|n| *n != column[0]);
    let distinct = |column: &[u64]| sorted(column).windows(2).all(|pair| pair[0] != pair[1]);
    let dense = |column: &[u64]| (0..).zip(sorted(column)).all(|(expected, n)| expected == n);
    let passes = |test: usize, column: &[u64]| match test {
        0 => varies(column),
        1 => varies(column) && distinct(column),
        _ => varies(column) && dense(column),
    };
    for test in 0..3 {
        let mut places = columns.iter().filter(|(_, column)| passes(test, column)).map(|(place, _)| *place);
        if let (Some(only), None) = (places.next(), places.next()) {
            return Some(only);
        }
    }
    None
}

/// Compares names so that `rank2` stands before `rank10`.
pub(super) fn natural(a: &str, b: &str) -> Ordering {
    let (mut left, mut right) = (a.as_bytes(), b.as_bytes());
    loop {
        match (left, right) {
            ([x, ..], [y, ..]) if x.is_ascii_digit() && y.is_ascii_digit() => {
                let digits = |text: &[u8]| text.iter().take_while(|byte| byte.is_ascii_digit()).count();
                let ((x, rest_left), (y, rest_right)) = (left.split_at(digits(left)), right.split_at(digits(right)));
                let significant = |text: &[u8]| text.iter().position(|&byte| byte != b'0').unwrap_or(text.len());
                let (x, y) = (&x[significant(x)..], &y[significant(y)..]);
                let order = x.len().cmp(&y.len()).then_with(|| x.cmp(y));
                if order != Ordering::Equal {
                    return order;
                }
                (left, right) = (rest_left, rest_right);
            }
            ([x, rest_left @ ..], [y, rest_right @ ..]) => {
                // Folders end before longer names go on.
                let order = (*x != b'/', x).cmp(&(*y != b'/', y));
                if order != Ordering::Equal {
                    return order;
                }
                (left, right) = (rest_left, rest_right);
            }
            // Equal but for zeros in front of numbers: an order that is always the same.
            _ => return left.len().cmp(&right.len()).then_with(|| a.cmp(b)),
        }
    }
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

    #[test]
    fn of_bare_numbers_the_one_that_varies_counts() {
        let ranks = |names: &[&str]| bare_ranks(&names.iter().map(|name| stated(name)).collect::<Vec<_>>());
        assert_eq!(ranks(&["snapshot_3.pickle"]), [Some(3)]);
        assert_eq!(ranks(&["snapshot_0.pickle", "snapshot_oom_1.pickle"]), [Some(0), Some(1)]);
        assert_eq!(ranks(&["h100_0.pkl", "h100_1.pkl"]), [Some(0), Some(1)]);
        assert_eq!(ranks(&["step_100_0.pkl", "step_100_1.pkl"]), [Some(0), Some(1)]);
        assert_eq!(ranks(&["pid4711_0.pkl", "pid4712_1.pkl"]), [Some(0), Some(1)]);
        assert_eq!(
            ranks(&["ip-10-0-3-7_0.pkl", "ip-10-0-3-7_1.pkl", "ip-10-0-3-8_2.pkl"]),
            [Some(0), Some(1), Some(2)]
        );
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
