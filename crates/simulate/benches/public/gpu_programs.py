"""Programs of public libraries that do not run on a CPU, or run there in another way. They know nothing of ptmem.

Each states the memory that arithmetic says a part of it holds, and fails if PyTorch counts another number.
"""

import gc
import json
import pathlib
import sys
import tempfile

import torch
from torch import nn

# A part holds what is expected and at most this much more, for scalars and flags.
SLACK = 1 << 20


def requested():
    """Bytes that the program holds, without what the allocator adds to fill blocks, and without workspaces."""
    gc.collect()
    torch._C._cuda_clearCublasWorkspaces()
    return torch.cuda.memory_stats().get("requested_bytes.all.current", 0)


def holds(part, expected, held, slack=SLACK):
    print(f"{part}: {held:,} bytes, {expected:,} expected")
    if not expected <= held <= expected + slack:
        sys.exit(f"{part} should hold {expected:,} bytes and holds {held:,}")


def llama(device="cuda"):
    import transformers

    config = transformers.LlamaConfig(
        vocab_size=4096, hidden_size=512, intermediate_size=1408, num_hidden_layers=4, num_attention_heads=8,
        pad_token_id=0, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config).to(device)


def counts(model):
    return [parameter.numel() for parameter in model.parameters()]


def trl():
    """Supervised fine-tuning: AdamW holds two moments of four bytes for each weight."""
    import datasets
    import tokenizers
    import transformers
    from trl import SFTConfig, SFTTrainer

    words = {"<pad>": 0, "<s>": 1, "</s>": 2, **{f"w{number}": number for number in range(3, 300)}}
    plain = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="<s>"))
    plain.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=plain, pad_token="<pad>", eos_token="</s>")
    texts = [" ".join(f"w{3 + (7 * row + word) % 297}" for word in range(64)) for row in range(16)]
    with tempfile.TemporaryDirectory() as folder:
        options = SFTConfig(
            folder, max_steps=3, per_device_train_batch_size=4, report_to=[], save_strategy="no", bf16=True
        )
        data = datasets.Dataset.from_dict({"text": texts})
        trainer = SFTTrainer(llama(), args=options, train_dataset=data, processing_class=tokenizer)
        trainer.train()
    before = requested()
    trainer.optimizer.state.clear()
    holds("moments of AdamW", 8 * sum(counts(trainer.model)), before - requested())


