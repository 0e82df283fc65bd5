"""Eleven programs whose sizes follow from values, each a function of the device.

    decisions.py [NAME...]

Each yields the sizes that it came to. They must be those of the same program on the CPU, to the element.
"""

import sys

import torch
from torch import nn
from torch.nn import functional


def assigner(device):
    """Anchors of a detector's assigner: those inside of each box, the best of them, and what is left to train on."""
    anchors = (torch.stack(torch.meshgrid(torch.arange(40), torch.arange(40), indexing="ij"), -1).view(-1, 2) * 8.0).to(
        device
    )
    low = torch.rand(12, 1, 2, device=device) * 200
    high = low + 20 + torch.rand(12, 1, 2, device=device) * 80
    inside = torch.cat((anchors - low, high - anchors), -1).amin(-1) > 0
    scores = nn.Linear(2, 12, device=device)(anchors / 320).sigmoid().t() * inside
    best = scores.topk(10, dim=-1).indices
    chosen = torch.zeros_like(inside).scatter_(1, best, 1).bool() & inside
    yield inside.nonzero().shape[0]
    several = chosen.sum(0) > 1
    yield int(several.sum())
    owner = torch.where(several, scores.argmax(0), chosen.int().argmax(0))
    foreground = chosen.any(0)
    yield owner[foreground].shape[0]
    loss = functional.binary_cross_entropy(scores.t()[foreground], functional.one_hot(owner[foreground], 12).float())
    loss.backward()
    yield scores[chosen].numel()


def suppression(device):
    """Non-maximum suppression, one box after the other."""
    corner = torch.rand(120, 2, device=device) * 100
    boxes = torch.cat((corner, corner + 5 + torch.rand(120, 2, device=device) * 40), 1)
    hidden = nn.Linear(4, 16, device=device)(boxes).relu()
    scores = nn.Linear(16, 1, device=device)(hidden).flatten().sigmoid()
    left = scores.argsort(descending=True)
    kept = []
    while left.numel():
        first, left = left[0], left[1:]
        kept.append(first)
        low = torch.maximum(boxes[first, :2], boxes[left, :2])
        overlap = (torch.minimum(boxes[first, 2:], boxes[left, 2:]) - low).clamp(min=0).prod(-1)
        areas = (boxes[:, 2:] - boxes[:, :2]).prod(-1)
        left = left[overlap / (areas[first] + areas[left] - overlap) < 0.3]
        yield left.numel()
    yield torch.stack(kept).numel()


def router(device):
    """A mixture of experts without capacity: each expert takes the tokens that chose it."""
    tokens = torch.randn(256, 32, device=device)
    gate, experts = nn.Linear(32, 8, device=device), [nn.Linear(32, 32, device=device) for _ in range(8)]
    weights, chosen = gate(tokens).softmax(-1).topk(2)
    result = torch.zeros_like(tokens)
    for index, expert in enumerate(experts):
        rows, place = torch.where(chosen == index)
        yield rows.numel()
        result.index_add_(0, rows, expert(tokens[rows]) * weights[rows, place, None])
    yield (result.norm(dim=-1) > result.norm(dim=-1).mean()).nonzero().numel()


