"""Computes on the host what PyTorch's operators write to a simulated GPU, where their operands are small and known.

Each operator runs as on a GPU, for what it allocates. Its results then get the values that PyTorch's own operator for
the host gives, and sizes that it reads from the device are those of these results. `ptmem_simulate_calls` says which
operators and how exactly, `ptmem_simulate_operators` what is supposed where the operands are not known.
"""

import ctypes
import os
import threading
import warnings

import ptmem_simulate_guesses as guesses

# Certainty of values, as the library counts it. Assumed and never written values are not known.
KNOWN, DOUBTFUL, SUPPOSED, ABSENT = range(4)
# What a program can do with values that are not known.
SIZE, CONDITION, NUMBER = range(3)
# Most bytes of a tensor that is computed: as many as the library keeps of a copy.
LARGEST = 1 << 20
# Most elements that are computed of values which are not set: positions and lengths, not tensors of data.
MOST_ABSENT = 1 << 10
# Operators that also take numbers for tensors where Python calls them.
TAKES_NUMBERS = frozenset(("add", "sub", "mul", "div"))
# Elements that the values of a larger tensor can repeat: thousandths of its elements pass a condition.
PERIOD = 1000
# Operators for all devices at once that end in a kernel or a copy.
COMPOSITE = frozenset(
    (
        "aten::copy_",
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
        self.read = self.find("read", None, place, size, place, place)
        self.write = self.find("write", None, place, size, place, number)
        self.write_each = self.find("write_each", None, place, size, place, place)
        self.repeat = self.find("repeat", None, place, size, place, size, number)
        self.period = self.find("period", number, place, size, size, place)
        self.doubt = self.find("doubt", None, place, size)
        self.begin = self.find("begin", ctypes.c_int64, ctypes.c_int64)
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

    def without_frame(self, plan):
        """A function that runs what `plan` plans and leaves no frame of Python in recorded stacks."""
        return self.make(ctypes.byref(self.method), plan, None)


def share_to_keep():
    """Share of the elements that pass conditions which are not known (`--keep`)."""
    pairs = (pair.partition("=") for pair in os.environ.get("PTMEM_SIMULATE", "").split(";"))
    return next((int(value) / 100 for name, _, value in pairs if name == "keep"), 0.5)


def flatten(values):
    """The tensors in arguments or results, as a list."""
    found = []
    for value in values:
        if isinstance(value, TENSOR):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found.extend(flatten(value))
    return found


class Repeated:
    """Values of a large tensor: these over and over."""

    def __init__(self, values):
        self.values = values


class Work:
    """An operator that runs: what its results get at the end."""

    __slots__ = ("answer", "earlier", "earlier_answer", "engine", "overwrites", "results", "trust", "written")

    def __init__(self, engine, results, trust, answer, written, overwrites=False):
        self.engine, self.results, self.trust, self.answer, self.written = engine, results, trust, answer, written
        self.overwrites = overwrites
        thread = engine.thread
        self.earlier_answer = thread.answer
        if answer is not None:
            thread.answer = answer
        thread.depth += 1
        self.earlier = engine.library.begin(-1 if thread.answer is None else thread.answer)

    def __call__(self, *result):
        thread = self.engine.thread
        thread.depth -= 1
        thread.answer = self.earlier_answer
        self.engine.library.end(self.earlier)
        if not result:
            return
        real = flatten(result) or self.written
        results = self.results or [None] * len(real)
        trusts = self.trust if isinstance(self.trust, list) else [self.trust] * len(real)
        for place, values, trust in zip(real, results, trusts):
            self.engine.store(place, values, trust, self.overwrites)


class PerThread(threading.local):
    """Nested operators of a thread, and the size that the outer one announced."""

    depth = 0
    answer = None


class Engine:
    """The values of all operators."""

    def __init__(self, torch):
        global TENSOR
        TENSOR = torch.Tensor
        self.torch = torch
        self.library = Library()
        self.thread = PerThread()
        self.keep = share_to_keep()
        self.libraries = []
        self.guesses = guesses.Guesses()
        self.folder = os.path.dirname(os.path.abspath(__file__))
        self.prefixes = (self.folder + os.sep, os.path.dirname(os.path.abspath(torch.__file__)) + os.sep)

    def install(self, namespace, rules):
        """Puts a function before all operators of a namespace that have a rule."""
        public = self.torch._C
        library = self.torch.library.Library(namespace, "IMPL")
        self.libraries.append(library)
        start = namespace + "::"
        for name in public._dispatch_get_all_op_names():
            base, _, overload = name[len(start) :].partition(".")
            rule = rules.get(base) or rules.get(base.rstrip("_")) if name.startswith(start) else None
            on_device = name in COMPOSITE or public._dispatch_has_kernel_for_dispatch_key(name, "CUDA")
            if rule is None or not on_device or name in TAKES_NUMBERS_OF_DEVICE:
                continue
            if public._dispatch_has_kernel_for_dispatch_key(name, "BackendSelect") and base not in MAKERS:
                continue  # It makes a tensor, and another operator fills it.
            packet = getattr(getattr(self.torch.ops, namespace), base)
            operator = Operator(self, name, getattr(packet, overload or "default"), rule)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # Of the makers, which have such a function.
                library.impl(name[len(start) :], self.library.without_frame(operator.plan), "BackendSelect")

    def span(self, tensor):
        """Elements from the first to the last of a tensor."""
        if tensor.numel() == 0:
            return 0
        return 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))

    def trust(self, tensor):
        """Certainty of the least certain element."""
        if tensor.is_contiguous():
            size = tensor.numel() * tensor.element_size()
            return self.library.trust(tensor.data_ptr(), size) if size else KNOWN
        return self.read(tensor)[1]

    def read(self, tensor):
        """A tensor of the host with the same elements in the same places, and their certainty."""
        torch, size = self.torch, tensor.element_size()
        span = self.span(tensor)
        if span == 0:
            return torch.empty(tensor.shape, dtype=tensor.dtype), KNOWN
        values = torch.empty(span * size, dtype=torch.uint8)
        trusts = torch.empty(span * size, dtype=torch.uint8)
        self.library.read(tensor.data_ptr(), span * size, values.data_ptr(), trusts.data_ptr())
        strides = tensor.stride()
        trust = trusts.view(span, size).amax(1).as_strided(tensor.shape, strides).max().item()
        return values.view(tensor.dtype).as_strided(tensor.shape, strides), trust

    def period(self, tensor):
        """The first elements of a tensor, which the others repeat, and their certainty; ABSENT if they do not."""
        torch, size, span = self.torch, tensor.element_size(), self.span(tensor)
        values = torch.empty(min(PERIOD, span) * size, dtype=torch.uint8)
        trust = self.library.period(tensor.data_ptr(), span * size, PERIOD * size, values.data_ptr())
        values = values.view(tensor.dtype)
        if trust == ABSENT and span * size <= LARGEST and tensor.is_contiguous():
            every, trust = self.read(tensor)
            values = every.view(-1)[:PERIOD]
            if not torch.equal(every.view(-1)[PERIOD:], every.view(-1)[:-PERIOD]):
                trust = ABSENT
        if trust != ABSENT and span and torch.equal(values, values[:1].expand(len(values))):
            return values[:1], trust
        return values, trust if span == tensor.numel() else ABSENT

    def store(self, place, values, trust, overwrites=False):
        """Gives a tensor on the device values, or notes that it has others, which are not known, or may have."""
        if not place.is_cuda or place.layout is not self.torch.strided:
            return
        repeated = isinstance(values, Repeated)
        if values is not None and not repeated and values.numel() != place.numel() and not self.thread.depth:
            self.followed(SIZE)  # The operator found its size in another way than by what it was told.
        if place.numel() == 0:
            return
        at, size = place.data_ptr(), place.element_size()
        if repeated and self.span(place) == place.numel():
            bytes_of_one = values.values.to(place.dtype).contiguous()
            period = bytes_of_one.numel() * size
            self.library.repeat(at, place.numel() * size, bytes_of_one.data_ptr(), period, trust)
        elif values is None or repeated or values.shape != place.shape or values.dtype != place.dtype:
            if overwrites and place.is_contiguous():
                self.library.write(at, place.numel() * size, 0, ABSENT)
            else:
                self.library.doubt(at, self.span(place) * size)
        elif place.is_contiguous():
            values = values.contiguous()
            self.library.write(at, values.numel() * size, values.data_ptr(), trust)
        else:
            self.store_apart(place, values, trust)

    def store_apart(self, place, values, trust):
        """The same for elements that are not contiguous: the bytes between them are kept."""
        torch, size, span = self.torch, place.element_size(), self.span(place)
        around = torch.empty(span * size, dtype=torch.uint8)
        trusts = torch.empty(span * size, dtype=torch.uint8)
        at = place.data_ptr()
        self.library.read(at, span * size, around.data_ptr(), trusts.data_ptr())
        around.view(place.dtype).as_strided(place.shape, place.stride()).copy_(values)
        strides = [stride * size for stride in place.stride()]
        trusts.as_strided((*place.shape, size), (*strides, 1)).fill_(trust)
        self.library.write_each(at, span * size, around.data_ptr(), trusts.data_ptr())

    def followed(self, kind):
        """Notes that something followed from values that are not known, and in which line of the program."""
        place = guesses.Place.current(*self.prefixes)
        if place.is_text() or (kind == CONDITION and place.is_guard()):
            return
        self.library.followed(kind)
        if self.guesses.add(kind, place) == 1:
            try:
                path = os.path.join(self.folder, f"first_{kind}")
                with open(path, "x", encoding="utf-8") as file:
                    file.write(place.line_text())
            except OSError:
                pass  # Another process was first.


