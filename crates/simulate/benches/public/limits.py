#!/usr/bin/env python3
"""Measures how long programs take under `ptmem simulate` with several values of --compute, to choose the default.

    python3 limits.py --ptmem target/dist/ptmem --python PYTHON [--times 5] [--limits 0,all] [PROGRAM...]

By default, runs the programs that need only PyTorch, with all limits in turn. Prints the median times of each program
with the first limit, and the ratios to them with the others, each of one round. The first of two numbers is processor
time, the second is elapsed time.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
# The first is the base: with none, programs that read lengths from the device fail.
LIMITS = "1MiB,16MiB,64MiB,256MiB,1GiB"
PROGRAMS = """
    large_transformer mnist word_language_model autoencoder actor_critic sequence_with_lbfgs encoder_with_padding
    packed_sequences connectionist_loss assigner_by_minimum assigner_by_all assigner_by_count router replay
"""
# With the default, a program takes at most this many times as long as with the base.
MOST = 1.1


def times_of(options, program, limit):
    """Processor time and elapsed time of a program with a limit."""
    code = f"import sys; sys.path.insert(0, {str(HERE)!r}); import programs; programs.run({program!r}, 'cuda')"
    start = time.perf_counter()
    run = subprocess.Popen(
        [options.ptmem, "simulate", "--compute", limit, "--", options.python, "-c", code], stderr=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(run.pid, 0)
    if status:
        sys.exit(f"{program} failed with --compute {limit}")
    return usage.ru_utime + usage.ru_stime, time.perf_counter() - start


def ratio(rounds, limit, kind):
    """The median of what a round took with a limit, compared with the first: processors change their speed."""
    return statistics.median(times[limit][kind] / next(iter(times.values()))[kind] for times in rounds)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ptmem", default="ptmem")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--limits", default=LIMITS)
    parser.add_argument("programs", nargs="*", default=PROGRAMS.split())
    options = parser.parse_args()
    limits = options.limits.split(",")
    print(f"| program | {limits[0]}, s | {' | '.join(limits[1:])} |\n|{'---|' * (len(limits) + 1)}")
    worst = dict.fromkeys(limits[1:], (0.0, 0.0))
    for program in options.programs:
        rounds = [{limit: times_of(options, program, limit) for limit in limits} for _ in range(options.times)]
        first = [statistics.median(times[limits[0]][kind] for times in rounds) for kind in (0, 1)]
        ratios = {limit: [ratio(rounds, limit, kind) for kind in (0, 1)] for limit in limits[1:]}
        cells = ["{:.2f} / {:.2f}".format(*pair) for pair in (first, *ratios.values())]
        print(f"| {program} | {' | '.join(cells)} |", flush=True)
        worst = {limit: tuple(map(max, worst[limit], ratios[limit])) for limit in worst}
    print(f"| the most | | {' | '.join('{:.2f} / {:.2f}'.format(*pair) for pair in worst.values())} |")
    within = [limit for limit in worst if worst[limit][1] <= MOST]
    print(f"the last limit with which none takes more than {MOST} times as long: {within[-1] if within else limits[0]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
