"""Records the GPU memory of one training step, for ptmem.

Replace build() and train_step() by your own. Then run it on a machine with a GPU, or on any Linux with a simulated one:

    python record_memory.py
    ptmem simulate -- python record_memory.py
"""

import os

import torch

SNAPSHOT = os.environ.get("PTMEM_SNAPSHOT", "snapshot.pkl")
WARM_UP_STEPS = 2  # they allocate what later steps use again, such as optimizer state
MAX_ENTRIES = 1_000_000  # events that the history keeps


def build():
    """Makes the model and the optimizer."""
    model = torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.GELU(), torch.nn.Linear(1024, 256)).cuda()
    return model, torch.optim.AdamW(model.parameters())


def train_step(model, optimizer):
    """Does one step, with a batch as large as in training; random values do."""
    batch = torch.randn(64, 256, device="cuda")
    loss = model(batch).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()


def restart_history():
    """Forgets what was recorded so far; memory that is held keeps its call stacks."""
    try:
        torch.cuda.memory._record_memory_history(max_entries=MAX_ENTRIES, clear_history=True)
    except TypeError:  # before PyTorch 2.8
        torch.cuda.memory._record_memory_history(enabled=None)
        torch.cuda.memory._record_memory_history(max_entries=MAX_ENTRIES)


def main():
    # On from the start, so that weights and optimizer state have call stacks.
    torch.cuda.memory._record_memory_history(max_entries=MAX_ENTRIES)
    model, optimizer = build()
    for _ in range(WARM_UP_STEPS):
        train_step(model, optimizer)
    restart_history()
    train_step(model, optimizer)
    torch.cuda.memory._dump_snapshot(SNAPSHOT)


if __name__ == "__main__":
    main()
