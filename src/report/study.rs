//! Reports on several profiles together: the memory over time, or over a number that was varied.

use std::fmt;

use csv::WriterBuilder;
use serde::Serialize;

use super::view::{View, view_of_history, view_of_scale};
use super::{Error, Options, html, json, markdown, table};
use crate::history::{DeviceHistory, History};
use crate::scale::{DeviceScale, Scale};
use crate::text::printable;

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
    /// If the format cannot represent the result, which the types of this crate rule out.
    pub fn render(self, study: Study<'_>, options: &Options) -> Result<String, Error> {
        Ok(match self {
            Self::Table => table::render(&view(study, options), options),
            Self::Json => json::render_study(study)?,
            Self::Markdown => markdown::render(&view(study, options), options),
            Self::Html => html::render_view(&view(study, options), options)?,
            Self::Csv => csv(study)?,
        })
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

/// A figure, or the bytes of a stack, in one of the profiles.
#[derive(Debug, Clone, Default, Serialize)]
struct Record<'a> {
    device: u32,
    profile: String,
    /// Seconds since 1970 of a commit, or what was varied.
    at: String,
    metric: &'static str,
    label: &'a str,
    bytes: Option<u64>,
}

impl<'a> Record<'a> {
    /// A figure of the same device and profile.
    fn of_figure(&self, metric: &'static str, bytes: Option<u64>) -> Self {
        Self { metric, bytes, ..self.clone() }
    }

    /// The bytes of a stack of the same device and profile.
    fn of_stack(&self, label: &'a str, bytes: u64) -> Self {
        Self { metric: "stack", label, bytes: Some(bytes), ..self.clone() }
    }
}

fn csv(study: Study<'_>) -> Result<String, Error> {
    let mut out = WriterBuilder::new().has_headers(false).from_writer(Vec::new());
    let at = match study {
        Study::History(_) => "time",
        Study::Scale(_) => "x",
    };
    out.write_record(["device", "profile", at, "metric", "label", "bytes"]).map_err(csv_error)?;
    let records = match study {
        Study::History(history) => history.devices.iter().flat_map(|device| of_history(history, device)).collect(),
        Study::Scale(scale) => scale.devices.iter().flat_map(|device| of_scale(scale, device)).collect::<Vec<_>>(),
    };
    for record in records {
        out.serialize(Record { label: &printable(record.label), ..record }).map_err(csv_error)?;
    }
    let bytes = out.into_inner().map_err(|error| Error::Csv(error.to_string()))?;
    String::from_utf8(bytes).map_err(|error| Error::Csv(error.to_string()))
}

#[allow(clippy::needless_pass_by_value, reason = "as map_err gives it")]
fn csv_error(error: ::csv::Error) -> Error {
    Error::Csv(error.to_string())
}

fn of_history<'h>(history: &History, device: &'h DeviceHistory) -> Vec<Record<'h>> {
    let mut records = Vec::new();
    for (index, point) in history.points.iter().enumerate() {
        let Some(figures) = device.figures[index] else { continue };
        let record = Record {
            device: device.device,
            profile: printable(&point.name),
            at: point.commit.as_ref().map(|commit| commit.time.to_string()).unwrap_or_default(),
            ..Record::default()
        };
        records.push(record.of_figure("peak", figures.peak));
        records.push(record.of_figure("reserved", figures.reserved));
        records.push(record.of_figure("end", Some(figures.end)));
        let held = device.stacks.iter().filter(|stack| stack.bytes(index) > 0);
        records.extend(held.map(|stack| record.of_stack(&stack.label, stack.bytes(index))));
    }
    records
}

fn of_scale<'s>(scale: &Scale, device: &'s DeviceScale) -> Vec<Record<'s>> {
    let mut records = Vec::new();
    for (index, run) in scale.runs.iter().enumerate() {
        let record =
            Record { device: device.device, profile: printable(&run.path), at: run.x.to_string(), ..Record::default() };
        records.push(record.of_figure("peak", device.peaks[index]));
        records.push(record.of_figure("reserved", device.reserved[index]));
        let peak = device.forecasts.last().and_then(|forecast| device.moments.get(forecast.moment));
        let stacks = peak.into_iter().flat_map(|moment| &moment.stacks);
        records.extend(stacks.map(|stack| record.of_stack(&stack.track.label, stack.track.bytes(index))));
    }
    records
}
