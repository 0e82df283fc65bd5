//! The contents of files as a repository keeps them, by one `git cat-file --batch`.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use anyhow::{Context, Result, bail};

use crate::cli::git::git;

/// The largest file whose text is compared line by line, and whose line ends may differ.
pub(super) const LARGEST: u64 = 4 << 20;

/// A running git that gives objects by their names.
pub(super) struct Objects {
    child: Child,
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

/// An object; its bytes where they are not too many.
pub(super) struct GitObject {
    pub(super) size: u64,
    pub(super) bytes: Option<Vec<u8>>,
}

impl Objects {
    pub(super) fn open(folder: &Path) -> Result<Self> {
        let mut command = git(Some(folder));
        command.args(["cat-file", "--batch"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().context("the program git cannot be run")?;
        let requests = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().context("git has no output")?);
        Ok(Self { child, requests, answers })
    }

    /// The object of a name; `None` where the repository lacks it.
    pub(super) fn read(&mut self, id: &str) -> Result<Option<GitObject>> {
        let requests = self.requests.as_mut().context("git has no input")?;
        requests.write_all(format!("{id}\n").as_bytes()).and_then(|()| requests.flush()).context("git cat-file")?;
        let mut head = String::new();
        self.answers.read_line(&mut head).context("git cat-file")?;
        let words: Vec<&str> = head.split_whitespace().collect();
        let [_, _, size] = words[..] else {
            if head.is_empty() {
                bail!("git cat-file ended early");
            }
            return Ok(None);
        };
        let Ok(size) = size.parse::<u64>() else { return Ok(None) };
        // With the line break behind it.
        let mut rest = self.answers.by_ref().take(size + 1);
        let mut bytes = None;
        if size <= LARGEST {
            let mut read = Vec::new();
            rest.read_to_end(&mut read).context("git cat-file")?;
            read.pop();
            bytes = Some(read);
        } else {
            io::copy(&mut rest, &mut io::sink()).context("git cat-file")?;
        }
        Ok(Some(GitObject { size, bytes }))
    }
}

impl Drop for Objects {
    fn drop(&mut self) {
        // It ends with its input.
        self.requests = None;
        let _ = self.child.wait();
    }
}
