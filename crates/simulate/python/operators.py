"""Operators of PyTorch whose values are computed, and what is supposed where operands are not known.

What is supposed takes the usual course of a program: a share of all elements passes a condition, however it is written,
a check passes, and indices are distinct and spread evenly. It is never called known.
"""

import itertools
import math

from ptmem_simulate_calls import (
    LIGHT,
    MASKS,
    MOST_ABSENT,
    Call,
    bytes_of,
    computed,
)
from ptmem_simulate_guesses import Guesses, Place
from ptmem_simulate_values import (
    ABSENT,
    CONDITION,
    DOUBTFUL,
    EVERYTHING,
    KNOWN,
    NUMBER,
    SHARE,
    SMALL,
    SPARSE,
    SUPPOSED,
    Engine,
    parts,
)

#: The optimizer of PyTorch that iterates within a step until it converges.
LBFGS = "/torch/optim/lbfgs.py"
#: Numbers of its unknown losses: each is lower than the one before.
LOSSES = itertools.count()


def rule(operator, arguments, named, tensors, call=None):
    """Values of an operator that has no rule of its own."""
    call = call or Call(operator, arguments, named, tensors)
    if not call.plain:
        is_sparse = any(tensor.layout is not call.torch.strided for tensor in tensors)
        return of_sparse(call) if is_sparse and operator.base in SPARSE else call.work()
    if call.trust < SHARE:
        return computed(call)
    absent = [tensor for tensor, trust in zip(call.read, call.trusts) if trust == ABSENT]
    if all(tensor.numel() <= 1 for tensor in [*absent, *call.read]):
        if operator.base in ("le", "gt") and len(tensors) == 1 and is_asked_by_lbfgs(call.engine):
            return call.work([call.number(operator.base == "gt" and call.value("other") > 0)], SUPPOSED)
        return computed(call, SUPPOSED)  # The one of a loss or the error of a solver reads as the fill.
    if operator.base in MASKS and is_mask(call):
        return call.work(mask(call), SHARE)
    if not call.small:
        return call.work()
    if absent and (any(tensor.is_floating_point() for tensor in absent) or sum(map(elements, absent)) > MOST_ABSENT):
        return call.work()
    return computed(call, max(trust for trust in [SUPPOSED, *call.trusts] if trust < ABSENT))


def of_sparse(call):
    """Operators on sparse tensors. The elements of a sparse result follow from indices, and kernels count them."""
    base, strided = call.operator.base, call.torch.strided
    if base == "addmm":
        if not call.engine.thread.depth and strided not in (call.value("mat1").layout, call.value("mat2").layout):
            call.engine.suppose(0)  # Only the library of the device counts the elements.
        return call.work()
    sparse = [tensor for tensor in call.read if tensor.is_sparse]
    if base == "_to_dense":
        trust = max(map(call.engine.trust, parts(sparse)), default=ABSENT)
        return call.work(call.compute(), trust) if trust < SHARE and call.fits() else call.work()
    if base == "mul" and len(sparse) < 2:
        return None  # Operators within it copy the indices.
    return counted(call, sparse)


def counted(call, sparse):
    """A sparse result with the elements that the host counts: of unknown indices, a share."""
    engine = call.engine
    indices = parts(sparse)[::2] + [tensor for tensor in call.read if not tensor.is_sparse]
    trust = max(map(engine.trust, indices))
    if trust >= SHARE or any(engine.read(tensor) is None for tensor in indices):
        count = max(int(sparse[0]._nnz() * engine.keep), min(sparse[0]._nnz(), 1))
        engine.suppose(count)
        return call.work(answer=count)
    of_indices, of_values = parts(call.compute()[:1])
    count = of_indices.shape[1]
    if trust >= SUPPOSED:
        engine.suppose(count)
    trust_of_values = max(trust, *map(engine.trust, parts(sparse)[1::2]))
    results = [of_indices, of_values if trust_of_values < SHARE else None]
    return call.work(results, [trust, trust_of_values], count)


