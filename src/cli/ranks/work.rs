//! Work on many files at once, within a bound of memory, with the same result in whatever order it gets done.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use anyhow::{Result, anyhow};

/// Limit for the summed sizes of files that are decoded at the same time, except for a single larger file. Decoding
/// takes at most half of that in memory.
const MOST_BYTES: u64 = 2 << 30;

/// Results that wait for an earlier one, per worker.
const MOST_WAITING: usize = 4;

/// State shared by all workers.
struct State<T> {
    /// The next item to begin with; none once something went wrong.
    next: Option<usize>,
    /// Bytes that are being worked on.
    bytes: u64,
    /// The number of results that were taken.
    taken: usize,
    /// Results that wait for an earlier one.
    waiting: BTreeMap<usize, T>,
    /// Error of the earliest failed item.
    error: Option<(usize, anyhow::Error)>,
}

/// Works on items of these sizes with up to `jobs` threads, and hands the results to `take` in the order of the
/// items.
///
/// # Errors
/// The error of the first item that failed, in the order of the items.
pub(crate) fn in_order<T: Send>(
    jobs: usize,
    sizes: &[u64],
    work: impl Fn(usize) -> Result<T> + Sync,
    take: impl FnMut(usize, T) + Send,
) -> Result<()> {
    let jobs = jobs.clamp(1, sizes.len().max(1));
    let queue = Queue {
        sizes,
        window: jobs * MOST_WAITING,
        work,
        take: Mutex::new(take),
        state: Mutex::new(State { next: Some(0), bytes: 0, taken: 0, waiting: BTreeMap::new(), error: None }),
        changed: Condvar::new(),
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (1..jobs).map(|_| scope.spawn(|| queue.work_off())).collect();
        queue.work_off();
        let failed = workers.into_iter().any(|worker| worker.join().is_err());
        if failed { Err(anyhow!("a thread that reads files failed")) } else { Ok(()) }
    })?;
    let state = queue.state.into_inner().unwrap_or_else(PoisonError::into_inner);
    state.error.map_or(Ok(()), |(_, error)| Err(error))
}

/// Items that several threads work off.
struct Queue<'s, T, W, F> {
    sizes: &'s [u64],
    /// The number of items that may be begun beyond the results that were taken.
    window: usize,
    work: W,
    take: Mutex<F>,
    state: Mutex<State<T>>,
    changed: Condvar,
}

impl<T, W: Fn(usize) -> Result<T>, F: FnMut(usize, T)> Queue<'_, T, W, F> {
    /// The job of one thread: works on items as long as there are any.
    fn work_off(&self) {
        while let Some(index) = self.begin() {
            let result = (self.work)(index);
            let mut guard = lock(&self.state);
            let state = &mut *guard;
            state.bytes = state.bytes.saturating_sub(self.sizes[index]);
            match result {
                Ok(result) => {
                    state.waiting.insert(index, result);
                    let mut take = lock(&self.take);
                    while let Some(result) = state.waiting.remove(&state.taken) {
                        take(state.taken, result);
                        state.taken += 1;
                    }
                }
                Err(error) => state.fail(index, error),
            }
            drop(guard);
            self.changed.notify_all();
        }
    }

    /// The next item, once there is room for it.
    fn begin(&self) -> Option<usize> {
        let mut state = lock(&self.state);
        loop {
            let index = state.next.filter(|&index| index < self.sizes.len())?;
            let fits = state.bytes == 0 || state.bytes.saturating_add(self.sizes[index]) <= MOST_BYTES;
            if fits && index < state.taken + self.window {
                state.bytes = state.bytes.saturating_add(self.sizes[index]);
                state.next = Some(index + 1);
                return Some(index);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl<T> State<T> {
    /// Keeps the error of the earliest item. Those before it have begun already: theirs is the error if they have one.
    fn fail(&mut self, index: usize, error: anyhow::Error) {
        self.next = None;
        if self.error.as_ref().is_none_or(|(at, _)| index < *at) {
            self.error = Some((index, error));
        }
    }
}

/// A thread that failed ends the run anyway.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use anyhow::bail;

    use super::*;

    #[test]
    fn results_come_in_order_within_the_bound() {
        let sizes: Vec<u64> = (0..200).map(|i| if i % 50 == 7 { 5 << 30 } else { (i % 5) << 28 }).collect();
        for jobs in [1, 3, 16] {
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
