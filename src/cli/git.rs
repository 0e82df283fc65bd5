//! The change of the code that `--git` names, and the committed text of files, by the program git.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result, anyhow, bail};
use ptmem::patch::Patch;
use ptmem::sides::Side;

use super::checkout;

/// The largest file whose text is looked at.
const LARGEST_FILE: u64 = super::sources::LARGEST;

/// The most output that is read of commands which print a name.
const LONGEST_ANSWER: u64 = 1 << 20;

/// Reads the lines that the checkout around the working directory changes since the merge base with `base`.
pub(super) fn changed_lines(base: &str) -> Result<Patch> {
    let repository = Repository::find()?;
    let base = repository.merge_base(base)?;
    let prefix = repository.prefix();
    let mut patch = repository.diff(&base, &prefix)?;
    for path in repository.untracked()? {
        patch.add_file(&format!("{prefix}{path}"));
    }
    repository.widen(&mut patch, &base, &prefix);
    Ok(patch)
}

/// The texts of files at the commit that is checked out around the working directory, by these paths from the root of the
/// checkout; none where git cannot tell. Files that the commit lacks, large ones and binary ones are left out.
pub(super) fn committed<'p>(paths: impl Iterator<Item = &'p str>) -> Option<BTreeMap<&'p str, String>> {
    Repository::find().ok()?.texts_at("HEAD", paths)
}

/// The same at the merge base with `base`.
pub(super) fn texts_at_base<'p>(base: &str, paths: impl Iterator<Item = &'p str>) -> Option<BTreeMap<&'p str, String>> {
    let repository = Repository::find().ok()?;
    repository.texts_at(&repository.merge_base(base).ok()?, paths)
}

/// The next answer of `git cat-file --batch`: a line with name, type and size, and the text; or a line that says why there is
/// none.
fn answer(answers: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut head = String::new();
    answers.read_line(&mut head)?;
    let words: Vec<&str> = head.trim_end_matches('\n').split(' ').collect();
    let [name, kind, size] = words[..] else { return Ok(None) };
    let Some(size) = size.parse().ok().filter(|_| name.bytes().all(|byte| byte.is_ascii_hexdigit())) else {
        return Ok(None);
    };
    let mut bytes = Vec::new();
    if kind == "blob" && size <= LARGEST_FILE {
        answers.take(size).read_to_end(&mut bytes)?;
        answers.take(1).read_to_end(&mut Vec::new())?;
        Ok(String::from_utf8(bytes).ok())
    } else {
        io::copy(&mut answers.take(size + 1), &mut io::sink())?;
        Ok(None)
    }
}

/// The text that a file of the checkout has at the merge base with `base`; none where it is not there.
pub(super) fn text_at_base(base: &str, path: &Path) -> Result<Option<String>> {
    let repository = Repository::find()?;
    let base = repository.merge_base(base)?;
    let root = fs::canonicalize(&repository.root)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Ok(folder) = fs::canonicalize(folder) else { return Ok(None) };
    let Ok(below) = folder.strip_prefix(&root) else { return Ok(None) };
    let parts = below.iter().chain(path.file_name()).map(OsStr::to_string_lossy);
    Ok(repository.text_at(&base, &parts.collect::<Vec<_>>().join("/")))
}

/// A checkout.
struct Repository {
    root: PathBuf,
}

impl Repository {
    fn find() -> Result<Self> {
        let mut command = git(None);
        command.args(["rev-parse", "--show-toplevel"]);
        let output = run(&mut command)?;
        match output.text {
            Some(root) => Ok(Self { root: PathBuf::from(root) }),
            None if checkout::is_repository() => bail!("--git: {}", output.error),
            None => bail!("--git: the working directory is in no Git repository; run this in the checkout of the code"),
        }
    }

    fn git(&self) -> Command {
        git(Some(&self.root))
    }

    /// The commit in which the history of the checkout and that of `base` part.
    fn merge_base(&self, base: &str) -> Result<String> {
        let mut command = self.git();
        command.args(["rev-parse", "--verify", "--quiet", "--end-of-options"]).arg(format!("{base}^{{commit}}"));
        let Some(commit) = run(&mut command)?.text else {
            bail!(
                "--git {base}: there is no such commit, branch or tag here; a shallow clone may lack it (with \
                 actions/checkout set fetch-depth: 0)"
            );
        };
        let mut command = self.git();
        command.args(["merge-base", &commit, "HEAD"]);
        run(&mut command)?.text.ok_or_else(|| {
            anyhow!(
                "--git {base}: shares no commit with the checkout as far as its history is here; a shallow clone lacks \
                 the rest (with actions/checkout set fetch-depth: 0)"
            )
        })
    }

