import torch
from einops import rearrange
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint
from . import config


class Attention(nn.Module):
    def __init__(self, width, heads=6):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        q, k, v = rearrange(self.qkv(x), "b t (n h d) -> n b h t d", n=3, h=self.heads)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(rearrange(y, "b h t d -> b t (h d)"))


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first = nn.LayerNorm(width)
        self.second = nn.LayerNorm(width)
        self.attention = Attention(width)
        self.mlp = nn.Sequential(nn.Linear(width, config.FACTOR * width), nn.GELU(), nn.Linear(config.FACTOR * width, width))

    def forward(self, x):
        x = x + self.attention(self.first(x))
        return x + self.mlp(self.second(x))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(config.VOCABULARY, config.WIDTH)
        self.blocks = nn.ModuleList(Block(config.WIDTH) for _ in range(config.LAYERS))
        self.head = nn.Linear(config.WIDTH, config.VOCABULARY, bias=False)

    def forward(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.training else block(x)
        return self.head(x)
