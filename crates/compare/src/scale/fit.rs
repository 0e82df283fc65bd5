//! Fits bytes by a constant, a line or a parabola in the number that was varied.

/// How bytes depend on the number that was varied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum Shape {
    /// Not at all.
    Constant,
    /// As a line.
    Linear,
    /// As a parabola.
    Quadratic,
    /// As none of these.
    Irregular,
}

impl Shape {
    /// Its name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// A run: the number that was varied, and bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sample {
    pub(super) x: f64,
    pub(super) bytes: f64,
}

impl Sample {
    #[allow(clippy::cast_precision_loss, reason = "2^53 bytes are more than any device has")]
    pub(super) fn new(x: f64, bytes: u64) -> Self {
        Self { x, bytes: bytes as f64 }
    }
}

/// `constant + linear x + quadratic x²`.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Polynomial {
    /// Bytes at 0.
    pub constant: f64,
    /// Bytes per unit.
    pub linear: f64,
    /// Bytes per squared unit.
    pub quadratic: f64,
}

impl Polynomial {
    /// The value at a place.
    #[must_use]
    pub fn at(&self, x: f64) -> f64 {
        self.constant + self.linear * x + self.quadratic * x * x
    }

    /// By how many bytes it misses a sample.
    fn off(&self, sample: &Sample) -> f64 {
        (self.at(sample.x) - sample.bytes).abs()
    }

    fn shape(&self) -> Shape {
        match (self.linear != 0.0, self.quadratic != 0.0) {
            (false, false) => Shape::Constant,
            (true, false) => Shape::Linear,
            (_, true) => Shape::Quadratic,
        }
    }
}

/// A fit, and others that the samples do not rule out.
#[derive(Debug, Clone)]
pub struct Fit {
    /// How bytes depend on the number that was varied.
    pub shape: Shape,
    /// The simplest polynomial that the samples agree with; for an irregular one the one that comes closest.
    pub best: Polynomial,
    /// The most by which it misses a sample, in bytes.
    pub misses: f64,
    /// Every polynomial that the samples do not rule out, the best among them.
    possible: Vec<Polynomial>,
}

/// Values at a place: the best, and what they may be.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Range {
    /// The lowest that the samples allow.
    pub low: f64,
    /// The most likely one.
    pub best: f64,
    /// The highest that the samples allow.
    pub high: f64,
}

/// Powers of x in a polynomial, the simplest first.
const MODELS: [&[u8]; 4] = [&[0], &[0, 1], &[0, 2], &[0, 1, 2]];

/// Blocks are rounded up to this many bytes.
const ROUNDING: f64 = 512.0;

/// Share of the largest sample by which an exact fit may miss.
const EXACT: f64 = 0.003;

/// Share of the largest sample by which any fit may miss, for blocks that are not split and workspaces.
const PART: f64 = 0.01;

/// A polynomial is ruled out only where it misses by more than this many times the tolerance.
const DOUBT: f64 = 3.0;

/// A polynomial with as many coefficients as samples counts only if each term is at least this share of the largest
/// sample.
const MATERIAL: f64 = 0.05;

/// A polynomial, and how well it follows the samples.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Candidate {
    polynomial: Polynomial,
    misses: f64,
    /// True if there are more samples than coefficients, so that a wrong shape would miss some.
    is_tested: bool,
    /// True if memory can grow like this.
    is_plausible: bool,
    /// True if each of its terms matters.
    is_material: bool,
}

impl Candidate {
    fn of(powers: &[u8], samples: &[Sample]) -> Option<Self> {
        let polynomial = fit(powers, samples)?;
        let Polynomial { linear, quadratic, .. } = polynomial;
        let farthest = samples.iter().map(|sample| sample.x).fold(0.0, f64::max);
        let least = MATERIAL * highest(samples);
        Some(Self {
            polynomial,
            misses: samples.iter().map(|sample| polynomial.off(sample)).fold(0.0, f64::max),
            is_tested: powers.len() < samples.len(),
            is_plausible: quadratic >= 0.0 && (powers.len() < 3 || linear >= 0.0),
            is_material: linear * farthest >= least && quadratic * farthest * farthest >= least,
        })
    }
}

impl Candidate {
    /// True if it misses no sample by more than `exact` bytes, and not because it could follow any samples.
    fn is_convincing(&self, exact: f64) -> bool {
        self.misses <= exact && (self.is_tested || self.is_material)
    }
}

fn highest(samples: &[Sample]) -> f64 {
    samples.iter().map(|sample| sample.bytes).fold(0.0, f64::max)
}

impl Fit {
    /// Fits samples of `blocks` blocks at most. `None` for no samples.
    pub(super) fn of(samples: &[Sample], blocks: u64) -> Option<Self> {
        #[allow(clippy::cast_precision_loss, reason = "a tolerance")]
        let rounding = ROUNDING * blocks.max(1) as f64;
        let exact = EXACT * highest(samples) + rounding;
        let tolerance = PART * highest(samples) + rounding;
        let candidates = MODELS.iter().filter_map(|powers| Candidate::of(powers, samples));
        let all: Vec<Candidate> = candidates.filter(|candidate| candidate.is_plausible).collect();
        let chosen = all.iter().find(|candidate| candidate.is_convincing(exact));
        let chosen = chosen.or_else(|| all.iter().find(|candidate| candidate.misses <= tolerance));
        let best = chosen.or_else(|| all.iter().min_by(|a, b| a.misses.total_cmp(&b.misses)))?;
        let shape = chosen.map_or(Shape::Irregular, |chosen| chosen.polynomial.shape());
        let farthest = if shape == Shape::Irregular { f64::INFINITY } else { DOUBT * tolerance };
        let possible = all.iter().filter(|candidate| candidate.misses <= farthest);
        let possible = possible.map(|candidate| candidate.polynomial).collect();
        Some(Self { shape, best: best.polynomial, misses: best.misses, possible })
    }

