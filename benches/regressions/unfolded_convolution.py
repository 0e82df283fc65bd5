"""Convolutions of videos in bfloat16 that unfold their inputs, because cuDNN does not compute them."""

import sys

import torch
from torch import nn

if sys.argv[1:] == ["after"]:
    # PyTorch 2.9 does this by itself for such convolutions.
    torch.backends.cudnn.enabled = False
convolutions = [nn.Conv3d(16, 64, 3, padding=1), nn.Conv3d(64, 64, 3, padding=1), nn.Conv3d(64, 16, 3, padding=1)]
model = nn.Sequential(convolutions[0], nn.SiLU(), convolutions[1], nn.SiLU(), convolutions[2]).bfloat16().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    model(torch.randn(1, 16, 8, 64, 64, device="cuda", dtype=torch.bfloat16)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
