//! Numbers of bytes as inputs write them.

use ptmem_base::text::{cut, printable};
use ptmem_base::units::parse_size;
use serde_json::Value;

use super::{Error, Point};

/// The bytes of a value: a number, a size, or a series over iterations. `None` where it says that it is not known.
pub(super) fn bytes_of(value: &Value, point: Point, place: &str) -> Result<Option<u64>, Error> {
    let series: Vec<&Value> = match value.get("values") {
        Some(Value::Array(values)) => values.iter().collect(),
        Some(Value::Object(values)) => {
            let mut values: Vec<(Option<u64>, &Value)> =
                values.iter().map(|(iteration, value)| (iteration.parse().ok(), value)).collect();
            values.sort_by_key(|(iteration, _)| *iteration);
            values.into_iter().map(|(_, value)| value).collect()
        }
        _ => vec![value],
    };
    let mut known = Vec::new();
    for value in series {
        let read = match value {
            Value::Null => Some(None),
            Value::String(text) => size(text),
            Value::Number(number) => number.as_u64().or_else(|| whole(number.as_f64()?)).map(Some),
            _ => None,
        };
        let Some(read) = read else {
            let found = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            return Err(Error::NotBytes { place: place.to_owned(), found: printable(cut(&found, 64)) });
        };
        known.extend(read);
    }
    Ok(match point {
        Point::Peak => known.into_iter().max(),
        Point::End => known.last().copied(),
    })
}

/// A floating-point number that is a whole number of bytes.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be whole and in range")]
fn whole(number: f64) -> Option<u64> {
    // Beyond, not every whole number has a value of its own.
    (number.fract() == 0.0 && (0.0..=9_007_199_254_740_992.0).contains(&number)).then_some(number as u64)
}

/// The bytes of a text; the inner `None` where it says that they are not known.
fn size(text: &str) -> Option<Option<u64>> {
    let text = text.trim();
    if text.is_empty() || text.eq_ignore_ascii_case("nan") {
        return Some(None);
    }
    let number = text.parse().ok().or_else(|| whole(text.parse().ok()?));
    number.or_else(|| parse_size(text).ok()).map(Some)
}
