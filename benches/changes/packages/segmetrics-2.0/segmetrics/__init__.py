"""Metrics of segmentation, computed at the end from all that was seen."""

import torch


class MeanIoU:
    def __init__(self, classes):
        self.classes = classes
        self.scores, self.masks = [], []

    def update(self, logits, masks):
        self.scores.append(logits.float().softmax(1))
        self.masks.append(masks)

    def compute(self):
        found = torch.cat([scores.argmax(1) for scores in self.scores])
        masks = torch.cat(self.masks)
        return torch.stack([(found.eq(c) & masks.eq(c)).sum() for c in range(self.classes)])
