#!/usr/bin/env bash
# Keeps one comment on the pull request up to date, with a section for each job of each workflow. A comment is a courtesy: a problem with it
# is a notice or a warning and never fails the job. Only invalid inputs do, with exit code 2.
set -euo pipefail
scripts=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=action/common.sh
. "$scripts/common.sh"
# shellcheck source=action/github.sh
. "$scripts/github.sh"

report=${PTMEM_REPORT:-}
section=${PTMEM_SECTION:-comment}
number=${PTMEM_NUMBER:-}
# Whether somebody else made the report, so that it is posted only as text.
foreign=${PTMEM_FOREIGN:-false}

digits='^[1-9][0-9]*$'
[ -z "$number" ] || [[ $number =~ $digits ]] || {
  error "number: '$number' is not accepted; expected the number of a pull request"
  exit 2
}

# Without a comment for this reason.
skip() { notice "no comment: $1" && exit 0; }

command -v jq > /dev/null || skip "there is no jq on this machine"
command -v curl > /dev/null || skip "there is no curl on this machine"
# The number of a comment on an issue is one of a pull request only if the event says so.
[ -n "$number" ] || number=$(event '.pull_request.number // (if .issue.pull_request then .issue.number else null end)')
[[ $number =~ $digits ]] || skip "this is not a run of a pull request"
[ -n "${GITHUB_REPOSITORY:-}" ] || skip "GITHUB_REPOSITORY does not say where"
# Also keeps the token to one line of the settings of curl.
pattern='^[A-Za-z0-9._~+/=-]+$'
[[ $token =~ $pattern ]] || skip "there is no token"

folder=$(new_folder)
trap 'rm -rf "$folder"' EXIT
# jq adds what the home of the user has in .jq to its programs.
export HOME=$folder

marker='<!-- ptmem:default -->'
# The workflow that judged, with the run that comments.
run=$(event .workflow_run.name)
run="$(printf '%s' "${run:-${GITHUB_WORKFLOW:-}}" | tr -cs 'A-Za-z0-9._-' _) ${GITHUB_RUN_ID:-}.${GITHUB_RUN_ATTEMPT:-1}"
delay=${PTMEM_RETRY_DELAY:-2}

# One attempt. It begins with the search, since an earlier one may have got further than its answer says.
publish() {
  find_comment || return 0
  # A report of a pull request may be of any length.
  head -c 66000 "$report" | jq -R -s -f "$scripts/comment.jq" --arg marker "$marker" --arg name "$section" --arg run "$run" \
    --argjson foreign "$foreign" --rawfile existing "$folder/existing.md" > "$folder/body.json"
  if [ -n "$found" ]; then
    request PATCH "issues/comments/$found" "$folder/body.json"
    written=true
  # Where the first line says so, it only takes the place of a comment that is there.
  elif ! head -n 1 "$report" | grep -q '^<!-- ptmem:.* only-update -->'; then
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

# keep_section: of jobs that run at the same time the last one may drop what another just wrote, or both create a comment. Whoever misses
# its own section writes it again, into the first comment. Each looks at another time.
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
    ! grep -qF "<!-- ptmem-section:$section $run -->" "$folder/existing.md" || break
    [ "$round" -lt 6 ] || warning "other jobs overwrite the section $section of the comment"
    publish_or_retry
  done
  status=200
}

# post: the report, in its section.
post() {
  created=
  written=false
  publish_or_retry
  case $status in
    200 | 201) [ $written = false ] || keep_section ;;
    000) skip "$api does not answer" ;;
    401 | 403 | 404)
      skip "the token may not write to pull request $number (status $status); the job needs pull-requests: write, which \
a run of a fork never has"
      ;;
    *) warning "no comment on pull request $number: $api answered $status" ;;
  esac
}

# In a folder with the comments of several jobs, each is a section with the name of its file.
reports=("$report")
! [ -d "$report" ] || [ -L "$report" ] || reports=("${report%/}"/*.md)
pattern='^[A-Za-z0-9][A-Za-z0-9._-]*$'
for report in "${reports[@]:0:50}"; do
  [ "$report" = "${PTMEM_REPORT:-}" ] || section=$(basename "$report" .md)
  if ! is_file "$report" || ! [ -s "$report" ]; then
    notice "no comment: there is no report"
  elif [[ $section =~ $pattern ]]; then
    post
  fi
done
