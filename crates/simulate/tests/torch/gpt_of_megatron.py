"""A small GPT of Megatron-core with its own layers: tensor, pipeline and data parallel by two each, and its distributed
optimizer. Transformer Engine and apex are not needed."""

import time

import torch
from megatron.core import parallel_state
from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig, finalize_model_grads
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
from megatron.core.models.gpt.gpt_model import GPTModel
from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
from megatron.core.pipeline_parallel.schedules import get_forward_backward_func
from megatron.core.tensor_parallel.random import model_parallel_cuda_manual_seed
from megatron.core.transformer.transformer_config import TransformerConfig

LENGTH = 128
WORDS = 4096


def gpt(config):
    model = GPTModel(
        config,
        get_gpt_layer_local_spec(),
        WORDS,
        LENGTH,
        pre_process=parallel_state.is_pipeline_first_stage(),
        post_process=parallel_state.is_pipeline_last_stage(),
        share_embeddings_and_output_weights=False,
    )
    of_gradients = DistributedDataParallelConfig(use_distributed_optimizer=True, overlap_grad_reduce=False)
    return DistributedDataParallel(config, of_gradients, model.cuda().bfloat16())


def forward(_, model):
    tokens = torch.zeros(2, LENGTH, dtype=torch.long, device="cuda")
    places = torch.arange(LENGTH, device="cuda").expand(2, -1)
    mask = torch.ones(1, 1, LENGTH, LENGTH, dtype=torch.bool, device="cuda").triu(1)
    return model(tokens, places, mask, labels=tokens), lambda out: (out.float().mean(), {})


def train(pause):
    """Two steps of four microbatches."""
    parallel_state.initialize_model_parallel(tensor_model_parallel_size=2, pipeline_model_parallel_size=2)
    model_parallel_cuda_manual_seed(1)
    config = TransformerConfig(
        num_layers=4,
        hidden_size=256,
        num_attention_heads=8,
        tensor_model_parallel_size=2,
        pipeline_model_parallel_size=2,
        pipeline_dtype=torch.bfloat16,
        params_dtype=torch.bfloat16,
        bf16=True,
        gradient_accumulation_fusion=False,
        bias_dropout_fusion=False,
        bias_activation_fusion=False,
        masked_softmax_fusion=False,
        finalize_model_grads_func=finalize_model_grads,
    )
    model = gpt(config)
    of_optimizer = OptimizerConfig(
        optimizer="adam", lr=1e-4, bf16=True, params_dtype=torch.bfloat16, use_distributed_optimizer=True, clip_grad=1.0
    )
    optimizer = get_megatron_optimizer(of_optimizer, [model])
    for _ in range(2):
        model.zero_grad_buffer()
        optimizer.zero_grad()
        get_forward_backward_func()(
            forward_step_func=forward,
            data_iterator=None,
            model=[model],
            num_microbatches=4,
            seq_length=LENGTH,
            micro_batch_size=2,
            forward_only=False,
        )
        time.sleep(pause)
        optimizer.step()
        time.sleep(pause)
