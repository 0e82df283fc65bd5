#!/usr/bin/env bash
# Ends the action with the exit code of the verdict. With exit-zero, only errors fail; approved growth does not.
set -euo pipefail
case ${PTMEM_EXIT_CODE:-}/${PTMEM_EXIT_ZERO:-false}/${PTMEM_APPROVED:-false} in
  0/* | [13]/*/true | [13]/true/*) exit 0 ;;
  1/* | 3/*) exit "$PTMEM_EXIT_CODE" ;;
  # Without an exit code the gate does not pass.
  *) exit 2 ;;
esac
