#!/bin/bash
# Gates the memory of all ranks of a program under torchrun on simulated GPUs, on a machine without any: a profile for each rank,
# and one comparison of all.
#
#   ./torchrun.sh BEFORE AFTER RANKS PROGRAM...
#
# BEFORE is a folder with a profile for each rank, of an earlier run; AFTER is the folder for those of this run. Where both are the
# same, nothing is compared. PROGRAM is a Python script with its arguments. PYTHON names another Python than python3,
# PTMEM_SIMULATE_OPTIONS holds options such as --gpu h100, PTMEM_DIFF limits.
set -euo pipefail

if [ "$#" -lt 4 ]; then
  echo "usage: $0 BEFORE AFTER RANKS PROGRAM..." >&2
  exit 2
fi
before=$1
after=$2
ranks=$3
shift 3
mkdir -p "$after"
scratch=$(mktemp --directory)
trap 'rm -rf "$scratch"' EXIT

# shellcheck disable=SC2086 # options are words
ptmem simulate --gpus "$ranks" ${PTMEM_SIMULATE_OPTIONS:-} --record "$scratch/snapshot.pkl" -- \
  "${PYTHON:-python3}" -m torch.distributed.run --standalone --nproc-per-node "$ranks" "$@"
# An earlier run may have had more ranks.
rm -f "$after"/rank*.ptmem.json
for ((rank = 0; rank < ranks; rank++)); do
  ptmem profile "$scratch/snapshot_rank$rank.pkl" -o "$after/rank$rank.ptmem.json"
done
if [ "$before" != "$after" ]; then
  # shellcheck disable=SC2086 # options are words
  ptmem diff ${PTMEM_DIFF:---max-growth 5%} "$before" "$after"
fi
