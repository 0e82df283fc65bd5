#!/usr/bin/env python3
"""Writes exit code and output of every command over many recordings into a folder, to compare two builds by `diff -r`.

    python3 benches/baseline.py PTMEM FOLDER [RECORDINGS ...]

PTMEM is the program. RECORDINGS are folders of recordings besides fixtures/, such as target/regressions and
target/changes, where benches/regressions/run.py and benches/changes/run.py leave theirs. Two files whose names differ
in 'before' and 'after' are compared; so is each file with the next of its folder.
"""

from __future__ import annotations

import concurrent.futures
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENDS = (".pkl", ".pkl.zst", ".pickle", ".pickle.zst", ".pt")
FORMATS = [
    "table",
    "json",
    "markdown",
    "html",
    "github",
    "gitlab",
    "junit",
    "sarif",
    "csv",
    "github-output",
    "brief",
]
#: Commands for one snapshot, by the file names of their results.
SINGLE = {
    "show": ["show", "--phases", "--format", "json"],
    "check": ["check", "--max", "64MiB", "--max", "stack=16MiB", "--format", "json"],
    "leak": ["leak", "--format", "json"],
    "doctor": ["doctor"],
    "profile": ["profile", "--output", "-"],
}
#: Commands for a before and an after.
PAIR = {
    "diff": ["diff", "--max-growth", "5%", "--max-growth", "stack=1MiB", "--phases", "--format", "json"],
    "history": ["history", "--format", "json"],
}
#: Jobs of several ranks, and series.
FOLDERS = {
    "ranks": ["diff", "--max-growth", "5%", "--format", "json", "fixtures/ranks-before", "fixtures/ranks-after"],
    "ranks-show": ["show", "--format", "json", "fixtures/ranks"],
    "ranks-check": ["check", "--max", "imbalance=1MiB", "--format", "json", "fixtures/ranks"],
    **{
        f"{name}-leak": ["leak", "--format", "json", f"fixtures/{name}"]
        for name in ("leak-series", "no-leak-series", "fragmentation-series")
    },
}


def jobs(folders: list[Path]) -> Iterator[tuple[str, list[str]]]:
    """File names of results, with the words of their commands."""
    for folder in folders:
        files = sorted(file for file in folder.rglob("*") if file.name.endswith(ENDS))
        for place, file in enumerate(files):
            name = str(file.relative_to(folder.parent)).replace("/", "_")
            for command, words in SINGLE.items():
                yield f"{name}.{command}", [*words, os.path.relpath(file, ROOT)]
            after = file.with_name(file.name.replace("before", "after"))
            partners = {after if after in files else file, *files[place + 1 : place + 2]}
            for partner in partners:
                for command, words in PAIR.items():
                    ends = [os.path.relpath(side, ROOT) for side in (file, partner)]
                    yield f"{name}..{partner.name}.{command}", [*words, *ends]
    for name, words in FOLDERS.items():
        yield name, words
    sides = ["fixtures/before.pkl", "fixtures/after.pkl"]
    for name in FORMATS:
        yield f"format-diff-{name}", ["diff", "--max-growth", "5%", "--top", "0", "--format", name, *sides]
        yield f"format-check-{name}", ["check", "--max", "64MiB", "--format", name, "fixtures/oom.pkl"]
        yield f"format-leak-{name}", ["leak", "--format", name, "fixtures/leak.pkl"]
        yield f"format-ranks-{name}", [*FOLDERS["ranks"][:3], "--format", name, *FOLDERS["ranks"][-2:]]
        yield f"format-show-{name}", ["show", "--tree", "--format", name, "fixtures/phases-after.pkl"]


def run(program: str, folder: Path, name: str, words: list[str]) -> None:
    environment = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")}
    configuration = [] if words[0] == "history" else ["--config", "none"]
    done = subprocess.run(
        [program, words[0], *configuration, *words[1:]], cwd=ROOT, env=environment, capture_output=True, check=False
    )
    text = f"exit code {done.returncode}\n".encode() + done.stdout + b"\nstandard error\n" + done.stderr
    (folder / name).write_bytes(text)


def main() -> None:
    program, folder, *more = sys.argv[1:]
    results = Path(folder)
    results.mkdir(parents=True, exist_ok=True)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for done in [pool.submit(run, program, results, *job) for job in jobs([ROOT / "fixtures", *map(Path, more)])]:
            done.result()


if __name__ == "__main__":
    main()
