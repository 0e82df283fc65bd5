//! Which rank wrote a file, and which files of the before and the after are of one rank.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};
use ptmem::sides::{Side, Sides};
use ptmem::verdict::{Member, Rank, has_ranks};
use ptmem_base::text::count;

use super::find::FoundFile;
use super::name::natural;

/// Names that an error lists.
const MOST_NAMES: usize = 4;

/// The rule by which every command derives ranks from the names of files.
///
/// Decided from the files of all sides together, so that the same name means the same rank on each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RankRule {
    /// Whether ranks are counted on each node, rather than over the whole job.
    with_node: bool,
    /// Whether a number behind no word that says what it counts is a rank.
    bare: bool,
}

impl RankRule {
    /// The rule for sets of files of which each has one file a rank.
    pub(super) fn of(sides: &[&[FoundFile]]) -> Self {
        Self {
            with_node: sides.iter().any(|found| counts_on_nodes(found)),
            bare: sides.iter().all(|found| bare_numbers_are_alike(found) && !has_names_of_cases(found)),
        }
    }

    /// The rule for series of snapshots: a bare number there is that of the snapshot.
    pub(super) fn of_series(found: &[FoundFile]) -> Self {
        Self { with_node: counts_on_nodes(found), bare: false }
    }

    /// The rank or the name by which a file differs from the others of its side.
    fn member(self, found: &FoundFile) -> Member {
        match self.rank(found) {
            Some(rank) => Member { rank: Some(rank), label: rank.to_string() },
            None => Member { rank: None, label: found.stem().to_owned() },
        }
    }

    /// The rank that the name of a file states.
    pub(super) fn rank(self, found: &FoundFile) -> Option<Rank> {
        let number = found.rank.or(found.number.filter(|_| self.bare))?;
        Some(Rank { node: found.node.filter(|_| self.with_node), number })
    }
}

/// Whether the same rank is there on several nodes.
fn counts_on_nodes(found: &[FoundFile]) -> bool {
    let stated = found.iter().filter_map(|found| Some((found.node, found.rank.or(found.number)?)));
    let places: BTreeSet<_> = stated.collect();
    let numbers: BTreeSet<_> = places.iter().map(|(_, number)| number).collect();
    numbers.len() < places.len()
}

/// Numbers behind different words, such as `encoder_1` and `decoder_1`, are not ranks.
fn bare_numbers_are_alike(found: &[FoundFile]) -> bool {
    let mut first: BTreeMap<u64, &FoundFile> = BTreeMap::new();
    let mut bare = found.iter().filter(|found| found.rank.is_none());
    bare.all(|found| {
        let Some(number) = found.number else { return true };
        let other = *first.entry(number).or_insert(found);
        other.path == found.path || shape(other) == shape(found)
    })
}

/// Cases go by their names, and so do the files that belong to them.
fn has_names_of_cases(found: &[FoundFile]) -> bool {
    found.iter().any(|found| found.is_case && found.rank.is_none())
}

/// The words of a name, without its numbers.
fn shape(found: &FoundFile) -> String {
    found.stem().split(|c: char| c.is_ascii_digit()).filter(|part| !part.is_empty()).collect::<Vec<_>>().join("#")
}

/// The files of one rank on both sides.
#[derive(Debug)]
pub(crate) struct RankPair<'f> {
    pub(crate) member: Member,
    pub(crate) before: &'f FoundFile,
    pub(crate) after: &'f FoundFile,
}

/// The file of a rank that one side lacks.
#[derive(Debug)]
pub(crate) struct UnpairedRank<'f> {
    pub(crate) member: Member,
    /// The side that lacks it.
    pub(crate) side: Side,
    pub(crate) found: &'f FoundFile,
}

/// The ranks of both sides.
#[derive(Debug, Default)]
pub(crate) struct Pairs<'f> {
    pub(crate) pairs: Vec<RankPair<'f>>,
    pub(crate) missing: Vec<UnpairedRank<'f>>,
}

