#!/usr/bin/env bash
# Keeps one comment per key on the pull request up to date. A comment is a courtesy: a problem with it is a notice or
# a warning and never fails the job. Only invalid inputs do, with exit code 2.
set -euo pipefail
# shellcheck source=action/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

mode=${PTMEM_COMMENT:-auto}
key=${PTMEM_COMMENT_KEY:-default}
name=${PTMEM_NAME:-}
report=${PTMEM_REPORT:-}
token=${PTMEM_TOKEN:-}
number=${PTMEM_NUMBER:-}
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
[ -s "$report" ] || skip "there is no report"
if [ -z "$number" ] && [ -f "$event" ]; then
  # The number of a comment on an issue is one of a pull request only if the event says so.
  number=$(jq -r '.pull_request.number // (if .issue.pull_request then .issue.number else null end) // empty' \
    "$event" | tr -d '\r') || number=
fi
[[ $number =~ $digits ]] || skip "this is no run of a pull request"
[ -n "${GITHUB_REPOSITORY:-}" ] || skip "GITHUB_REPOSITORY does not say where"
# Also keeps the token to one line of the settings of curl.
pattern='^[A-Za-z0-9._~+/=-]+$'
[[ $token =~ $pattern ]] || skip "there is no token"

folder=$(new_folder)
trap 'rm -rf "$folder"' EXIT

marker="<!-- ptmem:$key -->"
# GitHub takes no longer comments.
most=65000

# body EXISTING: writes body.json. Without a name the report is the comment. Of several gates with names each has a section,
# behind a hidden line with its name and the run that wrote it; sections of earlier runs are gone, lest a gate that no longer
# runs keeps its verdict. Where all are too long, the others give way to their headings.
#
# The report may come from a pull request: its first line is no proof of the key, and it holds no section of its own.
body() {
  jq -R -s --arg marker "$marker" --arg name "$name" --arg run "${GITHUB_RUN_ID:-}.${GITHUB_RUN_ATTEMPT:-1}" \
    --argjson most "$most" --rawfile existing "$1" '
    def begin: "<!-- ptmem-section:";
    def text: begin + .name + " " + .run + " -->\n" + .report;
    def sections:
      split("\r") | join("") | split("\n" + begin) | .[1:]
      | map(capture("^(?<name>[A-Za-z0-9._/-]+) (?<run>[0-9.]*) -->\n")
          + {report: (.[index("\n") + 1:] | rtrimstr("\n"))});
    def whole: [$marker] + map(text) | join("\n");
    split("\n")
    | if .[0] | startswith("<!-- ptmem:") then .[1:] else . end
    | join("\n")
    | if $name == "" then $marker + "\n" + . else
        {name: $name, run: $run, report: (split(begin) | join("<!-- ptmem section:") | rtrimstr("\n"))} as $own
        | ($existing | sections | map(select(.run == $run))) as $others
        | (if any($others[]; .name == $name)
           then $others | map(if .name == $name then $own else . end)
           else $others + [$own] end)
        | if (whole | length) > $most
          then map(if .name == $name then . else .report |= (split("\n")[0] + "\n\nThe rest is in the log of the run.") end)
          else . end
        | whole
      end
    | {body: .}
  ' < "$report" > "$folder/body.json"
}

# request METHOD PATH [FILE]: the status goes to $status, 000 where there is no connection, and the answer to
# answer.json. The token goes through standard input: anybody on the machine can read a command line.
request() {
  local method=$1 path=$2 file=${3:-}
  status=$(
    printf 'header = "Authorization: Bearer %s"\n' "$token" | curl -q -K - --silent --show-error --globoff \
      --connect-timeout 10 --max-time 60 --request "$method" \
      --header 'Accept: application/vnd.github+json' --header 'X-GitHub-Api-Version: 2022-11-28' \
      --header 'Content-Type: application/json' --header 'User-Agent: ptmem-action' \
      ${file:+--data-binary "@$file"} \
      --output "$folder/answer.json" --write-out '%{http_code}' "$api/repos/$GITHUB_REPOSITORY/$path"
  ) || status=000
}

# Looks for the comment that begins with the marker: its number goes to $found. Fails if an answer is no success.
#
# Anybody can write a comment with the marker. The token of a workflow writes as a bot, so no comment of a person is
# taken for its own.
find_comment() {
  local page=1 author=any count
  found=
  case $token in ghs_*) author=Bot ;; esac
  while [ $page -le 100 ]; do
    request GET "issues/$number/comments?per_page=100&page=$page"
    [ "$status" = 200 ] || return 1
    found=$(jq -r --arg marker "$marker" --arg author "$author" '
      first(.[]
        | select($author == "any" or .user.type == $author)
        | select(.body // "" | startswith($marker))
        | .id) // empty
    ' "$folder/answer.json" 2> /dev/null | tr -d '\r') || {
      status="200 but no list of comments"
      return 1
    }
    if [ -n "$found" ]; then
      jq -j --argjson id "$found" 'first(.[] | select(.id == $id)) | .body' "$folder/answer.json" > "$folder/existing.md"
      return 0
    fi
    count=$(jq length "$folder/answer.json" | tr -d '\r')
    [ "$count" -ge 100 ] || return 0
    page=$((page + 1))
  done
}

# Whether a comment that is not there yet is wanted.
wanted() {
  case $mode in
    always) return 0 ;;
    auto) [ "${PTMEM_VERDICT:-}" != pass ] ;;
    on-change) [ "${PTMEM_VERDICT:-}" != pass ] || [ "${PTMEM_CHANGED:-}" = true ] ;;
  esac
}

# One attempt. It begins with the search, since an earlier one may have got further than its answer says.
publish() {
  : > "$folder/existing.md"
  find_comment || return 0
  body "$folder/existing.md"
  if [ -n "$found" ]; then
    request PATCH "issues/comments/$found" "$folder/body.json"
  elif wanted; then
    request POST "issues/$number/comments" "$folder/body.json"
  fi
}

delay=${PTMEM_RETRY_DELAY:-2}
for attempt in 1 2 3; do
  publish
  case $status in
    5?? | 000) [ $attempt -eq 3 ] || sleep "$delay" ;;
    *) break ;;
  esac
done

case $status in
  200 | 201) ;;
  000) skip "$api does not answer" ;;
  401 | 403 | 404)
    skip "the token may not write to pull request $number (status $status); the job needs pull-requests: write, which \
a run of a fork never has"
    ;;
  *) warning "no comment on pull request $number: $api answered $status" ;;
esac
