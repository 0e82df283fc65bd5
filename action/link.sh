#!/usr/bin/env bash
# Adds the address of the uploaded page to the comment and to the job summary, and lays the comment out for the job that posts it.
set -euo pipefail
# shellcheck source=action/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

comment=$PTMEM_FOLDER/comment.md
# GitHub takes no longer comments.
most=65000

pattern='^https?://[A-Za-z0-9._~:/?#@!$&*+,;=%-]+$'
if [[ ${PTMEM_PAGE_ADDRESS:-} =~ $pattern ]]; then
  line="[Timelines, flame graph and all rows]($PTMEM_PAGE_ADDRESS): an archive with one page to open in a browser"
  if is_file "$comment" && [ "$(wc -c < "$comment")" -le $((most - ${#line} - 2)) ]; then
    printf '\n%s\n' "$line" >> "$comment"
  fi
  printf '\n%s\n' "$line" >> "${GITHUB_STEP_SUMMARY:-/dev/null}"
fi
is_file "$comment" || exit 0
# A job that posts several tells them apart by the names of their files.
posted=$(new_folder)/${PTMEM_SECTION:-comment}.md
cp "$comment" "$posted"
output file "$posted"
