//! The scripts of the GitHub Action, run as it runs them, with a server on this machine in place of GitHub.

#![cfg(unix)]

mod comment;
mod definitions;
mod gate;
mod gitlab;
mod install;
mod keep;
mod release;
mod server;
mod tokens;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::support::tool::git;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A runner's folders and environment. Nothing of the real environment gets in but the tools of the system.
struct Job {
    folder: TempDir,
    variables: BTreeMap<String, OsString>,
}

/// The programs that the scripts use. The others of the machine, `ptmem` and `cargo` above all, are not on the path.
const TOOLS: [&str; 32] = [
    "base64",
    "basename",
    "bash",
    "cat",
    "chmod",
    "cp",
    "curl",
    "dirname",
    "env",
    "git",
    "grep",
    "gzip",
    "head",
    "jq",
    "ls",
    "mkdir",
    "mktemp",
    "mv",
    "od",
    "printf",
    "rm",
    "sed",
    "sha256sum",
    "shasum",
    "sleep",
    "sort",
    "tail",
    "tar",
    "tee",
    "tr",
    "uname",
    "wc",
];

fn find(tool: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(tool)).find(|file| file.is_file())
}

/// Whether this machine lacks what the scripts need; it then says so.
fn skipped() -> bool {
    for tool in ["bash", "curl", "jq", "xargs"] {
        if find(tool).is_none() {
            crate::support::tool::say(&format!("skipped: no {tool} to run the scripts of the action"));
            return true;
        }
    }
    false
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

impl Job {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["bin", "temp", "workspace"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        let mut job = Self { folder, variables: BTreeMap::new() };
        for tool in TOOLS.into_iter().chain(["xargs"]) {
            if let Some(file) = find(tool) {
                symlink(file, job.path("bin").join(tool)).unwrap();
            }
        }
        for (name, file) in [
            ("GITHUB_OUTPUT", "output"),
            ("GITHUB_STEP_SUMMARY", "summary"),
            ("GITHUB_PATH", "path"),
            ("GITHUB_ENV", "environment"),
        ] {
            let file = job.path(file);
            fs::write(&file, "").unwrap();
            job.set(name, file);
        }
        job.set("PATH", job.path("bin"));
        job.set("RUNNER_TEMP", job.path("temp"));
        job.set("GITHUB_WORKSPACE", job.path("workspace"));
        job.set("GITHUB_ACTION_PATH", root());
        job.set("GITHUB_REPOSITORY", "someone/model").set("GITHUB_WORKFLOW", "Memory");
        job
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn set(&mut self, name: &str, value: impl Into<OsString>) -> &mut Self {
        self.variables.insert(name.to_owned(), value.into());
        self
    }

    /// Puts a program of this text on the path, before all others.
    fn program(&self, name: &str, script: &str) -> &Self {
        let file = self.path("bin").join(name);
        let _ = fs::remove_file(&file);
        fs::write(&file, script).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        self
    }

    fn without(&self, name: &str) -> &Self {
        fs::remove_file(self.path("bin").join(name)).unwrap();
        self
    }

    /// Runs a script of the action in the workspace.
    fn run(&self, script: &str) -> Finished {
        self.run_file(&root().join("action").join(script))
    }

    /// Runs any script in the workspace.
    fn run_file(&self, script: &Path) -> Finished {
        let output = Command::new(find("bash").unwrap())
            .arg(script)
            .current_dir(self.path("workspace"))
            .env_clear()
            .envs(&self.variables)
            .output()
            .unwrap();
        Finished::new(&output)
    }

    /// Runs git in a folder below the job.
    fn git(&self, folder: &str, arguments: &[&str]) -> String {
        git(&self.path(folder), arguments)
    }

    /// Writes the event that started the run.
    fn event(&mut self, event: &serde_json::Value) -> &mut Self {
        let path = self.path("event.json");
        fs::write(&path, event.to_string()).unwrap();
        self.set("GITHUB_EVENT_PATH", path)
    }

    /// Lets a repository below the job be the one of the run on GitHub.
    fn serve(&mut self, repository: &str) -> &mut Self {
        let server = self.path("server");
        fs::create_dir_all(server.join("someone")).unwrap();
        let link = server.join("someone/model");
        if !link.exists() {
            symlink(self.path(repository), link).unwrap();
        }
        self.set("GITHUB_SERVER_URL", format!("file://{}", server.display()))
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    /// The outputs, the last of a name as GitHub takes it: `name=value`, or the lines behind `name<<word` up to the word.
    fn outputs(&self) -> BTreeMap<String, String> {
        let text = self.read("output");
        let mut lines = text.lines();
        let mut outputs = BTreeMap::new();
        while let Some(line) = lines.next() {
            let (name, value) = match line.split_once("<<") {
                Some((name, end)) => {
                    let value: Vec<&str> = lines.by_ref().take_while(|line| *line != end).collect();
                    (name, value.join("\n"))
                }
                None => line.split_once('=').map(|(name, value)| (name, value.to_owned())).unwrap(),
            };
            outputs.insert(name.to_owned(), value);
        }
        outputs
    }
}

#[derive(Debug)]
struct Finished {
    code: i32,
    /// Both streams, as the log of a step has them.
    log: String,
}

impl Finished {
    fn new(output: &Output) -> Self {
        let mut log = String::from_utf8(output.stdout.clone()).unwrap();
        log.push_str(std::str::from_utf8(&output.stderr).unwrap());
        Self { code: output.status.code().unwrap(), log }
    }

    #[track_caller]
    fn says(&self, code: i32, what: &str) {
        assert_eq!(self.code, code, "{}", self.log);
        assert!(self.log.contains(what), "{what:?} is missing:\n{}", self.log);
    }

    /// Nothing for the eye: no notice, no warning, no error.
    #[track_caller]
    fn is_quiet(&self) {
        assert_eq!(self.code, 0, "{}", self.log);
        assert!(!self.log.lines().any(|line| line.starts_with("::")), "{}", self.log);
    }
}
