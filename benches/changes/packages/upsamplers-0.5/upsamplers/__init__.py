"""Upsampling by two, smoothed so that no checkerboard shows."""

import torch.nn.functional as F


def blur(x):
    x = F.pad(x, (1, 1, 1, 1), mode="replicate")
    return F.avg_pool2d(x, 3, stride=1)


def double(x):
    large = F.interpolate(x, scale_factor=2, mode="nearest")
    return 0.5 * large + 0.5 * blur(large) * large.sigmoid()
