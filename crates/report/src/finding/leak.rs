//! The checks of leaks: each leak is a line of its own.

use std::collections::HashMap;

use super::{Explanation, Finding};
use crate::Options;
use crate::snapshot::StackId;
use crate::verdict;

pub(super) fn findings<'a>(found: &'a verdict::Finding, options: &Options) -> Vec<Finding<'a>> {
    let verdict::Finding { search, judgement } = found;
    let code = search.code();
    let stacks: HashMap<(u32, &str), Option<StackId>> =
        search.leaks().map(|(device, leak)| ((device.device, leak.key.as_str()), leak.stack)).collect();
    let findings = judgement.checks.iter().map(|check| {
        let device = search.devices.iter().find(|device| Some(device.device) == check.device);
        let leak = check.device.zip(check.key.as_deref());
        let stack = leak.and_then(|leak| stacks.get(&leak).copied().flatten());
        let name = device.map(|device| format!("device {}", device.device));
        let explanation = Explanation::of_stack(&code, stack, options);
        Finding { comparison: search.name.as_deref(), ..Finding::new(check, judgement, name, explanation) }
    });
    findings.collect()
}