def bitsandbytes():
    """NF4 weights have half a byte and a scale per 64; AdamW8bit has two bytes, and two scales per 256."""
    from bitsandbytes.nn import Linear4bit
    from bitsandbytes.optim import AdamW8bit

    before = requested()
    quantized = Linear4bit(4096, 4096, bias=False, compress_statistics=False).cuda()
    holds("NF4 weight", 4096 * 4096 // 2 + 4096 * 4096 // 64 * 4, requested() - before)
    quantized(torch.rand(8, 4096, device="cuda", requires_grad=True)).sum().backward()
    model = llama()
    optimizer = AdamW8bit(model.parameters())
    model(torch.ones(2, 64, dtype=torch.long, device="cuda")).logits.sum().backward()
    before = requested()
    optimizer.step()
    # Small tensors keep moments of four bytes.
    moments = sum(count + count // 256 * 4 if count >= 4096 else 4 * count for count in counts(model))
    holds("moments of AdamW8bit", 2 * moments, requested() - before)


def deepspeed():
    """ZeRO stage 2: weights of two bytes, and a part of the weights of four bytes and of the moments."""
    import deepspeed

    model = llama("cpu")
    count, ranks = sum(counts(model)), 4
    before = requested()
    settings = {
        "train_micro_batch_size_per_gpu": 2,
        "bf16": {"enabled": True},
        "zero_optimization": {"stage": 2},
        "zero_allow_untested_optimizer": True,
    }
    optimizer = torch.optim.AdamW(model.parameters())
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=settings)
    for _ in range(2):
        tokens = torch.ones(2, 64, dtype=torch.long, device="cuda")
        engine.backward(engine(tokens, labels=tokens).loss)
        engine.step()
    holds("weights and a part of the state", 2 * count + 12 * count // ranks, requested() - before)


def timm_compiled():
    """Compiled training needs less than eager training, because fused operators keep no intermediate results."""
    import timm

    model = timm.create_model("vit_tiny_patch16_224", num_classes=10).cuda()
    inputs, labels = torch.rand(16, 3, 224, 224, device="cuda"), torch.arange(16, device="cuda") % 10
    peaks = []
    for call in (model, torch.compile(model)):
        for _ in range(2):
            torch.cuda.reset_peak_memory_stats()
            nn.functional.cross_entropy(call(inputs), labels).backward()
        peaks.append(torch.cuda.max_memory_allocated())
    print(f"peak: {peaks[0]:,} bytes eager, {peaks[1]:,} bytes compiled")
    if peaks[1] >= peaks[0]:
        sys.exit("the compiled model needs no less memory")
    model.zero_grad()
    holds("weights, images, labels", 4 * sum(counts(model)) + inputs.nbytes + labels.nbytes, requested())


def torchscript():
    """A scripted ResNet in its optimized form has the peak of eager mode."""
    import torchvision

    model = torchvision.models.resnet18().cuda().eval()
    inputs = torch.rand(8, 3, 224, 224, device="cuda")
    peaks = []
    for call in (model, torch.jit.script(model)):
        for _ in range(4):  # The third call runs what the profile of the first two led to.
            torch.cuda.reset_peak_memory_stats()
            with torch.no_grad():
                call(inputs)
        peaks.append(torch.cuda.max_memory_allocated())
    print(f"peak: {peaks[0]:,} bytes eager, {peaks[1]:,} bytes scripted")
    if peaks[1] > peaks[0]:
        sys.exit("the scripted model needs more memory")


def aotinductor():
    """A compiled package has weights of its own, which PyTorch's allocator does not count."""
    model = nn.Sequential(nn.Linear(2048, 4096), nn.GELU(), nn.Linear(4096, 2048)).cuda().eval()
    inputs = torch.rand(16, 2048, device="cuda")
    weights = 4 * sum(counts(model))
    with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        path = str(pathlib.Path(folder, "model.pt2"))
        torch._inductor.aoti_compile_and_package(torch.export.export(model, (inputs,)), package_path=path)
        before, free = requested(), torch.cuda.mem_get_info()[0]
        compiled = torch._inductor.aoti_load_package(path)
        # The driver gives out pieces of 2 MiB.
        holds("weights on the card", weights, free - torch.cuda.mem_get_info()[0], 4 << 20)
        result = compiled(inputs)
    holds("result", result.nbytes, requested() - before)


def ultralytics():
    """YOLOv8: SGD holds a momentum of four bytes for each weight, and the average of the weights a copy of all."""
    from ultralytics.cfg import get_cfg
    from ultralytics.nn.tasks import DetectionModel
    from ultralytics.utils.torch_utils import ModelEMA

    model = DetectionModel("yolov8n.yaml", nc=3, verbose=False).cuda()
    model.args = get_cfg()
    before = requested()
    average = ModelEMA(model)
    copied = sum(value.nbytes for value in model.state_dict().values())
    holds("averaged weights", copied, requested() - before)
    optimizer = torch.optim.SGD(model.parameters(), momentum=0.9, nesterov=True)
    boxes = torch.tensor([[0.5, 0.5, 0.4, 0.4], [0.3, 0.3, 0.2, 0.4]], device="cuda")
    targets = {"batch_idx": torch.arange(2.0).cuda(), "cls": torch.ones(2, 1).cuda(), "bboxes": boxes}
    model({"img": torch.rand(2, 3, 128, 128, device="cuda"), **targets})[0].sum().backward()
    optimizer.step()
    average.update(model)
    before = requested()
    trained = sum(parameter.numel() for parameter in model.parameters() if parameter.grad is not None)
    optimizer.state.clear()
    holds("momentum", 4 * trained, before - requested())


def diffusers():
    """A UNet: AdamW holds two moments of four bytes for each weight, and the average another copy."""
    from diffusers import UNet2DModel
    from diffusers.training_utils import EMAModel

    model = UNet2DModel(sample_size=32, block_out_channels=(64, 128, 256, 256), norm_num_groups=8).cuda()
    count = sum(counts(model))
    before = requested()
    average = EMAModel(model.parameters())
    holds("averaged weights", 4 * count, requested() - before)
    optimizer = torch.optim.AdamW(model.parameters())
    images, times = torch.rand(4, 3, 32, 32, device="cuda"), torch.arange(4, device="cuda")
    nn.functional.mse_loss(model(images, times).sample, images).backward()
    optimizer.step()
    average.step(model.parameters())
    before = requested()
    optimizer.state.clear()
    holds("moments of AdamW", 8 * count, before - requested())


def torch_geometric():
    """A graph convolution keeps edges (two indices of eight bytes, a weight of four) and a loop for each node."""
    from torch_geometric.nn import GCNConv

    nodes, degree, width = 20_000, 10, 64
    sources, steps = torch.arange(nodes).repeat_interleave(degree), torch.arange(degree).repeat(nodes)
    edges = torch.stack([sources, (sources + steps + 1) % nodes]).cuda()
    model = GCNConv(width, width, cached=True).cuda()
    before = requested()
    with torch.no_grad():
        model(torch.rand(nodes, width, device="cuda"), edges)
    holds("normalized edges", (nodes * degree + nodes) * (2 * 8 + 4), requested() - before)


def mamba():
    """Mamba of transformers: a sequence keeps, for each layer and channel, the kernel's inputs and the state."""
    import transformers

    layers, width, state, kernel, batch = 4, 512, 16, 4, 8
    config = transformers.MambaConfig(
        vocab_size=1000, hidden_size=width, state_size=state, conv_kernel=kernel, num_hidden_layers=layers, expand=2
    )
    model = transformers.MambaForCausalLM(config).cuda().eval()
    before = requested()
    with torch.no_grad():
        cache = model(torch.ones(batch, 64, dtype=torch.long, device="cuda"), use_cache=True).cache_params
    holds("states", layers * batch * 2 * width * (kernel + state) * 4, requested() - before)
    del cache


def vllm(ranks=1, **options):
    """An engine with a KV cache of 1 GiB: a token takes two vectors of each layer."""
    import os

    os.environ.update(VLLM_ENABLE_V1_MULTIPROCESSING="0", VLLM_USE_FLASHINFER_SAMPLER="0")
    from vllm import LLM, SamplingParams

    layers, heads, width = 4, 8, 64
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "bfloat16",
        "hidden_size": 1024, "intermediate_size": 2816, "num_attention_heads": 16, "num_key_value_heads": heads,
        "num_hidden_layers": layers, "vocab_size": 32000, "max_position_embeddings": 4096,
    }  # fmt: skip
    options = {"enforce_eager": True, "tensor_parallel_size": ranks, **options}
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "config.json").write_text(json.dumps(config))
        engine = LLM(folder, load_format="dummy", skip_tokenizer_init=True, kv_cache_memory_bytes=1 << 30, **options)
    cache = engine.llm_engine.vllm_config.cache_config
    tokens = cache.num_gpu_blocks * cache.block_size
    expected = (1 << 30) // (layers * 2 * heads // ranks * width * 2)
    print(f"KV cache: {tokens:,} tokens, {expected:,} expected")
    prompt = {"prompt_token_ids": list(range(3, 40))}
    engine.generate([prompt] * 4, SamplingParams(max_tokens=4, detokenize=False, ignore_eos=True))
    if tokens != expected:
        sys.exit("the KV cache has another size")


def vllm_compiled():
    """The default mode: compiled pieces between attention, and CUDA graphs."""
    vllm(enforce_eager=False)


def vllm_parallel():
    """Each of two ranks holds half of the heads, so twice as many tokens fit."""
    vllm(ranks=2)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
