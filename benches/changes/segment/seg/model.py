"""An encoder and a decoder of convolutions."""

import torch
import torch.nn.functional as F
from torch import nn


def layer(inputs, outputs):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
    )


class Segmenter(nn.Module):
    def __init__(self, width, classes=12):
        super().__init__()
        self.one = layer(3, width)
        self.two = layer(width, 2 * width)
        self.three = layer(2 * width, 4 * width)
        self.back = layer(6 * width, 2 * width)
        self.head = nn.Conv2d(2 * width, classes, 1)

    def forward(self, images):
        fine = self.two(self.one(images))
        coarse = self.three(F.max_pool2d(fine, 2))
        wide = F.interpolate(coarse, scale_factor=2)
        x = torch.cat([fine, wide], dim=1)
        return self.head(self.back(x))
