"""Whole numbers as programs keep them on a device: sizes, positions, masks, indices."""

import importlib
import importlib.util
import os
import sys

import torch
from torch.nn import functional


def sizes_and_positions(device):
    """Whole numbers as programs keep them on a device, each computed by kernels of another kind."""
    count = torch.arange(7, device=device)
    grid = torch.arange(6, device=device).view(2, 3)
    lengths = torch.zeros(3, dtype=torch.long, device=device)
    for index in range(3):
        lengths[index] = 4 + index
    spread = torch.zeros(6, dtype=torch.int32, device=device)
    spread[0:5:2] = 9
    padding = torch.arange(6, device=device) >= lengths[:, None]
    chosen = torch.zeros(7, dtype=torch.long, device=device)
    chosen[grid[:, 1]] = lengths[:2]
    return {
        "full": torch.full((3,), 7, device=device),
        "fraction": torch.full((3,), 7.5, device=device),
        "conditions": torch.ones(300, dtype=torch.bool, device=device),
        "range": torch.arange(10, -5, -4, dtype=torch.int32, device=device),
        "next": count[-1:] + 1,
        "sum": count + count * 2,
        "difference": 7 - count,
        "negative": torch.add(count, count, alpha=-3),
        "product": count * count,
        "overflow": torch.full((5,), 200, dtype=torch.uint8, device=device) + 100,
        "spread": spread,
        "equal": count == 2,
        "unequal": count != torch.full((), 3, device=device),
        "fractions": torch.full((3,), 2.5, device=device) == torch.full((), 2.5, device=device),
        "greater": torch.arange(-3, 3, device=device) > -1,
        "not_less": count >= torch.full((7,), 3, device=device),
        "both": (count > 1) & (count <= 4),
        "neither": ~((count > 1) | (count < 1)),
        "not": torch.logical_not(count),
        "causal": grid[0] > grid[0][:, None],
        "narrow": torch.arange(-5, 5, device=device).to(torch.int8),
        "wide": (count > 3).long(),
        "transposed": grid.t().contiguous(),
        "repeated": grid[0].expand(2, 3).contiguous(),
        "largest": lengths.max(),
        "smallest": lengths.min(),
        "total": grid.sum(1),
        "columns": grid.transpose(0, 1).sum(1),
        "numbers": torch.arange(5000, device=device).sum(),
        "all": (grid > 2).all(1),
        "any": (grid > 3).any(),
        "places": (grid > 2).nonzero(as_tuple=False)[:, :0],
        "many_places": (torch.arange(20_000, device=device) % 7 == 0).nonzero(as_tuple=False)[-3:].contiguous(),
        "many_lengths": (torch.arange(4096, device=device) < lengths[:, None] * 500).long().sum(-1),
        "where": torch.where(count == 4)[0][0],
        "wide_fraction": grid.t().float(),
        "mixed": grid == grid.float(),
        "lengths": padding.logical_not().sum(-1),
        "first_of_padding": padding.long().argmax(-1),
        "least": grid.argmin(1),
        "largest_of_rows": torch.cat([part.long() for part in grid.max(1)]),
        "smallest_of_columns": torch.stack([part.long() for part in grid.int().min(0)]),
        "borders": functional.pad(lengths.cumsum(0), (1, 0)),
        "sums_of_rows": grid.cumsum(1),
        "sums_of_columns": grid.cumsum(0),
        "positions": (padding.logical_not().cumsum(-1) - 1).masked_fill(padding, 1),
        "chosen_by_condition": torch.where(padding, 7, grid.flatten()),
        "limited": count.clamp(2, 4),
        "quotient": (count - 3) // 2,
        "rest": (count - 3) % 3,
        "larger": torch.maximum(count, 6 - count),
        "either": torch.logical_or(count == 1, count == 5),
        "exclusive": torch.logical_xor(count > 1, count > 4),
        "opposite": -count,
        "distance": (count - 3).abs(),
        "inverse": ~count,
        "bits": count & 5,
        "next_to_each_other": torch.cat([grid, grid + 1, grid[:, :1]], 1),
        "pieces": torch.cat([torch.arange(8, device=device), torch.arange(4, device=device)]),
        "conditions_next_to_each_other": torch.cat([padding, padding[:, :1]], 1),
        "columns_next_to_each_other": torch.cat([grid.t(), grid.t()], 1),
        "by_index": count[lengths],
        "by_indices": grid[torch.arange(2, device=device), -lengths[:2] + 3],
        "by_condition": count[count > 3],
        "set_by_index": chosen,
        "columns_by_index": grid.index_select(1, lengths[:1] - 3),
        "rows_by_index": torch.arange(40, device=device).view(4, 10)[lengths - 4],
        "gathered": grid.gather(1, grid[:, :2] % 3),
        "repeated_as_told": torch.repeat_interleave(lengths, lengths - 4),
        "places_of_padding": padding.nonzero(as_tuple=False),
        **chosen_and_counted(device),
    }


