"""Sampling of images."""

import torch
import torch.nn.functional as F

from .schedule import embed


def enlarge(images):
    """To the size that is looked at."""
    return F.interpolate(images, scale_factor=8, mode="bilinear").clamp(0, 1)


@torch.no_grad()
def sample(state, guidance=None):
    count, size = state.config["images"]["batch"], state.config["images"]["size"]
    x = torch.randn(count, 3, size, size, device="cuda")
    for step in reversed(range(state.config["sampling"]["steps"])):
        time = torch.full((count,), step, device="cuda")
        if guidance is None:
            noise = state.model(x, embed(time))
        else:
            both = state.model(torch.cat([x, x]), embed(torch.cat([time, time])))
            noise = both[:count] + guidance * (both[count:] - both[:count])
        x = x - 0.1 * noise
    return enlarge(x)


@torch.no_grad()
def preview(state, sheets=3):
    """A few sheets, one after another, and what they have in common."""
    mean = 0
    for _ in range(sheets):
        sheet = sample(state)
        mean = mean + sheet.mean()
        del sheet
    return mean / sheets