def is_asked_by_lbfgs(engine):
    """True for a value that LBFGS asks for. An unknown one has not converged: it stores directions, and goes on.

    Gradients and changes are above their tolerances, slopes below theirs, and the loss falls.
    """
    return any(file.endswith(LBFGS) for file, _ in Place.current(*engine.prefixes).readers)


def elements(tensor):
    return tensor.numel()


def is_mask(call):
    """True for a comparison, and for logic of masks."""
    return call.operator.base[:4] != "bitw" or all(tensor.dtype == call.torch.bool for tensor in call.tensors)


def mask(call):
    """A mask of values that are not known: none is kept, unless known conditions or the same mask limit it."""
    is_logic = all(tensor.dtype == call.torch.bool for tensor in call.tensors) and len(call.tensors) > 1
    return call.compute() if is_logic and call.small and KNOWN in call.trusts else None


def equality(operator, arguments, named, tensors):
    """An unknown value equals itself and is finite: this is not a guess about the program."""
    call = Call(operator, arguments, named, tensors)
    places = [(tensor.data_ptr(), tensor.shape, tensor.stride()) for tensor in tensors]
    same = len(places) == 2 and places[0] == places[1]
    other = call.value("other", math.inf)
    finite = same or (isinstance(other, float) and not math.isfinite(other))
    single = call.trust == ABSENT and all(tensor.numel() <= 1 for tensor in call.read)
    if not call.plain or not (single or (finite and call.trust >= SUPPOSED)):
        return rule(operator, arguments, named, tensors)
    result = call.number(same != (operator.base == "ne"))
    return call.work([result], DOUBTFUL if finite else SUPPOSED)


def check(operator, arguments, named, tensors):
    """`all` and `any` of all elements: a check of unknown values passes, unless its share is 0."""
    call = Call(operator, arguments, named, tensors)
    place = call.read[0]
    answer = call.engine.thread.answer
    if answer is not None and call.trust >= SHARE:
        return call.work([call.number(bool(answer))], KNOWN)  # Of a comparison by a kernel of `equal`.
    if not call.plain or call.trust < SUPPOSED:
        return rule(operator, arguments, named, tensors)
    if place.numel() != 1 and operator.bound(arguments, named).get("dim") is not None:
        return rule(operator, arguments, named, tensors)
    keep = call.engine.keep
    some = call.trust == SHARE and int(place.numel() * keep) > 0
    if call.small and call.trust < ABSENT:
        some = bool(call.host_of(place).any())
    passes = operator.base == "all" and (call.trust == ABSENT or (place.numel() == 1 and keep > 0))
    return call.work([call.number(passes or some)], SUPPOSED)


def total(operator, arguments, named, tensors):
    """Sums and counts: of a large mask of which only the share is assumed, that share of each."""
    call = Call(operator, arguments, named, tensors)
    place = call.value("self")
    uniform = call.engine.uniform(place) if call.plain and not operator.written else None
    if call.small or operator.written or (uniform is None and call.trust != SHARE):
        return rule(operator, arguments, named, tensors)
    shape = operator.overload(place.to("meta"), *arguments[1:], **named)
    count = place.numel() // max(shape.numel(), 1)
    each = call.engine.keep if uniform is None else uniform.double().item()
    each = each != 0 if operator.base == "count_nonzero" and uniform is not None else each
    each = each if operator.base == "mean" else math.floor(each * count) if uniform is None else each * count
    return call.work([call.number(each, shape.dtype)], call.trust)


def spread(torch, rows, count, of, values=None, descending=True):
    """Indices below a number, for each row some, all different and spread evenly over the rows.

    They begin in the middle: the first and last of a vocabulary mean something. Where there are values, they are those
    of the largest or smallest, and only of equal ones those that would come first without values.
    """
    columns = torch.arange(max(of, count), device="cpu")
    first = of // 2 + torch.arange(rows, device="cpu")[:, None] * count
    if values is None:
        return (first + columns[:count]) % max(of, 1)
    places = (first + columns[:of]) % max(of, 1)
    # NaN was computed from unknown values.
    ordered = values.double().nan_to_num(0.0).gather(1, places).sort(dim=-1, descending=descending, stable=True)
    return places.gather(1, ordered[1])[:, columns[:count] % max(of, 1)]