class Operator:
    """An operator of PyTorch, with the rule for its values."""

    def __init__(self, engine, name, overload, rule):
        self.engine, self.name, self.rule, self.overload = engine, name, rule, overload
        self.base = overload._schema.name.split("::")[1].rstrip("_")
        self.arguments = [(argument.name, argument.default_value) for argument in overload._schema.arguments]
        self.written = [
            index
            for index, argument in enumerate(overload._schema.arguments)
            if argument.alias_info is not None and argument.alias_info.is_write
        ]
        types = enumerate(str(argument.type) for argument in overload._schema.arguments)
        self.of_numbers = [] if self.base in TAKES_NUMBERS else [place for place, kind in types if kind == "Tensor"]
        self.makes = self.base in MAKERS
        self.calls = {}
        public = engine.torch._C
        self.keys_of = public._dispatch_keys
        self.included = public._dispatch_tls_local_include_set
        self.excluded = public._dispatch_tls_local_exclude_set
        self.identity = getattr(public.DispatchKeySet, "raw_repr", repr)  # Releases before 2.4 have no number.
        below = public._dispatch_keyset_full_after(public.DispatchKey.BackendSelect)
        self.below = below - public.DispatchKeySet(public.DispatchKey.PythonDispatcher)

    def call_for(self, keys):
        """The operator's function for a set of dispatch keys, and True if it is that of plain tensors on a device."""
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
                return call, key == public.DispatchKey.CUDA
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
            return call, Work(self.engine, None, SUPPOSED, None, self.written_of(arguments, named)), arguments

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
        values = self.bound(arguments, named)
        return flatten(values[self.arguments[index][0]] for index in self.written)

    def work(self, arguments, named, tensors):
        torch = self.engine.torch
        if torch._C._cuda_isCurrentStreamCapturing():
            return None
        with torch._C.DisableTorchFunction():
            return self.rule(self, arguments, named, tensors)
