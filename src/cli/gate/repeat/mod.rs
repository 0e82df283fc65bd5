//! `ptmem gate --repeat`: records the after several times, and reports how far the figures of the same code differ.

mod json;
mod spread;
mod view;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use ptmem::config::{GateRules, GateSource, Recording};
use ptmem::device::DeviceId;
use ptmem::profile::{Metric, Profile};
use ptmem::report::view::View;
use ptmem::report::{RenderOptions, Report};
use ptmem::verdict::GrowthLimit;
use ptmem_base::json_writer;

use super::super::args::STUDY_FORMATS;
use super::super::recorder::Recorded;
use super::super::report::report_options;
use super::super::{input, modes, output, ranks};
use super::gates::Gates;
use super::sides::required;
use spread::{Spread, proposed};

/// The runs of each gate.
#[derive(Debug)]
struct RepeatedGates(Vec<GateRuns>);

/// The runs of a gate.
#[derive(Debug)]
struct GateRuns {
    /// Its name, if it has one.
    name: Option<String>,
    /// What was recorded, in words.
    subject: String,
    count: u32,
    /// Whether the card is simulated.
    is_simulated: bool,
    members: Vec<MemberRuns>,
    /// Its limits on growth.
    limits: Vec<GrowthLimit>,
}

/// A device of one rank in all runs.
#[derive(Debug)]
struct MemberRuns {
    /// The device, and its rank if there are several.
    name: String,
    spreads: Vec<Spread>,
    /// The metrics that are not known in every run.
    unknown: Vec<Metric>,
}

/// The figures of one run, by rank and device.
type RunFigures = BTreeMap<(String, DeviceId), [Option<u64>; Metric::ALL.len()]>;

impl Gates<'_> {
    /// Records the after of each gate as often as asked, and reports the differences.
    pub(super) fn repeat(&self, count: u32) -> Result<ExitCode> {
        let view = &self.arguments.view;
        if let Some(format) = view.formats().find(|format| !STUDY_FORMATS.contains(format)) {
            modes::refuse(&format!("--format {format}"), "--repeat judges nothing")?;
        }
        let mut runs = Vec::new();
        for (name, gate) in &self.rules {
            match &gate.source {
                GateSource::Recorded(recording) => runs.push(self.runs(name, gate, recording, count)?),
                GateSource::Files { .. } | GateSource::Snapshot(_) | GateSource::Leak(_) => {
                    output::print_note(&format!("--repeat records: '{name}' has no 'record', and is left out"));
                }
            }
        }
        if runs.is_empty() {
            bail!("--repeat: none of the gates is recorded here; name one that has 'record', or give a command");
        }
        view.write(&self.place, &RepeatedGates(runs), &mut report_options(view, self.output), self.output)?;
        Ok(ExitCode::SUCCESS)
    }

    fn runs(&self, name: &str, gate: &GateRules, recording: &Recording, count: u32) -> Result<GateRuns> {
        let recordings = self.recordings.as_ref().context("nothing can be recorded")?;
        let plan = self.plan(name, gate, recording);
        let mut runs = Vec::new();
        for number in 1..=count {
            let shown = format!("run {number} of {count}");
            let recorded = required(recordings.after(&plan, &shown)?, recordings, name, None)?;
            runs.push(self.figures(&recorded).with_context(|| shown)?);
        }
        let subject = recordings.judged().to_owned();
        Ok(GateRuns {
            name: self.shown_name(name),
            subject,
            count,
            is_simulated: recording.gpu != Recording::REAL_GPU,
            members: members(&runs),
            limits: self.growth_limits(gate).growth,
        })
    }

    /// The figures of a run, of all ranks and devices.
    fn figures(&self, recorded: &Recorded) -> Result<RunFigures> {
        if !recorded.is_whole {
            bail!("memory ran out; expected runs that end, whose figures can be compared");
        }
        let files = ranks::files(std::slice::from_ref(&recorded.path))?;
        let reading = ptmem::ReadOptions { device: self.arguments.view.device, ..self.loaded.config.reading() };
        let mut figures = RunFigures::new();
        for file in &files {
            let rank = if files.len() > 1 { file.stem() } else { "" };
            add(&mut figures, rank, &input::profile(&file.path, &reading)?);
        }
        Ok(figures)
    }
}

fn add(figures: &mut RunFigures, rank: &str, profile: &Profile) {
    for device in &profile.devices {
        figures.insert((rank.to_owned(), device.device), Metric::ALL.map(|metric| metric.value(device)));
    }
}

/// The devices of all runs.
fn members(runs: &[RunFigures]) -> Vec<MemberRuns> {
    let mut keys: Vec<_> = runs.iter().flat_map(BTreeMap::keys).collect();
    keys.sort();
    keys.dedup();
    keys.into_iter().map(|key| MemberRuns::of(key, runs)).collect()
}

impl MemberRuns {
    fn of(key: &(String, DeviceId), runs: &[RunFigures]) -> Self {
        let (rank, device) = key;
        let rank = if rank.is_empty() { String::new() } else { format!("{rank}, ") };
        let mut member = Self { name: format!("{rank}{device}"), spreads: Vec::new(), unknown: Vec::new() };
        for (at, metric) in Metric::ALL.into_iter().enumerate() {
            let bytes: Option<Vec<u64>> = runs.iter().map(|run| run.get(key)?[at]).collect();
            match bytes {
                Some(bytes) => member.spreads.push(Spread { metric, device: *device, bytes }),
                None => member.unknown.push(metric),
            }
        }
        member
    }
}

impl GateRuns {
    /// A limit for each metric that needs one, with the devices that it is for.
    fn proposals(&self) -> Vec<Proposal> {
        let spreads: Vec<Spread> = self.members.iter().flat_map(|member| member.spreads.clone()).collect();
        let proposed = proposed(&spreads, &self.limits);
        let proposals = proposed.iter().map(|(target, spreads)| Proposal {
            metric: target.name(),
            limit: spread::calm_limit(spreads),
            noise: spreads.first().and_then(|spread| spread.metric.noise()),
        });
        proposals.collect()
    }

    /// The table of `ptmem.toml` that has its limits on growth.
    fn table(&self) -> String {
        self.name.as_ref().map_or("[max-growth]".to_owned(), |name| format!("[gate.{name}.max-growth]"))
    }
}

/// A limit that would have been calm.
#[derive(Debug, serde::Serialize)]
struct Proposal {
    metric: String,
    limit: String,
    /// Why the metric differs between runs by nature.
    noise: Option<&'static str>,
}

impl Report for RepeatedGates {
    fn model(&self, _: &RenderOptions) -> View {
        view::view(&self.0)
    }

    fn json(&self, _: &RenderOptions, out: &mut dyn Write) -> io::Result<()> {
        json_writer::write(&json::RepeatReport(&self.0), out)
    }
}