    /// The folder of the repository below the root that paths of the checkout begin at, with a slash at its end.
    fn prefix(&self) -> String {
        let root = fs::canonicalize(checkout::root());
        let own = fs::canonicalize(&self.root);
        let below = root.ok().zip(own.ok()).and_then(|(root, own)| Some(own.strip_prefix(root).ok()?.to_owned()));
        let below = below.unwrap_or_default();
        let parts: Vec<_> = below.iter().map(OsStr::to_string_lossy).collect();
        parts.iter().map(|part| format!("{part}/")).collect()
    }

    /// Lets git start no program that the configuration names for files of some kind: it would filter those of the checkout.
    fn without_filters(&self, command: &mut Command) -> Result<()> {
        let mut listing = self.git();
        listing.args(["config", "--null", "--name-only", "--get-regexp", "^filter\\..*\\.(clean|process|required)$"]);
        let names = run(&mut listing)?.text.unwrap_or_default();
        let known = env::var("GIT_CONFIG_COUNT").ok().and_then(|count| count.parse::<usize>().ok()).unwrap_or(0);
        let mut count = known;
        for name in names.split('\0').filter(|name| !name.is_empty()) {
            let value = if name.ends_with(".required") { "false" } else { "" };
            command.env(format!("GIT_CONFIG_KEY_{count}"), name).env(format!("GIT_CONFIG_VALUE_{count}"), value);
            count += 1;
        }
        command.env("GIT_CONFIG_COUNT", count.to_string());
        Ok(())
    }

    fn diff(&self, base: &str, prefix: &str) -> Result<Patch> {
        let mut command = self.git();
        self.without_filters(&mut command)?;
        // Settings of the user must not change the form of the output, nor run other programs.
        command.args(["-c", "core.quotePath=true", "diff", "--no-color", "--no-ext-diff", "--no-textconv"]);
        command.args(["--unified=0", "--inter-hunk-context=0", "--find-renames", "--ignore-submodules=all"]);
        command.args(["--diff-algorithm=histogram", "--src-prefix=a/", "--dst-prefix=b/", base, "--"]);
        let mut child = spawn(&mut command)?;
        let patch = Patch::parse(BufReader::new(child.output()?), prefix);
        match child.finish()? {
            Some(error) => bail!("--git: git diff: {error}"),
            None => patch.context("--git"),
        }
    }

    /// The Python files of the checkout that git does not know yet.
    fn untracked(&self) -> Result<Vec<String>> {
        let mut command = self.git();
        command.args(["ls-files", "--others", "--exclude-standard", "-z", "--", ":(glob)**/*.py"]);
        let output = run(&mut command)?;
        let names = output.text.ok_or_else(|| anyhow!("--git: git ls-files: {}", output.error))?;
        Ok(names.split('\0').filter(|name| !name.is_empty()).map(str::to_owned).collect())
    }

    /// Lets every statement of Python files count as a whole.
    fn widen(&self, patch: &mut Patch, base: &str, prefix: &str) {
        for (side, path) in python_files(patch) {
            let own = path.strip_prefix(prefix).unwrap_or(&path);
            let text = match side {
                Side::Before => self.text_at(base, own),
                Side::After => text_of(&self.root.join(own)),
            };
            if let Some(text) = text {
                patch.widen_to_statements(side, &path, &text);
            }
        }
    }

