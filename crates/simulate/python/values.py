"""Computes on the host what PyTorch's operators write to a simulated GPU, where their operands are small and known.

Each operator runs as on a GPU, for what it allocates. Its results then get the values that PyTorch's own operator for
the host gives, and sizes that it reads from the device are those of these results. `ptmem_simulate_calls` says which
operators and how exactly, `ptmem_simulate_operators` what is supposed where the operands are not known.
"""

import ctypes
import math
import os
import threading
import warnings

import ptmem_simulate_draws as draws
import ptmem_simulate_guesses as guesses
import ptmem_simulate_host as host

# Certainty of values, as the library counts it: `SHARE` of what follows from a mask of which only a share is assumed.
KNOWN, DOUBTFUL, SUPPOSED, SHARE, ABSENT = range(5)
# What a program can do with values that are not known.
SIZE, CONDITION, NUMBER = range(3)
# Most bytes of what is only supposed, and of a message between ranks.
SMALL = 1 << 20
# A limit from which on everything is computed.
EVERYTHING = 1 << 63
# The least size that is taken for one that was supposed where only the number says so.
LEAST_SUPPOSED = 64
# Most rows of a tensor that have a certainty of their own; of more, all are as uncertain as one.
MOST_ROWS = 1 << 12
# Operators that also take numbers for tensors where Python calls them.
TAKES_NUMBERS = frozenset(("add", "sub", "mul", "div"))
# Operators for all devices at once that end in a kernel or a copy.
COMPOSITE = frozenset(
    (
        "aten::copy_",
        "aten::convolution",
        "_c10d_functional::all_gather_into_tensor",
        "_c10d_functional::all_reduce",
        "_c10d_functional::broadcast",
    )
)
# Operators that make a tensor and fill it.
MAKERS = frozenset(("tril_indices", "triu_indices"))
# Overloads that PyTorch calls with a number in the memory of the device, which it cannot hand over to Python. The
# operators that do so have a rule of their own.
TAKES_NUMBERS_OF_DEVICE = frozenset(("aten::pow.Tensor_Tensor_out", "aten::isin.Tensor_Tensor_out"))
# Operators on sparse tensors whose results are dense, or have as many elements as their kernels count.
SPARSE = frozenset(("_coalesce", "_sparse_sparse_matmul", "_to_dense", "addmm", "index_select", "mul"))
# Dispatch keys of tensors on a device, and of sparse ones.
KEY, SPARSE_KEYS = "CUDA", frozenset(("SparseCUDA", "SparseCsrCUDA"))
# Operators that change what a tensor is, not what it has.
NO_VALUES = frozenset(
    ("set", "resize", "resize_as", "record_stream", "_cudnn_init_dropout_state", "_pin_memory", "_resize_output")
)
# The memory of all devices, as an object of Python.
MEMORY = ctypes.c_char * (1 << 47)
WITH_NAMES = 3  # METH_VARARGS | METH_KEYWORDS


class Method(ctypes.Structure):
    """A function of C that Python calls: PyMethodDef."""

    _fields_ = (("name", ctypes.c_char_p), ("call", ctypes.c_void_p), ("kind", ctypes.c_int), ("text", ctypes.c_char_p))


