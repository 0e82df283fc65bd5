#!/usr/bin/env python3
"""Models of different kinds, each trained for three steps: models.py NAME [COUNTERS]

Nothing here knows of ptmem.
"""

import sys

import torch
from programs import small_transformer, train, write_counters
from torch import nn
from torch.nn import functional


def transformer():
    train(small_transformer(512, 4).to("cuda", torch.bfloat16), steps=3)


def closure():
    """The optimizer runs forward and backward, as under Lightning."""
    model = small_transformer(512, 4).to("cuda", torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(3):
        tokens = torch.randint(4001, (4, 128), device="cuda")

        def run(tokens=tokens):
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
            loss.backward()
            return loss

        optimizer.step(run)


class Residual(nn.Module):
    def __init__(self, before, after, stride=1):
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.BatchNorm2d(after)
        self.conv2, self.norm2 = nn.Conv2d(after, after, 3, 1, 1, bias=False), nn.BatchNorm2d(after)
        self.skip = nn.Conv2d(before, after, 1, stride, bias=False) if before != after else nn.Identity()

    def forward(self, x):
        y = functional.relu(self.norm1(self.conv1(x)))
        return functional.relu(self.norm2(self.conv2(y)) + self.skip(x))


def resnet():
    model = nn.Sequential(
        nn.Conv2d(3, 64, 7, 2, 3, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, 1),
        *(Residual(64, 64) for _ in range(2)),
        Residual(64, 128, 2),
        Residual(128, 256, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(256, 1000),
    ).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(3):
        images = torch.randn(16, 3, 128, 128, device="cuda")
        functional.cross_entropy(model(images), torch.randint(1000, (16,), device="cuda")).backward()
        optimizer.step()
        optimizer.zero_grad()


class UNet(nn.Module):
    def __init__(self, widths=(32, 64, 128)):
        super().__init__()
        before = [3, *widths[:-1]]
        self.down = nn.ModuleList(Residual(a, b) for a, b in zip(before, widths))
        self.middle = Residual(widths[-1], widths[-1])
        self.up = nn.ModuleList(Residual(2 * a, b) for a, b in zip(widths[::-1], [*before[:0:-1], widths[0]]))
        self.out = nn.Conv2d(widths[0], 3, 1)

    def forward(self, x):
        kept = []
        for block in self.down:
            kept.append(block(x))
            x = functional.max_pool2d(kept[-1], 2)
        x = self.middle(x)
        for block in self.up:
            x = block(torch.cat([functional.interpolate(x, scale_factor=2.0), kept.pop()], 1))
        return self.out(x)


def u_net():
    model = UNet().cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(3):
        images = torch.randn(4, 3, 128, 128, device="cuda")
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = functional.mse_loss(model(images), images)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


class Experts(nn.Module):
    """Each token goes to one of several experts, as many to each."""

    def __init__(self, width, count):
        super().__init__()
        self.norm, self.router = nn.LayerNorm(width), nn.Linear(width, count)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)) for _ in range(count)
        )

    def forward(self, x):
        flat = self.norm(x).flatten(0, 1)
        weight = self.router(flat).softmax(-1)
        order = weight[:, 0].argsort()
        parts = flat[order].chunk(len(self.experts))
        done = torch.cat([expert(part) for expert, part in zip(self.experts, parts)])
        return x + (done * weight.amax(-1, keepdim=True)).view_as(x)


def experts():
    model = nn.Sequential(
        nn.Embedding(4001, 256), *(Experts(256, 8) for _ in range(3)), nn.LayerNorm(256), nn.Linear(256, 4001)
    ).cuda()
    train(model, steps=3, batch=8)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
    if len(sys.argv) > 2:
        write_counters(sys.argv[2])
