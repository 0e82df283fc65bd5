//! The checks of one snapshot.

use super::{Explanation, Finding, MOST_ROWS, Row};
use crate::Options;
use crate::profile::{DeviceProfile, Profile, StackTotal};
use crate::stack::Code;
use crate::verdict::{About, Check, Judgement, Outcome};

pub(super) fn findings<'a>(profile: &'a Profile, judgement: &'a Judgement, options: &Options) -> Vec<Finding<'a>> {
    let code = profile.code();
    let findings = judgement.checks.iter().map(|check| {
        let device = profile.devices.iter().find(|device| Some(device.device) == check.device);
        let name = device.map(|device| format!("device {}", device.device));
        let explanation = device.map(|device| explain(check, device, &code, options)).unwrap_or_default();
        Finding::new(check, judgement, name, explanation)
    });
    findings.collect()
}

/// The stack that holds most, before all one with a line of the user.
fn explain<'a>(check: &Check, device: &DeviceProfile, code: &Code<'a>, options: &Options) -> Explanation<'a> {
    if check.outcome != Outcome::Exceeded {
        return Explanation::default();
    }
    if check.about() == About::OutOfMemory {
        return Explanation::of_stack(code, device.failed_stack(), options);
    }
    let totals = device.listed(MOST_ROWS, 1);
    let mut stacks = totals.iter().filter_map(StackTotal::stack);
    let of_user = stacks.find(|&stack| code.user_site(stack).is_some());
    let stack = of_user.or_else(|| totals.first().and_then(StackTotal::stack));
    let rows = totals.iter().map(|total| Row::Held { label: total.label.clone(), bytes: total.at.bytes });
    Explanation { rows: rows.collect(), ..Explanation::of_stack(code, stack, options) }
}
