//! A failed allocation in words: what was asked for, what was held, and what was free.

use crate::profile::{DeviceProfile, Moment, Profile};
use crate::replay::Oom;
use crate::text::thousands;
use crate::units::{Size, format_share};

/// A job that catches and retries runs out of memory many times.
pub(super) const MOST: usize = 3;

/// So many stacks at that moment are listed beside those at the peak.
const MOST_STACKS: usize = 5;

/// The facts in groups that belong on one line each, where there is room.
pub(super) fn facts(oom: &Oom) -> Vec<Vec<String>> {
    let size = |bytes: Option<u64>| bytes.map_or_else(|| "unknown".to_owned(), |bytes| Size(bytes).to_string());
    let asked = vec![
        format!("event {}: asked for {}", thousands(u64::from(oom.event)), Size(oom.requested)),
        format!("the device had {} free", Size(oom.device_free)),
    ];
    let mut held = vec![
        format!("allocated {}", size(oom.allocated)),
        format!("active {}", size(oom.active)),
        format!("reserved {}", size(oom.reserved)),
    ];
    match oom.max_error {
        Some(0) => {}
        Some(error) => held.push(format!("± {}", Size(error))),
        None if oom.active.is_some() => held.push("not reliable".to_owned()),
        None => {}
    }
    let demand = vec![format!("with the request {} would have been allocated", size(oom.demand()))];
    let fragmentation = oom.fragmentation().zip(oom.reserved);
    let share = fragmentation.and_then(|(part, whole)| format_share(part, whole));
    let share = share.map(|share| format!(" ({share})")).unwrap_or_default();
    let mut unused = vec![format!("fragmentation {}{share}", size(oom.fragmentation()))];
    unused.extend(oom.unusable().map(|bytes| format!("{} of it of no use to the request", Size(bytes))));
    let pool = oom.pool.map_or_else(
        || vec!["what its pool had free is unknown".to_owned()],
        |pool| {
            vec![format!("its pool had {} free", Size(pool.bytes)), format!("at most {} at once", Size(pool.largest))]
        },
    );
    vec![asked, held, demand, unused, pool]
}

/// How many failed allocations are not told of, if any.
pub(super) fn more(device: &DeviceProfile) -> Option<String> {
    let more = device.figures.ooms.len().saturating_sub(MOST);
    let times = if more == 1 { "time" } else { "times" };
    (more > 0).then(|| format!("and {} more {times}", thousands(more as u64)))
}

/// What the stacks of a device are listed for, in words.
pub(super) fn moment(profile: &Profile, device: &DeviceProfile) -> String {
    let moment = super::table::moment_name(profile.options.at);
    let is_oom = profile.options.at == Moment::Peak && device.at_is_oom();
    if is_oom { format!("{moment}, when memory ran out") } else { moment }
}

/// How many stacks to list of when memory ran out, beside those at the peak; `None` where these say it all, or
/// another moment was asked for.
pub(super) fn extra(profile: &Profile, device: &DeviceProfile, top: usize) -> Option<usize> {
    let known = device.figures.ooms.first().is_some_and(|oom| oom.allocated.is_some_and(|bytes| bytes > 0));
    let wanted = known && profile.options.at == Moment::Peak && !device.at_is_oom();
    wanted.then_some(if top == 0 { 0 } else { top.min(MOST_STACKS) })
}
