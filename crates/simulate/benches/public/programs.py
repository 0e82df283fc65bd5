"""Small programs of public libraries, each a function of the device. They know nothing of ptmem.

Weights are random and images are noise: what counts is which operators run, and on which sizes.
"""

import pathlib
import sys

import torch
from torch import nn
from torch.nn import functional


def step(loss, model, optimizer=torch.optim.AdamW):
    """A step of training; on the CPU, optimizers go through parameters one by one."""
    loss.backward()
    optimizer(model.parameters(), lr=1e-3, foreach=False).step()


def images(device, count=2, size=128):
    generator = torch.Generator().manual_seed(1)
    return [torch.rand(3, size, size, generator=generator).to(device) for _ in range(count)]


def boxes(device, count=2):
    found = torch.tensor([[8.0, 8.0, 60.0, 60.0], [30.0, 40.0, 110.0, 120.0], [70.0, 10.0, 100.0, 50.0]])
    masks = torch.zeros(3, 128, 128, dtype=torch.uint8)
    masks[:, 20:60, 20:60] = 1
    target = {"boxes": found, "labels": torch.tensor([1, 2, 1]), "masks": masks}
    return [{name: value.to(device) for name, value in target.items()} for _ in range(count)]


def detector(name, device, train=True, **options):
    from torchvision.models import detection

    make = getattr(detection, name)
    model = make(weights=None, weights_backbone=None, num_classes=3, min_size=128, max_size=128, **options).to(device)
    if train:
        return step(sum(model(images(device), boxes(device)).values()), model, torch.optim.SGD)
    with torch.no_grad():
        return model.eval()(images(device))


def mask_rcnn(device):
    detector("maskrcnn_resnet50_fpn", device)


def faster_rcnn(device):
    detector("fasterrcnn_mobilenet_v3_large_320_fpn", device)


def faster_rcnn_inference(device):
    detector("fasterrcnn_mobilenet_v3_large_320_fpn", device, train=False)


def retinanet(device):
    detector("retinanet_resnet50_fpn", device)


def fcos(device):
    detector("fcos_resnet50_fpn", device)


def ssd(device):
    from torchvision.models import detection

    model = detection.ssdlite320_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=3).to(device)
    step(sum(model(images(device), boxes(device)).values()), model, torch.optim.SGD)


def resnet(device):
    import torchvision

    model = torchvision.models.resnet18().to(device)
    labels = torch.tensor([3, 7]).to(device)
    logits = model(torch.stack(images(device)))
    step(functional.cross_entropy(logits, labels), model, torch.optim.SGD)
    (logits.argmax(1) == labels).sum().item()


def segmentation(device):
    import torchvision

    model = torchvision.models.segmentation.deeplabv3_mobilenet_v3_large(weights=None, weights_backbone=None)
    model = model.to(device)
    labels = torch.arange(2 * 128 * 128).view(2, 128, 128).remainder(21).to(device)
    step(functional.cross_entropy(model(torch.stack(images(device)))["out"], labels), model, torch.optim.SGD)


def vision_transformer(device):
    import timm

    model = timm.create_model("vit_tiny_patch16_224", img_size=128, num_classes=10).to(device)
    step(functional.cross_entropy(model(torch.stack(images(device))), torch.tensor([1, 2]).to(device)), model)


def mnist(device):
    """The convolutional network of PyTorch's examples, with its test loop."""
    model = nn.Sequential(
        nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.25),
        nn.Flatten(), nn.Linear(9216, 128), nn.ReLU(), nn.Dropout(0.5), nn.Linear(128, 10),
    ).to(device)  # fmt: skip
    data, target = torch.rand(8, 1, 28, 28).to(device), torch.arange(8).to(device)
    step(functional.nll_loss(functional.log_softmax(model(data), 1), target), model, torch.optim.Adadelta)
    with torch.no_grad():
        model.eval()(data).argmax(dim=1, keepdim=True).eq(target.view(-1, 1)).sum().item()


def word_language_model(device):
    """The recurrent model of PyTorch's examples, and text that it samples."""
    encoder, network, decoder = nn.Embedding(500, 32), nn.LSTM(32, 32, 2, dropout=0.2), nn.Linear(32, 500)
    model = nn.ModuleList([encoder, network, decoder]).to(device)
    tokens = torch.arange(350).view(35, 10).to(device)
    output, _ = network(encoder(tokens))
    loss = functional.cross_entropy(decoder(output).view(-1, 500), tokens.view(-1))
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.25)
    with torch.no_grad():
        word, hidden = torch.tensor([[3]]).to(device), None
        for _ in range(10):
            output, hidden = network(encoder(word), hidden)
            word.fill_(torch.multinomial(decoder(output).squeeze().div(1.0).exp(), 1)[0])


