//! The page: head, verdict, sections, and the data for the script.

use std::io;
use std::sync::LazyLock;

use data_encoding::BASE64;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use ptmem_judge::verdict::Standing;
use sha2::{Digest, Sha256};

use super::{charts, data, flame, parts, table, timeline};
use crate::RenderOptions;
use crate::name::name;
use crate::view::{Content, Group, Section, View};

const STYLE: &str = include_str!("assets/page.css");

/// The script: its files in order.
const SCRIPT: &str = concat!(
    include_str!("assets/script/figures.js"),
    include_str!("assets/script/elements.js"),
    include_str!("assets/script/history.js"),
    include_str!("assets/script/timeline.js"),
    include_str!("assets/script/allocations.js"),
    include_str!("assets/script/flame.js"),
    include_str!("assets/script/rows.js"),
    include_str!("assets/script/map.js"),
    include_str!("assets/script/tables.js"),
    include_str!("assets/script/page.js"),
);

/// Sections that are shown in full from the start.
const MOST_OPEN: usize = 4;

/// The whole page.
pub(super) fn page(view: &View, options: &RenderOptions) -> io::Result<Markup> {
    let sections = view.sections();
    let data = data::packed(&sections, options)?;
    Ok(html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(*POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="generator" content=(concat!("ptmem ", env!("CARGO_PKG_VERSION")));
                link rel="icon" href="data:,";
                title { (title(view, options)) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                a.skip href="#main" { "Skip to the figures" }
                header { (parts::headline(view, options)) }
                main #main {
                    @for group in &view.groups { (parts::checks(&group.checks_of_job)) }
                    @for group in &view.groups { (charts::of_ranks(group, &sections)) }
                    @if let Some(overview) = &view.overview { section.overview { (table::table(overview)) } }
                    @for group in &view.groups { @if !group.facts.is_empty() { (parts::facts(&group.facts)) } }
                    @for (at, (group, section)) in sections.iter().enumerate() {
                        (of_section(view, group, section, at))
                    }
                    @for group in &view.groups { (of_group(group)) }
                    @if !view.acceptance.is_empty() { (parts::acceptance(&view.acceptance)) }
                }
                footer { "ptmem " (env!("CARGO_PKG_VERSION")) }
                script #data type="text/plain" { (data) }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    })
}

/// The policy of the page: its own style and script, pictures within it, and nothing from anywhere.
static POLICY: LazyLock<String> = LazyLock::new(|| {
    format!(
        "default-src 'none'; style-src '{}'; script-src '{}'; img-src data:; base-uri 'none'; form-action 'none'",
        digest(STYLE),
        digest(SCRIPT)
    )
});

fn digest(text: &str) -> String {
    format!("sha256-{}", BASE64.encode(&Sha256::digest(text.as_bytes())))
}

fn title(view: &View, options: &RenderOptions) -> String {
    let scope = name(&options.scope());
    match &view.headline {
        Some(headline) => format!("{}: {scope}{}", headline.verdict.word(), name(&headline.sentence)),
        None => format!("{scope}{}", view.failure.as_deref().map_or("GPU memory".to_owned(), name)),
    }
}

fn of_section(view: &View, group: &Group, section: &Section, at: usize) -> Markup {
    let id = format!("s{at}");
    let scope = group.name.as_ref().map(|group| format!("{}: ", name(group))).unwrap_or_default();
    let is_concern = section.standing > Standing::Ok || !view.is_gated;
    // The ranks of a job are opened by their bars.
    let is_one_of_many = group.ranks.is_some();
    let is_open = at == 0 || at < MOST_OPEN && is_concern && !group.is_folded && !is_one_of_many;
    html! {
        details.section id=(id) data-section=(at) open[is_open] {
            summary { h2 { (scope) (name(&section.name)) } }
            @if let Some(picture) = &section.picture {
                (timeline::figure(picture, &id))
                (flame::figure(section, picture, &id))
            }
            @for content in &section.blocks { (block(content)) }
        }
    }
}

fn block(content: &Content) -> Markup {
    match content {
        Content::Facts(facts) => parts::facts(facts),
        Content::Table(rows) => table::table(rows),
        // The pictures show the same curves in full.
        Content::Timeline(_) => html! {},
        Content::Steps(steps) => charts::of_steps(steps),
        Content::Sentence(text) => html! { p { (name(text)) } },
    }
}

/// The rest of a group: remarks, checks, how it was recorded.
fn of_group(group: &Group) -> Markup {
    html! {
        section.group {
            @if let Some(group) = &group.name { h2 { (name(group)) } }
            @if let Some(idle) = &group.idle { p.note { (parts::sentence(idle)) "." } }
            @if !group.checks.is_empty() { h2 { "Checks" } (parts::checks(&group.checks)) }
            @if !group.remarks.is_empty() { h2 { "Remarks on the input" } (parts::remarks(group)) }
            (parts::recording(group))
            @if group.recording.is_none() && !group.sources.is_empty() {
                ul.sources {
                    @for source in &group.sources {
                        li { @if let Some(side) = source.side { (side.name()) " " } code { (name(&source.path)) } " (" (source.amount) ")" }
                    }
                }
            }
        }
    }
}
