//! The names of functions within their classes, from the texts of their files.

use std::collections::BTreeMap;
use std::sync::Arc;

use ptmem_base::python;
use ptmem_snapshot::snapshot::{FrameId, FunctionsOfFile};

use super::classify::Owner;
use super::code::SnapshotCode;
use super::facts::written;

/// The functions of files, read from their texts; empty for a file whose text is not known.
pub type FunctionsOfTexts = BTreeMap<String, Option<Arc<python::Functions>>>;

/// The names of the user's functions from the texts of their files, by recorded path; `None` if a frame does not fit
/// its text, which then is not the one that ran. Files without an entry are skipped.
pub fn names_by_texts(code: &SnapshotCode<'_>, texts: &FunctionsOfTexts) -> Option<Vec<FunctionsOfFile>> {
    let mut names: BTreeMap<&str, Vec<(u64, u64, String)>> = BTreeMap::new();
    for (index, frame) in code.tables().frames().enumerate() {
        let id = FrameId::from_index(index);
        let Some(functions) = texts.get(code.file(id)).filter(|_| code.owner(id) == Owner::User) else { continue };
        let line = code.line(id)?;
        let name = functions.as_ref()?.name(written(code.tables().string(frame.name)), line)?;
        names.entry(code.tables().string(frame.filename)).or_default().push((line.into(), line.into(), name));
    }
    Some(names.into_iter().map(|(file, functions)| (file.to_owned(), functions)).collect())
}
