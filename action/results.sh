# shellcheck shell=bash
# Ends a run that has no verdict of the tool. Sourced by run.sh, whose variables these are.
# shellcheck disable=SC2154

# end_with VERDICT EXIT_CODE: what report.md says goes to the outputs and the summary.
end_with() {
  output verdict "$1"
  output exit-code "$2"
  # Without a valid key, the comment cannot be found.
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

# output_page: the page with timelines, to be uploaded if requested. Two gates of one run must not take each other's
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

# quoted TEXT: anything as a block of code, in which it is neither Markdown nor a mention, and which nothing in it ends. Nobody
# would scroll there, so long lines are broken.
quoted() {
  local quote="'"
  # shellcheck disable=SC2016 # The backticks are Markdown's.
  printf '```text\n%s\n```\n' "$(fold -s -w 96 <<< "${1//\`/$quote}" | sed 's/ *$//')"
}

# is_excused: whether the run passes without a before because the base is broken.
is_excused() { [ -n "$base_failure" ] && [ -z "$before" ] && grep -q '"other-before"' "$folder/report.json"; }

# explain_base_failure: puts what failed on the base and the ways to pass before the report, whose rest is folded.
explain_base_failure() {
  local report=$folder/report.md label=${PTMEM_APPROVE_LABEL:-}
  {
    head -n 2 "$report"
    printf '\n'
    quoted "$(tail -n 12 <<< "$base_failure")"
    printf '\nThe base %s failed as above; the checkout was recorded.\n\n' "${base:0:7}"
    # shellcheck disable=SC2016 # The backticks are Markdown's.
    if is_excused; then
      printf '* Growth is not judged; the checkout keeps the absolute limits. `strict = true` in ptmem.toml makes this inconclusive.\n'
    elif [ -n "$label" ]; then
      printf '* If this change repairs the base, the label `%s` on the pull request lets it pass.\n' "$label"
    else
      printf '* If this change repairs the base, merge it without this check: the input `approve-label` names no label.\n'
    fi
    printf '* If something else failed (network, disk, time), run the job again.%s\n' "$(link_to_log)"
    printf '\n<details><summary>The checkout alone</summary>\n\n'
    tail -n +3 "$report"
    printf '\n</details>\n'
  } > "$folder/explained.md"
  mv "$folder/explained.md" "$report"
}

# tell_of_releases: where the change touches only files that name dependencies, as Renovate and Dependabot do, and figures changed,
# the comment says which releases differ in the recordings.
tell_of_releases() {
  local files releases
  if [ -z "$base" ] || ! grep -q '^changed=true$' "$folder/outputs.txt" || ! command -v jq > /dev/null; then
    return 0
  fi
  files=$(git diff --name-only "$base" HEAD -- 2> /dev/null) || return 0
  if [ -z "$files" ] || grep -qvE '(^|/)(requirements[^/]*\.(txt|in)|[^/]*\.lock|pyproject\.toml|environment\.ya?ml)$' <<< "$files"; then
    return 0
  fi
  releases=$(jq -r '[.. | objects | select(.code? == "versions-differ").message] | first // empty' "$folder/report.json") || return 0
  [ -n "$releases" ] || return 0
  tell "Only $(tr '\n' ' ' <<< "$files")changed. Releases that differ in the recordings: $releases"
}

# tell_of_limits: reports that a change is not compared with its base.
tell_of_limits() {
  [ -z "$not_compared" ] || tell "The limits may not be those of the base of this change: $not_compared."
}

# tell WORDS: puts words at the head of the comment, and makes sure that there is one.
tell() {
  local kind
  for kind in report brief; do
    {
      head -n 2 "$folder/$kind.md"
      printf '\n'
      quoted "$1"
      tail -n +3 "$folder/$kind.md"
    } > "$folder/told.md"
    mv "$folder/told.md" "$folder/$kind.md"
  done
  sed 's/^announce=.*/announce=true/' "$folder/outputs.txt" > "$folder/told.txt"
  mv "$folder/told.txt" "$folder/outputs.txt"
}

# could_not_run_report KEY REASON: the text of the comment and the summary in place of a verdict.
could_not_run_report() {
  title_of "$1" 'could not run' '⚠️'
  quoted "$2"
  printf '\nThere is no verdict on this commit.'
  link_to_log
}
