//! Stored befores that the change itself rewrote, compared with those of its base.

use std::io::Write;
use std::path::Path;
use std::slice;

use anyhow::Result;
use ptmem::config::Config;
use ptmem::diagnostic::{Code, Diagnostic};
use tempfile::NamedTempFile;

use super::super::args::DiffArguments;
use super::super::git::Base;
use super::compare::compare_all;
use super::pairs::Pair;
use super::update::higher_figures;

/// The before of a pair as the base has it.
pub(super) struct OfBase {
    file: NamedTempFile,
    /// Figures that are higher in that of the change.
    higher: Vec<String>,
}

impl OfBase {
    /// `None` unless the change rewrote it, and that without a reason.
    pub(super) fn find(base: &Base, pair: &Pair, arguments: &DiffArguments, config: &Config) -> Result<Option<Self>> {
        let path = base.path_below_root(&pair.before).filter(|_| pair.found.is_none());
        let former = path.map(|path| base.former_path(&path)).transpose()?.flatten();
        let Some(bytes) = former.map(|path| base.read(&path)).transpose()?.flatten() else { return Ok(None) };
        let mut file = NamedTempFile::new()?;
        file.write_all(&bytes)?;
        let rewriting = pair.with(file.path(), &pair.before);
        let gate = compare_all(slice::from_ref(&rewriting), arguments, config)?;
        let Some(comparison) = gate.only_pair() else { return Ok(None) };
        let sides = &comparison.diff.profiles;
        let has_reason = sides.after.raises.len() > sides.before.raises.len();
        Ok((!has_reason).then(|| Self { file, higher: higher_figures(comparison) }))
    }

    pub(super) fn path(&self) -> &Path {
        self.file.path()
    }

    /// The remark on figures that rise.
    pub(super) fn raise(&self, pair: &Pair) -> Option<Diagnostic> {
        let path = pair.before.display();
        let message = format!("this change raises figures of {path} without a reason: {}", self.higher.join(", "));
        (!self.higher.is_empty()).then(|| Diagnostic::new(Code::BeforeRaised, None, message))
    }
}
