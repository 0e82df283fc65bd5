//! From a profile to the text of its file.

use ptmem_base::interner::Interner;
use ptmem_snapshot::input::{compress, most_bytes};
use ptmem_snapshot::snapshot::FrameId;

use super::super::open::MEMORY_OF_JSON;
use super::super::{DeviceProfile, Profile, Raise, Source};
use super::error::require_room;
use super::format::*;
use super::layout::laid_out;
use super::{DIGEST, SCHEMA, SavedError, digest, phases, trace};
use crate::replay::Origin;
use crate::stack::{CppDigest, ExactKeys, SnapshotCode};

/// The profile as the text of a file, with the reasons for which figures were raised.
///
/// # Errors
/// If it has more events than could be read again, by [`super::super::ReadOptions::max_input`] where that is set.
pub fn text_of(profile: &Profile, raises: &[Raise]) -> Result<String, SavedError> {
    let text = text_with(profile, raises, LONGEST_TEXT);
    require_readable(profile, text.len())?;
    Ok(text)
}

/// What a file holds: the text, compressed where it is larger than the snapshot and can then be read again. In a snapshot numbers have few bytes, and what is
/// equal has none; few programs, and files made for that purpose, have as much in them as a text of it has words.
///
/// # Errors
/// As [`text_of`].
pub fn bytes_of(profile: &Profile, raises: &[Raise]) -> Result<Vec<u8>, SavedError> {
    let text = text_of(profile, raises)?;
    if text.len() as u64 <= recorded(profile).bytes.max(ALWAYS_TEXT) {
        return Ok(text.into_bytes());
    }
    let compact = text_with(profile, raises, 0);
    let packed = compress(compact.as_bytes());
    let is_read_again = compact.len() as u64 <= most_bytes(packed.len() as u64) / MEMORY_OF_JSON;
    let is_readable = is_read_again && require_readable(profile, packed.len()).is_ok();
    Ok(if is_readable { packed } else { text.into_bytes() })
}

/// A text of this many bytes is one whatever the size of its snapshot: a device takes up to 3 KiB, however little it did.
const ALWAYS_TEXT: u64 = 64 << 10;

/// The text; longer texts in it than `longest` stand in it once.
fn text_with(profile: &Profile, raises: &[Raise], longest: usize) -> String {
    // Strings, numbers, and maps with string keys: that cannot fail.
    let mut text = laid_out(&serde_json::to_string(&saved_profile(profile, raises, longest)).unwrap_or_default());
    // The digest is that of all lines before its own.
    if let Some(end) = text.rfind(DIGEST) {
        text.truncate(end);
    }
    let digest = digest(&text);
    text + DIGEST + &digest + "\"\n}\n"
}

/// Requires that a file of this size may stand for what the profile has.
fn require_readable(profile: &Profile, bytes: usize) -> Result<(), SavedError> {
    let traces = profile.devices.iter().map(|device| &device.trace);
    let moves = traces.map(|of| trace::moves_of(of.symbols.len() as u64, of.implied.len() as u64, &of.start));
    let max_bytes = profile.options.max_input.unwrap_or_else(|| most_bytes(bytes as u64));
    require_room(moves.fold(0, u64::saturating_add), max_bytes)
}

/// The snapshot that a profile was computed from.
fn recorded(profile: &Profile) -> &Source {
    profile.recorded.as_ref().unwrap_or(&profile.source)
}

fn saved_profile<'p>(profile: &'p Profile, raises: &[Raise], longest: usize) -> SavedProfile<&'p DeviceProfile> {
    let code = profile.code();
    let source = recorded(profile);
    // Only the name: a repository should not keep the folders of one machine.
    let path = source.path.rsplit(['/', '\\']).next().unwrap_or_default().to_owned();
    let keys = ExactKeys::new(&code);
    let mut writer = Writer { code: &code, keys, frames: Interner::default(), texts: Interner::default(), longest };
    let devices: Vec<SavedDevice<_>> = profile.devices.iter().map(|device| writer.device(device)).collect();
    let diagnostics = profile.diagnostics.iter();
    let numbers: Vec<FrameId> = writer.frames.items().iter().copied().collect();
    let frames = numbers.into_iter().map(|frame| writer.frame(frame)).collect();
    SavedProfile {
        schema: SCHEMA.to_owned(),
        tool: Tool { name: "ptmem".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() },
        source: Source { path, ..source.clone() },
        raises: raises.to_vec(),
        settings: profile.settings.present.then(|| profile.settings.all.clone()),
        keeps_annotations: profile.keeps_annotations,
        ended_us: profile.ended_us,
        run: profile.run.clone(),
        ignored: profile.ignored.clone(),
        devices,
        diagnostics: diagnostics
            .map(|found| SavedDiagnostic { found: found.clone(), severity: found.severity() })
            .collect(),
        frames,
        texts: writer.texts.into_items(),
        sha1: String::new(),
    }
}