def chosen_and_counted(device):
    """Whole numbers as samplers, detectors, graphs and routers of experts compute them."""
    classes = torch.tensor([3, 1, 3, 0, 7, 1, 3], device=device)
    distinct, inverse, counts = classes.unique(return_inverse=True, return_counts=True)
    edges = torch.tensor([[0, 2, 2, 4], [1, 0, 3, 4]], device=device)
    degrees = torch.zeros(5, dtype=torch.long, device=device).scatter_add_(0, edges[1], torch.ones_like(edges[1]))
    sums = torch.zeros(5, dtype=torch.int32, device=device).index_add_(
        0, edges[0], torch.arange(4, device=device).int()
    )
    borders = torch.tensor([0, 2, 5], device=device)
    ordered, places = torch.tensor([5, 1, 4, 2], device=device).sort(descending=True)
    best, chosen = torch.tensor([[5, 1, 4, 2], [0, 9, 3, 8]], device=device).topk(2)
    return {
        "distinct": distinct,
        "inverse_of_distinct": inverse,
        "counts_of_distinct": counts,
        "distinct_rows": edges.t().unique(dim=0),
        "runs": torch.cat(torch.unique_consecutive(classes.sort()[0], return_counts=True)),
        "degrees": degrees,
        "sums_by_index": sums,
        "bins": classes.bincount(minlength=4),
        "bucket": torch.bucketize(classes, borders),
        "place_in_order": torch.searchsorted(borders, classes, right=True),
        "one_hot": functional.one_hot(classes),
        "experts": functional.one_hot(chosen, 4).sum((0, 1)),
        "flipped": edges.flip(1),
        "rolled": classes.roll(2),
        "below_diagonal": torch.tril(torch.ones(3, 3, dtype=torch.long, device=device)),
        "places_below_diagonal": torch.tril_indices(3, 3, device=device),
        "places_above_diagonal": torch.triu_indices(3, 4, 1, device=device),
        "areas": torch.tensor([[4, 6], [2, 3]], device=device).prod(1),
        "ordered": torch.cat([ordered, places, classes.argsort(stable=True)]),
        "best": torch.cat([best, chosen]),
        "masked": classes.masked_select(classes > 2),
        "among": torch.isin(classes, borders),
        "highest_so_far": classes.cummax(0)[0],
        "powers": classes**2,
        "powers_of_a_number": 2**classes,
        "among_many": torch.isin(classes, torch.arange(2, 60, device=device)),
        "number_among": torch.isin(3, classes),
        "distinct_in_any_order": classes.unique(sorted=False).sort()[0],
        "common_divisors": torch.gcd(classes, classes.flip(0)),
    }


def sparse(device):
    """Elements of sparse tensors, which are counted where several are in one place."""
    places = torch.tensor([[3, 1, 3, 0, 1, 1, 3], [0, 2, 0, 1, 2, 0, 4]], device=device)
    numbers = torch.arange(7, device=device)
    matrix = torch.sparse_coo_tensor(places, numbers, (4, 5))
    rows = torch.sparse_coo_tensor(places[:1], numbers[:, None].expand(7, 3).contiguous(), (4, 3)).coalesce()
    whole = matrix.coalesce()
    compressed = matrix.float().to_sparse_csr()
    return {
        "elements": torch.cat([whole.indices(), whole.values()[None]]),
        "rows": torch.cat([rows.indices().t(), rows.values()], 1),
        "sums_of_rows": torch.sparse.sum(matrix, 1).indices(),
        "dense": matrix.to_dense(),
        "sums": (matrix + matrix).coalesce().values(),
        "compressed": torch.cat([compressed.crow_indices(), compressed.col_indices()]),
        "decompressed": compressed.to_sparse().indices(),
    }


def boxes(device):
    """Boxes that do not overlap others of a higher score, by an operator that selects them by a mask of its own."""
    if importlib.util.find_spec("torchvision") is None:
        sys.path.append(os.path.join(os.path.dirname(__file__), "stand_ins"))
    importlib.import_module("torchvision.extension")
    corners = [[0, 0, 10, 10], [1, 1, 11, 11], [20, 20, 30, 30], [0, 0, 10, 9], [50, 50, 60, 70]]
    scores = torch.tensor([0.9, 0.8, 0.7, 0.95, 0.1]).to(device)
    kept = torch.ops.torchvision.nms(torch.tensor(corners, dtype=torch.float32).to(device), scores, 0.5)
    return {"kept_boxes": kept, "numbered_boxes": torch.arange(len(kept), device=device)}


def fractions(device):
    """Numbers that are not whole, as solvers, samplers and poolings work with them: each is rounded once."""
    results = {}
    kinds = [torch.float32, torch.float64, torch.bfloat16]
    if tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 2):
        kinds.append(torch.float16)  # Earlier hosts cannot compute with it.
    for kind in kinds:
        rates = torch.tensor([1e-3, 0.7, 2.5, -1.5, 3.0], dtype=kind).to(device)
        sizes = torch.tensor([7, 60, 3, 4, 1], device=device)
        results |= {
            f"{kind} {name}": result
            for name, result in {
                "scaled": rates * 128,
                "halved": rates / 4,
                "sum": rates + rates.flip(0),
                "difference": 1 - rates,
                "product": rates * rates,
                "smaller": rates < 1,
                "larger_of_both": torch.maximum(rates, rates.roll(1)),
                "limited": rates.clamp(0, 1),
                "up": rates.ceil(),
                "down": rates.floor(),
                "cut": rates.to(torch.long),
                "nearest": rates.round(),
                "positions": torch.arange(3, 9, 2, dtype=kind, device=device),
                "kept": (sizes.to(kind) * rates[1]).ceil().to(torch.long),
                "other_type": rates.float().to(torch.bfloat16).double(),
                "ordered": rates.sort()[0],
                "largest": rates.max(),
            }.items()
        }
    rate = torch.tensor(1e-6).to(device)
    step = torch.tensor(0.0).to(device)
    step += 1
    results |= {"rate": rate * 100, "root": rate.sqrt(), "squared": rate**2, "step": step, "parts": step / rate}
    return results
