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
use super::{RenderOptions, Report};

/// Rows of a table: more would make the page larger than a mail takes.
const MOST_ROWS: usize = 300;

/// Writes a report as a page.
pub(super) fn render(report: &dyn Report, options: &RenderOptions) -> io::Result<String> {
    let options = with_pictures(options);
    let view = View::of(report, &options);
    Ok(page::page(&view, &options)?.into_string())
}

/// The options of a page: pictures in place of a call tree, and as many rows as it has room for.
fn with_pictures(options: &RenderOptions) -> RenderOptions {
    // 0 rows are all of them.
    let top = if options.top() == 0 { 0 } else { options.top().max(MOST_ROWS) };
    RenderOptions { pictures: true, unchanged: true, explain: false, top: Some(top), ..options.clone() }
}
