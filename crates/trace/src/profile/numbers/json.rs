//! Figures in JSON. They are taken as they arrive, so that an input takes memory for its figures and for the keys of the objects
//! around them, whatever else it holds.

use std::collections::HashSet;
use std::fmt;

use ptmem_base::device::DeviceId;
use ptmem_base::text::{cut, printable};
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::Recognition;
use super::bytes::{IterationSeries, Stated, of_text, whole, whole_of_text};
use super::cases::{Cases, DeviceNumbers};
use super::error::NumbersError;
use super::key::{FAILED_COUNT, FigureKey, counter_of, device_of, figure_of};

/// Objects that are nested deeper hold no figures: a case, a device, a counter, a pool, or a series lie above each.
const DEEPEST: usize = 6;

/// Objects of `memory_stats_as_nested_dict()` with points of other counters and pools.
const OTHER_STATISTICS: [&str; 5] = ["all", "large_pool", "small_pool", "oversize_allocations", "oversize_segments"];

/// The cases of an object. Empty if it does not contain a figure, or is a document of its own.
pub(super) fn cases(text: &[u8]) -> Result<Cases, NumbersError> {
    if states_schema_first(text) {
        return Ok(Cases::default());
    }
    let mut reader = FigureReader::default();
    let unreadable = reader.read(text).err();
    if reader.is_document {
        return Ok(Cases::default());
    }
    if let Some(error) = unreadable
        && reader.problem.is_none()
    {
        // Well-formed JSON with a number that nothing can hold is not one without figures.
        let is_json = serde_json::from_slice::<IgnoredAny>(text).is_ok();
        return if is_json { Err(NumbersError::Json(error.to_string())) } else { Ok(Cases::default()) };
    }
    if !reader.has_figures {
        return Ok(Cases::default());
    }
    reader.finish()
}

/// How sure it is that an object is about memory.
pub(super) fn recognized(text: &[u8]) -> Recognition {
    if states_schema_first(text) {
        return Recognition::None;
    }
    let mut reader = FigureReader::default();
    let is_cut = reader.read(text).is_err_and(|error| error.is_eof());
    match reader {
        FigureReader { is_document: true, .. } => Recognition::None,
        FigureReader { has_own_keys: true, .. } => Recognition::Certain,
        FigureReader { has_figures, .. } if has_figures || is_cut => Recognition::Possible,
        _ => Recognition::None,
    }
}

/// True for a key that programs also write for other things than memory, such as the `start` and the `end` of a run.
fn is_plain_word(key: &str) -> bool {
    key.bytes().all(|letter| letter.is_ascii_alphabetic())
}

/// True for a saved profile and a report, which may be large.
fn states_schema_first(text: &[u8]) -> bool {
    let head = &text[..text.len().min(64)];
    head.windows(8).any(|part| part == b"\"schema\"")
}

/// A figure, as the keys that lead to it name it.
struct FigurePath<'p> {
    /// The keys of its case and its device.
    owner: &'p [String],
    /// The key that names it.
    key: &'p str,
    figure: FigureKey,
    /// The key of its iteration, where it is one of a series.
    iteration: Option<&'p str>,
    /// True for the name of a figure alone, which a case may have as well.
    may_be_case: bool,
}

impl<'p> FigurePath<'p> {
    fn of(path: &'p [String]) -> Option<Self> {
        let place = |owner, key, figure| FigurePath { owner, key, figure, iteration: None, may_be_case: false };
        match path {
            [owner @ .., key, values, iteration] if values == "values" && counter_of(key).is_some() => {
                Some(FigurePath { iteration: Some(iteration), ..place(owner, key, counter_of(key)?) })
            }
            [owner @ .., key, values] if values == "values" => Some(place(owner, key, counter_of(key)?)),
            [owner @ .., counter, all, point] if all == "all" => {
                Some(place(owner, counter, counter_of(&format!("{counter}.all.{point}"))?))
            }
            [owner @ .., key] => Some(FigurePath { may_be_case: true, ..place(owner, key, figure_of(key)?) }),
            [] => None,
        }
    }
}

