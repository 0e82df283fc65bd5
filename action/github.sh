# shellcheck shell=bash
# Asks the API of GitHub. Sourced by comment.sh and before.sh, which set $folder, and $number for comments.
# shellcheck disable=SC2034,SC2154

token=${PTMEM_TOKEN:-}
api=${GITHUB_API_URL:-https://api.github.com}

# request METHOD PATH [FILE]: the status goes to $status, 000 without a connection, and the answer to
# answer.json. The token goes through standard input: anybody on the machine can read a command line.
request() {
  local method=$1 address=$api/repos/${GITHUB_REPOSITORY:-}/$2 file=${3:-}
  case $2 in https://* | http://*) address=$2 ;; esac
  status=$(
    printf 'header = "Authorization: Bearer %s"\n' "$token" | curl -q -K - --silent --show-error --globoff \
      --connect-timeout 10 --max-time 60 --request "$method" \
      --header 'Accept: application/vnd.github+json' --header 'X-GitHub-Api-Version: 2022-11-28' \
      --header 'Content-Type: application/json' --header 'User-Agent: ptmem-action' \
      ${file:+--data-binary "@$file"} \
      --output "$folder/answer.json" --write-out '%{http_code}' "$address"
  ) || status=000
}

# own_login: whose token it is goes to $login, without the ending of a bot; nothing where GitHub does not say so. It is asked once.
own_login() {
  if [ -z "${login+known}" ]; then
    printf '{"query": "{viewer{login}}"}' > "$folder/query.json"
    request POST "${GITHUB_GRAPHQL_URL:-$api/graphql}" "$folder/query.json"
    login=$(jq -r '.data.viewer.login // empty | rtrimstr("[bot]")' "$folder/answer.json" 2> /dev/null | tr -d '\r') || login=
  fi
}

# find_comment: looks for the first comment that begins with the marker. Its number goes to $found, its text to existing.md.
# Anybody can write a comment with the marker, so it has to be by the one whose token this is. If GitHub does not say who
# that is, the token of a workflow writes as a bot, and no comment of a person is taken for its own.
find_comment() {
  local page author=any
  found=
  : > "$folder/existing.md"
  case $token in ghs_*) author=Bot ;; esac
  own_login
  for ((page = 1; page <= 100; page++)); do
    request GET "issues/$number/comments?per_page=100&page=$page"
    [ "$status" = 200 ] || return 1
    jq --arg marker "$marker" --arg author "$author" --arg login "$login" 'length, (first(.[]
        | select($author == "any" or .user.type == $author)
        | select($login == "" or (.user.login // "" | rtrimstr("[bot]")) == $login)
        | select(.body // "" | startswith($marker))) // null)' "$folder/answer.json" > "$folder/found.json" 2> /dev/null || {
      status="200 but no list of comments"
      return 1
    }
    found=$(jq -rn '[inputs] | .[1].id // empty' "$folder/found.json" | tr -d '\r')
    jq -jn '[inputs] | .[1].body // empty' "$folder/found.json" | tr -d '\r' > "$folder/existing.md"
    [ -z "$found" ] && jq -en '[inputs] | .[0] >= 100' "$folder/found.json" > /dev/null || return 0
  done
}
