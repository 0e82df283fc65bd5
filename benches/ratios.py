"""Times programs in turn and prints the ratios that docs/performance.md promises, each with its aim, within a minute.

    cargo build --profile dist
    python3 benches/ratios.py target/dist/ptmem
    python3 benches/ratios.py --file million.pkl earlier/ptmem target/dist/ptmem

Without a recording, it measures a made file and ranks; the other aims hold for real training.
The last command runs two builds in turn. A build in a folder `dist` has the aims of published programs, any other those
of `cargo install`. The machine should be idle.
"""

from __future__ import annotations

import argparse
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from in_turn import run

REPOSITORY = Path(__file__).resolve().parent.parent
RANKS = 100
ROUNDS = 5


class Measured(NamedTuple):
    """The medians of a command: seconds on the clock, of user time, of system time, and MB of peak resident memory."""

    wall: float
    user: float
    system: float
    megabytes: float


def in_turn(commands: list[str], rounds: int) -> list[Measured]:
    turns = [[run(command) for command in commands] for _ in range(rounds)]
    of_commands = [[turn[index] for turn in turns] for index in range(len(commands))]
    return [Measured(*(statistics.median(column) for column in zip(*runs))) for runs in of_commands]


def tools() -> Path:
    """Builds the programs of this folder, which takes seconds once their dependencies are built."""
    manifest = REPOSITORY / "benches/Cargo.toml"
    target = Path(os.environ.get("CARGO_TARGET_DIR", REPOSITORY / "benches/target"))
    subprocess.run(["cargo", "build", "--quiet", "--release", "--bins", "--manifest-path", manifest], check=True)
    return target / "release"


def print_row(what: str, figure: float, unit: str, aim: str) -> None:
    print(f"  {what:<40} {figure:8.2f} {unit:<6} {aim}")


def is_published(program: str) -> bool:
    return Path(program).parent.name == "dist"


def measure_shows(path: Path, walk: Path, programs: list[str], aims: list[float]) -> list[Measured]:
    """Times `show` of each program against the walk, with its aim."""
    name = shlex.quote(str(path))
    walked, *shown = in_turn([f"{walk} {name}", *(f"{program} show {name}" for program in programs)], ROUNDS)
    print(f"{path.name}, {path.stat().st_size / 1e6:.0f} MB: walk {walked.user:.3f} s of user time")
    for program, show, aim in zip(programs, shown, aims):
        print(f" {program}: show {show.user:.3f} s of user time")
        print_row("show / walk, user time", show.user / walked.user, "times", f"at most {aim}")
    return shown


def measure_recording(path: Path, walk: Path, programs: list[str]) -> None:
    shown = measure_shows(path, walk, programs, [1.8 if is_published(program) else 2.3 for program in programs])
    name = shlex.quote(str(path))
    load = f"import pickle; pickle.load(open({str(path)!r}, 'rb'))"
    [loaded] = in_turn([f"{sys.executable} -c {shlex.quote(load)}"], 1)
    compared = in_turn([f"{program} diff {name} {name}" for program in programs], ROUNDS)
    for program, show, diff in zip(programs, shown, compared):
        print(f" {program}: show {show.wall:.3f} s, {show.megabytes:.0f} MB; diff {diff.wall:.3f} s")
        aim = f"at least {22 if is_published(program) else 18}"
        print_row("pickle.load / show", loaded.wall / show.wall, "times", aim)
        print_row("diff / show", diff.wall / show.wall, "times", "at most 1.15")
        print_row("memory of show / file", show.megabytes / (path.stat().st_size / 1e6), "times", "at most 0.33")


def measure_ranks(folder: Path, programs: list[str]) -> None:
    rank = folder / "rank.pkl"
    repeat(12, rank)
    for side in ("before", "after"):
        (folder / side).mkdir()
        for number in range(RANKS):
            os.link(rank, folder / side / f"rank_{number}.pkl")
    sides = shlex.join([str(folder / "before"), str(folder / "after")])
    print(f"{RANKS} ranks of {rank.stat().st_size / 1e6:.1f} MB on each side")
    for program, diff in zip(programs, in_turn([f"{program} diff {sides}" for program in programs], 3)):
        print(f" {program}: diff {diff.wall:.2f} s, {diff.user:.2f} s of user time, {diff.megabytes:.0f} MB")
        print_row("time of a rank", diff.user / RANKS * 1000, "ms", "no more than before a change")


def repeat(times: int, path: Path) -> None:
    """Writes a recording that is `times` as long as a fixture."""
    script, fixture = REPOSITORY / "benches/repeat_history.py", REPOSITORY / "fixtures/before.pkl"
    subprocess.run([sys.executable, script, fixture, path, str(times)], check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="+", metavar="PTMEM", help="builds of ptmem, which run in turn")
    about = "a recording of real training of more than 100 MB"
    parser.add_argument("--file", type=Path, action="append", default=[], help=about)
    arguments = parser.parse_args()
    built = tools()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for path in arguments.file:
            measure_recording(path, built / "walk", arguments.programs)
        generated = folder / "generated.pkl"
        subprocess.run([built / "large_snapshot", "200MB", generated], check=True, stdout=subprocess.DEVNULL)
        measure_shows(generated, built / "walk", arguments.programs, [4.0] * len(arguments.programs))
        measure_ranks(folder, arguments.programs)


main()
