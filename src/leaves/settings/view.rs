//! The study of allocator settings: the memory that each would have reserved, and the stacks that pin memory.

use ptmem::report::RenderOptions;
use ptmem::report::view::{
    Content, Fact, Group, RowOfCells, Section, SourceFile, Table, Tone, Value, View, figure, rows, words,
};
use ptmem::units::{Size, format_share};
use ptmem_base::text::count;

use super::allocator::{Pin, Pinned, PinnedSegment, SelfCheck, SettingsOutcome, SettingsStudy, Trial};

/// The model of the settings that were tried on a recording.
pub(super) fn view(study: &SettingsStudy, options: &RenderOptions) -> View {
    let source = SourceFile { side: None, path: study.snapshot.clone(), amount: Size(study.bytes).to_string() };
    let mut facts = vec![Fact::new("settings", recorded(study))];
    facts.extend(study.trial.as_ref().map(|trial| Fact::new("answer", &*trial.advice)));
    let mut group = Group::about(vec![source]);
    group.facts = facts;
    group.sections = vec![section(study, options)];
    View::of_groups(vec![group])
}

fn recorded(study: &SettingsStudy) -> String {
    let settings = match (&*study.recorded_settings, study.settings_stated) {
        ("", true) => "the defaults",
        ("", false) => return "not stated by the file: the defaults are assumed".to_owned(),
        (settings, _) => settings,
    };
    let changed = if study.settings_changed { " at the dump, and with others before it" } else { "" };
    format!("recorded with {settings}{changed}")
}

fn section(study: &SettingsStudy, options: &RenderOptions) -> Section {
    let pinned = &study.pinned;
    let mut blocks = vec![Content::Facts(vec![reserved(study), free(pinned)])];
    if !pinned.mostly_free_segments.is_empty() {
        blocks.extend([segments(pinned, options), stacks(pinned, options)].map(Content::Table));
    }
    if let Some(trial) = &study.trial {
        blocks.extend([Content::Facts(repetition(trial)), Content::Table(outcomes(study, trial))]);
    }
    Section::new(study.device.to_string(), blocks)
}

/// Reserved bytes at their peak.
fn reserved(study: &SettingsStudy) -> Fact {
    let Pinned { reserved_peak_event: at, reserved_peak, without_free_memory, .. } = &study.pinned;
    let place = match (study.has_history, at.event()) {
        (false, _) => "at the dump: no history was recorded".to_owned(),
        (true, None) => "at the peak, before the first event".to_owned(),
        (true, Some(event)) => format!("at the peak, event {event}"),
    };
    let active = if study.has_history { "the active peak" } else { "what is active" };
    let least = format!("{} without free memory ({active}, rounded up to 2 MiB)", Size(*without_free_memory));
    Fact::of_lines("reserved", vec![vec![format!("{} {place}", Size(*reserved_peak))], vec![least]])
}

/// The free part of them, and the segments that hold it.
fn free(pinned: &Pinned) -> Fact {
    let Pinned { reserved_peak, active_then, unused_segments, mostly_free_segments: segments, .. } = pinned;
    let free = reserved_peak.saturating_sub(*active_then);
    let share = format_share(free, *reserved_peak).map(|share| format!(" ({share})")).unwrap_or_default();
    let kept: u64 = segments.iter().map(|segment| segment.free).sum();
    let mostly_free = count(segments.len() as u64, "segment that is", "segments that are");
    let lines = vec![
        vec![format!("{}{share}", Size(free))],
        vec![format!("{} in segments without a block in use", Size(*unused_segments))],
        vec![format!("{} in {mostly_free} more than half free but kept by blocks", Size(kept))],
    ];
    Fact::of_lines("free then", lines)
}

fn segments(pinned: &Pinned, options: &RenderOptions) -> Table {
    let rows = rows(&pinned.mostly_free_segments, options, segment_row, |rest, name| {
        let [free, bytes] = [rest.iter().map(|of| of.free).sum(), rest.iter().map(|of| of.bytes).sum()];
        let blocks: usize = rest.iter().map(|of| of.blocks).sum();
        vec![Value::Size(free), Value::Size(bytes), Value::count(blocks as u64), name]
    });
    let heads = [figure("free").main(), figure("segment"), figure("blocks"), words("stack of the largest block")];
    Table::new(heads, rows).titled("segments that are more than half free")
}

fn segment_row(segment: &PinnedSegment) -> RowOfCells {
    let blocks = Value::count(segment.blocks as u64);
    let cells =
        [Value::Size(segment.free), Value::Size(segment.bytes), blocks, Value::code(&*segment.stack_of_largest)];
    RowOfCells::new(Tone::Plain, cells)
}

/// The stacks that keep these segments. A segment counts for each of them, so others have no sums of segments.
fn stacks(pinned: &Pinned, options: &RenderOptions) -> Table {
    let rows = rows(&pinned.pinning_stacks, options, stack_row, |rest, name| {
        let blocks: usize = rest.iter().map(|pin| pin.blocks).sum();
        let bytes = rest.iter().map(|pin| pin.bytes).sum();
        vec![Value::Nothing, Value::Size(bytes), Value::count(blocks as u64), Value::Nothing, name]
    });
    let heads = [figure("free").main(), figure("held"), figure("blocks"), figure("segments"), words("stack")];
    Table::new(heads, rows).titled("stacks that keep them")
}

fn stack_row(pin: &Pin) -> RowOfCells {
    let [blocks, segments] = [pin.blocks, pin.segments].map(|number| Value::count(number as u64));
    let cells = [Value::Size(pin.free), Value::Size(pin.bytes), blocks, segments, Value::code(&*pin.stack)];
    RowOfCells::new(Tone::Plain, cells)
}

