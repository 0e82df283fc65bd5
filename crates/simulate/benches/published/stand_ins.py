"""Runs a program of Megatron-LM with stand-ins for what is not installed, and writes the peaks that it logs.

The stand-ins for Apex and for two functions of Transformer Engine allocate what their sources allocate, in the same
order. Cases that uninstall both have none.
"""

import functools
import importlib.machinery
import json
import os
import runpy
import sys
import types
import typing

import torch
import torch._inductor.runtime.benchmarking as benchmarking
import typing_extensions


def module(name, **contents):
    made = types.ModuleType(name)
    made.__spec__ = importlib.machinery.ModuleSpec(name, None)
    made.__path__ = []
    vars(made).update(contents)
    sys.modules[name] = made
    parent, _, last = name.rpartition(".")
    if parent in sys.modules:
        setattr(sys.modules[parent], last, made)


class SummaryWriter:
    """Keeps the peaks of the steps."""

    def __init__(self, *_, **__):
        self.peaks = {}

    def add_scalar(self, name, value, step, *_, **__):
        if name == "mem-max-allocated-bytes":
            self.peaks[step] = int(value)
            with open(os.environ["PEAKS"], "w", encoding="utf-8") as file:
                json.dump(self.peaks, file)

    def __getattr__(self, name):
        return lambda *_, **__: None


class FusedAdam(torch.optim.Optimizer):
    """Moments in single precision and a flag on the device; kernels work in place."""

    def __init__(
        self,
        params,
        lr=1e-3,
        bias_correction=True,
        betas=(0.9, 0.999),
        eps=1e-8,
        adam_w_mode=True,
        weight_decay=0.0,
        **_,
    ):
        super().__init__(
            params,
            {"lr": lr, "bias_correction": bias_correction, "betas": betas, "eps": eps, "weight_decay": weight_decay},
        )
        self.adam_w_mode = 1 if adam_w_mode else 0
        self.flag = torch.zeros(1, dtype=torch.int, device="cuda")

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            group["step"] = group.get("step", 0) + 1
            for parameter in group["params"]:
                state = self.state[parameter]
                if parameter.grad is not None and not state:
                    state["exp_avg"] = torch.zeros_like(parameter, dtype=torch.float)
                    state["exp_avg_sq"] = torch.zeros_like(parameter, dtype=torch.float)


class FusedLayerNormAffineFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, input, weight, bias, normalized_shape, eps, memory_efficient=False):
        source = input.contiguous()
        rows = source.numel() // weight.numel()
        output = torch.empty_like(source)
        mean = torch.empty(rows, dtype=torch.float, device=source.device)
        invvar = torch.empty_like(mean)
        ctx.save_for_backward(source, weight, bias, mean, invvar)
        return output

    @staticmethod
    def backward(ctx, grad):
        source, weight, bias, _, _ = ctx.saved_tensors
        grad = grad.contiguous()
        grads = torch.empty_like(source), torch.empty_like(weight), torch.empty_like(bias)
        parts = torch.empty(16, weight.numel(), dtype=torch.float, device=source.device)
        torch.empty_like(parts)
        return (*grads, None, None, None)


class Softmax:
    """The kernels write a new tensor forward and the gradient in place backward."""

    @staticmethod
    def forward(inputs, *_):
        return torch.empty_like(inputs)

    @staticmethod
    def backward(grads, *_):
        return grads

    @staticmethod
    def get_batch_per_block(queries, keys, batches, heads):
        return 8 if keys <= 128 else 4


def norm(_, flag, lists, per_tensor=False):
    """The norm of all tensors: a sum for each of 320 blocks, and the result."""
    sums = torch.zeros(320, dtype=torch.float, device="cuda")
    rest = torch.empty(len(lists[0]) if per_tensor else 0, dtype=torch.float, device="cuda")
    result = torch.empty(1, dtype=torch.float, device="cuda")
    del sums
    return result, rest


@functools.cache
def placeholder(shape, dtype):
    return torch.empty(shape, dtype=dtype, device="cuda")


def get_dummy_wgrad(shape, dtype, zero=False):
    """The gradient of weights whose real one was accumulated: of each shape one, which is kept."""
    kept = placeholder(tuple(shape), dtype)
    if zero:
        kept.fill_(0)
    return kept.detach()


@functools.cache
def workspace():
    hopper = torch.cuda.get_device_properties(torch.cuda.current_device()).major >= 9
    return torch.empty((32 << 20) + 1024 if hopper else 4 << 20, dtype=torch.uint8, device="cuda")


def te_general_gemm(a, b, out_dtype=None, layout="TN", bias=None, grad=False):
    """The product of a router, which needs a workspace, which is kept."""
    workspace()
    product = (b.t() if layout[1] == "T" else b) @ (a.t() if layout[0] == "T" else a)
    return [product.to(out_dtype)]


def add_apex():
    def apply(function, flag, lists, *arguments):
        return function(2048 * 32, flag, lists, *arguments)

    module("apex")
    module("apex.optimizers", FusedAdam=FusedAdam, FusedSGD=torch.optim.SGD)
    module("apex.multi_tensor_apply", multi_tensor_applier=apply)
    module("apex.normalization")
    module(
        "apex.normalization.fused_layer_norm",
        FusedLayerNormAffineFunction=FusedLayerNormAffineFunction,
        fused_layer_norm_affine=FusedLayerNormAffineFunction.apply,
    )
    module("amp_C", multi_tensor_l2norm=norm, multi_tensor_scale=lambda *_: None)
    # Accumulates in place, by cuBLAS.
    sums = {f"wgrad_gemm_accum_fp{bits}": lambda *_: None for bits in (16, 32)}
    module("fused_weight_gradient_mlp_cuda", **sums)
    for name in ("scaled_upper_triang_masked_softmax_cuda", "scaled_masked_softmax_cuda", "scaled_softmax_cuda"):
        module(name, **{key: getattr(Softmax, key) for key in ("forward", "backward", "get_batch_per_block")})


typing.override = typing_extensions.override  # Later versions ask for Python 3.12.
module("torch.utils.tensorboard", SummaryWriter=SummaryWriter)
if os.environ.get("APEX"):
    add_apex()
if not os.environ["AUTOTUNE"]:
    type(benchmarking.benchmarker).benchmark_gpu = lambda *_, **__: 1.0
sys.path.insert(0, os.getcwd())
try:
    import megatron.legacy.fused_kernels as kernels

    kernels.load = lambda _: None  # Asks nvcc for its version.
except ImportError:
    pass  # Later versions have none.
sys.argv = sys.argv[1:]
if os.environ.get("APEX"):
    import megatron.core.tensor_parallel.layers as layers

    layers.HAVE_TE = True
    layers.get_dummy_wgrad = get_dummy_wgrad
if "--num-experts" in sys.argv:
    import megatron.core.transformer.moe.moe_utils as moe

    moe.te_general_gemm = te_general_gemm
if sys.argv[0].endswith("pretrain_t5.py"):
    # Its last norms are Transformer Engine's. GPT takes Apex's in place of that by itself.
    import megatron.core.datasets.utils as data
    import megatron.core.models.T5.t5_spec as specification

    specification.TENorm = specification.LNImpl
    data.compile_helpers = lambda: None  # Rank 0 would, and megatron_lm.py has.
runpy.run_path(sys.argv[0], run_name="__main__")
