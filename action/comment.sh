#!/usr/bin/env bash
# Keeps one comment per key on the pull request up to date. A comment is a courtesy: a problem with it is a notice or
# a warning and never fails the job. Only invalid inputs do, with exit code 2.
set -euo pipefail
scripts=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=action/common.sh
. "$scripts/common.sh"
# shellcheck source=action/github.sh
. "$scripts/github.sh"
# shellcheck source=action/choice.sh
. "$scripts/choice.sh"

mode=${PTMEM_COMMENT:-auto}
key=${PTMEM_COMMENT_KEY:-default}
name=${PTMEM_NAME:-}
report=${PTMEM_REPORT:-}
brief=${PTMEM_BRIEF:-}
token=${PTMEM_TOKEN:-}
number=${PTMEM_NUMBER:-}
# Whether somebody else made the report, so that it is posted only as text.
foreign=${PTMEM_FOREIGN:-false}
api=${GITHUB_API_URL:-https://api.github.com}
event=${GITHUB_EVENT_PATH:-}

one_of comment "$mode" auto always on-change never || exit 2
valid_key comment-key "$key" || exit 2
[ -z "$name" ] || valid_key name "$name" || exit 2
digits='^[1-9][0-9]*$'
if [ -n "$number" ] && ! [[ $number =~ $digits ]]; then
  error "number: '$number' is not accepted; expected the number of a pull request"
  exit 2
fi

# Without a comment for this reason.
skip() {
  notice "no comment: $1"
  exit 0
}

if [ "$mode" = never ]; then
  exit 0
fi
for tool in jq curl; do
  command -v $tool > /dev/null || skip "there is no $tool on this machine"
done
choose_report
if ! is_file "$report" || ! [ -s "$report" ]; then
  skip "there is no report"
fi
if [ -z "$number" ] && [ -f "$event" ]; then
  # The number of a comment on an issue is one of a pull request only if the event says so.
  number=$(jq -r '.pull_request.number // (if .issue.pull_request then .issue.number else null end) // empty' \
    "$event" | tr -d '\r') || number=
fi
[[ $number =~ $digits ]] || skip "this is not a run of a pull request"
[ -n "${GITHUB_REPOSITORY:-}" ] || skip "GITHUB_REPOSITORY does not say where"
# Also keeps the token to one line of the settings of curl.
pattern='^[A-Za-z0-9._~+/=-]+$'
[[ $token =~ $pattern ]] || skip "there is no token"

folder=$(new_folder)
trap 'rm -rf "$folder"' EXIT
# jq adds what the home of the user has in .jq to its programs.
export HOME=$folder

marker="<!-- ptmem:$key -->"
run=${GITHUB_RUN_ID:-}.${GITHUB_RUN_ATTEMPT:-1}
# The hidden line by which a comment without sections names the gate that wrote it.
writer=
if [ -z "$name" ] && [ -n "${GITHUB_RUN_ID:-}" ]; then
  writer="<!-- ptmem-run:$run ${folder##*.} -->"$'\n'
fi
# GitHub takes no longer comments.
most=65000

# body: writes body.json from the report and from the comment in existing.md. A report of a pull request may be of any length.
body() {
  {
    head -c $most "$report"
    [ "$(wc -c < "$report")" -le $most ] || printf '\n\nThe rest is in the log of the run.\n'
  } > "$folder/report.md"
  jq -R -s -f "$scripts/comment.jq" --arg marker "$marker" --arg name "$name" --arg run "$run" --arg writer "$writer" \
    --argjson most "$most" --argjson foreign "$foreign" --rawfile existing "$folder/existing.md" < "$folder/report.md" > "$folder/body.json"
}

# A gate without a name takes the place of what another one of the same run wrote.
warn_of_overwriting() {
  local of_run="<!-- ptmem-run:$run "
  if [ -n "$writer" ] && grep -qF "$of_run" "$folder/existing.md" && ! grep -qF "${writer%$'\n'}" "$folder/existing.md"; then
    warning "another gate of this run wrote the comment with the comment-key '$key', and this one takes its place; give \
each gate a name, or a comment-key of its own"
  fi
}

# One attempt. It begins with the search, since an earlier one may have got further than its answer says.
publish() {
  find_comment || return 0
  body
  written=false
  if [ -n "$found" ]; then
    warn_of_overwriting
    request PATCH "issues/comments/$found" "$folder/body.json"
    written=true
  elif wanted; then
    request POST "issues/$number/comments" "$folder/body.json"
    created=$(jq -r '.id // empty' "$folder/answer.json" 2> /dev/null | tr -d '\r') || created=
    written=true
  fi
}

# publish_or_retry: up to three attempts, where the server fails or does not answer.
publish_or_retry() {
  local attempt
  for attempt in 1 2 3; do
    publish
    case $status in
      5?? | 000) [ "$attempt" -eq 3 ] || sleep "$delay" ;;
      *) break ;;
    esac
  done
}

# has_section: succeeds where the comment in existing.md still has the section that this gate wrote.
has_section() { grep -qF "<!-- ptmem-section:$name $run -->" "$folder/existing.md"; }

# keep_section: jobs that run at the same time read the comment before they write it, so that the last one may drop what
# another just wrote, or both create one. Whoever misses its own section writes it again, into the first comment. Each
# looks at another time.
keep_section() {
  local round
  for round in 1 2 3 4 5 6; do
    [ "$delay" = 0 ] || sleep $((delay + RANDOM % 3))
    # The comment was written, even if this check of it fails.
    find_comment || break
    if [ -n "$created" ] && [ -n "$found" ] && [ "$created" != "$found" ]; then
      request DELETE "issues/comments/$created"
      created=
    fi
    if has_section; then
      break
    fi
    if [ "$round" -eq 6 ]; then
      warning "other jobs overwrite the section of $name; give this job a comment-key of its own"
    fi
    publish_or_retry
  done
  status=200
}

delay=${PTMEM_RETRY_DELAY:-2}
created=
written=false
publish_or_retry
case $status in
  200 | 201)
    if [ -n "$name" ] && [ $written = true ]; then
      keep_section
    fi
    ;;
esac

case $status in
  200 | 201) ;;
  000) skip "$api does not answer" ;;
  401 | 403 | 404)
    skip "the token may not write to pull request $number (status $status); the job needs pull-requests: write, which \
a run of a fork never has"
    ;;
  *) warning "no comment on pull request $number: $api answered $status" ;;
esac