def autoencoder(device):
    encoder, decoder = nn.Linear(784, 40).to(device), nn.Linear(20, 784).to(device)
    data = torch.rand(16, 784).to(device)
    mean, variance = encoder(data).chunk(2, 1)
    sample = mean + torch.randn_like(mean) * (0.5 * variance).exp()
    loss = functional.binary_cross_entropy(decoder(sample).sigmoid(), data, reduction="sum")
    step(loss - 0.5 * (1 + variance - mean.pow(2) - variance.exp()).sum(), encoder, torch.optim.Adam)


def actor_critic(device):
    """Actions are sampled and read by the environment."""
    model = nn.Linear(4, 128).to(device)
    actor, critic = nn.Linear(128, 2).to(device), nn.Linear(128, 1).to(device)
    state, losses = torch.zeros(4), []
    for _ in range(8):
        features = functional.relu(model(state.to(device)))
        chances = torch.distributions.Categorical(functional.softmax(actor(features), -1))
        action = chances.sample()
        state = state + (0.1 if action.item() else -0.1)
        losses.append(-chances.log_prob(action) + functional.smooth_l1_loss(critic(features), state[:1].to(device)))
    step(torch.stack(losses).sum(), model)


def sequence_with_lbfgs(device):
    """A solver that asks for its loss as often as it improves."""
    model = nn.Linear(3, 1).to(device).double()
    data = torch.arange(30, dtype=torch.float64).view(10, 3).to(device) / 30
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=5)

    def closure():
        optimizer.zero_grad()
        loss = functional.mse_loss(model(data), data.sum(1, keepdim=True))
        loss.backward()
        return loss

    optimizer.step(closure)


def encoder_with_padding(device):
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    model = nn.TransformerEncoder(layer, 2).to(device).eval()
    lengths = torch.tensor([5, 12, 9]).to(device)
    with torch.no_grad():
        model(torch.rand(3, 12, 32).to(device), src_key_padding_mask=torch.arange(12).to(device) >= lengths[:, None])


def large_transformer(device):
    """405 million weights: most matrices have 4 to 16 MiB, the vocabulary's 196 MiB."""
    layer = torch.nn.TransformerEncoderLayer(1024, 16, 4096, batch_first=True, device=device)
    encoder = torch.nn.TransformerEncoder(layer, 24, enable_nested_tensor=False)
    embedding = torch.nn.Embedding(50257, 1024, device=device)
    head = torch.nn.Linear(1024, 50257, bias=False, device=device)
    model = torch.nn.ModuleList([encoder, embedding, head])
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(2):
        tokens = torch.randint(50257, (4, 513), device=device)
        logits = head(encoder(embedding(tokens[:, :-1])))
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()


def packed_sequences(device):
    lengths = torch.tensor([7, 5, 2])
    packed = nn.utils.rnn.pack_padded_sequence(torch.rand(3, 7, 8).to(device), lengths, batch_first=True)
    output, _ = nn.GRU(8, 16, batch_first=True).to(device)(packed)
    nn.utils.rnn.pad_packed_sequence(output, batch_first=True)[0].sum().backward()


def connectionist_loss(device):
    inputs = torch.rand(50, 4, 20).log_softmax(2).to(device).requires_grad_()
    lengths = torch.full((4,), 50, device=device)
    targets = torch.arange(40).remainder(19).add(1).view(4, 10).to(device)
    functional.ctc_loss(inputs, targets, lengths, torch.tensor([10, 9, 8, 7]).to(device)).backward()


def solver(device):
    import torchdiffeq

    model = nn.Linear(2, 2).to(device)
    start, times = torch.tensor([[2.0, 0.0]]).to(device), torch.linspace(0, 2, 5).to(device)
    with torch.no_grad():
        torchdiffeq.odeint(lambda _, state: model(state**3), start, times, rtol=1e-3, atol=1e-4)


def solver_of_known_function(device):
    import torchdiffeq

    start, times = torch.tensor([2.0, 0.5]).to(device), torch.tensor([0.0, 1.0]).to(device)
    torchdiffeq.odeint(lambda time, state: -state * 0.5, start, times, method="rk4", options={"step_size": 0.125})


