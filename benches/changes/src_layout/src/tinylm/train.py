import torch
from torch.nn import functional as F
from . import config
from .model import Model


def build():
    torch.manual_seed(0)
    model = Model().cuda()
    return model, torch.optim.AdamW(model.parameters(), lr=config.RATE)


def batch():
    return torch.randint(config.VOCABULARY, (config.BATCH, config.LENGTH), device="cuda")


def train_step(model, optimizer):
    model.train()
    tokens = batch()
    loss = F.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss.detach()


def evaluate(model, optimizer):
    model.eval()
    tokens = batch()
    with torch.no_grad():
        loss = F.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
    return loss


def generate(model, optimizer):
    model.eval()
    tokens = batch()[:, :16]
    with torch.no_grad():
        for _ in range(16):
            logits = model(tokens)
            tokens = torch.cat([tokens, logits[:, -1:].argmax(-1)], dim=1)
    return tokens
