//! What a CI job shows, as files in one folder: the report, the comment, annotations, outputs, pages. The job only copies them.

use std::cmp::Reverse;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Error, Result};
use ptmem::report::{CiRun, Format, MOST_COMMENT_BYTES, MOST_SUMMARY_BYTES, MarkdownOptions, RenderOptions};
use ptmem::verdict::Verdict;
use ptmem_base::text::cut;

use super::super::args::ViewArguments;
use super::super::exit::COULD_NOT_RUN;
use super::super::output::{self, Output};
use super::super::place::StartFolder;
use super::super::{errors, surroundings};
use super::arguments::CommentMode;
use super::results::{GateResult, Unrecorded};
use super::rules::{EditedFile, FileEdit};
use super::secrets::Secrets;

/// The hidden first line of a comment, which begins in the same way, with what tells the job that it only takes the place of one.
const MARKER: &str = "<!-- ptmem:default -->";
const ONLY_UPDATE: &str = "<!-- ptmem:default only-update -->";

/// The formats of the files.
const FORMATS: [Format; 6] =
    [Format::Markdown, Format::Brief, Format::Github, Format::GithubOutput, Format::Html, Format::Json];

/// Room for what the job adds to a comment.
const MOST_COMMENT: usize = MOST_COMMENT_BYTES - 536;

/// Columns at which quoted lines are broken: nobody scrolls to the side in a comment.
const QUOTED_WIDTH: usize = 96;

/// The folder with the files for a CI job.
pub(super) struct CiFolder {
    path: PathBuf,
    mode: CommentMode,
    secrets: Secrets,
}

/// The texts of a run.
#[derive(Default)]
struct RunTexts {
    report: String,
    comment: String,
    annotations: String,
    outputs: Outputs,
}

/// The outputs of a run: those of the worst result, and what holds for any.
#[derive(Default)]
struct Outputs {
    worst: Option<Verdict>,
    lines: Vec<(String, String)>,
    changed: bool,
    announce: bool,
    /// Whether a label approves what fails, and whether anything fails without its approval.
    approved: bool,
    fails: bool,
}

impl Outputs {
    /// Adds the lines of a result.
    fn add(&mut self, result: &GateResult<'_>, text: &str) {
        let lines = text.lines().filter_map(|line| line.split_once('='));
        let lines: Vec<_> = lines.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let has = |name: &str| lines.iter().any(|(known, value)| known == name && value == "true");
        self.changed |= has("changed");
        self.announce |= has("announce");
        self.approved |= result.is_approved;
        self.fails |= result.fails();
        if self.worst.is_none_or(|worst| result.verdict > worst) {
            self.worst = Some(result.verdict);
            self.lines = lines;
        }
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for (name, value) in &self.lines {
            let value = match &**name {
                "changed" => &self.changed.to_string(),
                "announce" => &self.announce.to_string(),
                "approved" => &(self.approved && !self.fails).to_string(),
                _ => value,
            };
            let _ = writeln!(text, "{name}={value}");
        }
        text
    }
}

impl CiFolder {
    /// Makes the folder, without what an earlier run left in it.
    pub(super) fn make(path: PathBuf, mode: CommentMode) -> Result<Self> {
        let folder = Self { path, mode, secrets: Secrets::of_environment() };
        fs::create_dir_all(&folder.path).with_context(|| format!("{}: cannot be made", folder.path.display()))?;
        let earlier = fs::read_dir(&folder.path).into_iter().flatten().flatten();
        for file in earlier.filter(|file| is_written(&file.file_name().to_string_lossy())) {
            let _ = fs::remove_file(file.path());
        }
        Ok(folder)
    }

    /// The text of an error without secrets: standard error is the log of a job.
    pub(super) fn masked_error(&self, error: &Error) -> Error {
        Error::msg(self.secrets.mask(&errors::explained(error)))
    }

    /// An output that masks secrets.
    pub(super) fn masked(&self, output: &Output) -> Output {
        let secrets = self.secrets.clone();
        output.masked(move |text| secrets.mask(text))
    }

    /// The file of the profile of a gate, for the trend.
    pub(super) fn profile(&self, name: &str) -> Result<PathBuf> {
        let folder = self.path.join("profiles");
        fs::create_dir_all(&folder).with_context(|| format!("{}: cannot be made", folder.display()))?;
        Ok(folder.join(format!("{name}.ptmem.json")))
    }

    fn file(&self, name: &str, text: &str) -> Result<()> {
        output::write_file(&self.path.join(name), self.secrets.mask(text).as_bytes())
    }

