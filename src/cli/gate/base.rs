//! The commit that the working tree is compared with.

use std::env;

use anyhow::{Context as _, Error, Result, anyhow, bail};
use ptmem::diagnostic::{Code, Diagnostic};
use serde_json::Value;

use super::super::git::{self, Repository};
use super::super::place::StartFolder;
use super::super::surroundings;

/// The commit to compare with, and why it is this one.
pub(super) struct BaseCommit {
    pub(super) hash: String,
    /// How it was found, such as "the merge base with origin/main".
    pub(super) reason: String,
}

impl BaseCommit {
    /// Enough of the hash to name it.
    pub(super) fn short(&self) -> &str {
        self.hash.get(..10).unwrap_or(&self.hash)
    }

    /// The warning that the base is the commit that is judged, without changes. Another one may have the same files on purpose.
    pub(super) fn same_code(&self, place: &StartFolder, head: Option<&str>) -> Result<Option<Diagnostic>> {
        let is_judged = git::commit(&mut place.git(), "HEAD").is_some_and(|head| head == self.hash);
        if !is_judged || !Repository::find(place)?.is_unchanged_since(&self.hash)? {
            return Ok(None);
        }
        let judged = head.unwrap_or("the working tree");
        let message = format!(
            "{judged} has the code of the base {}: no file in git differs, and no Python file is new; to compare with another \
             commit, give --base",
            self.short()
        );
        Ok(Some(Diagnostic::new(Code::SameInput, None, message)))
    }
}

/// What is recorded.
pub(super) enum Occasion {
    /// A change, compared with this commit.
    Change(BaseCommit),
    /// Files that are compared although the commit to compare with is not known, for this reason.
    WithoutBase(Error),
    /// A commit that was pushed to a branch: it is kept for the trend, and its growth is not judged.
    Push,
    /// A number of runs of the after alone, which need no base.
    Repeated(u32),
}

/// Names of branches that others usually are merged into, where a repository does not say which one.
const USUAL_BRANCHES: [&str; 4] = ["origin/main", "origin/master", "main", "master"];

/// Finds what the working tree is compared with: what was asked for, otherwise what the event of a job says, otherwise where its
/// history leaves the default branch. `head` names the commit that is judged in a worktree.
pub(super) fn occasion(place: &StartFolder, asked: Option<&str>, head: Option<&str>) -> Result<Occasion> {
    if let Some(asked) = asked {
        return merge_base(place, asked, "--base").map(Occasion::Change);
    }
    let event = surroundings::event()?;
    if let Some(event) = &event {
        if let Some(wanted) = event.pointer("/merge_group/base_sha").and_then(Value::as_str) {
            return merge_base(place, wanted, "the base of the merge queue").map(Occasion::Change);
        }
        if let Some(wanted) = event.pointer("/pull_request/base/sha").and_then(Value::as_str) {
            let head = event.pointer("/pull_request/head/sha").and_then(Value::as_str);
            return of_merge(place, head, wanted, "the base of the pull request").map(Occasion::Change);
        }
        if env::var("GITHUB_EVENT_NAME").is_ok_and(|name| name == "push") {
            return Ok(Occasion::Push);
        }
    }
    // The first is there where the pipeline runs on the merge of both branches.
    let names = ["CI_MERGE_REQUEST_TARGET_BRANCH_SHA", "CI_MERGE_REQUEST_DIFF_BASE_SHA"];
    if let Some(wanted) = names.into_iter().find_map(surroundings::variable) {
        let head = surroundings::variable("CI_MERGE_REQUEST_SOURCE_BRANCH_SHA");
        return of_merge(place, head.as_deref(), &wanted, "the base of the merge request").map(Occasion::Change);
    }
    of_default_branch(place, event.as_ref(), head.unwrap_or("HEAD")).map(Occasion::Change)
}

