"""The engine that trains the segmenter."""

from contextlib import nullcontext

import torch
import torch.nn.functional as F

from .base import Engine


class SegmentationEngine(Engine):
    def precision(self):
        if self.config["training"]["precision"] == "bf16":
            return torch.autocast("cuda", torch.bfloat16)
        return nullcontext()

    def loss(self, images, masks):
        with self.precision():
            logits = self.model(images)
            return F.cross_entropy(logits, masks)

    def predict(self, images):
        with self.precision():
            return super().predict(images)
