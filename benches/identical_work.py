#!/usr/bin/env python3
"""How much each figure varies between recordings of identical work, for the table in docs/regressions.md.

    python3 benches/identical_work.py PTMEM PYTHON

PYTHON has PyTorch. The program serves batches of differing lengths on two streams. The recordings differ in what also
differs between real machines: addresses, when streams finish, and memory that earlier work left free.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

MIB = 1 << 20
PROGRAM = """
import os, random
import torch
from torch import nn

torch.manual_seed(0)
if "EARLIER" in os.environ:
    # Smaller work before: its memory is free again, and stays reserved.
    earlier = random.Random(int(os.environ["EARLIER"]))
    blocks = [torch.empty(earlier.randrange(2, 40) << 18, device="cuda") for _ in range(earlier.randrange(4, 24))]
    del blocks
layer = nn.TransformerEncoderLayer(1024, 16, 4096, batch_first=True)
model = nn.TransformerEncoder(layer, 6).cuda().eval()
second = torch.cuda.Stream()
lengths = random.Random(1)
cache = []
with torch.no_grad():
    for request in range(24):
        batch = torch.randn(4, lengths.randrange(64, 1024), 1024, device="cuda")
        with torch.cuda.stream(second if request % 2 else torch.cuda.current_stream()):
            # The pool is used on another stream than the one that made it.
            batch.record_stream(second)
            cache.append(model(batch))
        del batch
        if len(cache) > 6:
            cache.pop(lengths.randrange(6))
"""
#: Arguments of `ptmem simulate` and variables of each recording.
RUNS: list[tuple[str, list[str], dict[str, str]]] = [
    ("as it is", [], {}),
    ("addresses downwards", ["--addresses", "down"], {}),
    ("events late", ["--events", "late"], {}),
    *((f"earlier work {seed}", [], {"EARLIER": str(seed)}) for seed in range(1, 5)),
]
SETTINGS: tuple[str, list[str], dict[str, str]] = (
    "expandable",
    [],
    {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"},
)


def record(
    ptmem: str, python: str, folder: Path, name: str, arguments: list[str], variables: Mapping[str, str]
) -> Path:
    path = folder / f"{name.replace(' ', '-')}.pkl"
    program = folder / "program.py"
    program.write_text(PROGRAM)
    command = [ptmem, "simulate", *arguments, "--record", str(path), "--", python, str(program)]
    subprocess.run(command, check=True, env={**os.environ, **variables}, stderr=subprocess.DEVNULL)
    return path


def figures(ptmem: str, path: Path) -> dict[str, int]:
    """Peaks, and the bytes at the allocated peak of each stack of the program."""
    command = [ptmem, "show", str(path), "--top", "0", "--format", "json"]
    report = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    (device,) = report["devices"]
    found = {name: device[name]["peak"] for name in ("reserved", "allocated", "requested")}
    for stack in device["stacks"]:
        found["stack " + stack["key"]] = stack["peak"]
    return found


def spread(values: list[int]) -> str:
    low, high = min(values), max(values)
    return f"{low / MIB:.2f} to {high / MIB:.2f} MiB ({100 * (high - low) / low if low else 0:.1f} %)"


def main() -> None:
    ptmem, python = (os.path.abspath(word) for word in sys.argv[1:3])
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        runs = {run[0]: figures(ptmem, record(ptmem, python, folder, *run)) for run in [*RUNS, SETTINGS]}
    for name, found in runs.items():
        print(f"{name:26} reserved {found['reserved'] / MIB:9.2f}  allocated {found['allocated'] / MIB:9.2f}")
    alike = [found for name, found in runs.items() if name != "expandable"]
    for metric in ("reserved", "allocated", "requested"):
        print(f"| {metric} | {spread([found[metric] for found in alike])} |")
    stacks = {key for found in alike for key in found if key.startswith("stack ")}
    widest = max(
        max(found.get(key, 0) for found in alike) - min(found.get(key, 0) for found in alike) for key in stacks
    )
    print(f"| the stack that varies most, of {len(stacks)} | {widest / MIB:.2f} MiB |")


if __name__ == "__main__":
    main()
