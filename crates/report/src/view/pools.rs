//! Private pools at the end of a recording: memory that only their own allocations can use.

use std::collections::BTreeMap;

use ptmem_base::sides::Sides;
use ptmem_base::text::count;
use ptmem_judge::verdict::{Judgement, LimitKind, Mark};
use ptmem_trace::profile::{DeviceProfile, PrivatePool};

use super::table::rows;
use super::{RowOfCells, Table, Tone, Value, figure, words};
use crate::RenderOptions;

const TITLE: &str = "private pools at the end";

/// Pools of one name, where a side has some.
pub(crate) type PoolChange<'p> = (&'p str, Sides<Option<&'p PrivatePool>>);

/// The private pools of both sides, by name.
pub(crate) fn paired(devices: Sides<Option<&DeviceProfile>>) -> Vec<PoolChange<'_>> {
    let mut pools: BTreeMap<&str, Sides<Option<&PrivatePool>>> = BTreeMap::new();
    for (side, device) in devices.each() {
        for pool in device.map(|device| &device.private_pools).into_iter().flatten() {
            *pools.entry(&pool.name).or_default().of_mut(side) = Some(pool);
        }
    }
    pools.into_iter().collect()
}

/// The pools of a snapshot; `None` without any.
pub(super) fn held(device: &DeviceProfile, options: &RenderOptions) -> Option<Table> {
    let listed = rows(
        &largest_first(device),
        options,
        |pool| RowOfCells::new(Tone::Plain, sizes(&[pool]).into_iter().chain([name(pool)])),
        |rest, name| sizes(rest).into_iter().chain([name]).collect(),
    );
    let heads = [
        figure("reserved").main(),
        figure("allocated"),
        figure("active"),
        figure("free in the pool"),
        words("private pool"),
    ];
    (!device.private_pools.is_empty()).then(|| Table::new(heads, listed).titled(TITLE))
}

/// The figures of pools together.
fn sizes(pools: &[&PrivatePool]) -> [Value; 4] {
    let figures: [fn(&PrivatePool) -> u64; 4] =
        [|pool| pool.reserved, |pool| pool.allocated, |pool| pool.active, PrivatePool::free];
    figures.map(|figure| Value::Size(pools.iter().fold(0, |sum, pool| figure(pool).saturating_add(sum))))
}

fn largest_first(device: &DeviceProfile) -> Vec<&PrivatePool> {
    let mut pools: Vec<&PrivatePool> = device.private_pools.iter().collect();
    pools.sort_by_key(|pool| std::cmp::Reverse(pool.reserved));
    pools
}

/// The pools of a comparison, those that grew most first; `None` where neither side has any.
pub(super) fn changes(
    devices: Sides<Option<&DeviceProfile>>,
    judgement: &Judgement,
    options: &RenderOptions,
) -> Option<Table> {
    let mut pools = paired(devices);
    pools.sort_by_key(|(_, pool)| std::cmp::Reverse(reserved(pool).delta()));
    let device = devices.after.or(devices.before).map(|device| device.device);
    let checks: Vec<_> =
        judgement.checks.iter().filter(|of| of.kind() == LimitKind::Pools && of.device == device).collect();
    let listed = rows(
        &pools,
        options,
        |(label, pool)| {
            let checks = checks.iter().filter(|check| check.label() == Some(*label));
            let worst = checks.min_by_key(|check| std::cmp::Reverse(check.standing()));
            let mark = worst.map(|check| Mark::of(check));
            let named = pool.after.or(pool.before).map_or(Value::Nothing, name);
            let free = pool.after.map(PrivatePool::free);
            figures(mark, reserved(pool), [free.map_or(Value::Nothing, Value::Size), Value::mark(mark), named])
        },
        |rest, name| {
            let sums = rest.iter().fold(Sides::default(), |sums: Sides<u64>, (_, pool)| {
                sums.zip(reserved(pool)).map(|(sum, bytes)| sum.saturating_add(*bytes))
            });
            figures(None, sums, [Value::Nothing, Value::Nothing, name]).cells
        },
    );
    let heads = [
        figure("change").main(),
        figure("before").spare(),
        figure("after"),
        figure("free in the pool"),
        words(""),
        words("private pool"),
    ];
    (!pools.is_empty()).then(|| Table::new(heads, listed).titled(format!("{TITLE} (reserved)")))
}

fn figures(mark: Option<Mark>, reserved: Sides<u64>, others: [Value; 3]) -> RowOfCells {
    let tone = mark.map_or(Tone::of_change(reserved.delta()), Tone::Mark);
    let sizes = [Value::Change(reserved.delta()), Value::Size(reserved.before), Value::Size(reserved.after)];
    RowOfCells::new(tone, sizes.into_iter().chain(others))
}

fn reserved(pool: &Sides<Option<&PrivatePool>>) -> Sides<u64> {
    pool.map(|pool| pool.map_or(0, |pool| pool.reserved))
}

fn name(pool: &PrivatePool) -> Value {
    let several = (pool.pools > 1).then(|| format!(" ({})", count(pool.pools, "pool", "pools")));
    Value::code(format!("{}{}", pool.name, several.unwrap_or_default()))
}
