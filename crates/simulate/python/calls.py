"""Calls of PyTorch's operators: their operands on the host, their known values, and what the host computes."""

import math

from ptmem_simulate_values import ABSENT, KNOWN, LARGEST, PERIOD, SIZE, SUPPOSED, Repeated, Work, flatten


def names(text):
    return frozenset(text.split())


# The same on the host and on a device, whatever the type is.
EXACT = names("""
    cat index index_select gather take where masked_fill masked_scatter masked_select flip roll tril triu
    _index_put_impl scatter index_copy index_fill index_put clamp clamp_min clamp_max maximum minimum abs neg
    sign floor ceil trunc relu amax amin aminmax max min logical_and logical_or logical_xor logical_not
    bitwise_and bitwise_or bitwise_xor bitwise_not bitwise_left_shift bitwise_right_shift __lshift__
    __rshift__ all any isposinf isneginf signbit isin bucketize searchsorted count_nonzero
    argmax argmin _cummax_helper _cummin_helper nonzero repeat_interleave _unique _unique2 unique_dim
    unique_consecutive tril_indices triu_indices embedding fmax fmin unfold im2col equal nms
""")
# Exact for whole numbers, and for others where `is_exact` says so.
ARITHMETIC = names("""
    eq ne lt le gt ge arange bincount
    add sub rsub mul div remainder fmod floor_divide pow sqrt square reciprocal sum cumsum prod cumprod round
    scatter_add index_add scatter_reduce addcmul addcdiv trace dot linspace histc gcd lcm _foreach_add
    _foreach_sub _foreach_mul _foreach_div _foreach_neg _foreach_pow _foreach_sqrt
""")
# Most elements of such numbers that are computed although they are not set: the one of a loss or the
# error of a solver, not the few of a tensor, since a check of it would fail where all are taken for zero.
MOST_ABSENT_FRACTIONS = 1
# Other functions of numbers: a device rounds some of their results in another way.
ROUNDED = names("""
    exp expm1 exp2 log log1p log2 log10 sin cos tan tanh sigmoid erf rsqrt mean var std norm
    linalg_vector_norm lerp _softmax _log_softmax atan atan2 acos asin sinh cosh logsumexp silu gelu
    nan_to_num logit logaddexp mse_loss mse_loss_backward binary_cross_entropy binary_cross_entropy_backward
    threshold_backward sigmoid_backward tanh_backward lgamma digamma polygamma erfc erfinv i0 sinc acosh asinh atanh
    special_i0e special_i1 special_i1e special_entr special_erfcx special_ndtri special_zeta hypot xlogy igamma
    mm addmm bmm baddbmm mv addmv
""")
# Comparisons but equalities, and logic: operands that are not set pass in part.
CONDITIONS = names("""
    lt le gt ge logical_and logical_or logical_xor logical_not bitwise_and bitwise_or bitwise_not
""")
# Operators whose results have sizes that follow from values, which they read from the device.
SIZED = names("""
    nonzero _unique _unique2 unique_dim unique_consecutive repeat_interleave bincount nms
""")
# Operators that make each element of a result of the elements at its place, and need no other.
ELEMENTWISE = CONDITIONS | names("""
    eq ne abs neg sign floor ceil trunc round relu clamp clamp_min clamp_max maximum minimum fmax fmin where masked_fill
    isposinf isneginf signbit add sub rsub mul div remainder fmod floor_divide pow sqrt square reciprocal copy fill
""")
# Most elements of numbers that are not whole: steps, rates and scales, not tensors of data.
MOST_FRACTIONS = 1 << 12
# Whole numbers up to this are exact in a type, and so are their sums.
WHOLE = {"float16": 1 << 11, "bfloat16": 1 << 8, "float32": 1 << 24, "float64": 1 << 53}


def bytes_of(tensor):
    return tensor.numel() * tensor.element_size()


def is_plain(torch, tensor):
    return not tensor.is_complex() and tensor.layout is torch.strided and not tensor.is_quantized


