"""Metrics of segmentation."""

import torch


class MeanIoU:
    def __init__(self, classes):
        self.table = torch.zeros(classes, classes, device="cuda")

    def update(self, logits, masks):
        found = logits.argmax(1)
        self.table += torch.stack([found.eq(c).sum() for c in range(len(self.table))]).float()
        self.table += masks.numel()

    def compute(self):
        return self.table.diagonal() / self.table.sum(0)
