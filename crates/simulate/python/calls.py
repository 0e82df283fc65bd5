"""Calls of PyTorch's operators: their operands on the host, and what the host computes."""

import math

from ptmem_simulate_values import ABSENT, EVERYTHING, KNOWN, SHARE, SMALL, SUPPOSED, Work, flatten


def names(text):
    return frozenset(text.split())


# Comparisons and logic. Of values that are not known, they give a mask that is true for a share of its elements.
MASKS = names("""
    lt le gt ge eq ne logical_and logical_or logical_xor logical_not bitwise_and bitwise_or bitwise_xor bitwise_not
    isposinf isneginf isin all any signbit
""")
# Operators that make each element of a result of the elements at its place, and need no other.
ELEMENTWISE = MASKS - names("isin all any") | names("""
    abs neg sign floor ceil trunc round relu clamp clamp_min clamp_max maximum minimum fmax fmin where masked_fill
    add sub rsub mul div remainder fmod floor_divide pow sqrt square reciprocal copy fill
""")
# Products: of more elements, they take longer than all other operators of a program.
PRODUCTS = names("mm addmm bmm baddbmm mv addmv dot")
MOST_OF_PRODUCTS = 1 << 12
# Most random numbers of a call: those of a vocabulary, 100 million, took a third of the time of a program of two steps.
MOST_DRAWN = 1 << 24
# Operators that are computed up to a limit: about as fast as their operands are read.
LIGHT = (
    ELEMENTWISE
    | PRODUCTS
    | names("""
    isin all any equal cat index index_select gather take masked_scatter masked_select flip roll tril triu
    _index_put_impl scatter index_copy index_fill index_put amax amin aminmax
    bitwise_left_shift bitwise_right_shift __lshift__ __rshift__ bucketize searchsorted count_nonzero
    argmax argmin _cummax_helper _cummin_helper repeat_interleave tril_indices triu_indices embedding unfold im2col
    arange bincount sum mean cumsum prod cumprod scatter_add index_add scatter_reduce addcmul addcdiv trace linspace
    histc gcd lcm _foreach_add _foreach_sub _foreach_mul _foreach_div _foreach_neg _foreach_pow _foreach_sqrt
    exp expm1 exp2 log log1p log2 log10 sin cos tan tanh sigmoid erf rsqrt var std norm linalg_vector_norm lerp
    _softmax _log_softmax atan atan2 acos asin sinh cosh logsumexp silu gelu nan_to_num logit logaddexp mse_loss
    mse_loss_backward binary_cross_entropy binary_cross_entropy_backward threshold_backward sigmoid_backward
    tanh_backward lgamma digamma polygamma erfc erfinv i0 sinc acosh asinh atanh special_i0e special_i1 special_i1e
    special_entr special_erfcx special_ndtri special_zeta hypot xlogy igamma
    _convert_indices_from_coo_to_csr _convert_indices_from_csr_to_coo
""")
)
# Operators whose results have sizes that follow from values, which they read from the device.
SIZED = names("""
    nonzero _unique _unique2 unique_dim unique_consecutive repeat_interleave bincount nms
""")
# Most whole numbers that are computed although nothing has set them: positions and lengths, not tensors of data.
MOST_ABSENT = 1 << 10


def bytes_of(tensor):
    return tensor.numel() * tensor.element_size()


def is_plain(torch, tensor):
    return tensor.layout is torch.strided and not tensor.is_quantized and not tensor.is_conj() and not tensor.is_neg()