/// The base of a pull request or a merge request. Its checkout may be a merge of both branches, whose first parent is the base,
/// whatever came to the base branch since.
fn of_merge(place: &StartFolder, head: Option<&str>, wanted: &str, what: &str) -> Result<BaseCommit> {
    // Also in a clone that lacks the parents themselves.
    let text = git::text(&mut place.git(), &["cat-file", "commit", "HEAD"])?;
    let lines = text.lines().take_while(|line| !line.is_empty());
    let parents: Vec<&str> = lines.filter_map(|line| line.strip_prefix("parent ")).collect();
    let wanted = match parents[..] {
        [base, merged] if Some(merged) == head => base,
        _ => wanted,
    };
    merge_base(place, wanted, what)
}

fn merge_base(place: &StartFolder, name: &str, what: &str) -> Result<BaseCommit> {
    // If git is missing or refuses the checkout, no commit is found, either.
    Repository::find(place)?;
    let commit = git::commit(&mut place.git(), name);
    if commit.is_none() && git::is_range(name) {
        bail!("{what} {name}: a range of commits; expected the commit or the branch to compare with");
    }
    let hash = commit.and_then(|commit| common(place, &commit)).ok_or_else(|| {
        anyhow!(
            "{what}, {name}: the checkout lacks it, or the history back to it; fetch it (in GitHub Actions with fetch-depth: 2 of \
             actions/checkout for a pull request, otherwise 0), or give another --base"
        )
    })?;
    Ok(BaseCommit { reason: what.to_owned(), hash })
}

fn common(place: &StartFolder, commit: &str) -> Option<String> {
    git::text(&mut place.git(), &["merge-base", commit, "HEAD"]).ok()
}

/// The commit in which what is judged leaves the default branch; its own, if it is on that branch.
fn of_default_branch(place: &StartFolder, event: Option<&Value>, judged: &str) -> Result<BaseCommit> {
    Repository::find(place)?;
    let head = git::commit(&mut place.git(), "HEAD")
        .context("the repository has no commit yet; ptmem gate compares the working tree with a commit")?;
    let name = default_branch(place, event).context(
        "the default branch is not known, and with it the commit to compare with: no origin/HEAD, main or master is here; give \
         --base",
    )?;
    let base = merge_base(place, &name, "the default branch")?;
    let reason = if base.hash == head { judged.to_owned() } else { format!("the merge base with {name}") };
    Ok(BaseCommit { reason, ..base })
}

/// The name of the default branch: as the job says, otherwise as the repository does, otherwise a usual one, or the only one. A job can
/// lack the branch that it names.
fn default_branch(place: &StartFolder, event: Option<&Value>) -> Option<String> {
    let of_event = event.and_then(|event| event.pointer("/repository/default_branch")).and_then(Value::as_str);
    if let Some(name) = of_event.map(str::to_owned).or_else(|| surroundings::variable("CI_DEFAULT_BRANCH")) {
        let of_origin = format!("origin/{name}");
        let is_only_here =
            git::commit(&mut place.git(), &of_origin).is_none() && git::commit(&mut place.git(), &name).is_some();
        return Some(if is_only_here { name } else { of_origin });
    }
    let of_origin =
        git::text(&mut place.git(), &["symbolic-ref", "--quiet", "--short", "refs/remotes/origin/HEAD"]).ok();
    let mut names = of_origin.into_iter().chain(USUAL_BRANCHES.map(str::to_owned));
    names.find(|name| git::commit(&mut place.git(), name).is_some()).or_else(|| only_branch(place))
}

/// The branch of a repository that has one, and none of a remote.
fn only_branch(place: &StartFolder) -> Option<String> {
    let branches =
        git::text(&mut place.git(), &["for-each-ref", "--format=%(refname)", "refs/heads", "refs/remotes"]).ok()?;
    let name = branches.strip_prefix("refs/heads/")?;
    (!name.contains('\n')).then(|| name.to_owned())
}
