"""Compares reserved peaks that torchtitan publishes (Llama 3.1 8B on H100) with those of one simulated rank.

    python torchtitan_llama.py CHECKOUT [--only PATTERN] [--ptmem PTMEM] [--record FILE]

CHECKOUT is a clone of torchtitan with the commit of the published runs. The Python that runs this has PyTorch (2.7 is
the first release after the published nightly) and needs no package besides. Nothing is downloaded: tokens are made up,
and neither TensorBoard nor a tokenizer is used.
"""

import argparse
import fnmatch
import itertools
import os
import re
import resource
import runpy
import subprocess
import sys
import tempfile
import types

COMMIT = "9dec370ad26b5f8e9a7333a0e36165018262644b"
# From benchmarks/llama3_h100_202412_torchtitan.md, tables 1 and 3: GPUs, further arguments, GiB.
PUBLISHED = {
    "8 GPUs": (8, [], 82.4),
    "8 GPUs, compiled": (8, ["--training.compile"], 77.0),
    "128 GPUs": (128, [], 67.0),
    "128 GPUs, compiled": (128, ["--training.compile"], 62.0),
}
VOCABULARY = 128256
STEPS = 4
ARGUMENTS = (
    f"--job.config_file train_configs/llama3_8b.toml --training.batch_size 2 --training.steps {STEPS} "
    "--training.seed 1 --metrics.log_freq 1"
).split()


def train():
    """Runs torchtitan in this process, with stand-ins for the tokenizer, the data and TensorBoard."""
    import torch

    def batches(_dataset, _path, _tokenizer, size, length, *_):
        tokens = torch.arange(size * length).view(size, length) % VOCABULARY
        return itertools.repeat((tokens, tokens))

    data = types.ModuleType("torchtitan.datasets")
    data.build_tokenizer = lambda *_: types.SimpleNamespace(n_words=VOCABULARY)
    data.build_hf_data_loader = batches
    board = types.ModuleType("torch.utils.tensorboard")
    board.SummaryWriter = None
    sys.modules.update({data.__name__: data, board.__name__: board})
    sys.path.insert(0, os.getcwd())
    sys.argv = ["train.py", *sys.argv[2:]]
    runpy.run_path("train.py", run_name="__main__")


def lay_out(checkout, folder):
    """The program at the published commit, whose presets here turn off what writes files."""
    command = ["git", "-C", checkout, "archive", COMMIT, "torchtitan", "train.py", "train_configs"]
    archive = subprocess.Popen(command, stdout=subprocess.PIPE)
    subprocess.run(["tar", "x", "-C", folder], stdin=archive.stdout, check=True)
    path = os.path.join(folder, "train_configs/llama3_8b.toml")
    with open(path, encoding="utf-8") as file:
        text = file.read()
    with open(path, "w", encoding="utf-8") as file:
        file.write(re.sub("(enable_profiling|enable_tensorboard) = true", r"\1 = false", text))


def simulate(options, gpus, arguments):
    """The run, its reserved peak in GiB after the last step, and its processor time in seconds."""
    with tempfile.TemporaryDirectory() as folder:
        lay_out(options.checkout, folder)
        command = [options.ptmem, "simulate", "--gpu", "h100", "--memory", "95GiB", "--world-size", str(gpus)]
        if options.record:
            command += ["--record", f"{os.path.abspath(options.record)},steps={STEPS - 1},continue"]
        command += ["--rank", "0", "--", sys.executable, os.path.abspath(__file__), "--train"]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        run = subprocess.run(
            [*command, *ARGUMENTS, *arguments], cwd=folder, capture_output=True, text=True, check=False
        )
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
    peaks = re.findall(r"memory: *(?:\x1b\[\d+m)?([\d.]+)GiB", run.stdout + run.stderr)
    seconds = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
    return run, float(peaks[-1]) if len(peaks) == STEPS else None, seconds


def main():
    if sys.argv[1:2] == ["--train"]:
        return train()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout")
    parser.add_argument("--only", default="*")
    parser.add_argument("--ptmem", default="ptmem")
    parser.add_argument("--record", metavar="FILE", help="write a recording for `ptmem diff`")
    options = parser.parse_args()
    failed = 0
    print("| Llama 3.1 8B | published | simulated | difference | processor time |")
    print("|---|---|---|---|---|", flush=True)
    for name, (gpus, arguments, published) in PUBLISHED.items():
        if not fnmatch.fnmatch(name, options.only):
            continue
        run, peak, seconds = simulate(options, gpus, arguments)
        if run.returncode or peak is None:
            failed += 1
            print(f"{name} failed with exit code {run.returncode}:", *run.stderr.splitlines()[-5:], sep="\n  ")
            continue
        share = 100 * (peak - published) / published
        print(f"| {name} | {published} GiB | {peak} GiB | {share:+.1f} % | {seconds:.0f} s |", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
