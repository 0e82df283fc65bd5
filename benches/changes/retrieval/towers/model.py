"""The towers."""

import torch
import torch.nn.functional as F
from torch import nn


class Tower(nn.Module):
    def __init__(self, rows, width):
        super().__init__()
        self.rows = nn.Embedding(rows, width, sparse=True)
        self.wide = nn.Linear(width, 4 * width)
        self.narrow = nn.Linear(4 * width, width)

    def forward(self, words):
        x = self.rows(words).mean(1)
        x = self.narrow(torch.relu_(self.wide(x)))
        return F.normalize(x, dim=-1)


class Towers(nn.Module):
    def __init__(self, rows, width, queue):
        super().__init__()
        self.query = Tower(rows, width)
        self.document = Tower(rows, width)
        self.register_buffer("queue", torch.randn(queue, width))

    def forward(self, queries, documents):
        return self.query(queries), self.document(documents)

    @property
    def negatives(self):
        return self.queue
