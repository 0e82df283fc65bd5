# shellcheck shell=bash
# Git with a token. The code under test can write the settings of the checkout and of the user, and many a setting names a program
# that git starts. So git with a token runs in a repository of its own, with no settings but those below. Sourced by fetch.sh,
# keep.sh and picture.sh.

server=${GITHUB_SERVER_URL:-https://github.com}

# output_network: the settings of this machine that reach the server, as outputs: they are read before recorded code runs.
output_network() {
  local authorities=${GIT_SSL_CAINFO:-}
  output proxy "$(git config --get-urlmatch http.proxy "$server" 2> /dev/null)"
  output authorities "${authorities:-$(git config --type=path --get-urlmatch http.sslCAInfo "$server" 2> /dev/null)}"
}

# set_git KEY VALUE: a setting by the environment: anybody on the machine can read a command line.
set_git() {
  export "GIT_CONFIG_KEY_$GIT_CONFIG_COUNT=$1" "GIT_CONFIG_VALUE_$GIT_CONFIG_COUNT=$2"
  export GIT_CONFIG_COUNT=$((GIT_CONFIG_COUNT + 1))
}

# own_repository FOLDER TOKEN: makes a repository in the folder and enters it. Git then has no settings of the machine or the user,
# starts no hooks and no helpers, asks nobody, and talks to the server alone.
own_repository() {
  local name
  for name in ${!GIT_@}; do
    unset "$name"
  done
  mkdir "$1/home"
  export HOME=$1/home XDG_CONFIG_HOME=$1/home GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_COUNT=0
  export GIT_TERMINAL_PROMPT=0 GIT_ALLOW_PROTOCOL=${server%%:*}
  set_git core.hooksPath /dev/null
  set_git credential.helper ''
  [ -z "${PTMEM_PROXY:-}" ] || set_git http.proxy "$PTMEM_PROXY"
  [ -z "${PTMEM_AUTHORITIES:-}" ] || set_git http.sslCAInfo "$PTMEM_AUTHORITIES"
  if [ -n "$2" ]; then
    set_git "http.$server/.extraheader" "AUTHORIZATION: basic $(printf 'x-access-token:%s' "$2" | base64 | tr -d '\n')"
  fi
  git init --quiet --bare --template= "$1/git"
  cd "$1/git" || return 1
  git remote add origin "$server/$GITHUB_REPOSITORY"
}

# fetch_branch BRANCH REF OPTION...: the branch as far as the options of git fetch say goes to the ref, which is gone where there is
# no such branch yet.
fetch_branch() {
  local branch=refs/heads/$1 ref=$2 found
  shift 2
  found=$(git ls-remote origin "$branch") || return 1
  if [ -z "$found" ]; then
    git update-ref -d "$ref"
  else
    git fetch --quiet --no-tags "$@" origin "+$branch:$ref"
  fi
}
