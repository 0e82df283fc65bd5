#!/usr/bin/env bash
# Runs diff, check or leak once and passes the results on: annotations and the tool's own text to the log, the report
# to the summary, the verdict to the outputs. Succeeds whatever the verdict is, so that a comment can follow; verdict.sh
# ends the job.
set -euo pipefail
# shellcheck source=action/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
# shellcheck source=action/base.sh
. "$(dirname "${BASH_SOURCE[0]}")/base.sh"
# shellcheck source=action/record.sh
. "$(dirname "${BASH_SOURCE[0]}")/record.sh"

# A failure here is not a verdict: exit code 1 would read as a regression.
trap 'status=$?; remove_base; [ $status -eq 0 ] || exit 2' EXIT

outputs=${GITHUB_OUTPUT:-/dev/null}
page=${GITHUB_STEP_SUMMARY:-/dev/null}
summary=${PTMEM_SUMMARY:-true}
annotations=${PTMEM_ANNOTATIONS:-true}
with_page=${PTMEM_PAGE:-false}
exit_zero=${PTMEM_EXIT_ZERO:-false}
key=${PTMEM_COMMENT_KEY:-default}
name=${PTMEM_NAME:-}
subcommand=${PTMEM_COMMAND:-diff}
before=${PTMEM_BEFORE:-}
after=${PTMEM_AFTER:-}

folder=$(new_folder)

# could_not_run REASON: the reason as it is goes to the annotation, the summary, and the report that takes the place of
# the last verdict in the comment.
could_not_run() {
  error "$1"
  could_not_run_report "${name:-$key}" "$1" > "$folder/report.md"
  printf 'verdict=error\nexit-code=2\n' >> "$outputs"
  # Without a valid key nobody knows which comment it would be.
  if [ $key_is_valid = true ]; then
    printf 'report-markdown=%s\n' "$folder/report.md" >> "$outputs"
  fi
  if [ "$summary" != false ]; then
    cat "$folder/report.md" >> "$page"
  fi
  exit 0
}

# Each invalid input gets its own annotation; all are reported at once.
valid=true
key_is_valid=true
one_of command "$subcommand" diff check leak || valid=false
one_of comment "${PTMEM_COMMENT:-auto}" auto always on-change never || valid=false
one_of summary "$summary" true false || valid=false
one_of annotations "$annotations" true false || valid=false
one_of page "$with_page" true false || valid=false
one_of exit-zero "$exit_zero" true false || valid=false
if ! valid_key comment-key "$key" || { [ -n "$name" ] && ! valid_key name "$name"; }; then
  key_is_valid=false
  valid=false
fi
if [ $valid = false ]; then
  could_not_run "the inputs are not valid; the annotations of the step name each"
fi
cd "${PTMEM_WORKING_DIRECTORY:-.}" || could_not_run "working-directory: there is no folder '$PTMEM_WORKING_DIRECTORY'"

# split INPUT TEXT: the words of a text go to words.txt. xargs knows quotes and backslashes, but evaluates nothing. It does
# not know lines that go on after a backslash, and of nothing it would make one empty word.
split() {
  local text=${2//$'\r'/}
  text=${text//\\$'\n'/}
  : > "$folder/words.txt"
  if [[ $text =~ [^[:space:]] ]]; then
    if ! printf '%s\n' "$text" | xargs printf '%s\n' > "$folder/words.txt" 2> /dev/null; then
      could_not_run "$1: cannot be split into words; is a quote not closed?"
    fi
  fi
}

suite=false
words=()
split args "${PTMEM_ARGS:-}"
while IFS= read -r word; do
  words+=("$word")
  case $word in
    --suite | --suite=*) suite=true ;;
  esac
done < "$folder/words.txt"
simulate_words=()
split simulate-args "${PTMEM_SIMULATE_ARGS:-}"
while IFS= read -r word; do
  simulate_words+=("$word")
done < "$folder/words.txt"

if [[ ${PTMEM_RECORD:-} =~ [^[:space:]] ]]; then
  if [ "$subcommand" != diff ]; then
    could_not_run "record: records the base and the checkout for ptmem diff, not for ptmem $subcommand"
  elif [ -n "$before$after" ] || [ $suite = true ]; then
    could_not_run "record: makes the before and the after itself; leave out before, after and --suite"
  fi
  record_both
fi

command=(ptmem "$subcommand")

# add_path PATH: a file whose name begins with a dash is neither an option nor standard input.
add_path() {
  case $1 in
    -*) command+=("./$1") ;;
    *) command+=("$1") ;;
  esac
}

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

