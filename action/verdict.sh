#!/usr/bin/env bash
# Ends the action with the exit code of the verdict. With exit-zero, only errors fail; approved growth does not.
set -euo pipefail

case ${PTMEM_EXIT_CODE:-}/${PTMEM_EXIT_ZERO:-false}/${PTMEM_APPROVED:-false} in
  0/*) exit 0 ;;
  1/*/true | 3/*/true) exit 0 ;;
  1/true/* | 3/true/*) exit 0 ;;
  1/*) exit 1 ;;
  3/*) exit 3 ;;
  # Without an exit code the gate does not pass.
  *) exit 2 ;;
esac
