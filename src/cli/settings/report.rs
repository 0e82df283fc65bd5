//! The study of settings as text and as JSON.

use std::fmt::Write as _;
use std::io::{self, Write};

use ptmem::allocator::Pinned;
use ptmem::report::printable;
use ptmem::units::{Delta, Size, format_share};
use ptmem_base::json_writer;
use serde::Serialize;

use super::super::many;
use super::{Outcome, SelfCheck, Study, Trial};

/// Version of the JSON report.
const SCHEMA: &str = "ptmem.settings/1";

/// The text for people.
pub(super) fn table(study: &Study, top: usize) -> String {
    let mut text = format!("{}  device {}, {}\n", printable(&study.path), study.device, stated(study));
    // Writing to a String cannot fail.
    let _ = write_pinned(&mut text, study, top);
    if let Some(trial) = &study.trial {
        let _ = write_trial(&mut text, study, trial);
    }
    text
}

fn stated(study: &Study) -> String {
    match (&*study.recorded, study.is_stated) {
        ("", true) => "recorded with the default settings".to_owned(),
        ("", false) => "which states no settings: the defaults are assumed".to_owned(),
        (settings, _) => format!("recorded with {}", printable(settings)),
    }
}

fn write_pinned(text: &mut String, study: &Study, top: usize) -> std::fmt::Result {
    let Pinned { at, reserved, active, ideal, unused, segments, stacks } = &study.pinned;
    let free = reserved.saturating_sub(*active);
    let place = match (study.has_history, at.count()) {
        (false, _) => "reserved at the dump (no history was recorded)".to_owned(),
        (true, 0) => "reserved peak, before the first event".to_owned(),
        (true, count) => format!("reserved peak, at event {count}"),
    };
    let share = format_share(free, *reserved).unwrap_or_default();
    writeln!(text, "\n{place}: {}, of which {} ({share}) are free", Size(*reserved), Size(free))?;
    writeln!(text, "  without free memory: {} (the active peak, rounded up to 2 MiB)", Size(*ideal))?;
    writeln!(text, "  in entirely free segments: {}", Size(*unused))?;
    if segments.is_empty() {
        return Ok(());
    }
    let pinned: u64 = segments.iter().map(|segment| segment.free).sum();
    writeln!(
        text,
        "  in {} that are more than half free but kept by blocks: {}",
        many(segments.len(), "segment"),
        Size(pinned)
    )?;
    writeln!(text, "\n  {:>10}  {:>10}  {:>6}  stack of the largest block", "free", "segment", "blocks")?;
    for segment in segments.iter().take(top) {
        let [free, bytes] = [segment.free, segment.bytes].map(|bytes| Size(bytes).to_string());
        writeln!(text, "  {free:>10}  {bytes:>10}  {:>6}  {}", segment.blocks, printable(&segment.largest))?;
    }
    writeln!(
        text,
        "\n  {:>10}  {:>10}  {:>6}  {:>8}  stack of blocks that keep them",
        "free", "held", "blocks", "segments"
    )?;
    for pin in stacks.iter().take(top) {
        let [free, bytes] = [pin.free, pin.bytes].map(|bytes| Size(bytes).to_string());
        writeln!(text, "  {free:>10}  {bytes:>10}  {:>6}  {:>8}  {}", pin.blocks, pin.segments, printable(&pin.stack))?;
    }
    Ok(())
}

fn write_trial(text: &mut String, study: &Study, trial: &Trial) -> std::fmt::Result {
    let card = match trial.capacity {
        Some(bytes) => format!("with {} for PyTorch", Size(bytes)),
        None => "without a limit of memory".to_owned(),
    };
    writeln!(text, "\nrequests repeated by PyTorch {} on a simulated card {card}", printable(&trial.release))?;
    writeln!(text, "  self-check: {}", checked(&trial.check))?;
    if trial.held_before > 0 || trial.cached_before > 0 {
        writeln!(
            text,
            "  {} were in use before the recording, {} free beside them: other settings begin without the free part",
            Size(trial.held_before),
            Size(trial.cached_before)
        )?;
    }
    if trial.streams > 1 || trial.private_pools > 0 {
        let [streams, pools] = [many(trial.streams, "stream"), many(trial.private_pools, "private pool")];
        writeln!(text, "  on {streams} and in {pools}, as recorded; pools of CUDA graphs as torch.cuda.MemPool")?;
    }
    if trial.outcomes.iter().any(|outcome| outcome.settings.contains("garbage_collection")) {
        writeln!(
            text,
            "  garbage_collection_threshold with set_per_process_memory_fraction() at the memory of the card: PyTorch ignores it without one"
        )?;
    }
    let heads = ["reserved peak", "change", "free then", "obtained", "returned"];
    let [peak, change, free, obtained, returned] = heads;
    let failed = if trial.failed > 0 { "  out of memory" } else { "" };
    writeln!(text, "\n  {peak:>13}  {change:>11}  {free:>10}  {obtained}  {returned}{failed}  settings")?;
    let base = &trial.outcomes[trial.base];
    for (at, outcome) in trial.outcomes.iter().enumerate() {
        let delta = i128::from(outcome.peak) - i128::from(base.peak);
        let change = if at <= trial.base { String::new() } else { Delta(delta).to_string() };
        let [peak, free] = [outcome.peak, outcome.free].map(|bytes| Size(bytes).to_string());
        let failed = if trial.failed > 0 { format!("  {:>13}", fate(outcome, trial)) } else { String::new() };
        writeln!(
            text,
            "  {peak:>13}  {change:>11}  {free:>10}  {:>8}  {:>8}{failed}  {}",
            outcome.obtained,
            outcome.returned,
            named(outcome, study)
        )?;
    }
    for reason in &trial.left_out {
        writeln!(text, "  left out: {}", printable(reason))?;
    }
    writeln!(text, "\n{}", trial.advice)
}

