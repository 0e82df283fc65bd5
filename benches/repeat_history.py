"""Makes a large snapshot of a real one: its history again and again, with lists of frames of their own each time.

    python3 benches/repeat_history.py real.pickle large.pkl 60

It loads `real.pickle` with Python's pickle, which runs whatever the file says: give it your own files alone. The
history starts anew with each repetition while the blocks of the one before are still there, so figures of such a file
mean nothing; it is as long, as deep and as shared as a real one, and that is what reading it depends on.
"""

import pickle
import sys


def repeated(trace: list[dict], times: int) -> list[dict]:
    if not trace:
        return []
    # Releases before 2.2 write no times.
    span = trace[-1].get("time_us", 0) - trace[0].get("time_us", 0) + 1
    events = []
    for turn in range(times):
        # Events that share a list of frames share it again.
        lists: dict[int, list] = {}
        for event in trace:
            event = dict(event)
            if "frames" in event:
                frames = event["frames"]
                event["frames"] = lists.setdefault(id(frames), list(frames))
            if "time_us" in event:
                event["time_us"] += turn * span
            events.append(event)
    return events


def main() -> None:
    if len(sys.argv) != 4 or not sys.argv[3].isdecimal():
        sys.exit("usage: repeat_history.py REAL LARGE TIMES")
    with open(sys.argv[1], "rb") as file:
        snapshot = pickle.load(file)
    snapshot["device_traces"] = [repeated(trace, int(sys.argv[3])) for trace in snapshot["device_traces"]]
    with open(sys.argv[2], "wb") as file:
        pickle.dump(snapshot, file)


main()
