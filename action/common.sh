# shellcheck shell=bash
# Shared by the scripts of the action. All their inputs are environment variables, so that they run, and are tested,
# without GitHub. They have to work with bash 3.2 (macOS) and the bash of Git for Windows.

# The bash of Git for Windows takes arguments that begin with a slash for its own paths.
export MSYS2_ARG_CONV_EXCL='*'

# A workflow command ends at the end of its line, so these characters are escaped in messages.
workflow_command() {
  local message=$2
  message=${message//'%'/%25}
  message=${message//$'\r'/%0D}
  message=${message//$'\n'/%0A}
  printf '::%s::%s\n' "$1" "$message"
}

notice() { workflow_command notice "ptmem: $1"; }
warning() { workflow_command warning "ptmem: $1"; }
error() { workflow_command error "ptmem: $1"; }

# is_file PATH: whether this is a file, and no link to one elsewhere, whose text is nobody's to show.
is_file() { [ -f "$1" ] && ! [ -L "$1" ]; }

# A word that nobody can guess.
random_word() {
  printf 'ptmem-'
  od -An -N16 -tx1 /dev/urandom | tr -d ' \n'
}

# output NAME VALUE: an output of the step. It ends at a word that nobody can guess, so no value makes another output.
output_end=$(random_word)
output() {
  printf '%s<<%s\n%s\n%s\n' "$1" "$output_end" "$2" "$output_end" >> "${GITHUB_OUTPUT:-/dev/null}"
}

# event FILTER: a value of the event that started the run; empty without one.
event() {
  if [ -f "${GITHUB_EVENT_PATH:-}" ] && command -v jq > /dev/null; then
    jq -r "$1 // empty" "$GITHUB_EVENT_PATH" 2> /dev/null | tr -d '\r' || true
  fi
}

# A folder of its own below RUNNER_TEMP. Windows gives RUNNER_TEMP with backslashes; slashes mean the same to all.
new_folder() {
  local temporary=${RUNNER_TEMP:-${TMPDIR:-/tmp}}
  mktemp -d "${temporary//\\//}/ptmem.XXXXXX"
}
