#!/usr/bin/env python3
"""Records a little work once for each option of PyTorch's recorder: recorder_options.py FOLDER

Writes FOLDER/NAME.pkl for each, and prints the names of those that this release does not have.
"""

import pickle
import sys
from pathlib import Path

import frozen_torch  # noqa: F401
import torch

memory = torch.cuda.memory

RECORDERS = {
    "defaults": {},
    "no-context": {"context": None},
    "context-state": {"context": "state"},
    "context-alloc": {"context": "alloc"},
    "python": {"stacks": "python"},
    "few": {"max_entries": 3},
    "device": {"device": 0},
    "clear": {"clear_history": True},
    "compile": {"compile_context": True},
    "annotations": {"global_record_annotations": True},
    "skip": {"skip_actions": ["free_requested"]},
    "pinned": {"record_pinned_host_memory": True},
    "pinned-only": {"record_pinned_host_memory": True, "record_cuda": False},
    "state-only": {"enabled": "state"},
}
# Options of the dump.
DUMPS = {"fx": {"augment_with_fx_traces": True}, "no-traces": {"include_traces": False}}


def work():
    if hasattr(memory, "_set_memory_metadata"):
        memory._set_memory_metadata("the metadata")
    with torch.profiler.record_function("part"):
        held = [torch.empty(1 << size, device="cuda") for size in range(12, 20)]
        pinned = torch.empty(1 << 16).pin_memory()
        del held[::2]
    if hasattr(torch.cuda, "MemPool"):
        pool = torch.cuda.MemPool()
        with torch.cuda.use_mem_pool(pool):
            held.append(torch.empty(1 << 20, device="cuda"))
    return held, pinned


def record(path, recorder, dump):
    memory._record_memory_history(enabled=None)
    memory._record_memory_history(**recorder)
    held = work()
    snapshot = memory._snapshot(**dump)
    path.write_bytes(pickle.dumps(snapshot))
    del held


folder = Path(sys.argv[1])
for name, recorder, dump in [*((n, o, {}) for n, o in RECORDERS.items()), *((n, {}, o) for n, o in DUMPS.items())]:
    try:
        record(folder / f"{name}.pkl", recorder, dump)
    except (TypeError, RuntimeError) as error:
        if "unexpected keyword argument" not in str(error):
            raise
        print("not in this release:", name)
memory._record_memory_history(enabled=None)
