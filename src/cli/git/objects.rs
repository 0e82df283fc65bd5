//! The contents of files as a repository keeps them, by one `git cat-file --batch`.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail};

/// A running git that gives objects by their names.
pub(crate) struct Objects {
    child: Child,
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

/// The object of a file; its bytes where they are not too many.
pub(crate) struct GitObject {
    pub(crate) size: u64,
    pub(crate) bytes: Option<Vec<u8>>,
}

impl Objects {
    /// The objects of the repository of a git command.
    pub(crate) fn open(git: &mut Command, options: &[&str]) -> Result<Self> {
        git.args(["cat-file", "--batch"]).args(options);
        git.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = git.spawn().context("the program git cannot be run")?;
        let requests = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().context("git has no output")?);
        Ok(Self { child, requests, answers })
    }

    /// The object of a name, with its bytes if there are at most so many; `None` where that is not a file, or the repository lacks it.
    pub(crate) fn read(&mut self, name: &str, most: u64) -> Result<Option<GitObject>> {
        // A request is a line.
        if name.contains('\n') {
            return Ok(None);
        }
        let requests = self.requests.as_mut().context("git has no input")?;
        requests.write_all(format!("{name}\n").as_bytes()).and_then(|()| requests.flush()).context("git cat-file")?;
        let mut head = Vec::new();
        self.answers.read_until(b'\n', &mut head).context("git cat-file")?;
        if head.is_empty() {
            bail!("git cat-file ended early");
        }
        let head = String::from_utf8_lossy(&head);
        let words: Vec<&str> = head.split_whitespace().collect();
        let [_, kind, size] = words[..] else { return Ok(None) };
        let Ok(size) = size.parse::<u64>() else { return Ok(None) };
        // With the line break behind it.
        let mut rest = self.answers.by_ref().take(size + 1);
        let mut bytes = None;
        if size <= most {
            let mut read = Vec::new();
            rest.read_to_end(&mut read).context("git cat-file")?;
            read.pop();
            bytes = Some(read);
        } else {
            io::copy(&mut rest, &mut io::sink()).context("git cat-file")?;
        }
        Ok((kind == "blob").then_some(GitObject { size, bytes }))
    }
}

impl Drop for Objects {
    fn drop(&mut self) {
        // It ends with its input.
        self.requests = None;
        let _ = self.child.wait();
    }
}