class Call:
    """One call of an operator: its operands, read when they are needed."""

    def __init__(self, operator, arguments, named, tensors, overwrites=False):
        self.operator, self.arguments, self.named = operator, arguments, named
        self.engine = operator.engine
        self.torch = operator.engine.torch
        self.tensors = tensors
        written = {id(tensor) for tensor in operator.written_of(arguments, named)}
        outs = {id(tensor) for tensor in flatten(value for name, value in named.items() if name.startswith("out"))}
        overwrites = overwrites or operator.base.endswith("_helper")
        only_written = written if overwrites else written & outs
        # The earlier contents of the results' memory are dropped.
        self.overwrites = overwrites or written == outs
        self.read = [tensor for tensor in tensors if tensor.is_cuda and id(tensor) not in only_written]
        self.plain = all(is_plain(self.torch, tensor) for tensor in tensors)
        self.small = self.plain and all(bytes_of(tensor) <= LARGEST for tensor in tensors)
        self.large = not self.small or largest_result(self) > 8 * LARGEST
        self.supposed = {}

    def value(self, name, default=None):
        value = self.operator.bound(self.arguments, self.named).get(name)
        return default if value is None else value

    def trust(self):
        """Certainty of the least certain operand."""
        return max((self.engine.trust(tensor) for tensor in self.read), default=0)

    def on_host(self, value, made):
        """The same argument on the host."""
        if isinstance(value, self.torch.Tensor):
            if not value.is_cuda:
                return value
            key = id(value)
            if key not in made:
                made[key] = self.supposed[key] if key in self.supposed else self.engine.read(value)[0]
            return made[key]
        if isinstance(value, (list, tuple)):
            return type(value)([self.on_host(part, made) for part in value])
        return value

    def compute(self, made=None):
        """The results of the operator on the host."""
        made = {} if made is None else made
        arguments = self.on_host(self.arguments, made)
        named = {name: self.on_host(value, made) for name, value in self.named.items()}
        if "device" in named:
            named["device"] = "cpu"
        result = self.operator.overload(*arguments, **named)
        return flatten([result]) or flatten(
            self.operator.bound(arguments, named)[self.operator.arguments[index][0]] for index in self.operator.written
        )

    def work(self, results=None, trust=SUPPOSED, answer=None):
        """The work that gives the results these values, or none."""
        written = self.operator.written_of(self.arguments, self.named)
        return Work(self.engine, results, trust, answer, written, self.overwrites)

    def hidden(self, tensor):
        """Values of a tensor that is not set: 1 for the share that passes conditions, 0 for the others."""
        return self.passes(tensor.numel()).to(tensor.dtype).view(tensor.shape)

    def passes(self, count):
        """The share of elements that pass conditions which are not known."""
        keep = self.engine.keep
        places = self.torch.arange(count, dtype=self.torch.float64)
        return ((places + 1) * keep).floor() > (places * keep).floor()

    def by_periods(self, hide=False):
        """The work of an elementwise operator on large tensors, if these repeat their first elements.

        With `hide`, elements that are not set are those of `hidden`.
        """
        if not self.plain or self.operator.base not in ELEMENTWISE:
            return None
        made, shapes, trust = {}, set(), KNOWN
        for tensor in self.read:
            values, certain = self.engine.period(tensor)
            if certain == ABSENT and hide and self.engine.trust(tensor) == ABSENT:
                values, certain = self.passes(PERIOD).to(tensor.dtype), SUPPOSED
            if certain == ABSENT:
                return None
            if values.numel() > 1:
                shapes.add(tuple(tensor.shape))
            made[id(tensor)] = values
            trust = max(trust, certain)
        if len(shapes) > 1 or (shapes and largest_result(self) > 8 * math.prod(*shapes)):
            return None
        count = max((values.numel() for values in made.values()), default=1)
        for tensor in self.operator.written_of(self.arguments, self.named):
            values = made.get(id(tensor))
            values = self.torch.empty(1, dtype=tensor.dtype) if values is None else values
            made[id(tensor)] = values.expand(count).clone()
        results = self.compute(made)
        fractions = [result for result in results if result.is_floating_point()]
        if trust > KNOWN and not all(result.isfinite().all() for result in fractions):
            return None
        if fractions and self.operator.base not in EXACT and self.operator.base not in ("copy", "fill"):
            trust = SUPPOSED
        return self.work([Repeated(result) for result in results], trust)


def is_power_of_two(number):
    return isinstance(number, (int, float)) and number != 0 and abs(math.frexp(number)[0]) == 0.5


