//! The results of a run: the comparisons together, each other gate by itself. Each has a report of its own.

use anyhow::{Result, bail};
use ptmem::diagnostic::{Code, Diagnostic};
use ptmem::report::{Approval, Format, RenderOptions, Report};
use ptmem::verdict::{Headline, Judged, Suite, Verdict};
use serde_json::json;
use serde_json::value::RawValue;

use super::super::args::{Export, ViewArguments};
use super::super::output::Output;
use super::super::place::StartFolder;
use super::super::words::many;
use super::base::BaseCommit;
use super::rules::EditedFile;

/// A working tree that cannot be recorded.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
pub(super) struct Unrecorded {
    pub(super) reason: String,
    /// The end of the output.
    pub(super) output: Vec<String>,
}

/// Edited files that a remark names.
const MOST_PATHS: usize = 5;

/// Facts about a change that are read before code is recorded.
#[derive(Default)]
pub(super) struct ChangeFacts<'r> {
    pub(super) base: Option<&'r BaseCommit>,
    /// What the change edits of what the verdict is computed by.
    pub(super) edited: Vec<EditedFile>,
    /// Why that cannot be shown.
    pub(super) unshown: Option<String>,
    pub(super) approval: Option<Approval>,
    /// The warning that both sides are the same code.
    pub(super) same_code: Option<Diagnostic>,
}

impl ChangeFacts<'_> {
    /// The remark on what the change edits, or may edit, or that it edits nothing.
    pub(super) fn remark(&self) -> Option<Diagnostic> {
        if let Some(reason) = &self.unshown {
            let message =
                format!("this change may edit what its verdict is computed by; the edits cannot be shown: {reason}");
            return Some(Diagnostic::new(Code::GateChanged, None, message));
        }
        let paths: Vec<&str> = self.edited.iter().map(|edited| &*edited.path).take(MOST_PATHS).collect();
        let more = self.edited.len() - paths.len();
        let more = if more > 0 { format!(" and {}", many(more, "other")) } else { String::new() };
        let message = format!("this change edits what its verdict is computed by: {}{more}", paths.join(", "));
        if self.edited.is_empty() {
            self.same_code.clone()
        } else {
            Some(Diagnostic::new(Code::GateChanged, None, message))
        }
    }
}

/// What was judged: all comparisons together, or another gate by itself.
pub(super) struct JudgedGate {
    /// The name of a gate by itself, if it has one.
    pub(super) name: Option<String>,
    pub(super) result: Box<dyn JudgedResult>,
    /// The end of the output of a base that failed.
    pub(super) quoted: Vec<String>,
}

/// Results that have one verdict: of comparisons, by absolute limits, or of a search for leaks.
pub(super) trait JudgedResult: Report {
    fn headline(&self) -> Headline;
    fn can_be_approved(&self) -> bool;
    fn remark(&mut self, remark: Option<Diagnostic>);
}

impl<T: Judged> JudgedResult for Suite<T>
where
    Self: Report,
{
    fn headline(&self) -> Headline {
        self.headline()
    }

    fn can_be_approved(&self) -> bool {
        self.can_be_approved()
    }

    fn remark(&mut self, remark: Option<Diagnostic>) {
        self.remark(remark);
    }
}

/// A result that has a report of its own.
pub(super) struct GateResult<'g> {
    /// The name of its gate; `None` for the comparisons.
    pub(super) name: Option<&'g str>,
    pub(super) report: &'g dyn Report,
    pub(super) verdict: Verdict,
    headline: Headline,
    /// Whether it passes because of a label.
    pub(super) is_approved: bool,
    /// The end of the output of a base that failed.
    pub(super) quoted: &'g [String],
    pub(super) options: RenderOptions,
}

impl GateResult<'_> {
    /// Whether it keeps the run from passing.
    pub(super) fn fails(&self) -> bool {
        self.verdict != Verdict::Pass && !self.is_approved
    }
}

