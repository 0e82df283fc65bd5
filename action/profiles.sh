# shellcheck shell=bash
# A branch that keeps a profile of each commit that was pushed: a file for each gate and branch of the code, and a commit for
# each profile, which names the one that was recorded. Sourced by run.sh, fetch.sh and keep.sh.
# shellcheck disable=SC2034

# The branch as far as it was fetched.
profiles_ref=refs/ptmem/profiles

# Commits of it that are fetched: as many as a trend shows, and those of other gates between them.
profiles_depth=200

# The trailer that names the commit that was recorded.
recorded_commit=Recorded-commit

# as_ptmem COMMAND...: runs git as the one who commits, whoever's machine this is.
as_ptmem() {
  env GIT_AUTHOR_NAME=ptmem GIT_AUTHOR_EMAIL= GIT_COMMITTER_NAME=ptmem GIT_COMMITTER_EMAIL= "$@"
}

# branch_of_run: the branch of the code that a push goes to, or that a pull request or a merge queue is for.
branch_of_run() {
  local event=${GITHUB_EVENT_PATH:-} branch=${GITHUB_BASE_REF:-}
  if [ -z "$branch" ] && [ -f "$event" ] && command -v jq > /dev/null; then
    branch=$(jq -r '.merge_group.base_ref // empty' "$event" 2> /dev/null | tr -d '\r') || branch=
  fi
  branch=${branch:-${GITHUB_REF:-}}
  printf '%s' "${branch#refs/heads/}"
}

# describe_commit: the hash, the time and the subject of the commit that is checked out, in one line.
describe_commit() { git log -1 --no-show-signature --format='%H %ct %s' HEAD; }

# add_profile FILE PATH COMMIT FOLDER: a commit with a profile, on top of what was fetched, and at the time of the commit that was
# recorded, which describe_commit describes. FOLDER is for files in between.
add_profile() {
  local file=$1 path=$2 index=$4/index parents=() blob tree commit hash when subject
  read -r hash when subject <<< "$3"
  rm -f "$index"
  if git rev-parse --verify --quiet "$profiles_ref^{commit}" > /dev/null; then
    parents=(-p "$profiles_ref")
    GIT_INDEX_FILE=$index git read-tree "$profiles_ref"
  fi
  blob=$(git hash-object -w --no-filters -- "$file")
  GIT_INDEX_FILE=$index git update-index --add --cacheinfo "100644,$blob,$path"
  tree=$(GIT_INDEX_FILE=$index git write-tree)
  commit=$(GIT_AUTHOR_DATE="$when +0000" GIT_COMMITTER_DATE="$when +0000" as_ptmem git commit-tree "$tree" \
    ${parents[@]+"${parents[@]}"} -m "$subject" -m "$recorded_commit: $hash")
  git update-ref "$profiles_ref" "$commit"
}

# find_profile PATH BASE FILE: writes the profile of the newest commit that has one to a file, and sets $profiled_commit to
# that commit. One that is known not to lead to the base does not count; in a shallow clone this is often unknown.
find_profile() {
  local version commit common
  profiled_commit=
  git rev-parse --verify --quiet "$profiles_ref^{commit}" > /dev/null || return 1
  while read -r version commit; do
    common=$(git merge-base "$commit" "$2" 2> /dev/null) || common=$commit
    if [ "$common" = "$commit" ]; then
      git cat-file blob "$version:$1" > "$3" || return 1
      profiled_commit=$commit
      return 0
    fi
  done < <(git log --format="%H %(trailers:key=$recorded_commit,valueonly,separator=%x20)" "$profiles_ref" -- ":(top,literal)$1")
  return 1
}
