"""An optimizer that updates all parameters at once, as AdamW does by default."""

import sys

import torch
from torch import nn

model = nn.Sequential(*(nn.Linear(1024, 1024) for _ in range(12))).cuda()
foreach = None if sys.argv[1] == "after" else False
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=foreach)
for _ in range(3):
    model(torch.randn(64, 1024, device="cuda")).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