/// Lets the text of an approval say whether other results still fail.
pub(super) fn note_failures(results: &mut [GateResult<'_>]) {
    let passes = !results.iter().any(GateResult::fails);
    for approval in results.iter_mut().filter_map(|result| result.options.approval.as_mut()) {
        approval.passes = passes;
    }
}

impl JudgedGate {
    /// Its report.
    pub(super) fn judged(&self, options: &RenderOptions, approval: Option<&Approval>) -> GateResult<'_> {
        let headline = self.result.headline();
        let approval = approval.filter(|_| self.result.can_be_approved());
        GateResult {
            name: self.name.as_deref(),
            report: &*self.result,
            verdict: headline.verdict,
            headline,
            is_approved: approval.is_some(),
            quoted: &self.quoted,
            options: RenderOptions { gate: self.name.clone(), approval: approval.cloned(), ..options.clone() },
        }
    }
}

/// Writes the requested files, and prints the reports.
pub(super) fn write(
    results: &mut [GateResult<'_>],
    place: &StartFolder,
    view: &ViewArguments,
    output: &Output,
) -> Result<()> {
    let count = results.len();
    let prints_one_document = !matches!(view.format, Format::Table | Format::Markdown | Format::Json | Format::Brief);
    if count > 1 && prints_one_document {
        bail!(
            "--format {}: the gates have {count} results, and this format shows one; --export writes a file for each",
            view.format
        );
    }
    if let Some(Export { format, .. }) = view.export.iter().find(|export| count > 1 && export.is_document_on_stdout()) {
        let advice =
            if *format == Format::Json { "--format json prints one" } else { "give a path, for a file of each" };
        bail!("--export {format}=-: the gates have {count} results, each a document of its own; {advice}");
    }
    for result in results.iter_mut() {
        view.prepare(place, result.report, &mut result.options);
    }
    // The verdict is printed even if a file cannot be written.
    let exported = results.iter().enumerate().try_for_each(|(at, result)| {
        // The first one has the requested name: another program may read that file.
        let further = result.name.filter(|_| at > 0);
        let exports = view.export.iter().map(|export| further.map_or_else(|| export.clone(), |name| export.of(name)));
        output.export(result.report, &exports.collect::<Vec<Export>>(), &result.options)
    });
    print(results, view, output)?;
    exported
}

fn print(results: &[GateResult<'_>], view: &ViewArguments, output: &Output) -> Result<()> {
    let count = results.len();
    match view.format {
        Format::Json if count > 1 => return print_json(results, output),
        _ => {}
    }
    for result in results {
        if let (Some(name), Format::Table) = (result.name, view.format) {
            output.print(&format!("gate {name}\n"))?;
        }
        output.print_report(result.report, view.format, &result.options)?;
    }
    if count > 1 && view.format == Format::Table {
        output.print(&overall(results))?;
    }
    Ok(())
}

/// The verdict on all results, in one line, with the gate that decides it.
fn overall(results: &[GateResult<'_>]) -> String {
    let by_weight = |result: &&GateResult<'_>| (result.fails(), result.verdict);
    let Some(worst) = results.iter().rev().max_by_key(by_weight) else { return String::new() };
    let name = worst.name.map(|name| format!("{name}: ")).unwrap_or_default();
    let approval = worst.options.approval.as_ref().filter(|_| worst.is_approved);
    let approved = approval.map(|by| format!(" (approved by the label {})", by.label)).unwrap_or_default();
    format!("\n{} {name}{}{approved}\n", worst.verdict.word(), worst.headline.in_full())
}

/// Prints the reports of several results as one document.
fn print_json(results: &[GateResult<'_>], output: &Output) -> Result<()> {
    let verdict = results.iter().map(|result| result.verdict).max().unwrap_or(Verdict::Pass);
    let mut reports = Vec::new();
    for result in results {
        let report = RawValue::from_string(Format::Json.render(result.report, &result.options)?)?;
        reports.push(Named { gate: result.name, report });
    }
    let head = json!({ "schema": "ptmem.gate/1", "verdict": verdict.name(), "exit_code": verdict.exit_code() });
    let document = Document { head, reports };
    output.print_with(|out| {
        serde_json::to_writer_pretty(&mut *out, &document)?;
        writeln!(out)
    })
}

/// The report of a result, and the gate that it is of.
#[derive(serde::Serialize)]
struct Named<'g> {
    gate: Option<&'g str>,
    report: Box<RawValue>,
}

/// The reports of several results.
#[derive(serde::Serialize)]
struct Document<'g> {
    #[serde(flatten)]
    head: serde_json::Value,
    reports: Vec<Named<'g>>,
}
