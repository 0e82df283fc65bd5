//! Records both sides of a gate: the base in a worktree, and the working tree as it is.

use std::ffi::OsString;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, thread};

use anyhow::{Context as _, Result};
use ptmem::config::Recording;
use ptmem::sides::Sides;

use super::super::checkout::own_packages;
use super::super::git::{self, Repository, git};
use super::super::output;
use super::super::place::{StartFolder, normal};
use super::super::recorder::environment::Environment;
use super::super::recorder::process::{Hold, available_memory};
use super::super::recorder::tree::Worktree;
use super::super::recorder::{
    Attempt, Candidate, Detail, Failure, InProgress, Made, Method, Program, Recorded, Recorder, hash_environment,
    python_of, read_log, tail,
};
use super::super::words::many;
use super::arguments::UNNAMED;
use super::base::BaseCommit;
use super::ignored::Lacking;
use super::own_tree::{self, OwnTree};
use super::results::Unrecorded;

/// Main memory that a recording is expected to take if none was made before: with less than twice as much, one side is recorded
/// after the other.
const EXPECTED_MEMORY: u64 = 3 << 30;

/// How the names of the recordings of bases begin.
const OF_BASES: &str = "base-";

/// Lines of a failed recording that a report quotes.
pub(super) const QUOTED_LINES: usize = 12;

/// Recordings of bases that are kept for a repository.
const MOST_KEPT: usize = 32;

/// The recordings of a repository.
pub(super) struct Recordings {
    recorder: Recorder,
    /// Of the after.
    repository: Repository,
    /// The root of the checkout here, which the command may name: another one than that of the after with `--head`.
    checkout: PathBuf,
    uses_kept: bool,
    /// The commit that is judged instead of the working tree.
    head: Option<String>,
}

/// A gate to record: how, and the folder that its paths begin at, from the working directory.
#[derive(Clone, Copy)]
pub(super) struct GatePlan<'a> {
    pub(super) name: &'a str,
    pub(super) recording: &'a Recording,
    pub(super) folder: &'a Path,
    pub(super) detail: Detail,
}

/// A commit, or the working tree, in a folder.
struct GateSide<'a> {
    /// The folder of its recording.
    name: String,
    root: &'a Path,
    part: InProgress,
    plan: &'a GatePlan<'a>,
}

impl Recordings {
    pub(super) fn new(recorder: Recorder, place: &StartFolder, uses_kept: bool, head: Option<String>) -> Result<Self> {
        let checkout = Repository::find(&StartFolder::here())?.root;
        Ok(Self { recorder, repository: Repository::find(place)?, checkout, uses_kept, head })
    }

    /// The after in words.
    pub(super) fn judged(&self) -> &str {
        self.head.as_deref().unwrap_or("working tree")
    }

