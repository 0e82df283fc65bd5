//! Standard output and error.

use std::fs;
use std::io::{self, Write};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use anstream::adapter::strip_str;
use anstream::{AutoStream, ColorChoice};
use anstyle::AnsiColor;
use anyhow::{Result, anyhow, bail};
use ptmem::report::{self, Format, Report, TableOptions, printable, without_commands, wrap};
use terminal_size::{Height, Width, terminal_size_of};

use super::args::Export;
use super::checkout;

/// Terminals that are narrower or wider than these count as this wide.
const WIDTHS: RangeInclusive<usize> = 40..=400;

/// Standard output, with or without colour.
pub(crate) struct Output {
    color: ColorChoice,
    /// Removes secrets from reports.
    mask: Option<Mask>,
}

type Mask = Box<dyn Fn(&str) -> String + Send + Sync>;

impl Output {
    pub(crate) fn new(when: clap::ColorChoice) -> Self {
        let color = match when {
            clap::ColorChoice::Auto => ColorChoice::Auto,
            clap::ColorChoice::Always => ColorChoice::AlwaysAnsi,
            clap::ColorChoice::Never => ColorChoice::Never,
        };
        Self { color, mask: None }
    }

    /// An output that passes its reports through a mask for secrets.
    #[cfg(feature = "simulate")]
    pub(crate) fn masked(&self, mask: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        Self { color: self.color, mask: Some(Box::new(mask)) }
    }

    /// Writes a text to what takes it.
    fn pass_on(&self, out: &mut dyn Write, content: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
        let Some(mask) = &self.mask else { return content(out) };
        let mut text = Vec::new();
        content(&mut text)?;
        out.write_all(mask(&String::from_utf8_lossy(&text)).as_bytes())
    }

    /// Columns in which lines must fit: `COLUMNS`, otherwise the width of the terminal. Unlimited for a pipe or file.
    pub(crate) fn width(&self) -> Option<usize> {
        asked_width().or_else(|| terminal_width(terminal_size_of(io::stdout())))
    }

    /// Writes a file of text, piece by piece; `-` is standard output.
    pub(crate) fn write(&self, path: &Path, content: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
        if path.as_os_str() == "-" {
            self.print_with(content)
        } else {
            write_file_with(path, |out| self.pass_on(out, content))
        }
    }

    /// Writes a binary file; `-` is standard output.
    pub(crate) fn write_bytes(&self, path: &Path, bytes: &[u8]) -> Result<()> {
        if path.as_os_str() == "-" { printed(io::stdout().lock().write_all(bytes)) } else { write_file(path, bytes) }
    }

    /// Prints a text.
    pub(crate) fn print(&self, text: &str) -> Result<()> {
        self.print_with(|out| out.write_all(text.as_bytes()))
    }

    /// Prints a text piece by piece.
    pub(crate) fn print_with(&self, content: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
        let mut stdout = AutoStream::new(io::stdout().lock(), self.color);
        printed(self.pass_on(&mut stdout, content).and_then(|()| stdout.flush()))
    }

    /// Writes a report: to the files of the exports, and to standard output.
    pub(crate) fn report(
        &self,
        report: &dyn Report,
        format: Format,
        exports: &[Export],
        options: &report::RenderOptions,
    ) -> Result<()> {
        let exported = self.export(report, exports, options);
        // The verdict is printed even if a file cannot be written.
        self.print_report(report, format, options)?;
        exported
    }

    /// Writes a report to the files of the exports.
    pub(crate) fn export(
        &self,
        report: &dyn Report,
        exports: &[Export],
        options: &report::RenderOptions,
    ) -> Result<()> {
        // A table in a file is for people as well, but has no colours, and not the width of this terminal.
        let of_files =
            report::RenderOptions { table: TableOptions { width: asked_width(), ..options.table }, ..options.clone() };
        for Export { format, path } in exports {
            self.write(path, |out| match format {
                Format::Table => out.write_all(strip_str(&format.render(report, &of_files)?).to_string().as_bytes()),
                _ => format.write(report, &of_files, out),
            })?;
        }
        Ok(())
    }

    /// Prints a report.
    pub(crate) fn print_report(
        &self,
        report: &dyn Report,
        format: Format,
        options: &report::RenderOptions,
    ) -> Result<()> {
        self.print_with(|out| format.write(report, options, out))
    }
}

/// Columns in which lines must fit wherever they are written: `COLUMNS`.
pub(crate) fn asked_width() -> Option<usize> {
    let asked = std::env::var("COLUMNS").ok()?.parse().ok().filter(|&width: &usize| width > 0)?;
    Some(asked.clamp(*WIDTHS.start(), *WIDTHS.end()))
}

/// Columns of a stream that is a terminal.
fn terminal_width(size: Option<(Width, Height)>) -> Option<usize> {
    size.map(|(width, _)| usize::from(width.0).clamp(*WIDTHS.start(), *WIDTHS.end()))
}

/// The result of printing. A closed pipe is not an error: its reader has seen enough.
fn printed(result: io::Result<()>) -> Result<()> {
    match result {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(anyhow!("standard output: cannot be written: {error}"))
        }
        _ => Ok(()),
    }
}

