"""Parts of a recording, as PyTorch would have dumped them, for benches/thresholds.py."""

import pickle
import subprocess
import zipfile

UNDONE = {"alloc", "free_requested", "free_completed", "segment_alloc", "segment_free", "snapshot", "oom"}


def load(path):
    """The recording in a file, which may be compressed; None for archives and other files."""
    if path.suffix == ".zst":
        data = subprocess.run(["zstd", "-dc", path], check=True, capture_output=True).stdout
    elif zipfile.is_zipfile(path):
        return None
    else:
        data = path.read_bytes()
    recording = pickle.loads(data)
    return recording if isinstance(recording, dict) and recording.get("device_traces") else None


def part(recording, first, last):
    """The recording of the events `first` to `last` of each device; None if addresses were mapped piecewise."""
    segments = list(recording["segments"])
    for device, trace in enumerate(recording["device_traces"]):
        for event in reversed(trace[last:]):
            if event["action"] not in UNDONE:
                return None
            undo(segments, event, device)
    traces = [trace[first:last] for trace in recording["device_traces"]]
    return {**recording, "segments": segments, "device_traces": traces}


def undo(segments, event, device):
    """Takes one event back from the segments of a device."""
    address, size, stream = event.get("addr"), event["size"], event.get("stream", 0)
    action = event["action"]
    if action == "segment_alloc":
        segments[:] = [one for one in segments if one["address"] != address]
    elif action == "segment_free":
        idle = {"address": address, "size": size, "requested_size": 0, "state": "inactive", "frames": []}
        segment = {"address": address, "total_size": size, "stream": stream, "device": device, "blocks": [idle]}
        segments.append({**segment, "segment_type": "small" if size <= 2 << 20 else "large"})
    elif action == "alloc":
        put(segments, address, None)
    elif action == "free_completed":
        # Blocks are multiples of 512 bytes.
        rounded = -(-size // 512) * 512
        used = {"address": address, "size": rounded, "requested_size": size, "state": "active_allocated"}
        put(segments, address, {**used, "frames": event.get("frames", [])})


def put(segments, address, used):
    """Replaces the block at an address, or frees it without another one, and fills the gaps of its segment."""
    for at, segment in enumerate(segments):
        if not segment["address"] <= address < segment["address"] + segment["total_size"]:
            continue
        others = [one for one in segment["blocks"] if one["state"] != "inactive" and one["address"] != address]
        blocks = sorted([*others, *([used] if used else [])], key=lambda one: one["address"])
        end = segment["address"] + segment["total_size"]
        segments[at] = {**segment, "blocks": filled(blocks, segment["address"], end)}


def filled(blocks, start, end):
    """The blocks with idle ones between them."""
    whole = []
    for block in [*blocks, {"address": end, "size": 0}]:
        if block["address"] > start:
            idle = {"address": start, "size": block["address"] - start, "requested_size": 0, "state": "inactive"}
            whole.append({**idle, "frames": []})
        whole.append(block)
        start = block["address"] + block["size"]
    return whole[:-1]
