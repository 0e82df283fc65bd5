//! The commit that `ptmem gate` compares with, where nobody names it.

use std::process::Output;

use serde_json::json;

use super::gate::{Checkout, GATE, pull_request, read};
use crate::support::fixtures;
use crate::support::tool::{git, text};

/// A checkout whose branch `feature` has a commit that grows, and leaves another branch.
fn feature(of: &str) -> Checkout {
    let checkout = Checkout::new("before.pkl");
    git(&checkout.root(), &["branch", "--move", of]);
    git(&checkout.root(), &["checkout", "--quiet", "-b", "feature"]);
    checkout.copies("after.pkl");
    checkout.commit("grow");
    checkout
}

/// A checkout that has nothing but that branch.
fn feature_alone() -> Checkout {
    let checkout = feature("main");
    git(&checkout.root(), &["update-ref", "refs/remotes/origin/feature", "HEAD"]);
    git(&checkout.root(), &["branch", "--quiet", "-D", "main"]);
    checkout
}

#[track_caller]
fn ends(output: &Output, code: i32, message: &str) {
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{}{stderr}", text(&output.stdout));
    assert!(stderr.contains(message), "{stderr}");
}

#[test]
fn a_change_is_not_compared_with_itself_where_the_default_branch_is_unknown() {
    let checkout = feature("trunk");
    ends(&checkout.run(&[]), 2, "the default branch is not known");
    ends(&checkout.run(&["--base", "trunk"]), 1, ", --base");
    git(&checkout.root(), &["update-ref", "refs/remotes/origin/trunk", "trunk"]);
    git(&checkout.root(), &["symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/trunk"]);
    ends(&checkout.run(&[]), 1, ", the merge base with origin/trunk");
}

#[test]
fn the_only_branch_is_the_default_one() {
    let checkout = Checkout::new("before.pkl");
    git(&checkout.root(), &["branch", "--move", "users/trunk"]);
    checkout.copies("after.pkl");
    ends(&checkout.run(&[]), 1, ", HEAD");
    // In a clone of one branch, others may not be here.
    git(&checkout.root(), &["update-ref", "refs/remotes/origin/users/trunk", "HEAD"]);
    ends(&checkout.run(&[]), 2, "the default branch is not known");
}

#[test]
fn a_job_names_the_default_branch() {
    let checkout = feature_alone();
    let base = git(&checkout.root(), &["rev-parse", "HEAD~1"]);
    let event = json!({ "ref": "refs/heads/feature", "repository": { "default_branch": "trunk" } });
    let missing = "the default branch, origin/trunk: the checkout lacks it";
    ends(&checkout.job("workflow_dispatch", &event, &[]).0, 2, missing);
    let mut command = checkout.command(&[]);
    command.env("CI_DEFAULT_BRANCH", "trunk");
    ends(&command.output().unwrap(), 2, missing);
    git(&checkout.root(), &["update-ref", "refs/remotes/origin/trunk", &base]);
    ends(&checkout.job("workflow_dispatch", &event, &[]).0, 1, ", the merge base with origin/trunk");
    ends(&command.output().unwrap(), 1, ", the merge base with origin/trunk");
}

#[test]
fn a_default_branch_without_a_common_commit_is_an_error() {
    let checkout = feature("main");
    git(&checkout.root(), &["checkout", "--quiet", "main"]);
    let origin = format!("file://{}", checkout.root().display());
    let clone = checkout.folder.path().join("clone");
    let arguments = ["clone", "--quiet", "--depth", "1", "--no-single-branch", "--branch", "feature", &origin];
    git(checkout.folder.path(), &[&arguments[..], &[clone.to_str().unwrap()]].concat());
    let mut command = checkout.command(&[]);
    ends(
        &command.current_dir(&clone).output().unwrap(),
        2,
        "the default branch, origin/main: the checkout lacks it, or the history",
    );
}

