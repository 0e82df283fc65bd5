//! The definitions of the actions, and the page about them.

use std::fs;
use std::process::Command;

use super::{root, skipped};
use crate::support::tool::{ptmem, say};

/// The names below `section:` of a definition.
fn names(definition: &str, section: &str) -> Vec<String> {
    let lines = definition.lines().skip_while(|line| *line != format!("{section}:")).skip(1);
    let lines = lines.take_while(|line| line.is_empty() || line.starts_with(' '));
    lines
        .filter_map(|line| line.strip_prefix("  ")?.strip_suffix(':'))
        .filter(|name| !name.starts_with(' '))
        .map(str::to_owned)
        .collect()
}

#[test]
fn inputs_reach_the_scripts_only_through_the_environment() {
    for file in ["action.yml", "comment/action.yml"] {
        let text = fs::read_to_string(root().join(file)).unwrap();
        let runs: Vec<_> = text.lines().filter(|line| line.trim_start().starts_with("run:")).collect();
        assert!(!runs.is_empty());
        for line in runs {
            assert!(line.contains("bash \"$GITHUB_ACTION_PATH/") && !line.contains("${{"), "{line}");
        }
        let inputs = names(&text, "inputs");
        assert!(inputs.len() >= 3, "{inputs:?}");
        for input in inputs {
            assert!(text.contains(&format!(": ${{{{ inputs.{input} }}}}\n")), "{file}: {input} is not used");
        }
    }
}

#[test]
fn the_page_for_users_lists_every_input_and_output() {
    let page = fs::read_to_string(root().join("docs/github-action.md")).unwrap();
    let text = fs::read_to_string(root().join("action.yml")).unwrap();
    let (inputs, outputs) = (names(&text, "inputs"), names(&text, "outputs"));
    assert_eq!((inputs.len(), outputs.len()), (10, 8));
    for name in inputs.iter().chain(&outputs) {
        assert!(page.contains(&format!("| `{name}` |")), "{name} is missing");
    }
}

/// A reader of the workflow can follow all of it.
#[test]
fn the_scripts_are_short() {
    let files = fs::read_dir(root().join("action")).unwrap().map(|file| file.unwrap().path());
    let scripts = files.filter(|file| file.extension().is_some_and(|ending| ending == "sh"));
    let lines: usize = scripts.map(|script| fs::read_to_string(script).unwrap().lines().count()).sum();
    assert!(lines <= 600, "{lines}");
}

#[test]
fn the_python_package_is_quick_to_build_and_a_release_is_fast() {
    let project = fs::read_to_string(root().join("pyproject.toml")).unwrap();
    assert!(project.contains("\nprofile = \"release\"\n"), "{project}");
    let release = fs::read_to_string(root().join(".github/workflows/build.yml")).unwrap();
    assert!(release.contains("maturin build --profile dist "), "{release}");
}

#[test]
fn moving_the_tag_of_a_major_version_starts_no_release() {
    let release = fs::read_to_string(root().join(".github/workflows/release.yml")).unwrap();
    let tags = release.lines().find_map(|line| line.trim().strip_prefix("tags: ")).unwrap();
    let pattern = tags.trim_matches(['[', ']', '\'', '"']);
    let pattern = globset::Glob::new(pattern).unwrap().compile_matcher();
    assert!(pattern.is_match("v0.2.0") && !pattern.is_match("v0") && !pattern.is_match("v12"));
    // A release moves it, once it is public.
    let moves = fs::read_to_string(root().join(".github/workflows/major-tag.yml")).unwrap();
    assert!(moves.contains("types: [released]") && moves.contains("contents: write"));
}

#[test]
fn the_first_release_leaves_nothing_of_what_held_before() {
    if skipped() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let files = ["README.md", "docs", "python/README.md", "src/leaves/init", ".github/zizmor.yml", ".ci/first-release"];
    let copied =
        Command::new("cp").args(["-r", "--parents"]).args(files).arg(place.path()).current_dir(root()).status();
    if !copied.is_ok_and(|status| status.success()) {
        say("skipped: no cp of GNU to copy the pages with");
        return;
    }
    let script = place.path().join(".ci/first-release");
    for wrong in [&[][..], &["OWNER"], &["some one"]] {
        assert_eq!(Command::new(&script).args(wrong).output().unwrap().status.code(), Some(2), "{wrong:?}");
    }
    let output = Command::new(&script).arg("someone").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    let page = |name: &str| fs::read_to_string(place.path().join(name)).unwrap();
    let readme = page("README.md");
    assert!(readme.contains("uses: someone/ptmem@v0\n") && readme.contains("`pip install ptmem-gate`"), "{readme}");
    assert!(!readme.contains("There is no release yet") && !readme.contains("-->"), "{readme}");
    assert!(page("docs/getting-started.md").contains("pip install ptmem-gate uv\n"));
    assert!(page("docs/python.md").contains("\n`pip install ptmem-gate` installs it.\n"));
    assert!(page("python/README.md").contains("```sh\npip install ptmem-gate\n```\n\nIt has"));
    assert!(page("src/leaves/init/templates/github.yml").contains("uses: someone/ptmem@v0\n"));
    // What is left over is found.
    fs::write(place.path().join("docs/new.md"), "Clone ../ptmem first.\n").unwrap();
    assert_eq!(Command::new(&script).arg("someone").output().unwrap().status.code(), Some(1));
}

/// Jobs with gates, a folder or a matrix of their own have artifacts of other names.
#[test]
fn workflows_that_comment_take_the_artifacts_of_all_jobs() {
    for file in
        ["src/leaves/init/templates/github.yml", "docs/examples/without-gpu.yml", "docs/examples/comment-from-fork.yml"]
    {
        let text = fs::read_to_string(root().join(file)).unwrap();
        let folder = "${{ runner.temp }}/ptmem-comment\n";
        for line in [
            "pattern: ptmem-comment*\n",
            "merge-multiple: true\n",
            &format!("path: {folder}"),
            &format!("report: {folder}"),
        ] {
            assert!(text.contains(line), "{file}: {line}");
        }
    }
}

/// A pull request runs all gates of ptmem.toml, and has no snapshot of the night.
#[test]
fn the_nightly_example_has_a_configuration_of_its_own() {
    let text = fs::read_to_string(root().join("docs/examples/nightly.yml")).unwrap();
    let configuration: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("#   ")).collect();
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("nightly.toml"), configuration.join("\n")).unwrap();
    fs::copy(root().join("fixtures/after.pkl"), folder.path().join("snapshot.pkl")).unwrap();
    let options = text.lines().find_map(|line| line.trim().strip_prefix("args: ")).unwrap();
    let arguments: Vec<&str> = ["gate"].into_iter().chain(options.split(' ')).collect();
    assert_eq!(arguments, ["gate", "--config", "nightly.toml"]);
    let output = ptmem(folder.path(), &arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The base of a merge queue can be any number of commits back.
#[test]
fn the_workflow_of_a_merge_queue_checks_out_the_history() {
    let text = fs::read_to_string(root().join("src/leaves/init/templates/github.yml")).unwrap();
    assert!(text.contains("\n  merge_group:\n"));
    assert!(text.contains(" fetch-depth: ${{ github.event_name == 'pull_request' && 2 || 0 }}\n"));
}
