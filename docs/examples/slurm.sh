#!/bin/bash
# Gates the memory of a job of many ranks on a cluster with Slurm. Every rank is recorded in a task of an array job; its snapshot
# stays on the disk of its node, and only the profile made of it there, a few hundred kilobytes, goes to the shared
# folder. One job that depends on the array compares all ranks. The script waits for it and ends with its exit code.
#
#   ./slurm.sh BEFORE AFTER RANKS COMMAND...
#
# BEFORE is a folder with a profile for each rank, of an earlier run; where there is none yet, this run becomes it. AFTER is the
# folder for the profiles of this run, on a disk that all nodes share. COMMAND runs once for each rank, with
# SLURM_ARRAY_TASK_ID as its number, and writes its snapshot to $PTMEM_SNAPSHOT.
#
# Options for ptmem go into PTMEM_DIFF, those for all jobs into SBATCH_* variables (man sbatch), and those for the array alone,
# such as --gpus=1, into PTMEM_ARRAY.
set -euo pipefail

if [ "$#" -lt 4 ]; then
  echo "usage: $0 BEFORE AFTER RANKS COMMAND..." >&2
  exit 2
fi
before=$1
after=$2
ranks=$3
shift 3
mkdir -p "$after"
rm -f "$after"/rank*.ptmem.json
before=$(realpath --canonicalize-missing "$before")
after=$(realpath "$after")
command=$(printf '%q ' "$@")
folder=$(printf '%q' "$after")

# A rank that fails leaves no profile, and the array fails with it.
# shellcheck disable=SC2086 # options are words
array=$(sbatch --parsable --job-name=ptmem-record --array="0-$((ranks - 1))" --output="$after/rank%a.log" ${PTMEM_ARRAY:-} <<JOB
#!/bin/bash
set -euo pipefail
scratch=\$(mktemp --directory)
trap 'rm -rf "\$scratch"' EXIT
export PTMEM_SNAPSHOT=\$scratch/rank\$SLURM_ARRAY_TASK_ID.pkl
$command
ptmem profile "\$PTMEM_SNAPSHOT" -o $folder/rank"\$SLURM_ARRAY_TASK_ID".ptmem.json
JOB
)

if [ ! -d "$before" ]; then
  echo "recording $ranks ranks as the first before: $before"
  compare="mkdir -p $(printf '%q' "$before") && cp $folder/rank*.ptmem.json $(printf '%q' "$before")"
else
  compare="ptmem diff ${PTMEM_DIFF:---max-growth 5%} $(printf '%q' "$before") $(printf '%q' "$after/rank*.ptmem.json")"
  compare+=" --export markdown=$folder/report.md --export json=$folder/report.json"
fi

# Without --kill-on-invalid-dep it would wait forever for an array that failed.
code=0
sbatch --wait --quiet --job-name=ptmem-compare --output="$after/report.txt" --dependency="afterok:${array%%;*}" \
  --kill-on-invalid-dep=yes <<JOB || code=$?
#!/bin/bash
$compare
JOB
if [ -f "$after/report.txt" ]; then
  cat "$after/report.txt"
else
  echo "not all ranks were recorded; see $after/rank*.log" >&2
fi
exit "$code"
