//! Variables that recorded programs do not get, and those that say nothing about the program.

/// Variables by which a step of a job speaks to its host, or that hold what is the host's alone, such as the token of a job of GitLab.
const OF_THE_HOST: [&str; 8] = [
    "GITHUB_OUTPUT",
    "GITHUB_ENV",
    "GITHUB_PATH",
    "GITHUB_STEP_SUMMARY",
    "GITHUB_STATE",
    "CI_REPOSITORY_URL",
    "CI_REGISTRY_PASSWORD",
    "CI_DEPENDENCY_PROXY_PASSWORD",
];

/// The same by the beginnings of their names.
const OF_THE_HOST_PREFIXES: [&str; 5] = ["ACTIONS_", "INPUT_", "PTMEM_TOKEN", "CI_JOB_TOKEN", "CI_JOB_JWT"];

/// True for a variable that recorded programs do not get.
pub(super) fn is_of_host(name: &str) -> bool {
    OF_THE_HOST.contains(&name) || OF_THE_HOST_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Variables that differ between runs and sessions, and say nothing about the program.
const OF_THE_RUN: &str = include_str!("variables.txt");

/// Variables by which one of several equal jobs chooses its part of the work, though their names begin as those above.
const OF_THE_PART: [&str; 3] = ["BITBUCKET_PARALLEL_*", "BUILDKITE_PARALLEL_*", "CIRCLE_NODE_*"];

/// True for a variable on which a recording can depend: the program gets it, and it does not only name the run.
pub(super) fn is_relevant(name: &str) -> bool {
    !is_of_host(name) && (matches_any(name, OF_THE_PART) || !matches_any(name, OF_THE_RUN.lines()))
}

fn matches_any<'a>(name: &str, patterns: impl IntoIterator<Item = &'a str>) -> bool {
    patterns.into_iter().any(|pattern| match pattern.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => name == pattern,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_names_the_run_is_irrelevant() {
        for name in ["SCALE", "CI", "GIT_LFS_SKIP_SMUDGE", "HF_HOME", "TERMINALS", "PATH", "TOKENIZER", "BUILD"] {
            assert!(is_relevant(name), "{name}");
        }
        // Jobs of one run that do different work.
        for name in ["CI_NODE_INDEX", "CI_JOB_NAME", "CI_BATCH", "BUILDKITE_PARALLEL_JOB", "CIRCLE_NODE_INDEX"] {
            assert!(is_relevant(name), "{name}");
        }
        for name in ["SYSTEM_JOBPOSITIONINPHASE", "BITBUCKET_PARALLEL_STEP", "STAGE_NAME", "AGENT_LAYERS"] {
            assert!(is_relevant(name), "{name}");
        }
        for name in ["BUILDKITE_JOB_ID", "CIRCLE_SHA1", "SYSTEM_JOBID", "BUILD_BUILDID", "PTMEM_QUEUED_EVENT"] {
            assert!(!is_relevant(name), "{name}");
        }
        for name in ["GITHUB_RUN_ID", "CI_PIPELINE_ID", "CI_JOB_TOKEN", "ACTIONS_RUNTIME_URL", "_", "TMUX_PANE"] {
            assert!(!is_relevant(name), "{name}");
        }
    }
}
