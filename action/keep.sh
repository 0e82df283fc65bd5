#!/usr/bin/env bash
# Pushes the branch with the profile of this commit. Somebody else may have pushed meanwhile: the profile then goes on top of
# that. A trend is a courtesy: a problem with it is a warning and never fails the job.
set -euo pipefail
scripts=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=action/common.sh
. "$scripts/common.sh"
# shellcheck source=action/profiles.sh
. "$scripts/profiles.sh"
# shellcheck source=action/repository.sh
. "$scripts/repository.sh"

folder=$(new_folder)
trap 'rm -rf "$folder"' EXIT
if ! is_file "$PTMEM_PROFILE"; then
  warning "the profile is not kept: $PTMEM_PROFILE is not a file"
  exit 0
fi
own_repository "$folder" "${PTMEM_TOKEN:-}"

# keep: one attempt.
keep() {
  fetch_branch "$PTMEM_PROFILES" "$profiles_ref" --depth=1 &&
    add_profile "$PTMEM_PROFILE" "$PTMEM_PROFILE_PATH" "$PTMEM_PROFILE_COMMIT" "$folder" &&
    git push --quiet origin "$profiles_ref:refs/heads/$PTMEM_PROFILES"
}

for attempt in 1 2 3 4 5; do
  [ "$attempt" = 1 ] || sleep "${PTMEM_RETRY_DELAY:-2}"
  if keep > "$folder/log.txt" 2>&1; then
    printf 'the profile is kept in the branch %s\n' "$PTMEM_PROFILES"
    exit 0
  fi
done
warning "the profile is not kept: the branch $PTMEM_PROFILES cannot be pushed, which takes contents: write: \
$(tail -n 5 "$folder/log.txt")"
