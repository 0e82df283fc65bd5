"""Regions of interest that are aligned by PyTorch's own functions once all algorithms have to be deterministic."""

import os

import torch
from torch import nn
from torchvision.ops import roi_align

os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
torch.use_deterministic_algorithms(True)
features = nn.Conv2d(3, 64, 3, stride=4, padding=1).cuda()
classes = nn.Linear(64 * 7 * 7, 10).cuda()
optimizer = torch.optim.SGD([*features.parameters(), *classes.parameters()], lr=0.1)
corners = torch.tensor([[0.0, k, k, k + 64.0, k + 64.0] for k in range(448)]).cuda()
for _ in range(3):
    maps = features(torch.randn(1, 3, 512, 512, device="cuda"))
    regions = roi_align(maps, corners, output_size=7, spatial_scale=0.25, sampling_ratio=2)
    classes(regions.flatten(1)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
