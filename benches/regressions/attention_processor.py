"""A processor of attention that writes all scores, in place of the fused one."""

import sys

import torch
from diffusers import UNet2DConditionModel
from diffusers.models.attention_processor import AttnProcessor

model = UNet2DConditionModel(
    sample_size=32,
    block_out_channels=(64, 128),
    layers_per_block=1,
    down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
    up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
    cross_attention_dim=64,
    attention_head_dim=8,
).cuda()
if sys.argv[1] == "after":
    model.set_attn_processor(AttnProcessor())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    noise = torch.randn(2, 4, 32, 32, device="cuda")
    text = torch.randn(2, 77, 64, device="cuda")
    model(noise, 10, text).sample.square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