def graph(device):
    edges = torch.tensor([[0, 1, 1, 2, 3, 4, 5], [1, 0, 2, 1, 4, 5, 3]]).to(device)
    batch = torch.tensor([0, 0, 0, 1, 1, 1]).to(device)
    return torch.rand(6, 16).to(device), edges, batch


def graph_convolution(device):
    from torch_geometric.nn import GCNConv, global_mean_pool

    nodes, edges, batch = graph(device)
    model = GCNConv(16, 8).to(device)
    step(global_mean_pool(model(nodes, edges), batch).sum(), model)


def graph_attention(device):
    from torch_geometric.nn import GATConv, global_add_pool

    nodes, edges, batch = graph(device)
    model = GATConv(16, 8, heads=2).to(device)
    step(global_add_pool(model(nodes, edges), batch).sum(), model)


def graph_pooling(device):
    from torch_geometric.nn import GraphConv, TopKPooling, global_max_pool

    nodes, edges, batch = graph(device)
    first, pool, second = (
        GraphConv(16, 16).to(device),
        TopKPooling(16, ratio=0.7).to(device),
        GraphConv(16, 4).to(device),
    )
    nodes, edges, _, batch, _, _ = pool(first(nodes, edges), edges, None, batch)
    step(global_max_pool(second(nodes, edges), batch).sum(), first)


def graphs_as_dense(device):
    from torch_geometric.utils import to_dense_adj, to_dense_batch, to_undirected

    nodes, edges, batch = graph(device)
    to_dense_batch(nodes, batch)
    to_dense_adj(to_undirected(edges), batch)


def causal(kind, device, **options):
    import transformers

    config = getattr(transformers, kind + "Config")(
        vocab_size=300, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, pad_token_id=0, bos_token_id=1, eos_token_id=2, **options,
    )  # fmt: skip
    return getattr(transformers, kind + "ForCausalLM")(config).to(device)


def prompt(device):
    tokens = torch.tensor([[0, 0, 5, 6, 7], [9, 8, 7, 6, 5]]).to(device)
    return {"input_ids": tokens, "attention_mask": (tokens != 0).long()}


def generate(device, model=None, **options):
    model = model or causal("Llama", device)
    model.eval().generate(**prompt(device), max_new_tokens=8, **options)


def greedy_generation(device):
    generate(device)


def generation_with_beams(device):
    generate(device, num_beams=3)


def generation_by_chance(device):
    generate(device, do_sample=True, top_k=20, top_p=0.9)


def generation_with_static_cache(device):
    generate(device, cache_implementation="static", disable_compile=True)


def language_model(device):
    model = causal("Llama", device)
    step(model(**prompt(device), labels=prompt(device)["input_ids"]).loss, model)


def mixture(device):
    model = causal("Mixtral", device, num_local_experts=4, num_experts_per_tok=2, output_router_logits=True)
    step(model(**prompt(device), labels=prompt(device)["input_ids"]).loss, model)


def state_space_model(device):
    import transformers

    config = transformers.MambaConfig(vocab_size=300, hidden_size=32, state_size=4, num_hidden_layers=2)
    model = transformers.MambaForCausalLM(config).to(device)
    step(model(prompt(device)["input_ids"], labels=prompt(device)["input_ids"]).loss, model)


def denoising(device):
    """Trains a UNet on one batch, and makes an image with it."""
    import diffusers

    model = diffusers.UNet2DModel(
        sample_size=16, block_out_channels=(32, 64), layers_per_block=1, norm_num_groups=8,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    ).to(device)  # fmt: skip
    scheduler = diffusers.DDIMScheduler()
    clean, times = torch.stack(images(device, size=16)), torch.tensor([10, 500]).to(device)
    noise = torch.rand(2, 3, 16, 16).to(device)
    step(functional.mse_loss(model(scheduler.add_noise(clean, noise, times), times).sample, noise), model)
    pipeline = diffusers.DDIMPipeline(model, scheduler)
    pipeline.set_progress_bar_config(disable=True)
    pipeline(num_inference_steps=3, output_type="np")


def mixture_of_qwen(device):
    model = causal(
        "Qwen3Moe",
        device,
        num_experts=8,
        num_experts_per_tok=2,
        moe_intermediate_size=16,
        head_dim=8,
        norm_topk_prob=True,
    )
    step(model(**prompt(device), labels=prompt(device)["input_ids"]).loss, model)


def masked_language_model(device):
    import transformers

    config = transformers.BertConfig(
        vocab_size=300, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64
    )
    model = transformers.BertForMaskedLM(config).to(device)
    step(model(**prompt(device), labels=prompt(device)["input_ids"]).loss, model)


