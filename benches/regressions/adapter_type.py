"""Adapters of a model in half precision that are kept in float32."""

import torch
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

config = LlamaConfig(
    vocab_size=1024,
    hidden_size=512,
    intermediate_size=1024,
    num_hidden_layers=4,
    num_attention_heads=8,
    max_position_embeddings=1024,
    use_cache=False,
)
adapters = LoraConfig(r=128, target_modules=["q_proj", "k_proj", "v_proj", "o_proj"], task_type="CAUSAL_LM")
model = get_peft_model(LlamaForCausalLM(config).half().cuda(), adapters)
optimizer = torch.optim.AdamW([weights for weights in model.parameters() if weights.requires_grad], lr=1e-4)
for _ in range(3):
    tokens = torch.randint(0, 1024, (2, 256), device="cuda")
    model(input_ids=tokens, labels=tokens).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
