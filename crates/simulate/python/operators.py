"""Operators of PyTorch whose values are computed, how exactly, and what is supposed where operands are not known.

What is supposed takes the usual course of a program: an equality is false, a check passes, a part of all elements
passes any other condition, and indices are distinct and spread evenly. It is never called known.
"""

import math

from ptmem_simulate_calls import (
    ARITHMETIC,
    CONDITIONS,
    EXACT,
    MOST_ABSENT_FRACTIONS,
    MOST_FRACTIONS,
    ROUNDED,
    Call,
    absent_operands,
    bytes_of,
    computed,
)
from ptmem_simulate_guesses import Guesses
from ptmem_simulate_values import (
    ABSENT,
    CONDITION,
    DOUBTFUL,
    KNOWN,
    LARGEST,
    MOST_ABSENT,
    NUMBER,
    PERIOD,
    SIZE,
    SUPPOSED,
    Engine,
    Repeated,
)


def rule(operator, arguments, named, tensors):
    """Values of an operator that has no rule of its own."""
    call = Call(operator, arguments, named, tensors)
    if call.large:
        return call.by_periods() or call.work()
    fractions = [tensor for tensor in tensors if tensor.is_floating_point()]
    if operator.base not in EXACT and sum(tensor.numel() for tensor in fractions) > MOST_FRACTIONS:
        return call.by_periods() or call.work()
    if call.trust() < ABSENT:
        return computed(call)
    absent = absent_operands(call)
    most = MOST_ABSENT_FRACTIONS if any(tensor.is_floating_point() for tensor in absent) else MOST_ABSENT
    if sum(tensor.numel() for tensor in absent) > most:
        return call.work()
    return computed(call, SUPPOSED)


def condition(operator, arguments, named, tensors):
    """Comparisons and logic: a fixed share of unknown values passes."""
    call = Call(operator, arguments, named, tensors)
    if call.large:
        is_mask = call.plain and (
            operator.base[:4] != "bitw" or all(tensor.dtype == call.torch.bool for tensor in tensors)
        )
        mask = [Repeated(call.passes(PERIOD))] if is_mask else None
        return call.by_periods(hide=is_mask) or call.work(mask)
    for tensor in absent_operands(call):
        if tensor.numel() > 1:
            call.supposed[id(tensor)] = call.hidden(tensor)
    return computed(call, SUPPOSED if call.supposed else None)


def equality(operator, arguments, named, tensors):
    """An unknown value equals only itself and is finite: this is not a guess about the program."""
    call = Call(operator, arguments, named, tensors)
    places = [(tensor.data_ptr(), tensor.shape, tensor.stride()) for tensor in tensors]
    same = len(places) == 2 and places[0] == places[1]
    other = call.value("other", math.inf)
    finite = same or (isinstance(other, float) and not math.isfinite(other))
    if call.large:
        work = call.by_periods()
        if work and not (finite and work.trust == SUPPOSED):
            return work
    elif not absent_operands(call) and not (finite and call.trust() == SUPPOSED):
        return computed(call)
    result = Repeated(call.torch.tensor([same != (operator.base == "ne")]))
    return call.work([result] if call.plain else None, DOUBTFUL if finite else SUPPOSED)


def check(operator, arguments, named, tensors):
    """`all` and `any`: a check of unknown values passes, unless its share is 0."""
    call = Call(operator, arguments, named, tensors)
    (place,) = call.read[:1]
    if call.small and call.trust() < SUPPOSED:
        return computed(call)
    if call.small and call.trust() == SUPPOSED:
        results = call.compute()
        if operator.base == "all":
            # A single element has no others to pass for it.
            some = call.on_host(place, {}).bool().any() | (place.numel() == 1 and call.engine.keep > 0)
            results = [result.logical_or_(some) for result in results]
        return call.work(results)
    values, trust = call.engine.period(place) if call.plain else (None, ABSENT)
    passes = call.torch.tensor([operator.base == "all"])
    if trust < ABSENT:
        known = operator.base == "all" and trust < SUPPOSED
        passes = values.bool().all() if known else values.bool().any()
    return call.work([Repeated(passes.view(1))], min(trust, SUPPOSED))


