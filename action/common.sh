# shellcheck shell=bash
# Shared by the scripts of the action. All their inputs are environment variables, so that they run, and are tested,
# without GitHub. They have to work with bash 3.2 (macOS) and the bash of Git for Windows.

# The bash of Git for Windows takes arguments that begin with a slash for its own paths. Here they are patterns and
# folders of the machine that recorded; all paths of this one are already those of Windows.
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

# The value of an input is one of the accepted ones, or an error names them: one_of INPUT VALUE ACCEPTED...
one_of() {
  local input=$1 value=$2 accepted='' one
  shift 2
  for one in "$@"; do
    if [ "$value" = "$one" ]; then
      return 0
    fi
    accepted=${accepted:+$accepted, }$one
  done
  error "$input: '$value' is not accepted; expected one of: $accepted"
  return 1
}

# valid_key INPUT VALUE: keys and names become part of an HTML comment and of arguments, so they may not end the one or
# look like an option.
valid_key() {
  local pattern='^[A-Za-z0-9][A-Za-z0-9._/-]*$'
  if [[ $2 =~ $pattern ]]; then
    return 0
  fi
  error "$1: '$2' is not accepted; expected letters, digits and . _ / -, a letter or digit first"
  return 1
}

# is_file PATH: whether this is a file, and no link to one elsewhere, whose text is nobody's to show.
is_file() { [ -f "$1" ] && ! [ -L "$1" ]; }

# Drops colours and carriage returns from the words of a program.
without_colours() { sed $'s/\033\\[[0-9;]*m//g' | tr -d '\r'; }

# A word that nobody can guess.
random_word() {
  printf 'ptmem-'
  od -An -N16 -tx1 /dev/urandom | tr -d ' \n'
}

# output NAME VALUE: an output of the step. It ends at a word that nobody can guess, so that no value, whatever lines it
# has, makes another output.
output_end=$(random_word)
output() {
  printf '%s<<%s\n%s\n%s\n' "$1" "$output_end" "$2" "$output_end" >> "${GITHUB_OUTPUT:-/dev/null}"
}

# without_commands LOG FOLDER COMMAND...: runs a command in a folder. Names of functions and files in its words come from
# the code under test. A line of them that looks like a workflow command must not be one, so commands are off until a word
# that nobody can guess. Both streams go the same way, as the order of two is not certain.
without_commands() {
  local log=$1 where=$2 word='' status=0
  shift 2
  if [ "${GITHUB_ACTIONS:-}" = true ]; then
    word=$(random_word)
    printf '::stop-commands::%s\n' "$word"
  fi
  (cd "$where" && "$@") 2>&1 | tee "$log" || status=${PIPESTATUS[0]}
  if [ -n "$word" ]; then
    printf '\n::%s::\n' "$word"
  fi
  return "$status"
}

# The address of this run.
run_address() {
  printf '%s/%s/actions/runs/%s' "${GITHUB_SERVER_URL:-https://github.com}" "${GITHUB_REPOSITORY:-}" "${GITHUB_RUN_ID:-}"
  case ${GITHUB_RUN_ATTEMPT:-1} in
    1) ;;
    *) printf '/attempts/%s' "$GITHUB_RUN_ATTEMPT" ;;
  esac
}

# The commit of the run: of a pull request its own, not the one that GitHub merges for the run.
commit_of_run() {
  local event=${GITHUB_EVENT_PATH:-} head=
  if [ -f "$event" ] && command -v jq > /dev/null; then
    head=$(jq -r '.pull_request.head.sha // empty' "$event" | tr -d '\r') || head=
  fi
  printf '%s' "${head:-${GITHUB_SHA:-}}"
}

# A folder of its own below RUNNER_TEMP. Windows gives RUNNER_TEMP with backslashes; slashes mean the same to all.
new_folder() {
  local temporary=${RUNNER_TEMP:-${TMPDIR:-/tmp}}
  mktemp -d "${temporary//\\//}/ptmem.XXXXXX"
}
