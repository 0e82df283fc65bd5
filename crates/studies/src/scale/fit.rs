//! Fits bytes by a constant, a line or a parabola in the number that was varied.

use ptmem_base::units::approximate;
use ptmem_trace::profile::Held;

/// How bytes depend on the number that was varied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
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

/// The coefficients of 1, x and x², in bytes.
type Polynomial = [f64; 3];

fn value(polynomial: &Polynomial, x: f64) -> f64 {
    polynomial[0] + polynomial[1] * x + polynomial[2] * x * x
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

/// What the samples allow: bytes at a place, or places.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Range<T = f64> {
    /// The lowest.
    pub low: T,
    /// The most likely one.
    pub best: T,
    /// The highest.
    pub high: T,
}

impl<T> Range<T> {
    /// Each of its values as another one.
    #[must_use]
    pub fn map<U>(self, to: impl Fn(T) -> U) -> Range<U> {
        Range { low: to(self.low), best: to(self.best), high: to(self.high) }
    }

    /// Each of its values with that of another range.
    pub(super) fn with<U>(self, other: Self, by: fn(T, T) -> U) -> Range<U> {
        Range { low: by(self.low, other.low), best: by(self.best, other.best), high: by(self.high, other.high) }
    }
}

/// Powers of x in a polynomial, the simplest first.
const MODELS: [&[usize]; 4] = [&[0], &[0, 1], &[0, 2], &[0, 1, 2]];

/// Blocks are rounded up to this many bytes.
const ROUNDING: f64 = 512.0;

/// Share of the largest sample by which an exact fit may miss.
const EXACT: f64 = 0.003;

/// Share of the largest sample by which any fit may miss, for blocks that are not split and workspaces.
const PART: f64 = 0.01;

/// A polynomial is ruled out only where it misses by more than this many times the tolerance.
const DOUBT: f64 = 3.0;

/// A polynomial with as many coefficients as samples follows any: it counts for exact only if each term is at least this
/// share of the largest sample.
const MATERIAL: f64 = 0.05;

/// A polynomial, and how well it follows the samples.
struct Candidate {
    polynomial: Polynomial,
    /// The most by which it misses a sample, in bytes.
    misses: f64,
    /// True if it does not follow the samples merely because it could follow any.
    is_convincing: bool,
    /// True if memory can grow like it.
    is_plausible: bool,
}

impl Fit {
    /// Fits what is held in runs at these places. `None` for no runs.
    pub(super) fn of(places: &[f64], held: &[Held]) -> Option<Self> {
        let samples: Vec<_> = places.iter().zip(held).map(|(&x, held)| (x, approximate(held.bytes))).collect();
        let farthest = places.iter().copied().fold(0.0, f64::max);
        let highest = samples.iter().map(|&(_, bytes)| bytes).fold(0.0, f64::max);
        let mut all = Vec::new();
        for powers in MODELS {
            // One that falls ever faster is none.
            let Some(polynomial) = fit(powers, &samples, farthest).filter(|of| of[2] >= 0.0) else { continue };
            let [_, linear, quadratic] = polynomial;
            let is_material = linear.min(quadratic * farthest) * farthest >= MATERIAL * highest;
            all.push(Candidate {
                polynomial,
                misses: samples.iter().map(|&(x, bytes)| (value(&polynomial, x) - bytes).abs()).fold(0.0, f64::max),
                is_convincing: powers.len() < samples.len() || is_material,
                is_plausible: powers.len() < 3 || linear >= 0.0,
            });
        }
        let rounding = ROUNDING * approximate(held.iter().map(|held| held.blocks).max()?.max(1));
        let tolerance = PART * highest + rounding;
        let mut plausible: Vec<&Candidate> = all.iter().filter(|candidate| candidate.is_plausible).collect();
        let exact = plausible.iter().find(|of| of.misses <= EXACT * highest + rounding && of.is_convincing);
        let chosen = exact.or_else(|| plausible.iter().find(|of| of.misses <= tolerance)).copied();
        plausible.sort_by(|a, b| a.misses.total_cmp(&b.misses));
        let best = chosen.or(plausible.first().copied())?;
        let shape = match chosen.map(|chosen| chosen.polynomial) {
            None => Shape::Irregular,
            Some([_, _, quadratic]) if quadratic != 0.0 => Shape::Quadratic,
            Some([_, linear, _]) if linear != 0.0 => Shape::Linear,
            Some(_) => Shape::Constant,
        };
        // Where none fits, the peak may have moved to another place of the program: the highest of several curves bends upwards.
        let possible =
            all.iter().filter(|of| shape == Shape::Irregular || (of.is_plausible && of.misses <= DOUBT * tolerance));
        let possible = possible.map(|of| of.polynomial).collect();
        Some(Self { shape, best: best.polynomial, misses: best.misses, possible })
    }

