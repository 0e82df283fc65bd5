//! Opening snapshots and saved profiles.

use std::cell::Cell;
use std::io::{self, Cursor, Read};

use super::{Error, Kind, Options, Profile, Source, measure, saved};
use crate::container;
use crate::snapshot::{self, Snapshot};

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
pub fn read(input: impl Read, path: &str, options: Options) -> Result<Profile, Error> {
    match open(input, path, options.clone())? {
        Opened::Snapshot(snapshot, source) => Ok(measure(*snapshot, source, options)?),
        Opened::Profile(profile) => Ok(*profile),
    }
}

/// Reads a snapshot, or a saved profile.
///
/// # Errors
/// Where the input is neither, or damaged.
pub fn open(input: impl Read, path: &str, options: Options) -> Result<Opened, Error> {
    let count = Cell::new(0);
    let mut input = Counted { input, count: &count };
    let source = |kind| Source { path: path.to_owned(), bytes: count.get(), kind };
    let max_bytes = options.max_input.unwrap_or(container::DEFAULT_MAX_BYTES);
    let opened =
        container::unpack(&mut input, max_bytes, &mut |stream| open_unpacked(stream, &source, options.clone()))?;
    // The rest of the wrapping, behind the pickle, is read last.
    Ok(match opened {
        Opened::Snapshot(snapshot, source) => Opened::Snapshot(snapshot, Source { bytes: count.get(), ..source }),
        Opened::Profile(mut profile) => {
            profile.source.bytes = count.get();
            Opened::Profile(profile)
        }
    })
}

fn open_unpacked(input: &mut dyn Read, source: &dyn Fn(Kind) -> Source, options: Options) -> Result<Opened, Error> {
    // JSON begins with a brace, behind white space, and no pickle does.
    let mut head = Vec::new();
    loop {
        let from = head.len();
        let read = input.take(64).read_to_end(&mut head)?;
        if read == 0 || head[from..].iter().any(|byte| !byte.is_ascii_whitespace()) || head.len() > 1 << 16 {
            break;
        }
    }
    // Some editors put a byte order mark in front of a text.
    let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&head).trim_ascii_start();
    let is_json = text.first() == Some(&b'{');
    let start = if is_json { head.len() - text.len() } else { 0 };
    let input = Cursor::new(head.split_off(start)).chain(input);
    if is_json {
        if let Some(every) = &options.every {
            return Err(Error::NoHistory { every: Box::new(every.clone()) });
        }
        let wanted = options.device;
        let mut profile = saved::read(io::BufReader::new(input), || source(Kind::Profile), options)?;
        if let Some(device) = wanted {
            profile.restrict_to(device)?;
        }
        return Ok(Opened::Profile(Box::new(profile)));
    }
    let mut snapshot = snapshot::read(input)?;
    if let Some(device) = options.device {
        if !snapshot.devices.contains_key(&device) {
            return Err(Error::NoDevice { device, known: snapshot.devices.into_keys().collect() });
        }
        snapshot.devices.retain(|&id, _| id == device);
    }
    if let Some(settings) = options.allocator_settings.filter(|_| !snapshot.settings.present) {
        snapshot.settings = settings;
    }
    let kind = if snapshot.has_traces { Kind::Snapshot } else { Kind::Segments };
    Ok(Opened::Snapshot(Box::new(snapshot), source(kind)))
}

/// Counts what is read.
struct Counted<'c, R> {
    input: R,
    count: &'c Cell<u64>,
}

impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buffer)?;
        self.count.set(self.count.get() + read as u64);
        Ok(read)
    }
}
