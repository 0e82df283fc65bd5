# shellcheck shell=bash
# Chooses the text of a comment, and whether there is to be a new one. Sourced by comment.sh and later.sh, whose variables these are.
# shellcheck disable=SC2034,SC2154

# choose_report: where all is well, a line suffices, unless whoever asked for changes gets one.
choose_report() {
  if [ "${PTMEM_VERDICT:-}" = pass ] && [ -s "$brief" ] && [ "$mode/${PTMEM_CHANGED:-}" != on-change/true ]; then
    report=$brief
  fi
}

# wanted: succeeds where a comment that is not there yet should be created.
wanted() {
  # A change that loosens its own limits, or whose base has no recording, is reported to the reviewer.
  [ "${PTMEM_ANNOUNCE:-}" != true ] || return 0
  case $mode in
    always) ! head -n 1 "$report" | grep -q "^<!-- ptmem:.* $only_update -->" ;;
    auto) [ "${PTMEM_VERDICT:-}" != pass ] ;;
    on-change) [ "${PTMEM_VERDICT:-}" != pass ] || [ "${PTMEM_CHANGED:-}" = true ] ;;
  esac
}

# In the hidden first line of a report that another job posts: it only takes the place of a comment that is there.
only_update=only-update