class Library:
    """Functions of the preloaded library."""

    def __init__(self):
        place, size, number = ctypes.c_uint64, ctypes.c_uint64, ctypes.c_int
        self.library = ctypes.PyDLL(None)
        self.trust = self.find("trust", number, place, size)
        self.view = self.find("view", number, place, size)
        self.hold = self.find("hold", number, place, size, size, size, number)
        self.cover = self.find("cover", number, place, size, number)
        self.drop = self.find("drop", None, place, size, size, size, number)
        self.repeat = self.find("repeat", None, place, size, place, size, number)
        self.uniform = self.find("uniform", number, place, size, size, place)
        self.begin = self.find("begin", ctypes.c_int64, ctypes.c_int64, number)
        self.mark = self.find("mark", None, place, number)
        self.marked = self.find("marked", number, place)
        self.write_marks = self.find("marks", size, place, size)
        self.end = self.find("end", None, ctypes.c_int64)
        self.followed = self.find("followed", None, number)
        names = "Call CallFunctionObjArgs", "PyTuple_GetItem", "Py_DecRef", "PyErr_Fetch", "PyErr_Restore"
        names = ["PyObject_" + name for name in names[0].split()] + list(names[1:])
        places = [ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value for name in names]
        self.python = (ctypes.c_void_p * 7)(*places, id(None))
        self.find("python", None, ctypes.c_void_p)(ctypes.addressof(self.python))
        call = ctypes.cast(self.library.ptmem_simulate_operator, ctypes.c_void_p).value
        self.method = Method(b"operator", call, WITH_NAMES, None)
        self.make = ctypes.pythonapi.PyCFunction_NewEx
        self.make.restype = ctypes.py_object
        self.make.argtypes = (ctypes.POINTER(Method), ctypes.py_object, ctypes.c_void_p)

    def find(self, name, result, *arguments):
        function = getattr(self.library, "ptmem_simulate_" + name)
        function.restype, function.argtypes = result, arguments
        return function

    def marks(self):
        """Device, number of the allocations after it, and mark of each allocation that was marked."""
        room = self.write_marks(0, 0)
        numbers = (ctypes.c_uint64 * (3 * room))()
        self.write_marks(ctypes.addressof(numbers), room)
        return zip(numbers[::3], numbers[1::3], numbers[2::3])

    def without_frame(self, plan):
        """A function that runs what `plan` plans and leaves no frame of Python in recorded stacks."""
        return self.make(ctypes.byref(self.method), plan, None)


def settings():
    """The settings of the run, by name."""
    return dict(pair.partition("=")[::2] for pair in os.environ.get("PTMEM_SIMULATE", "").split(";"))


def flatten(values):
    """The tensors in arguments or results, as a list."""
    found = []
    for value in values:
        if isinstance(value, TENSOR):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found.extend(flatten(value))
    return found


def parts(tensors):
    """The tensors, and in place of sparse ones their indices and values."""
    found = []
    for tensor in tensors:
        found += [tensor._indices(), tensor._values()] if tensor.is_sparse else [tensor]
    return found


class Work:
    """An operator that runs: what its results get at the end."""

    __slots__ = (
        "before",
        "earlier",
        "earlier_answer",
        "engine",
        "follows",
        "operands",
        "results",
        "trust",
        "written",
    )

    def __init__(self, engine, results, trust, answer, written, operands):
        self.engine, self.results, self.trust, self.written = engine, results, trust, written
        self.operands = [tensor for tensor in parts(operands) if tensor.is_cuda]
        # The mark of an operand with a supposed size, and how many sizes were supposed before.
        self.follows = engine.mark_of(self.operands) if engine.sizes else 0
        self.before = len(engine.supposed)
        thread = engine.thread
        self.earlier_answer = thread.answer
        if answer is not None:
            thread.answer = answer
        thread.depth += 1
        self.earlier = engine.library.begin(-1 if thread.answer is None else thread.answer, self.follows)

    def __call__(self, *result):
        thread = self.engine.thread
        thread.depth -= 1
        thread.answer = self.earlier_answer
        self.engine.library.end(self.earlier)
        if not result:
            return
        places = flatten(result)
        places += [tensor for tensor in self.written if all(tensor is not place for place in places)]
        results = self.results or []
        sparse = next((tensor for tensor in places if tensor.is_sparse), None)
        if results and sparse is not None and sparse._nnz() != results[0].shape[1]:
            results = []
            if not thread.depth:
                self.engine.suppose(sparse._nnz())  # As for other sizes, also if it is 0.
        places = parts(places)
        if self.engine.sizes:
            marks = [self.follows, *self.engine.supposed[self.before :]]
            self.engine.mark(self.operands, places, next(filter(None, marks), 0))
        if self.trust is None:
            return
        trusts = self.trust if isinstance(self.trust, list) else [self.trust] * len(places)
        for index, place in enumerate(places):
            values = results[index] if index < len(results) else None
            self.engine.store(place, values, trusts[index])


def follow(operator, arguments, named, tensors):
    """An operator whose values are not computed, which can make memory of a supposed size.

    Operators that it calls may have computed what it returns.
    """
    return Work(operator.engine, None, None, None, operator.written_of(arguments, named), tensors)


