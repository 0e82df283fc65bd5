"""Values that are not known are finite, and their masks obey logic, at sizes around every limit of what is computed."""

import torch

# Around the numbers of elements that are computed one by one, of bytes that are kept, and of elements that repeat.
SIZES = (1, 1000, 1001, 4097, 131_073, 262_144, 262_145, (1 << 20) + 1)


def none_of(mask):
    """False for all elements, in every way that a program asks."""
    size, numbers = mask.numel(), mask.float()
    return (
        not mask.any(),
        bool((~mask).all()),
        not (mask | mask).any(),
        not (mask & mask.logical_not()).any(),
        int(mask.sum()) == 0,
        int((~mask).sum()) == size,
        int(mask.count_nonzero()) == 0,
        float(numbers.mean()) == 0.0,
        float((1 - numbers).sum()) == size,
        len(mask.nonzero()) == 0,
        len(mask[~mask]) == size,
        not mask.view(1, -1).any(1)[0],
        int(mask.view(1, -1).sum(1)[0]) == 0,
    )


def some_of(mask, part):
    """True for a part of all elements, in every way that a program asks, within one element of a thousand."""
    size = mask.numel()
    counts = (
        int(mask.sum()),
        size - int((~mask).sum()),
        int(mask.count_nonzero()),
        len(mask.nonzero()),
        len(mask[mask]),
        round(float(mask.float().mean()) * size),
        int((mask | ~(mask | mask)).sum()) - size + int(mask.sum()),
    )
    return *(count == counts[0] for count in counts), abs(counts[0] - part * size) <= 1 + size / 1000


def unknown_values():
    """Numbers of the answers that are wrong, by size and question."""
    wrong = []
    for size in SIZES:
        matrix = torch.empty(size, 1, device="cuda") @ torch.empty(1, 1, device="cuda")
        for name, values in (
            ("made", matrix.view(-1)),
            ("normal", torch.randn(size, device="cuda", dtype=torch.bfloat16)),
        ):
            questions = {
                "infinite": values.isinf(),
                "endless": values.isposinf() | values.isneginf(),
                "not finite": ~values.isfinite(),
                "not a number": values.isnan() | (values != values),
            }
            for question, mask in questions.items():
                wrong += [(size, name, question, at) for at, right in enumerate(none_of(mask)) if not right]
            wrong += [(size, name, "positive", at) for at, right in enumerate(some_of(values > 0, 0.5)) if not right]
            wrong += [] if (values > 0).all() else [(size, name, "checked")]
        draws = torch.rand(size, device="cuda")
        for part in (0.1, 0.15, 0.75):
            masks = draws < part, ~(draws >= part), torch.full_like(draws, part).bernoulli().bool()
            for kind, mask in enumerate(masks):
                wrong += [(size, part, kind, at) for at, right in enumerate(some_of(mask, part)) if not right]
    assert not wrong, wrong