def translation(device):
    import transformers

    config = transformers.T5Config(vocab_size=300, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4)
    config.decoder_start_token_id = 0
    generate(device, transformers.T5ForConditionalGeneration(config).to(device), num_beams=2)


def speech(device):
    import transformers

    config = transformers.WhisperConfig(
        vocab_size=300, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64, num_mel_bins=8, max_source_positions=50,
        max_target_positions=40, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=3,
        begin_suppress_tokens=None, suppress_tokens=None,
    )  # fmt: skip
    model = transformers.WhisperForConditionalGeneration(config).to(device).eval()
    model.generate(torch.rand(1, 8, 100).to(device), num_beams=3, max_new_tokens=6)


def set_prediction(device):
    """DETR: boxes are matched with targets on the host."""
    import transformers

    config = transformers.DeformableDetrConfig(
        use_timm_backbone=False, use_pretrained_backbone=False, d_model=32, encoder_layers=1, decoder_layers=2,
        encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=32, decoder_ffn_dim=32, num_queries=10,
        backbone_config=transformers.ResNetConfig(
            embedding_size=8, hidden_sizes=[8, 16, 32, 32], depths=[1, 1, 1, 1], layer_type="basic",
            out_features=["stage2", "stage3", "stage4"],
        ),
    )  # fmt: skip
    model = transformers.DeformableDetrForObjectDetection(config).to(device)
    labels = [
        {"class_labels": torch.tensor([1, 0]), "boxes": torch.tensor([[0.5, 0.5, 0.2, 0.2], [0.3, 0.3, 0.1, 0.4]])}
    ]
    labels = [{name: value.to(device) for name, value in labels[0].items()}]
    step(model(torch.stack(images(device, 1)), labels=labels).loss, model)


def masks_of_queries(device):
    """Mask2Former: deformable attention, and masks that are matched with targets on the host."""
    import transformers

    config = transformers.Mask2FormerConfig(
        backbone_config=transformers.SwinConfig(
            image_size=128, embed_dim=16, depths=[1, 1, 1, 1], num_heads=[1, 1, 2, 2], window_size=4,
            out_features=["stage1", "stage2", "stage3", "stage4"],
        ),
        feature_size=32, mask_feature_size=32, hidden_dim=32, encoder_feedforward_dim=32, encoder_layers=1,
        decoder_layers=2, num_attention_heads=4, dim_feedforward=32, num_queries=10, train_num_points=100,
    )  # fmt: skip
    model = transformers.Mask2FormerForUniversalSegmentation(config).to(device)
    masks, labels = boxes(device, 1)[0]["masks"].float(), torch.tensor([1, 2, 1]).to(device)
    step(model(torch.stack(images(device, 1)), mask_labels=[masks], class_labels=[labels]).loss, model)


def yolo(device):
    from ultralytics.cfg import get_cfg
    from ultralytics.nn.tasks import DetectionModel

    model = DetectionModel("yolov8n.yaml", nc=3, verbose=False).to(device)
    model.args = get_cfg()
    targets = {"batch_idx": torch.tensor([0.0, 0.0, 1.0]), "cls": torch.tensor([[0.0], [2.0], [1.0]])}
    targets["bboxes"] = torch.tensor([[0.5, 0.5, 0.4, 0.4], [0.3, 0.3, 0.2, 0.4], [0.6, 0.4, 0.5, 0.3]])
    targets = {name: value.to(device) for name, value in targets.items()}
    loss, _ = model({"img": torch.stack(images(device)), **targets})
    step(loss.sum(), model, torch.optim.SGD)


def assigned(device, inside):
    """The assigner of a detector on dense images: anchors in boxes, the best of them, and a loss of those.

    https://github.com/ultralytics/ultralytics/pull/25240 writes the mask of the anchors in another way.
    """
    places = [
        torch.stack(torch.meshgrid(side, side, indexing="ij"), -1).view(-1, 2)
        for side in map(torch.arange, (80, 40, 20))
    ]
    anchors = torch.cat([(place + 0.5) * 640 / int(len(place) ** 0.5) for place in places]).to(device)
    low = torch.rand(4, 100, 1, 2, device=device) * 600
    scores = torch.rand(4, 100, len(anchors), device=device, requires_grad=True)
    mask = inside(torch.cat((anchors - low, low + 8 + torch.rand_like(low) * 32 - anchors), -1))
    chosen = torch.zeros_like(mask).scatter_(-1, (scores.detach() * mask).topk(10, dim=-1).indices, True) & mask
    foreground = chosen.any(1)
    owners = torch.where(chosen.sum(1) > 1, scores.argmax(1), chosen.long().argmax(1))[foreground]
    functional.one_hot(owners, 100).float().mul(scores.transpose(1, 2)[foreground]).sum().backward()


