"""A metric without thresholds, which keeps every value."""

import sys

import torch
from torchmetrics.classification import BinaryAUROC

model = torch.nn.Linear(64, 1).cuda()
metric = BinaryAUROC(thresholds=None if sys.argv[1] == "after" else 100, validate_args=False).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(10):
    batch = torch.randn(4096, 64, device="cuda")
    scores = model(batch).squeeze(1).sigmoid()
    scores.mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    metric.update(scores.detach(), torch.ones(4096, dtype=torch.long, device="cuda"))
