"""One rank of a job whose other ranks do not exist: the store of the job, Gloo, and what only another rank knows.

Every other rank says what this one says. Where that is no answer, it is what `--peer-value` gives, or what the other
rank said in a run of its own before; else this rank's own value stays, and the place is told at the end.
"""

import ast
import contextlib
import fnmatch
import os
import re
import sys
import time

from ptmem_simulate_ranks import ObjectExchange

HERE = os.path.dirname(os.path.abspath(__file__))
# Bytes of the identity of a communicator of NCCL's.
NCCL_IDENTITY = 128
# Elements of a tensor of whole numbers that steers a program: a flag, a size, a shape.
MOST_ELEMENTS = 1024
NUMBER = re.compile(r"\d+")


def stand_for_peers(torch):
    """Answers for the ranks that do not exist, if this PyTorch has ranks."""
    import torch.distributed as public

    if not public.is_available():
        return
    import torch.distributed.distributed_c10d as c10d

    peers = Peers(public)
    answer_at_stores(public, c10d, peers)
    answer_as_gloo(public, c10d)
    Steering(torch, public, c10d, peers).install()
    LoneExchange(torch, public, peers).install()


class Peers:
    """Values of other ranks: from `--peer-value`, otherwise from their own earlier runs, otherwise unknown."""

    def __init__(self, public):
        self.public = public
        self.rank = int(os.environ.get("RANK", "0"))
        self.given = [line.split("=", 1) for line in os.environ.get("PTMEM_SIMULATE_PEER_VALUES", "").splitlines()]
        self.folder = os.environ.get("PTMEM_SIMULATE_SAID")
        self.rounds = {}
        self.quiet = False

    @contextlib.contextmanager
    def within_an_exchange(self):
        """What moves meanwhile is part of something larger, for which there is one answer."""
        before, self.quiet = self.quiet, True
        try:
            yield
        finally:
            self.quiet = before

    def round(self, *place):
        """Number of this exchange among those at its place, which is the same in all ranks that take part."""
        self.rounds[place] = self.rounds.get(place, -1) + 1
        return self.rounds[place]

    def override(self, *names):
        """The value of `--peer-value` for one of some names, in a list; None if not given."""
        for pattern, text in self.given:
            if any(fnmatch.fnmatchcase(name, pattern) for name in names):
                try:
                    return [ast.literal_eval(text)]
                except (SyntaxError, ValueError):
                    return [text]
        return None

    def path(self, sender, place):
        import hashlib

        return os.path.join(self.folder, str(sender), hashlib.sha1(repr(place).encode()).hexdigest())

    def say(self, place, value):
        """Keeps what this rank says for ranks that run later."""
        import pickle

        if self.folder is None:
            return
        path = self.path(self.rank, place)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        try:
            with open(path + ".part", "wb") as file:
                pickle.dump(value, file)
        except Exception:  # An object that cannot be sent is told by the function that sends it.
            return
        os.rename(path + ".part", path)

    def heard(self, sender, place):
        """The value that an earlier rank sent, in a list; None if nothing was sent."""
        import pickle

        before = os.environ.get("PTMEM_SIMULATE_RANKS_BEFORE", "").split(",")
        if self.folder is None or str(sender) not in before:
            return None
        path, ended = self.path(sender, place), os.path.join(self.folder, f"{sender}.ended")
        while not os.path.exists(path):
            if os.path.exists(ended):
                return None
            time.sleep(0.02)
        with open(path, "rb") as file:
            return [pickle.load(file)]

    def answer(self, kind, sender, place):
        """The value that a rank sends here, in a list; None if unknown, which is reported at the end."""
        name, where = caller()
        found = self.override(name, name.rpartition(".")[2]) or self.heard(sender, place)
        if found is None:
            self.tell(f"{kind} from rank {sender} in {name} ({where})")
        return found

    def tell(self, line):
        with open(os.path.join(HERE, "peers"), "a", encoding="utf-8") as file:
            file.write(line + "\n")


def caller():
    """Name of the innermost function outside PyTorch's package for ranks and of these files, and its place."""
    frame = sys._getframe(1)
    inside = os.path.join("torch", "distributed") + os.sep
    while frame.f_back is not None:
        file = frame.f_code.co_filename
        if inside not in file and os.path.dirname(file) != HERE:
            break
        frame = frame.f_back
    code = frame.f_code
    return getattr(code, "co_qualname", code.co_name), f"{os.path.basename(code.co_filename)}:{frame.f_lineno}"


