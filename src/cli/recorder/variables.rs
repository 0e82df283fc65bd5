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
const OF_THE_RUN: [&str; 74] = [
    // Runs of CI, of which those of GitHub and GitLab have prefixes of their own.
    "GITHUB_*",
    "GH_TOKEN",
    "RUNNER_*",
    "CI_*",
    "GITLAB_*",
    "JENKINS_*",
    "HUDSON_*",
    "BUILD_DISPLAY_NAME",
    "BUILD_ID",
    "BUILD_NUMBER",
    "BUILD_TAG",
    "BUILD_URL",
    "EXECUTOR_NUMBER",
    "RUN_ARTIFACTS_DISPLAY_URL",
    "RUN_CHANGES_DISPLAY_URL",
    "RUN_DISPLAY_URL",
    "RUN_TESTS_DISPLAY_URL",
    "PRE_COMMIT*",
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
    // Terminals and sessions.
    "CLICOLOR*",
    "COLORTERM",
    "COLUMNS",
    "DBUS_SESSION_BUS_ADDRESS",
    "DISPLAY",
    "FORCE_COLOR",
    "GNOME_TERMINAL_*",
    "GPG_TTY",
    "ITERM_*",
    "KITTY_*",
    "KONSOLE_*",
    "LINES",
    "LS_COLORS",
    "NO_COLOR",
    "SSH_*",
    "STY",
    "TERM",
    "TERM_*",
    "TMUX*",
    "VSCODE_*",
    "WAYLAND_DISPLAY",
    "WEZTERM_*",
    "WINDOWID",
    "WT_SESSION",
    "XAUTHORITY",
    "XDG_RUNTIME_DIR",
    "XDG_SESSION_*",
];

/// True for a variable on which a recording can depend: the program gets it, and it does not only name the run.
pub(super) fn is_relevant(name: &str) -> bool {
    let only_names_run = OF_THE_RUN.iter().any(|known| match known.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => name == *known,
    });
    !only_names_run && !is_of_host(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_names_the_run_is_irrelevant() {
        for name in ["SCALE", "CI", "GIT_LFS_SKIP_SMUDGE", "HF_HOME", "TERMINALS", "PATH", "TOKENIZER", "BUILD"] {
            assert!(is_relevant(name), "{name}");
        }
        for name in ["GITHUB_RUN_ID", "CI_PIPELINE_ID", "CI_JOB_TOKEN", "ACTIONS_RUNTIME_URL", "_", "TMUX_PANE"] {
            assert!(!is_relevant(name), "{name}");
        }
    }
}
