#!/usr/bin/env bash
# Runs diff, check or leak once and passes the results on: annotations and the tool's own text to the log, the report
# to the summary, the verdict to the outputs. Succeeds whatever the verdict is, so that a comment can follow; verdict.sh
# ends the job.
set -euo pipefail
# shellcheck source=action/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
# shellcheck source=action/results.sh
. "$(dirname "${BASH_SOURCE[0]}")/results.sh"
# shellcheck source=action/secrets.sh
. "$(dirname "${BASH_SOURCE[0]}")/secrets.sh"
# shellcheck source=action/inputs.sh
. "$(dirname "${BASH_SOURCE[0]}")/inputs.sh"
# shellcheck source=action/base.sh
. "$(dirname "${BASH_SOURCE[0]}")/base.sh"
# shellcheck source=action/profiles.sh
. "$(dirname "${BASH_SOURCE[0]}")/profiles.sh"
# shellcheck source=action/record.sh
. "$(dirname "${BASH_SOURCE[0]}")/record.sh"
# shellcheck source=action/arguments.sh
. "$(dirname "${BASH_SOURCE[0]}")/arguments.sh"
# shellcheck source=action/pictures.sh
. "$(dirname "${BASH_SOURCE[0]}")/pictures.sh"

# A failure here is not a verdict: exit code 1 would read as a regression.
trap 'status=$?; remove_base; [ $status -eq 0 ] || exit 2' EXIT

# By its path: an environment that comes first on the path may have a program of this name, too.
ptmem=$(command -v ptmem) || ptmem=ptmem
page=${GITHUB_STEP_SUMMARY:-/dev/null}
summary=${PTMEM_SUMMARY:-true}
annotations=${PTMEM_ANNOTATIONS:-true}
with_page=${PTMEM_PAGE:-false}
exit_zero=${PTMEM_EXIT_ZERO:-false}
key=${PTMEM_COMMENT_KEY:-default}
name=${PTMEM_NAME:-}
profiles=${PTMEM_PROFILES:-}
subcommand=${PTMEM_COMMAND:-diff}
before=${PTMEM_BEFORE:-}
after=${PTMEM_AFTER:-}

folder=$(new_folder)

check_inputs
cd "${PTMEM_WORKING_DIRECTORY:-.}" || could_not_run "working-directory: the folder '$PTMEM_WORKING_DIRECTORY' does not exist"
split_inputs
if [[ ${PTMEM_INSTALL:-} =~ [^[:space:]] && ! ${PTMEM_RECORD:-} =~ [^[:space:]] ]]; then
  could_not_run "install: installs each side for record; give record, or install in a step before"
fi
if [[ ${PTMEM_RECORD:-} =~ [^[:space:]] ]]; then
  if [ "$subcommand" != diff ]; then
    could_not_run "record: records the base and the checkout for ptmem diff, not for ptmem $subcommand"
  elif [ -n "$before$after" ] || [ $suite = true ]; then
    could_not_run "record: makes the before and the after itself; leave out before, after and --suite"
  fi
  record_both
fi
command_line

status=0
# The event with the labels of the pull request that a merge queue tests.
if [ -f "${PTMEM_QUEUED_EVENT:-}" ]; then
  command=(env "GITHUB_EVENT_PATH=$PTMEM_QUEUED_EVENT" "${command[@]}")
fi
without_commands "$folder/log.txt" . "${command[@]}" || status=$?

case $status in
  0 | 1 | 3) ;;
  2)
    # The error is the end of the text, maybe in colours.
    reason=$(without_colours < "$folder/log.txt" |
      awk '/^error: / { text = ""; found = 1; sub(/^error: /, "") } found { text = text $0 "\n" } END { printf "%s", text }')
    could_not_run "${reason:-could not run; its message is in the log}"
    ;;
  *) could_not_run "ended with exit code $status, which is not a verdict" ;;
esac
if ! [ -f "$folder/outputs.txt" ]; then
  could_not_run "wrote no results although it ended with exit code $status; is it another version than the action?"
fi

if [ $status = 3 ] && [ -n "$base_failure" ] || { [ $status = 0 ] && is_excused; }; then
  explain_base_failure
fi
tell_of_releases
tell_of_limits
for report in "$folder"/report.* "$folder/brief.md" "$folder/annotations.txt" "${PTMEM_SARIF:-}"; do
  mask_file "$report"
done
if [ "$annotations" = true ]; then
  cat "$folder/annotations.txt"
fi
if [ "$summary" = true ]; then
  cat "$folder/report.md" >> "$page"
  printf '\n' >> "$page"
fi
while IFS='=' read -r result value; do
  output "$result" "$value"
done < "$folder/outputs.txt"
output before "$(one_line "$before")"
output after "$(one_line "$after")"
output report-json "$folder/report.json"
output report-markdown "$folder/report.md"
output report-brief "$folder/brief.md"
output_page
output_picture $status
