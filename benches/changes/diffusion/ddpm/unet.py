"""A U-Net for noise prediction."""

import torch
import torch.nn.functional as F
from torch import nn
from upsamplers import double


class Block(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.norm = nn.GroupNorm(8, inputs)
        self.conv = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.time = nn.Linear(64, inputs)

    def forward(self, x, time):
        h = self.norm(x)
        h.add_(self.time(time)[:, :, None, None])
        h = F.silu(h)
        return self.conv(h)


class UNet(nn.Module):
    def __init__(self, channels, depth):
        super().__init__()
        widths = [channels * 2**level for level in range(depth)]
        self.first = nn.Conv2d(3, channels, 3, padding=1)
        self.down = nn.ModuleList(Block(w, 2 * w) for w in widths)
        self.up = nn.ModuleList(Block(3 * w, w) for w in reversed(widths))
        self.last = nn.Conv2d(channels, 3, 3, padding=1)

    def forward(self, x, time):
        h = self.first(x)
        skips = []
        for block in self.down:
            skips.append(h)
            h = F.avg_pool2d(block(h, time), 2)
        for block in self.up:
            skip = skips.pop()
            h = block(torch.cat([double(h), skip], dim=1), time)
        return self.last(h)