/// The settings of a row.
fn named(outcome: &Outcome, study: &Study) -> String {
    let settings = match &*outcome.settings {
        "" => "(defaults)".to_owned(),
        settings => printable(settings),
    };
    let ran_out = match outcome.ran_out {
        0 => String::new(),
        requests => format!("; {} did not fit", many(requests, "other request")),
    };
    let about = match (outcome.settings == study.recorded, outcome.is_as_recorded) {
        (true, true) => " (recorded)",
        (true, false) => " (recorded, without the earlier free part)",
        (false, _) => "",
    };
    format!("{settings}{about}{ran_out}")
}

/// The recorded failures under other settings.
fn fate(outcome: &Outcome, trial: &Trial) -> String {
    match (outcome.avoided, trial.failed) {
        (0, _) => "yes".to_owned(),
        (avoided, failed) if avoided == failed => "avoided".to_owned(),
        (avoided, failed) => format!("{avoided} of {failed} avoided"),
    }
}

fn checked(check: &SelfCheck) -> String {
    if check.deviation == 0 {
        return "reserved bytes follow the recording to the byte".to_owned();
    }
    let share = format_share(check.deviation, check.recorded_peak).unwrap_or_default();
    format!(
        "reserved bytes differ from the recording by at most {} ({share} of the peak); peak {} for {}",
        Size(check.deviation),
        Size(check.replayed_peak),
        Size(check.recorded_peak)
    )
}

/// The best settings, in words.
pub(super) fn advice(trial: &Trial, is_stated: bool) -> String {
    if !trial.check.trusted && !is_stated {
        return "no advice: with the default settings the repeated requests do not lead to the recorded memory, and \
                the snapshot does not state its settings. Give them in ptmem.toml: allocator-settings, as in \
                PYTORCH_CUDA_ALLOC_CONF"
            .to_owned();
    }
    if !trial.check.trusted {
        return "no advice: with the recorded settings the repeated requests do not lead to the recorded memory. \
                Record from the start of the process, and repeat with the release of PyTorch that recorded"
            .to_owned();
    }
    let base = &trial.outcomes[trial.base];
    let others = trial.outcomes.iter().skip(trial.base + 1).filter(|outcome| outcome.ran_out == 0);
    let best = others.min_by_key(|outcome| (outcome.peak, outcome.settings.len()));
    let mut text = match best {
        Some(best) if best.peak < base.peak => {
            let less = base.peak - best.peak;
            let share = format_share(less, base.peak).unwrap_or_default();
            let settings = if best.settings.is_empty() { "the defaults" } else { &best.settings };
            format!("the same requests reserve {} ({share}) less with {settings}", Size(less))
        }
        None => "no other settings were tried".to_owned(),
        Some(_) => "no settings that were tried reserve less for these requests".to_owned(),
    };
    if trial.failed > 0 {
        let avoiding = trial.outcomes.iter().filter(|outcome| outcome.avoided == trial.failed && outcome.ran_out == 0);
        let avoiding: Vec<&str> = avoiding.map(|outcome| &*outcome.settings).collect();
        let avoiding = if avoiding.is_empty() { "none of them".to_owned() } else { avoiding.join(" and ") };
        // Writing to a String cannot fail.
        let _ = write!(text, "; the recorded out-of-memory is avoided by {avoiding}");
    }
    text
}

#[derive(Serialize)]
struct Report<'a> {
    schema: &'static str,
    tool: Tool,
    #[serde(flatten)]
    study: &'a Study,
}

#[derive(Serialize)]
struct Tool {
    name: &'static str,
    version: &'static str,
}

/// The report for machines.
pub(super) fn json(study: &Study, out: &mut dyn Write) -> io::Result<()> {
    let tool = Tool { name: "ptmem", version: env!("CARGO_PKG_VERSION") };
    json_writer::write(&Report { schema: SCHEMA, tool, study }, out)
}
