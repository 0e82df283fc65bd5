#!/usr/bin/env python3
"""Judges 60 changes to three repositories by the limits that `ptmem init` writes, ten harmful and ten harmless each.

    python3 benches/changes/run.py PYTHON [WORD ...]

PYTHON has PyTorch and einops. With WORDs it runs the changes whose names have one of them. `ptmem` is
`target/release/ptmem`, or PTMEM. The repositories are made anew in target/changes, and each side is recorded with its
own code. Prints a line for each change, and fails where a harmful one passes or a harmless one does not.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import tomllib

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
FOLDER = ROOT / "target" / "changes"
LIMITS = ROOT / "src" / "leaves" / "init" / "templates" / "ptmem.toml"
PTMEM = os.environ.get("PTMEM", str(ROOT / "target" / "release" / "ptmem"))

#: What takes the place of the parts that the recording script leaves to be written.
PARTS = {
    "flat": "from predict import predict\nfrom train import build, train_step\n\nPARTS = [train_step, predict]",
    "notebooks": (
        'from cells import load\n\nnames = load("vae.ipynb")\nbuild, train_step, sample = map(names.get, '
        '("build", "train_step", "sample"))\n\nPARTS = [train_step, sample]'
    ),
    "src_layout": (
        "from tinylm.train import build, evaluate, generate, train_step\n\nPARTS = [train_step, evaluate, generate]"
    ),
}

#: Exit codes of the gate.
EXPECTED = {"harmful": 1, "harmless": 0}


def run(*command: str | Path, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **variables}
    return subprocess.run([str(word) for word in command], cwd=folder, env=environment, capture_output=True, text=True)


def need(*command: str | Path, folder: Path, **variables: str) -> str:
    done = run(*command, folder=folder, **variables)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def commit(folder: Path, title: str, *options: str) -> None:
    need("git", "add", "--all", folder=folder)
    author = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    need("git", *author, "commit", "--quiet", *options, "-m", title, folder=folder)


def record(python: str, folder: Path, snapshot: Path) -> None:
    variables = {"PTMEM_SNAPSHOT": str(snapshot), "PYTHONPATH": "src"}
    need(PTMEM, "simulate", "--", python, "record_memory.py", folder=folder, **variables)


def make(folder: Path, name: str, parts: str) -> Path:
    """The repository with the limits that init writes and, if it has parts, record_memory.py filled in."""
    shutil.copytree(HERE / name, folder)
    (folder / ".gitignore").write_text("__pycache__/\nsnapshot.pkl\n.environment\n")
    shutil.copy(LIMITS, folder)
    if parts:
        script = (HERE / "record_memory.py").read_text()
        script = re.sub(r"^def build.*?^PARTS[^\n]*", "", script, flags=re.DOTALL | re.MULTILINE)
        script = script.replace("\nimport torch\n", f"\nimport torch\n\n{parts}\n", 1)
        (folder / "record_memory.py").write_text(script)
    need("git", "init", "--quiet", "--initial-branch=main", folder=folder)
    commit(folder, "The code, and its gate")
    return folder


def change(folder: Path, edits: list[list[str]]) -> None:
    for file, old, new in edits:
        path = folder / file.removeprefix("+")
        text = "" if file.startswith("+") else path.read_text()
        if old not in text:
            raise SystemExit(f"{path}: has no {old!r}")
        path.write_text(text.replace(old, new) if text else new)


def judge(python: str, repository: Path, before: Path, edits: list[list[str]]) -> tuple[int, str]:
    """The exit code and the last line of the gate."""
    checkout = FOLDER / "checkout"
    need("git", "worktree", "add", "--quiet", "--detach", checkout, "main", folder=repository)
    change(checkout, edits)
    commit(checkout, "A change")
    after = FOLDER / "after.pkl"
    record(python, checkout, after)
    done = run(PTMEM, "diff", before, after, "--git", "main", folder=checkout)
    need("git", "worktree", "remove", "--force", checkout, folder=repository)
    verdicts = [line for line in done.stdout.splitlines() if line.startswith(("PASS ", "FAIL ", "INCONCLUSIVE "))]
    return done.returncode, verdicts[-1] if verdicts else done.stderr


def main() -> None:
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    python, words = sys.argv[1], sys.argv[2:]
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    wrong = 0
    for name, kinds in tomllib.loads((HERE / "changes.toml").read_text()).items():
        wanted = [
            (kind, title, edits)
            for kind, changes in kinds.items()
            for title, edits in changes.items()
            if not words or any(word in title for word in words)
        ]
        if not wanted:
            continue
        repository = make(FOLDER / name, name, PARTS[name])
        before = FOLDER / f"{name}.pkl"
        record(python, repository, before)
        for kind, title, edits in wanted:
            code, line = judge(python, repository, before, edits)
            wrong += code != EXPECTED[kind]
            print(f"{'ok   ' if code == EXPECTED[kind] else 'WRONG'} {name}: {kind}: {title}: {line}", flush=True)
    sys.exit(min(wrong, 1))


if __name__ == "__main__":
    main()