add_limit() { command+=(--max-growth "$1"); }

if [ "$subcommand" = diff ]; then
  if [ -n "$before" ] && [ -n "$after" ]; then
    add_path "$before"
    add_path "$after"
  elif [ -n "$before$after" ]; then
    could_not_run "before and after: both are needed, or neither with --suite in args"
  elif [ $suite = false ]; then
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
if [ -n "${PTMEM_CONFIG:-}" ]; then
  command+=(--config "$PTMEM_CONFIG")
fi
if [ "$exit_zero" = true ]; then
  command+=(--exit-zero)
fi
if [ "$subcommand" = diff ] && [ -n "${PTMEM_APPROVE_LABEL:-}" ]; then
  command+=("--approve-label=$PTMEM_APPROVE_LABEL")
fi
if [ "$subcommand" = diff ] && [ "${PTMEM_BASE:-}" != none ]; then
  if [ -n "$base" ] || find_base; then
    command+=(--git "$base")
  elif [ -n "${PTMEM_BASE:-}" ]; then
    could_not_run "base: $base_reason"
  elif [ $is_pull_request = true ]; then
    printf 'rows are not marked by the change: %s\n' "$base_reason"
  fi
fi
# Several gates share the room of a comment.
if [ -n "$name" ]; then
  command+=(--max-bytes 20000)
fi
# An empty array is an unset one to the bash of macOS.
command+=(${words[@]+"${words[@]}"})
command+=(
  --export "json=$folder/report.json"
  --export "markdown=$folder/report.md"
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

status=0
without_commands "$folder/log.txt" . "${command[@]}" || status=$?

case $status in
  0 | 1 | 3) ;;
  2)
    # The error is the end of the text, maybe in colours.
    reason=$(without_colours < "$folder/log.txt" |
      awk '/^error: / { text = ""; found = 1; sub(/^error: /, "") } found { text = text $0 "\n" } END { printf "%s", text }')
    could_not_run "${reason:-could not run; its message is in the log}"
    ;;
  *) could_not_run "ended with exit code $status, which is no verdict" ;;
esac
if ! [ -f "$folder/outputs.txt" ]; then
  could_not_run "wrote no results although it ended with exit code $status; is it another version than the action?"
fi

if [ "$annotations" = true ]; then
  cat "$folder/annotations.txt"
fi
if [ "$summary" = true ]; then
  cat "$folder/report.md" >> "$page"
  printf '\n' >> "$page"
fi
# The tool says by its exit code that a label approves the growth; the verdict is that of the figures.
approved=false
if [ "$status" = 0 ] && [ "$exit_zero" = false ] && ! grep -qx 'exit-code=0' "$folder/outputs.txt"; then
  approved=true
fi
{
  cat "$folder/outputs.txt"
  printf 'approved=%s\n' "$approved"
  printf 'before=%s\nafter=%s\n' "$before" "$after"
  printf 'report-json=%s\nreport-markdown=%s\n' "$folder/report.json" "$folder/report.md"
  if [ "$with_page" = true ]; then
    # Two gates of one run must not take each other's artifact: the folder of each has a name of its own.
    artifact=${name:-$key}
    printf 'report-page=%s\nartifact=%s\n' "$folder/report.html" "ptmem-${artifact//\//-}-${folder##*[./-]}"
  fi
} >> "$outputs"
