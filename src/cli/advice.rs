//! Adds to messages of the library the options that its advice means.

use ptmem::diagnostic::{Advice, Diagnostic};
use ptmem::leak::Search;
use ptmem::verdict::Judgement;

/// The end of a message with this advice.
fn words(advice: Advice) -> Option<&'static str> {
    match advice {
        Advice::AllowPartial => Some(". --allow-partial compares anyway"),
        Advice::NameSteps => Some("; --step finds steps by the names of annotations"),
        Advice::CompareHighestPhases => Some(". --phase-occurrence max compares the highest ones"),
        Advice::StateAllocatorSettings => Some(". Give others with --allocator-settings"),
        _ => None,
    }
}

/// Completes the reasons of checks.
pub(super) fn complete_judgement(judgement: &mut Judgement) {
    for check in &mut judgement.checks {
        if let (Some(reason), Some(advice)) = (&mut check.reason, check.advice.take().and_then(words)) {
            reason.push_str(advice);
        }
    }
}

/// Completes the result of a search for leaks.
pub(super) fn complete_search(search: &mut Search) {
    complete_diagnostics(&mut search.diagnostics);
    for unclear in search.devices.iter_mut().filter_map(|device| device.unclear.as_mut()) {
        if let Some(advice) = unclear.advice.take().and_then(words) {
            unclear.reason.push_str(advice);
        }
    }
}

/// Completes diagnostics.
pub(super) fn complete_diagnostics(diagnostics: &mut [Diagnostic]) {
    for diagnostic in diagnostics {
        if let Some(advice) = diagnostic.advice.take().and_then(words) {
            diagnostic.message.push_str(advice);
        }
    }
}