class PerThread(threading.local):
    """Nested operators of a thread, and the size that the outer one announced."""

    depth = 0
    answer = None
    #: True while the engine computes, which has no rules for what it calls itself.
    on_host = False


class OnHost:
    """While the engine computes: modes of the program, such as a default device, and its own rules do not apply."""

    def __init__(self, engine):
        self.thread, self.torch = engine.thread, engine.torch

    def __enter__(self):
        self.outer, self.thread.on_host = self.thread.on_host, True
        self.without_modes = self.torch._C.DisableTorchFunction()
        self.without_modes.__enter__()

    def __exit__(self, *failure):
        self.without_modes.__exit__(*failure)
        self.thread.on_host = self.outer


class Engine:
    """The values of all operators."""

    def __init__(self, torch):
        global TENSOR
        TENSOR = torch.Tensor
        self.torch = torch
        self.library = Library()
        self.thread = PerThread()
        self.draws = draws.Draws(torch)
        found = settings()
        # The share of elements that pass conditions which are not known.
        self.keep = int(found.get("keep", 50)) / 100
        self.limit = int(found.get("compute", SMALL))
        self.libraries = []
        # Names of operators with a function before them.
        self.hooked = set()
        # Sizes that were supposed, with marks: the numbers of the places from 1. The marks in order, and the product of
        # the other dimensions of tensors that have such a size, by their addresses.
        self.sizes = {}
        self.supposed = []
        self.plain = {}
        self.guesses = guesses.Guesses()
        self.folder = os.path.dirname(os.path.abspath(__file__))
        self.prefixes = (self.folder + os.sep, os.path.dirname(os.path.abspath(torch.__file__)) + os.sep)

    def install(self, namespace, rules, rule=None):
        """Puts a function before all operators of a namespace that have a rule; with `rule` before all others."""
        public = self.torch._C
        library = self.torch.library.Library(namespace, "IMPL")
        self.libraries.append(library)
        start = namespace + "::"
        for name in public._dispatch_get_all_op_names():
            base, _, overload = name[len(start) :].partition(".")
            if not name.startswith(start) or name in TAKES_NUMBERS_OF_DEVICE:
                continue
            known = rules.get(base) or rules.get(base.rstrip("_"))
            if name in self.hooked or not (known or rule) or not self.runs_on_device(name, base):
                continue
            packet = getattr(getattr(self.torch.ops, namespace), base)
            operator = Operator(self, name, getattr(packet, overload or "default"), known or rule)
            if not known and not (operator.makes_values() and (rule is follow or operator.is_on_host())):
                continue
            self.hooked.add(name)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # Of the makers, which have such a function.
                library.impl(name[len(start) :], self.library.without_frame(operator.plan), "BackendSelect")

    def runs_on_device(self, name, base):
        """True for an operator that has a kernel for the device, or ends in one, and fills what it makes."""
        has = self.torch._C._dispatch_has_kernel_for_dispatch_key
        keys = {KEY, *SPARSE_KEYS} if base in SPARSE else {KEY}
        on_device = name in COMPOSITE or any(has(name, key) for key in keys)
        # An operator before the choice of the device makes a tensor, and another one fills it.
        return on_device and (base in MAKERS or not has(name, "BackendSelect"))

    def span(self, tensor):
        """Elements from the first to the last of a tensor."""
        if tensor.is_contiguous():
            return tensor.numel()
        if tensor.numel() == 0:
            return 0
        return 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))

    def rows(self, tensor):
        """Elements of a row, the distance of rows, and their number; None if it has too many, or no such rows."""
        width, pitch, count = 1, 0, 1
        for stride, size in sorted(zip(tensor.stride(), tensor.shape)):
            if size == 1:
                continue
            if count == 1 and stride == width:
                width *= size
            elif count == 1 or stride == pitch * count:
                pitch, count = pitch or stride, count * size
            else:
                return None
        return (width, pitch, count) if count <= MOST_ROWS and (count == 1 or pitch >= width) else None

    def trust(self, tensor):
        """Certainty of the least certain element. An unknown mask is true for a share."""
        span, size, at = self.span(tensor), tensor.element_size(), tensor.data_ptr()
        if span == 0:
            return KNOWN
        trust = self.library.trust(at, span * size)
        if trust > KNOWN and span != tensor.numel():
            rows = self.rows(tensor)
            if rows is not None:
                width, pitch, count = rows
                trust = max(self.library.trust(at + row * pitch * size, width * size) for row in range(count))
        return trust

    def uniform(self, tensor):
        """The element that a tensor was filled with, on the host, if it was."""
        size, span = tensor.element_size(), self.span(tensor)
        if span == 0:
            return None
        value = self.torch.empty(1, dtype=tensor.dtype, device="cpu")
        trust = self.library.uniform(tensor.data_ptr(), span * size, size, value.data_ptr())
        return value if trust >= 0 else None

    def at(self, tensor):
        """The memory of a tensor, as one of the host."""
        memory = MEMORY.from_address(tensor.data_ptr())
        whole = self.torch.frombuffer(memory, dtype=tensor.dtype, count=self.span(tensor))
        return whole.as_strided(tensor.shape, tensor.stride())

    def read(self, tensor):
        """A tensor of the host with the same elements; None if they are beyond the limit."""
        span = self.span(tensor)
        if span == 0:
            return self.torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu")
        value = self.uniform(tensor)
        if value is not None:
            return value.view(()).expand(tensor.shape)
        if span * tensor.element_size() > self.limit:
            return None
        return self.at(tensor) if self.library.view(tensor.data_ptr(), span * tensor.element_size()) else None

    def store(self, place, values, trust):
        """Gives a tensor on the device values, or notes that it has others, which are not known."""
        if place.is_cuda and place.layout is self.torch.strided and not place.is_quantized:
            with OnHost(self):
                self.store_values(place, values, trust)

    def store_values(self, place, values, trust):
        is_uniform = values is not None and values.numel() == 1 and place.numel() != 1
        if place.numel() == 0:
            return
        if values is not None and not (is_uniform or self.thread.depth) and values.numel() != place.numel():
            self.suppose(place.numel())  # The operator found its size in another way than by what it was told.
        fits = is_uniform or (
            values is not None and (values.shape == place.shape or values.numel() == place.numel() == 1)
        )
        if not fits or values.dtype != place.dtype or not self.write(place, values, trust):
            self.drop(place, trust)

    def write(self, place, values, trust):
        """Writes values to a tensor; false where they are beyond the limit. One value stands for all."""
        at, size, span = place.data_ptr(), place.element_size(), self.span(place)
        is_dense = span == place.numel()
        if is_dense and values.numel() == 1:
            self.library.repeat(at, span * size, values.contiguous().data_ptr(), size, trust)
            return True
        if trust == SHARE and span * size > SMALL:
            return False  # The share is enough.
        rows = (span, 0, 1) if is_dense else self.rows(place)
        if rows is None:
            done = self.library.cover(at, span * size, trust)
        else:
            width, pitch, count = rows
            done = self.library.hold(at, width * size, pitch * size, count, trust)
        if done:
            self.at(place).copy_(values.view(()).expand(place.shape) if values.numel() == 1 else values)
        return done

    def passes(self, mask):
        """The share of elements that pass conditions which are not known, spread evenly."""
        return self.passing(mask.numel()).view(mask.shape)

    def passing(self, count):
        """The same of a number of elements. It repeats itself after 100."""
        places, percent = self.torch.arange(count + 1, device="cpu"), round(100 * self.keep)
        return (places * percent).div(100, rounding_mode="floor").diff() > 0

    def drop(self, place, trust):
        """Notes that a tensor is unknown, also where an operator wrote only some of its elements."""
        at, size, span = place.data_ptr(), place.element_size(), self.span(place)
        if trust == SHARE and place.dtype == self.torch.bool and place.numel() <= SMALL:
            if span == place.numel():
                passing = self.passing(100)
                # Takes nothing of the limit.
                return self.library.repeat(at, span, passing.data_ptr(), 100, trust)
            if self.write(place, self.passes(place), trust):
                return None
        width, pitch, count = self.rows(place) or (span, 0, 1)
        return self.library.drop(at, width * size, pitch * size, count, trust if trust == SHARE else ABSENT)

    def address(self, tensor):
        return tensor.untyped_storage().data_ptr() if tensor.layout is self.torch.strided else 0

    def plain_of(self, tensor):
        """The product of the dimensions that are not supposed; None for a tensor without a supposed size."""
        at = self.address(tensor)
        plain = self.plain.get(at)
        if plain is not None and self.library.marked(at):
            return plain
        # A size that was read as a number comes back as one.
        marks = [self.sizes[size] for size in tensor.shape if size >= LEAST_SUPPOSED and size in self.sizes]
        return self.mark_at(at, marks[0], tensor.shape, self.sizes.__contains__) if marks else None

    def mark_of(self, tensors):
        """The mark of the first tensor that has a supposed size; 0 if none has."""
        supposed = (tensor for tensor in tensors if self.plain_of(tensor) is not None)
        return next((self.library.marked(self.address(tensor)) for tensor in supposed), 0)

    def mark_at(self, at, mark, shape, is_supposed):
        plain = self.plain[at] = math.prod(size for size in shape if not is_supposed(size))
        self.library.mark(at, mark)
        return plain

    def mark(self, operands, results, mark):
        """Marks memory of results with a supposed size, which an operand has, or which was supposed for them."""
        plain = 1
        for tensor in operands:
            of_tensor = self.plain_of(tensor)
            plain *= max(tensor.numel() if of_tensor is None else of_tensor, 1)

        def is_supposed(size):
            return size > 1 and (size in self.sizes or plain % size != 0)

        for tensor in results:
            if tensor.is_cuda and tensor.layout is self.torch.strided and self.plain_of(tensor) is None:
                if mark and any(map(is_supposed, tensor.shape)):
                    self.mark_at(self.address(tensor), mark, tensor.shape, is_supposed)
                elif not self.thread.depth:
                    self.library.mark(self.address(tensor), 0)

    def suppose(self, size):
        """Notes a size that is supposed. From then on, all operators note which memory follows from it."""
        mark = self.followed(SIZE, size)
        if not mark:
            return
        is_first = not self.sizes
        self.sizes[size] = mark
        self.supposed.append(mark)
        if is_first:
            self.install("aten", {}, follow)

    def followed(self, kind, size=0):
        """Notes that something followed from values that are not known. Returns the number of the place, from 1.

        The text of a tensor, and a condition of a message, do not count: 0.
        """
        place = guesses.Place.current(*self.prefixes)
        if place.is_text() or (kind == CONDITION and place.is_guard()):
            return 0
        self.library.followed(kind)
        number = self.guesses.add(kind, place, size)
        if self.guesses.counts[kind] == 1:
            try:
                path = os.path.join(self.folder, f"first_{kind}")
                with open(path, "x", encoding="utf-8") as file:
                    file.write(place.line_text())
            except OSError:
                pass  # Another process was first.
        return number