/// The state of reading.
#[derive(Default)]
struct FigureReader {
    cases: Cases,
    /// Keys from the outermost object to the value that is read.
    path: Vec<String>,
    /// The series that is read.
    series: IterationSeries,
    /// Objects that have the name of a device and no figures so far.
    devices: Vec<Vec<String>>,
    /// That of a program which failed after it wrote the file.
    exit_status: Option<u64>,
    has_figures: bool,
    /// True if the key of a figure has no other meaning: one of PyTorch, of Megatron-LM or of this tool.
    has_own_keys: bool,
    /// True if the object states a schema.
    is_document: bool,
    problem: Option<NumbersError>,
}

/// True for the key of an object whose points are not those of a limited counter. (`cuda:host` names neither a device nor pinned
/// memory.)
fn is_other(key: &str) -> bool {
    OTHER_STATISTICS.contains(&key) || key == "cuda:host"
}

/// The case that keys lead to, and the device with its name, where they name one; `None` where figures belong to neither.
fn owner_of(keys: &[String]) -> Option<(&str, Option<DeviceId>, &str)> {
    match keys {
        [] => Some(("", None, "")),
        [name] => Some(device_of(name).map_or((name, None, ""), |device| ("", Some(device), name))),
        [case, name] if device_of(case).is_none() => Some((case, Some(device_of(name)?), name)),
        _ => None,
    }
}

/// The place of keys, for errors.
fn shown(path: &[String]) -> String {
    printable(cut(&path.join("."), 128))
}

impl FigureReader {
    /// Takes the figures of a text, as far as it is JSON.
    fn read(&mut self, text: &[u8]) -> serde_json::Result<()> {
        let mut json = serde_json::Deserializer::from_slice(text);
        JsonItem(self).deserialize(&mut json)?;
        json.end()
    }

    /// The figures of an owner; `None` for those of counters without a limit.
    fn numbers<'c>(cases: &'c mut Cases, owner: &[String]) -> Result<Option<&'c mut DeviceNumbers>, NumbersError> {
        if owner.iter().any(|key| is_other(key)) {
            return Ok(None);
        }
        let (case, device, name) = owner_of(owner).ok_or_else(|| NumbersError::Misplaced(shown(owner)))?;
        cases.device(case, device, name).map(Some)
    }

    /// Takes the value at the path, if it is a figure.
    fn take(&mut self, stated: Stated) {
        let Some(place) = FigurePath::of(&self.path) else { return };
        if let Some(iteration) = place.iteration {
            self.series.add(iteration.parse().ok(), stated);
            return;
        }
        let is_own_key = !is_plain_word(place.key);
        let numbers = Self::numbers(&mut self.cases, place.owner);
        let set = numbers.and_then(|numbers| match numbers {
            Some(numbers) => {
                self.has_figures = true;
                numbers.set(place.figure, stated, || shown(&self.path))
            }
            None => Ok(()),
        });
        self.has_figures |= set.as_ref().is_err_and(|error| !matches!(error, NumbersError::Misplaced(_)));
        self.has_own_keys |= self.has_figures && is_own_key;
        self.problem = self.problem.take().or(set.err());
    }

    /// Takes the number of failed allocations beside the counters of the owner at the path.
    fn take_failed(&mut self, count: u64) {
        if let Some((case, device, _)) = owner_of(&self.path)
            && let Some(numbers) = self.cases.known(case, device)
        {
            numbers.failed_count = count;
        }
    }

    /// Takes the series that was read, whose values the path leads to.
    fn take_series(&mut self) {
        let series = std::mem::take(&mut self.series);
        if let Some(FigurePath { figure: FigureKey::Counter(_, stage), .. }) = FigurePath::of(&self.path) {
            self.take(series.at(stage));
        }
    }

    /// True if the path leads to the values of a series.
    fn is_at_series(&self) -> bool {
        self.path.last().is_some_and(|key| key == "values") && FigurePath::of(&self.path).is_some()
    }

    /// The cases, once the whole input is read.
    fn finish(mut self) -> Result<Cases, NumbersError> {
        // A device of which nothing is known is one beside others.
        for device in std::mem::take(&mut self.devices) {
            let case = device.len().checked_sub(2).map_or("", |case| &device[case]);
            if self.cases.all.get(case).is_some_and(|case| case.keys().any(Option::is_some)) {
                Self::numbers(&mut self.cases, &device)?;
            }
        }
        if let (Some(run), Some(status)) = (&mut self.cases.run, self.exit_status) {
            run.end_with(status);
        }
        self.problem.map_or(Ok(self.cases), Err)
    }

    fn enter<'de, A: MapAccess<'de>>(&mut self, map: &mut A, key: String) -> Result<(), A::Error> {
        if self.path.is_empty() && key == "ptmem" {
            let run: &RawValue = map.next_value()?;
            self.cases.run = serde_json::from_str(run.get()).ok();
            return Ok(());
        }
        if self.path.is_empty() && key == "ptmem_exit" {
            self.exit_status = map.next_value()?;
            return Ok(());
        }
        self.is_document |= self.path.is_empty() && key == "schema";
        self.path.push(key);
        let read = map.next_value_seed(JsonItem(self));
        self.path.pop();
        read
    }
}