/// Pairs the files of two sides by rank, otherwise by equal relative names.
///
/// # Errors
/// Where two files of one side are of the same rank, or no rank is on both sides.
pub(crate) fn pair<'f>(paths: Sides<&Path>, found: &'f Sides<Vec<FoundFile>>) -> Result<Pairs<'f>> {
    let mut pairs = Pairs::default();
    // One file on each side is a pair, unless they state different ranks. The name of a case says what was measured.
    if let ([before], [after]) = (&found.before[..], &found.after[..])
        && !(before.is_case && after.is_case)
        && before.rank.zip(after.rank).is_none_or(|(before, after)| before == after)
    {
        let rule = RankRule::of(&[]);
        let is_same = rule.rank(before) == rule.rank(after);
        let named = Member { rank: None, label: after.stem().to_owned() };
        pairs.pairs.push(RankPair { member: if is_same { rule.member(after) } else { named }, before, after });
        return Ok(pairs);
    }
    let rule = RankRule::of(&[&found.before, &found.after]);
    let mut all = Vec::new();
    for (side, found) in found.each() {
        let members = members_by(rule, paths.of(side), found)?;
        all.extend(members.into_iter().map(|(member, found)| (member, side, found)));
    }
    all.sort_by(|(a, ..), (b, ..)| order(a, b));
    for same in all.chunk_by(|(a, ..), (b, ..)| a == b) {
        match same {
            [(member, _, before), (_, _, after)] => {
                pairs.pairs.push(RankPair { member: member.clone(), before, after });
            }
            _ => pairs.missing.extend(same.iter().map(|(member, side, found)| UnpairedRank {
                member: member.clone(),
                side: side.other(),
                found,
            })),
        }
    }
    if has_ranks(all.iter().map(|(member, ..)| member)) {
        let unranked = pairs.missing.iter_mut().filter(|missing| missing.member.rank.is_none());
        unranked.for_each(|missing| missing.member.label.push_str(" (no rank in its name)"));
    }
    if pairs.pairs.is_empty() {
        return Err(nothing_in_common(paths, found));
    }
    Ok(pairs)
}

/// The error where no file of one side belongs to one of the other.
fn nothing_in_common(paths: Sides<&Path>, found: &Sides<Vec<FoundFile>>) -> anyhow::Error {
    let are_cases = found.before.iter().chain(&found.after).all(|found| found.is_case);
    let [what, expected] = if are_cases {
        ["case of the before is in the after", "cases of the same names on both sides"]
    } else {
        let files = "a file for each rank on both sides, with the rank or the same name in their names";
        ["file of the before belongs to one of the after", files]
    };
    anyhow!(
        "no {what}: {} holds {}, {} holds {}; expected {expected}",
        paths.before.display(),
        names(found.before.iter()),
        paths.after.display(),
        names(found.after.iter())
    )
}

/// The ranks of one side, in order.
///
/// # Errors
/// Where two files are of the same rank.
pub(crate) fn members<'f>(path: &Path, found: &'f [FoundFile]) -> Result<Vec<(Member, &'f FoundFile)>> {
    members_by(RankRule::of(&[found]), path, found)
}

fn members_by<'f>(rule: RankRule, path: &Path, found: &'f [FoundFile]) -> Result<Vec<(Member, &'f FoundFile)>> {
    let mut members: Vec<_> = found.iter().map(|found| (rule.member(found), found)).collect();
    members.sort_by(|(a, _), (b, _)| order(a, b));
    let mut several = members.chunk_by(|(a, _), (b, _)| a == b).filter(|files| files.len() > 1);
    match several.next() {
        Some(files) => Err(ambiguous(path, files, several.count())),
        None => Ok(members),
    }
}

/// By rank, or in natural order of names.
fn order(a: &Member, b: &Member) -> Ordering {
    a.rank.cmp(&b.rank).then_with(|| natural(&a.label, &b.label))
}