    /// The bytes at a place. `reach` is the place in multiples of the farthest sample's.
    #[must_use]
    pub fn at(&self, x: f64, reach: f64) -> Range {
        let best = value(&self.best, x).max(0.0);
        // Beyond the runs, PyTorch may choose other kernels and workspaces.
        let unknown = if reach > 1.0 { PART * best } else { 0.0 };
        let off = (self.misses * reach.max(1.0)).max(unknown);
        let values = self.possible.iter().map(|polynomial| value(polynomial, x).max(0.0));
        let low = (values.clone().fold(best, f64::min) - off).max(0.0);
        Range { low, best, high: values.fold(best, f64::max) + off }
    }
}

/// The polynomial of these powers that fits best, by least squares in `unit`, so that squares stay comparable. `None` where the
/// samples do not determine it.
fn fit(powers: &[usize], samples: &[(f64, f64)], unit: f64) -> Option<Polynomial> {
    /// Two samples closer than this have the same x-value.
    const SINGULAR: f64 = 1e-9;
    // The equations, whose right sides are the last column, are solved by elimination.
    let mut rows = vec![vec![0.0; powers.len() + 1]; powers.len()];
    for &(x, bytes) in samples {
        let terms = powers.iter().map(|&power| [1.0, x / unit, x / unit * (x / unit)][power]).chain([bytes]);
        for (row, term) in rows.iter_mut().zip(terms.clone()) {
            row.iter_mut().zip(terms.clone()).for_each(|(cell, other)| *cell += term * other);
        }
    }
    for at in 0..rows.len() {
        let pivot = Some(rows[at][at]).filter(|&pivot| pivot > SINGULAR)?;
        let row: Vec<f64> = rows[at].iter().map(|cell| cell / pivot).collect();
        for other in &mut rows {
            let factor = other[at];
            other.iter_mut().zip(&row).for_each(|(cell, of_row)| *cell -= factor * of_row);
        }
        rows[at] = row;
    }
    let mut polynomial = Polynomial::default();
    for (&power, row) in powers.iter().zip(&rows) {
        polynomial[power] = (0..power).fold(*row.last()?, |value, _| value / unit);
    }
    Some(polynomial)
}

#[cfg(test)]
mod tests {
    use ptmem_base::units::whole;

    use super::*;

    const MIB: f64 = 1_048_576.0;

    /// Bytes at a place.
    type Curve = fn(f64) -> f64;

    fn width(range: Range) -> f64 {
        range.high - range.low
    }

    fn fit_of(of: impl Fn(f64) -> f64, places: &[f64]) -> Fit {
        let held = places.iter().map(|&x| Held { bytes: whole(of(x)), blocks: 10 });
        Fit::of(places, &held.collect::<Vec<_>>()).unwrap()
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

    /// Three runs on a parabola are not reported as linear, even if a line fits well; a line that fits very well is
    /// simpler.
    #[test]
    fn a_slight_bend_is_found() {
        let fit = fit_of(|x| 90.0 * MIB + 0.2 * MIB * x + 50.0 * x * x, &[128.0, 256.0, 512.0]);
        assert_eq!(fit.shape, Shape::Quadratic);
        let fit = fit_of(|x| 90.0 * MIB + 0.2 * MIB * x + 20.0 * x * x, &[128.0, 256.0, 512.0]);
        assert_eq!(fit.shape, Shape::Linear);
    }

    #[test]
    fn a_run_that_is_off_does_not_rule_out_a_line() {
        let fit = fit_of(|x| MIB * x * if x == 256.0 { 0.96 } else { 1.0 }, &[128.0, 256.0, 512.0]);
        assert_eq!(fit.shape, Shape::Quadratic);
        let range = fit.at(4096.0, 8.0);
        assert!(range.low <= 4096.0 * MIB && range.best > 6000.0 * MIB, "{range:?}");
    }

    /// Other kernels with other workspaces may run there.
    #[test]
    fn nothing_is_exact_beyond_the_runs() {
        let fit = fit_of(|x| MIB * x, &[128.0, 256.0, 512.0]);
        assert!(width(fit.at(512.0, 1.0)) < 1.0);
        assert!(width(fit.at(1024.0, 2.0)) >= 20.0 * MIB);
    }

    /// A workspace of a run in the middle is not a bend.
    #[test]
    fn of_three_runs_a_line_that_comes_close_is_no_parabola() {
        let fit = fit_of(|x| MIB * x * if x == 256.0 { 0.988 } else { 1.0 }, &[128.0, 256.0, 512.0]);
        assert_eq!(fit.shape, Shape::Linear);
        let best = fit.at(4096.0, 8.0).best / MIB;
        assert!((4000.0..4200.0).contains(&best), "{best}");
    }

    #[test]
    fn one_place_fits_nothing_but_a_constant() {
        assert_eq!(fit_of(|_| 5.0, &[1.0; 3]).shape, Shape::Constant);
    }
}