class Operator:
    """An operator of PyTorch, with the rule for its values."""

    def __init__(self, engine, name, overload, rule):
        self.engine, self.name, self.rule, self.overload = engine, name, rule, overload
        self.base = overload._schema.name.split("::")[1].rstrip("_")
        self.arguments = [(argument.name, argument.default_value) for argument in overload._schema.arguments]
        self.written = [
            index
            for index, argument in enumerate(overload._schema.arguments)
            if argument.name in host.CHANGED or (argument.alias_info is not None and argument.alias_info.is_write)
        ]
        types = enumerate(str(argument.type) for argument in overload._schema.arguments)
        self.of_numbers = [] if self.base in TAKES_NUMBERS else [place for place, kind in types if kind == "Tensor"]
        self.outs = {argument.name for argument in overload._schema.arguments if argument.is_out}
        self.makes = self.base in MAKERS
        self.scales = any(name == "beta" for name, _ in self.arguments)
        self.draws = engine.torch.Tag.nondeterministic_seeded in overload.tags
        self.takes_generator = any(name == "generator" for name, _ in self.arguments)
        self.calls = {}
        public = engine.torch._C
        self.keys_of = public._dispatch_keys
        self.included = public._dispatch_tls_local_include_set
        self.excluded = public._dispatch_tls_local_exclude_set
        self.identity = getattr(public.DispatchKeySet, "raw_repr", repr)  # Releases before 2.4 have no number.
        below = public._dispatch_keyset_full_after(public.DispatchKey.BackendSelect)
        self.below = below - public.DispatchKeySet(public.DispatchKey.PythonDispatcher)

    def makes_values(self):
        """True for an operator that writes values, and does not only show a tensor in another way."""
        schema = self.overload._schema
        is_view = any(value.alias_info is not None and not value.alias_info.is_write for value in schema.returns)
        makes = bool(self.written) or any("Tensor" in str(value.type) for value in schema.returns)
        return makes and not is_view and self.base not in NO_VALUES

    def is_on_host(self):
        """True for an operator that the host has as well."""
        has = self.engine.torch._C._dispatch_has_kernel_for_dispatch_key
        keys = ("CPU", "CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional")
        return self.base in host.OPERATORS or any(has(self.name, key) for key in keys)

    def call_for(self, keys):
        """The operator's function for a set of dispatch keys, and True if the rule is about its tensors on a device."""
        import functools

        public = self.engine.torch._C
        key = (keys & self.below).highestPriorityTypeId()
        composites = (
            "CompositeExplicitAutogradNonFunctional",
            "CompositeExplicitAutograd",
            "CompositeImplicitAutograd",
        )
        for name in (key.name, *composites):
            if public._dispatch_has_kernel_for_dispatch_key(self.name, name):
                call = functools.partial(self.overload._op_dk, getattr(public.DispatchKey, name))
                return call, key.name == KEY or (key.name in SPARSE_KEYS and self.base in SPARSE)
        raise NotImplementedError(f"Could not run '{self.name}' with arguments from the '{key.name}' backend.")

    def plan(self, *arguments, **named):
        """The function to call with these arguments, what to call with its result, and the arguments without names."""
        if self.of_numbers:
            arguments = self.as_tensors(arguments)
        tensors = flatten(arguments)
        if named:
            tensors += flatten(named.values())
        keys = self.included()
        if self.makes:
            keys = keys | self.keys_of_made(named.get("device"))
        for tensor in tensors:
            keys = keys | self.keys_of(tensor)
        keys = keys - self.excluded()
        known = self.calls.get(self.identity(keys))
        if known is None:
            known = self.calls[self.identity(keys)] = self.call_for(keys)
        call, on_device = known
        if not on_device:
            return call, None, arguments
        try:
            return call, self.work(arguments, named, tensors), arguments
        except Exception:  # Whatever it is, the operator runs, and its results are not known.
            if os.environ.get("PTMEM_SIMULATE_DEBUG"):
                import traceback

                traceback.print_exc()
            for tensor in self.written_of(arguments, named):
                self.engine.store(tensor, None, ABSENT)
            return call, follow(self, arguments, named, tensors), arguments

    def as_tensors(self, arguments):
        """Numbers that are passed for tensors as the tensors that they were: Python gets them as numbers."""
        torch = self.engine.torch
        for place in self.of_numbers:
            if place < len(arguments) and isinstance(arguments[place], (bool, int, float, complex)):
                other = next((value for value in arguments if isinstance(value, TENSOR)), None)
                number = arguments[place]
                kind = None if other is None else torch.result_type(other, number)
                arguments = (
                    *arguments[:place],
                    torch.tensor(number, dtype=kind, device="cpu"),
                    *arguments[place + 1 :],
                )
        return arguments

    def keys_of_made(self, device):
        """Dispatch keys of the tensor that an operator makes."""
        torch = self.engine.torch
        kind = "cpu" if device is None else torch.device(device).type
        return torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, {"meta": "Meta"}.get(kind, kind.upper())))

    def bound(self, arguments, named):
        """All arguments by name."""
        values = dict(self.arguments)
        values.update(zip((name for name, _ in self.arguments), arguments))
        values.update(named)
        return values

    def written_of(self, arguments, named):
        """Tensors that are written, for operators without a result."""
        if not self.written:
            return []
        values = self.bound(arguments, named)
        return flatten(values[self.arguments[index][0]] for index in self.written)

    def work(self, arguments, named, tensors):
        engine = self.engine
        if engine.thread.on_host or engine.torch._C._cuda_isCurrentStreamCapturing():
            return None
        with OnHost(engine):
            return self.rule(self, arguments, named, tensors)
