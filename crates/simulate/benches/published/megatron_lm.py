"""Compares peaks that Megatron-LM publishes (its golden values) with those of one simulated rank.

    python megatron_lm.py CHECKOUT [--case PATTERN] [--card a100,h100,gb200] [--list] [--addresses up]
        [--at COMMIT] [--record FILE]

CHECKOUT is a clone of Megatron-LM with its history: each case runs at the commit that last changed its published
peaks, or at --at. The Python that runs this has PyTorch and the packages of requirements.txt. Nothing is downloaded.
The choices that a case does not state are the same for all: mock data and a vocabulary padded to the size of GPT-2's
(for T5: made texts, and a vocabulary of the size of BERT's), the order of addresses, no checkpoints, and stand_ins.py
for what is not installed. Simulated are the last rank, whose peak is published, the first rank of its tensor-parallel
group, which sends it data, and for T5 rank 0, which writes an index of the texts.
"""

import argparse
import collections
import fnmatch
import functools
import json
import os
import pathlib
import re
import resource
import struct
import subprocess
import sys
import sysconfig
import tempfile

import pybind11

HERE = os.path.dirname(os.path.abspath(__file__))
CASES = "tests/functional_tests/test_cases"
PROGRAMS = {"gpt": "pretrain_gpt.py", "moe": "pretrain_gpt.py", "t5": "pretrain_t5.py"}
METRIC = "mem-max-allocated-bytes"
CARDS = {"a100": "a100", "h100": "h100", "gb200": "b200"}
RANKS = 8
STEPS = 3
BERT_WORDS = 28996
# Arguments that need files, or a service.
LEFT_OUT = """
    data-path vocab-file merge-file data-cache-path save load save-interval async-save use-persistent-ckpt-worker
    tensorboard-dir train-iters eval-iters tokenizer-type
""".split()  # noqa: SIM905
ADDED = f"--train-iters {STEPS} --eval-iters 0 --tensorboard-dir board --log-memory-to-tensorboard".split()
DATA = {
    "pretrain_gpt.py": "--mock-data --tokenizer-type NullTokenizer --vocab-size 50256",
    # T5's splits may not be empty, so it evaluates once after its last step.
    "pretrain_t5.py": "--data-path texts --tokenizer-type BertWordPieceCase --vocab-file bert-large-cased/vocab.txt "
    "--eval-iters 1",
}


def git(checkout, *arguments):
    return subprocess.run(["git", "-C", checkout, *arguments], capture_output=True, text=True, check=True).stdout


def peaks(checkout, commit, path):
    """Published peaks by step; empty if the file or its peaks are missing."""
    try:
        values = json.loads(git(checkout, "show", f"{commit}:{path}"))[METRIC]["values"]
    except (subprocess.CalledProcessError, KeyError, TypeError):
        return {}
    return {int(step): int(value) for step, value in values.items() if value != "nan"}


def made_at(checkout, path):
    """The commit that set the published peaks, and the path of their file then: renames keep them."""
    log = git(checkout, "log", "--follow", "--name-only", "--format=:%H", "HEAD", "--", path).split()
    published, last = peaks(checkout, "HEAD", path), None
    for commit, name in zip(log[::2], log[1::2], strict=True):
        if last and peaks(checkout, commit[1:], name) != published:
            break
        last = commit[1:], name
    return last


def configuration(checkout, commit, path):
    """Environment, arguments and preparations of the case of a golden file. Its YAML has one pair in a line."""
    parts = collections.defaultdict(dict)
    part = None
    for line in git(checkout, "show", f"{commit}:{os.path.dirname(path)}/model_config.yaml").splitlines():
        name, _, value = line.split(" #")[0].partition(":" if not line.startswith("  ") else ": ")
        if line and not line.startswith(" "):
            part = name
        elif line.strip():
            parts[part][name.strip().removeprefix("--")] = value.strip().strip("\"'")
    return parts["ENV_VARS"], parts["MODEL_ARGS"], parts["BEFORE_SCRIPT"]


def why_not(checkout, commit, path):
    """The reason why the case of a golden file cannot run; None if it can."""
    if not peaks(checkout, commit, path):
        return "publishes no peak"
    if configuration(checkout, commit, path)[1].get("transformer-impl") != "local":
        return "needs Transformer Engine"
    return None


