#!/usr/bin/env bash
# Fetches what the comparison may need with a token, before recorded code runs: the branch of profiles, and the labels of the pull
# request that a merge queue tests. Also reads the settings with which later steps reach the server. Missing settings are not an error.
set -euo pipefail
scripts=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=action/common.sh
. "$scripts/common.sh"
# shellcheck source=action/profiles.sh
. "$scripts/profiles.sh"
# shellcheck source=action/github.sh
. "$scripts/github.sh"
# shellcheck source=action/repository.sh
. "$scripts/repository.sh"

token=${PTMEM_TOKEN:-}
api=${GITHUB_API_URL:-https://api.github.com}
event=${GITHUB_EVENT_PATH:-}

# queued_labels: the event with the labels of the pull request whose number is in the name of the queue branch. Its output is
# the path of that.
queued_labels() {
  local number pattern='/pr-([1-9][0-9]*)-[0-9a-f]+$' head
  head=$(jq -r '.merge_group.head_ref // empty' "$event" 2> /dev/null | tr -d '\r') || return 1
  [[ $head =~ $pattern ]] || return 1
  number=${BASH_REMATCH[1]}
  folder=$(new_folder)
  request GET "issues/$number/labels?per_page=100"
  if [ "$status" != 200 ]; then
    notice "no label counts in the merge queue: those of pull request $number cannot be read (status $status)"
    return 0
  fi
  jq --argjson number "$number" --slurpfile labels "$folder/answer.json" \
    '. + {pull_request: {number: $number, labels: $labels[0]}}' "$event" > "$folder/event.json" || return 1
  output event "$folder/event.json"
}

if [ "${GITHUB_EVENT_NAME:-}" = merge_group ] && [ -n "${PTMEM_APPROVE_LABEL:-}" ] && [ -n "$token" ] &&
  command -v jq > /dev/null && command -v curl > /dev/null; then
  queued_labels || notice 'no label counts in the merge queue: its event names no pull request'
fi
if ! command -v git > /dev/null || ! cd "${PTMEM_WORKING_DIRECTORY:-.}" 2> /dev/null; then
  exit 0
fi
output_network

# fetch_profiles FOLDER: the branch of the input profiles, into a repository in the folder. run.sh, which has no token, takes it from
# there: the checkout may have hooks.
fetch_profiles() {
  (
    own_repository "$1" "$token"
    fetch_branch "$PTMEM_PROFILES" "$profiles_ref" --depth=$profiles_depth
  ) && output profiles "$1/git"
}

if [[ ${PTMEM_RECORD:-} =~ [^[:space:]] ]] && [ -n "${PTMEM_PROFILES:-}" ]; then
  fetch_profiles "$(new_folder)" > /dev/null 2>&1 || printf 'the branch %s with profiles cannot be fetched\n' "$PTMEM_PROFILES"
fi