    /// Writes the files of a push that judged nothing.
    pub(super) fn kept(&self) -> Result<()> {
        self.file("outputs.txt", "verdict=pass\nexit-code=0\napproved=false\nchanged=false\nannounce=false\n")?;
        self.file("report.md", "The growth of a push is not judged. What it records is kept for the trend.\n")
    }

    /// Writes the files of a run that judged gates.
    pub(super) fn write(
        &self,
        results: &[GateResult<'_>],
        edited: &[EditedFile],
        place: &StartFolder,
        view: &ViewArguments,
    ) -> Result<()> {
        let mut texts = RunTexts::default();
        let mut worst_first: Vec<_> = results.iter().collect();
        worst_first.sort_by_key(|result| Reverse((result.fails(), result.verdict)));
        for result in worst_first {
            let mut options = result.options.clone();
            view.prepare_for(&FORMATS, place, result.report, &mut options);
            self.add(result, results.len(), &options, &mut texts)?;
        }
        texts.outputs.announce |= !edited.is_empty();
        let shown: String = edited.iter().map(|edited| self.secrets.mask(&of_edited(edited))).collect();
        self.file("report.md", &shortened(&with_block(&texts.report, &shown), MOST_SUMMARY_BYTES))?;
        self.comment(&shortened(&with_block(&texts.comment, &shown), MOST_COMMENT), &texts.outputs)?;
        self.file("annotations.txt", &texts.annotations)?;
        self.file("outputs.txt", &texts.outputs.text())
    }

    /// Adds a result to the texts, and writes its page and its figures.
    fn add(&self, result: &GateResult<'_>, count: usize, options: &RenderOptions, texts: &mut RunTexts) -> Result<()> {
        let room = |most: usize| MarkdownOptions { max_bytes: Some(most / count), ..options.markdown.clone() };
        let render = |format: Format, most: usize| -> Result<String> {
            let options = RenderOptions { markdown: room(most), ..options.clone() };
            Ok(self.secrets.mask(&format.render(result.report, &options)?))
        };
        // No gate can be called as what is of all comparisons.
        let name = result.name.map_or_else(|| "report".to_owned(), |name| format!("gate-{name}"));
        self.file(&format!("{name}.json"), &render(Format::Json, 0)?)?;
        self.file(&format!("{name}.html"), &render(Format::Html, 0)?)?;
        let quoted = self.quoted(result.quoted);
        add_text(&mut texts.report, &with_block(&render(Format::Markdown, MOST_SUMMARY_BYTES)?, &quoted));
        let is_brief = result.verdict == Verdict::Pass && self.mode != CommentMode::OnChange;
        let format = if is_brief { Format::Brief } else { Format::Markdown };
        add_text(&mut texts.comment, &with_block(&render(format, MOST_COMMENT)?, &quoted));
        texts.annotations += &render(Format::Github, 0)?;
        texts.outputs.add(result, &render(Format::GithubOutput, 0)?);
        Ok(())
    }

    /// The end of the output of a base that failed, as a block of code.
    fn quoted(&self, lines: &[String]) -> String {
        if lines.is_empty() {
            return String::new();
        }
        format!("The recording of the base ended with:\n\n{}", self.block("text", &lines.join("\n")))
    }

    /// A block of code, in which nothing is Markdown or a mention, and which nothing in it ends.
    fn block(&self, kind: &str, text: &str) -> String {
        // Secrets first: a line may be broken in the middle of one.
        let text = self.secrets.mask(text).replace('`', "'");
        format!("```{kind}\n{}\n```\n\n", broken(&text))
    }

    fn comment(&self, text: &str, outputs: &Outputs) -> Result<()> {
        let is_wanted = match self.mode {
            CommentMode::Never => return Ok(()),
            CommentMode::Always => true,
            CommentMode::OnChange => outputs.changed || outputs.worst != Some(Verdict::Pass),
            CommentMode::Auto => outputs.worst != Some(Verdict::Pass),
        };
        let is_wanted = is_wanted || outputs.announce;
        self.file("comment.md", &if is_wanted { text.to_owned() } else { text.replacen(MARKER, ONLY_UPDATE, 1) })
    }

    /// Writes the files of a run that has no verdict, with the reason.
    pub(super) fn could_not_run(&self, error: &Error) -> Result<()> {
        let run = surroundings::run();
        let commit = run.as_ref().map(|run| format!(" at {}", run.short_commit())).unwrap_or_default();
        let quoted = error.downcast_ref::<Unrecorded>().map_or(&[][..], |unrecorded| &unrecorded.output);
        let reason = [&[errors::explained(error)], quoted].concat().join("\n");
        let log = run.map(|CiRun { log, .. }| format!(" [Log of the run]({log})")).unwrap_or_default();
        let block = self.block("text", &reason);
        let text =
            format!("{MARKER}\n### ⚠️ could not run{commit}\n\n{block}There is no verdict on this commit.{log}\n");
        self.file("report.md", &text)?;
        if self.mode != CommentMode::Never {
            self.file("comment.md", &text)?;
        }
        let line = reason.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A");
        self.file("annotations.txt", &format!("::error::ptmem: {line}\n"))?;
        self.file("outputs.txt", &format!("verdict=error\nexit-code={COULD_NOT_RUN}\n"))
    }
}

/// Whether a file of this name is one that a run writes.
fn is_written(name: &str) -> bool {
    let is_of_part = |name: &str| name == "report" || name.starts_with("gate-");
    match name.rsplit_once('.') {
        Some((name, "json" | "html")) => is_of_part(name),
        _ => ["report.md", "comment.md", "annotations.txt", "outputs.txt"].contains(&name),
    }
}

/// What a change edits of what its verdict is computed by, as a block.
fn of_edited(EditedFile { path, edit, diff, more }: &EditedFile) -> String {
    let what = match edit {
        FileEdit::Changed => format!("edits {path}"),
        FileEdit::Added => format!("adds {path}"),
        FileEdit::Removed => format!("removes {path}"),
        FileEdit::Renamed(former) => format!("renames {former} to {path}"),
        FileEdit::Unreadable(why) => format!("may edit {path} ({why})"),
    };
    let what = what.replace('`', "'");
    let rest = if *more > 0 { format!("\n… {more} more lines") } else { String::new() };
    let diff = format!("{}{rest}", diff.join("\n")).replace('`', "'");
    let block = if diff.is_empty() { String::new() } else { format!("```diff\n{}\n```\n\n", broken(&diff)) };
    format!("This change `{what}`, by which its verdict is computed.\n\n{block}")
}

/// Adds a report; of several the first alone has the marker by which a comment is found.
fn add_text(text: &mut String, report: &str) {
    if text.is_empty() {
        text.push_str(report);
    } else {
        text.push('\n');
        text.push_str(report.split_once('\n').map_or("", |(_, rest)| rest));
    }
}

/// A report with a block below its title.
fn with_block(report: &str, block: &str) -> String {
    if block.is_empty() {
        return report.to_owned();
    }
    let title = report.match_indices('\n').nth(1).map_or(report.len(), |(at, _)| at + 1);
    format!("{}\n{block}{}", &report[..title], &report[title..])
}

/// A report in at most so many bytes.
fn shortened(text: &str, most: usize) -> String {
    const BLOCK_END: &str = "\n```";
    const REST: &str = "\n\nThe rest is in the log of the run.\n";
    if text.len() <= most {
        return text.to_owned();
    }
    let kept = cut(text, most.saturating_sub(REST.len() + BLOCK_END.len()));
    let is_in_block = kept.lines().filter(|line| line.starts_with("```")).count() % 2 == 1;
    format!("{kept}{}{REST}", if is_in_block { BLOCK_END } else { "" })
}

/// The lines of a text, long ones broken.
fn broken(text: &str) -> String {
    let mut lines = Vec::new();
    for line in text.lines() {
        let characters: Vec<char> = line.chars().collect();
        if characters.is_empty() {
            lines.push(String::new());
        }
        lines.extend(characters.chunks(QUOTED_WIDTH).map(|part| part.iter().collect::<String>()));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_report_is_cut_where_it_stays_markdown() {
        assert_eq!(shortened("short", 100), "short");
        let text = format!("title\n```text\n{}\n```\n", "é".repeat(200));
        let cut = shortened(&text, 150);
        assert!(cut.len() <= 150 && cut.ends_with("\n```\n\nThe rest is in the log of the run.\n"), "{cut}");
        let text = format!("```\nx\n```\n{}", "y".repeat(200));
        assert_eq!(shortened(&text, 150).matches("```").count(), 2);
    }

    #[test]
    fn long_lines_are_broken_and_blocks_stand_below_the_title() {
        let broken = broken(&format!("{}\n\nshort", "x".repeat(QUOTED_WIDTH + 1)));
        assert_eq!(broken, format!("{}\nx\n\nshort", "x".repeat(QUOTED_WIDTH)));
        assert_eq!(with_block("marker\n### title\n\nrest\n", "block\n\n"), "marker\n### title\n\nblock\n\n\nrest\n");
    }
}