/// How the requests were repeated, and how well that follows the recording.
fn repetition(trial: &Trial) -> Vec<Fact> {
    let Trial { pytorch, device_memory, self_check, in_use_before, free_before, streams, private_pools, .. } = trial;
    let card = match device_memory {
        Some(bytes) => format!("with {} for PyTorch", Size(*bytes)),
        None => "with unlimited memory".to_owned(),
    };
    let repeated = format!("by PyTorch {pytorch} on a simulated card {card}");
    let mut facts = vec![Fact::new("repeated", repeated), Fact::new("self-check", checked(self_check))];
    if *in_use_before > 0 || *free_before > 0 {
        let [held, cached] = [in_use_before, free_before].map(|bytes| Size(*bytes));
        let earlier = format!("{held} in use and {cached} free before the recording");
        facts.push(Fact::of_lines(
            "earlier memory",
            vec![vec![earlier, "other settings start without the free part (packed)".to_owned()]],
        ));
    }
    if *streams > 1 || *private_pools > 0 {
        let streams = count(*streams as u64, "stream", "streams");
        let pools = count(*private_pools as u64, "private pool", "private pools");
        let pools = (*private_pools > 0).then(|| format!("{pools}, repeated as torch.cuda.MemPool"));
        facts.push(Fact::of_lines("as recorded", vec![[streams].into_iter().chain(pools).collect()]));
    }
    if is_tried(trial, "garbage_collection_threshold") {
        let words = match device_memory {
            Some(_) => {
                "garbage_collection_threshold is tried with set_per_process_memory_fraction() at the memory of the card: \
                 PyTorch ignores it without one"
            }
            None => {
                "garbage_collection_threshold has no effect here, as the memory of the card is not known (--device-memory)"
            }
        };
        facts.push(Fact::new("collection", words));
    }
    if is_tried(trial, "per_process_memory_fraction") {
        let words =
            "per_process_memory_fraction is ignored: the memory for PyTorch is the one named above (--device-memory)";
        facts.push(Fact::new("share", words));
    }
    if !trial.left_out.is_empty() {
        facts.push(Fact::of_lines("left out", trial.left_out.iter().map(|reason| vec![reason.clone()]).collect()));
    }
    facts
}

/// True if settings with this name were tried.
fn is_tried(trial: &Trial, name: &str) -> bool {
    trial.settings.iter().any(|outcome| outcome.settings.contains(name))
}

fn checked(check: &SelfCheck) -> String {
    let SelfCheck { recorded_peak, repeated_peak, largest_deviation, .. } = *check;
    if largest_deviation == 0 {
        return "reserved bytes follow the recording to the byte".to_owned();
    }
    let share = format_share(largest_deviation, recorded_peak).unwrap_or_default();
    format!(
        "reserved bytes differ from the recording by at most {} ({share} of the peak); peak {} for {}",
        Size(largest_deviation),
        Size(repeated_peak),
        Size(recorded_peak)
    )
}

/// A row for each setting.
fn outcomes(study: &SettingsStudy, trial: &Trial) -> Table {
    let mut heads = vec![figure("reserved peak"), figure("change").main(), figure("free then")];
    heads.extend([figure("obtained").spare(), figure("returned").spare()]);
    heads.extend((trial.failed_requests > 0).then(|| words("out of memory")));
    heads.push(words("settings"));
    let rows = trial.settings.iter().enumerate().map(|(at, outcome)| outcome_row(study, trial, at, outcome));
    Table::new(heads, rows).titled("settings")
}

fn outcome_row(study: &SettingsStudy, trial: &Trial, at: usize, outcome: &SettingsOutcome) -> RowOfCells {
    let base = trial.base().map_or(0, |base| base.reserved_peak);
    let change = i128::from(outcome.reserved_peak) - i128::from(base);
    let is_compared = at > trial.compared_with;
    let mut cells = vec![
        Value::Size(outcome.reserved_peak),
        if is_compared { Value::Change(change) } else { Value::Nothing },
        Value::Size(outcome.free_at_peak),
        Value::count(outcome.segments_obtained),
        Value::count(outcome.segments_returned),
    ];
    cells.extend((trial.failed_requests > 0).then(|| Value::words(fate(outcome, trial))));
    cells.push(Value::words(named(outcome, study)));
    RowOfCells::new(if is_compared { Tone::of_change(change) } else { Tone::Main }, cells)
}

/// The settings of a row.
fn named(outcome: &SettingsOutcome, study: &SettingsStudy) -> String {
    let settings = if outcome.settings.is_empty() { "defaults" } else { &outcome.settings };
    let about = match (outcome.settings == study.recorded_settings, outcome.earlier_memory_as_recorded) {
        (true, true) => " (recorded)",
        (true, false) => " (recorded, packed)",
        (false, _) => "",
    };
    let failed = match outcome.new_failed_requests {
        0 => String::new(),
        requests => format!("; {} did not fit", count(requests as u64, "other request", "other requests")),
    };
    format!("{settings}{about}{failed}")
}

/// The recorded failures under other settings.
fn fate(outcome: &SettingsOutcome, trial: &Trial) -> String {
    match (outcome.failed_requests_avoided, trial.failed_requests) {
        (0, _) => "yes".to_owned(),
        (avoided, failed) if avoided == failed => "avoided".to_owned(),
        (avoided, failed) => format!("{avoided} of {failed} avoided"),
    }
}