def autotunes(checkout, commit):
    """Whether Inductor benchmarks pointwise kernels, which needs a buffer, in the container of a commit. If algorithms
    have to be deterministic, as in all cases, it does since https://github.com/pytorch/pytorch/pull/164905.
    """
    images = git(checkout, "grep", "-h", "nvcr.io/nvidia/pytorch:", commit, "--", ".gitlab")
    return max(re.findall(r"pytorch:([\d.]+)-py3", images)) >= "26.02"


@functools.cache
def compiled(source):
    """The library of a source file of C++ that uses pybind11."""
    include = pybind11.get_include(), sysconfig.get_paths()["include"]
    command = ["c++", "-O1", "-shared", "-std=c++17", "-fPIC", *(f"-I{path}" for path in include), "-xc++", "-"]
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "library.so")
        subprocess.run([*command, "-o", path], input=source, check=True)
        return path.read_bytes()


def lay_out(checkout, commit, folder):
    """The program at a commit, with its helper for data compiled."""
    archive = subprocess.Popen(["git", "-C", checkout, "archive", commit], stdout=subprocess.PIPE)
    subprocess.run(["tar", "x", "-C", folder, "--exclude=tests", "--exclude=docs"], stdin=archive.stdout, check=True)
    data = pathlib.Path(folder, "megatron/core/datasets")
    (data / "helpers_cpp.so").write_bytes(compiled((data / "helpers.cpp").read_bytes()))
    write_texts(pathlib.Path(folder))


def write_texts(folder):
    """An indexed dataset of 20,000 equal texts of 100 tokens, and a vocabulary of the size of BERT's."""
    texts, length = 20000, 100
    (folder / "texts.bin").write_bytes(struct.pack(f"<{length}i", *range(1000, 1000 + length)) * texts)
    header = b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 4, texts, texts + 1)
    lengths = struct.pack("<i", length) * texts
    starts = struct.pack(f"<{texts}q", *range(0, 4 * texts * length, 4 * length))
    (folder / "texts.idx").write_bytes(header + lengths + starts + struct.pack(f"<{texts + 1}q", *range(texts + 1)))
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words += [f"w{number}" for number in range(BERT_WORDS - len(words))]
    (folder / "bert-large-cased").mkdir()
    (folder / "bert-large-cased/vocab.txt").write_text("\n".join(words))
    (folder / "bert-large-cased/config.json").write_text('{"model_type": "bert"}')


def simulate(options, folder, card, configured):
    """Peaks by step, and the processor time in seconds and the memory in bytes of one process."""
    program, variables, arguments, without_apex, autotunes = configured
    tensor = int(arguments.get("tensor-model-parallel-size", 1))
    first = {0} if program.endswith("t5.py") else set()
    ranks = sorted({RANKS - tensor, RANKS - 1} | first)
    command = [
        options.ptmem,
        "simulate",
        "--addresses",
        options.addresses,
        "--gpu",
        CARDS[card],
        "--world-size",
        str(RANKS),
    ]
    command += ["--rank", ",".join(map(str, ranks))]
    if options.record:
        command += ["--record", f"{os.path.abspath(options.record)},steps=1..{STEPS},continue"]
    command += ["--peer-value", "build_train_valid_test_data_*=[1, 1, 1]", "--"]
    command += [sys.executable, os.path.join(HERE, "stand_ins.py"), program]
    command += [*ADDED, *DATA[os.path.basename(program)].split()]
    for name, value in arguments.items():
        if name not in LEFT_OUT:
            command += [f"--{name}", *([] if value == "true" else value.split())]
    result = os.path.join(folder, "peaks.json")
    environment = {**os.environ, **variables, "PEAKS": result, "APEX": "" if without_apex else "1"}
    environment["AUTOTUNE"] = "1" if autotunes else ""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
    try:
        with open(result, encoding="utf-8") as file:
            found = {int(step): value for step, value in json.load(file).items()}
    except OSError:
        found = {}
    failure = None if found and not run.returncode else last_error(run)
    return found, failure, seconds / len(ranks), used.ru_maxrss * 1024


