# shellcheck shell=bash
# Puts the command line of the tool together, in $command. Sourced by run.sh, whose variables these are.
# shellcheck disable=SC2034,SC2154

# add_path PATH: a file whose name begins with a dash is neither an option nor standard input.
add_path() {
  case $1 in
    -*) command+=("./$1") ;;
    *) command+=("$1") ;;
  esac
}

add_limit() { command+=(--max-growth "$1"); }

# add_lines FUNCTION TEXT: calls the function with each line. Lines of YAML come with blanks around them.
add_lines() {
  local line
  while IFS= read -r line; do
    line=${line#"${line%%[![:space:]]*}"}
    line=${line%"${line##*[![:space:]]}"}
    if [ -n "$line" ]; then
      "$1" "$line"
    fi
  done <<< "$2"
}

add_file() { files+=("$1"); }

# one_line TEXT: the line of a text that has one; of several a list in JSON, which is one line.
one_line() {
  local files=()
  add_lines add_file "$1"
  if [ ${#files[@]} -le 1 ]; then
    printf '%s' "${files[0]-}"
    return 0
  fi
  printf '%s\n' "${files[@]}" | tr -d '\000-\010\013-\037' |
    awk '{ gsub(/\\/, "&&"); gsub(/"/, "\\\""); gsub(/\t/, "\\t"); printf "%s\"%s\"", (NR > 1 ? "," : "["), $0 } END { print "]" }'
}

# add_inputs: the snapshots, and the limits that have an input of their own.
add_inputs() {
  if [ -n "$no_before" ]; then
    [ -z "$before" ] || add_path "$before"
    add_path "$after"
    command+=(--no-before "$no_before")
    if [ -z "$before" ] && fails_by_itself; then
      command+=("--first=$PTMEM_RECORD")
      ! [[ ${PTMEM_INSTALL:-} =~ [^[:space:]] ]] || command+=("--first=$PTMEM_INSTALL")
    fi
    add_lines add_limit "${PTMEM_MAX_GROWTH:-}"
  elif [ "$subcommand" = diff ]; then
    if [ -n "$before" ] && [ -n "$after" ]; then
      add_path "$before"
      add_path "$after"
    elif [ -n "$before$after" ]; then
      could_not_run "before and after: both are needed, or neither with --suite in args"
    elif [ "$suite" = false ]; then
      could_not_run "before and after: these inputs are required, unless args holds --suite"
    fi
    add_lines add_limit "${PTMEM_MAX_GROWTH:-}"
  elif [ -n "$before" ]; then
    could_not_run "before: ptmem $subcommand compares with no before; give the snapshot as after"
  elif [[ ${PTMEM_MAX_GROWTH:-} =~ [^[:space:]] ]]; then
    could_not_run "max-growth: is a limit of ptmem diff; give those of ptmem $subcommand in args"
  elif ! [[ $after =~ [^[:space:]] ]]; then
    could_not_run "after: this input is required"
  elif [ "$subcommand" = check ]; then
    add_path "$after"
  else
    add_lines add_path "$after"
  fi
}

# add_base: the commit by which rows are marked and whose limits are applied too, where there is one.
add_base() {
  local given=${PTMEM_BASE:-}
  if [ "$given" != none ] && { [ -n "$base" ] || find_base; }; then
    command+=(--git "$base")
  elif [ -n "$given" ] && [ "$given" != none ]; then
    could_not_run "base: $base_reason"
  elif [ -z "$given" ] && [ "$is_pull_request" = true ]; then
    notice "its limits are not compared with those of the base, and rows are not marked by the change: $base_reason"
    not_compared=$base_reason
  fi
  [ -z "$given" ] || check_given_base "$given"
}

# check_given_base BASE: the workflow is that of the pull request, too: it may name the base that suits it.
check_given_base() {
  local base='' base_reason='' is_pull_request=false PTMEM_BASE=''
  if find_base; then
    git diff --quiet --no-ext-diff "$base" HEAD -- ':(top).github' ':(top,glob)**/action.yml' ':(top,glob)**/action.yaml' ||
      not_compared="the input base is '$1', and the change edits workflows or actions"
  elif [ "$is_pull_request" = true ]; then
    not_compared="the input base is '$1', and $base_reason"
  fi
}

# add_exports: the reports for the steps that follow.
add_exports() {
  command+=(
    --export "json=$folder/report.json"
    --export "markdown=$folder/report.md"
    --export "brief=$folder/brief.md"
    --export "github=$folder/annotations.txt"
    --export "github-output=$folder/outputs.txt"
  )
  if [ "$with_page" = true ]; then
    command+=(--export "html=$folder/report.html")
  fi
  if [ -n "${PTMEM_SARIF:-}" ]; then
    command+=(--export "sarif=$PTMEM_SARIF")
  fi
  command+=(--comment-key "${name:-$key}")
}

command_line() {
  command=("$ptmem" "$subcommand")
  add_inputs
  if [ -n "${PTMEM_CONFIG:-}" ]; then
    command+=(--config "$PTMEM_CONFIG")
  fi
  if [ "$exit_zero" = true ]; then
    command+=(--exit-zero)
  fi
  if [ -n "${PTMEM_APPROVE_LABEL:-}" ] && [ "$subcommand" = diff ]; then
    command+=("--approve-label=$PTMEM_APPROVE_LABEL")
  fi
  add_base
  # Several gates share the room of a comment.
  if [ -n "$name" ]; then
    command+=(--max-bytes 20000)
  fi
  # An empty array is an unset one to the bash of macOS.
  command+=(${words[@]+"${words[@]}"})
  comparison=("${command[@]}")
  add_exports
}
