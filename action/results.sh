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
  local reason
  reason=$(mask_secrets <<< "$1")
  error "$reason"
  could_not_run_report "${name:-$key}" "$reason" > "$folder/report.md"
  end_with error 2
}

# output_page: the page with timelines, to be uploaded where that is asked for. Two gates of one run must not take each other's
# artifact: the folder of each has a name of its own.
output_page() {
  local artifact=${name:-$key}
  [ "$with_page" = true ] || return 0
  output report-page "$folder/report.html"
  output artifact "ptmem-${artifact//\//-}-${folder##*[./-]}"
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
