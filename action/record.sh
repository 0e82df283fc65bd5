# shellcheck shell=bash
# Runs the command of the input record on the base and on the checkout, each on a simulated GPU unless gpu is real.
# Its variables are those of run.sh.
# shellcheck disable=SC2034,SC2154
# Sourced by run.sh, after base.sh.

gpu=${PTMEM_GPU:-a100}
steps=${PTMEM_RECORD_STEPS:-all}
# pkl, or json where only the counters of both sides are wanted.
suffix=pkl
base_folder=
# The snapshot of the last recording, or the reason why there is none.
recorded=
record_reason=
# The reason why the base has no recording; empty if it has one. And the last lines of the command that failed there.
no_before=
base_failure=
# The log and the exit code of the last command that failed.
failed_log=/dev/null
failed_status=0
# Why it may not be the code of the base that failed.
base_doubt=

remove_base() {
  if [ -n "$base_folder" ]; then
    git worktree remove --force "$base_folder" > /dev/null 2>&1 || true
  fi
}

# The environment of the recording at hand, where the input install asks for one.
environment=

# in_environment COMMAND...: sets $prefixed to the command with the environment first on its path.
in_environment() {
  prefixed=("$@")
  if [ -n "$environment" ]; then
    local programs=$environment/bin
    [ -d "$programs" ] || programs=$environment/Scripts
    prefixed=(env "VIRTUAL_ENV=$environment" "PATH=$programs:$PATH" "$@")
  fi
}

# make_environment: a virtual environment, made by uv if it is installed, otherwise by Python.
make_environment() {
  if command -v uv > /dev/null; then
    uv venv --quiet --seed ${PTMEM_PYTHON_VERSION:+--python "$PTMEM_PYTHON_VERSION"} "$environment"
  elif command -v python3 > /dev/null; then
    python3 -m venv "$environment"
  else
    python -m venv "$environment"
  fi
}

# install SIDE COMMIT FOLDER: makes an environment for the side alone and runs the command of the input install in the folder
# of its commit, so that each side runs its own code with its own dependencies. Fails with the reason in $record_reason.
install() {
  local side=$1 commit=$2 where=$3 status=0
  environment=
  [[ ${PTMEM_INSTALL:-} =~ [^[:space:]] ]] || return 0
  environment=$folder/$side-environment
  printf '%s\n' "installing the $commit"
  failed_log=$folder/install.log
  failed_status=0
  if ! make_environment > "$folder/install.log" 2>&1; then
    record_reason="install: no virtual environment can be made: $(tail -n 20 "$folder/install.log")"
    return 1
  fi
  in_environment "${script_of_user[@]}" "$folder/install.sh"
  without_commands "$folder/install.log" "$where" "${prefixed[@]}" || status=$?
  if [ $status != 0 ]; then
    failed_status=$status
    record_reason="install: on the $commit the command ended with exit code $status:
$(tail -n 20 "$folder/install.log" | without_colours)"
    return 1
  fi
  check_imports "$commit" "$where"
}

# check_imports COMMIT FOLDER: names what the program imports and nobody installed, before it is recorded. Fails with the reason in
# $record_reason.
check_imports() {
  local word words=() missing status=0
  while IFS= read -r word; do
    words+=("$word")
  done < <(words_of_command)
  in_environment "${without_github[@]}" python "$imports" ${words[@]+"${words[@]}"}
  missing=$(cd "$2" && "${prefixed[@]}" 2> /dev/null | tr -d '\r') || status=$?
  if [ $status = 1 ] && [ -n "$missing" ]; then
    record_reason="install: on the $1 the program imports what is not installed:
$missing
$(line_to_add "$missing")"
    return 1
  fi
}

# line_to_add MODULES: the line of install that is missing, for modules that begin a line each.
line_to_add() {
  printf 'add to install (a package may be called otherwise than its module): ptmem pip install %s' \
    "$(awk '{ sub(/\..*/, "", $1); if (!seen[$1]++) printf "%s%s", (count++ ? " " : ""), $1 }' <<< "$1")"
}

imports=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/imports.py

# The words of the command, one per line.
words_of_command() { tr -s "[:space:]\"'();|&<>=" '\n' < "$folder/command.sh"; }

# The code under test gets none of the files through which a step talks to GitHub.
without_github=(env -u GITHUB_OUTPUT -u GITHUB_ENV -u GITHUB_PATH -u GITHUB_STEP_SUMMARY -u GITHUB_STATE)
# What runs a script of the user.
script_of_user=("${without_github[@]}" bash --noprofile --norc -eo pipefail)