def answer_at_stores(public, c10d, peers):
    """Puts a store in the place of those that connect to rank 0, or share a file with other ranks."""
    import importlib

    # Not `import`: the package has a function of that name.
    rendezvous = importlib.import_module("torch.distributed.rendezvous")
    kept = {}
    stores = []

    class LoneStore(public.Store):
        """The store of a job as one rank sees it: nobody is waited for.

        A key that this rank has not set reads as the one that it set which differs in the fewest numbers: the same,
        said of itself.
        """

        def __init__(self, host="localhost", port=0, *_, **__):
            super().__init__()
            self.host, self.port = host, port
            stores.append(self)  # PyTorch holds the store, but not the part of it that is Python's.

        def set(self, key, value):
            kept[key] = value.encode() if isinstance(value, str) else bytes(value)

        def get(self, key):
            if key in kept:
                return kept[key]
            found = peers.override(key)
            if found is not None:
                return str(found[0]).encode()
            if "cuda//" in key:
                return bytes(NCCL_IDENTITY)
            like = most_like(key, kept)
            if like is None:
                peers.tell(f"key '{key}' of the store")
                return b""
            return kept[like]

        def add(self, key, number):
            total = int(kept.get(key, b"0")) + number
            kept[key] = str(total).encode()
            return total

        def check(self, keys):
            return all(key in kept for key in keys)

        def wait(self, keys, timeout=None):
            pass

        def compare_set(self, key, expected, wanted):
            if key not in kept or kept[key] in (expected, str(expected).encode()):
                self.set(key, wanted)
            return kept[key]

        def delete_key(self, key):
            return kept.pop(key, None) is not None

        def num_keys(self):
            return len(kept)

        def set_timeout(self, timeout):
            pass

    for module in (public, c10d, rendezvous):
        for name in ("TCPStore", "FileStore"):
            if hasattr(module, name):
                setattr(module, name, LoneStore)
    # A thread of NCCL's would ask the store each second, also when Python has ended.
    for watch in ("TORCH_NCCL_ENABLE_MONITORING", "TORCH_NCCL_DUMP_ON_TIMEOUT", "TORCH_NCCL_PROPAGATE_ERROR"):
        os.environ.setdefault(watch, "0")


def most_like(key, keys):
    """The key that differs from one in the fewest numbers and in nothing else, the last of them. None without any."""
    shape, numbers = NUMBER.sub("#", key), NUMBER.findall(key)
    best = None
    fewest = len(numbers) + 1
    for other in keys:
        if NUMBER.sub("#", other) != shape:
            continue
        differing = sum(mine != theirs for mine, theirs in zip(numbers, NUMBER.findall(other)))
        if differing <= fewest:
            best, fewest = other, differing
    return best


def answer_as_gloo(public, c10d):
    """Puts PyTorch's backend without peers in the place of Gloo, which connects to every peer."""
    import torch._C._distributed_c10d as bindings

    alone = getattr(bindings, "FakeProcessGroup", None)
    if alone is None or not hasattr(c10d, "ProcessGroupGloo"):
        return
    make = getattr(alone, "_create_internal", alone)  # a constructor before 2.9
    gloo = c10d.ProcessGroupGloo
    alone._set_sequence_number_for_group = lambda self: None  # Gloo has numbers, this one has none.
    alone._set_default_timeout = lambda self, timeout: None  # Nor does it wait for anybody.

    class Kind(type):
        def __call__(cls, store, rank, size, *_, **__):
            return make(rank, size)

        def __instancecheck__(cls, thing):
            return isinstance(thing, (alone, gloo))

    class ProcessGroupGloo(metaclass=Kind):
        """Gloo for one rank."""

        Options = getattr(gloo, "Options", None)

    for module in (public, c10d):
        module.ProcessGroupGloo = ProcessGroupGloo
    if hasattr(c10d, "_create_process_group_wrapper"):  # for TORCH_DISTRIBUTED_DEBUG=DETAIL
        c10d._create_process_group_wrapper = lambda wrapped_pg, *_, **__: wrapped_pg
    for module in (public, c10d):
        if hasattr(module, "monitored_barrier"):
            module.monitored_barrier = lambda *_, **__: None