/// The error where several files are of one rank, and of others likewise.
fn ambiguous(path: &Path, files: &[(Member, &FoundFile)], others: usize) -> anyhow::Error {
    let (Member { rank, label }, last) = &files[files.len() - 1];
    let of = if rank.is_some() { "of" } else { "called" };
    let likewise = match others {
        0 => String::new(),
        _ => format!(" ({} with several files)", count(others as u64, "more rank", "more ranks")),
    };
    let ending = last.name.strip_prefix(last.stem()).unwrap_or_default();
    let mut globs = files.iter().rev().filter_map(|(_, found)| glob_of(found, files));
    let glob = globs.next().unwrap_or_else(|| last.path.with_file_name(format!("*{ending}")));
    anyhow!(
        "{}: {} files are {of} {label}: {}{likewise}; expected one for each rank. Choose them with a glob, such as '{}'",
        path.display(),
        files.len(),
        names(files.iter().map(|(_, found)| *found)),
        glob.display()
    )
}

/// A glob for the files of other ranks that are named like this one; `None` if several of `files` match it.
fn glob_of(found: &FoundFile, files: &[(Member, &FoundFile)]) -> Option<PathBuf> {
    let (start, end) = around(&found.name, found.rank.or(found.number)?)?;
    let alike = files.iter().filter(|(_, other)| other.name.starts_with(start) && other.name.ends_with(end));
    let base = found.path.to_str()?.strip_suffix(&found.name)?;
    (alike.count() == 1).then(|| PathBuf::from(format!("{base}{start}*{end}")))
}

/// The parts of a name before and after the last number that is the rank.
fn around(name: &str, rank: u64) -> Option<(&str, &str)> {
    let rank = rank.to_string();
    let parts = name.rmatch_indices(&rank).map(|(at, digits)| (&name[..at], &name[at + digits.len()..]));
    let mut parts = parts.map(|(start, end)| (start.trim_end_matches('0'), end));
    let is_digit = |char: char| char.is_ascii_digit();
    parts.find(|(start, end)| !start.ends_with(is_digit) && !end.starts_with(is_digit))
}

