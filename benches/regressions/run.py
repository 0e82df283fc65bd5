#!/usr/bin/env python3
"""Records programs with regressions that others reported, on simulated GPUs, and checks the verdicts.

    python3 benches/regressions/run.py PYTHON [CASE ...]

PYTHON has PyTorch 2.11.0. Without CASE it runs all of them. `ptmem` is `target/release/ptmem`, or PTMEM. The packages
come from the index that pip uses, and lie in target/regressions, as the recordings do: those that are there are not
recorded again. Prints the table of docs/regressions.md, and fails where a verdict is another one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
FOLDER = ROOT / "target" / "regressions"
PTMEM = os.environ.get("PTMEM", str(ROOT / "target" / "release" / "ptmem"))

#: What most of them need, in versions that all of them take.
COMMON = """
certifi charset-normalizer filelock fsspec==2025.10.0 huggingface_hub==0.27.1 idna importlib_metadata numpy packaging
pillow psutil pyyaml regex requests safetensors tqdm typing_extensions urllib3 zipp
"""


@dataclass(frozen=True)
class Case:
    """A program, the packages of both sides, and what is to be found."""

    program: str
    #: What went wrong, in words.
    report: str
    before: str
    #: Where it is empty, both sides have the same packages, and the program gets the name of the side.
    after: str = ""
    #: What a gate of 5 % finds in `diff`, or the default of `leak`.
    verdict: str = "regression"
    command: str = "diff"
    limits: tuple[str, ...] = ("--max-growth", "5%")
    #: Part of the name of the row that grew most.
    named: str = ""
    steps: str = ",steps=2"


CASES = (
    Case(
        "causal_mask",
        "[a causal mask of all positions squared](https://github.com/huggingface/transformers/issues/29484)",
        "transformers==4.37.2 tokenizers==0.15.2",
        "transformers==4.38.2 tokenizers==0.15.2",
        named="models/llama/modeling_llama.py:1074",
    ),
    Case(
        "adapter_type",
        "[adapters kept in float32](https://github.com/huggingface/peft/pull/1706)",
        "peft==0.11.1 transformers==4.44.2 tokenizers==0.19.1 accelerate==0.34.2",
        "peft==0.12.0 transformers==4.44.2 tokenizers==0.19.1 accelerate==0.34.2",
        named="tuners/lora/layer.py:553",
    ),
    Case(
        "mask_product",
        "[masks of all channels written, then summed](https://github.com/huggingface/transformers/issues/25709)",
        "transformers==4.31.0 tokenizers==0.13.3 scipy",
        "transformers==4.32.0 tokenizers==0.13.3 scipy",
        named="mask2former/modeling_mask2former.py:2020",
        steps="",
    ),
    Case(
        "video_decoder",
        "[a decoder that holds two caches](https://github.com/huggingface/diffusers/issues/10091)",
        "diffusers==0.30.3",
        "diffusers==0.31.0",
        named="autoencoders/autoencoder_kl_cogvideox.py:184",
        steps="",
    ),
    Case(
        "harmless_upgrade",
        "nothing: attention moved to another file",
        "transformers==4.47.1 tokenizers==0.21.0",
        "transformers==4.48.0 tokenizers==0.21.0",
        verdict="pass",
        limits=("--max-growth", "1%", "--max-growth", "stack=1%"),
    ),
    Case(
        "attention_weights",
        "[output_attentions=True takes the fused kernel away]"
        "(https://github.com/huggingface/transformers/issues/31990)",
        "transformers==4.44.2 tokenizers==0.19.1",
        named="modeling_llama.py",
    ),
    Case(
        "outputs_in_float32",
        "[accelerate's outputs in float32](https://github.com/huggingface/accelerate/issues/3477)",
        "accelerate==0.34.2",
        named="accelerate/utils/operations.py",
    ),
    Case(
        "attention_processor",
        "[a processor that writes all scores](https://github.com/huggingface/diffusers/pull/3457)",
        "diffusers==0.32.2",
        named="attention_processor.py",
    ),
    Case(
        "optimizer_foreach",
        "[AdamW with all parameters at once](https://github.com/pytorch/pytorch/issues/97712)",
        "",
        named="optimizer_foreach.py:13",
    ),
    Case(
        "math_attention",
        "[the math kernel's scores in float32](https://github.com/pytorch/pytorch/pull/128922)",
        "",
        named="math_attention.py:20",
    ),
    Case(
        "unfolded_convolution",
        "[convolutions in bfloat16 without cuDNN](https://github.com/pytorch/pytorch/issues/166643)",
        "",
        named="ConvolutionBackward0",
    ),
    Case(
        "prepared_weights",
        "[weights made float32 for adapters](https://github.com/huggingface/peft/issues/1149)",
        "peft==0.11.1 transformers==4.44.2 tokenizers==0.19.1 accelerate==0.34.2",
        named="peft/utils/other.py:126",
    ),
    Case(
        "kept_losses",
        "[losses kept as tensors](https://github.com/microsoft/SpareNet/issues/12)",
        "",
        command="leak",
        named="kept_losses.py",
        steps="",
    ),
    Case(
        "metric_state",
        "[a metric without thresholds](https://github.com/Lightning-AI/torchmetrics/issues/1461)",
        "torchmetrics==1.4.0 lightning-utilities==0.15.2",
        command="leak",
        named="metric_state.py",
        steps="",
    ),
    Case(
        "retrieval_state",
        "[a metric of rankings that keeps an epoch](https://github.com/Lightning-AI/torchmetrics/issues/2481)",
        "torchmetrics==1.4.0 lightning-utilities==0.15.2",
        command="leak",
        named="retrieval_state.py:18",
        steps="",
    ),
    Case(
        "epoch_outputs",
        "[outputs kept until the end of the epoch](https://github.com/Lightning-AI/pytorch-lightning/issues/15514)",
        "lightning==2.5.5 lightning-utilities==0.15.2 torchmetrics==1.4.0 aiohttp attrs multidict yarl aiosignal "
        "frozenlist propcache aiohappyeyeballs",
        command="leak",
        named="epoch_outputs.py",
        steps="",
    ),
    Case(
        "predictions",
        "[predictions gathered on the device](https://github.com/huggingface/transformers/issues/7232)",
        "transformers==4.44.2 tokenizers==0.19.1 accelerate==0.34.2",
        command="leak",
        # Each step replaces a tensor by a larger one: no stack leaves blocks behind, but the pool grows.
        named="<fragmentation>",
        steps="",
    ),
)


def installed(python: str, packages: list[str]) -> list[str]:
    """Folders with one package each: one Python runs both sides."""
    folders = []
    for package in packages:
        folder = FOLDER / "packages" / package
        if not folder.exists():
            command = [python, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder), package]
            subprocess.run(command, check=True)
        folders.append(str(folder))
    return folders


def record(python: str, case: Case, side: str, packages: str) -> Path:
    """Records one side of a case."""
    file = FOLDER / f"{case.program}-{side}.pkl"
    if file.exists():
        return file
    path = installed(python, packages.split() + COMMON.split())
    command = [
        PTMEM,
        "simulate",
        "--record",
        f"{file}{case.steps}",
        "--",
        python,
        str(HERE / f"{case.program}.py"),
        side,
    ]
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(path), HF_HUB_OFFLINE="1")
    # The program must not import the files beside it.
    done = subprocess.run(command, env=environment, cwd=FOLDER, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{case.program} {side}: {done.stderr[-2000:]}")
    return file


@dataclass(frozen=True)
class Found:
    """What a command found."""

    verdict: str
    line: str
    change: str


def size(count: int) -> str:
    """A change in bytes as people read it."""
    for unit, name in ((2**20, "MiB"), (2**10, "KiB")):
        if abs(count) >= unit:
            return f"{count / unit:+.2f} {name}"
    return f"{count:+} B"


def judge(case: Case, before: Path, after: Path) -> Found:
    """The verdict on a case, and the row that names its cause."""
    arguments = ["diff", str(before), str(after), *case.limits] if case.command == "diff" else ["leak", str(after)]
    folders = [str(folder) for folder in sorted((FOLDER / "packages").iterdir())]
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as config:
        config.write(f"strip-prefix = {json.dumps(folders)}\n")
        config.flush()
        arguments += ["--config", config.name, "--format", "json"]
        done = subprocess.run([PTMEM, *arguments], capture_output=True, text=True, check=False)
    report = json.loads(done.stdout)
    device = report["devices"][0] if case.command == "diff" else None
    if device is None:
        leaks = sorted(report["leaks"], key=lambda leak: -leak["bytes"])
        leak = next((leak for leak in leaks if case.named in leak["label"]), None)
        change = f"{size(leak['bytes_per_step'])} a step" if leak else ""
        return Found(report["verdict"], leak["label"] if leak else "", change)
    grew = sorted((row for row in device["stacks"] if row["delta"] > 0), key=lambda row: -row["delta"])
    # Of the rows that grew, the largest that names the cause.
    line = next((row["label"] for row in grew if case.named and case.named in row["label"]), "")
    peak = device["metrics"]["peak"]
    return Found(report["verdict"], line, f"{size(peak['delta'])} ({peak['percent']:+.1f} %)")


def main() -> None:
    python = os.path.abspath(sys.argv[1])
    chosen = [case for case in CASES if not sys.argv[2:] or case.program in sys.argv[2:]]
    FOLDER.mkdir(parents=True, exist_ok=True)
    wrong = []
    print("| program | what was reported | versions | verdict | change | named |\n|---|---|---|---|---|---|")
    for case in chosen:
        before = record(python, case, "before", case.before)
        after = record(python, case, "after", case.after or case.before)
        found = judge(case, before, after)
        control = judge(case, before, before)
        first = (case.before.split() or ["torch==2.11.0"])[0].replace("==", " ")
        versions = f"{first} → {case.after.split()[0].partition('==')[2]}" if case.after else first
        name = f"[{case.program}](../benches/regressions/{case.program}.py)"
        print(
            f"| {name} | {case.report} | {versions} | {found.verdict} | {found.change} | `{found.line}` |", flush=True
        )
        if found.verdict != case.verdict or case.named not in found.line or control.verdict != "pass":
            wrong.append(f"{case.program}: {found}, without the change: {control.verdict}")
    if wrong:
        raise SystemExit("\n".join(wrong))


if __name__ == "__main__":
    main()
