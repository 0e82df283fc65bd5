#!/usr/bin/env bash
# Adds the address of the uploaded page to the report, from which the comment is made, and to the job summary.
set -euo pipefail
# shellcheck source=action/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

address=${PTMEM_PAGE_ADDRESS:-}
brief=${PTMEM_BRIEF:-}
report=${PTMEM_REPORT:-}
# GitHub takes no longer comments.
most=65000

pattern='^https?://[A-Za-z0-9._~:/?#@!$&*+,;=%-]+$'
if ! [[ $address =~ $pattern ]]; then
  notice 'the page was not uploaded; nothing links to it'
  exit 0
fi
line="[Timelines, flame graph and all rows]($address): an archive with one page to open in a browser"
if [ -f "$report" ] && [ "$(wc -c < "$report")" -le $((most - ${#line} - 2)) ]; then
  printf '\n%s\n' "$line" >> "$report"
fi
if [ -f "$brief" ]; then
  printf '\n%s\n' "$line" >> "$brief"
fi
if [ "${PTMEM_SUMMARY:-true}" = true ] && [ -n "${GITHUB_STEP_SUMMARY:-}" ]; then
  printf '\n%s\n' "$line" >> "$GITHUB_STEP_SUMMARY"
fi
