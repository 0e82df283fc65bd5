//! The definitions of the actions, and the page about them.

use std::fs;

use super::root;

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
        assert!(inputs.len() >= 4, "{inputs:?}");
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
    assert_eq!((inputs.len(), outputs.len()), (24, 12));
    for name in inputs.iter().chain(&outputs) {
        assert!(page.contains(&format!("| `{name}` |")), "{name} is missing");
    }
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
