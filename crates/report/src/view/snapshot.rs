//! One snapshot, or one of each rank of a job.

use ptmem_base::units::Size;
use ptmem_compare::budget::{Overhead, outside};
use ptmem_compare::diff::Metric;
use ptmem_compare::tree as call_tree;
use ptmem_judge::verdict::{
    Judged, Judgement, Reading, Readings, Standing, diagnostics_of_snapshot, has_ranks, out_of_memory,
};
use ptmem_trace::profile::{DeviceProfile, Profile};

use super::comparison::{amount, of_ranks};
use super::held::ShownDevice;
use super::remarks::{checks, remarks};
use super::table::rows;
use super::{
    Content, Fact, Group, RowOfCells, Section, SourceFile, Table, Tone, Value, View, device, figure, held, phases,
    pools, tree, words,
};
use crate::RenderOptions;
use crate::known;
use crate::picture::Picture;
use crate::ranks::{self, Others};

/// The model of one snapshot, with its checks where there are any.
pub(crate) fn view(profile: &Profile, judgement: Option<&Judgement>, options: &RenderOptions) -> View {
    let active: Vec<_> = profile.devices.iter().filter(|device| device.is_active()).collect();
    let sections = active.iter().map(|device| Section {
        name: device.device.to_string(),
        standing: judgement.map_or(Standing::Ok, |judgement| judgement.standing(Some(device.device))),
        ..section(profile, device, judgement, None, options)
    });
    let group = Group {
        sources: vec![SourceFile::of_profile(None, profile)],
        facts: super::serving::facts(&[profile]).into_iter().collect(),
        sections: sections.collect(),
        idle: idle(profile, active.is_empty()),
        remarks: remarks(diagnostics_of_snapshot(profile, judgement), profile.devices.len() > 1),
        checks: judgement.map(checks).unwrap_or_default(),
        recording: options.pictures.then(|| device::recordings(&[("", profile)])),
        ..Group::default()
    };
    View {
        headline: judgement.map(Judgement::headline),
        is_gated: judgement.is_some_and(|judgement| !judgement.checks.is_empty()),
        failure: failure(&active, options).filter(|_| judgement.is_none()),
        groups: vec![group],
        ..View::default()
    }
}

fn section(
    profile: &Profile,
    device: &DeviceProfile,
    judgement: Option<&Judgement>,
    others: Option<&Others<'_>>,
    options: &RenderOptions,
) -> Section {
    let picture = options.pictures.then(|| Picture::of_device(profile, device, options.internals()));
    let blocks = ShownDevice { profile, device, judgement, picture: picture.as_ref(), others, options }.blocks();
    Section { blocks, picture, ..Section::default() }
}

/// The first device that ran out of memory, in words.
fn failure(devices: &[&DeviceProfile], options: &RenderOptions) -> Option<String> {
    let failure = devices.iter().find_map(|device| out_of_memory(device))?;
    let memory = options.device_memory.map(|memory| format!("; the device has {}", Size(memory.bytes)));
    Some(failure + &memory.unwrap_or_default())
}

/// The devices that did nothing.
fn idle(profile: &Profile, all: bool) -> Option<String> {
    if all {
        return Some("nothing is recorded and nothing is held".to_owned());
    }
    let idle = profile.devices.iter().filter(|device| !device.is_active());
    let idle: Vec<String> = idle.filter_map(|of| of.device.ordinal()).map(|ordinal| ordinal.to_string()).collect();
    (!idle.is_empty()).then(|| format!("nothing on device {}", idle.join(", ")))
}