    /// The tree in which bases are recorded.
    fn tree(&self) -> Worktree<'_> {
        Worktree::at(&self.repository.root, self.recorder.place("tree"))
    }

    /// The end of the output of a recording that failed.
    pub(super) fn tail(&self, name: &str, most: usize) -> Vec<String> {
        tail(&self.log(name), most)
    }

    /// The output of a recording. It ends with the error of a command that failed.
    fn log(&self, name: &str) -> PathBuf {
        let folder = self.recorder.place(name);
        let log = folder.join("log");
        if log.exists() { log } else { folder.join("install.log") }
    }

    /// The name of the recording of the working tree. It begins as no recording of a base does, whatever the gate is called.
    pub(super) fn name_of_after(gate: &str) -> String {
        format!("after-{gate}")
    }

    /// The name of the recording of a base, which holds for the same commit, gate, environment and version.
    pub(super) fn name_of_base(&self, base: &BaseCommit, plan: &GatePlan<'_>, counters: bool) -> String {
        let mut key = DefaultHasher::new();
        (&base.hash, plan.recording, plan.folder, plan.detail, &self.repository.below, counters).hash(&mut key);
        let words: Vec<OsString> = plan.recording.script.split_whitespace().map(OsString::from).collect();
        hash_environment(&python_of(&words), &mut key);
        format!("{OF_BASES}{:016x}", key.finish())
    }

    /// Records the working tree alone, as what it is shown.
    pub(super) fn after(&self, plan: &GatePlan<'_>, shown: &str) -> Attempt {
        let _hold = Hold::new();
        self.record(&self.place_of_after(plan, shown), false)
    }

    /// Records both sides, or the after alone if the recording of the base is kept.
    pub(super) fn both(
        &self,
        base: &BaseCommit,
        plans: &Sides<GatePlan<'_>>,
        counters: bool,
    ) -> Result<(Sides<Attempt>, bool)> {
        let _hold = Hold::new();
        let after = self.place_of_after(&plans.after, self.judged());
        let name = self.name_of_base(base, &plans.before, counters);
        if let Some(kept) = self.recorder.kept(&name).filter(|_| self.uses_kept) {
            output::print_note(&format!(
                "the recording of the base {} is kept; --no-cache makes it anew",
                base.short()
            ));
            let recorded = self.record(&after, counters);
            self.tell_of_ignored(&name, &after.name);
            return Ok((Sides { before: Ok(Ok(kept)), after: recorded }, true));
        }
        let tree = self.tree();
        tree.check_out(&base.hash).with_context(|| format!("the base {} cannot be checked out", base.short()))?;
        for missing in missing_in(&tree.path) {
            output::print_note(&format!("the base lacks {missing}: a worktree has only what git itself keeps"));
        }
        let part = InProgress {
            name: format!("base {}", base.short()),
            last: self.last(&Self::name_of_after(plans.after.name)),
        };
        let before = GateSide { name, root: &tree.path, part, plan: &plans.before };
        let places = Sides { before, after };
        let Sides { before, after } = self.record_both(&places, counters);
        let before = self.explained(before, &places.before);
        self.tell_of_ignored(&places.before.name, &places.after.name);
        tree.remove();
        self.forget_old();
        Ok((Sides { before, after }, false))
    }

    /// Names the ignored files that only the after read: they may be the only difference between the sides.
    fn tell_of_ignored(&self, before: &str, after: &str) {
        let places = Sides { before, after }.map(|name| self.recorder.place(name).join(own_tree::NOTES));
        let worktree = fs::canonicalize(self.tree().path).unwrap_or_default();
        if let Some(named) = own_tree::read_by_after_alone(&self.checkout, &worktree, &places) {
            output::print_note(&format!(
                "{}: read {named}, which git ignores and the base lacks: figures may differ for that reason",
                self.judged()
            ));
        }
    }

    fn place_of_after<'a>(&'a self, plan: &'a GatePlan<'a>, shown: &str) -> GateSide<'a> {
        let name = Self::name_of_after(plan.name);
        let part = InProgress { name: shown.to_owned(), last: self.last(&name) };
        GateSide { name, root: &self.repository.root, part, plan }
    }

    /// How long a recording took last time.
    fn last(&self, name: &str) -> Option<Duration> {
        let text = fs::read_to_string(self.recorder.place(&format!("{name}.seconds"))).ok()?;
        text.parse().ok().map(Duration::from_secs)
    }

    /// Records both at the same time where memory allows it, otherwise one after the other.
    fn record_both(&self, places: &Sides<GateSide<'_>>, counters: bool) -> Sides<Attempt> {
        let Sides { before, after } = places;
        if !self.have_room(&after.name)
            || [before, after].iter().any(|place| place.plan.recording.gpu == Recording::REAL_GPU)
        {
            return Sides { before: self.record(before, counters), after: self.record(after, counters) };
        }
        let both = thread::scope(|scope| {
            let other = scope.spawn(|| self.record(before, counters));
            let after = self.record(after, counters);
            Sides { before: other.join().unwrap_or_else(|_| panicked()), after }
        });
        let was_killed = |attempt: &Attempt| matches!(attempt, Ok(Err(Failure::Killed(_))));
        Sides {
            before: if was_killed(&both.before) { self.record(before, counters) } else { both.before },
            after: if was_killed(&both.after) { self.record(after, counters) } else { both.after },
        }
    }

    /// Whether two recordings can run at the same time.
    fn have_room(&self, name: &str) -> bool {
        let needed = self.recorder.memory(name).unwrap_or(EXPECTED_MEMORY);
        let several = thread::available_parallelism().is_ok_and(|cores| cores.get() > 1);
        several && available_memory().is_some_and(|free| free >= needed.saturating_mul(2))
    }

    fn record(&self, place: &GateSide<'_>, counters: bool) -> Attempt {
        let began = Instant::now();
        let attempt = self.attempt(place, counters);
        if let Ok(Ok(_)) = attempt {
            let took = began.elapsed().as_secs();
            output::print_note(&format!("recorded: {} ({took} s)", place.part.name));
            let _ = fs::write(self.recorder.place(&format!("{}.seconds", place.name)), took.to_string());
        }
        attempt
    }

    fn attempt(&self, place: &GateSide<'_>, counters: bool) -> Attempt {
        let GateSide { name, root, part, plan } = place;
        let recording = plan.recording;
        let below = self.below(plan);
        let folder = root.join(&below);
        if !folder.is_dir() {
            return Ok(Err(Failure::Candidate(format!("it has no folder {}", below.display()))));
        }
        let own = self.recorder.begin(name)?;
        let tree = (*root != self.checkout).then(|| OwnTree::new(&self.checkout, root));
        let notes = own.join(own_tree::NOTES);
        let (script, moved) =
            tree.as_ref().map_or_else(|| (recording.script.clone(), 0), |tree| tree.moved(&recording.script));
        if moved > 0 {
            let paths = many(moved, "path");
            output::print_note(&format!(
                "{}: {paths} of its command moved from the checkout to its worktree",
                part.name
            ));
        }
        let script = script_in(&own, "record.sh", &script)?;
        let mut variables = vec![own_packages(root)?];
        let environment = Environment { path: own.join("environment"), python: recording.python.as_deref() };
        if let Some(install) = &recording.install {
            let install = tree.as_ref().map_or_else(|| install.clone(), |tree| tree.moved(install).0);
            let install = script_in(&own, "install.sh", &install)?;
            if let Err(failure) = environment.install(&install, &folder, &own.join("install.log"), part)? {
                environment.remove();
                return Ok(Err(failure));
            }
            // Its packages are those of the commit.
            variables = environment.variables()?;
        }
        let worktree = tree.as_ref().map(|_| *root);
        variables.push((own_tree::VARIABLE, own_tree::watched(&self.checkout, worktree, &notes).into()));
        let Recording { gpu, compute, steps, ranks, .. } = recording.clone();
        let is_simulated = gpu != Recording::REAL_GPU;
        let method = Method { gpu: Some(gpu), steps, compute, world_size: ranks };
        // Only counters are recorded without stacks.
        let detail = if counters { Detail::Stacks } else { plan.detail };
        let program = Program { command: &script, method: &method, detail };
        let candidate = Candidate { is_simulated, counters, ..Candidate::new(program, &folder, &variables) };
        let attempt = self.recorder.record_in(&own, &candidate, part);
        environment.remove();
        if let (Ok(Ok(_)), Some(objection)) = (&attempt, tree.and_then(|tree| tree.objection(&notes))) {
            let _ = fs::remove_dir_all(&own);
            return Ok(Err(Failure::Command(objection)));
        }
        attempt
    }

    /// The folder in which a gate runs its command, from the root of the repository.
    fn below(&self, plan: &GatePlan<'_>) -> PathBuf {
        let folder = self.repository.below.join(plan.folder);
        normal(&plan.recording.directory.as_ref().map_or(folder.clone(), |below| folder.join(below)))
    }

    /// Says of a base that failed which of the files that it asked for only the working tree has.
    fn explained(&self, attempt: Attempt, base: &GateSide<'_>) -> Attempt {
        let failure = match attempt? {
            Ok(recorded) => return Ok(Ok(recorded)),
            Err(failure) => failure,
        };
        let worktree = fs::canonicalize(base.root).unwrap_or_default();
        let below = self.below(base.plan);
        let lacking = Lacking { root: &self.checkout, worktree: &worktree, below: &below };
        Ok(Err(failure.with(&lacking.advice(&read_log(&self.log(&base.name))))))
    }

    /// Removes the recordings of bases that are older than the newest ones, with the files of the same names.
    fn forget_old(&self) {
        let entries = fs::read_dir(self.recorder.place("")).into_iter().flatten().flatten();
        let paths: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(|path| is_of_base(path)).collect();
        let (folders, files): (Vec<_>, Vec<_>) = paths.into_iter().partition(|path| path.is_dir());
        let mut folders: Vec<_> =
            folders.into_iter().filter_map(|path| Some((fs::metadata(&path).ok()?.modified().ok()?, path))).collect();
        folders.sort();
        folders.reverse();
        for (_, old) in folders.iter().skip(MOST_KEPT) {
            let _ = fs::remove_dir_all(old);
            for file in files.iter().filter(|file| file.file_stem() == old.file_name()) {
                let _ = fs::remove_file(file);
            }
        }
    }

    /// Forgets the kept recording of a base that was made with other packages than the after. `false` where that was done before
    /// for the same difference, which then is one between the commits, and where it cannot be done.
    pub(super) fn begin_anew(&self, name: &str, difference: &str) -> bool {
        let known = self.recorder.place(&format!("{name}.packages"));
        let is_known = fs::read_to_string(&known).is_ok_and(|known| known == difference);
        !is_known && fs::write(&known, difference).is_ok() && fs::remove_dir_all(self.recorder.place(name)).is_ok()
    }
}