/// Writes a file as a whole or not at all.
pub(crate) fn write_file(path: &Path, bytes: &[u8]) -> Result<()> {
    write_file_with(path, |out| out.write_all(bytes))
}

/// Writes a file piece by piece, as a whole or not at all: first a temporary file beside it, which then takes its name.
fn write_file_with(path: &Path, content: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    let name = path.display();
    // A device or pipe, such as /dev/stdout, is written to, not replaced.
    if is_device(path) && link_in_checkout(path).is_none() {
        let written = fs::File::create(path).and_then(|mut device| content(&mut device));
        return written.map_err(|error| anyhow!("{name}: cannot be written: {error}"));
    }
    if let Some(link) = link_in_checkout(path) {
        bail!(
            "{name}: {} is a link, and may lead to any file; expected a file and folders that are none",
            link.display()
        );
    }
    // Outside of the checkout, links are the user's own: writing through one leaves it in place.
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    replace(&target, content).map_err(|error| anyhow!("{name}: cannot be written: {error}"))
}

/// The first part of a path that is a link in the checkout, or below the working directory: whoever wrote the code that is judged may
/// have put it there, to have another file overwritten.
fn link_in_checkout(path: &Path) -> Option<PathBuf> {
    let path = std::path::absolute(path).ok()?;
    let own = std::env::current_dir().ok()?;
    let root = checkout::around(&own).unwrap_or(own);
    let mut parts: Vec<&Path> = path.ancestors().filter(|part| part.starts_with(&root) && **part != *root).collect();
    parts.reverse();
    parts.into_iter().find(|part| part.is_symlink()).map(Path::to_owned)
}

/// Replaces a file, or makes it.
fn replace(target: &Path, content: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".ptmem-");
    // Permissions of the file that is replaced, or of any new file.
    #[cfg(unix)]
    let earlier = fs::metadata(target).ok().map(|there| there.permissions());
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    // The errors of a temporary file name it, which says nothing to anybody.
    let mut file = builder.tempfile_in(folder_of(target)).map_err(|error| error.kind())?;
    content(file.as_file_mut())?;
    #[cfg(unix)]
    if let Some(permissions) = earlier {
        file.as_file().set_permissions(permissions)?;
    }
    file.persist(target)?;
    Ok(())
}

/// Refuses, before any work is done, output files that must be a mistake: in a folder that does not exist, in place
/// of an input, or the same file twice.
pub(crate) fn check_exports<'p>(exports: &[Export], inputs: impl Iterator<Item = &'p Path>) -> Result<()> {
    let inputs: Vec<_> = inputs.collect();
    for (i, Export { path, .. }) in exports.iter().enumerate() {
        require_folder(path)?;
        if inputs.iter().any(|input| is_same_file(input, path)) {
            bail!("{}: is an input; expected another file to write to", path.display());
        }
        let is_file = path.as_os_str() != "-" && !is_device(path);
        if is_file && exports[..i].iter().any(|other| place(&other.path) == place(path)) {
            bail!("{}: is the file of two exports; expected a file for each", path.display());
        }
    }
    Ok(())
}

/// Refuses an output file that is a folder, or in one that does not exist.
pub(crate) fn require_folder(path: &Path) -> Result<()> {
    let name = path.display();
    if path.is_dir() {
        bail!("{name}: is a directory; expected the name of a file to write");
    }
    match folder_of(path) {
        folder if folder.is_dir() => Ok(()),
        folder => bail!("{name}: cannot be written: there is no folder {}", folder.display()),
    }
}

/// The folder that a file is in.
pub(crate) fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The regular file that a path leads to.
pub(crate) fn real_file(path: &Path) -> Option<PathBuf> {
    fs::canonicalize(path).ok().filter(|real| real.is_file())
}

/// Whether both paths lead to the same regular file.
pub(crate) fn is_same_file(a: &Path, b: &Path) -> bool {
    real_file(a).is_some_and(|real| real_file(b) == Some(real))
}

/// The resolved path of a file that may not exist yet.
fn place(path: &Path) -> Option<PathBuf> {
    Some(fs::canonicalize(folder_of(path)).ok()?.join(path.file_name()?))
}

/// Whether the path is a device or a pipe.
fn is_device(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|there| !there.is_file() && !there.is_dir())
}

/// Prints a note to standard error.
pub(crate) fn print_note(text: &str) {
    print_message("note", AnsiColor::Cyan, text);
}

/// Prints an error.
pub(crate) fn print_error(text: &str) {
    print_message("error", AnsiColor::Red, text);
}

/// Prints a message to standard error, in one line unless that is a terminal: text quoted from a file could contain line
/// breaks.
fn print_message(word: &str, color: AnsiColor, text: &str) {
    let width = terminal_width(terminal_size_of(io::stderr())).unwrap_or(usize::MAX);
    let mut stderr = AutoStream::auto(io::stderr().lock());
    let style = color.on_default().bold();
    let text = without_commands(&wrap(&printable(text), word.len() + 2, 2, width));
    // An error on standard error cannot be reported anywhere.
    let _ = writeln!(stderr, "{style}{word}{style:#}: {text}");
}
