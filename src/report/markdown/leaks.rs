//! What grows, as Markdown.

use super::{LABEL, Page, call_stack, code, diagnostics, headline, prose, unbroken};
use crate::leak::{DeviceLeaks, Leak, Mode, Search};
use crate::report::Options;
use crate::text::{count, cut, shorten_label};
use crate::units::{Delta, Size};
use crate::verdict::{Finding, LeakGate, Outcome, Verdict};

/// Of more leaks nobody reads the stacks.
const MOST_STACKS: usize = 3;

pub(super) fn write(page: &mut Page, gate: &LeakGate, options: &Options) {
    headline(page, true, &gate.headline());
    let findings = gate.worst_first();
    let several = findings.len() > 1;
    let leaks: Vec<(&Search, &DeviceLeaks, &Leak)> = findings
        .iter()
        .flat_map(|finding| finding.search.leaks().map(|(device, leak)| (&finding.search, device, leak)))
        .collect();
    let limit = if options.top == 0 { leaks.len() } else { options.top.min(leaks.len()) };
    if let Some((search, device, _)) = leaks.first() {
        let (step, steps) = device.nouns(search.mode);
        let header = format!("| | per {step} | blocks | {steps} | so far | stack |\n|:--|--:|--:|--:|--:|:--|");
        let row = |&(search, device, leak): &(&Search, &DeviceLeaks, &Leak)| {
            let cells = format!(
                "{} | {} | {}/{} | {}",
                Delta(leak.bytes_per_step),
                leak.blocks_per_step(),
                leak.grew,
                leak.judged,
                Delta(leak.bytes)
            );
            let label = code(&shorten_label(&leak.label, LABEL));
            format!("| {} | {} | {label} |", prose(&name(search, device, several)), unbroken(&cells))
        };
        page.table(&header, leaks[..limit].iter().map(row).collect::<Vec<_>>().into_iter());
        page.more(leaks.len() - limit, "leak", "leaks");
    }
    for &(search, _, leak) in leaks.iter().take(limit.min(MOST_STACKS)) {
        if let Some(stack) = leak.stack {
            let also = leak.also.iter().map(|label| code(label)).collect::<Vec<_>>().join(", ");
            let also = if also.is_empty() { also } else { format!(", also {also}") };
            page.add(&call_stack(&format!("{}{also}", code(&leak.label)), &search.code(), stack));
        }
    }
    page.details("Totals", |page| totals(page, &findings, several));
    for finding in &findings {
        unclear(page, finding, several);
        let all = finding.search.diagnostics.iter().chain(&finding.judgement.diagnostics);
        let scope = finding.search.name.as_deref().filter(|_| several);
        diagnostics(page, scope, all.map(|diagnostic| (None, diagnostic)));
    }
    let sources = findings.first().map(|finding| &*finding.search.sources).unwrap_or_default();
    let sources = match sources {
        _ if several => count(findings.len() as u64, "rank", "ranks"),
        [only] => format!("{} ({})", code(cut(&only.path, 256)), Size(only.bytes)),
        many => count(many.len() as u64, "snapshot", "snapshots"),
    };
    page.add(&format!("\n<sub>{sources} · ptmem {}</sub>\n", env!("CARGO_PKG_VERSION")));
}

fn name(search: &Search, device: &DeviceLeaks, several: bool) -> String {
    let device = format!("device {}", device.device);
    match search.name.as_deref().filter(|_| several) {
        Some(name) => format!("{}: {device}", cut(name, 128)),
        None => device,
    }
}

fn totals(page: &mut Page, findings: &[&Finding], several: bool) {
    let mode = findings.first().map_or(Mode::Steps, |finding| finding.search.mode);
    let (step, _) = mode.nouns();
    let header = format!("| per {step} | allocated | reserved | fragmentation | full after |\n|:--|--:|--:|--:|--:|");
    let size = |slope: Option<i128>| slope.map_or_else(|| "unknown".to_owned(), |slope| Delta(slope).to_string());
    let rows: Vec<String> = findings
        .iter()
        .flat_map(|finding| finding.search.devices.iter().map(|device| (&finding.search, device)))
        .map(|(search, device)| {
            let growth = device.growth;
            let full = growth.runs_out_after.map(|left| left.to_string()).unwrap_or_default();
            let cells = format!(
                "{} | {} | {} | {full}",
                size(growth.allocated),
                size(growth.reserved),
                size(growth.fragmentation)
            );
            format!("| {} | {} |", prose(&name(search, device, several)), unbroken(&cells))
        })
        .collect();
    page.table(&header, rows.into_iter());
}

/// Why nothing can be said, where that is not the verdict's line already.
fn unclear(page: &mut Page, finding: &Finding, several: bool) {
    let only = !several && finding.judgement.verdict == Verdict::Inconclusive && finding.judgement.checks.len() == 1;
    for check in finding.judgement.checks.iter().filter(|check| check.outcome == Outcome::Inconclusive && !only) {
        let scope = finding.search.name.as_deref().filter(|_| several).map(|name| format!("{}: ", cut(name, 128)));
        page.add(&format!("\n⚠️ {}{}\n", prose(&scope.unwrap_or_default()), prose(&finding.judgement.sentence(check))));
    }
}