def order(operator, arguments, named, tensors):
    """Indices of the largest or smallest elements."""
    call = Call(operator, arguments, named, tensors)
    torch, base, place = call.torch, operator.base, call.value("self")
    dim = call.value("dim", -1 if base in ("topk", "sort") else None)
    by_index = not (dim is None and base in ("max", "min")) and (dim is None or isinstance(dim, int))
    if not call.plain or call.trust == KNOWN or not by_index:
        return rule(operator, arguments, named, tensors)
    shape = [place.numel()] if dim is None or not place.dim() else list(place.shape)
    dim = 0 if len(shape) == 1 else dim % len(shape)
    of = shape[dim]
    count = {"topk": call.value("k"), "sort": of}.get(base, 1)
    others = shape[:dim] + shape[dim + 1 :]
    rows = math.prod(others)
    if rows * count * 8 > SMALL:
        return rule(operator, arguments, named, tensors) if call.trust < SHARE else call.work()
    values = call.host_of(place).reshape(shape) if call.trust < ABSENT and call.small else None
    down = call.value("largest", True) if base == "topk" else call.value("descending", base in ("argmax", "max"))
    in_rows = None if values is None else values.movedim(dim, -1).reshape(rows, of)
    indices = spread(torch, rows, count, of, in_rows, down).view(*others, count).movedim(-1, dim)
    keep = base in ("topk", "sort") or call.value("keepdim", False)
    size = [*shape[:dim], *([count] if keep else []), *shape[dim + 1 :]] if place.dim() else []
    largest = None if values is None else values.gather(dim, indices).reshape(size)
    results = [largest, indices.reshape(size)]
    return call.work(results[1:] if base in ("argmax", "argmin") else results, SUPPOSED)


def nonzero(operator, arguments, named, tensors):
    """Places of elements that are not zero: their number is a size."""
    call = Call(operator, arguments, named, tensors)
    place = call.value("self")
    if call.engine.thread.answer is not None:
        return call.work()  # Of a mask that a kernel of another operator makes, whose result is computed.
    uniform = call.engine.uniform(place) if call.plain and not call.small else None
    if uniform is not None and not uniform.any():
        return call.work(answer=0)
    if call.plain and call.fits() and (call.trust < SHARE or (call.trust == SHARE and call.small)):
        return computed(call)
    count = int(place.numel() * call.engine.keep)
    call.engine.suppose(count)
    return call.work(answer=count)


def unique(operator, arguments, named, tensors):
    """Elements that differ: of those that are not set, a share."""
    if operator.base in ("_unique", "_unique2"):
        arguments = (arguments[0], True, *arguments[2:])  # A device sorts them whether it is asked to or not.
    call = Call(operator, arguments, named, tensors)
    if call.plain and call.trust < SHARE and call.fits():
        return computed(call)
    place = call.read[0]
    dim = call.value("dim")
    count = place.numel() if dim is None else place.shape[dim]
    count = max(int(count * call.engine.keep), min(count, 1))
    call.engine.suppose(count)
    return call.work(answer=count)


def suppressed(operator, arguments, named, tensors):
    """Boxes that do not overlap others of a higher score: all, where that is not known."""
    call = Call(operator, arguments, named, tensors)
    if call.plain and call.trust < SHARE and call.fits():
        return computed(call)
    count = call.read[0].shape[0]
    call.engine.suppose(count)
    return call.work([call.torch.arange(count, device="cpu")], SUPPOSED, count)


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
    uniform = call.engine.uniform(source) if call.plain else None
    if uniform is not None:
        return call.work([uniform.to(to.dtype)], call.trust)
    if to.dtype == call.torch.bool != source.dtype and call.trust == SHARE:
        return call.work(trust=SHARE)
    return rule(operator, arguments, named, tensors, call)


def note_read(call, place):
    """Notes that the program reads whole numbers or conditions that are not known."""
    if place.is_floating_point() or place.is_complex() or not place.numel() or call.engine.thread.depth:
        return
    if bytes_of(place) <= SMALL and call.engine.trust(place) >= SUPPOSED:
        call.engine.followed(CONDITION if place.dtype == call.torch.bool else NUMBER)


