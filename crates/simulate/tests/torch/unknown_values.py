"""Values that are not known are finite, and a mask of them is true for the share, however it is written."""

import os
import random

import torch

# The share of elements that pass.
KEPT = int(os.environ.get("KEPT", "50")) / 100
# Around the numbers of elements of which a mask has values, and counts differ by type.
SIZES = (1, 2, 1001, 4097, (1 << 20) + 1, 3_000_001)
COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")
WIDTH = 4


def unknown(*shape):
    """Numbers that nothing has written."""
    return torch.empty(*shape, device="cuda")


# Masks of rows of unknown numbers, by what compares a tensor with a bound.
MASKS = {
    "first": lambda compare, rows: compare(rows[:, 0]),
    "all": lambda compare, rows: compare(rows).all(-1),
    "any": lambda compare, rows: compare(rows).any(-1),
    "least": lambda compare, rows: compare(rows.amin(-1)),
    "largest": lambda compare, rows: compare(rows.amax(-1)),
    "count": lambda compare, rows: compare(rows).sum(-1) == WIDTH,
    "nonzero": lambda compare, rows: compare(rows).count_nonzero(-1) > 0,
    "whole": lambda compare, rows: compare(rows).long().sum(-1).bool(),
    "mean": lambda compare, rows: compare(rows).float().mean(-1) > 0.5,
    "positive": lambda compare, rows: compare(rows.relu()[:, 0]),
    "norm": lambda compare, rows: compare(rows.abs().sum(-1)),
}
# What is done with a mask, which is still one of values that are not known.
LOGIC = {
    "not": lambda mask, rows: ~mask,
    "logical not": lambda mask, rows: mask.logical_not(),
    "and": lambda mask, rows: mask & (rows[:, 1] > 0),
    "or": lambda mask, rows: mask | (rows[:, 1] <= 0),
    "both": lambda mask, rows: torch.logical_and(mask, mask),
}
# How a program counts what passes.
COUNTS = {
    "places": lambda mask: len(mask.nonzero()),
    "chosen": lambda mask: len(unknown(len(mask))[mask]),
    "where": lambda mask: len(torch.where(mask)[0]),
    "sum": lambda mask: int(mask.sum()),
    "count": lambda mask: int(mask.count_nonzero()),
}
# How a program writes numbers to some elements of a tensor.
PARTS = {
    "scatter": lambda values, places, numbers: values.scatter(0, places, numbers),
    "scatter_": lambda values, places, numbers: values.scatter_(0, places, numbers),
    "scatter_add": lambda values, places, numbers: values.scatter_add(0, places, numbers),
    "scatter_reduce": lambda values, places, numbers: values.scatter_reduce(0, places, numbers, "amax"),
    "index_put": lambda values, places, numbers: values.index_put((places,), numbers),
    "index_put_": lambda values, places, numbers: values.index_put_((places,), numbers),
    "index_copy": lambda values, places, numbers: values.index_copy(0, places, numbers),
    "index_add": lambda values, places, numbers: values.index_add(0, places, numbers),
    "masked_scatter": lambda values, places, numbers: values.masked_scatter(places % 2 == 0, numbers),
}


def wrong_parts():
    """Known tensors of which some elements were overwritten with unknown numbers, and that still count as known."""
    wrong = []
    for size in SIZES[1:]:
        for name, write in PARTS.items():
            places = torch.arange(size, device="cuda")
            found = len((write(torch.zeros(size, device="cuda"), places, unknown(size)) > 0).nonzero())
            wrong += [] if found == int(size * KEPT) else [(size, name, found)]
    return wrong


def wrong_shares(seed, expressions=150):
    """Expressions whose count is not the share."""
    choices, wrong = random.Random(seed), []
    for _ in range(expressions):
        size, bound = choices.choice(SIZES[1:]), choices.choice((-1, 0, 0.5, 2))
        rows, name = unknown(size, WIDTH), choices.choice(COMPARISONS)
        text, count = [name, choices.choice(list(MASKS))], choices.choice(list(COUNTS))
        mask = MASKS[text[1]](lambda values, name=name, bound=bound: getattr(torch, name)(values, bound), rows)
        for _ in range(choices.randrange(3)):
            text.append(choices.choice(list(LOGIC)))
            mask = LOGIC[text[-1]](mask, rows)
        found = COUNTS[count](mask)
        wrong += [] if found == int(size * KEPT) else [(size, bound, text, count, found)]
    return wrong


def none_of(mask):
    """False for all elements, in every way that a program asks."""
    size = mask.numel()
    return (
        not mask.any(),
        bool((~mask).all()),
        not (mask | mask).any(),
        not (mask & mask.logical_not()).any(),
        int(mask.sum()) == 0,
        int((~mask).sum()) == size,
        int(mask.count_nonzero()) == 0,
        float(mask.float().mean()) == 0.0,
        len(mask.nonzero()) == 0,
        len(mask[~mask]) == size,
        not mask.view(1, -1).any(1)[0],
        int(mask.view(1, -1).sum(1)[0]) == 0,
    )


def wrong_draws():
    """Counts of random numbers that are drawn although they are too many, or are not although they are few."""
    most, wrong = 1 << 24, []
    for count in (most, most + 2):
        above = int((torch.rand(count, device="cuda") > 0.5).sum())
        wrong += [count] if (above != int(count * KEPT)) != (count <= most) else []
    return wrong


def unknown_values():
    """Finite numbers, and shares."""
    wrong = wrong_shares(5) + wrong_draws() + wrong_parts()
    for size in SIZES:
        values = unknown(size)
        questions = {
            "infinite": values.isinf(),
            "endless": values.isposinf() | values.isneginf(),
            "not finite": ~values.isfinite(),
            "not a number": values.isnan() | (values != values),
        }
        for question, mask in questions.items():
            wrong += [(size, question, at) for at, right in enumerate(none_of(mask)) if not right]
        wrong += [] if (values > 0).all() or int(size * KEPT) == 0 else [(size, "checked")]
    assert not wrong, wrong
