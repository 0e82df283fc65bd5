# shellcheck shell=bash
# Finds the commit that a pull request is compared with. Sourced by run.sh.
# Its variables are those of run.sh.
# shellcheck disable=SC2034,SC2154

# The commit, where find_base succeeded; the reason, where it did not.
base=
base_reason=
# True where the run is one of a pull request, whose rows should be marked.
is_pull_request=false
# Why the limits of a pull request are not compared with those of its base, or may not be.
not_compared=

# no_base REASON
no_base() {
  base=
  base_reason=$1
  return 1
}

# parents_of COMMIT: the names of its parents, one per line, also where a shallow clone lacks them.
parents_of() {
  git cat-file commit "$1" | sed -n '/^$/q;s/^parent //p' | tr -d '\r'
}

# find_base: the input base, or for a merge queue the commit that its event names, or for a pull request the commit on
# its base branch in which its history begins. A
# checkout of a pull request is by default a merge of both branches, so its first parent is that commit, whatever came to
# the base branch since.
find_base() {
  local event=${GITHUB_EVENT_PATH:-} wanted=${PTMEM_BASE:-} head='' parents=''
  if [ -z "$wanted" ]; then
    command -v jq > /dev/null || no_base "jq is not installed on this machine" || return 1
    if [ -f "$event" ]; then
      wanted=$(jq -r '.pull_request.base.sha // .merge_group.base_sha // empty' "$event" 2> /dev/null | tr -d '\r') || wanted=
      head=$(jq -r '.pull_request.head.sha // empty' "$event" 2> /dev/null | tr -d '\r') || head=
    fi
    [ -n "$wanted" ] || no_base "this is not a run of a pull request or merge queue; name the commit in the input base" || return 1
    is_pull_request=true
  fi
  command -v git > /dev/null || no_base "git is not installed on this machine" || return 1
  git rev-parse --verify --quiet 'HEAD^{commit}' > /dev/null 2>&1 ||
    no_base "the working directory is in no checkout of a commit" || return 1
  parents=$(parents_of HEAD)
  if [ -n "$head" ] && [ "$(sed -n 2p <<< "$parents")" = "$head" ]; then
    wanted=$(sed -n 1p <<< "$parents")
    # A checkout of a single commit lacks even its parents.
    if ! git merge-base "$wanted" HEAD > /dev/null 2>&1; then
      git fetch --quiet --no-tags --deepen=1 origin "$(git rev-parse HEAD)" > /dev/null 2>&1 || true
    fi
  fi
  # In a merge queue, the base is behind the merges of the whole group.
  if [ -n "${GITHUB_EVENT_NAME:-}" ] && [ "$GITHUB_EVENT_NAME" = merge_group ] &&
    ! git merge-base --end-of-options "$wanted" HEAD > /dev/null 2>&1; then
    git fetch --quiet --no-tags --deepen=100 origin "$(git rev-parse HEAD)" > /dev/null 2>&1 || true
  fi
  base=$(git merge-base --end-of-options "$wanted" HEAD 2> /dev/null) ||
    no_base "the checkout lacks the history back to $wanted; set fetch-depth: 2 of actions/checkout for a pull request, or 0"
}
