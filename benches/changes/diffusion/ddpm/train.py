"""Training of the model."""

from pathlib import Path
from types import SimpleNamespace

import torch
import torch.nn.functional as F
import yaml

from .ema import EMA
from .schedule import Schedule, embed
from .unet import UNet


def build(path="configs/base.yaml"):
    config = yaml.safe_load(Path(path).read_text())
    model = UNet(**config["unet"]).cuda()
    return SimpleNamespace(
        config=config,
        model=model,
        ema=EMA(model, config["ema_decay"]),
        schedule=Schedule(config["images"]["size"]),
        optimizer=torch.optim.Adam(model.parameters(), lr=1e-4),
    )


def train_step(state):
    images = state.config["images"]
    shape = (images["batch"], 3, images["size"], images["size"])
    clean = torch.rand(shape, device="cuda")
    noise = torch.randn(shape, device="cuda")
    steps = torch.randint(1000, (images["batch"],), device="cuda")
    noisy = state.schedule.add_noise(clean, noise, steps)
    guess = state.model(noisy, embed(steps))
    loss = F.mse_loss(guess, noise)
    loss.backward()
    state.optimizer.step()
    state.optimizer.zero_grad()
    state.ema.update(state.model)
    return loss.detach()
