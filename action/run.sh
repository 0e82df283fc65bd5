#!/usr/bin/env bash
# Compares the two snapshots once and passes the results on: annotations and the tool's own text to the log, the
# report to the summary, the verdict to the outputs. Succeeds whatever the verdict is, so that a comment can follow;
# verdict.sh ends the job.
set -euo pipefail
# shellcheck source=action/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# A failure here is not a verdict: exit code 1 would read as a regression.
trap '[ $? -eq 0 ] || exit 2' EXIT

outputs=${GITHUB_OUTPUT:-/dev/null}
page=${GITHUB_STEP_SUMMARY:-/dev/null}
summary=${PTMEM_SUMMARY:-true}
annotations=${PTMEM_ANNOTATIONS:-true}
exit_zero=${PTMEM_EXIT_ZERO:-false}
key=${PTMEM_COMMENT_KEY:-default}
before=${PTMEM_BEFORE:-}
after=${PTMEM_AFTER:-}

could_not_run() {
  error "$1"
  printf 'verdict=error\nexit-code=2\n' >> "$outputs"
  if [ "$summary" != false ]; then
    printf 'ptmem could not run (exit code 2). The log of this step says why.\n' >> "$page"
  fi
  exit 0
}

# Each invalid input gets its own annotation; all are reported at once.
valid=true
one_of comment "${PTMEM_COMMENT:-auto}" auto always on-change never || valid=false
one_of summary "$summary" true false || valid=false
one_of annotations "$annotations" true false || valid=false
one_of exit-zero "$exit_zero" true false || valid=false
valid_key "$key" || valid=false
if [ $valid = false ]; then
  could_not_run "the inputs are not valid"
fi
cd "${PTMEM_WORKING_DIRECTORY:-.}" || could_not_run "working-directory: there is no folder '$PTMEM_WORKING_DIRECTORY'"

folder=$(new_folder)

# xargs splits into words and knows quotes and backslashes, but evaluates nothing. It does not know lines that go on
# after a backslash, and of nothing it would make one empty word.
args=${PTMEM_ARGS:-}
args=${args//$'\r'/}
args=${args//\\$'\n'/}
: > "$folder/words.txt"
if [[ $args =~ [^[:space:]] ]]; then
  if ! printf '%s\n' "$args" | xargs printf '%s\n' > "$folder/words.txt" 2> /dev/null; then
    could_not_run "args: cannot be split into words; is a quote not closed?"
  fi
fi

suite=false
words=()
while IFS= read -r word; do
  words+=("$word")
  case $word in
    --suite | --suite=*) suite=true ;;
  esac
done < "$folder/words.txt"

command=(ptmem diff)
if [ -n "$before" ] && [ -n "$after" ]; then
  # A file whose name begins with a dash is neither an option nor standard input.
  case $before in -*) before=./$before ;; esac
  case $after in -*) after=./$after ;; esac
  command+=("$before" "$after")
elif [ -n "$before$after" ]; then
  could_not_run "before and after: both are needed, or neither with --suite in args"
elif [ $suite = false ]; then
  could_not_run "before and after: these inputs are required, unless args holds --suite"
fi
while IFS= read -r limit; do
  # Lines of YAML come with blanks around them.
  limit=${limit#"${limit%%[![:space:]]*}"}
  limit=${limit%"${limit##*[![:space:]]}"}
  if [ -n "$limit" ]; then
    command+=(--max-growth "$limit")
  fi
done <<< "${PTMEM_MAX_GROWTH:-}"
if [ -n "${PTMEM_CONFIG:-}" ]; then
  command+=(--config "$PTMEM_CONFIG")
fi
if [ "$exit_zero" = true ]; then
  command+=(--exit-zero)
fi
# An empty array is an unset one to the bash of macOS.
command+=(${words[@]+"${words[@]}"})
command+=(
  --export "json=$folder/report.json"
  --export "markdown=$folder/report.md"
  --export "github=$folder/annotations.txt"
  --export "github-output=$folder/outputs.txt"
)
if [ -n "${PTMEM_SARIF:-}" ]; then
  command+=(--export "sarif=$PTMEM_SARIF")
fi
command+=(--comment-key "$key")

# Names of functions and files in the text come from the code under test. A line of it that looks like a workflow
# command must not be one, so commands are off until a word that nobody can guess. Both streams go the same way, as
# the order of two is not certain.
word=
if [ "${GITHUB_ACTIONS:-}" = true ]; then
  word=ptmem-$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
  printf '::stop-commands::%s\n' "$word"
fi
status=0
"${command[@]}" 2>&1 || status=$?
if [ -n "$word" ]; then
  printf '\n::%s::\n' "$word"
fi

case $status in
  0 | 1 | 3) ;;
  2) could_not_run "could not run; its message is in the log" ;;
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
{
  cat "$folder/outputs.txt"
  printf 'report-json=%s\nreport-markdown=%s\n' "$folder/report.json" "$folder/report.md"
} >> "$outputs"
