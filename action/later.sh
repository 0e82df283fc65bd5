#!/usr/bin/env bash
# Writes the text of the comment for another job, which has the token and posts it: its first line says whether it is worth a
# comment that is not there yet.
set -euo pipefail
scripts=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=action/common.sh
. "$scripts/common.sh"
# shellcheck source=action/choice.sh
. "$scripts/choice.sh"

mode=${PTMEM_COMMENT:-auto}
report=${PTMEM_REPORT:-}
brief=${PTMEM_BRIEF:-}
[ "$mode" != never ] || exit 0
choose_report
is_file "$report" || exit 0
folder=$(new_folder)
if wanted; then
  cat "$report" > "$folder/report.md"
else
  sed "1s/ -->/ $only_update -->/" "$report" > "$folder/report.md"
fi
output file "$folder/report.md"
