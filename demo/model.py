"""A small GPT in half precision: the program of fixtures/before.pkl."""

import math

import torch
from torch import nn
from torch.nn.functional import gelu


class Settings:
    """Its sizes."""

    vocabulary = 30_522
    context = 128
    width = 256
    heads = 8
    layers = 3


def heads_first(part, heads):
    batch, length, width = part.shape
    return part.view(batch, length, heads, width // heads).transpose(1, 2)


# The attention of a block. It keeps its
# weights for the backward pass: batch x
# heads x length x length numbers, which
# for long texts is more than anything
# else that a block keeps. In half
# precision large scores overflow, as
# they do in long texts.


def attention(q, k, v, heads):
    """Mixes the values of all places."""
    scale = 1 / math.sqrt(q.shape[-1] // heads)
    q, k, v = (heads_first(part, heads) for part in (q, k, v))
    scores = q @ k.transpose(-2, -1) * scale
    weights = scores.softmax(dim=-1)
    return (weights @ v).transpose(1, 2).flatten(2)


class Block(nn.Module):
    def __init__(self, width, heads, mlp):
        super().__init__()
        self.norm1, self.norm2, self.heads = nn.LayerNorm(width), nn.LayerNorm(width), heads
        self.qkv, self.proj, self.mlp = nn.Linear(width, 3 * width), nn.Linear(width, width), mlp

    def forward(self, x):
        # Both parts add to their input.
        q, k, v = self.qkv(self.norm1(x)).chunk(3, dim=-1)
        x = x + self.proj(attention(q, k, v, self.heads))
        return x + self.mlp(self.norm2(x))


class FeedForward(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def feed_forward(self, x):
        hidden = gelu(self.up(x))
        return self.down(hidden)

    forward = feed_forward


class Gpt(nn.Module):
    def embed_tokens(self, inputs):
        # A table of all places is added.
        return self.tokens(inputs) + self.positions

    def forward(self, inputs):
        # Numbers of tokens in, logits out.
        x = self.embed_tokens(inputs)

        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))

    def __init__(self, of=Settings):
        super().__init__()
        width = of.width
        self.tokens = nn.Embedding(of.vocabulary, width)
        self.positions = nn.Parameter(torch.zeros(of.context, width))
        self.blocks = nn.ModuleList(Block(width, of.heads, FeedForward(width)) for _ in range(of.layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, of.vocabulary, bias=False)
