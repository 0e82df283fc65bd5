//! A page that never grows beyond a limit: what does not fit is left out, and counted.

use ptmem_base::text::count;

use crate::CiRun;
use crate::source::Site;

/// Room that is kept for the end of a page.
const RESERVE: usize = 512;

/// Room that saying how much is left out takes.
const MORE: usize = 128;

/// A text that grows up to a limit.
pub(super) struct MarkdownPage {
    pub(super) text: String,
    limit: usize,
    /// The run that makes the report.
    pub(super) run: Option<CiRun>,
}

/// A text as a link to a line of the checkout at the commit of a run, where there is one.
pub(super) fn link(run: Option<&CiRun>, text: String, site: Option<&Site>) -> String {
    match run.zip(site) {
        Some((run, site)) => format!("[{text}]({})", run.line_address(&site.place.path, site.place.line)),
        None => text,
    }
}

impl MarkdownPage {
    /// A page of at most `limit` bytes that begins with a text.
    pub(super) fn new(text: String, limit: usize) -> Self {
        Self { text, limit, run: None }
    }

    /// Whether there is room for this many bytes.
    pub(super) fn fits(&self, bytes: usize) -> bool {
        self.text.len() + bytes + RESERVE <= self.limit
    }

    /// Adds a piece, if there is room for it.
    pub(super) fn add(&mut self, piece: &str) -> bool {
        let fits = self.fits(piece.len());
        if fits {
            self.text.push_str(piece);
        }
        fits
    }

    /// Adds the pieces that fit, and returns their number.
    pub(super) fn add_all(&mut self, pieces: impl Iterator<Item = String>) -> usize {
        let mut added = 0;
        for piece in pieces {
            if !self.add(&piece) {
                break;
            }
            added += 1;
        }
        added
    }

    /// Adds the number of omitted items. The reserve is the space for this line.
    pub(super) fn more(&mut self, number: usize, noun: &str) {
        if number > 0 && self.text.len() + MORE <= self.limit {
            let things = count(number as u64, &format!("more {noun}"), &format!("more {noun}s"));
            self.text.push_str(&format!("\n… and {things}\n"));
        }
    }

    /// Adds a part that takes no more than half of the page.
    pub(super) fn half(&mut self, content: impl FnOnce(&mut Self)) {
        let limit = self.limit;
        self.limit /= 2;
        content(self);
        self.limit = limit;
    }

    /// Adds a part that is folded away, if anything fits into it.
    pub(super) fn details(&mut self, summary: &str, content: impl FnOnce(&mut Self)) -> bool {
        let start = self.text.len();
        if !self.add(&format!("\n<details><summary>{summary}</summary>\n")) {
            return false;
        }
        let empty = self.text.len();
        content(self);
        if self.text.len() == empty {
            self.text.truncate(start);
            return false;
        }
        self.text.push_str("\n</details>\n");
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_cut_between_pieces() {
        let mut page = MarkdownPage::new(String::new(), 2000);
        page.details("rows", |page| {
            let added = page.add_all((0..1000).map(|i| format!("row {i}\n")));
            page.more(1000 - added, "row");
        });
        assert!(page.text.len() <= 2000 && page.text.ends_with(" more rows\n\n</details>\n"), "{}", page.text);
        let shown = page.text.matches("row ").count();
        assert!(page.text.contains(&format!("… and {} more rows", 1000 - shown)) && shown > 50, "{}", page.text);
    }

    #[test]
    fn half_a_page_leaves_the_other_half() {
        let mut page = MarkdownPage::new(String::new(), 4096);
        page.half(|page| assert_eq!(page.add_all(std::iter::repeat_n("x".repeat(512), 100)), 3));
        assert!(page.add(&"x".repeat(2000)));
    }
}
