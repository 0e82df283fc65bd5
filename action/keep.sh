#!/usr/bin/env bash
# Pushes the profiles of this commit to the branch that keeps them for the trend: a file for each branch of the code, section and gate. Somebody
# else may have pushed meanwhile: the profiles then go on top of that. A trend is a courtesy: a problem with it never fails the job.
#
# Git has a token here, and the code under test can write the settings of the checkout and of the user, many of which name a program that
# git starts. So it runs in a repository of its own, with no settings but those below.
set -euo pipefail
# shellcheck source=action/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

branch=ptmem-profiles
server=${GITHUB_SERVER_URL:-https://github.com}
folder=$(new_folder)
profiles=()
for profile in "$PTMEM_FOLDER"/profiles/*.ptmem.json; do
  ! is_file "$profile" || profiles+=("$profile")
done
[ ${#profiles[@]} -gt 0 ] || exit 0

# set_git KEY VALUE: a setting by the environment: anybody on the machine can read a command line.
set_git() {
  export "GIT_CONFIG_KEY_$GIT_CONFIG_COUNT=$1" "GIT_CONFIG_VALUE_$GIT_CONFIG_COUNT=$2"
  export GIT_CONFIG_COUNT=$((GIT_CONFIG_COUNT + 1))
}

# own_repository: makes it and enters it. Git has no settings of the machine or the user, starts no hooks and no helpers, asks nobody, and
# talks to the server alone.
own_repository() {
  local name
  for name in ${!GIT_@}; do
    unset "$name"
  done
  mkdir "$folder/home"
  export HOME=$folder/home XDG_CONFIG_HOME=$folder/home GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_COUNT=0
  export GIT_TERMINAL_PROMPT=0 GIT_ALLOW_PROTOCOL=${server%%:*}
  export GIT_AUTHOR_NAME=ptmem GIT_AUTHOR_EMAIL='' GIT_COMMITTER_NAME=ptmem GIT_COMMITTER_EMAIL=''
  set_git core.hooksPath /dev/null
  set_git credential.helper ''
  [ -z "${PTMEM_PROXY:-}" ] || set_git http.proxy "$PTMEM_PROXY"
  [ -z "${PTMEM_AUTHORITIES:-}" ] || set_git http.sslCAInfo "$PTMEM_AUTHORITIES"
  [ -z "${PTMEM_TOKEN:-}" ] ||
    set_git "http.$server/.extraheader" "AUTHORIZATION: basic $(printf 'x-access-token:%s' "$PTMEM_TOKEN" | base64 | tr -d '\n')"
  git init --quiet --template= "$folder/trend"
  cd "$folder/trend" && git remote add origin "$server/$GITHUB_REPOSITORY"
}

# keep: one attempt. Two hundred commits are as many as a trend shows, and those of other gates between them.
keep() {
  local profile path found
  found=$(git ls-remote origin "refs/heads/$branch") || return 1
  [ -z "$found" ] || { git fetch --quiet --no-tags --depth=200 origin "refs/heads/$branch" && git reset --quiet --hard FETCH_HEAD; } || return 1
  for profile in "${profiles[@]}"; do
    path=${GITHUB_REF#refs/heads/}/${PTMEM_SECTION:+$PTMEM_SECTION/}${profile##*/}
    mkdir -p "$(dirname "$path")" && cp "$profile" "$path" && git add -- "$path" || return 1
  done
  git diff --quiet --cached 2> /dev/null && [ -n "$found" ] && return 0
  git commit --quiet -m "${subject:-$GITHUB_SHA}" -m "Recorded-commit: $GITHUB_SHA" &&
    git push --quiet origin "HEAD:refs/heads/$branch"
}

# The trend has the times and subjects of the commits that were recorded.
subject=$(event .head_commit.message | head -n 1)
when=$(event .head_commit.timestamp)
own_repository
[ -z "$when" ] || export GIT_AUTHOR_DATE=$when GIT_COMMITTER_DATE=$when
for attempt in 1 2 3 4 5; do
  [ "$attempt" = 1 ] || sleep "${PTMEM_RETRY_DELAY:-2}"
  if keep > "$folder/log.txt" 2>&1; then
    printf 'the profiles are kept in the branch %s\n' "$branch"
    output trend "$folder/trend"
    exit 0
  fi
done
notice "the profiles are not kept: the branch $branch cannot be pushed, which takes contents: write: $(tail -n 5 "$folder/log.txt")"