def last_error(run):
    """The exit code of a failed run, with the last line that names an exception or, without one, the last lines."""
    lines = [line for line in run.stderr.splitlines() if line.strip()]
    raised = [line for line in lines if re.match(r"(\[rank\d+\]: )?[\w.]+(Error|Exception)\b", line)]
    return f"exit code {run.returncode}: " + (raised[-1] if raised else " / ".join(lines[-5:]))


def report(case, card, commit, published, found, seconds, memory):
    for step, value in found.items():
        # Peaks grow: the last one before a restart is the highest. A case in fp16 first skips steps of the optimizer.
        expected = published.get(1) if step == 1 else max(published.values())
        if step not in (1, STEPS) or expected is None:
            continue
        difference = value - expected
        note = "equal" if difference == 0 else f"{difference:+,} ({100 * difference / expected:+.3f} %)"
        name = "first" if step == 1 else "later"
        sizes = f"{name} | {expected:,} | {value:,} | {note}"
        print(f"| {case} | {card} | {commit[:9]} | {sizes} | {seconds:.0f} s | {memory >> 20} MiB |", flush=True)


def run_case(options, path, card):
    """Runs the case of a golden file and prints its rows. The reason why it did not run, or failed."""
    reason = why_not(options.checkout, "HEAD", path)
    if reason:
        return reason
    commit, path_then = (options.at, path) if options.at else made_at(options.checkout, path)
    model, case, _ = path.split("/")[-3:]
    name = f"{model}/{case}"
    if options.list:
        print(f"{name} | {card} | {commit[:9]}", flush=True)
        return None
    variables, arguments, before = configuration(options.checkout, commit, path_then)
    # Tests that resume do so from their first checkpoint.
    restart = int(arguments.get("save-interval", arguments["train-iters"]))
    published = {step: peak for step, peak in peaks(options.checkout, "HEAD", path).items() if step <= restart}
    with tempfile.TemporaryDirectory() as folder:
        lay_out(options.checkout, commit, folder)
        places = PROGRAMS[model], f"examples/{model}/{PROGRAMS[model]}"
        program = next(place for place in places if pathlib.Path(folder, place).exists())
        without_apex = any("uninstall -y Apex" in line for line in before)
        configured = program, variables, arguments, without_apex, autotunes(options.checkout, commit)
        found, failure, seconds, memory = simulate(options, folder, card, configured)
    report(name, card, commit, published, found, seconds, memory)
    return failure and f"failed at {commit[:9]} with {failure}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout")
    parser.add_argument("--case", default="*", help="MODEL/CASE, with * and ?")
    parser.add_argument("--card", default="a100,h100,gb200")
    parser.add_argument("--addresses", default="up", choices=("up", "down"), help="their order, for all cases")
    parser.add_argument("--at", metavar="COMMIT", help="run the program of this commit")
    parser.add_argument("--record", metavar="FILE", help="write recordings of the ranks for `ptmem diff`")
    parser.add_argument("--list", action="store_true", help="list what can run, and why the rest cannot; run nothing")
    parser.add_argument("--ptmem", default="ptmem")
    options = parser.parse_args()
    cannot = collections.defaultdict(list)
    if not options.list:
        print("| case | card | Megatron-LM | step | published | simulated | difference | processor time | memory |")
        print("|---|---|---|---|---|---|---|---|---|", flush=True)
    for path in git(options.checkout, "ls-tree", "-r", "--name-only", "HEAD", CASES).splitlines():
        model, case, file = path.split("/")[-3:]
        card = next((card for card in options.card.split(",") if file.endswith(f"_dev_dgx_{card}.json")), None)
        if model in PROGRAMS and card and fnmatch.fnmatch(f"{model}/{case}", options.case):
            cannot[run_case(options, path, card)].append(f"{model}/{case} ({card})")
    cannot.pop(None, None)
    for reason, cases in sorted(cannot.items(), key=lambda pair: -len(pair[1])):
        named = ": " + ", ".join(cases) if options.list or len(cases) < 5 else ""
        print(f"not run, {len(cases)} golden files: {reason}{named}")


if __name__ == "__main__":
    main()
