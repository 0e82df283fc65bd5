# shellcheck shell=bash
# The timeline of a comparison as a picture, for the comment on a pull request: a branch keeps the newest ones. Sourced by
# run.sh, whose variables these are.
# shellcheck disable=SC2154

# is_own_pull_request: whether the pull request comes from this repository. The token of a fork's run cannot push.
is_own_pull_request() {
  local event=${GITHUB_EVENT_PATH:-} from
  [ -f "$event" ] && command -v jq > /dev/null || return 1
  from=$(jq -r '.pull_request.head.repo.full_name // empty' "$event" 2> /dev/null | tr -d '\r') || return 1
  [ -n "$from" ] && [ "$from" = "${GITHUB_REPOSITORY:-}" ]
}

# shows_report STATUS: whether a comment has the whole report. Where all is well it has one line.
shows_report() {
  case ${PTMEM_COMMENT:-auto} in
    never) return 1 ;;
    on-change) return 0 ;;
    *) [ "$1" != 0 ] ;;
  esac
}

# output_picture STATUS: the picture, and the report with its address in place of the chart, for the step that pushes the branch.
# Gates of one run have names of their own; the number of the run in front shows which pictures are the newest.
output_picture() {
  local file address
  [ -n "${PTMEM_PICTURES:-}" ] && shows_report "$1" && is_own_pull_request || return 0
  file=${GITHUB_RUN_ID:-0}-${GITHUB_RUN_ATTEMPT:-1}-${folder##*[./-]}.svg
  address="${GITHUB_SERVER_URL:-https://github.com}/$GITHUB_REPOSITORY/blob/$PTMEM_PICTURES/$file?raw=true"
  "${comparison[@]}" --export "svg=$folder/$file" --export "markdown=$folder/picture.md" --picture "$address" \
    --comment-key "${name:-$key}" > /dev/null 2>&1 || true
  if [ -s "$folder/$file" ] && [ -s "$folder/picture.md" ]; then
    mask_file "$folder/picture.md"
    output picture "$folder/$file"
    output picture-report "$folder/picture.md"
  fi
}
