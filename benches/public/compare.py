#!/usr/bin/env python3
"""Holds programs on a simulated GPU against the same on the CPU: which operators ran, and the sizes of their results.

    python3 benches/public/compare.py --ptmem target/release/ptmem --python PYTHON [--out FILE] [PROGRAM...]

PYTHON has PyTorch and what requirements.txt lists. Prints a table. Ends with 1 if a program differs and its run does
not state that something followed from values which are not known.
"""

import argparse
import difflib
import json
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
# Parts of the names of operators that a device has and the other not, or that only move values between them.
OF_ONE_DEVICE = "_to_copy copy_ lift_fresh detach attention cudnn miopen mkldnn batch_norm thnn lstm gru _local_scalar"
OF_ONE_DEVICE += (
    " _foreach _fused empty alias is_pinned pin_memory _pack_padded _dropout bernoulli _assert_async record_function"
)


def trace(name, device, path):
    """Runs a program and writes the operators that it ran, with the sizes of their results."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    sys.path.insert(0, str(HERE))
    import programs

    ran = []

    def note(_, function, types, arguments=(), named=None):
        result = function(*arguments, **(named or {}))
        parts = result if isinstance(result, (list, tuple)) else [result]
        sizes = [tuple(part.shape) for part in parts if isinstance(part, torch.Tensor)]
        ran.append(f"{function.__name__.split('.')[0].strip('_')} {sizes}")
        return result

    # Its file has no name, so that it is no line of the program.
    note.__code__ = note.__code__.replace(co_filename="<mode>")
    Note = type("Note", (TorchDispatchMode,), {"__torch_dispatch__": note})

    torch.manual_seed(0)
    error = None
    try:
        with Note():
            getattr(programs, name)(device)
    except Exception as raised:
        error = f"{type(raised).__name__}: {raised}"[:200]
    pathlib.Path(path).write_text(json.dumps({"ran": ran, "error": error}))


def compared(lines):
    parts = OF_ONE_DEVICE.split()
    return [line for line in lines if not any(part.strip("_") in line.split(" ")[0] for part in parts)]


def run(options, name, folder):
    """What a program did on both devices, and what the simulated run stated."""
    found = {}
    for device in ("cpu", "cuda"):
        path, report = folder / f"{name}-{device}.json", folder / f"{name}-report.json"
        command = [options.python, __file__, "--trace", name, device, str(path)]
        simulate = [options.ptmem, "simulate", "--report", str(report), "--"]
        # Both run under the library: PyTorch for CUDA cannot be imported without it.
        subprocess.run(simulate + command, capture_output=True, timeout=1200, check=False)
        died = {"ran": [], "error": "the process died"}
        found[device] = json.loads(path.read_text()) if path.exists() else died
    stated = json.loads(report.read_text())["followed_from_unknown_values"]
    return found["cpu"], found["cuda"], stated


def row(name, host, device, stated):
    """A row of the table, and whether the run hides a difference."""
    expected, ran = compared(host["ran"]), compared(device["ran"])
    matcher = difflib.SequenceMatcher(None, expected, ran, autojunk=False)
    blocks = matcher.get_opcodes()
    different = sum(max(b - a, d - c) for tag, a, b, c, d in blocks if tag != "equal")
    first = ""
    for tag, start, _, other, _ in blocks:
        if tag != "equal":
            first = f"`{[*expected, 'the end'][start]}` → `{[*ran, 'the end'][other]}`"
            break
    said = "; ".join(f"{part['count']} {part['what']}, first at {part['first']}" for part in stated)
    state = device["error"] or ("equal" if not different else f"{different} of {len(expected)} differ, first {first}")
    if host["error"]:
        state = f"fails on the CPU: {host['error']}"
    hidden = (bool(device["error"]) or different > 0) and not said
    return f"| {name} | {len(expected)} | {state} | {said} |", hidden


def main():
    if sys.argv[1:2] == ["--trace"]:
        return trace(*sys.argv[2:5])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ptmem", default="ptmem")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("programs", nargs="*")
    options = parser.parse_args()
    sys.path.insert(0, str(HERE))
    text = (HERE / "programs.py").read_text()
    names = options.programs or text.rpartition('PROGRAMS = """')[2].rpartition('"""')[0].split()
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            line, hidden = row(name, *run(options, name, options.out or pathlib.Path(folder)))
            failed += hidden
            print(line, flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
