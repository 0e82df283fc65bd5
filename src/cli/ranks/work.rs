//! Work on many files at once, within a bound of memory, with the same result in whatever order it gets done.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use anyhow::{Result, anyhow};

/// Limit for the summed sizes of files that are decoded at the same time, except for a single larger file. Decoding
/// takes at most half of that in memory.
const MOST_BYTES: u64 = 2 << 30;

/// Items of a batch, per thread: the more, the less the threads wait for the last of them.
const BATCH: usize = 4;

/// Works on items of these sizes with up to `jobs` threads, and hands the results to `take` in the order of the
/// items.
///
/// # Errors
/// The error of the first item that failed, in the order of the items.
pub(crate) fn in_order<T: Send>(
    jobs: usize,
    sizes: &[u64],
    work: impl Fn(usize) -> Result<T> + Sync,
    mut take: impl FnMut(usize, T),
) -> Result<()> {
    let mut begun = 0;
    while begun < sizes.len() {
        let batch = begun..begun + batch_length(&sizes[begun..], jobs.saturating_mul(BATCH));
        begun = batch.end;
        for (index, result) in at_once(jobs, batch, &work)? {
            take(index, result?);
        }
    }
    Ok(())
}

/// The number of items that begin a list and are within the bounds together; one at least.
fn batch_length(sizes: &[u64], most: usize) -> usize {
    let mut bytes = 0_u64;
    let within = sizes.iter().take(most).take_while(|&&size| {
        bytes = bytes.saturating_add(size);
        bytes <= MOST_BYTES
    });
    within.count().max(1)
}

/// The results of a batch, in its order.
fn at_once<T: Send>(
    jobs: usize,
    batch: Range<usize>,
    work: &(impl Fn(usize) -> Result<T> + Sync),
) -> Result<Vec<(usize, Result<T>)>> {
    let next = AtomicUsize::new(batch.start);
    let work_off = || {
        let indexes = std::iter::repeat_with(|| next.fetch_add(1, Ordering::Relaxed));
        indexes.take_while(|index| batch.contains(index)).map(|index| (index, work(index))).collect()
    };
    let mut results: Vec<(usize, Result<T>)> = thread::scope(|scope| {
        let workers: Vec<_> = (1..jobs.min(batch.len())).map(|_| scope.spawn(work_off)).collect();
        let own: Vec<_> = work_off();
        let others =
            workers.into_iter().map(|worker| worker.join().map_err(|_| anyhow!("a thread that reads files failed")));
        others.chain([Ok(own)]).collect::<Result<Vec<_>>>()
    })?
    .into_iter()
    .flatten()
    .collect();
    results.sort_by_key(|(index, _)| *index);
    Ok(results)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use anyhow::bail;

    use super::*;

    #[test]
    fn results_come_in_order_within_the_bound() {
        let sizes: Vec<u64> = (0..200).map(|i| if i % 50 == 7 { 5 << 30 } else { (i % 5) << 28 }).collect();
        for jobs in [1, 3, 16, usize::MAX] {
            let now = AtomicU64::new(0);
            let mut taken = Vec::new();
            in_order(
                jobs,
                &sizes,
                |index| {
                    let before = now.fetch_add(sizes[index], Ordering::SeqCst);
                    assert!(before == 0 || before + sizes[index] <= MOST_BYTES, "{before} and {}", sizes[index]);
                    thread::yield_now();
                    now.fetch_sub(sizes[index], Ordering::SeqCst);
                    Ok(index * 2)
                },
                |index, result| taken.push((index, result)),
            )
            .unwrap();
            assert_eq!(taken, (0..200).map(|index| (index, index * 2)).collect::<Vec<_>>());
        }
    }

    fn fail_at_17_and_20(index: usize) -> Result<()> {
        if index == 20 || index == 17 { bail!("item {index}") } else { Ok(()) }
    }

    #[test]
    fn the_first_error_counts() {
        for jobs in [1, 8] {
            let error = in_order(jobs, &[0; 100], fail_at_17_and_20, |_, ()| {}).unwrap_err();
            assert_eq!(error.to_string(), "item 17");
        }
        in_order(4, &[], |_| Ok(()), |_, ()| {}).unwrap();
    }
}