#[test]
fn without_the_base_the_edits_of_a_pull_request_are_not_shown_and_it_says_so() {
    let checkout = Checkout::new("before.pkl");
    std::fs::copy(fixtures::folder().join("before.pkl"), checkout.root().join("a.pkl")).unwrap();
    checkout.write("ptmem.toml", "[gate.a]\nbefore = \"a.pkl\"\nafter = \"a.pkl\"\n");
    let (output, folder) = checkout.job("pull_request", &pull_request(&"7".repeat(40), &[]), &[]);
    ends(&output, 0, "");
    assert_reads!(read(&folder.join("comment.md")) => str![[r#"
<!-- ptmem:default -->
### ✅ PASS: a: peak did not change, allowed 5 %

> ⚠️ a: this change may edit what its verdict is computed by; the edits cannot be shown: the base of the pull request, 7777777777777777777777777777777777777777: the checkout lacks it, or the history back to it; fetch it (in GitHub Actions with fetch-depth: 2 of actions/checkout for a pull request, otherwise 0), or give another --base (`gate-changed`)

> ⚠️ a: before and after are the same file: nothing can have changed (`same-input`)
"#]]);
    let outputs = read(&folder.join("outputs.txt"));
    assert!(outputs.contains("announce=true"), "{outputs}");
    // Elsewhere nobody reviews a change.
    let event = json!({ "repository": { "default_branch": "trunk" } });
    let (output, _) = checkout.job("workflow_dispatch", &event, &[]);
    assert!(!text(&output.stdout).contains("gate-changed") && output.status.success(), "{}", text(&output.stdout));
}

#[test]
fn an_edited_configuration_that_an_option_names_is_shown() {
    let checkout = Checkout::new("before.pkl");
    checkout.write("ci/gates.toml", &format!("max-growth = \"5%\"\n{GATE}"));
    checkout.commit("gates");
    git(&checkout.root(), &["checkout", "--quiet", "-b", "feature"]);
    checkout.write("ci/gates.toml", &format!("max-growth = \"500%\"\n{GATE}"));
    checkout.commit("looser");
    let output = checkout.run(&["--config", "ci/gates.toml"]);
    let remark = "warning[gate-changed] this change edits what its verdict is computed by: ci/gates.toml\n";
    assert!(text(&output.stdout).contains(remark), "{}", text(&output.stdout));
}

#[test]
fn a_merged_result_is_compared_with_the_branch_that_it_merges_into() {
    let checkout = Checkout::new("before.pkl");
    let begin = git(&checkout.root(), &["rev-parse", "HEAD"]);
    git(&checkout.root(), &["checkout", "--quiet", "-b", "feature"]);
    checkout.write("README", "no memory");
    let source = checkout.commit("document");
    git(&checkout.root(), &["checkout", "--quiet", "main"]);
    checkout.copies("after.pkl");
    let target = checkout.commit("grow");
    git(&checkout.root(), &["checkout", "--quiet", "--detach"]);
    git(&checkout.root(), &["merge", "--quiet", "--no-ff", "--message", "merged result", "feature"]);
    let mut command = checkout.command(&[]);
    command.env("CI_MERGE_REQUEST_DIFF_BASE_SHA", &begin);
    command.env("CI_MERGE_REQUEST_TARGET_BRANCH_SHA", &target).env("CI_MERGE_REQUEST_SOURCE_BRANCH_SHA", &source);
    let base = format!("the base is {}, the base of the merge request", &target[..10]);
    ends(&command.output().unwrap(), 0, &base);
    // In a merge train, other changes stand between the target and the merge.
    command.env("CI_MERGE_REQUEST_TARGET_BRANCH_SHA", &begin);
    ends(&command.output().unwrap(), 0, &base);
    // The pipeline of the branch alone has neither variable.
    git(&checkout.root(), &["checkout", "--quiet", "feature"]);
    command.env("CI_MERGE_REQUEST_TARGET_BRANCH_SHA", "").env("CI_MERGE_REQUEST_SOURCE_BRANCH_SHA", "");
    ends(&command.output().unwrap(), 0, &format!("the base is {}, the base of the merge request", &begin[..10]));
}

/// As in a clone of one branch, which takes it for the default one.
#[test]
fn a_gate_that_judges_no_change_says_so() {
    let checkout = feature_alone();
    git(&checkout.root(), &["symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/feature"]);
    let base = git(&checkout.root(), &["rev-parse", "HEAD"]);
    let warning = |arguments: &[&str]| {
        let output = checkout.run(arguments);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let report = text(&output.stdout);
        let line = report.lines().find(|line| line.starts_with("warning[same-input]"));
        line.unwrap_or_default().replace(&base[..10], "BASE")
    };
    assert_reads!(warning(&["--strict"]) => str!["warning[same-input] the working tree has the code of the base BASE: no file in git differs, and no Python file is new; to compare with another commit, give --base"]);
    assert_reads!(warning(&["--head", "feature"]) => str!["warning[same-input] feature has the code of the base BASE: no file in git differs, and no Python file is new; to compare with another commit, give --base"]);
    checkout.write("train.py", "");
    assert_eq!(warning(&[]), "");
    git(&checkout.root(), &["add", "train.py"]);
    assert_eq!(warning(&[]), "");
    git(&checkout.root(), &["checkout", "--quiet", "--detach", "HEAD~1"]);
    ends(&checkout.run(&["--head", "feature"]), 0, ", feature\n");
}

#[test]
fn a_folder_without_a_configuration_has_no_gate() {
    let checkout = Checkout::new("before.pkl");
    std::fs::remove_file(checkout.root().join("ptmem.toml")).unwrap();
    assert_reads!(text(&checkout.run(&[]).stderr) => str!["error: there is no gate: no ptmem.toml is read; give a command, such as ptmem gate -- python train.py, or write a gate with 'ptmem init'"]);
}

/// As in containers, which may lack git or have the files of another user.
#[cfg(unix)]
#[test]
fn a_git_that_is_missing_or_refuses_the_checkout_is_named() {
    let checkout = Checkout::new("before.pkl");
    let root = checkout.root().canonicalize().unwrap().display().to_string();
    let error = |name: &str, value: &str, arguments: &[&str]| {
        let output = checkout.command(arguments).env(name, value).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", text(&output.stdout));
        text(&output.stderr).replace(&root, "ROOT")
    };
    assert_reads!(error("PATH", "/nowhere", &[]) => str!["error: the program git cannot be run: No such file or directory (os error 2)"]);
    assert_reads!(error("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1", &["--base", "HEAD~1"]) => str!["error: git rev-parse: detected dubious ownership in repository at 'ROOT' To add an exception for this directory, call: git config --global --add safe.directory ROOT"]);
}