impl ShownDevice<'_> {
    /// Everything about the device.
    fn blocks(self) -> Vec<Content> {
        let Self { profile, device, options, .. } = self;
        let budget = options.device_memory.map(|memory| memory.budget(profile.run.as_ref(), device.device));
        let mut blocks = vec![Content::Table(device::counters(device, self.judgement))];
        blocks.extend(device::timeline(device));
        let mut facts = device::facts(device, budget, self.judgement);
        // An estimate is told where it counts: beside the memory of the device.
        if let Overhead::Measured(bytes) = outside(profile.run.as_ref(), device.device) {
            let words = "used outside of PyTorch's allocator at the dump (CUDA context, NCCL, other programs)";
            facts.push(Fact::new("outside", format!("{} {words}", Size(bytes))));
        }
        blocks.push(Content::Facts(facts));
        blocks.extend(pools::held(device, options).map(Content::Table));
        let every = profile.options.every.as_ref();
        blocks.extend(every.map(|every| Content::Table(phases::intervals(device, every))));
        if options.phases {
            blocks.push(Content::Table(phases::held(device, options)));
        }
        blocks.push(match &options.tree {
            Some(tree) if device.at.is_some() && self.picture.is_none() => {
                let whole = call_tree::of_device(device, profile.options.group_by, &profile.code(), tree);
                tree::held(&whole, tree, options.top(), &device::moment_of(profile, device))
            }
            _ => held::at_moment(self),
        });
        blocks.extend(held::at_oom(self));
        blocks
    }
}

/// The model of the snapshots of the ranks of a job: all ranks in a table, and the one that holds most.
pub(crate) fn view_of_ranks(readings: &Readings, options: &RenderOptions) -> View {
    let Some(job) = readings.jobs().next() else { return View::default() };
    let lines = ranks::shown(job);
    let shown = lines.iter().take(options.ranks_in_full());
    let ranks = rank_table(&lines, options);
    let headline = job.headline();
    let path = job.ranks.paths.after.clone().unwrap_or_default();
    let has_ranks = has_ranks(job.members.iter().filter_map(Judged::member));
    let amount = amount(job.members.len(), has_ranks);
    let group = Group {
        sources: vec![SourceFile { side: None, path, amount }],
        sections: shown.filter_map(|line| section_of_rank(line, &lines, options)).collect(),
        ..of_ranks(job, &lines, has_ranks, ranks.clone())
    };
    View { is_gated: headline.is_some(), headline, overview: Some(ranks), groups: vec![group], ..View::default() }
}

fn section_of_rank(line: &ranks::Shown<'_>, lines: &[ranks::Shown<'_>], options: &RenderOptions) -> Option<Section> {
    let all = Others::held(lines);
    let others = Some(&all).filter(|others| others.ranks > 1);
    let Reading { profile, judgement, .. } = line.of;
    let section = section(profile, line.device?, judgement.as_ref(), others, options);
    Some(Section { name: line.name.clone(), standing: line.standing, ..section })
}

/// A row for each rank, the worst first, and one for the rest.
fn rank_table(lines: &[ranks::Shown<'_>], options: &RenderOptions) -> Table {
    let rows = rows(lines, options, rank_row, |rest, name| {
        let peaks = Value::size_range(rest.iter().map(|line| u64::try_from(line.figure?).ok()));
        let mark = Value::mark(ranks::common(rest.iter().map(|line| line.mark)));
        vec![name, Value::Nothing, peaks, Value::Nothing, Value::Nothing, mark]
    });
    let heads = [words(""), figure("baseline"), figure("peak").main(), figure("end"), figure("reserved"), words("")];
    Table::new(heads, rows)
}

fn rank_row(line: &ranks::Shown<'_>) -> RowOfCells {
    let metrics = [Metric::Baseline, Metric::Peak, Metric::End, Metric::Reserved];
    let mut cells = vec![Value::words(&*line.name)];
    cells.extend(metrics.map(|metric| Value::size(line.device.and_then(|device| known::value(metric, device)))));
    cells.push(Value::mark(line.mark));
    RowOfCells::new(Tone::of_mark(line.mark), cells)
}

impl Group {
    /// What one snapshot held, under a name.
    pub fn of_snapshot(name: String, profile: &Profile, options: &RenderOptions) -> Self {
        let mut groups = view(profile, None, options).groups;
        Self { name: Some(name), recording: None, ..groups.pop().unwrap_or_default() }
    }
}
