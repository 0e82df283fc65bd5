//! Opening and reading snapshots.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::thread;

use anyhow::{Context, Result, anyhow, bail};
use ptmem::profile::{self, Options, Profile, Source};
use ptmem::snapshot;

/// Reads two snapshots at the same time.
pub(super) fn profiles(before: &Path, after: &Path, options: &Options) -> Result<(Profile, Profile)> {
    thread::scope(|scope| {
        let before = scope.spawn(|| profile(before, options));
        let after = profile(after, options);
        let before = before.join().map_err(|_| anyhow!("reading the before failed"))?;
        Ok((before?, after?))
    })
}

/// Reads a snapshot and computes its profile.
pub(super) fn profile(path: &Path, options: &Options) -> Result<Profile> {
    let name = path.display().to_string();
    let (snapshot, bytes) = if path.as_os_str() == "-" {
        read(io::stdin().lock()).context("standard input")?
    } else {
        read(open(path)?).with_context(|| name.clone())?
    };
    let source = Source { path: name.clone(), bytes };
    profile::profile(snapshot, source, options.clone()).with_context(|| name)
}

fn open(path: &Path) -> Result<File> {
    let name = path.display();
    // Asked first: some systems say "no permission" when a directory is opened.
    if path.is_dir() {
        bail!("{name}: is a directory; expected a snapshot file from torch.cuda.memory._dump_snapshot()");
    }
    File::open(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            anyhow!("{name}: no such file; expected a snapshot from torch.cuda.memory._dump_snapshot()")
        }
        io::ErrorKind::PermissionDenied => anyhow!("{name}: no permission to read the file"),
        _ => anyhow!("{name}: {error}"),
    })
}

/// The snapshot, and how many bytes it took.
fn read(input: impl Read) -> Result<(snapshot::Snapshot, u64)> {
    let count = Cell::new(0);
    let snapshot = snapshot::read(Counted { input, count: &count })?;
    Ok((snapshot, count.get()))
}

/// Counts what is read.
struct Counted<'c, R> {
    input: R,
    count: &'c Cell<u64>,
}

impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buffer)?;
        self.count.set(self.count.get() + read as u64);
        Ok(read)
    }
}
