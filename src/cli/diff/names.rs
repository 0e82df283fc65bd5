//! Qualified names of functions, from the checkout, for recordings without them: PyTorch writes only the last part of a
//! name.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use ptmem::patch::Patch;
use ptmem::profile::Profile;
use ptmem::python::Functions;
use ptmem::sides::{Side, Sides};
use ptmem::stack::{FunctionsOfTexts, names_by_texts};

use super::super::place::StartFolder;
use super::super::{checkout, git, sources};

/// The functions in the files of the checkout, each read once for all comparisons.
#[derive(Default)]
pub(super) struct CheckoutFunctions {
    known: Mutex<Sides<FunctionsOfTexts>>,
}

impl CheckoutFunctions {
    /// Groups the stacks of both sides by qualified names: those of the after by the checkout, those of the before by its
    /// merge base with `base`. Both stay as they are where a side has names of its own, or was recorded from another code.
    pub(super) fn give(&self, place: &StartFolder, profiles: &mut Sides<Profile>, base: &str, patch: &Patch) {
        if profiles.each().into_iter().any(|(_, profile)| profile.has_qualified_names()) {
            return;
        }
        let files = checkout::files(place, [profiles.before.code(), profiles.after.code()].into_iter());
        let mut names = Sides::<Option<Vec<_>>>::default();
        for (side, profile) in profiles.each() {
            let code = profile.code();
            let recorded = code.shown_user_files().map(|(_, recorded)| recorded);
            let paths = recorded.filter_map(|file| Some((file, path(file, side, &files, patch)?)));
            let functions = self.functions(place, side, base, &paths.collect());
            *names.of_mut(side) = names_by_texts(&code, &functions);
        }
        if let Sides { before: Some(before), after: Some(after) } = names {
            profiles.before.name_functions(&before);
            profiles.after.name_functions(&after);
        }
    }

    /// The functions of recorded files, given the paths of these from the root of the checkout.
    fn functions(
        &self,
        place: &StartFolder,
        side: Side,
        base: &str,
        paths: &BTreeMap<&str, String>,
    ) -> FunctionsOfTexts {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let known = known.of_mut(side);
        let wanted: BTreeSet<&str> =
            paths.values().filter(|path| !known.contains_key(*path)).map(String::as_str).collect();
        if !wanted.is_empty() {
            let texts = texts(place, side, base, &wanted);
            for path in wanted {
                known.insert(path.to_owned(), texts.get(path).map(|text| Arc::new(Functions::new(text))));
            }
        }
        paths.iter().map(|(file, path)| ((*file).to_owned(), known[path].clone())).collect()
    }
}

/// The path of a recorded Python file from the root of the checkout.
fn path(file: &str, side: Side, files: &BTreeMap<String, String>, patch: &Patch) -> Option<String> {
    let path = patch.path(side, file, files)?;
    Path::new(path).extension().is_some_and(|ending| ending == "py").then(|| path.to_owned())
}

/// The texts of files, by their paths from the root of the checkout.
fn texts(place: &StartFolder, side: Side, base: &str, paths: &BTreeSet<&str>) -> BTreeMap<String, String> {
    let paths = paths.iter().copied();
    match side {
        Side::Before => {
            let texts = git::texts_at(place, Some(base), paths).unwrap_or_default();
            texts.into_iter().map(|(path, text)| (path.to_owned(), text)).collect()
        }
        Side::After => {
            let read = sources::read(place, paths, &BTreeSet::new(), true);
            read.into_iter().map(|(path, lines)| (path, lines.join("\n"))).collect()
        }
    }
}
