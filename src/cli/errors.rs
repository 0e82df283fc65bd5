//! Options that help with errors of the library.

use std::error::Error;

use ptmem::input::JsonDocument;
use ptmem::profile::{self, Lack, saved};
use ptmem::verdict::HeadroomError;

/// An error with its causes, and the option that helps, if there is one.
pub(crate) fn explained(error: &anyhow::Error) -> String {
    with_hint(format!("{error:#}"), error)
}

/// The first cause of an error, and the option that helps, if there is one.
pub(crate) fn explained_cause(error: &anyhow::Error) -> String {
    with_hint(error.root_cause().to_string(), error)
}

fn with_hint(text: String, error: &anyhow::Error) -> String {
    match error.chain().find_map(of_cause) {
        Some(hint) => format!("{text}; {hint}"),
        None => text,
    }
}

fn of_cause(cause: &(dyn Error + 'static)) -> Option<&'static str> {
    if let Some(error) = cause.downcast_ref::<profile::ProfileError>() {
        return of_profile(error);
    }
    Some(match cause.downcast_ref::<HeadroomError>()? {
        HeadroomError::UnknownMemory => "give --device-memory, such as 80GiB, or device-memory in ptmem.toml",
        HeadroomError::TooLarge { overhead: 0, .. } => "give less to --min-headroom",
        HeadroomError::TooLarge { .. } => "give less to --min-headroom, or to device-overhead",
    })
}

fn of_profile(error: &profile::ProfileError) -> Option<&'static str> {
    if error.too_large().is_some() {
        return Some("allow more if you trust the input, with max-input = \"64GiB\" in ptmem.toml");
    }
    match error {
        profile::ProfileError::NoDevice { known, .. } if !known.is_empty() => {
            Some("give one of its devices to --device")
        }
        profile::ProfileError::Undivided { lack, .. } => Some(of_lack(lack)),
        profile::ProfileError::Saved(error) => of_saved(error),
        _ => None,
    }
}

/// Another way to divide a history.
fn of_lack(lack: &Lack) -> &'static str {
    match lack {
        Lack::Times => "try --every 1000events",
        Lack::AllTimes => "give the snapshot itself, or try --every 1000events",
        Lack::Steps | Lack::StepsNamed(_) => "name the steps with --step PATTERN, or try --every 1000events",
    }
}

fn of_saved(error: &saved::SavedError) -> Option<&'static str> {
    match error {
        saved::SavedError::NotAProfile(JsonDocument::EarlierProfile) => {
            Some("'ptmem profile SNAPSHOT -o FILE' writes a new one")
        }
        saved::SavedError::Json(_) | saved::SavedError::NotAProfile(_) => {
            Some("'ptmem profile SNAPSHOT -o FILE' saves one")
        }
        saved::SavedError::Damaged(_) => Some("'ptmem profile SNAPSHOT -o FILE' writes it"),
        _ => None,
    }
}
