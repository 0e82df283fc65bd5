#!/usr/bin/env bash
# Pushes the branch with the profile of this commit. Somebody else may have pushed meanwhile: the profile then goes on top of
# that. A trend is a courtesy: a problem with it is a warning and never fails the job.
set -euo pipefail
scripts=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=action/common.sh
. "$scripts/common.sh"
# shellcheck source=action/profiles.sh
. "$scripts/profiles.sh"

folder=$(new_folder)
trap 'rm -rf "$folder"' EXIT
cd "${PTMEM_WORKING_DIRECTORY:-.}"
authorize "${PTMEM_TOKEN:-}"
for attempt in 1 2 3 4 5; do
  # The code that was recorded may have left a hook.
  if git -c core.hooksPath=/dev/null push --quiet origin "$profiles_ref:refs/heads/$PTMEM_PROFILES" > "$folder/log.txt" 2>&1; then
    printf 'the profile is kept in the branch %s\n' "$PTMEM_PROFILES"
    exit 0
  fi
  [ "$attempt" = 1 ] || sleep "${PTMEM_RETRY_DELAY:-2}"
  fetch_profiles || break
  add_profile "$PTMEM_PROFILE" "$PTMEM_PROFILE_PATH" "$folder"
done
warning "the profile is not kept: the branch $PTMEM_PROFILES cannot be pushed, which takes contents: write: \
$(tail -n 5 "$folder/log.txt")"
