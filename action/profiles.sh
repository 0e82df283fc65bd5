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

# fetch_profiles: the branch of the input profiles. Fails where there is none yet.
fetch_profiles() {
  git fetch --quiet --no-tags --depth=$profiles_depth origin "+refs/heads/$PTMEM_PROFILES:$profiles_ref" > /dev/null 2>&1
}

# authorize TOKEN: lets git talk to GitHub with a token, through its environment: anybody on the machine can read a command
# line. An empty header drops what the checkout may have set, as GitHub refuses two.
authorize() {
  local header="http.${GITHUB_SERVER_URL:-https://github.com}/.extraheader"
  export GIT_TERMINAL_PROMPT=0
  [ -n "$1" ] || return 0
  export GIT_CONFIG_COUNT=2 GIT_CONFIG_KEY_0=$header GIT_CONFIG_VALUE_0='' GIT_CONFIG_KEY_1=$header
  GIT_CONFIG_VALUE_1="AUTHORIZATION: basic $(printf 'x-access-token:%s' "$1" | base64 | tr -d '\n')"
  export GIT_CONFIG_VALUE_1
}

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

# add_profile FILE PATH FOLDER: a commit with the profile of the commit that is checked out, on top of what was fetched, and at
# its time. FOLDER is for files in between.
add_profile() {
  local file=$1 path=$2 index=$3/index parents=() blob tree commit when
  rm -f "$index"
  if git rev-parse --verify --quiet "$profiles_ref^{commit}" > /dev/null; then
    parents=(-p "$profiles_ref")
    GIT_INDEX_FILE=$index git read-tree "$profiles_ref"
  fi
  blob=$(git hash-object -w --no-filters -- "$file")
  GIT_INDEX_FILE=$index git update-index --add --cacheinfo "100644,$blob,$path"
  tree=$(GIT_INDEX_FILE=$index git write-tree)
  when=$(git log -1 --format=%ct HEAD)
  commit=$(GIT_AUTHOR_DATE="$when +0000" GIT_COMMITTER_DATE="$when +0000" as_ptmem git commit-tree "$tree" \
    ${parents[@]+"${parents[@]}"} -m "$(git log -1 --format=%s HEAD)" -m "$recorded_commit: $(git rev-parse HEAD)")
  git update-ref "$profiles_ref" "$commit"
}

# find_profile PATH BASE FILE: writes the profile of the newest commit that has one to a file, and sets $profiled_commit to
# that commit. One that is known not to lead to the base does not count; a shallow clone often cannot tell.
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
