#!/usr/bin/env bash
# What later steps need and recorded code can change, read before any is recorded: the way to the server, and the labels of the pull
# request that a merge queue tests.
set -euo pipefail
scripts=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=action/common.sh
. "$scripts/common.sh"
# shellcheck source=action/github.sh
. "$scripts/github.sh"

# setting NAME [TYPE]: a setting of git for the server, from outside of any checkout.
setting() {
  local server=${GITHUB_SERVER_URL:-https://github.com}
  (cd / && git config ${2:+"--type=$2"} --get-urlmatch "$1" "$server" 2> /dev/null) || true
}

# Once in a job: recorded code of an earlier gate may have written the settings of the user.
if [ -z "${PTMEM_NETWORK_READ:-}" ] && command -v git > /dev/null; then
  word=$(random_word)
  authorities=${GIT_SSL_CAINFO:-$(setting http.sslCAInfo path)}
  {
    printf 'PTMEM_NETWORK_READ=true\n'
    printf 'PTMEM_PROXY<<%s\n%s\n%s\n' "$word" "$(setting http.proxy)" "$word"
    printf 'PTMEM_AUTHORITIES<<%s\n%s\n%s\n' "$word" "$authorities" "$word"
  } >> "${GITHUB_ENV:-/dev/null}"
fi

# queued_labels: the event with the labels of the pull request whose number is in the name of the queue branch. Its output is
# the path of that.
queued_labels() {
  local number pattern='/pr-([1-9][0-9]*)-[0-9a-f]+$'
  [[ $(event .merge_group.head_ref) =~ $pattern ]] || return 1
  number=${BASH_REMATCH[1]}
  request GET "issues/$number/labels?per_page=100"
  [ "$status" = 200 ] || return 1
  jq --argjson number "$number" --slurpfile labels "$folder/answer.json" \
    '. + {pull_request: {number: $number, labels: $labels[0]}}' "$GITHUB_EVENT_PATH" > "$folder/event.json" &&
    output event "$folder/event.json"
}

if [ "${GITHUB_EVENT_NAME:-}" = merge_group ] && [ -n "${PTMEM_APPROVE_LABEL:-}" ]; then
  folder=$(new_folder)
  queued_labels || notice 'no label counts in the merge queue: those of its pull request cannot be read'
fi
