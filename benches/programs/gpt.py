"""Trains a small GPT, for a real recording of about a million events:

    ptmem simulate --gpu a100 --record million.pkl -- python3 benches/programs/gpt.py

It needs PyTorch and no GPU. Each of its 150 steps allocates and frees 2,250 blocks, as steps of far larger models do.
"""

import sys

import torch
from torch import Tensor, nn
from torch.nn import functional as F

VOCABULARY = 1024
WIDTH = 128
CONTEXT = 64


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(WIDTH)
        self.project_in = nn.Linear(WIDTH, 3 * WIDTH)
        self.project_out = nn.Linear(WIDTH, WIDTH)
        self.mlp_norm = nn.LayerNorm(WIDTH)
        self.widen = nn.Linear(WIDTH, 4 * WIDTH)
        self.narrow = nn.Linear(4 * WIDTH, WIDTH)

    def attend(self, x: Tensor) -> Tensor:
        batch, length, _ = x.shape
        heads = self.project_in(x).view(batch, length, 3, 4, WIDTH // 4).permute(2, 0, 3, 1, 4)
        query, key, value = heads[0], heads[1], heads[2]
        weights = query @ key.transpose(-2, -1) / (WIDTH // 4) ** 0.5
        mask = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
        weights = F.dropout(F.softmax(weights.masked_fill(mask, float("-inf")), dim=-1), 0.1)
        return self.project_out((weights @ value).transpose(1, 2).reshape(batch, length, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        x = x + F.dropout(self.attend(self.attention_norm(x)), 0.1)
        return x + F.dropout(self.narrow(F.gelu(self.widen(self.mlp_norm(x)))), 0.1)


class GPT(nn.Module):
    def __init__(self, layers: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(layers))
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens) + self.positions(torch.arange(CONTEXT, device=tokens.device))
        for block in self.blocks:
            x = block(x)
        return F.linear(self.norm(x), self.tokens.weight)


def main() -> None:
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 150
    model = GPT(layers=24).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    for _ in range(steps):
        tokens = torch.zeros(4, CONTEXT + 1, dtype=torch.long, device="cuda")
        logits = model(tokens[:, :-1])
        F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()


main()
