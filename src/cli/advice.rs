//! Adds to messages of the library the options that its advice means.

use ptmem::diagnostic::{Advice, Diagnostic};
use ptmem::leak::Search;
use ptmem::verdict::Judgement;

/// The end of a message with this advice.
fn words(advice: Advice) -> Option<&'static str> {
    match advice {
        Advice::AllowPartial => Some(". allow-partial = true in ptmem.toml compares anyway"),
        Advice::NameSteps => Some("; --step finds steps by the names of annotations"),
        Advice::CountCalls => Some(
            ". --step Optimizer.step makes each call a step; --step NAME takes steps annotated with record_function(NAME)",
        ),
        Advice::CompareHighestPhases => Some(". phase-occurrence = \"max\" in ptmem.toml compares the highest ones"),
        Advice::StateAllocatorSettings => Some(". Give others as allocator-settings in ptmem.toml"),
        _ => None,
    }
}

fn complete(text: &mut String, advice: &mut Option<Advice>) {
    text.push_str(advice.take().and_then(words).unwrap_or_default());
}

/// Completes the reasons of checks.
pub(super) fn complete_judgement(judgement: &mut Judgement) {
    for check in &mut judgement.checks {
        check.reason.iter_mut().for_each(|reason| complete(reason, &mut check.advice));
    }
}

/// Completes the result of a search for leaks.
pub(super) fn complete_search(search: &mut Search) {
    complete_diagnostics(&mut search.diagnostics);
    for unclear in search.devices.iter_mut().filter_map(|device| device.unclear.as_mut()) {
        complete(&mut unclear.reason, &mut unclear.advice);
    }
}

/// Completes diagnostics.
pub(super) fn complete_diagnostics(diagnostics: &mut [Diagnostic]) {
    diagnostics.iter_mut().for_each(|diagnostic| complete(&mut diagnostic.message, &mut diagnostic.advice));
}