def beams(device):
    """Search with beams, which end at an end token."""
    embed, cell = nn.Embedding(20, 24, device=device), nn.GRUCell(24, 24, device=device)
    head = nn.Linear(24, 20, device=device)
    tokens, states = torch.zeros(1, 1, dtype=torch.long, device=device), torch.zeros(1, 24, device=device)
    scores = torch.zeros(1, device=device)
    ended = []
    for _ in range(12):
        states = cell(embed(tokens[:, -1]), states)
        total = scores[:, None] + head(states * 3).log_softmax(-1)
        scores, best = total.flatten().topk(min(4, total.numel()))
        tokens = torch.cat((tokens[best // 20], best[:, None] % 20), 1)
        states = states[best // 20]
        done = (tokens[:, -1] == 7) | (scores < -30)
        ended += list(tokens[done])
        tokens, states, scores = tokens[~done], states[~done], scores[~done]
        yield tokens.numel()
        if not tokens.numel():
            break
    yield len(ended)


def replay(device):
    """A replay buffer with priorities: what was sampled often enough is dropped."""
    observations, priorities = torch.randn(200, 8, device=device), torch.ones(200, device=device)
    model = nn.Linear(8, 1, device=device)
    seen = torch.zeros(200, dtype=torch.long, device=device)
    for _ in range(6):
        picked = torch.multinomial(priorities, 64, replacement=True)
        errors = model(observations[picked]).flatten().detach().abs()
        priorities[picked] = errors + 0.01
        seen += torch.bincount(picked, minlength=len(seen))
        left = seen < 3
        yield picked.unique().numel()
        observations, priorities, seen = observations[left], priorities[left], seen[left]
        yield observations.numel()


def lengths(device):
    """Sentences sorted by length, in batches as long as their longest."""
    words = torch.randint(0, 50, (32, 40), device=device)
    size = (words.cumsum(1) < 500).sum(1)
    size, places = size.sort(descending=True)
    embed = nn.Embedding(50, 16, device=device)
    for part, lengths_of_part in zip(places.split(8), size.split(8)):
        batch = words[part, : int(lengths_of_part.max())]
        packed = nn.utils.rnn.pack_padded_sequence(embed(batch), lengths_of_part.cpu(), batch_first=True)
        yield packed.data.numel()


def early_exit(device):
    """Layers that only unsure examples go on to."""
    x = torch.randn(128, 16, device=device)
    for _ in range(6):
        layer, head = nn.Linear(16, 16, device=device), nn.Linear(16, 4, device=device)
        x = x + functional.gelu(layer(functional.layer_norm(x, (16,))))
        sure = (head(x) * 2).softmax(-1).max(-1).values > 0.7
        x = x[~sure]
        yield x.numel()
        if sure.float().mean() > 0.9:
            break


def dropout(device):
    """Masks of dropout: rows that keep anything, and a batch without those that were dropped."""
    x = torch.ones(300, 12, device=device)
    dropped = functional.dropout(x, 0.8)
    yield (dropped != 0).nonzero().shape[0]
    rows = dropped[(dropped > 0).any(-1)]
    yield rows.numel()
    noise = torch.rand(rows.shape[0], device=device)
    yield rows[noise > 0.25].numel()
    yield rows[torch.bernoulli(torch.full_like(noise, 0.3)).bool()].numel()
    yield rows[torch.randperm(len(rows), device=device) % 3 == 0].numel()


def process(device):
    """A Gaussian process: conjugate gradients until they converge, and the points that remain uncertain."""
    points = torch.rand(60, 2, device=device)
    kernel = (-((points[:, None] - points[None]) ** 2).sum(-1) * 8).exp() + 0.05 * torch.eye(60, device=device)
    values = points.sin().sum(-1)
    solution, residual = torch.zeros_like(values), values.clone()
    direction, steps = residual.clone(), 0
    while residual.norm() > 1e-3 * values.norm() and steps < 200:
        product = kernel @ direction
        step = residual.dot(residual) / direction.dot(product)
        solution, after = solution + step * direction, residual - step * product
        direction = after + direction * after.dot(after) / residual.dot(residual)
        residual, steps = after, steps + 1
    yield steps
    factor = torch.linalg.cholesky(kernel)
    variance = 1.05 - (torch.linalg.solve_triangular(factor, kernel, upper=False) ** 2).sum(0)
    yield points[variance > variance.median()].numel()


def graphs(device):
    """Graphs that are coarsened: edges between clusters, each once."""
    edges = torch.randint(0, 90, (2, 400), device=device)
    features = torch.randn(90, 8, device=device)
    for _ in range(3):
        source, target = edges
        sums = torch.zeros_like(features).index_add_(0, target, features[source])
        cluster = (nn.Linear(8, len(features) // 3 + 1, device=device)(sums)).argmax(-1)
        found, cluster = cluster.unique(return_inverse=True)
        yield found.numel()
        edges = cluster[edges]
        edges = edges[:, edges[0] != edges[1]].unique(dim=1)
        yield edges.numel()
        features = torch.zeros(len(found), 8, device=device).index_add_(0, cluster, features)


def codebook(device):
    """Pictures as codes, over training steps of convolutions: rarely used codes are reset."""
    encoder = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1, device=device),
        nn.BatchNorm2d(8, device=device),
        nn.GELU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 8, 3, padding=1, device=device),
    )
    decoder = nn.Sequential(nn.Upsample(scale_factor=2), nn.ConvTranspose2d(8, 1, 3, padding=1, device=device))
    codes = nn.Parameter(torch.randn(64, 8, device=device))
    # As on the CPU, one parameter after another.
    optimizer = torch.optim.AdamW([*encoder.parameters(), *decoder.parameters(), codes], lr=1e-2, foreach=False)
    for _ in range(4):
        pictures = torch.randn(8, 1, 12, 12, device=device)
        points = encoder(pictures).movedim(1, -1)
        nearest = torch.cdist(points.flatten(0, -2), codes).argmin(-1)
        found = codes[nearest].view_as(points)
        quantized = points + (found - points).detach()
        loss = functional.mse_loss(decoder(quantized.movedim(-1, 1)), pictures) + functional.mse_loss(found, points)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        yield nearest.unique().numel()
        rare = torch.bincount(nearest, minlength=len(codes)) < 2
        yield codes[rare].numel()
        with torch.no_grad():
            codes[rare] = points.flatten(0, -2)[: int(rare.sum())]


PROGRAMS = (assigner, suppression, router, beams, replay, lengths, early_exit, dropout, process, graphs, codebook)


def sizes_on(program, device):
    torch.manual_seed(3)
    return list(program(device))


def differences(names=()):
    """The programs whose sizes are not those of the CPU."""
    programs = [program for program in PROGRAMS if not names or program.__name__ in names]
    sizes = {program.__name__: [sizes_on(program, device) for device in ("cpu", "cuda")] for program in programs}
    return {name: found for name, found in sizes.items() if found[0] != found[1]}


if __name__ == "__main__":
    wrong = differences(sys.argv[1:])
    for name, (host, device) in wrong.items():
        print(name, host, device, sep="\n  ")
    sys.exit(bool(wrong))
