"""A product of queries and features of pixels that is summed after all its terms are written."""

import torch
from transformers import Mask2FormerConfig, Mask2FormerForUniversalSegmentation, SwinConfig

backbone = SwinConfig(
    image_size=384,
    embed_dim=48,
    depths=[1, 1, 2, 1],
    num_heads=[2, 4, 8, 16],
    out_features=["stage1", "stage2", "stage3", "stage4"],
)
config = Mask2FormerConfig(
    backbone_config=backbone,
    feature_size=128,
    mask_feature_size=128,
    hidden_dim=128,
    encoder_layers=2,
    decoder_layers=4,
)
model = Mask2FormerForUniversalSegmentation(config).eval().cuda()
with torch.no_grad():
    for _ in range(2):
        model(pixel_values=torch.randn(1, 3, 384, 384, device="cuda"))
