"""Losses that are kept as tensors hold the graph of every step."""

import sys

import torch
from torch import nn


def train():
    model = nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 256)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(10):
        loss = model(torch.randn(64, 256, device="cuda")).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss if sys.argv[1] == "after" else loss.item())


train()
