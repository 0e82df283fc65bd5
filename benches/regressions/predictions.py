"""Predictions of an evaluation that the Trainer of transformers gathers on the device."""

import sys

import torch
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

config = LlamaConfig(
    vocab_size=4096,
    hidden_size=128,
    intermediate_size=256,
    num_hidden_layers=2,
    num_attention_heads=4,
    max_position_embeddings=256,
    use_cache=False,
)
tokens = torch.arange(128)
data = [{"input_ids": tokens, "labels": tokens} for _ in range(20)]
arguments = TrainingArguments(
    output_dir="unused",
    per_device_eval_batch_size=2,
    eval_accumulation_steps=None if sys.argv[1] == "after" else 1,
    report_to=[],
)
Trainer(LlamaForCausalLM(config), arguments, eval_dataset=data).predict(data)