    /// The texts of files at a commit.
    fn texts_at<'p>(&self, commit: &str, paths: impl Iterator<Item = &'p str>) -> Option<BTreeMap<&'p str, String>> {
        let prefix = self.prefix();
        // A request is a line.
        let asked =
            paths.filter(|path| !path.contains('\n')).filter_map(|path| Some((path, path.strip_prefix(&prefix)?)));
        let asked: Vec<(&str, &str)> = asked.collect();
        let requests: String = asked.iter().map(|(_, own)| format!("{commit}:{own}\n")).collect();
        let mut command = self.git();
        command.args(["cat-file", "--batch"]).env("GIT_NO_LAZY_FETCH", "1").stdin(Stdio::piped());
        let mut running = spawn(&mut command).ok()?;
        let mut input = running.child.stdin.take()?;
        // Git waits for somebody to read its answers before it reads all requests.
        let writer = thread::spawn(move || input.write_all(requests.as_bytes()));
        let mut answers = BufReader::new(running.output().ok()?);
        let mut texts = BTreeMap::new();
        for (path, _) in asked {
            let Ok(text) = answer(&mut answers) else { break };
            texts.extend(text.map(|text| (path, text)));
        }
        drop(answers);
        let is_written = writer.join().is_ok_and(|written| written.is_ok());
        (running.finish().ok()?.is_none() && is_written).then_some(texts)
    }

    /// The text of a file at a commit; none where it is too large or cannot be had.
    fn text_at(&self, commit: &str, path: &str) -> Option<String> {
        let mut command = self.git();
        command.args(["cat-file", "blob"]).arg(format!("{commit}:{path}"));
        let mut child = spawn(&mut command).ok()?;
        let text = limited(child.output().ok()?, LARGEST_FILE);
        let is_known = child.finish().is_ok_and(|error| error.is_none());
        text.filter(|_| is_known)
    }
}

fn python_files(patch: &Patch) -> Vec<(Side, String)> {
    let files = Side::BOTH.into_iter().flat_map(|side| patch.files(side).map(move |path| (side, path.to_owned())));
    files.filter(|(_, path)| Path::new(path).extension().is_some_and(|ending| ending == "py")).collect()
}

/// The text of a file in the checkout.
fn text_of(path: &Path) -> Option<String> {
    limited(fs::File::open(path).ok().filter(|_| path.is_file())?, LARGEST_FILE)
}

/// A text; none where it has more bytes than these.
fn limited(from: impl Read, most: u64) -> Option<String> {
    let mut bytes = Vec::new();
    from.take(most + 1).read_to_end(&mut bytes).ok()?;
    let is_whole = u64::try_from(bytes.len()).is_ok_and(|length| length <= most);
    is_whole.then(|| String::from_utf8_lossy(&bytes).into_owned())
}

/// The answer of a command.
struct Answer {
    /// Its output without the line break at the end; none where it failed.
    text: Option<String>,
    /// Its words on standard error.
    error: String,
}

fn git(folder: Option<&Path>) -> Command {
    let mut command = Command::new("git");
    command.env("LC_ALL", "C").env("GIT_OPTIONAL_LOCKS", "0").env("GIT_TERMINAL_PROMPT", "0");
    command.arg("--no-pager");
    // Programs that the repository asks for are not started.
    command.args(["-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"]);
    if let Some(folder) = folder {
        command.arg("-C").arg(folder);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A run of git.
struct Running {
    child: Child,
    /// Reads standard error, so that git never waits for a reader.
    error: JoinHandle<Option<String>>,
}

fn spawn(command: &mut Command) -> Result<Running> {
    let mut child = command.spawn().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => anyhow!("--git: there is no program git on the path, which tells what changed"),
        _ => anyhow!("--git: git cannot be run: {error}"),
    })?;
    let error = child.stderr.take();
    Ok(Running { child, error: thread::spawn(move || error.and_then(|error| limited(error, LONGEST_ANSWER))) })
}

impl Running {
    /// Its standard output.
    fn output(&mut self) -> Result<ChildStdout> {
        self.child.stdout.take().context("--git: git has no output")
    }

    /// Waits for the end, and gives the words of a command that failed.
    fn finish(mut self) -> Result<Option<String>> {
        let status = self.child.wait().context("--git: git")?;
        let error = self.error.join().ok().flatten().unwrap_or_default();
        let error = error.trim().strip_prefix("fatal: ").unwrap_or(error.trim());
        Ok((!status.success()).then(|| error.to_owned()))
    }
}

fn run(command: &mut Command) -> Result<Answer> {
    let mut running = spawn(command)?;
    let text = limited(running.output()?, LONGEST_ANSWER);
    let error = running.finish()?;
    let text = text.filter(|_| error.is_none()).map(|text| text.trim_end_matches(['\n', '\r']).to_owned());
    Ok(Answer { text, error: error.unwrap_or_default() })
}
