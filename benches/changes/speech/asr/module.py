"""What a step of training and of validation does."""

import torch
import torch.nn.functional as F
from trainkit import Module

from .model import Encoder


class Recognizer(Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.encoder = Encoder(**config["model"])

    def batch(self):
        frames = 100 * self.config["seconds"]
        sound = torch.randn(self.config["batch"], 80, frames, device="cuda")
        return sound, torch.randint(512, (self.config["batch"], frames // 2), device="cuda")

    def shared_step(self, batch):
        sound, letters = batch
        logits = self.encoder(sound)
        return logits, F.cross_entropy(logits.flatten(0, 1), letters.flatten())

    def training_step(self, batch):
        logits, loss = self.shared_step(batch)
        accuracy = (logits.argmax(-1) == batch[1]).float().mean()
        return {"loss": loss, "accuracy": accuracy}

    def validation_step(self, batch):
        logits, loss = self.shared_step(batch)
        return {"loss": loss}

    def optimizer(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)
