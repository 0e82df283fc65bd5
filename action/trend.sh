#!/usr/bin/env bash
# Shows the trend of each gate in the job summary.
set -euo pipefail
# shellcheck source=action/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

cd "$PTMEM_TREND"
for profile in "$PTMEM_FOLDER"/profiles/*.ptmem.json; do
  path=${GITHUB_REF#refs/heads/}/${PTMEM_SECTION:+$PTMEM_SECTION/}${profile##*/}
  [ -f "$path" ] || continue
  ptmem history --git "$path" --last 50 --config none --format markdown >> "${GITHUB_STEP_SUMMARY:-/dev/null}"
done
