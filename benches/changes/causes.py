#!/usr/bin/env python3
"""Measures whether `ptmem diff --git` names the edit that made the memory grow.

    python3 benches/changes/causes.py PYTHON [WORD ...]

PYTHON has PyTorch and PyYAML. With WORDs it takes the cases whose names have one of them. causes.toml has the cases:
each is a change to one of six repositories, whose edits are guilty or innocent. A line of requirements.txt that names a
folder of packages/ installs it; .environment does the same for what the repository does not pin. Recordings lie in
target/causes, by the contents that they depend on: one that is there is not made again.

The truth is recorded, not believed: the growth must be gone without the guilty edits, and stay without the others.
Prints a line for each case, how often which answer was given, and which truth does not hold; fails where there is one.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path

import tomllib
from run import HERE, PTMEM, ROOT, change, commit, make, need, run

FOLDER = ROOT / "target" / "causes"

#: What takes the place of the parts in record_memory.py.
PARTS = {
    "lm": "from textlm.engine import build, evaluate, generate, train_step\n\nPARTS = [train_step, evaluate, generate]",
    "diffusion": (
        "from ddpm.sample import preview, sample\nfrom ddpm.train import build as make, train_step\n\n\n"
        "def build():\n    return (make(),)\n\n\nPARTS = [train_step, sample, preview]"
    ),
    "segment": "from seg.main import build, evaluate, train_step\n\nPARTS = [train_step, evaluate]",
}

#: The programs that are recorded as they are.
PROGRAMS = {"ppo": "rl.train", "retrieval": "towers.train", "speech": "asr.main"}


@dataclass(frozen=True)
class Case:
    """A change to a repository."""

    repository: str
    title: str
    guilty: list[list[str]]
    innocent: list[list[str]]
    #: The line that causes the growth, with the sign that it has in a diff; empty where nothing grows.
    cause: str

    @property
    def base(self) -> Path:
        return FOLDER / self.repository / "base"

    @property
    def folder(self) -> Path:
        return FOLDER / self.repository / re.sub(r"\W+", "-", self.title)

    @property
    def without_guilty(self) -> Path:
        return self.folder.with_name(f"{self.folder.name}.without-guilty")

    @property
    def without_innocent(self) -> Path:
        return self.folder.with_name(f"{self.folder.name}.without-innocent")


def cases(words: list[str]) -> list[Case]:
    repositories = tomllib.loads((HERE / "causes.toml").read_text())
    every = [
        Case(name, title, case.get("guilty", []), case.get("innocent", []), case.get("cause", ""))
        for name, changes in repositories.items()
        for title, case in changes.items()
    ]
    return [case for case in every if not words or any(word in f"{case.repository} {case.title}" for word in words)]


def files_of(folder: Path) -> list[Path]:
    """What a recording depends on."""
    kinds = ("*.py", "*.yaml", "requirements.txt", ".environment")
    return sorted(path for kind in kinds for path in folder.rglob(kind))


def install(folder: Path) -> Path:
    """The folder of the packages that a checkout asks for, as pip would install them."""
    asked = [folder / "requirements.txt", folder / ".environment"]
    lines = [line for path in asked if path.exists() for line in path.read_text().split()]
    wanted = [line.replace("==", "-") for line in lines if (HERE / "packages" / line.replace("==", "-")).exists()]
    place = FOLDER / "environments" / "+".join(wanted) / "site-packages"
    for package in wanted:
        name, version = package.rsplit("-", 1)
        about = place / f"{name}-{version}.dist-info"
        if not about.exists():
            shutil.copytree(HERE / "packages" / package / name, place / name)
            about.mkdir()
            (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
            (about / "RECORD").write_text(f"{name}/__init__.py,,\n")
            (about / "top_level.txt").write_text(f"{name}\n")
    return place


def record(python: str, case: Case, folder: Path) -> Path:
    """The recording of a checkout."""
    packages = install(folder)
    contents = "".join(f"{path.relative_to(folder)}\n{path.read_text()}" for path in files_of(folder))
    contents += "".join(path.read_text() for path in sorted(packages.rglob("*.py")))
    name = hashlib.sha256(contents.encode()).hexdigest()[:16]
    file = FOLDER / "recordings" / f"{case.repository}-{name}.pkl"
    if not file.exists():
        written = file.with_suffix(f".{folder.name}")
        if case.repository in PARTS:
            command = [PTMEM, "simulate", "--", python, "record_memory.py"]
        else:
            command = [PTMEM, "simulate", "--record", written, "--", python, "-m", PROGRAMS[case.repository]]
        variables = {"PTMEM_SNAPSHOT": str(written), "PYTHONPATH": f"src{os.pathsep}{packages}"}
        need("nice", *command, folder=folder, PYTHONDONTWRITEBYTECODE="1", **variables)
        written.rename(file)
    return file


def checkout(case: Case) -> None:
    """The commit with all edits, and copies of the base with only some of them."""
    if case.guilty and case.innocent:
        for folder, edits in ((case.without_guilty, case.innocent), (case.without_innocent, case.guilty)):
            shutil.copytree(case.base, folder, ignore=shutil.ignore_patterns(".git"))
            change(folder, edits)
    need("git", "worktree", "add", "--quiet", "--detach", case.folder, "main", folder=case.base)
    if (case.base / ".environment").exists():
        shutil.copy(case.base / ".environment", case.folder)
    change(case.folder, case.guilty + case.innocent)
    commit(case.folder, case.title, "--allow-empty")


def compare(before: Path, after: Path, folder: Path) -> dict:
    """What the gate says of two recordings, in the checkout of the second one."""
    done = run(PTMEM, "diff", before, after, "--git", "main", "--format", "json", folder=folder)
    if not done.stdout:
        raise SystemExit(f"{folder}: {done.stderr}")
    return json.loads(done.stdout)


@dataclass(frozen=True)
class Line:
    """A line that a change adds or removes, without its indentation."""

    sign: str
    text: str
    file: str


def text_of(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def changed_lines(before: Path, after: Path) -> list[Line]:
    """The lines in which two folders differ."""
    lines = []
    for name in sorted({path.relative_to(folder) for folder in (before, after) for path in files_of(folder)}):
        old, new = text_of(before / name), text_of(after / name)
        for kind, i, j, k, m in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
            if kind != "equal":
                lines += [Line("-", text.strip(), str(name)) for text in old[i:j]]
                lines += [Line("+", text.strip(), str(name)) for text in new[k:m]]
    return [line for line in lines if line.text]


@dataclass(frozen=True)
class Named:
    """An edit that a report names: a line with its file, or a package."""

    file: str
    text: str
    leads: bool

    def is_one_of(self, lines: list[Line]) -> bool:
        if not self.file:
            return any(line.text.startswith(f"{self.text}==") for line in lines)
        # A statement of several lines is named in one.
        return any(line.file == self.file and self.text.startswith(line.text) for line in lines)


def named_edits(report: dict) -> list[Named]:
    """The edits that a report names, the one that explains most first."""
    cause = report["devices"][0].get("cause") or {}
    if not cause or report["verdict"] != "regression":
        return []
    named = []
    for edit in cause["edits"] + cause["others"]:
        text = edit["added"] if edit["added"] is not None else edit["removed"]
        if edit["package"]:
            named.append(Named("", edit["package"], edit["leads"]))
        elif text is not None:
            named.append(Named(edit["path"], text, edit["leads"]))
    return sorted(named, key=lambda edit: not edit.leads)


def guilty_lines(case: Case) -> list[Line]:
    if not case.guilty:
        return []
    return changed_lines(case.without_guilty if case.innocent else case.base, case.folder)


def answer(case: Case, report: dict) -> str:
    """What a report says of the edits of a case."""
    guilty = guilty_lines(case)
    every = changed_lines(case.base, case.folder)
    named = [edit for edit in named_edits(report) if edit.is_one_of(every)]
    found = [edit.is_one_of(guilty) for edit in named]
    if not any(found):
        return "an innocent edit accused" if named else "not named" if case.guilty else "rightly nobody"
    if found[0]:
        return "the guilty edit leads" if named[0].leads else "the guilty edit is listed first"
    return "the guilty edit listed, an innocent one leads"


def growth(report: dict) -> str:
    """The change of the peak and of the end, for people."""
    metrics = report["devices"][0]["metrics"]
    return " ".join(f"{name} {metrics[name]['delta'] / 2**20:+.2f} MiB" for name in ("peak", "end"))


def untrue(case: Case, recordings: dict[Path, Path]) -> str:
    """What recordings of some of the edits say against the truth of a case; empty where they confirm it."""
    grows = {case.folder: bool(case.guilty), case.without_guilty: False, case.without_innocent: True}
    problems = []
    if case.cause and case.cause not in (f"{line.sign}{line.text}" for line in guilty_lines(case)):
        problems.append(f"no guilty line is {case.cause!r}")
    for folder in filter(Path.exists, grows):
        report = compare(recordings[case.base], recordings[folder], case.folder)
        if (report["verdict"] == "regression") != grows[folder]:
            problems.append(f"{folder.name}: {report['verdict']}, {growth(report)}")
    return "; ".join(problems)


def recordings_of(python: str, chosen: list[Case]) -> dict[Path, Path]:
    """The recordings of all checkouts, by their folders."""
    folders = {}
    for case in chosen:
        if case.base not in folders:
            shutil.rmtree(case.base.parent, ignore_errors=True)
            make(case.base, case.repository, PARTS.get(case.repository, ""))
        checkout(case)
        for folder in filter(Path.exists, (case.base, case.folder, case.without_guilty, case.without_innocent)):
            install(folder)
            folders[folder] = case
    # Those that the answers need come first.
    wanted = sorted(folders, key=lambda folder: ".without-" in folder.name)
    with ThreadPoolExecutor(2) as pool:
        recordings = pool.map(lambda folder: record(python, folders[folder], folder), wanted)
        return dict(zip(wanted, recordings))


def main() -> None:
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    python, chosen = os.path.abspath(sys.argv[1]), cases(sys.argv[2:])
    (FOLDER / "recordings").mkdir(parents=True, exist_ok=True)
    recordings = recordings_of(python, chosen)
    wrong = []
    answers = Counter()
    for case in chosen:
        report = compare(recordings[case.base], recordings[case.folder], case.folder)
        said = answer(case, report)
        answers[said] += 1
        print(f"{said}: {case.repository}: {case.title}: {growth(report)}", flush=True)
        problem = untrue(case, recordings)
        if problem:
            wrong.append(f"{case.repository}: {case.title}: {problem}")
    print()
    for said, count in answers.most_common():
        print(f"{count:3}  {said}")
    print("\n".join(wrong))
    sys.exit(min(len(wrong), 1))


if __name__ == "__main__":
    main()
