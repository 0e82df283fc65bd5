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

/// Variables that differ between runs and sessions, and say nothing about the program. A * stands for the rest of a name. One that is
/// missing here costs another recording; one too many costs a wrong answer.
const OF_THE_RUN: &[&str] = &[
    // Runs of CI. Where no prefix is of one system alone, those that differ are listed.
    "GITHUB_*",
    "GH_TOKEN",
    "RUNNER_*",
    "CI_BUILDS_DIR",
    "CI_COMMIT_*",
    "CI_CONCURRENT_*",
    "CI_DEPENDENCY_PROXY_*",
    "CI_DEPLOY_*",
    "CI_EXTERNAL_PULL_REQUEST_*",
    "CI_JOB_ID",
    "CI_JOB_MANUAL",
    "CI_JOB_STARTED_AT",
    "CI_JOB_STATUS",
    "CI_JOB_URL",
    "CI_MERGE_REQUEST_*",
    "CI_OPEN_MERGE_REQUESTS",
    "CI_PIPELINE_*",
    "CI_PROJECT_*",
    "CI_REGISTRY_*",
    "CI_RELEASE_DESCRIPTION",
    "CI_RUNNER_*",
    "CI_SERVER_*",
    "CI_TRIGGER_*",
    "CI_UPSTREAM_*",
    "GITLAB_*",
    "AGENT_BUILDDIRECTORY",
    "AGENT_HOMEDIRECTORY",
    "AGENT_ID",
    "AGENT_JOBSTATUS",
    "AGENT_MACHINENAME",
    "AGENT_NAME",
    "AGENT_ROOTDIRECTORY",
    "AGENT_TEMPDIRECTORY",
    "AGENT_TOOLSDIRECTORY",
    "AGENT_VERSION",
    "AGENT_WORKFOLDER",
    "BITBUCKET_*",
    "BUILDKITE_*",
    "CIRCLE_*",
    "TRAVIS_*",
    "SYSTEM_ACCESSTOKEN",
    "SYSTEM_ARTIFACTSDIRECTORY",
    "SYSTEM_DEFAULTWORKINGDIRECTORY",
    "SYSTEM_DEFINITIONID",
    "SYSTEM_JOBATTEMPT",
    "SYSTEM_JOBID",
    "SYSTEM_OIDCREQUESTURI",
    "SYSTEM_PHASEATTEMPT",
    "SYSTEM_PIPELINESTARTTIME",
    "SYSTEM_PLANID",
    "SYSTEM_PULLREQUEST_*",
    "SYSTEM_STAGEATTEMPT",
    "SYSTEM_TASKINSTANCEID",
    "SYSTEM_TIMELINEID",
    "SYSTEM_WORKFOLDER",
    "BUILD_BUILD*",
    "BUILD_QUEUEDBY*",
    "BUILD_REASON",
    "BUILD_REQUESTEDFOR*",
    "BUILD_SOURCEBRANCH*",
    "BUILD_SOURCEVERSION*",
    "JENKINS_*",
    "HUDSON_*",
    "BUILD_DISPLAY_NAME",
    "BUILD_ID",
    "BUILD_NUMBER",
    "BUILD_TAG",
    "BUILD_URL",
    "BRANCH_IS_PRIMARY",
    "BRANCH_NAME",
    "CHANGE_AUTHOR*",
    "CHANGE_BRANCH",
    "CHANGE_FORK",
    "CHANGE_ID",
    "CHANGE_TARGET",
    "CHANGE_TITLE",
    "CHANGE_URL",
    "EXECUTOR_NUMBER",
    "JOB_BASE_NAME",
    "JOB_DISPLAY_URL",
    "JOB_NAME",
    "JOB_URL",
    "NODE_NAME",
    "ghprb*",
    "gitlab*",
    "RUN_ARTIFACTS_DISPLAY_URL",
    "RUN_CHANGES_DISPLAY_URL",
    "RUN_DISPLAY_URL",
    "RUN_TESTS_DISPLAY_URL",
    "PRE_COMMIT*",
    "PTMEM_QUEUED_EVENT",
    // Credentials that each run gets anew.
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "GOOGLE_GHA_CREDS_PATH",
    "CLOUDSDK_AUTH_CREDENTIAL_FILE_OVERRIDE",
    // Of the commit, and of git where it calls ptmem.
    "GIT_ASKPASS",
    "GIT_AUTHOR_*",
    "GIT_BRANCH",
    "GIT_COMMIT",
    "GIT_COMMITTER_*",
    "GIT_DIR",
    "GIT_EDITOR",
    "GIT_EXEC_PATH",
    "GIT_INDEX_FILE",
    "GIT_LOCAL_BRANCH",
    "GIT_PREFIX",
    "GIT_PREVIOUS_*",
    "GIT_REFLOG_ACTION",
    "GIT_WORK_TREE",
    // Shells and machines.
    "_",
    "HOSTNAME",
    "OLDPWD",
    "PWD",
    "SHLVL",
    "TMPDIR",
    "INVOCATION_ID",
    "JOURNAL_STREAM",
    "MANAGERPID",
    "SYSTEMD_EXEC_PID",
    "LSB_JOBID",
    "PBS_JOBID",
    "SLURM_JOBID",
    "SLURM_JOB_ID",
    // Terminals and sessions.
    "ALACRITTY_WINDOW_ID",
    "ATUIN_SESSION",
    "CLICOLOR*",
    "COLORTERM",
    "COLUMNS",
    "DBUS_SESSION_BUS_ADDRESS",
    "DISPLAY",
    "FORCE_COLOR",
    "GNOME_TERMINAL_*",
    "GPG_TTY",
    "ITERM_*",
    "JPY_PARENT_PID",
    "KITTY_*",
    "KONSOLE_*",
    "LINES",
    "LS_COLORS",
    "NO_COLOR",
    "SSH_*",
    "STARSHIP_SESSION_KEY",
    "STY",
    "TERM",
    "TERM_*",
    "TMUX*",
    "VSCODE_*",
    "WAYLAND_DISPLAY",
    "WEZTERM_*",
    "WINDOWID",
    "WSL_INTEROP",
    "WT_SESSION",
    "XAUTHORITY",
    "XDG_RUNTIME_DIR",
    "XDG_SESSION_*",
    "ZELLIJ*",
];

/// Variables by which one of several equal jobs chooses its part of the work, though their names begin as those above.
const OF_THE_PART: &[&str] = &["BITBUCKET_PARALLEL_*", "BUILDKITE_PARALLEL_*", "CIRCLE_NODE_*"];

/// True for a variable on which a recording can depend: the program gets it, and it does not only name the run.
pub(super) fn is_relevant(name: &str) -> bool {
    !is_of_host(name) && (is_among(name, OF_THE_PART) || !is_among(name, OF_THE_RUN))
}

fn is_among(name: &str, all: &[&str]) -> bool {
    all.iter().any(|known| match known.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => name == *known,
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
