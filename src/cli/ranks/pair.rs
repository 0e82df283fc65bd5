//! Pairs the files of the before with those of the after.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Result, bail};
use ptmem::sides::Side;
use ptmem::verdict::{Member, Missing, Rank};

use super::find::Found;
use super::name::natural;
use super::rule::RankRule;

/// Names that an error lists.
const MOST_NAMES: usize = 4;

/// Identity by which the files of one side differ.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Identity {
    Rank(Rank),
    Name(String),
}

impl Identity {
    fn of(found: &Found, rule: RankRule) -> Self {
        rule.rank(found).map_or_else(|| Self::Name(found.stem().to_owned()), Self::Rank)
    }

    fn member(&self) -> Member {
        match self {
            Self::Rank(rank) => Member { rank: Some(*rank), label: rank.to_string() },
            Self::Name(name) => Member { rank: None, label: name.clone() },
        }
    }

    /// By rank, or in natural order of names.
    fn order(&self, other: &Self) -> std::cmp::Ordering {
        match (self, other) {
            (Self::Name(a), Self::Name(b)) => natural(a, b),
            _ => self.cmp(other),
        }
    }
}

/// The files of one rank on both sides.
#[derive(Debug)]
pub(crate) struct Pair<'f> {
    pub(crate) member: Member,
    pub(crate) before: &'f Found,
    pub(crate) after: &'f Found,
}

/// The ranks of both sides.
#[derive(Debug)]
pub(crate) struct Pairs<'f> {
    pub(crate) pairs: Vec<Pair<'f>>,
    pub(crate) missing: Vec<Missing>,
}

/// Pairs the files of two sides by rank, else by equal relative names.
///
/// # Errors
/// Where two files of one side are of the same rank, or no rank is on both sides.
pub(crate) fn pair<'f>(before: (&Path, &'f [Found]), after: (&Path, &'f [Found])) -> Result<Pairs<'f>> {
    // One file on each side is a pair, whatever they are called.
    if let ([before], [after]) = (before.1, after.1) {
        let rule = RankRule::of(&[]);
        let same = rule.rank(before) == rule.rank(after);
        let named = if same { Identity::of(after, rule) } else { Identity::Name(after.stem().to_owned()) };
        return Ok(Pairs { pairs: vec![Pair { member: named.member(), before, after }], missing: Vec::new() });
    }
    let [old, new] = identities([before, after])?;
    let mut all: Vec<&Identity> = old.keys().chain(new.keys()).collect::<BTreeSet<_>>().into_iter().collect();
    all.sort_by(|a, b| a.order(b));
    let mut pairs = Vec::new();
    let mut missing = Vec::new();
    for identity in all {
        let member = identity.member();
        match (old.get(identity), new.get(identity)) {
            (Some(before), Some(after)) => pairs.push(Pair { member, before, after }),
            (Some(found), None) | (None, Some(found)) => {
                let side = if old.contains_key(identity) { Side::After } else { Side::Before };
                missing.push(Missing { member, side, path: found.path.display().to_string() });
            }
            (None, None) => {}
        }
    }
    if pairs.is_empty() {
        bail!(
            "no file of the before belongs to one of the after: {} holds {}, {} holds {}; expected a file for each rank \
             on both sides, with the rank or the same name in their names",
            before.0.display(),
            names(before.1),
            after.0.display(),
            names(after.1)
        );
    }
    Ok(Pairs { pairs, missing })
}

/// The ranks of one side, in order.
///
/// # Errors
/// Where two files are of the same rank.
pub(crate) fn members<'f>(path: &Path, found: &'f [Found]) -> Result<Vec<(Member, &'f Found)>> {
    let [identities] = identities([(path, found)])?;
    let mut members: Vec<_> = identities.into_iter().collect();
    members.sort_by(|(a, _), (b, _)| a.order(b));
    Ok(members.into_iter().map(|(identity, found)| (identity.member(), found)).collect())
}

/// The files of every side by their identities, which are of the same kind on all sides.
fn identities<'f, const N: usize>(sides: [(&Path, &'f [Found]); N]) -> Result<[BTreeMap<Identity, &'f Found>; N]> {
    let rule = RankRule::of(&sides.map(|(_, found)| found));
    let mut maps = [(); N].map(|()| BTreeMap::new());
    for ((path, found), map) in sides.iter().zip(&mut maps) {
        let mut several: BTreeMap<Identity, Vec<&Found>> = BTreeMap::new();
        for found in *found {
            several.entry(Identity::of(found, rule)).or_default().push(found);
        }
        if let Some((identity, files)) = several.iter().find(|(_, files)| files.len() > 1) {
            let others = several.values().filter(|files| files.len() > 1).count() - 1;
            return Err(ambiguous(path, identity, files, others));
        }
        map.extend(several.into_iter().filter_map(|(identity, files)| Some((identity, *files.first()?))));
    }
    Ok(maps)
}