def read_number(operator, arguments, named, tensors):
    """Reads of single numbers. LBFGS alone reads a loss that falls: the program, which gets it too, finds its value."""
    call, place = Call(operator, arguments, named, tensors), tensors[0]
    note_read(call, place)
    if not place.is_floating_point() or call.trust < SUPPOSED or not is_asked_by_lbfgs(call.engine):
        return None
    value = call.engine.read(place).clone() if call.trust < ABSENT else None
    call.engine.write(place, call.number(-next(LOSSES), place.dtype), SUPPOSED)
    return lambda *_: call.engine.store(place, value, call.trust)


def fill(operator, arguments, named, tensors):
    """One number everywhere."""
    call = Call(operator, arguments, named, tensors, overwrites=True)
    if not call.plain or call.trust > SHARE:
        return call.work()
    value = call.on_host(call.value("value", 0), {})
    return call.work([call.number(value, call.value("self").dtype)], call.trust)


def drawn(operator, arguments, named, tensors):
    """Random numbers, which the host draws."""
    call = Call(operator, arguments, named, tensors, overwrites=operator.base not in ("rrelu_with_noise", "dropout"))
    return computed(call) if call.plain and call.trust < SHARE and call.fits() else call.work()


def multinomial(operator, arguments, named, tensors):
    """Sampled indices: those of the highest weights, or spread evenly if no weights are known."""
    call = Call(operator, arguments, named, tensors)
    weights, count = call.value("self"), call.value("num_samples")
    shape, of = weights.shape[:-1], weights.shape[-1]
    rows = math.prod(shape)
    if not call.plain or call.trust == KNOWN or rows * count * 8 > SMALL:
        return drawn(operator, arguments, named, tensors)
    values = call.host_of(weights).reshape(rows, of) if call.trust < ABSENT and call.small else None
    return call.work([spread(call.torch, rows, count, of, values).view(*shape, count)], SUPPOSED)


def rules():
    """The rule of each operator."""
    table = dict.fromkeys(LIGHT | SPARSE, rule)
    table.update(dict.fromkeys(("eq", "ne", "isposinf", "isneginf"), equality))
    table.update(dict.fromkeys(("sum", "mean", "count_nonzero"), total))
    table.update(dict.fromkeys(("all", "any"), check))
    table.update(dict.fromkeys(("topk", "sort", "argmax", "argmin", "max", "min"), order))
    table.update(dict.fromkeys(("_unique", "_unique2", "unique_dim", "unique_consecutive"), unique))
    table.update(dict.fromkeys(("random", "randperm", "uniform", "normal", "bernoulli", "exponential"), drawn))
    table.update(
        nonzero=nonzero, copy=copy, fill=fill, zero=fill, _local_scalar_dense=read_number, multinomial=multinomial
    )
    return table


# The engine of this process, once PyTorch is imported.
ENGINES: list[object] = []


def install(torch):
    """Starts to compute values for PyTorch's operators."""
    ENGINES.append(Engine(torch))
    everything = ENGINES[0].limit >= EVERYTHING
    ENGINES[0].install("aten", rules(), rule if everything else None)


def install_vision(_):
    """The same for the operators of torchvision."""
    ENGINES[0].install("torchvision", {"nms": suppressed})


def add_facts(snapshot):
    """Adds what followed from values that are not known to the facts of a recording."""
    facts = snapshot["ptmem"]
    facts.update((ENGINES[0].guesses if ENGINES else Guesses()).facts())
    facts["supposed"] = list(supposed_allocations(snapshot)) if ENGINES else []
    facts["compute"] = ENGINES[0].limit if ENGINES else None


def supposed_allocations(snapshot):
    """Recorded allocations of supposed sizes: device, number among its recorded allocations, and index of the guess."""
    traces = snapshot.get("device_traces", ())
    recorded = [sum(event["action"] == "alloc" for event in trace) for trace in traces]
    for device, later, mark in ENGINES[0].library.marks():
        if device < len(recorded) and later < recorded[device]:
            yield device, recorded[device] - 1 - later, mark - 1