fn is_of_base(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(OF_BASES))
}

/// A thread that panicked has recorded nothing.
fn panicked() -> Attempt {
    Err(anyhow::anyhow!("recording the base ended unexpectedly"))
}

/// The words that run a script.
fn script_in(folder: &Path, name: &str, script: &str) -> Result<Vec<OsString>> {
    let path = folder.join(name);
    fs::write(&path, script.replace('\r', "")).with_context(|| format!("{}: cannot be written", path.display()))?;
    let words = ["bash", "--noprofile", "--norc", "-eo", "pipefail"].map(OsString::from);
    Ok(words.into_iter().chain([path.into()]).collect())
}

/// How files begin that Git LFS stores elsewhere.
const POINTER: &[u8] = b"version https://git-lfs";

/// Largest pointer of Git LFS.
const LARGEST_POINTER: u64 = 1024;

/// What a worktree lacks, in words.
fn missing_in(tree: &Path) -> Vec<String> {
    let mut missing = Vec::new();
    let modules = git::text(&mut git(Some(tree)), &["config", "--file", ".gitmodules", "--get-regexp", "\\.path$"]);
    let modules: Vec<String> =
        modules.unwrap_or_default().lines().filter_map(|line| Some(line.split_once(' ')?.1.to_owned())).collect();
    if !modules.is_empty() {
        missing.push(format!("its submodules ({})", modules.join(", ")));
    }
    let listed = git::output(&mut git(Some(tree)), &["ls-files", "-z", "--", ":(attr:filter=lfs)"]).unwrap_or_default();
    let files = listed.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    let pointers = files.filter(|name| is_pointer(&tree.join(String::from_utf8_lossy(name).as_ref()))).count();
    if pointers > 0 {
        missing.push(format!("{} of Git LFS", many(pointers, "file")));
    }
    missing
}

fn is_pointer(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|facts| facts.len() <= LARGEST_POINTER)
        && fs::read(path).is_ok_and(|bytes| bytes.starts_with(POINTER))
}

/// The recording of a side that must have one.
pub(super) fn required(
    attempt: Made,
    recordings: &Recordings,
    name: &str,
    failed_before: Option<&Failure>,
) -> Result<Recorded> {
    let failure = match attempt {
        Ok(recorded) => return Ok(recorded),
        Err(failure) => failure,
    };
    let too = failed_before.map(|_| "; the base cannot be recorded, either").unwrap_or_default();
    let of_gate = if name == UNNAMED { String::new() } else { format!("[gate.{name}] ") };
    let judged = recordings.head.as_deref().unwrap_or("the working tree");
    let reason = format!("{of_gate}{judged} cannot be recorded: {failure}{too}");
    Err(Unrecorded { reason, output: recordings.tail(&Recordings::name_of_after(name), QUOTED_LINES) }.into())
}
