//! Opening snapshots and saved profiles.

use std::io::{self, Read};
use std::path::Path;

use ptmem_snapshot::input::{self, Input, InputFormat, TooLarge};
use ptmem_snapshot::snapshot::{self, Snapshot};

use super::numbers::NumbersError;
use super::{InputKind, Profile, ProfileError, ReadOptions, Source, measure, numbers, saved};

/// An opened input.
#[derive(Debug)]
pub enum Opened {
    /// A snapshot, which knows more than its profile, and where it came from.
    Snapshot(Box<Snapshot>, Source),
    /// A saved profile.
    Profile(Box<Profile>),
}

/// Reads a snapshot and computes its profile, or reads a saved profile.
///
/// # Errors
/// Where the input is neither, or damaged.
pub fn read(input: impl Read, path: &str, options: ReadOptions) -> Result<Profile, ProfileError> {
    match open(input, path, options.clone())? {
        Opened::Snapshot(snapshot, source) => Ok(measure(*snapshot, source, options)?),
        Opened::Profile(profile) => Ok(*profile),
    }
}

/// Reads a snapshot, or a saved profile.
///
/// # Errors
/// Where the input is neither, or damaged.
pub fn open(mut input: impl Read, path: &str, options: ReadOptions) -> Result<Opened, ProfileError> {
    let read = &mut |unpacked: Input<'_>| open_unpacked(unpacked, path, &options);
    let (mut opened, bytes) = input::unpack(&mut input, options.max_input, read)?;
    // The rest of the wrapping, behind the pickle, is read last.
    let source = match &mut opened {
        Opened::Snapshot(_, source) => source,
        Opened::Profile(profile) => &mut profile.source,
    };
    source.bytes = bytes;
    Ok(opened)
}

/// Bytes of memory that a byte of JSON or of a table may take: most of what a compressed input may expand to.
pub(super) const MEMORY_OF_JSON: u64 = 8;

/// Reads a text, which may be as long as its file, and take no more memory than what that may expand to. Of a table, no more is read
/// than shows that it is too long.
fn read_text(input: &mut Input<'_>) -> io::Result<Vec<u8>> {
    let most = if input.format == InputFormat::Text { numbers::MOST_TABLE } else { usize::MAX };
    let mut text = Vec::new();
    while input.take(PART_OF_TEXT).read_to_end(&mut text)? > 0 && text.len() <= most {
        let max_bytes = (input.most_bytes() / MEMORY_OF_JSON).max(input.size());
        if text.len() as u64 > max_bytes {
            return Err(io::Error::other(TooLarge { max_bytes }));
        }
    }
    Ok(text)
}

/// Bytes of a text that are read at once.
const PART_OF_TEXT: u64 = 1 << 20;

/// Reads an input that nothing is wrapped around. The size of the source is not known yet.
fn open_unpacked(mut input: Input<'_>, path: &str, options: &ReadOptions) -> Result<Opened, ProfileError> {
    let source = Source { path: path.to_owned(), bytes: 0, kind: InputKind::Profile };
    let format = input.format;
    if format != InputFormat::JsonObject && format != InputFormat::Text {
        refuse_case(options)?;
        let snapshot = open_snapshot(input, options)?;
        let kind = if snapshot.has_traces { InputKind::Snapshot } else { InputKind::Segments };
        return Ok(Opened::Snapshot(Box::new(snapshot), Source { kind, ..source }));
    }
    let text = read_text(&mut input)?;
    let cases = numbers::cases(&text)?;
    let profile = if !cases.is_empty() {
        read_case(&cases, source, options.clone())?
    } else if format == InputFormat::Text {
        return Err(not_figures(path, format));
    } else {
        refuse_case(options)?;
        as_asked(saved::read(text, input.most_bytes(), source, options.clone())?)?
    };
    Ok(Opened::Profile(Box::new(profile)))
}

/// The error of a text that states no figures.
fn not_figures(path: &str, format: InputFormat) -> ProfileError {
    if Path::new(path).extension().is_some_and(|ending| ending.eq_ignore_ascii_case("csv")) {
        let why = "its first line names no figure; expected columns such as case,peak, with commas between them";
        return NumbersError::Table(why.to_owned()).into();
    }
    snapshot::SnapshotError::NotAPickle(format).into()
}

/// Refuses the name of a case: a recording has no cases.
fn refuse_case(options: &ReadOptions) -> Result<(), NumbersError> {
    match &options.case {
        Some(asked) => Err(NumbersError::no_case(asked, "none")),
        None => Ok(()),
    }
}

/// The profile of a case of an input that was read.
///
/// # Errors
/// If the input does not have this case, or not what the options ask for.
pub fn read_case(cases: &numbers::Cases, source: Source, options: ReadOptions) -> Result<Profile, ProfileError> {
    as_asked(cases.profile(Source { kind: InputKind::Numbers, ..source }, options)?)
}

/// The profile, restricted and divided as its options ask for.
fn as_asked(mut profile: Profile) -> Result<Profile, ProfileError> {
    if let Some(device) = profile.options.device {
        profile.restrict_to(device)?;
    }
    profile.divide(None)?;
    Ok(profile)
}

/// Reads a snapshot, as far as the options ask for it.
fn open_snapshot(input: Input<'_>, options: &ReadOptions) -> Result<Snapshot, ProfileError> {
    let mut snapshot = snapshot::decode(input, options.sources)?;
    if let Some(device) = options.device {
        if !snapshot.devices.contains_key(&device) {
            return Err(ProfileError::NoDevice { device, known: snapshot.devices.into_keys().collect() });
        }
        snapshot.devices.retain(|&id, _| id == device);
    }
    if let Some(settings) = options.allocator_settings.as_ref().filter(|_| !snapshot.settings.present) {
        snapshot.settings = settings.clone();
    }
    Ok(snapshot)
}
