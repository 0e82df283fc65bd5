//! The smaller parts of the page: verdict, facts, checks, remarks, call stacks, how to accept.

use maud::{Markup, html};
use ptmem_base::units::Delta;
use ptmem_judge::verdict::Verdict;

use super::table::{badge, table};
use crate::RenderOptions;
use crate::name::name;
use crate::view::{CheckLine, Explanation, Fact, Group, Remark, View, WayToAccept, arrows, capitalized};

/// The verdict in words, and the stack that explains it.
pub(super) fn headline(view: &View, options: &RenderOptions) -> Markup {
    html! {
        @match &view.headline {
            Some(headline) => {
                h1 class=(verdict_class(headline.verdict, view.is_gated)) {
                    span.verdict { (headline.verdict.word()) }
                    " " (name(&options.scope())) (name(&headline.sentence))
                }
                @for detail in &headline.details { p.cause { (with_code(&capitalized(detail))) } }
            }
            None => {
                h1 { (name(&options.scope())) "GPU memory of " code { (name(view.first_path())) } }
                @if let Some(failure) = &view.failure { p.failure { (name(failure)) } }
            }
        }
        @if let Some(approval) = &view.approval { p.approval { (name(&approval.to_string())) } }
        @if let Some(run) = &options.run {
            p.run { "Commit " a href=(run.commit_address()) { code { (run.short_commit()) } } ", " a href=(run.log) { "log" } }
        }
        @if let Some(explanation) = &view.explanation { (explain(explanation, options)) }
    }
}

/// Sentences with code between backticks.
fn with_code(text: &str) -> Markup {
    html! {
        @for (at, part) in text.split('`').enumerate() {
            @if at % 2 == 1 { code { (name(part)) } } @else { (name(part)) }
        }
    }
}

fn verdict_class(verdict: Verdict, is_gated: bool) -> &'static str {
    if verdict == Verdict::Pass && !is_gated { "neutral" } else { verdict.name() }
}

fn explain(explanation: &Explanation, options: &RenderOptions) -> Markup {
    let address = explanation.place.as_ref().and_then(|place| options.address_of(place));
    html! {
        p.explanation {
            @match address {
                Some(address) => { a href=(address) { code { (name(&explanation.label)) } } }
                None => { code { (name(&explanation.label)) } }
            }
            " " (explanation.kind.name()) ": " strong { (Delta(explanation.delta)) }
            @if let Some(manner) = &explanation.manner { ", " (arrows(manner)) }
        }
    }
}

/// Facts with their names.
pub(super) fn facts(facts: &[Fact]) -> Markup {
    html! {
        dl.facts {
            @for fact in facts {
                div {
                    dt { (fact.name) }
                    @for items in &fact.lines { dd { (name(&arrows(&items.join(", ")))) } }
                }
            }
        }
    }
}

/// Checks with their findings.
pub(super) fn checks(lines: &[CheckLine]) -> Markup {
    html! {
        @if !lines.is_empty() {
            ul.checks {
                @for check in lines {
                    li {
                        (badge(check.mark, None)) " " (name(&check.sentence))
                        @if !check.others.is_empty() { ul { @for other in &check.others { li { (name(other)) } } } }
                    }
                }
            }
        }
    }
}

/// Remarks on the input with their help: warnings in the open, notes folded away.
pub(super) fn remarks(group: &Group) -> Markup {
    let folded = group.folded_remarks();
    html! {
        @for found in group.open_remarks() { (remark(found)) }
        @if !folded.is_empty() {
            details.notes { summary { "Notes (" (folded.len()) ")" } @for found in folded { (remark(found)) } }
        }
    }
}

fn remark(remark: &Remark) -> Markup {
    html! {
        div class=(if remark.is_open() { "remark-box warning" } else { "remark-box" }) {
            p { (remark.scope) (name(&remark.message)) " " code.code { (remark.code.name()) } }
            p.help { (remark.code.help()) }
        }
    }
}

/// A text that begins with a capital letter.
pub(super) fn sentence(text: &str) -> String {
    name(&capitalized(text))
}

/// The ways to accept the growth that fails a gate.
pub(super) fn acceptance(ways: &[WayToAccept]) -> Markup {
    html! {
        section.acceptance aria-labelledby="accept" {
            h2 #accept { "How to accept the change" }
            @for way in ways {
                p { (sentence(&way.sentence)) @if way.lines.is_empty() { "." } @else { ":" } }
                @if !way.lines.is_empty() { pre { @for line in &way.lines { (name(line)) "\n" } } }
            }
        }
    }
}

/// The recording of the snapshots, folded away.
pub(super) fn recording(group: &Group) -> Markup {
    html! {
        @if let Some(recording) = &group.recording {
            details.recording { summary { "How it was recorded" } (table(recording)) }
        }
    }
}
