//! The curve of a timeline.

use ptmem_base::sides::Side;
use ptmem_base::units::Size;
use unicode_width::UnicodeWidthStr;

use crate::sparkline::columns;

/// Allocated bytes over the recording.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// Its side; `None` if there is only one.
    pub(crate) side: Option<Side>,
    /// The highest value in each of several equal parts of the recording.
    pub(crate) points: Vec<u64>,
    /// The highest value.
    pub(crate) peak: u64,
    /// Bytes at the start of the recording, where they are shown.
    pub(crate) baseline: Option<u64>,
}

impl Curve {
    /// The line below a curve of at most `width` columns. It names the peak at its column if there is room to the left.
    pub(crate) fn caption(&self, width: usize) -> String {
        let baseline = self.baseline.map_or_else(|| "unknown".to_owned(), |bytes| Size(bytes).to_string());
        let start = format!("└ baseline {baseline}");
        let peak = format!("peak {}", Size(self.peak));
        let column = columns(&self.points, width).position(|highest| highest == self.peak).unwrap_or(0);
        match column.checked_sub(start.width() + peak.width() + 1).filter(|&gap| gap > 0) {
            Some(gap) => format!("{start}{:gap$}{peak} ┘", ""),
            None => format!("{start}, {peak}"),
        }
    }
}
