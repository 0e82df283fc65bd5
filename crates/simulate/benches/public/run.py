#!/usr/bin/env python3
"""Runs the programs of gpu_programs.py on a simulated GPU: each checks itself the memory that arithmetic expects.

    python3 run.py --ptmem target/release/ptmem --python PYTHON [--vllm PYTHON] [PROGRAM...]

Each PYTHON has PyTorch and what the programs need (README.md): vLLM needs other packages than the rest, and its
programs are left out without one. Prints a table. Ends with 1 if a program fails.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
# Options of `ptmem simulate` by program.
PROGRAMS = {
    "trl": [],
    "bitsandbytes": [],
    "deepspeed": ["--world-size", "4", "--rank", "0"],
    "timm_compiled": [],
    "torchscript": [],
    "aotinductor": [],
    "ultralytics": [],
    "diffusers": [],
    "torch_geometric": [],
    "mamba": [],
    "vllm": ["--gpu", "h100"],
    "vllm_compiled": ["--gpu", "h100"],
    "vllm_parallel": ["--gpu", "h100", "--gpus", "2"],
}


def row(options, name, folder):
    """A row of the table, and the exit code."""
    report = folder / f"{name}.json"
    command = [options.ptmem, "simulate", *PROGRAMS[name], "--report", report, "--"]
    command.append(options.vllm if name.startswith("vllm") else options.python)
    run = subprocess.run(
        [*command, HERE / "gpu_programs.py", name], capture_output=True, text=True, timeout=1800, check=False
    )
    printed = [line for line in run.stdout.splitlines() if "expected" in line or line.startswith("peak: ")]
    if run.returncode:
        printed = run.stderr.splitlines()[-3:]
    stated = json.loads(report.read_text())["followed_from_unknown_values"] if report.exists() else []
    said = "; ".join(f"{part['count']} {part['what']}, first at {part['first']}" for part in stated)
    return f"| {name} | {run.returncode} | {'; '.join(printed)} | {said} |", run.returncode


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ptmem", default="ptmem")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--vllm")
    parser.add_argument("programs", nargs="*")
    options = parser.parse_args()
    failed = 0
    print("| program | exit code | memory | what the run states |\n|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for name in options.programs or PROGRAMS:
            if name.startswith("vllm") and not options.vllm:
                print(f"| {name} | not run | | |", flush=True)
                continue
            line, exit_code = row(options, name, pathlib.Path(folder))
            failed += exit_code != 0
            print(line, flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
