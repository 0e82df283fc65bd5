//! Folded stacks, as flame graph tools read them: frames from the outermost inwards, and then bytes; of a comparison
//! those of the before and those of the after; of leaks those per snapshot or step.

use std::fmt::Write;

use super::Subject;
use super::finding::Codes;
use crate::snapshot::StackId;
use crate::stack::Code;
use crate::text::printable;
use crate::tree;
use crate::verdict::Finding;

pub(super) fn render(subject: Subject<'_>) -> String {
    let mut lines = Vec::new();
    match subject {
        Subject::Gate(gate) => {
            let mut known = Codes::default();
            for comparison in &gate.comparisons {
                let codes = known.of(&comparison.diff);
                let several = gate.comparisons.len() > 1 || !gate.ranks.is_empty();
                for device in &comparison.diff.devices {
                    let name = comparison.name.as_deref().filter(|_| several);
                    let roots = name.map(frame).into_iter().chain([frame(&device.name())]).collect::<Vec<_>>();
                    for row in &device.rows {
                        let (before, after) = (row.held.before.bytes, row.held.after.bytes);
                        if before == 0 && after == 0 {
                            continue;
                        }
                        let stack = match (row.stack.after, row.stack.before) {
                            (Some(stack), _) => frames(&codes.after, stack),
                            (None, Some(stack)) => frames(&codes.before, stack),
                            (None, None) => vec![frame(&row.label)],
                        };
                        lines.push(format!("{} {before} {after}", [&roots[..], &stack].concat().join(";")));
                    }
                }
            }
        }
        Subject::Profile(..) | Subject::Ranks(_) => {
            for (name, profile, _) in subject.profiles() {
                let code = profile.code();
                for device in &profile.devices {
                    let root = frame(&format!("device {}", device.device));
                    let root = name.map_or_else(|| root.clone(), |name| format!("{};{root}", frame(name)));
                    for total in device.listed(0, 1) {
                        if total.members.is_empty() {
                            lines.push(format!("{root};{} {}", frame(&total.label), total.at.bytes));
                        }
                        for member in total.members.iter().filter(|member| member.at.bytes > 0) {
                            let stack = frames(&code, member.stack).join(";");
                            lines.push(format!("{root};{stack} {}", member.at.bytes));
                        }
                    }
                }
            }
        }
        Subject::Leaks(gate) => {
            let several = gate.findings.len() > 1;
            for Finding { search, .. } in &gate.findings {
                let code = search.code();
                for (device, leak) in search.leaks() {
                    let name = search.name.as_deref().filter(|_| several);
                    let roots = name.map(frame).into_iter().chain([frame(&format!("device {}", device.device))]);
                    let stack = leak.stack.map_or_else(|| vec![frame(&leak.label)], |stack| frames(&code, stack));
                    let path: Vec<_> = roots.chain(stack).collect();
                    lines.push(format!("{} {}", path.join(";"), leak.bytes_per_step));
                }
            }
        }
    }
    lines.sort();
    let mut out = String::new();
    for line in lines {
        let _ = writeln!(out, "{line}");
    }
    out
}

fn frames(code: &Code<'_>, stack: StackId) -> Vec<String> {
    tree::frames(code, stack).iter().map(|step| frame(&step.text())).collect()
}

/// A frame without what ends one.
fn frame(text: &str) -> String {
    printable(text).replace(';', ":")
}