fn ambiguous(path: &Path, identity: &Identity, files: &[&Found], others: usize) -> anyhow::Error {
    let of = match identity {
        Identity::Rank(rank) => format!("are of {rank}"),
        Identity::Name(name) => format!("are called {name}"),
    };
    let all: Vec<Found> = files.iter().map(|&found| found.clone()).collect();
    let likewise = if others > 0 { format!(" (and those of {others} more likewise)") } else { String::new() };
    let glob = files.last().map(|found| {
        let ending = found.name.strip_prefix(found.stem()).unwrap_or_default();
        found.path.with_file_name(format!("*{ending}")).display().to_string()
    });
    let glob = glob.unwrap_or_default();
    anyhow::anyhow!(
        "{}: {} files {of}: {}{likewise}; expected one for each rank. Choose them with a glob, such as '{glob}'",
        path.display(),
        files.len(),
        names(&all)
    )
}

/// The first names of a side.
fn names(found: &[Found]) -> String {
    let mut shown: Vec<_> = found.iter().take(MOST_NAMES).map(|found| &*found.name).collect();
    let more = format!("{} more", found.len().saturating_sub(MOST_NAMES));
    if found.len() > MOST_NAMES {
        shown.push(&more);
    }
    shown.join(", ")
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::super::find::describe;
    use super::*;

    fn found(names: &[&str]) -> Vec<Found> {
        describe(names.iter().map(|name| (PathBuf::from("runs").join(name), (*name).to_owned())).collect())
    }

    /// `label=before:after` of every pair, `-label` and `+label` of what is missing.
    fn paired(before: &[&str], after: &[&str]) -> Result<Vec<String>, String> {
        let before = found(before);
        let after = found(after);
        let pairs = pair((Path::new("a"), &before), (Path::new("b"), &after)).map_err(|error| error.to_string())?;
        let mut texts = Vec::new();
        for Pair { member, before, after } in pairs.pairs {
            texts.push(format!("{}={}:{}", member.label, before.name, after.name));
        }
        for Missing { member, side, .. } in pairs.missing {
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
        assert_eq!(ok(&["a.pkl", "b.pkl"], &["b.pkl", "c.pkl"]), ["b=b.pkl:b.pkl", "-a", "+c"]);
        assert_eq!(ok(&["old_17.pkl"], &["new_18.pkl"]), ["new_18=old_17.pkl:new_18.pkl"], "one on each side");
    }

    #[test]
    fn two_files_of_one_rank_are_an_error() {
        let steps = error(&["step_1/rank0.pkl", "step_1/rank1.pkl", "step_2/rank0.pkl", "step_2/rank1.pkl"]);
        assert!(steps.starts_with("a: 2 files are of rank 0: step_1/rank0.pkl, step_2/rank0.pkl"), "{steps}");
        assert!(steps.contains("1 more likewise") && steps.ends_with("such as 'runs/step_2/*.pkl'"), "{steps}");
        let both = error(&["rank0.pkl", "rank0.ptmem.json", "rank1.pkl"]);
        assert!(both.ends_with("such as 'runs/*.ptmem.json'"), "{both}");
        let padded = error(&["x3_rank_00.pkl", "y3_rank_00.pkl"]);
        assert!(padded.contains("2 files are of rank 0"), "{padded}");
        let bare = error(&["step_1_0.pkl", "step_1_1.pkl", "step_2_0.pkl", "step_2_1.pkl"]);
        assert!(bare.contains("2 files are of rank 0"), "{bare}");
        let names = error(&["a.pkl", "a.ptmem.json"]);
        assert!(names.contains("are called a") && names.ends_with("'runs/*.ptmem.json'"), "{names}");
        let none = paired(&["a.pkl", "b.pkl"], &["c.pkl", "d.pkl", "e.pkl", "f.pkl", "g.pkl"]).unwrap_err();
        assert!(none.contains("a holds a.pkl, b.pkl") && none.contains("f.pkl, 1 more"), "{none}");
    }
}