# record SIDE COMMIT FOLDER: runs the command in the folder of a commit, for the before or the after, and sets $recorded to
# the snapshot, or to the folder of those of several ranks; fails with the reason in $record_reason.
record() {
  local side=$1 commit=$2 where=$3 status=0 missing
  recorded=
  install "$side" "$commit" "$where" || return 1
  rm -rf "${folder:?}/$side"
  mkdir -p "$folder/$side"
  export PTMEM_SNAPSHOT=$folder/$side/snapshot.$suffix
  local prefix=()
  if [ "$gpu" != real ]; then
    prefix=("$ptmem" simulate --gpu "$gpu")
    prefix+=(${simulate_words[@]+"${simulate_words[@]}"})
    case $steps in
      none) ;;
      all) prefix+=(--record "$PTMEM_SNAPSHOT") ;;
      *) prefix+=(--record "$PTMEM_SNAPSHOT,steps=$steps") ;;
    esac
    prefix+=(--)
  fi
  if [ $suffix = json ]; then
    printf '%s\n' "measuring the $commit"
  else
    printf '%s\n' "recording the $commit"
  fi
  failed_log=$folder/record.log
  in_environment ${prefix[@]+"${prefix[@]}"} "${script_of_user[@]}" "$folder/command.sh"
  without_commands "$folder/record.log" "$where" "${prefixed[@]}" || status=$?
  # It may take gigabytes, and the other side needs one, too.
  [ -z "$environment" ] || rm -rf "$environment"
  if [ $status != 0 ]; then
    failed_status=$status
    record_reason="record: on the $commit the command ended with exit code $status:
$(tail -n 20 "$folder/record.log" | without_colours)"
    # Imports that are not at the top of a file are found only now.
    missing=$(without_colours < "$folder/record.log" |
      sed -n "s/^ModuleNotFoundError: No module named '\([A-Za-z0-9_.]*\)'.*/\1/p" | tail -n 1)
    if [ -n "$missing" ] && [ -n "$environment" ]; then
      record_reason+=$'\n'$(line_to_add "$missing")
    fi
    return 1
  fi
  if [ -f "$PTMEM_SNAPSHOT" ]; then
    recorded=$PTMEM_SNAPSHOT
  elif [ -n "$(ls -A "$folder/$side")" ]; then
    recorded=$folder/$side
  else
    record_reason="record: on the $commit the command wrote no snapshot to the file that PTMEM_SNAPSHOT names"
    return 1
  fi
}

# record_base FOLDER: the before, or the reason in $no_before why there is none: the base has no such folder, or the command fails
# there, as on a base that the change repairs. ptmem decides whether the gate is new.
record_base() {
  if ! [ -d "$1" ]; then
    no_before="the base ${base:0:7} has no folder '$(git rev-parse --show-prefix)'"
  elif ! record before "base ${base:0:7}" "$1"; then
    base_failure=$record_reason
    no_before=${record_reason%%$'\n'*}
    no_before=${no_before%:}
    doubt_base "$1" "$failed_log" "$failed_status"
    no_before+=${base_doubt:+ (not excused: $base_doubt)}
  fi
}

# Words of what another run may not meet: the network and the disk.
elsewhere='no space left on device|disk quota exceeded|temporary failure in name resolution|could not resolve host|name or service not known'
elsewhere+='|network is unreachable|connection (was )?(refused|reset|timed out|aborted)|read timed out|newconnectionerror|readtimeout|connecttimeout'
elsewhere+='|remotedisconnected|incompleteread|max retries exceeded|too many requests|http error (429|5[0-9][0-9])|http 5[0-9][0-9]|operation timed out'

# doubt_base FOLDER FILE STATUS: sets $base_doubt if what failed on the base may not be its code: time, network or disk, or another
# version of Python than its own.
doubt_base() {
  local version words
  if [ "${3:-0}" -ge 128 ] || [ "${3:-0}" = 124 ]; then
    base_doubt="it was stopped, with exit code $3"
  elif words=$(grep -oiE -m 1 "$elsewhere" "$2" | head -n 1) && [ -n "$words" ]; then
    base_doubt="its log says '$words'"
  elif [ -n "${PTMEM_PYTHON_VERSION:-}" ] && [ "${PTMEM_PYTHON_FOUND:-}" = true ]; then
    version=$("$ptmem" init --print-python --folder "$1" 2> /dev/null | tr -d '\r') || version=
    [ "$version" = "$PTMEM_PYTHON_VERSION" ] || base_doubt="it asks for Python ${version:-of another version}, and had $PTMEM_PYTHON_VERSION"
  fi
}

# fails_by_itself: whether the base failed for no other reason than its code, and no profile of it can be stored.
fails_by_itself() {
  [ -z "$base_doubt" ] && { [ -z "$base_failure" ] || [ -z "$profiles" ] || [ -n "${PTMEM_PROFILES_FETCHED:-}" ]; }
}

