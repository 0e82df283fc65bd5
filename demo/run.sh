#!/usr/bin/env bash
# Replays a pull request that fails: demo/run.sh [FOLDER] makes a repository with a commit on main and a change of one line in
# attention, and judges it by recordings of both (fixtures/before.pkl and after.pkl), as in a job of continuous integration. It ends
# with the exit code of the gate, 1; FOLDER then has the repository, the comment and the page. Needs git, and ptmem on the path or built.
set -euo pipefail
demo=$(cd "$(dirname "$0")" && pwd)
ptmem=${PTMEM:-$(command -v ptmem || find "$demo"/../target/{dist,release,debug} -maxdepth 1 -name ptmem 2> /dev/null | head -n 1)}
if [ -z "$ptmem" ]; then
  echo "expected ptmem on the path, or built by 'cargo build'" >&2
  exit 2
fi
folder=${1:-$(mktemp -d)}
mkdir -p "$folder"
cd "$folder"

export GIT_AUTHOR_NAME=demo GIT_AUTHOR_EMAIL=demo@example.com GIT_COMMITTER_NAME=demo GIT_COMMITTER_EMAIL=demo@example.com
git init --quiet --initial-branch main
cp "$demo/model.py" .
cp "$demo"/../fixtures/{before,after}.pkl .
cat > ptmem.toml << 'TOML'
[gate.train]
before = "before.pkl"
after = "after.pkl"
max-growth = "5%"
TOML
git add .
git commit --quiet --message "Train a small GPT"
git switch --quiet --create float32-softmax
git apply "$demo/change.patch"
git commit --quiet --all --message "Compute the softmax of attention in float32"

status=0
"$ptmem" gate --base main --source --export markdown=comment.md --export html=report.html || status=$?
echo "the comment on the pull request: $PWD/comment.md, the report: $PWD/report.html"
exit "$status"