def total(operator, arguments, named, tensors):
    """Sums, means and counts: of a large tensor by the elements that it repeats."""
    call = Call(operator, arguments, named, tensors)
    place = call.value("self")
    if call.small:
        return computed(call) if call.trust() < ABSENT else rule(operator, arguments, named, tensors)
    values, trust = call.engine.period(place) if call.plain else (None, ABSENT)
    if trust == ABSENT or operator.written:
        return call.work()
    if operator.base == "count_nonzero":
        values = values != 0
    shape = operator.overload(place.to("meta"), *arguments[1:], **named)
    size = place.numel() // max(shape.numel(), 1)
    if values.numel() > 1 and not (place.is_contiguous() and place.shape[: shape.dim()] == shape.shape):
        return call.work()  # Sums of elements that do not lie side by side.
    sums = values.double()[:1] * size
    if values.numel() > 1:
        if shape.numel() * 8 > LARGEST:
            return call.work()
        ends = call.torch.arange(shape.numel() + 1) * size
        sums = summed(values, ends).diff().view(shape.shape)
    if operator.base == "mean":
        sums = sums / size
    sums = sums.to(shape.dtype)
    exact = not shape.is_floating_point() or not sums.any()
    return call.work([sums if sums.shape == shape.shape else Repeated(sums)], trust if exact else SUPPOSED)