# use_profile: takes the profile of the newest commit that has one as the before, in place of that of the base.
use_profile() {
  local stored=$folder/stored.ptmem.json
  find_profile "$profile_path" "$base" "$stored" || return 0
  before=$stored
  no_before+="; compared with the profile of ${profiled_commit:0:7}, the newest that is kept"
}

# is_of_trend: whether this is a push whose profile is to be kept: it was compared as a pull request.
is_of_trend() {
  [ "${GITHUB_EVENT_NAME:-}" = push ] && [ -z "${PTMEM_BASE:-}" ] && [ -n "$profiles" ]
}

# record_trend: adds the profile of the checkout to those that are kept, and ends with the trend. Of several ranks it is the
# first one's.
record_trend() {
  local first_rank commit
  commit=$(describe_commit)
  record after checkout "$PWD" || could_not_run "$record_reason"
  after=$recorded
  if [ -d "$recorded" ]; then
    for first_rank in "$recorded"/*; do
      recorded=$first_rank
      break
    done
  fi
  "$ptmem" profile "$recorded" -o "$folder/profile.json" > "$folder/log.txt" 2>&1 ||
    could_not_run "profiles: no profile can be made: $(without_colours < "$folder/log.txt")"
  base_folder=$folder/profiles
  {
    add_profile "$folder/profile.json" "$profile_path" "$commit" "$folder" &&
      git worktree add --quiet --detach "$base_folder" "$profiles_ref" &&
      "$ptmem" history --git "$base_folder/$profile_path" --last 50 --format markdown \
        --export "markdown=$folder/report.md" --export "html=$folder/report.html"
  } > "$folder/log.txt" 2>&1 || could_not_run "profiles: the trend is missing: $(without_colours < "$folder/log.txt")"
  notice "the profile of this commit is kept in the branch $profiles; nothing is judged on a push"
  output profile "$folder/profile.json"
  output profile-path "$profile_path"
  output profile-commit "$commit"
  output approved false
  output after "$after"
  output_page
  end_with pass 0
}

# record_sides FOLDER: the before and the after, of the folder of the base and of the checkout.
record_sides() {
  recorded=
  no_before=
  base_failure=
  base_doubt=
  record_base "$1"
  before=$recorded
  if ! record after checkout "$PWD"; then
    [[ $base_failure != record:* ]] || [[ $record_reason != record:* ]] || record_reason+="
the base could not be recorded, either; if the command cannot write a snapshot on a runner, record another one${name:+ or remove $name from the matrices of the workflow}"
    could_not_run "$record_reason"
  fi
  after=$recorded
}

# is_within_limits: whether the counters alone decide that every limit holds.
is_within_limits() {
  local exit_zero=false
  [ -z "$no_before" ] || return 1
  command_line
  "${comparison[@]}" > "$folder/log.txt" 2>&1
}

record_both() {
  local head prefix measures=false pattern='^([1-9][0-9]*(\.\.[1-9][0-9]*)?(,continue)?|all|none)(,measure)?$'
  if ! [[ $steps =~ $pattern ]]; then
    could_not_run "record-steps: '$steps' is not accepted; expected steps such as 3 or 3..5, all or none, with ,measure or without"
  fi
  [ "${steps%,measure}" = "$steps" ] || measures=true
  steps=${steps%,measure}
  printf '%s\n' "$PTMEM_RECORD" | tr -d '\r' > "$folder/command.sh"
  printf '%s\n' "${PTMEM_INSTALL:-}" | tr -d '\r' > "$folder/install.sh"
  profile_path=$(branch_of_run)/${name:-$key}.ptmem.json
  if [ -n "${PTMEM_PROFILES_FETCHED:-}" ]; then
    # Fails where there is no such branch yet.
    git fetch --quiet --no-tags --update-shallow "$PTMEM_PROFILES_FETCHED" "+$profiles_ref:$profiles_ref" > /dev/null 2>&1 || true
  fi
  ! is_of_trend || record_trend
  find_base || could_not_run "record: $base_reason"
  head=$(git rev-parse --show-toplevel)
  prefix=$(git rev-parse --show-prefix)
  base_folder=$folder/base-commit
  git -C "$head" worktree add --quiet --detach "$base_folder" "$base" > "$folder/worktree.log" 2>&1 || {
    base_folder=
    could_not_run "record: the base ${base:0:7} cannot be checked out: $(cat "$folder/worktree.log")"
  }
  [ $measures = false ] || suffix=json
  record_sides "$base_folder/$prefix"
  if [ $measures = true ] && ! is_within_limits; then
    printf 'the counters do not show that all limits hold: recording both sides with call stacks\n'
    suffix=pkl
    record_sides "$base_folder/$prefix"
  fi
  if [ -n "$no_before" ]; then
    warning "growth since the base is not judged: $no_before"
    use_profile
  fi
}