/// The first names of a side.
fn names<'f>(found: impl ExactSizeIterator<Item = &'f FoundFile>) -> String {
    let more = found.len().saturating_sub(MOST_NAMES);
    let mut shown: Vec<_> = found.take(MOST_NAMES).map(|found| found.name.clone()).collect();
    if more > 0 {
        shown.push(format!("{more} more"));
    }
    shown.join(", ")
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::super::find::describe;
    use super::*;

    fn found(names: &[&str]) -> Vec<FoundFile> {
        describe(names.iter().map(|name| (PathBuf::from("runs").join(name), (*name).to_owned())).collect())
    }

    /// `label=before:after` for every pair, `-label` and `+label` for missing files.
    fn paired(before: &[&str], after: &[&str]) -> Result<Vec<String>, String> {
        let found = Sides { before: found(before), after: found(after) };
        let paths = Sides { before: Path::new("a"), after: Path::new("b") };
        let pairs = pair(paths, &found).map_err(|error| error.to_string())?;
        let mut texts = Vec::new();
        for RankPair { member, before, after } in pairs.pairs {
            texts.push(format!("{}={}:{}", member.label, before.name, after.name));
        }
        for UnpairedRank { member, side, .. } in pairs.missing {
            texts.push(format!("{}{}", if side == Side::After { '-' } else { '+' }, member.label));
        }
        Ok(texts)
    }

    fn ok(before: &[&str], after: &[&str]) -> Vec<String> {
        paired(before, after).unwrap()
    }

    fn error(before: &[&str]) -> String {
        paired(before, &["rank0.pkl", "rank1.pkl"]).unwrap_err()
    }

    #[test]
    fn files_are_paired_by_rank_or_by_name() {
        assert_eq!(
            ok(&["rank0.pkl", "rank10.pkl", "rank2.pkl"], &["s_2.ptmem.json", "s_0.ptmem.json", "s_10.ptmem.json"]),
            [
                "rank 0=rank0.pkl:s_0.ptmem.json",
                "rank 2=rank2.pkl:s_2.ptmem.json",
                "rank 10=rank10.pkl:s_10.ptmem.json"
            ]
        );
        assert_eq!(
            ok(&["step_1/rank0.pkl", "step_1/rank1.pkl"], &["step_9/rank1.pkl", "step_9/rank2.pkl"]),
            ["rank 1=step_1/rank1.pkl:step_9/rank1.pkl", "-rank 0", "+rank 2"]
        );
        assert_eq!(
            ok(&["node0_gpu0.pkl", "node1_gpu0.pkl"], &["node0_gpu0.pkl", "node1_gpu0.pkl"]),
            ["node 0 rank 0=node0_gpu0.pkl:node0_gpu0.pkl", "node 1 rank 0=node1_gpu0.pkl:node1_gpu0.pkl"]
        );
        assert_eq!(
            ok(&["host7_rank0.pkl", "host8_rank1.pkl"], &["host1_rank0.pkl", "host2_rank1.pkl"]),
            ["rank 0=host7_rank0.pkl:host1_rank0.pkl", "rank 1=host8_rank1.pkl:host2_rank1.pkl"],
            "a rank of the job counts on whatever host it ran"
        );
        assert_eq!(
            ok(&["decoder_1.pkl", "encoder_1.pkl"], &["decoder_1.ptmem.json", "encoder_1.ptmem.json"]),
            ["decoder_1=decoder_1.pkl:decoder_1.ptmem.json", "encoder_1=encoder_1.pkl:encoder_1.ptmem.json"]
        );
        assert_eq!(
            ok(&["rank0.pkl", "rank1.pkl"], &["rank0.pkl", "other.pkl"]),
            ["rank 0=rank0.pkl:rank0.pkl", "+other (no rank in its name)", "-rank 1"]
        );
        assert_eq!(ok(&["a.pkl", "b.pkl"], &["b.pkl", "c.pkl"]), ["b=b.pkl:b.pkl", "-a", "+c"]);
        assert_eq!(ok(&["old_17.pkl"], &["new_18.pkl"]), ["new_18=old_17.pkl:new_18.pkl"], "one on each side");
        assert_eq!(ok(&["rank0.pkl"], &["after.pkl"]), ["after=rank0.pkl:after.pkl"]);
        let other = paired(&["rank0.pkl"], &["rank1.pkl"]).unwrap_err();
        assert!(other.contains("no file of the before belongs to one of the after: a holds rank0.pkl"), "{other}");
    }

    #[test]
    fn two_files_of_one_rank_are_an_error() {
        let steps = error(&["step_1/rank0.pkl", "step_1/rank1.pkl", "step_2/rank0.pkl", "step_2/rank1.pkl"]);
        assert!(steps.starts_with("a: 2 files are of rank 0: step_1/rank0.pkl, step_2/rank0.pkl"), "{steps}");
        assert!(
            steps.contains("1 more rank with several") && steps.ends_with("such as 'runs/step_2/rank*.pkl'"),
            "{steps}"
        );
        let both = error(&["rank0.pkl", "rank0.ptmem.json", "rank1.pkl"]);
        assert!(both.ends_with("such as 'runs/rank*.ptmem.json'"), "{both}");
        let padded = error(&["x3_rank_00.pkl", "y3_rank_00.pkl"]);
        assert!(padded.contains("2 files are of rank 0") && padded.ends_with("/y3_rank_*.pkl'"), "{padded}");
        let bare = error(&["step_1_0.pkl", "step_1_1.pkl", "step_2_0.pkl", "step_2_1.pkl"]);
        assert!(bare.contains("2 files are of rank 0"), "{bare}");
        let names = error(&["a.pkl", "a.ptmem.json"]);
        assert!(names.contains("are called a") && names.ends_with("'runs/*.ptmem.json'"), "{names}");
        let none = paired(&["a.pkl", "b.pkl"], &["c.pkl", "d.pkl", "e.pkl", "f.pkl", "g.pkl"]).unwrap_err();
        assert!(none.contains("a holds a.pkl, b.pkl") && none.contains("f.pkl, 1 more"), "{none}");
    }
}
