"""Records the GPU memory of this project for ptmem: a training step, an evaluation, a generation.

Fill in build() and the parts below, and remove from PARTS those that the project does not have; until then this script
refuses to run. Then run it on a machine with a GPU, or on any Linux with a simulated one:

    python record_memory.py
    ptmem simulate -- python record_memory.py

Seed whatever decides sizes, such as the lengths of random sequences: both sides of a comparison should do the same.
"""

import os

import torch

SNAPSHOT = os.environ.get("PTMEM_SNAPSHOT", "snapshot.pkl")
WARM_UP_ROUNDS = 2  # they allocate what later ones use again, such as optimizer state
MAX_ENTRIES = 1_000_000  # events that the history keeps


def not_written(name):
    raise SystemExit(f"record_memory.py: {name}() is not filled in yet; fill it in, or remove it from PARTS")


def build():
    """Returns the model and the optimizer, in their real size; the parts get both as arguments."""
    not_written("build")


def train_step(model, optimizer):
    """Runs one training step, with a batch of the real size; random values are enough."""
    not_written("train_step")


def evaluate(model, optimizer):
    """Evaluates one batch."""
    not_written("evaluate")


def generate(model, optimizer):
    """Generates once, with the real length."""
    not_written("generate")


PARTS = [train_step, evaluate, generate]


def restart_history():
    """Discards the history so far; live memory keeps its call stacks."""
    try:
        torch.cuda.memory._record_memory_history(max_entries=MAX_ENTRIES, clear_history=True)
    except TypeError:  # before PyTorch 2.8
        torch.cuda.memory._record_memory_history(enabled=None)
        torch.cuda.memory._record_memory_history(max_entries=MAX_ENTRIES)


def main():
    # On from the start, so that weights and optimizer state have call stacks.
    torch.cuda.memory._record_memory_history(max_entries=MAX_ENTRIES)
    built = build()
    for _ in range(WARM_UP_ROUNDS):
        for part in PARTS:
            part(*built)
    restart_history()
    for part in PARTS:
        # A phase of the report.
        with torch.profiler.record_function(part.__name__):
            part(*built)
    torch.cuda.memory._dump_snapshot(SNAPSHOT)


if __name__ == "__main__":
    main()
