"""A decoder of videos that keeps the inputs of its convolutions for both the last frames and the next."""

import torch
from diffusers import AutoencoderKLCogVideoX

decoder = AutoencoderKLCogVideoX(block_out_channels=(64, 128, 128, 256), layers_per_block=1).eval().bfloat16().cuda()
with torch.no_grad():
    for _ in range(2):
        decoder.decode(torch.randn(1, 16, 5, 24, 40, device="cuda", dtype=torch.bfloat16))
