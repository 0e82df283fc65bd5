//! The view as one page that opens anywhere: both timelines, the flame graph, the rows. All of it is in the file, which
//! asks nobody for anything; without its script it still says the most.

mod axes;
mod chart;
mod charts;
mod data;
mod flame;
mod page;
mod parts;
mod table;
mod timeline;

use std::io;

use super::view::View;
use super::{RenderOptions, Subject};

/// Rows of a table: more would make the page larger than a mail takes.
const MOST_ROWS: usize = 300;

/// The longest name that is shown, in bytes.
const LONGEST_NAME: usize = 512;

/// Writes a report as a page.
pub(super) fn render(subject: Subject<'_>, options: &RenderOptions) -> io::Result<String> {
    let options = with_pictures(options);
    let view = View::new(subject, &options);
    Ok(page::page(&view, &options)?.into_string())
}

/// The options of a page: pictures in place of a call tree, and as many rows as it has room for.
fn with_pictures(options: &RenderOptions) -> RenderOptions {
    // 0 rows are all of them.
    let top = if options.top() == 0 { 0 } else { options.top().max(MOST_ROWS) };
    RenderOptions { pictures: true, unchanged: true, explain: false, top: Some(top), ..options.clone() }
}

/// A name as it is shown: without control characters, and cut to a readable length.
pub(super) fn name(text: &str) -> String {
    let text = ptmem_base::text::printable(text);
    let short = ptmem_base::text::cut(&text, LONGEST_NAME);
    if short.len() < text.len() { format!("{short}…") } else { text }
}
