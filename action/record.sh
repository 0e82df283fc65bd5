# shellcheck shell=bash
# Runs the command of the input record on the base and on the checkout, each on a simulated GPU unless gpu is real.
# Its variables are those of run.sh.
# shellcheck disable=SC2034,SC2154
# Sourced by run.sh, after base.sh.

gpu=${PTMEM_GPU:-a100}
steps=${PTMEM_RECORD_STEPS:-all}
base_folder=

remove_base() {
  if [ -n "$base_folder" ]; then
    git worktree remove --force "$base_folder" > /dev/null 2>&1 || true
  fi
}

# record SIDE COMMIT FOLDER: runs the command in the folder of a commit, for the before or the after, and sets $recorded to
# the snapshot, or to the folder of those of several ranks. The code under test gets none of the files through which a step
# talks to GitHub.
record() {
  local side=$1 commit=$2 where=$3 status=0
  local shell=(env -u GITHUB_OUTPUT -u GITHUB_ENV -u GITHUB_PATH -u GITHUB_STEP_SUMMARY -u GITHUB_STATE)
  shell+=(bash --noprofile --norc -eo pipefail "$folder/command.sh")
  recorded=
  mkdir -p "$folder/$side"
  export PTMEM_SNAPSHOT=$folder/$side/snapshot.pkl
  local prefix=()
  if [ "$gpu" != real ]; then
    prefix=(ptmem simulate --gpu "$gpu")
    prefix+=(${simulate_words[@]+"${simulate_words[@]}"})
    case $steps in
      none) ;;
      all) prefix+=(--record "$PTMEM_SNAPSHOT") ;;
      *) prefix+=(--record "$PTMEM_SNAPSHOT,steps=$steps") ;;
    esac
    prefix+=(--)
  fi
  printf '%s\n' "recording the $commit"
  without_commands "$folder/record.log" "$where" ${prefix[@]+"${prefix[@]}"} "${shell[@]}" || status=$?
  if [ $status != 0 ]; then
    could_not_run "record: on the $commit the command ended with exit code $status:
$(tail -n 20 "$folder/record.log" | without_colours)"
  fi
  if [ -f "$PTMEM_SNAPSHOT" ]; then
    recorded=$PTMEM_SNAPSHOT
  elif [ -n "$(ls -A "$folder/$side")" ]; then
    recorded=$folder/$side
  else
    could_not_run "record: on the $commit the command wrote no snapshot to the file that PTMEM_SNAPSHOT names"
  fi
}

record_both() {
  local head prefix pattern='^([1-9][0-9]*\.\.[1-9][0-9]*|all|none)$'
  if ! [[ $steps =~ $pattern ]]; then
    could_not_run "record-steps: '$steps' is not accepted; expected steps such as 3..3, all or none"
  fi
  find_base || could_not_run "record: $base_reason"
  head=$(git rev-parse --show-toplevel)
  prefix=$(git rev-parse --show-prefix)
  printf '%s\n' "$PTMEM_RECORD" | tr -d '\r' > "$folder/command.sh"
  base_folder=$folder/base-commit
  git -C "$head" worktree add --quiet --detach "$base_folder" "$base" > "$folder/worktree.log" 2>&1 || {
    base_folder=
    could_not_run "record: the base ${base:0:7} cannot be checked out: $(cat "$folder/worktree.log")"
  }
  [ -d "$base_folder/$prefix" ] ||
    could_not_run "record: the base ${base:0:7} has no folder '$prefix', which is the working-directory"
  record before "base ${base:0:7}" "$base_folder/$prefix"
  before=$recorded
  record after checkout "$PWD"
  after=$recorded
}