def assigner_by_minimum(device):
    assigned(device, lambda deltas: deltas.amin(-1) > 1e-9)


def assigner_by_all(device):
    assigned(device, lambda deltas: (deltas > 1e-9).all(-1))


def assigner_by_count(device):
    assigned(device, lambda deltas: (deltas > 1e-9).sum(-1) == 4)


def sentences(device):
    import pathlib
    import tempfile

    import sentence_transformers
    import transformers

    with tempfile.TemporaryDirectory() as folder:
        words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "one", "two", "three"]
        pathlib.Path(folder, "vocab.txt").write_text("\n".join(words))
        config = transformers.BertConfig(
            vocab_size=8, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64
        )
        transformers.BertModel(config).save_pretrained(folder)
        transformers.BertTokenizer(vocab=str(pathlib.Path(folder, "vocab.txt"))).save_pretrained(folder)
        model = sentence_transformers.SentenceTransformer(folder, device=device)
        found = model.encode(["one two three", "two", "three one"], convert_to_tensor=True)
        sentence_transformers.util.semantic_search(found, found, top_k=2)


def experts(device):
    """Megatron's layer of experts without capacity: each gets the tokens that the router gives it."""
    from megatron.core import parallel_state
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
    from megatron.core.tensor_parallel.random import model_parallel_cuda_manual_seed
    from megatron.core.transformer.moe import moe_layer, moe_utils
    from megatron.core.transformer.transformer_config import TransformerConfig

    torch._dynamo.config.disable = True
    moe_utils.te_general_gemm = None  # It is not defined without Transformer Engine.
    torch.distributed.init_process_group(
        "gloo" if device == "cpu" else "nccl", rank=0, world_size=1, store=torch.distributed.HashStore()
    )
    parallel_state.initialize_model_parallel()
    model_parallel_cuda_manual_seed(1)
    if device == "cpu":
        torch.cuda.current_device = lambda: "cpu"
    config = TransformerConfig(
        num_layers=1, hidden_size=16, num_attention_heads=2, ffn_hidden_size=32, num_moe_experts=4, moe_router_topk=2,
        moe_token_dispatcher_type="allgather", add_bias_linear=False, use_cpu_initialization=True,
        gradient_accumulation_fusion=False, moe_aux_loss_coeff=0.01,
    )  # fmt: skip
    parts = get_gpt_layer_local_spec(num_experts=4).submodules.mlp.submodules
    layer = moe_layer.MoELayer(config, parts).to(device)
    hidden, _ = layer(torch.rand(6, 2, 16).to(device).requires_grad_())
    step(hidden.sum(), layer)
    torch.distributed.destroy_process_group()


def text_with_end(device):
    from x_transformers import AutoregressiveWrapper, Decoder, TransformerWrapper

    layers = Decoder(dim=32, depth=2, heads=4)
    model = AutoregressiveWrapper(TransformerWrapper(num_tokens=256, max_seq_len=64, attn_layers=layers)).to(device)
    model.generate(torch.tensor([[1, 5, 6]]).to(device), 20, eos_token=0)


PROGRAMS = """
    mnist word_language_model autoencoder actor_critic sequence_with_lbfgs encoder_with_padding packed_sequences
    connectionist_loss resnet segmentation vision_transformer mask_rcnn faster_rcnn faster_rcnn_inference
    retinanet fcos ssd set_prediction graph_convolution graph_attention graph_pooling graphs_as_dense solver
    solver_of_known_function language_model masked_language_model mixture mixture_of_qwen greedy_generation
    generation_with_beams generation_by_chance generation_with_static_cache translation speech text_with_end
    masks_of_queries yolo sentences experts state_space_model denoising
    assigner_by_minimum assigner_by_all assigner_by_count
"""
# Programs of crates/simulate/tests/torch/decisions.py, whose sizes follow from values: they run with `--compute all`.
DECISIONS = """
    assigner suppression router beams replay lengths early_exit dropout process graphs codebook
"""


def run(name, device):
    """Runs a program to its end."""
    if name not in DECISIONS.split():
        return globals()[name](device)
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "torch"))
    import decisions

    return list(getattr(decisions, name)(device))
