"""Training and search."""

from pathlib import Path

import torch
import yaml
from nearby import best

from .cache import Cache
from .loss import contrastive
from .model import Towers

PARTS = 8


def words(config, count):
    return torch.randint(config["rows"], (count, 4), device="cuda")


def note(step, value):
    return lambda: f"step {step}: {float(value.mean()):.3f}"


def train(config, model, steps=3):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    callbacks = []
    total = 0.0
    for step in range(steps):
        queries, documents = model(words(config, config["batch"]), words(config, config["batch"]))
        loss, scores = contrastive(queries, documents, model.negatives)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        with torch.no_grad():
            model.queue = torch.cat([documents.detach(), model.queue])[: config["queue"]]
        total += loss.item()
        callbacks.append(note(step, loss.detach()))
    return total, callbacks


@torch.inference_mode()
def search(config, model, queries=4096, depth=10):
    cache = Cache()
    found = []
    for part in range(PARTS):
        documents = cache.get(part, lambda: model.document(words(config, config["candidates"])))
        wanted = model.query(words(config, queries))
        scores = best(wanted, documents, depth, chunk=config["chunk"])
        found.append(scores.values)
        del scores, wanted
    return torch.stack(found)


def main(path="configs/base.yaml"):
    config = yaml.safe_load(Path(path).read_text())
    model = Towers(config["rows"], config["width"], config["queue"]).cuda()
    train(config, model)
    search(config, model)


if __name__ == "__main__":
    main()