class Steering:
    """Small tensors of whole numbers that one rank sends others: flags, sizes and shapes, by which programs decide."""

    def __init__(self, torch, public, c10d, peers):
        self.torch = torch
        self.public = public
        self.c10d = c10d
        self.peers = peers
        names = ("broadcast", "send", "isend", "recv", "irecv", "batch_isend_irecv")
        self.originals = {name: getattr(c10d, name) for name in names}

    def install(self):
        """Puts the functions in the place of PyTorch's."""
        for name in self.originals:
            function = getattr(self, name)  # one object, by which PyTorch tells sends from receives
            for module in (self.c10d, self.public):
                setattr(module, name, function)

    def steers(self, tensor):
        if self.peers.quiet:
            return False
        number = not (tensor.is_floating_point() or tensor.is_complex())
        # Bytes are packed objects, or the state of a generator.
        return number and tensor.dtype != self.torch.uint8 and tensor.numel() <= MOST_ELEMENTS

    def ranks_of(self, group):
        return tuple(self.public.get_process_group_ranks(group or self.c10d._get_default_group()))

    def source(self, group, rank, rank_of_group):
        return rank if rank_of_group is None else self.ranks_of(group)[rank_of_group]

    def say(self, place, tensor):
        if self.peers.folder is not None:
            self.peers.say(place, tensor.tolist())

    def fill(self, kind, sender, place, tensor):
        """Writes what a rank sends into a tensor. Nothing is allocated on the device."""
        found = self.peers.answer(kind, sender, place)
        if found is not None:
            values = self.torch.tensor(found[0], dtype=tensor.dtype, device="cpu")
            tensor.copy_(values if values.numel() == 1 else values.reshape(tensor.shape))

    def broadcast(self, tensor, src=None, group=None, async_op=False, group_src=None):
        options = {} if group_src is None else {"group_src": group_src}
        done = self.originals["broadcast"](tensor, src, group, async_op, **options)
        if not self.c10d._rank_not_in_group(group) and self.steers(tensor):
            ranks, source = self.ranks_of(group), self.source(group, src or 0, group_src)
            place = ("broadcast", ranks, source, self.peers.round("broadcast", ranks, source))
            if source == self.peers.rank:
                self.say(place, tensor)
            else:
                self.fill("broadcast", source, place, tensor)
        return done

    def transfer(self, sends, tensor, peer):
        if peer is None or not self.steers(tensor):
            return
        sender, receiver = (self.peers.rank, peer) if sends else (peer, self.peers.rank)
        place = ("send", sender, receiver, self.peers.round("send", sender, receiver))
        if sends:
            self.say(place, tensor)
        else:
            self.fill("message", sender, place, tensor)

    def one_way(self, name, tensor, peer, group, rest, options):
        done = self.originals[name](tensor, peer, group, *rest, **options)
        number = options.get("group_dst", options.get("group_src"))
        self.transfer("send" in name, tensor, self.source(group, peer, number))
        return done

    def send(self, tensor, dst=None, group=None, *rest, **options):
        return self.one_way("send", tensor, dst, group, rest, options)

    def isend(self, tensor, dst=None, group=None, *rest, **options):
        return self.one_way("isend", tensor, dst, group, rest, options)

    def recv(self, tensor, src=None, group=None, *rest, **options):
        return self.one_way("recv", tensor, src, group, rest, options)

    def irecv(self, tensor, src=None, group=None, *rest, **options):
        return self.one_way("irecv", tensor, src, group, rest, options)

    def batch_isend_irecv(self, operations):
        with self.peers.within_an_exchange():
            done = self.originals["batch_isend_irecv"](operations)
        for operation in operations:
            self.transfer("isend" in operation.op.__name__, operation.tensor, operation.peer)
        return done


def derive_gradients(stages):
    """Has a stage of a pipeline know the metadata of its outputs' gradients.

    From 2.15 on the next stage sends it, which may run later. It is that of the outputs, as PyTorch itself derives it
    where nothing is sent.
    """
    base = getattr(stages, "PipelineStage", None)
    receive, derive = getattr(base, "_recv_meta", None), getattr(stages, "_derive_grad_metas", None)
    if receive is None or derive is None:
        return

    def receive_or_derive(self, source):
        if source == self.stage_index + 1 and self._stage_meta.outputs is not None:
            LoneExchange.derived = [stages._StageBackwardMeta(backward_metas=derive(self._stage_meta.outputs))]
        try:
            return receive(self, source)
        finally:
            LoneExchange.derived = None

    base._recv_meta = receive_or_derive


class LoneExchange(ObjectExchange):
    """Python objects that the other ranks would send: those of this rank, and what only a peer knows from `Peers`."""

    #: The objects of the exchange under way, where this rank can derive them.
    derived = None

    def __init__(self, torch, public, peers):
        super().__init__(torch, public)
        self.peers = peers
        self.ranks = {}

    def wait_for_all(self):
        pass

    def sends_itself(self, group, device):
        return False

    def store_of(self, group, *ends, device=None):
        found = super().store_of(group, *ends, device=device)
        if found is None:
            return None
        ranks = self.public.get_process_group_ranks(group or self.c10d._get_default_group())
        return ranks, found[1]

    def send(self, found, rank, objects):
        ranks, name = found
        self.peers.say(("objects", tuple(ranks), name, ranks[rank]), objects)

    def run_original(self, *arguments, **options):
        with self.peers.within_an_exchange():
            return super().run_original(*arguments, **options)

    def take(self, *arguments):
        with self.peers.within_an_exchange():
            return super().take(*arguments)

    def send_object_list(self, *arguments, **options):
        with self.peers.within_an_exchange():
            return super().send_object_list(*arguments, **options)

    def gathered(self, found, group, obj):
        import pickle

        self.send(found, self.public.get_rank(group), [obj])
        packed = pickle.dumps(obj)
        return [packed] * len(found[0])

    def receive(self, found, rank, held=()):
        import pickle

        ranks, name = found
        sender = ranks[rank]
        objects = list(held)
        place = ("objects", tuple(ranks), name, sender)
        if self.derived is not None:
            heard = self.peers.heard(sender, place)
            objects = heard[0] if heard is not None else self.derived
        elif sender != self.peers.rank:
            answer = self.peers.answer("object", sender, place)
            if answer is not None:
                fits = isinstance(answer[0], list) and len(answer[0]) == len(objects)
                objects = answer[0] if fits else answer * len(objects)
        return [pickle.dumps(thing) for thing in objects]