/// Writes devices, and numbers the frames of their stacks.
struct Writer<'p> {
    code: &'p SnapshotCode<'p>,
    keys: ExactKeys<'p>,
    frames: Interner<FrameId>,
    texts: Interner<String>,
    /// The longest text in bytes that stands wherever it occurs.
    longest: usize,
}

/// The same in a file that people read.
const LONGEST_TEXT: usize = 128;

impl Writer<'_> {
    fn device<'d>(&mut self, device: &'d DeviceProfile) -> SavedDevice<&'d DeviceProfile> {
        let DeviceProfile { trace, .. } = device;
        let tables = self.code.tables();
        let mut stacks = Interner::default();
        let mut classes = Vec::with_capacity(trace.classes.len());
        for (class, &start) in trace.classes.iter().zip(&trace.start) {
            // No file has the annotation or the pool.
            let tags = class.tags.map(|tag| self.text(tables.string(*tag)));
            classes.push(SavedClass::new(class, stacks.number(&(class.origin, class.cpp)), start, tags));
        }
        SavedDevice {
            device,
            stacks: stacks.items().iter().map(|&(origin, cpp)| self.stack(origin, cpp)).collect(),
            ooms: self.ooms(device),
            classes,
            trace: trace::saved(trace),
            phases: phases::saved(&device.phases, |text| self.text(text)),
            phases_cut: device.phases.cut,
        }
    }

    fn ooms(&mut self, device: &DeviceProfile) -> Vec<SavedOom> {
        let ooms = device.figures.ooms.iter().zip(&device.failed_stacks).map(|(&oom, stack)| {
            let frames = stack.map_or(Vec::new(), |stack| self.code.essential(stack));
            SavedOom { oom, frames: self.numbers(&frames) }
        });
        ooms.collect()
    }

    fn stack(&mut self, origin: Origin, cpp: Option<CppDigest>) -> SavedStack {
        let stack = match origin {
            Origin::Stack(stack) => stack,
            Origin::Bucket(bucket) => return SavedStack { bucket: Some(bucket), ..SavedStack::default() },
        };
        let tables = self.code.tables();
        let essential = self.code.essential(stack);
        // Where some C++ frames are not in the file, it has a digest of all.
        let is_cut = essential.len() < tables.stack(stack).len();
        SavedStack {
            cpp: cpp.or_else(|| is_cut.then(|| self.keys.cpp(stack))),
            bucket: None,
            frames: self.numbers(&essential),
            forward_frames: self.numbers(tables.forward(stack)),
        }
    }

    /// The places that frames have in the file. One comes after that which it was generated from.
    fn numbers(&mut self, frames: &[FrameId]) -> Vec<u32> {
        let tables = self.code.tables();
        let numbers = frames.iter().map(|frame| {
            tables.frame(*frame).original.iter().for_each(|original| _ = self.frames.number(original));
            self.frames.number(frame)
        });
        numbers.collect()
    }

    fn text(&mut self, text: &str) -> SavedText {
        if text.len() <= self.longest {
            return SavedText::Short(text.to_owned());
        }
        SavedText::Long(self.texts.number(text))
    }

    fn frame(&mut self, frame: FrameId) -> SavedFrame {
        let tables = self.code.tables();
        let frame = tables.frame(frame);
        let original = frame.original.map(|original| self.frames.number(&original));
        let [function, file] = [frame.name, frame.filename].map(|text| self.text(tables.string(text)));
        // A line below 0 or beyond 64 bits is none.
        SavedFrame(function, file, u64::try_from(frame.line).unwrap_or(0), original)
    }
}
