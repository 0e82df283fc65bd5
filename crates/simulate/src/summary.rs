//! A run that has ended, in a line for people.

use std::path::Path;
use std::{env, fs};

use ptmem_base::units::Size;

use crate::ledger::CountedFact;
use crate::report::{EndedRun, Followed, PeerValue};
use crate::settings::Settings;

/// Places of values that only other ranks know which the line names.
const MOST_PLACES: usize = 3;

/// One line for people: the rank, what was recorded, the simulated GPUs, and possible differences from a
/// real run.
pub(super) fn summary(outcome: &EndedRun<'_>) -> String {
    let Settings { card, gpus, memory, fill, .. } = outcome.settings;
    let plural = if *gpus == 1 { "" } else { "s" };
    let memory = Size(*memory);
    let ledger = &outcome.ledger;
    if ledger.fact(CountedFact::Processes) == 0 {
        return "no process loaded the simulated GPU: the command is a static program, or one for another C library"
            .to_owned();
    }
    let rank = outcome.rank.map(|rank| format!("rank {} of {}: ", rank.number, rank.world_size)).unwrap_or_default();
    let mut parts = recorded(outcome);
    parts.push(format!("ran on {gpus} simulated GPU{plural} ({card}, {memory})"));
    if ledger.fact(CountedFact::DeviceCounts) == 0 {
        parts.push(match outcome.exit_code {
            0 => "no process asked for a CUDA device: is this a PyTorch with CUDA (pip install torch on Linux)?"
                .to_owned(),
            code => format!("the command failed with exit code {code} before it asked for a CUDA device"),
        });
    }
    parts.extend(Followed::ALL.into_iter().filter_map(|kind| followed(outcome, kind)));
    if !outcome.peer_values.is_empty() {
        parts.push(peer_values(&outcome.peer_values));
    }
    let reads = ledger.fact(CountedFact::Reads);
    let workspace = Size(outcome.settings.cudnn_workspace);
    let unset = format!(
        "of {reads} reads were of unknown values (losses, norms, conditions): they read as {fill}, or as what follows from \
         assumed values"
    );
    let large = format!("reads were of values beyond --compute: they read as {fill}");
    let doubtful = "reads were of values that a kernel or another rank may have changed: they returned the older value";
    let plans =
        format!("cuDNN plans had a workspace of {workspace}: only cuDNN knows the real one (--cudnn-workspace)");
    let times = "elapsed times were all 100 ms: a choice by speed falls on the first candidate";
    for (fact, words) in [
        (CountedFact::UnsetReads, &*unset),
        (CountedFact::LargeReads, &large),
        (CountedFact::DoubtfulReads, doubtful),
        (CountedFact::CudnnPlans, &plans),
        (CountedFact::ElapsedTimes, times),
        (CountedFact::OutOfMemory, "attempts to allocate did not fit"),
    ] {
        if let count @ 1.. = ledger.fact(fact) {
            parts.push(format!("{count} {words}"));
        }
    }
    let unanswered: Vec<&str> = ledger.unanswered().map(|call| call.name).collect();
    if !unanswered.is_empty() {
        parts.push(format!("not simulated: {}", unanswered.join(", ")));
    }
    rank + &parts.join("; ")
}

/// What was recorded, and how the program ended.
fn recorded(outcome: &EndedRun<'_>) -> Vec<String> {
    let Some((first, others)) = outcome.recorded.split_first() else { return Vec::new() };
    let mut files = named(first);
    match others {
        [] => {}
        [other] => files += &format!(" and {}", named(other)),
        others => files += &format!(" and {} more files", others.len()),
    }
    // Of a run that failed, it is not known which steps a file has.
    match outcome.steps.filter(|_| outcome.exit_code == 0 && outcome.problems.is_empty()) {
        Some(steps) if outcome.was_stopped => {
            vec![format!("recorded {steps} in {files}"), "the program was stopped after them".to_owned()]
        }
        Some(steps) => vec![format!("recorded {steps} in {files}")],
        None => vec![format!("recorded {files}")],
    }
}

/// A file, from the working directory, with its size.
fn named(path: &str) -> String {
    let here = env::current_dir().unwrap_or_default();
    let shown = Path::new(path).strip_prefix(here).unwrap_or(Path::new(path)).display();
    match fs::metadata(path) {
        Ok(file) => format!("{shown} ({})", Size(file.len())),
        Err(_) => shown.to_string(),
    }
}

fn peer_values(values: &[PeerValue]) -> String {
    let times: u64 = values.iter().map(|value| value.times).sum();
    let mut places: Vec<&str> = values.iter().take(MOST_PLACES).map(|value| value.place.as_str()).collect();
    let others = format!("{} other places", values.len().saturating_sub(MOST_PLACES));
    if values.len() > MOST_PLACES {
        places.push(&others);
    }
    format!(
        "values that only other ranks know were taken from this one {times} times (--peer-value): {}",
        places.join(", ")
    )
}

/// The number of sizes, or others, that followed from values that are not known, and the first line that did it.
fn followed(outcome: &EndedRun<'_>, kind: Followed) -> Option<String> {
    let count = outcome.ledger.fact(kind.fact());
    let first = outcome.followed[kind as usize].as_ref().map(|line| format!(", first at {line}")).unwrap_or_default();
    let words = kind.words()[usize::from(count > 1)];
    (count > 0).then(|| format!("{count} {words} followed from values that are not known{first}"))
}
