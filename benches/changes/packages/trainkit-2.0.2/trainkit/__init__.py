"""A loop for training."""

import torch
from torch import nn


class Module(nn.Module):
    def batch(self):
        raise NotImplementedError


class Trainer:
    def __init__(self, epochs, steps, callbacks=()):
        self.epochs, self.steps, self.callbacks = epochs, steps, callbacks

    def fit(self, module):
        optimizer = module.optimizer()
        for _ in range(self.epochs):
            for _ in range(self.steps):
                self.step(module, optimizer)
            self.validate(module)

    def step(self, module, optimizer):
        output = module.training_step(module.batch())
        output["loss"].backward()
        optimizer.step()
        optimizer.zero_grad()
        for callback in self.callbacks:
            callback.on_step(module, output)

    @torch.no_grad()
    def validate(self, module):
        return [module.validation_step(module.batch()) for _ in range(8 * self.steps)]
