//! Work on many files at once, within a bound of memory, with the same result in whatever order it gets done.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use anyhow::{Result, anyhow};

/// Limit for the summed sizes of files that are decoded at the same time, except for a single larger file. Decoding
/// takes at most half of that in memory.
const MOST_BYTES: u64 = 2 << 30;

/// Works on items of these sizes with up to `jobs` threads, and hands the results to `take` in the order of the
/// items. A thread holds its result until its turn, so no more than one for each thread is in memory.
///
/// # Errors
/// The error of the first item that failed, in the order of the items.
pub(crate) fn in_order<T: Send>(
    jobs: usize,
    sizes: &[u64],
    work: impl Fn(usize) -> Result<T> + Sync,
    take: impl FnMut(usize, T) + Send,
) -> Result<()> {
    let state = Mutex::new(WorkState { begun: 0, taken: 0, bytes: 0, take, failed: None });
    let queue = Queue { sizes, work, state, changed: Condvar::new() };
    thread::scope(|scope| {
        (1..jobs.min(sizes.len())).for_each(|_| drop(scope.spawn(|| queue.work_off())));
        queue.work_off();
    });
    queue.state.into_inner().unwrap_or_else(PoisonError::into_inner).failed.map_or(Ok(()), Err)
}

/// Items that several threads work off.
struct Queue<'s, W, F> {
    sizes: &'s [u64],
    work: W,
    state: Mutex<WorkState<F>>,
    changed: Condvar,
}

struct WorkState<F> {
    /// The number of items that were begun.
    begun: usize,
    /// The number of results that were taken.
    taken: usize,
    /// Bytes of the items that are worked on.
    bytes: u64,
    take: F,
    failed: Option<anyhow::Error>,
}

impl<F> WorkState<F> {
    /// The size of the next item.
    fn next<'s>(&self, sizes: &'s [u64]) -> Option<&'s u64> {
        sizes.get(self.begun).filter(|_| self.failed.is_none())
    }

    fn has_room(&self, sizes: &[u64]) -> bool {
        self.bytes == 0 || self.next(sizes).is_none_or(|&size| self.bytes.saturating_add(size) <= MOST_BYTES)
    }
}

impl<T, W: Fn(usize) -> Result<T>, F: FnMut(usize, T)> Queue<'_, W, F> {
    fn work_off(&self) {
        while let Some(index) = self.begin() {
            // The others would wait for the turn of a thread that ended.
            let result = catch_unwind(AssertUnwindSafe(|| (self.work)(index)));
            self.hand_in(index, result.unwrap_or_else(|_| Err(anyhow!("a thread that reads files failed"))));
        }
    }

    /// The next item, once there is room for it. The earliest that is worked on has always begun, so each thread's turn comes.
    fn begin(&self) -> Option<usize> {
        let waited = self.changed.wait_while(self.lock(), |state| !state.has_room(self.sizes));
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        let size = *state.next(self.sizes)?;
        state.bytes = state.bytes.saturating_add(size);
        state.begun += 1;
        Some(state.begun - 1)
    }

    /// Waits for the turn of a result.
    fn hand_in(&self, index: usize, result: Result<T>) {
        let mut state = self.lock();
        state.bytes = state.bytes.saturating_sub(self.sizes[index]);
        self.changed.notify_all();
        state = self.changed.wait_while(state, |state| state.taken < index).unwrap_or_else(PoisonError::into_inner);
        state.taken += 1;
        match result {
            Ok(result) if state.failed.is_none() => (state.take)(index, result),
            Ok(_) => {}
            Err(error) => {
                state.failed.get_or_insert(error);
            }
        }
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, WorkState<F>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

    use anyhow::bail;

    use super::*;

    #[test]
    fn results_come_in_order_within_the_bound() {
        let sizes: Vec<u64> = (0..200).map(|i| if i % 50 == 7 { 5 << 30 } else { (i % 5) << 28 }).collect();
        for jobs in [1, 3, 16, usize::MAX] {
            let now = AtomicU64::new(0);
            let held = AtomicUsize::new(0);
            let mut taken = Vec::new();
            in_order(
                jobs,
                &sizes,
                |index| {
                    let before = now.fetch_add(sizes[index], Ordering::SeqCst);
                    assert!(before == 0 || before + sizes[index] <= MOST_BYTES, "{before} and {}", sizes[index]);
                    thread::yield_now();
                    now.fetch_sub(sizes[index], Ordering::SeqCst);
                    assert!(held.fetch_add(1, Ordering::SeqCst) < jobs, "results wait");
                    Ok(index * 2)
                },
                |index, result| {
                    held.fetch_sub(1, Ordering::SeqCst);
                    taken.push((index, result));
                },
            )
            .unwrap();
            assert_eq!(taken, (0..200).map(|index| (index, index * 2)).collect::<Vec<_>>());
        }
    }

    fn fail_at_17_and_20(index: usize) -> Result<()> {
        if index == 20 || index == 17 { bail!("item {index}") } else { Ok(()) }
    }

    fn panic_at_3(index: usize) -> Result<()> {
        assert_ne!(index, 3);
        Ok(())
    }

    #[test]
    fn a_thread_that_panics_fails_all() {
        let error = in_order(2, &[0; 9], panic_at_3, |_, ()| {}).unwrap_err();
        assert_eq!(error.to_string(), "a thread that reads files failed");
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
