//! Reports on several profiles together: the memory over time, or over a number that was varied.

use std::fmt;
use std::io::{self, Write};

use super::csv::Table;
use super::view::{View, view_of_history, view_of_scale};
use super::{Options, html, json, markdown, table};
use crate::history::{DeviceHistory, History};
use crate::json_writer::object;
use crate::scale::{DeviceScale, Scale};

/// A result over several profiles.
#[derive(Debug, Clone, Copy)]
pub enum Study<'a> {
    /// Over time.
    History(&'a History),
    /// Over what was varied.
    Scale(&'a Scale),
}

/// A format of such a result. It is no [`super::Format`], most of which have no place for several profiles: none can be
/// asked for that could not be written.
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
#[non_exhaustive]
pub enum StudyFormat {
    /// For people.
    Table,
    /// For machines; see docs/json.md.
    Json,
    /// A comment, or the summary of a job.
    // The ending of its files.
    #[cfg_attr(feature = "cli", value(alias = "md"))]
    Markdown,
    /// One page for a browser.
    Html,
    /// A row per figure or stack and profile.
    Csv,
}

impl StudyFormat {
    /// Its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Writes a result.
    ///
    /// # Errors
    /// If it cannot be written to `out`.
    pub fn write(self, study: Study<'_>, options: &Options, out: &mut dyn Write) -> io::Result<()> {
        let text = match self {
            Self::Table => table::render(&view(study, options), options),
            Self::Json => return json::write_study(study, out),
            Self::Markdown => markdown::render(&view(study, options), options),
            Self::Html => html::render_view(&view(study, options), options)?,
            Self::Csv => return csv(study, out),
        };
        out.write_all(text.as_bytes())
    }
}

impl fmt::Display for StudyFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

fn view(study: Study<'_>, options: &Options) -> View {
    match study {
        Study::History(history) => view_of_history(history, options),
        Study::Scale(scale) => view_of_scale(scale, options),
    }
}

/// Writes a row per figure or stack and profile.
fn csv(study: Study<'_>, out: &mut dyn Write) -> io::Result<()> {
    let mut table = Table::new(out);
    let at = match study {
        Study::History(_) => "time",
        Study::Scale(_) => "x",
    };
    table.head(&["device", "profile", at, "metric", "label", "bytes"])?;
    match study {
        Study::History(of) => of.devices.iter().try_for_each(|device| rows_of_history(&mut table, of, device))?,
        Study::Scale(of) => of.devices.iter().try_for_each(|device| rows_of_scale(&mut table, of, device))?,
    }
    table.finish()
}

object! {
    /// A figure, or the bytes of a stack, in one of the profiles.
    Record<'a>(of: Profile<'a>, metric: &'static str, label: &'a str, bytes: Option<u64>) {
        device: of.device,
        profile: of.name,
        at: of.at,
        metric,
        label,
        bytes,
    }
}

/// A device of a profile.
#[derive(Clone, Copy)]
struct Profile<'a> {
    device: u32,
    name: &'a str,
    /// Seconds since 1970 of a commit, or what was varied.
    at: &'a str,
}

fn rows_of_history(table: &mut Table<'_>, history: &History, device: &DeviceHistory) -> io::Result<()> {
    for (index, point) in history.points.iter().enumerate() {
        let Some(figures) = device.figures[index] else { continue };
        let time = point.commit.as_ref().map(|commit| commit.time.to_string()).unwrap_or_default();
        let of = Profile { device: device.device, name: &point.name, at: &time };
        table.row(None, &Record(of, "peak", "", figures.peak))?;
        table.row(None, &Record(of, "reserved", "", figures.reserved))?;
        table.row(None, &Record(of, "end", "", Some(figures.end)))?;
        let mut held = device.stacks.iter().filter(|stack| stack.bytes(index) > 0);
        held.try_for_each(|stack| table.row(None, &Record(of, "stack", &stack.label, Some(stack.bytes(index)))))?;
    }
    Ok(())
}

fn rows_of_scale(table: &mut Table<'_>, scale: &Scale, device: &DeviceScale) -> io::Result<()> {
    for (index, run) in scale.runs.iter().enumerate() {
        let of = Profile { device: device.device, name: &run.path, at: &run.x.to_string() };
        table.row(None, &Record(of, "peak", "", device.peaks[index]))?;
        table.row(None, &Record(of, "reserved", "", device.reserved[index]))?;
        let peak = device.forecasts.last().and_then(|forecast| device.moments.get(forecast.moment));
        let mut stacks = peak.into_iter().flat_map(|moment| &moment.stacks).map(|stack| &stack.track);
        stacks.try_for_each(|stack| table.row(None, &Record(of, "stack", &stack.label, Some(stack.bytes(index)))))?;
    }
    Ok(())
}
