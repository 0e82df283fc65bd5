"""Weights in half precision that are made float32 before adapters are trained."""

import sys

import torch
from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training
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
model = LlamaForCausalLM(config).half().cuda()
if sys.argv[1] == "after":
    model = prepare_model_for_kbit_training(model, use_gradient_checkpointing=False)
model = get_peft_model(model, LoraConfig(r=8, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM"))
optimizer = torch.optim.AdamW([weights for weights in model.parameters() if weights.requires_grad], lr=1e-4)
for _ in range(3):
    tokens = torch.randint(0, 1024, (2, 128), device="cuda")
    model(input_ids=tokens, labels=tokens).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
