#!/usr/bin/env python3
"""Measures how long programs take under `ptmem simulate` with several values of --compute, to choose the default.

    python3 limits.py --ptmem target/dist/ptmem --python PYTHON [--times 3] [--limits 0,all] [PROGRAM...]

By default, runs the programs that need only PyTorch, each in a process of its own. Prints the median times of each
program with the first limit, and the ratios to them with the others. The first of two numbers is processor time, which
other load hardly changes, the second is elapsed time.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
# The first is the base: with none, programs that read lengths from the device fail.
LIMITS = "1MiB,64MiB,256MiB,1GiB,all"
PROGRAMS = """
    mnist word_language_model autoencoder actor_critic sequence_with_lbfgs encoder_with_padding packed_sequences
    connectionist_loss assigner_by_minimum assigner_by_all assigner_by_count router replay
"""
# With the default, a program takes at most this many times as long as with the base.
MOST = 1.1


def processor_time():
    return sum(os.times()[:2])


def measure(names):
    """Runs each program in a fork of this process, which imports PyTorch. Prints the times of both together."""
    import programs

    imported = processor_time(), time.perf_counter() - float(os.environ["STARTED"])
    for name in names:
        start = time.perf_counter()
        child = os.fork()
        if child == 0:
            programs.run(name, "cuda")
            sys.exit()
        _, status, usage = os.wait4(child, 0)
        took = usage.ru_utime + usage.ru_stime, time.perf_counter() - start
        if status:
            sys.exit(f"{name} failed")
        print(json.dumps([name, [before + own for before, own in zip(imported, took)]]), flush=True)


def times_of(options, limit):
    """Both times of each program with a limit."""
    command = [
        options.ptmem,
        "simulate",
        "--compute",
        limit,
        "--",
        options.python,
        __file__,
        "--measure",
        *options.programs,
    ]
    environment = {**os.environ, "STARTED": str(time.perf_counter())}
    run = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return dict(json.loads(line) for line in run.stdout.splitlines() if line.startswith("["))


def main():
    if sys.argv[1:2] == ["--measure"]:
        return measure(sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ptmem", default="ptmem")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--limits", default=LIMITS)
    parser.add_argument("programs", nargs="*", default=PROGRAMS.split())
    options = parser.parse_args()
    limits = options.limits.split(",")
    found = {limit: [] for limit in limits}
    for _ in range(options.times):
        for limit in limits:
            found[limit].append(times_of(options, limit))
    print(f"| program | {limits[0]}, s | {' | '.join(limits[1:])} |\n|{'---|' * (len(limits) + 1)}")
    worst = dict.fromkeys(limits[1:], (0.0, 0.0))
    for name in options.programs:
        medians = {
            limit: [statistics.median(run[name][kind] for run in found[limit]) for kind in (0, 1)] for limit in limits
        }
        first = medians[limits[0]]
        ratios = {limit: tuple(own / of for own, of in zip(medians[limit], first)) for limit in limits[1:]}
        cells = [f"{first[0]:.2f} / {first[1]:.2f}", *(f"{one:.2f} / {other:.2f}" for one, other in ratios.values())]
        print(f"| {name} | {' | '.join(cells)} |")
        worst = {limit: tuple(map(max, worst[limit], ratios[limit])) for limit in worst}
    print(f"| the most | | {' | '.join(f'{one:.2f} / {other:.2f}' for one, other in worst.values())} |")
    within = [limit for limit in worst if worst[limit][0] <= MOST]
    print(f"the last limit with at most {MOST} times the processor time: {within[-1] if within else limits[0]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