def summed(values, ends):
    """Sums of the first elements, of values that repeat."""
    sums = values.double().cumsum(0)
    before = sums - values.double()
    count = len(values)
    return (ends // count) * sums[-1] + before[ends % count]


def spread(torch, rows, count, of, values=None, descending=True):
    """Indices below a number, for each row some, all different and spread evenly over the rows.

    They begin in the middle: the first and last of a vocabulary mean something. Where there are values, they are those
    of the largest or smallest, and only of equal ones those that would come first without values.
    """
    first = of // 2 + torch.arange(rows)[:, None] * count
    if values is None:
        return (first + torch.arange(count)) % max(of, 1)
    places = (first + torch.arange(of)) % max(of, 1)
    # NaN was computed from unknown values.
    ordered = values.double().nan_to_num(0.0).gather(1, places).sort(dim=-1, descending=descending, stable=True)
    return places.gather(1, ordered[1])[:, torch.arange(count) % max(of, 1)]


def order(operator, arguments, named, tensors):
    """Indices of the largest or smallest elements."""
    call = Call(operator, arguments, named, tensors)
    torch, base, place = call.torch, operator.base, call.value("self")
    trust = call.trust() if call.small else ABSENT
    if trust == KNOWN:
        return ordered(call)
    dim = call.value("dim", -1 if base in ("topk", "sort") else None)
    if dim is None and base in ("max", "min"):
        return computed(call) if trust < ABSENT else call.work()  # Of all elements, without an index.
    if not (dim is None or isinstance(dim, int)):
        return call.work()
    shape = [place.numel()] if dim is None or not place.dim() else list(place.shape)
    dim = 0 if len(shape) == 1 else dim % len(shape)
    of = shape[dim]
    count = {"topk": call.value("k"), "sort": of}.get(base, 1)
    others = shape[:dim] + shape[dim + 1 :]
    rows = math.prod(others)
    if rows * count * 8 > LARGEST:
        return call.work()
    values = call.engine.read(place)[0].reshape(shape) if trust < ABSENT else None
    down = call.value("largest", True) if base == "topk" else call.value("descending", base in ("argmax", "max"))
    in_rows = None if values is None else values.movedim(dim, -1).reshape(rows, of)
    indices = spread(torch, rows, count, of, in_rows, down).view(*others, count).movedim(-1, dim)
    keep = base in ("topk", "sort") or call.value("keepdim", False)
    size = [*shape[:dim], *([count] if keep else []), *shape[dim + 1 :]] if place.dim() else []
    largest = None if values is None else values.gather(dim, indices).reshape(size)
    results = [largest, indices.reshape(size)]
    return call.work(results[1:] if base in ("argmax", "argmin") else results)


def ordered(call):
    """The same of values that are known: which of equal ones comes first is not known."""
    base = call.operator.base
    if base not in ("topk", "sort") or call.value("stable"):
        return computed(call)
    values = call.engine.read(call.value("self"))[0]
    dim = call.value("dim", -1)
    ordered_values = values.sort(dim)[0] if values.dim() else values.view(1)
    equal = (ordered_values.diff(dim=dim if values.dim() else 0) == 0).any().item()
    in_order = KNOWN if call.value("sorted") is not False else SUPPOSED
    return call.work(call.compute(), [in_order, SUPPOSED if equal else in_order])


def nonzero(operator, arguments, named, tensors):
    """Places of elements that are not zero: their number is a size."""
    call = Call(operator, arguments, named, tensors)
    place = call.value("self")
    if call.engine.thread.answer is not None:
        return call.work()  # Of a mask that a kernel of another operator makes, whose result is computed.
    if call.small and call.trust() < ABSENT:
        return computed(call)
    if call.small and place.numel() * 8 <= LARGEST:
        call.supposed[id(place)] = call.hidden(place)
        return computed(call, SUPPOSED)
    values, trust = call.engine.period(place) if call.plain else (None, ABSENT)
    if trust < ABSENT:
        if trust == SUPPOSED:
            call.engine.followed(SIZE)
        return call.work(answer=int(summed(values != 0, call.torch.tensor([place.numel()]))))
    call.engine.followed(SIZE)
    return call.work(answer=int(place.numel() * call.engine.keep))


def unique(operator, arguments, named, tensors):
    """Elements that differ: of those that are not set, a share."""
    if operator.base in ("_unique", "_unique2"):
        arguments = (arguments[0], True, *arguments[2:])  # A device sorts them whether it is asked to or not.
    call = Call(operator, arguments, named, tensors)
    if call.small and call.trust() < ABSENT:
        return computed(call)
    place = call.read[0]
    dim = call.value("dim")
    call.engine.followed(SIZE)
    count = place.numel() if dim is None else place.shape[dim]
    return call.work(answer=max(int(count * call.engine.keep), min(count, 1)))


def suppressed(operator, arguments, named, tensors):
    """Boxes that do not overlap others of a higher score: all, where that is not known."""
    call = Call(operator, arguments, named, tensors)
    if call.small and call.trust() < ABSENT:
        return computed(call)
    count = call.read[0].shape[0]
    call.engine.followed(SIZE)
    return call.work([call.torch.arange(count)], SUPPOSED, count)


def copy(operator, arguments, named, tensors):
    """Copies: the library copies bytes; copies to the host show which values the program reads."""
    call = Call(operator, arguments, named, tensors, overwrites=True)
    to, source = call.value("self"), call.value("src")
    if not (to.is_cuda and source.is_cuda):
        if source.is_cuda and not to.is_cuda:
            note_read(call, source)
        return None
    if to.device != source.device or (to.dtype == source.dtype and to.is_contiguous() and source.is_contiguous()):
        return None
    if call.large:
        return call.by_periods() or call.work()
    if call.trust() == ABSENT and (source.is_floating_point() or source.numel() > MOST_ABSENT):
        return call.work()
    return computed(call)


def note_read(call, place):
    """Notes that the program reads whole numbers or conditions that are not known."""
    if place.is_floating_point() or place.is_complex() or not place.numel() or call.engine.thread.depth:
        return
    if bytes_of(place) <= LARGEST and call.engine.trust(place) >= SUPPOSED:
        call.engine.followed(CONDITION if place.dtype == call.torch.bool else NUMBER)


def read_number(operator, arguments, named, tensors):
    note_read(Call(operator, arguments, named, tensors), tensors[0])


def fill(operator, arguments, named, tensors):
    """One number everywhere."""
    call = Call(operator, arguments, named, tensors, overwrites=True)
    dense = call.engine.span(call.value("self")) == call.value("self").numel()
    return computed(call) if call.small and not dense else call.by_periods() or call.work()


def draws(torch, count):
    """Numbers between 0 and 1: of any part of this range as many as are expected, spread evenly."""
    count = count if count <= MOST_FRACTIONS else PERIOD
    step = next(step for step in range(max(int(count * 0.618), 1), 2 * count + 2) if math.gcd(step, count) == 1)
    return ((torch.arange(count) * step + count // 2) % count + 0.5) / max(count, 1)


def uniform(operator, arguments, named, tensors):
    """Draws from 0 to 1. Those of initial weights have other bounds."""
    call = Call(operator, arguments, named, tensors, overwrites=True)
    place = call.value("self")
    if not call.plain or (call.value("from"), call.value("to")) != (0, 1):
        return call.work()
    return call.work([Repeated(draws(call.torch, place.numel()))])


def bernoulli(operator, arguments, named, tensors):
    """Ones by chance: the expected number."""
    call = Call(operator, arguments, named, tensors)
    place, odds = call.value("self"), call.value("p", call.value("self"))
    numbers = draws(call.torch, place.numel())
    if isinstance(odds, call.torch.Tensor) and odds.is_cuda:
        odds, trust = call.engine.period(odds) if call.plain else (odds, ABSENT)
        if trust == ABSENT or odds.numel() not in (1, numbers.numel()):
            return call.work()
    return call.work([Repeated((numbers < odds).to(place.dtype))])


def random(operator, arguments, named, tensors):
    """Whole numbers by chance: in their range, the same in each run."""
    call = Call(operator, arguments, named, tensors, overwrites=True)
    if not call.small:
        return call.work()
    torch = call.torch
    if operator.base == "multinomial":
        return chosen(call)
    own = torch.Generator()
    own.manual_seed(0)
    call.named = dict(call.named, generator=own)
    if operator.base == "randperm":
        results = [torch.randperm(call.value("n"), generator=own).to(call.value("out").dtype)]
    else:
        results = call.compute()
    return call.work(results)


def chosen(call):
    """Sampled indices: those of the highest weights, or spread evenly if no weights are known."""
    weights, count = call.value("self"), call.value("num_samples")
    shape, of = weights.shape[:-1], weights.shape[-1]
    rows = math.prod(shape)
    values = call.engine.read(weights)[0].reshape(rows, of) if call.engine.trust(weights) < ABSENT else None
    return call.work([spread(call.torch, rows, count, of, values).view(*shape, count)])


def rules():
    """The rule of each operator."""
    table = dict.fromkeys([*EXACT, *ARITHMETIC, *ROUNDED], rule)
    table.update(dict.fromkeys(CONDITIONS, condition))
    table.update(dict.fromkeys(("eq", "ne", "isposinf", "isneginf"), equality))
    table.update(dict.fromkeys(("sum", "mean", "count_nonzero"), total))
    table.update(dict.fromkeys(("all", "any"), check))
    table.update(dict.fromkeys(("topk", "sort", "argmax", "argmin", "max", "min"), order))
    table.update(dict.fromkeys(("_unique", "_unique2", "unique_dim", "unique_consecutive"), unique))
    table.update(dict.fromkeys(("random", "randperm", "multinomial"), random))
    table.update(nonzero=nonzero, copy=copy, fill=fill, _local_scalar_dense=read_number, nms=suppressed)
    table.update(uniform=uniform, bernoulli=bernoulli)
    return table


# The engine of this process, once PyTorch is imported.
ENGINES: list[object] = []


def install(torch):
    """Starts to compute values for PyTorch's operators."""
    ENGINES.append(Engine(torch))
    ENGINES[0].install("aten", rules())


def install_vision(_):
    """The same for the operators of torchvision."""
    ENGINES[0].install("torchvision", {"nms": suppressed})


def add_facts(snapshot):
    """Adds what followed from values that are not known to the facts of a recording."""
    snapshot["ptmem"].update((ENGINES[0].guesses if ENGINES else Guesses()).facts())
