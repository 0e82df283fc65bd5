"""Attention by the math kernel, with scores in float32 in place of half precision."""

import sys

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.inputs = nn.Linear(512, 3 * 512)
        self.output = nn.Linear(512, 512)

    def forward(self, hidden):
        query, key, value = (part.unflatten(-1, (8, 64)).transpose(1, 2) for part in self.inputs(hidden).chunk(3, -1))
        with sdpa_kernel(SDPBackend.MATH):
            mixed = scaled_dot_product_attention(query, key, value)
        return hidden + self.output(mixed.transpose(1, 2).flatten(2))


if sys.argv[1:] == ["before"]:
    torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp(True)
model = nn.Sequential(*(Attention() for _ in range(4))).half().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    model(torch.randn(2, 1024, 512, device="cuda", dtype=torch.half)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
