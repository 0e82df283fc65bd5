"""Upsampling by two."""

import torch.nn.functional as F


def double(x):
    return F.interpolate(x, scale_factor=2, mode="nearest")
