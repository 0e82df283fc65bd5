//! Verdict on leaks.

use super::{About, Check, Headline, Judge, Judgement, Level, Outcome, Verdict};
use crate::leak::{DeviceLeaks, Leak, Mode, Search};
use crate::text::count;
use crate::units::Size;

/// The name of the metric.
const METRIC: &str = "leak";

/// Leaks of one snapshot or series, with the verdict.
#[derive(Debug)]
pub struct Finding {
    /// Result of the search.
    pub search: Search,
    /// Verdict by the limit.
    pub judgement: Judgement,
}

/// Searches that have one verdict.
#[derive(Debug)]
pub struct LeakGate {
    /// In the order of their names.
    pub findings: Vec<Finding>,
}

impl LeakGate {
    /// The verdict: the worst of all.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        self.findings.iter().map(|finding| finding.judgement.verdict).max().unwrap_or(Verdict::Inconclusive)
    }

    /// The findings, the worst first.
    #[must_use]
    pub fn worst_first(&self) -> Vec<&Finding> {
        let mut findings: Vec<_> = self.findings.iter().collect();
        let leaked = |finding: &Finding| finding.search.devices.iter().map(DeviceLeaks::bytes_per_step).max();
        findings.sort_by_key(|finding| std::cmp::Reverse((finding.judgement.verdict, leaked(finding))));
        findings
    }

    /// The verdict in one line.
    #[must_use]
    pub fn headline(&self) -> Headline {
        let worst = self.worst_first();
        let Some(first) = worst.first() else {
            return Headline { verdict: Verdict::Inconclusive, sentence: "nothing was looked at".to_owned() };
        };
        let line = first.judgement.headline();
        let Some(name) = first.search.name.as_deref().filter(|_| worst.len() > 1) else { return line };
        let verdict = self.verdict();
        if verdict == Verdict::Pass {
            return Headline { verdict, sentence: format!("all {}: {}", worst.len(), line.sentence) };
        }
        let mut sentence = format!("{name}: {}", line.sentence);
        let same = worst.iter().filter(|finding| finding.judgement.verdict == verdict).count();
        if same > 1 {
            sentence.push_str(&format!("; and {} more", same - 1));
        }
        let unclear = worst.iter().filter(|finding| finding.judgement.verdict == Verdict::Inconclusive).count();
        if unclear > 0 && verdict == Verdict::Regression {
            sentence.push_str(&format!("; {unclear} inconclusive"));
        }
        Headline { verdict, sentence }
    }
}

/// Judges what was found: more than `limit` bytes per snapshot or step, all leaks of a device together, are too much.
#[must_use]
pub fn judge_leaks(search: &Search, limit: u64, strict: bool) -> Judgement {
    let mut judge = Judge::default();
    let of = |device: Option<u32>, step: &str| Check {
        device,
        allowed: Some(u128::from(limit)),
        ..Check::new(About::Leaks, METRIC.to_owned(), format!("{} per {step}", Size(limit)), Level::Fail)
    };
    for device in &search.devices {
        judge.out_of_memory_of_leaks(device, search.mode);
        let (step, steps) = device.nouns(search.mode);
        let of = |number| of(number, step);
        let too_much = device.bytes_per_step() > i128::from(limit);
        for leak in &device.leaks {
            judge.checks.push(Check {
                scope: Some(leak.label.clone()),
                key: Some(leak.key.clone()),
                delta: Some(leak.bytes_per_step),
                outcome: if too_much { Outcome::Exceeded } else { Outcome::Pass },
                words: Some(sentence(leak, search.mode, device.nouns(search.mode))),
                ..of(Some(device.device))
            });
        }
        if let Some(reason) = &device.unclear {
            judge.checks.push(Check { reason: Some(reason.clone()), ..of(Some(device.device)) });
        } else if device.leaks.is_empty() {
            let judged = count(device.judged as u64, step, steps);
            let words = match search.mode {
                Mode::Steps => format!("nothing leaks: no stack leaves blocks behind in {judged}"),
                Mode::Series if device.points.len() == 1 => {
                    "the first snapshot of a series has nothing to be compared with".to_owned()
                }
                Mode::Series => "nothing leaks: no stack holds more and more at the end".to_owned(),
            };
            let words = Some(words);
            judge.checks.push(Check { words, delta: Some(0), outcome: Outcome::Pass, ..of(Some(device.device)) });
        }
    }
    if search.devices.is_empty() {
        judge.checks.push(Check {
            reason: Some("nothing is recorded and nothing is held".to_owned()),
            ..of(None, search.mode.nouns().0)
        });
    }
    judge.finish(search.diagnostics.iter(), strict, search.devices.len() > 1)
}

/// A leak in words.
fn sentence(leak: &Leak, mode: Mode, nouns: (&str, &str)) -> String {
    let bytes = Size(u64::try_from(leak.bytes_per_step).unwrap_or_default());
    let (label, (step, steps), &Leak { grew, judged, .. }) = (&leak.label, nouns, leak);
    match mode {
        Mode::Steps => format!("{label} leaks {bytes} per {step}, in {grew} of {}", count(judged as u64, step, steps)),
        Mode::Series => {
            let since = leak.since.as_deref().map(|name| format!(" since {name}")).unwrap_or_default();
            format!("{label} grows {bytes} per {step}{since}, {grew} of {}", count(judged as u64, "time", "times"))
        }
    }
}