    /// The bytes at a place. `reach` is the place in multiples of the farthest sample's.
    #[must_use]
    pub fn at(&self, x: f64, reach: f64) -> Range {
        let best = self.best.at(x).max(0.0);
        // Beyond the runs, PyTorch may choose other kernels and workspaces.
        let unknown = if reach > 1.0 { PART * best } else { 0.0 };
        let off = (self.misses * reach.max(1.0)).max(unknown);
        let values = self.possible.iter().map(|polynomial| polynomial.at(x).max(0.0));
        let low = (values.clone().fold(best, f64::min) - off).max(0.0);
        Range { low, best, high: values.fold(best, f64::max) + off }
    }
}

/// The polynomial of these powers that fits best, by least squares. `None` where the samples do not determine it.
fn fit(powers: &[u8], samples: &[Sample]) -> Option<Polynomial> {
    // In units of the farthest sample, so that squares stay comparable.
    let unit = samples.iter().map(|sample| sample.x.abs()).fold(0.0, f64::max);
    let size = powers.len();
    let mut rows = vec![vec![0.0; size + 1]; size];
    for sample in samples {
        let terms: Vec<f64> = powers.iter().map(|&power| (sample.x / unit).powi(power.into())).collect();
        for (row, term) in rows.iter_mut().zip(&terms) {
            row.iter_mut().zip(&terms).for_each(|(cell, other)| *cell += term * other);
            row[size] += term * sample.bytes;
        }
    }
    let solved = solve(rows)?;
    let mut polynomial = Polynomial::default();
    for (&power, value) in powers.iter().zip(solved) {
        match power {
            0 => polynomial.constant = value,
            1 => polynomial.linear = value / unit,
            _ => polynomial.quadratic = value / unit / unit,
        }
    }
    Some(polynomial)
}

/// Solves linear equations, whose right sides are the last column, by elimination.
fn solve(mut rows: Vec<Vec<f64>>) -> Option<Vec<f64>> {
    /// Below it, two samples lie at one place.
    const SINGULAR: f64 = 1e-9;
    let size = rows.len();
    for at in 0..size {
        let pivot = (at..size).max_by(|&a, &b| rows[a][at].abs().total_cmp(&rows[b][at].abs()))?;
        rows.swap(at, pivot);
        if rows[at][at].abs() < SINGULAR {
            return None;
        }
        let row = rows[at].clone();
        for other in rows.iter_mut().skip(at + 1) {
            let factor = other[at] / row[at];
            other.iter_mut().zip(&row).for_each(|(cell, above)| *cell -= factor * above);
        }
    }
    let mut solved = vec![0.0; size];
    for at in (0..size).rev() {
        let known: f64 = (at + 1..size).map(|other| rows[at][other] * solved[other]).sum();
        solved[at] = (rows[at][size] - known) / rows[at][at];
    }
    Some(solved)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: f64 = 1_048_576.0;

    /// Bytes at a place.
    type Curve = fn(f64) -> f64;

    fn width(range: Range) -> f64 {
        range.high - range.low
    }

    fn fit_of(of: impl Fn(f64) -> f64, places: &[f64]) -> Fit {
        let samples: Vec<Sample> = places.iter().map(|&x| Sample { x, bytes: of(x) }).collect();
        Fit::of(&samples, 10).unwrap()
    }

    #[test]
    fn the_simplest_shape_that_agrees_is_found() {
        let places = [128.0, 256.0, 512.0];
        let cases: [(Curve, Shape); 5] = [
            (|_| 400.0 * MIB, Shape::Constant),
            (|x| 3.0 * MIB + 0.5 * MIB * x, Shape::Linear),
            (|x| 100.0 * x * x, Shape::Quadratic),
            (|x| 9.0 * MIB + 0.1 * MIB * x + 2000.0 * x * x, Shape::Quadratic),
            // One allocation in steps of a power of two.
            (|x| if x > 200.0 { 64.0 * MIB } else { 8.0 * MIB }, Shape::Irregular),
        ];
        for (of, shape) in cases {
            let fit = fit_of(of, &places);
            assert_eq!(fit.shape, shape, "{fit:?}");
            let range = fit.at(2048.0, 4.0);
            assert!(range.low <= range.best && range.best <= range.high, "{range:?}");
            if shape != Shape::Irregular {
                let truth = of(2048.0);
                assert!((range.best - truth).abs() <= 0.02 * truth, "{range:?} {truth}");
                assert!(range.low <= truth * 1.0001 && truth <= range.high * 1.0001, "{range:?} {truth}");
            }
        }
    }

    #[test]
    fn rounding_does_not_bend_a_line() {
        let fit = fit_of(|x| ((0.3 * MIB * x) / 512.0).ceil() * 512.0 * 1.002, &[16.0, 32.0, 48.0, 64.0]);
        assert_eq!(fit.shape, Shape::Linear);
    }

    #[test]
    fn doubt_widens_with_the_distance() {
        let fit = fit_of(|x| MIB * x * if x == 256.0 { 1.009 } else { 1.0 }, &[128.0, 256.0, 384.0, 512.0]);
        assert_eq!(fit.shape, Shape::Linear);
        assert!(width(fit.at(4096.0, 8.0)) > 2.0 * width(fit.at(1024.0, 2.0)));
    }

    #[test]
    fn one_place_fits_nothing_but_a_constant() {
        let samples = [Sample { x: 1.0, bytes: 5.0 }; 3];
        assert_eq!(Fit::of(&samples, 1).unwrap().shape, Shape::Constant);
    }
}
