//! The run of GitHub Actions or GitLab that the program is part of, read from its environment.

use std::{env, fs};

use anyhow::{Context, Result};
use ptmem::report::{Approval, CiRun};
use serde_json::Value;

/// A variable that is there and not empty.
pub(super) fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// The event that started the run; none outside of GitHub Actions.
pub(super) fn event() -> Result<Option<Value>> {
    let Some(path) = variable("GITHUB_EVENT_PATH") else { return Ok(None) };
    let text =
        fs::read_to_string(&path).with_context(|| format!("{path}: the event of GitHub Actions cannot be read"))?;
    let event =
        serde_json::from_str(&text).with_context(|| format!("{path}: the event of GitHub Actions is not JSON"))?;
    Ok(Some(event))
}

/// Whether the run is one of a change: of a pull request, a merge queue or a merge request.
pub(super) fn is_change() -> bool {
    let event = event().ok().flatten();
    let is_of_event =
        event.is_some_and(|event| ["pull_request", "merge_group"].iter().any(|key| event.get(key).is_some()));
    is_of_event || variable("CI_MERGE_REQUEST_IID").is_some()
}

/// The run with its addresses; none outside of GitHub Actions and GitLab.
pub(super) fn run() -> Option<CiRun> {
    run_of_github().or_else(run_of_gitlab)
}

/// A job of GitLab, whose addresses have a dash between the project and what they lead to.
fn run_of_gitlab() -> Option<CiRun> {
    let repository = format!("{}/-", variable("CI_PROJECT_URL")?.trim_end_matches('/'));
    let commit = variable("CI_COMMIT_SHA").filter(|commit| commit.chars().all(|c| c.is_ascii_alphanumeric()))?;
    Some(CiRun { commit, log: variable("CI_JOB_URL")?, repository })
}

fn run_of_github() -> Option<CiRun> {
    let server = variable("GITHUB_SERVER_URL")?;
    let repository = format!("{}/{}", server.trim_end_matches('/'), variable("GITHUB_REPOSITORY")?);
    let id = variable("GITHUB_RUN_ID")?;
    let attempt = variable("GITHUB_RUN_ATTEMPT").filter(|attempt| attempt != "1");
    let attempt = attempt.map(|attempt| format!("/attempts/{attempt}")).unwrap_or_default();
    // GitHub merges a pull request for its run; people know its own commit.
    let event = event().ok().flatten();
    let head = event.as_ref().and_then(|event| event.pointer("/pull_request/head/sha")).and_then(Value::as_str);
    let commit = head.map(str::to_owned).or_else(|| variable("GITHUB_SHA"))?;
    let is_plain = commit.chars().all(|c| c.is_ascii_alphanumeric());
    is_plain.then(|| CiRun { commit, log: format!("{repository}/actions/runs/{id}{attempt}"), repository })
}

/// The path of the workflow that runs, from the root of the repository; none where it is of another one or not known.
pub(super) fn workflow() -> Option<String> {
    workflow_in(&variable("GITHUB_WORKFLOW_REF")?, &variable("GITHUB_REPOSITORY")?)
}

/// `owner/name/PATH@ref` of the repository `owner/name`.
fn workflow_in(whole: &str, repository: &str) -> Option<String> {
    let path = whole.strip_prefix(repository)?.strip_prefix('/')?;
    Some(path.split_once('@')?.0.to_owned())
}

/// The approval by a label, where the pull request of the event has it.
pub(super) fn approval(label: &str) -> Result<Option<Approval>> {
    Ok(event()?.and_then(|event| approval_in(&event, label)))
}

fn approval_in(event: &Value, label: &str) -> Option<Approval> {
    let labels = event.pointer("/pull_request/labels")?.as_array()?;
    if !labels.iter().any(|one| one["name"].as_str() == Some(label)) {
        return None;
    }
    let was_set_now = event["action"] == "labeled" && event["label"]["name"].as_str() == Some(label);
    let sender = event.pointer("/sender/login").and_then(Value::as_str);
    let by = sender.filter(|_| was_set_now).map(str::to_owned);
    Some(Approval { label: label.to_owned(), by, passes: true })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_running_workflow_is_one_of_the_repository() {
        let whole = "owner/name/.github/workflows/a.yml@refs/pull/1/merge";
        assert_eq!(workflow_in(whole, "owner/name").as_deref(), Some(".github/workflows/a.yml"));
        assert_eq!(workflow_in(whole, "owner/other"), None);
        assert_eq!(workflow_in(whole, "owner/nam"), None);
    }

    #[test]
    fn the_label_approves_and_its_event_says_who_set_it() {
        let with = json!({"labels": [{"name": "other"}, {"name": "ok"}]});
        let set =
            json!({"action": "labeled", "label": {"name": "ok"}, "pull_request": with, "sender": {"login": "ann"}});
        assert_eq!(approval_in(&set, "ok").unwrap().by.as_deref(), Some("ann"));
        // Who pushes later has not approved.
        let push = json!({"action": "synchronize", "pull_request": with, "sender": {"login": "bob"}});
        assert_eq!(approval_in(&push, "ok").unwrap().by, None);
        let other =
            json!({"action": "labeled", "label": {"name": "other"}, "pull_request": with, "sender": {"login": "bob"}});
        assert_eq!(approval_in(&other, "ok").unwrap().by, None);
        assert_eq!(approval_in(&set, "no"), None);
        assert_eq!(approval_in(&json!({"ref": "refs/heads/main"}), "ok"), None);
    }
}
