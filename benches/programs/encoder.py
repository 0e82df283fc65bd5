"""Trains a small encoder for two steps, under other tools that count memory (docs/compared.md).

ptmem simulate -- python benches/programs/encoder.py counter|tracker
python benches/programs/encoder.py estimates
"""

import contextlib
import sys

import torch
from torch import nn


def make() -> nn.Module:
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True), 12)


def train(with_tracker: bool) -> None:
    model = make().cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    batch = torch.randn(8, 128, 512, device="cuda")
    tracker = None
    if with_tracker:
        from torch.distributed._tools.mem_tracker import MemTracker

        tracker = MemTracker()
        tracker.track_external(model, optimizer)
    with tracker or contextlib.nullcontext():
        for _ in range(2):
            model(batch).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            if tracker is not None:
                tracker.reset_mod_stats()
    if tracker is None:
        print(torch.cuda.max_memory_allocated())
    else:
        for device, parts in tracker.get_tracker_snapshot("peak").items():
            print(device, parts["Total"])


def estimate() -> None:
    from accelerate.utils import calculate_maximum_sizes
    from deepspeed.runtime.zero.stage_1_and_2 import estimate_zero2_model_states_mem_needs

    with torch.device("meta"):
        model = make()
    count = sum(parameter.numel() for parameter in model.parameters())
    print("accelerate", calculate_maximum_sizes(model)[0])
    print("deepspeed", estimate_zero2_model_states_mem_needs(count, cpu_offload=False)[1])


if __name__ == "__main__":
    if sys.argv[1] == "estimates":
        estimate()
    else:
        train(with_tracker=sys.argv[1] == "tracker")
