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
ROUNDS = 5


class Measured(NamedTuple):
    """A command: seconds on the clock, of user time, of system time, and MB of peak resident memory."""

    wall: float
    user: float
    system: float
    megabytes: float


class InTurn:
    """What each command took in each round. As processors change their speed, ratios are medians of one round."""

    def __init__(self, commands: list[str], rounds: int) -> None:
        self.rounds = [[Measured(*run(command)) for command in commands] for _ in range(rounds)]

    def median(self, command: int, what: str) -> float:
        return statistics.median(getattr(measured[command], what) for measured in self.rounds)

    def ratio(self, above: int, below: int, what: str) -> float:
        return statistics.median(getattr(taken[above], what) / getattr(taken[below], what) for taken in self.rounds)


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


def print_show(program: str, turns: InTurn, show: int, aim: float) -> None:
    """The walk is the first command."""
    print(f" {program}: show {turns.median(show, 'user'):.3f} s of user time")
    print_row("show / walk, user time", turns.ratio(show, 0, "user"), "times", f"at most {aim}")


def measure_recording(path: Path, walk: Path, programs: list[str]) -> None:
    name = shlex.quote(str(path))
    load = f"import pickle; pickle.load(open({str(path)!r}, 'rb'))"
    commands = [f"{walk} {name}", f"{sys.executable} -c {shlex.quote(load)}"]
    for program in programs:
        commands += [f"{program} show {name}", f"{program} diff {name} {name}"]
    turns, megabytes = InTurn(commands, ROUNDS), path.stat().st_size / 1e6
    print(f"{path.name}, {megabytes:.0f} MB: walk {turns.median(0, 'user'):.3f} s of user time")
    for show, program in zip(range(2, len(commands), 2), programs):
        fast, aim = (1.8, 22) if is_published(program) else (2.3, 18)
        print_show(program, turns, show, fast)
        print_row("pickle.load / show", turns.ratio(1, show, "wall"), "times", f"at least {aim}")
        print_row("diff / show", turns.ratio(show + 1, show, "wall"), "times", "at most 1.15")
        print_row("memory of show / file", turns.median(show, "megabytes") / megabytes, "times", "at most 0.33")


def measure_made(path: Path, walk: Path, programs: list[str]) -> None:
    name = shlex.quote(str(path))
    turns = InTurn([f"{walk} {name}", *(f"{program} show {name}" for program in programs)], ROUNDS)
    print(f"{path.name}, {path.stat().st_size / 1e6:.0f} MB: walk {turns.median(0, 'user'):.3f} s of user time")
    for show, program in enumerate(programs, 1):
        print_show(program, turns, show, 4.0)


def measure_ranks(ranks: int, folder: Path, programs: list[str]) -> None:
    rank = folder / "rank.pkl"
    repeat(12, rank)
    for side in ("before", "after"):
        (folder / side).mkdir()
        for number in range(ranks):
            os.link(rank, folder / side / f"rank_{number}.pkl")
    sides = shlex.join([str(folder / "before"), str(folder / "after")])
    print(f"{ranks} ranks of {rank.stat().st_size / 1e6:.1f} MB on each side")
    turns = InTurn([f"{program} diff {sides}" for program in programs], 3)
    for number, program in enumerate(programs):
        wall, user, megabytes = (turns.median(number, what) for what in ("wall", "user", "megabytes"))
        print(f" {program}: diff {wall:.2f} s, {user:.2f} s of user time, {megabytes:.0f} MB")
        print_row("user time / the first build", turns.ratio(number, 0, "user"), "times", "at most 1")


def repeat(times: int, path: Path) -> None:
    """Writes a recording that is `times` as long as a fixture."""
    script, fixture = REPOSITORY / "benches/repeat_history.py", REPOSITORY / "fixtures/before.pkl"
    subprocess.run([sys.executable, script, fixture, path, str(times)], check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="+", metavar="PTMEM", help="builds of ptmem, which run in turn")
    about = "a recording of real training of more than 100 MB"
    parser.add_argument("--file", type=Path, action="append", default=[], help=about)
    parser.add_argument("--ranks", type=int, default=100, help="of a job on each side; default 100")
    arguments = parser.parse_args()
    built = tools()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for path in arguments.file:
            measure_recording(path, built / "walk", arguments.programs)
        generated = folder / "generated.pkl"
        subprocess.run([built / "large_snapshot", "200MB", generated], check=True, stdout=subprocess.DEVNULL)
        measure_made(generated, built / "walk", arguments.programs)
        measure_ranks(arguments.ranks, folder, arguments.programs)


main()
