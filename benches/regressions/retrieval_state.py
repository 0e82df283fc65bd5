"""A metric of rankings, which keeps every score, target and index of an epoch on the device."""

import sys

import torch
from torchmetrics import MeanMetric
from torchmetrics.retrieval import RetrievalMRR

model = torch.nn.Linear(64, 1).cuda()
metric = RetrievalMRR().cuda() if sys.argv[1] == "after" else MeanMetric().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(10):
    scores = model(torch.randn(4096, 64, device="cuda")).squeeze(1).sigmoid()
    scores.mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    if sys.argv[1] == "after":
        target = torch.ones(4096, dtype=torch.long, device="cuda")
        metric.update(scores.detach(), target, indexes=torch.arange(4096, device="cuda") // 64)
    else:
        metric.update(scores.detach())
