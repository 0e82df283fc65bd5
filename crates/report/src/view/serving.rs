//! What a server states of its memory.

use ptmem_trace::profile::{Profile, Serving};

use super::Fact;

/// The figures that a server states, of one snapshot or of both sides.
pub(super) fn facts(profiles: &[&Profile]) -> Option<Fact> {
    let lines: Vec<_> = Serving::ALL.into_iter().filter_map(|figure| line(figure, profiles)).collect();
    (!lines.is_empty()).then(|| Fact::of_lines("server", lines))
}

/// A figure, if any profile has it.
fn line(figure: Serving, profiles: &[&Profile]) -> Option<Vec<String>> {
    let stated = profiles.iter().map(|profile| profile.serving.get(&figure));
    stated.clone().flatten().next()?;
    let values = stated.map(|stated| stated.map_or("not stated".to_owned(), |stated| figure.shown(stated.value)));
    let mut values: Vec<String> = values.collect();
    values.dedup();
    Some(vec![format!("{} {}", figure.name(), values.join(" -> "))])
}
