"""Mixed precision by accelerate, which gives outputs back in float32, in place of autocast alone."""

import sys

import torch
from accelerate import Accelerator
from torch import nn

model = nn.Sequential(nn.Embedding(32000, 128), nn.Linear(128, 128), nn.GELU(), nn.Linear(128, 32000)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
if sys.argv[1] == "after":
    model, optimizer = Accelerator(mixed_precision="bf16").prepare(model, optimizer)
for _ in range(3):
    tokens = torch.randint(0, 32000, (2, 512), device="cuda")
    with torch.autocast("cuda", torch.bfloat16, enabled=sys.argv[1] == "before"):
        outputs = model(tokens)
    outputs.square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
