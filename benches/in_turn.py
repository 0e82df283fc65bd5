"""Runs commands in turn, so that they share the machine's moods, and prints the medians.

python3 benches/in_turn.py 5 "target/dist/ptmem show large.pkl" "benches/target/release/walk large.pkl"
"""

import os
import shlex
import statistics
import sys
import time


def run(command: str) -> tuple[float, float, float, float]:
    """Seconds on the clock, of user time, of system time, and MB of peak resident memory."""
    start = time.monotonic()
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        arguments = shlex.split(command)
        try:
            os.execvp(arguments[0], arguments)
        except OSError as error:
            print(f"{arguments[0]}: {error.strerror}", file=sys.stderr)
            os._exit(127)
    _, status, usage = os.wait4(child, 0)
    clock = time.monotonic() - start
    # The gate exits with 1 if something grew, which is not a failure of the run.
    if os.waitstatus_to_exitcode(status) not in (0, 1):
        sys.exit(f"in_turn: this failed: {command}")
    # Linux counts in KiB, macOS in bytes.
    unit = 1 if sys.platform == "darwin" else 1024
    return clock, usage.ru_utime, usage.ru_stime, usage.ru_maxrss * unit / 1e6


def main() -> None:
    if len(sys.argv) < 3 or not sys.argv[1].isdecimal() or int(sys.argv[1]) == 0:
        sys.exit("usage: in_turn.py TIMES COMMAND...")
    commands = sys.argv[2:]
    rounds = [[run(command) for command in commands] for _ in range(int(sys.argv[1]))]
    print("   wall s    user s  system s   peak MB")
    for index, command in enumerate(commands):
        wall, user, system, memory = (statistics.median(r[index][k] for r in rounds) for k in range(4))
        print(f"{wall:9.3f} {user:9.3f} {system:9.3f} {memory:9.1f}  {command}")


if __name__ == "__main__":
    main()