def is_exact(call, results):
    """True if a device gives the same bits: whole numbers, and single operations that are rounded once."""
    torch, base, other = call.torch, call.operator.base, call.value("other")
    kind = next((tensor.dtype for tensor in [*results, *call.tensors] if tensor.is_floating_point()), None)
    if kind is None:
        return base != "linspace"  # The host divides in another type.
    name = str(kind).split(".")[-1]
    if isinstance(other, torch.Tensor) and not other.is_cuda and other.dim() == 0:
        other = other.item()
    small = isinstance(other, (int, float)) and name in ("float16", "bfloat16")
    if small and torch.tensor(other, dtype=kind).item() != other:
        return False  # It is rounded to the type, or not, before the operation.
    if base in ("add", "sub", "rsub"):
        return call.value("alpha", 1) in (1, -1)
    if base in ("mul", "eq", "ne", "lt", "le", "gt", "ge"):
        return True
    if base == "div":
        return call.value("rounding_mode") is None and (isinstance(other, torch.Tensor) or is_power_of_two(other))
    if base == "arange":
        whole = all(float(call.value(part, 1)).is_integer() for part in ("start", "step"))
        return whole and bool((results[0].abs().double() < WHOLE[name]).all())
    if name not in ("float32", "float64"):
        return False
    if base in ("sqrt", "square", "reciprocal", "_foreach_mul", "_foreach_neg"):
        return True
    if base in ("_foreach_add", "_foreach_sub"):
        return call.value("alpha", 1) == 1
    if base == "pow":
        exponent = call.value("exponent")
        return isinstance(exponent, (int, float)) and exponent == 2
    if base == "round":
        return not call.value("decimals")
    if base in ("sum", "cumsum"):
        return is_whole_sum(call, WHOLE[name])
    return False


def is_written_once(call, results):
    """True if no place of a result is written twice, in an order that may differ on a device."""
    torch, base, made = call.torch, call.operator.base, {}
    if base not in ("_index_put_impl", "scatter", "index_copy"):
        return True
    if call.value("accumulate") or call.value("reduce"):
        return not results[0].is_floating_point()
    if base == "index_copy":
        index = call.on_host(call.value("index"), made)
        return index.unique().numel() == index.numel()
    writes = torch.zeros(results[0].shape, dtype=torch.int32)
    if base == "scatter":
        index = call.on_host(call.value("index"), made)
        writes.scatter_add_(call.value("dim"), index, torch.ones_like(index, dtype=torch.int32))
    else:
        indices = [call.on_host(index, made) for index in call.value("indices")]
        torch.ops.aten.index_put_(writes, indices, torch.ones((), dtype=torch.int32), True)
    return bool((writes <= 1).all())


def fits(call, results):
    """True if numbers that are not whole have a value in the type of the result: what others become is not defined."""
    if call.operator.base != "copy":
        return True
    source, kind = call.value("src"), results[0].dtype
    if not source.is_floating_point() or kind.is_floating_point or kind == call.torch.bool:
        return True
    limits, values = call.torch.iinfo(kind), call.engine.read(source)[0].double()
    return bool(((values > float(limits.min) - 1) & (values < float(limits.max))).all())


def is_whole_sum(call, most):
    values = call.engine.read(call.read[0])[0].double()
    return bool((values == values.round()).all()) and values.abs().sum().item() < most


def largest_result(call):
    """Most bytes that operands of these shapes give, where they are stretched to one shape."""
    shapes = [tuple(tensor.shape) for tensor in call.tensors]
    try:
        return math.prod(call.torch.broadcast_shapes(*shapes)) * 8
    except RuntimeError:
        return 0


def absent_operands(call):
    return [tensor for tensor in call.read if call.engine.trust(tensor) == ABSENT]


def computed(call, trust=None):
    """The values that the host gives, as certain as the operands and the operator are."""
    base = call.operator.base
    results = call.compute()
    fractions = [result for result in results if result.is_floating_point()]
    if trust is not None and not all(result.isfinite().all() for result in fractions):
        return call.work()  # A quotient or a logarithm of what is not set.
    if call.trust() > KNOWN and any(result.isnan().any() for result in fractions):
        return call.work()  # What a kernel may have changed since is no longer what it was.
    rounded = base in ROUNDED or (base in ARITHMETIC and not is_exact(call, results))
    if rounded or not is_written_once(call, results) or not fits(call, results):
        trust = SUPPOSED
    trust = min(call.trust() if trust is None else trust, SUPPOSED)
    answer = None
    if base in SIZED:
        # Bins are counted up to the largest number that is read.
        answer = results[0].shape[call.value("dim", 0) if base == "unique_dim" else 0] - (base == "bincount")
        if trust == SUPPOSED:
            call.engine.followed(SIZE)
    return call.work(results, trust, answer)