/// A value at the path of a reader.
struct JsonItem<'r>(&'r mut FigureReader);

impl<'de> DeserializeSeed<'de> for JsonItem<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for JsonItem<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, value: bool) -> Result<(), E> {
        self.0.take(Err(value.to_string()));
        Ok(())
    }

    fn visit_u64<E>(self, value: u64) -> Result<(), E> {
        self.0.take(Ok(Some(value)));
        Ok(())
    }

    fn visit_i64<E>(self, value: i64) -> Result<(), E> {
        self.0.take(Err(value.to_string()));
        Ok(())
    }

    fn visit_f64<E>(self, value: f64) -> Result<(), E> {
        self.0.take(whole(value).map(Some).ok_or_else(|| value.to_string()));
        Ok(())
    }

    fn visit_str<E>(self, value: &str) -> Result<(), E> {
        self.0.take(of_text(value));
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        self.0.take(Ok(None));
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        if !self.0.is_at_series() {
            self.0.take(Err("a list".to_owned()));
            while items.next_element::<IgnoredAny>()?.is_some() {}
            return Ok(());
        }
        self.0.path.push(String::new());
        while items.next_element_seed(JsonItem(self.0))?.is_some() {}
        self.0.path.pop();
        self.0.take_series();
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let reader = self.0;
        let is_series = reader.is_at_series();
        let is_figure = !is_series && FigurePath::of(&reader.path).is_some_and(|place| !place.may_be_case);
        if is_figure || reader.path.len() > DEEPEST {
            reader.take(Err("an object".to_owned()));
            while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            return Ok(());
        }
        if (1..=2).contains(&reader.path.len()) && reader.path.last().is_some_and(|name| device_of(name).is_some()) {
            reader.devices.push(reader.path.clone());
        }
        let mut keys = HashSet::new();
        let mut failed = None;
        while let Some(key) = map.next_key::<String>()? {
            if !keys.insert(key.clone()) {
                reader.path.push(key.clone());
                reader.problem = reader.problem.take().or_else(|| Some(NumbersError::Twice(shown(&reader.path))));
                reader.path.pop();
            }
            // Nobody reads on: the first problem is the error.
            if matches!(reader.problem, Some(NumbersError::TooMany { .. })) {
                return Err(A::Error::custom("too many"));
            }
            if key == FAILED_COUNT {
                let stated: &RawValue = map.next_value()?;
                failed = whole_of_text(stated.get().trim_matches('"').trim());
                continue;
            }
            reader.enter(&mut map, key)?;
        }
        // Its counters may follow it.
        if let Some(count) = failed {
            reader.take_failed(count);
        }
        if is_series {
            reader.take_series();
        }
        Ok(())
    }
}
