# shellcheck shell=bash
# Ends a run that has no verdict of the tool. Sourced by run.sh, whose variables these are.
# shellcheck disable=SC2154

# end_with VERDICT EXIT_CODE: what report.md says goes to the outputs and the summary.
end_with() {
  output verdict "$1"
  output exit-code "$2"
  # Without a valid key nobody knows which comment it would be.
  if [ "$key_is_valid" = true ]; then
    output report-markdown "$folder/report.md"
  fi
  if [ "$summary" != false ]; then
    cat "$folder/report.md" >> "$page"
  fi
  exit 0
}

# could_not_run REASON: the reason as it is goes to the annotation, the summary, and the report that takes the place of
# the last verdict in the comment.
could_not_run() {
  error "$1"
  could_not_run_report "${name:-$key}" "$1" > "$folder/report.md"
  end_with error 2
}

# nothing_to_compare REASON AFTER: passes with a note, and shows what was recorded.
nothing_to_compare() {
  notice "nothing is compared yet: $1"
  {
    nothing_to_compare_report "${name:-$key}" "$1"
    # Without the marker and the title of a report of its own.
    ptmem show "$2" --format markdown --max-bytes 20000 2> /dev/null | sed 1,2d || true
  } > "$folder/report.md"
  output approved false
  output after "$2"
  end_with pass 0
}

# title_of KEY WORDS SIGN: the hidden first line, and the title with the commit.
title_of() {
  local commit title
  commit=$(commit_of_run)
  title="$2${commit:+ at ${commit:0:7}}"
  if [ "$1" != default ]; then
    title="\`$1\` $title"
  fi
  printf '<!-- ptmem:%s -->\n### %s %s\n\n' "$1" "$3" "$title"
}

# The link to the log, where there is a run.
link_to_log() {
  if [ -n "${GITHUB_RUN_ID:-}" ]; then
    printf ' [Log of the run](%s)' "$(run_address)"
  fi
  printf '\n'
}

# could_not_run_report KEY REASON: what the comment and the summary say in place of a verdict. The reason may quote
# anything: in a block of code it is neither Markdown nor a mention, and nothing in it ends the block. Nobody would
# scroll there, so long lines are broken.
could_not_run_report() {
  local reason=$2 quote="'"
  title_of "$1" 'could not run' '⚠️'
  # shellcheck disable=SC2016 # The backticks are Markdown's.
  printf '```text\n%s\n```\n' "$(fold -s -w 96 <<< "${reason//\`/$quote}" | sed 's/ *$//')"
  printf '\nThere is no verdict on this commit.'
  link_to_log
}

# nothing_to_compare_report KEY REASON: the note of a pull request that has no before.
nothing_to_compare_report() {
  title_of "$1" 'nothing to compare yet' '✅'
  printf 'There is no before: %s. Nothing is gated until that is on the base branch. This is the checkout.' "$2"
  link_to_log
}