class Call:
    """One call of an operator: its operands, read when they are needed."""

    def __init__(self, operator, arguments, named, tensors, overwrites=False):
        self.operator, self.arguments, self.named = operator, arguments, named
        self.engine = operator.engine
        self.torch = operator.engine.torch
        self.tensors = tensors
        self.writes = operator.written_of(arguments, named)
        self.supposed_before = len(self.engine.supposed)
        # Results whose earlier contents are dropped, and operands that are changed.
        self.only_written, self.changes = set(), self.writes
        if operator.outs:
            outs = flatten(value for name, value in named.items() if name in operator.outs)
            operands = flatten([*arguments, *(value for name, value in named.items() if name not in operator.outs)])
            self.changes = [tensor for tensor in self.writes if any(tensor is operand for operand in operands)]
            self.only_written = {id(tensor) for tensor in outs} - {id(tensor) for tensor in operands}
        if overwrites or operator.base.endswith("_helper"):
            self.only_written |= {id(tensor) for tensor in self.writes}
        if operator.scales and self.value("beta") == 0:
            self.only_written.add(id(self.value("self")))
        self.read = [tensor for tensor in tensors if tensor.is_cuda and id(tensor) not in self.only_written]
        self.plain = all(is_plain(self.torch, tensor) for tensor in tensors)
        self.trusts = [self.trust_of(tensor) for tensor in self.read] if self.plain else [ABSENT]
        self.trust = max(self.trusts, default=KNOWN)
        self.small = all(bytes_of(tensor) <= SMALL for tensor in tensors)

    def trust_of(self, tensor):
        """Certainty of an operand: of an unknown mask, the share is assumed."""
        trust = self.engine.trust(tensor)
        return SHARE if trust == ABSENT and tensor.dtype == self.torch.bool else trust

    def value(self, name, default=None):
        value = self.operator.bound(self.arguments, self.named).get(name)
        return default if value is None else value

    def number(self, value, kind=None):
        """A tensor of the host of one element: a default device of the program is not that of the engine."""
        return self.torch.full((1,), value, dtype=kind, device="cpu")

    def fits(self):
        """True if operands and results are within the limit, and not long to compute."""
        engine = self.engine
        if engine.limit >= EVERYTHING:
            return True
        base = self.operator.base
        most = MOST_OF_PRODUCTS if base in PRODUCTS else MOST_DRAWN if self.operator.draws else math.inf
        if sum(tensor.numel() for tensor in self.tensors) > most:
            return False
        # A step of an optimizer has all weights of a model in one call.
        whole = sum if base.startswith("_foreach") else max
        return max(largest_result(self), whole(map(bytes_of, self.tensors))) <= engine.limit

    def on_host(self, value, made):
        """The same argument on the host."""
        if isinstance(value, self.torch.Tensor):
            if not value.is_cuda:
                return value
            key = id(value)
            if key not in made:
                made[key] = self.host_of(value)
            return made[key]
        if isinstance(value, (list, tuple)):
            return type(value)([self.on_host(part, made) for part in value])
        return value

    def host_of(self, tensor):
        torch = self.torch
        if tensor.is_sparse:
            return self.sparse_on_host(tensor)
        if id(tensor) in self.only_written:
            return torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu")
        if tensor.dtype == torch.bool and self.engine.trust(tensor) == ABSENT:
            return self.engine.passes(tensor)
        values = self.engine.read(tensor)
        if values is None and tensor.dtype == torch.bool and self.engine.trust(tensor) == SHARE:
            values = self.engine.passes(tensor)
        if values is None:
            raise MemoryError
        return values.clone() if any(tensor is changed for changed in self.changes) else values

    def sparse_on_host(self, tensor):
        """A sparse tensor with the same indices; unknown values are one number each."""
        indices, values = self.engine.read(tensor._indices()), tensor._values()
        known = self.engine.read(values) if self.engine.trust(values) < SHARE else None
        shape = tensor.shape if known is not None else tensor.shape[: tensor.sparse_dim()]
        if known is None:
            known = self.torch.ones(values.shape[:1], dtype=values.dtype, device="cpu")
        # Of the functions that make one, this warns of nothing that the program could turn off.
        make = self.torch.ops.aten._sparse_coo_tensor_with_dims_and_tensors
        dims, kinds = (tensor.sparse_dim(), len(shape) - tensor.sparse_dim()), {"dtype": known.dtype, "device": "cpu"}
        made = make(*dims, shape, indices, known, layout=self.torch.sparse_coo, **kinds)
        return made._coalesced_(tensor.is_coalesced())

    def result_like(self, value):
        """What stands for a result that the program brings."""
        if isinstance(value, (list, tuple)):
            return type(value)([self.result_like(part) for part in value])
        return self.torch.empty(0, dtype=value.dtype, layout=value.layout, device="cpu")

    def compute(self):
        """The results of the operator on the host, those that it writes to its operands last."""
        made = {}
        arguments = self.on_host(self.arguments, made)
        named = {
            name: self.result_like(value) if name in self.operator.outs else self.on_host(value, made)
            for name, value in self.named.items()
        }
        if "device" in named:
            named["device"] = "cpu"
        result = self.engine.draws.run(self, arguments, named)
        if isinstance(result, bool):
            return [result]
        results = flatten([result])
        # Those of a function in place of an operator are only the first ones.
        results += [None] * (len(self.operator.overload._schema.returns) - len(results))
        changed = [made[id(tensor)] for tensor in self.changes]
        return results + [value for value in changed if all(value is not result for result in results)]

    def work(self, results=None, trust=ABSENT, answer=None):
        """The work that gives the results these values, or none."""
        work = Work(self.engine, results, trust, answer, self.writes, self.tensors)
        work.before = self.supposed_before
        return work

    def uniform(self):
        """The work of an elementwise operator on tensors that were filled with one element each."""
        if self.operator.base not in ELEMENTWISE or any(tensor.dim() and not tensor.is_cuda for tensor in self.tensors):
            return None
        values = {id(tensor): self.engine.uniform(tensor) for tensor in self.read}
        if not values or any(value is None for value in values.values()):
            return None
        for tensor in self.writes:
            before = values.get(id(tensor))
            values[id(tensor)] = self.number(0, tensor.dtype) if before is None else before.clone()
        arguments = self.on_host(self.arguments, values)
        named = {name: self.on_host(value, values) for name, value in self.named.items()}
        return self.work([self.operator.overload(*arguments, **named).view(1)], self.trust)


def largest_result(call):
    """Most bytes that operands of these shapes give, where they are stretched to one shape."""
    shapes = [tuple(tensor.shape) for tensor in call.tensors]
    sizes = [tensor.element_size() for tensor in call.tensors]
    try:
        return math.prod(call.torch.broadcast_shapes(*shapes)) * max(sizes, default=1)
    except RuntimeError:
        return 0


def computed(call, trust=None):
    """The values that the host gives, as certain as the operands."""
    base = call.operator.base
    if not call.small:
        work = call.uniform()
        if work:
            return work
        if not call.fits():
            return call.work()
    results = call.compute()
    if base == "equal":
        return call.work(trust=call.trust, answer=int(results[0]))
    if trust is not None or call.trust > KNOWN:
        fractions = [result for result in results if result is not None and result.is_floating_point()]
        # A quotient or a logarithm of what is not set, or what a kernel may have changed since.
        if not all(result.isfinite().all() if trust is not None else not result.isnan().any() for result in fractions):
            return call.work()
    trust = call.trust if trust is None else trust
    answer = None
    if base in SIZED:
        # Bins are counted up to the largest number that is read.
        answer = results[0].shape[call.value("dim", 0) if base == "unique_dim" else 0] - (base == "bincount")
        if trust >= SUPPOSED:
            call.engine.suppose(answer)
    return call.work(results, trust, answer)
