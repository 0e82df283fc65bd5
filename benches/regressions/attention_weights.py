"""Asking for the weights of attention, without which a fused kernel computes it."""

import sys

import torch
from transformers import LlamaConfig, LlamaForCausalLM

config = LlamaConfig(
    vocab_size=1024,
    hidden_size=256,
    intermediate_size=512,
    num_hidden_layers=4,
    num_attention_heads=8,
    max_position_embeddings=1024,
    use_cache=False,
)
model = LlamaForCausalLM(config).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    tokens = torch.randint(0, 1024, (2, 512), device="cuda")
    model(input_ids=tokens, labels=tokens, output_attentions=sys.argv[1] == "after").loss.backward()
    optimizer.step()
    optimizer.zero_grad()
