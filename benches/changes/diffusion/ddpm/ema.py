"""The moving average of a model."""

import torch


class EMA:
    def __init__(self, model, decay):
        self.decay = decay
        self.shadow = {name: value.detach().clone() for name, value in model.named_parameters()}

    @torch.no_grad()
    def update(self, model):
        for name, value in model.named_parameters():
            self.shadow[name].lerp_(value, 1 - self.decay)
