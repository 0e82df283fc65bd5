//! A curve in one line of text.

const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The values in at most `width` columns, as bars from 0 to `top`; of the values that share a column
/// the highest counts.
pub(super) fn sparkline(values: &[u64], top: u64, width: usize) -> String {
    columns(values, width)
        .map(|value| {
            if value == 0 || top == 0 {
                return BARS[0];
            }
            let level = u128::from(value) * BARS.len() as u128;
            let level = level.div_ceil(u128::from(top)).clamp(1, BARS.len() as u128);
            usize::try_from(level - 1).map_or(BARS[0], |level| BARS[level.min(BARS.len() - 1)])
        })
        .collect()
}

/// The highest value in each of at most `width` equal parts of the values.
pub(super) fn columns(values: &[u64], width: usize) -> impl Iterator<Item = u64> + '_ {
    let count = width.min(values.len());
    (0..count).map(move |column| {
        let from = column * values.len() / count;
        let to = (column + 1) * values.len() / count;
        values[from..to].iter().copied().max().unwrap_or(0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_value_is_never_lost() {
        let mut values = vec![0; 480];
        values[317] = 9;
        let line = sparkline(&values, 9, 60);
        assert_eq!(line.chars().count(), 60);
        assert_eq!(line.chars().filter(|&c| c == '█').count(), 1);
        assert_eq!(line.chars().position(|c| c == '█'), Some(39));
        assert_eq!(sparkline(&[1, 2, 4, 8], 8, 60), "▁▂▄█");
        assert_eq!(sparkline(&[], 0, 60), "");
        assert_eq!(sparkline(&[0], 0, 60), "▁");
    }
}
