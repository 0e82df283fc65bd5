#!/usr/bin/env bash
# Pushes a picture to the branch of the input pictures, and puts the report that shows it in place of the one with a chart.
# The branch has one commit, with the newest pictures. A picture is a courtesy: a problem with it is a warning and never fails the
# job.
set -euo pipefail
scripts=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=action/common.sh
. "$scripts/common.sh"
# shellcheck source=action/profiles.sh
. "$scripts/profiles.sh"
# shellcheck source=action/repository.sh
. "$scripts/repository.sh"

# Pictures that are kept, of about 30 KB each.
most=200
title='Pictures of ptmem'

folder=$(new_folder)
trap 'rm -rf "$folder"' EXIT
picture=$PTMEM_PICTURE
report=$PTMEM_REPORT
branch=refs/heads/$PTMEM_PICTURES
own_repository "$folder" "${PTMEM_TOKEN:-}"

# give_up REASON
give_up() {
  warning "the picture is not kept, so the comment has a chart: $1"
  exit 0
}

# add: a commit with the picture and the newest ones before it goes to $commit.
add() {
  local tree
  tree=$(
    {
      [ -z "$earlier" ] || git ls-tree "$earlier" | sort -t "$(printf '\t')" -k 2 -n | tail -n $((most - 1))
      printf '100644 blob %s\t%s\n' "$(git hash-object -w --no-filters -- "$picture")" "${picture##*/}"
    } | git mktree --missing
  )
  commit=$(as_ptmem git commit-tree "$tree" -m "$title")
}

if ! is_file "$picture" || ! is_file "$PTMEM_PICTURE_REPORT"; then
  give_up "$picture or its report is missing"
fi
for attempt in 1 2 3 4 5; do
  [ "$attempt" = 1 ] || sleep "${PTMEM_RETRY_DELAY:-2}"
  fetch_branch "$PTMEM_PICTURES" refs/earlier --depth=1 --filter=blob:none 2> "$folder/log.txt" ||
    give_up "$(tail -n 5 "$folder/log.txt")"
  earlier=$(git rev-parse --verify --quiet refs/earlier) || earlier=
  # Whatever else the branch holds would be lost.
  if [ -n "$earlier" ] && [ "$(git log -1 --format=%s "$earlier")" != "$title" ]; then
    give_up "the branch $PTMEM_PICTURES holds something else; name another one in the input pictures"
  fi
  add
  if git push --quiet --force-with-lease="$branch:$earlier" origin "$commit:$branch" 2> "$folder/log.txt"; then
    mv "$PTMEM_PICTURE_REPORT" "$report"
    printf 'the picture is kept in the branch %s\n' "$PTMEM_PICTURES"
    exit 0
  fi
done
give_up "the branch $PTMEM_PICTURES cannot be pushed, which takes contents: write: $(tail -n 5 "$folder/log.txt")"
