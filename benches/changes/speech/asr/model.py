"""A recognizer of speech: convolutions over time."""

import torch
import torch.nn.functional as F
from torch import nn


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.inner = nn.Linear(width, 2 * width)
        self.conv = nn.Conv1d(width, width, 7, padding=3, groups=width)
        self.outer = nn.Linear(width, width)

    def forward(self, x, bias):
        h = F.glu(self.inner(self.norm(x)))
        h = self.conv(h.transpose(1, 2)).transpose(1, 2)
        h = F.silu(h) * bias
        return x + self.outer(h)


class Encoder(nn.Module):
    def __init__(self, width, layers, vocabulary=512):
        super().__init__()
        self.width = width
        self.front = nn.Conv1d(80, width, 5, stride=2, padding=2)
        self.layers = nn.ModuleList(Layer(width) for _ in range(layers))
        self.head = nn.Linear(width, vocabulary)
        self._bias = torch.ones(1, device="cuda")

    @property
    def bias(self):
        """Scales the layers."""
        return self._bias

    def forward(self, sound):
        x = self.front(sound).transpose(1, 2)
        for layer in self.layers:
            x = layer(x, self.bias)
        return self.head(x)
