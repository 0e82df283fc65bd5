"""Training, evaluation and generation."""

import torch
import torch.nn.functional as F

from .config import load
from .model import TextLM


def build(path="configs/train.yaml"):
    config = load(path)
    model = TextLM(config).cuda()
    return model, torch.optim.AdamW(model.parameters(), lr=config.rate)


def batch_of(config):
    return torch.randint(config.vocabulary, (config.batch, config.context), device="cuda")


def loss_of(logits, tokens):
    return F.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())


def train_step(model, optimizer):
    model.train()
    tokens = batch_of(model.config)
    out = model(tokens)
    loss = loss_of(out, tokens)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss.detach()


@torch.no_grad()
def evaluate(model, optimizer, batches=3):
    model.eval()
    total = 0.0
    for _ in range(batches):
        tokens = batch_of(model.config)
        logits = model(tokens)
        total += loss_of(logits, tokens).item()
        del logits
    return total / batches


@torch.inference_mode()
def generate(model, optimizer, keep_logits=False):
    model.eval()
    tokens = batch_of(model.config)[:, :128]
    kept = []
    for _ in range(model.config.tokens):
        logits = model(tokens)
        if keep_logits:
            kept.append(logits)
        tokens = torch.cat([tokens, logits[:, -1:].argmax(-1)], dim=1)
    return tokens, kept
