#!/usr/bin/env bash
# Runs ptmem gate, and passes on what it writes: annotations to the log, the report to the summary, the verdict to the outputs.
# Succeeds whatever the verdict is, so that a comment can follow; verdict.sh ends the job.
set -euo pipefail
# shellcheck source=action/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# A failure here is not a verdict: exit code 1 would read as a regression.
trap '[ $? -eq 0 ] || exit 2' EXIT

folder=$(new_folder)
files=$folder/report
# Several gates on one pull request, and jobs of a matrix, share its comment, a section each. Its name is part of names of files.
section=${PTMEM_GATES:-}
[ "${PTMEM_WORKING_DIRECTORY:-.}" = . ] || section=$PTMEM_WORKING_DIRECTORY${section:+/$section}
while IFS= read -r value; do [ "$value" = "${PTMEM_GATES:-}" ] || section=${section:+$section-}$value; done \
  < <(printf '%s\n' "${PTMEM_MATRIX:-null}" | sed -n 's/^ *"[^"]*": *\(.*[^{[,]\),\{0,1\}$/\1/p' | sed 's/^"//; s/"$//')
section=$(printf '%s' "$section" | tr / - | tr -cs 'A-Za-z0-9._-' _ | sed 's/^[^A-Za-z0-9]*//;s/_$//')

# could_not_run REASON: what goes to the annotation, the summary and the comment where the program wrote nothing.
could_not_run() {
  local quote="'"
  error "$1"
  mkdir -p "$files"
  # shellcheck disable=SC2016 # The backticks are Markdown's.
  printf '<!-- ptmem:default -->\n### ⚠️ could not run\n\n```text\n%s\n```\n' "${1//\`/$quote}" > "$files/report.md"
  [ "${PTMEM_COMMENT:-auto}" = never ] || cp "$files/report.md" "$files/comment.md"
  printf 'verdict=error\nexit-code=2\n' > "$files/outputs.txt"
  pass_on
  exit 0
}

# pass_on: gives the runner what is in the files.
pass_on() {
  local name value
  ! is_file "$files/annotations.txt" || cat "$files/annotations.txt"
  ! is_file "$files/report.md" || { cat "$files/report.md" && printf '\n'; } >> "${GITHUB_STEP_SUMMARY:-/dev/null}"
  while IFS='=' read -r name value; do
    case $name in
      verdict | exit-code | approved | changed | peak-before | peak-after | delta | percent) output "$name" "$value" ;;
    esac
  done < "$files/outputs.txt"
  output folder "$files"
  # hashFiles of a workflow sees only what is in the checkout.
  ! ls "$files"/*.html > /dev/null 2>&1 || output pages "$files/*.html"
  output section "$section"
  output page-artifact "ptmem-page${section:+-$section}-${folder##*.}"
  output comment-artifact "${PTMEM_COMMENT_ARTIFACT:-}${section:+-$section}"
}

# words INPUT TEXT: the words of a text, split as a shell does, go to words.txt. xargs evaluates nothing, but makes a word of nothing.
words() {
  local text=${2//$'\r'/}
  text=${text//\\$'\n'/}
  : > "$folder/words.txt"
  [[ ! $text =~ [^[:space:]] ]] || printf '%s\n' "$text" | xargs printf '%s\n' > "$folder/words.txt" 2> /dev/null ||
    could_not_run "$1: cannot be split into words; is a quote not closed?"
}

[[ ${PTMEM_EXIT_ZERO:-false} =~ ^(true|false)$ ]] ||
  could_not_run "exit-zero: '$PTMEM_EXIT_ZERO' is not accepted; expected one of: true, false"
cd "${PTMEM_WORKING_DIRECTORY:-.}" || could_not_run "working-directory: the folder '$PTMEM_WORKING_DIRECTORY' does not exist"
# By its path: an environment that comes first on the path may have a program of this name, too.
command=("$(command -v ptmem || printf ptmem)" gate "--ci=$files" "--comment=${PTMEM_COMMENT:-auto}")
[ -z "${PTMEM_BASE:-}" ] || command+=("--base=$PTMEM_BASE")
[ -z "${PTMEM_APPROVE_LABEL:-}" ] || command+=("--approve-label=$PTMEM_APPROVE_LABEL")
words gates "${PTMEM_GATES:-}"
while IFS= read -r word; do
  case $word in -*) could_not_run "gates: '$word' is not accepted; expected names of gates, and options in args" ;; esac
  command+=("$word")
done < "$folder/words.txt"
words args "${PTMEM_ARGS:-}"
while IFS= read -r word; do
  # The job would not know that it is to pass.
  [ "$word" != --exit-zero ] || could_not_run 'args: --exit-zero is not accepted here; set the input exit-zero to true'
  command+=("$word")
done < "$folder/words.txt"
# The event with the labels of the pull request that a merge queue tests.
[ ! -f "${PTMEM_QUEUED_EVENT:-}" ] || export GITHUB_EVENT_PATH=$PTMEM_QUEUED_EVENT

# Names of functions and files in the words of the program come from the code under test, and recorded code meets none of the files
# by which a step talks to GitHub. Workflow commands are off until a word that nobody can guess.
word=$(random_word)
[ "${GITHUB_ACTIONS:-}" != true ] || printf '::stop-commands::%s\n' "$word"
status=0
env -u GITHUB_OUTPUT -u GITHUB_ENV -u GITHUB_PATH -u GITHUB_STEP_SUMMARY -u GITHUB_STATE "${command[@]}" 2>&1 || status=$?
[ "${GITHUB_ACTIONS:-}" != true ] || printf '\n::%s::\n' "$word"

is_file "$files/outputs.txt" ||
  could_not_run "ptmem gate ended with exit code $status and wrote no results; its message is in the log"
pass_on
