"""Small values that ranks of a job send each other: the simulated NCCL moves none.

What is known on the rank that sends it goes over the store of the job, up to 1 MiB: by broadcast, all-gather, messages,
and reductions of whole numbers, also by those that return what they make. What is not known there is not known here
either. Functions of PyTorch's allocate what they allocated before.
"""

import contextlib
import datetime
import functools
import pickle

from ptmem_simulate_calls import Call
from ptmem_simulate_operators import ENGINES
from ptmem_simulate_values import KNOWN, SMALL

# Reductions of whole numbers, as functions of tensors.
REDUCTIONS = {"sum": "sum", "max": "amax", "min": "amin"}

# Seconds that a rank waits for a value of another.
LONGEST_WAIT = 120


class Received:
    """The work of a message, whose value is there once the program has waited for it."""

    def __init__(self, work, fill):
        self.work, self.fill = work, fill

    def wait(self, *arguments, **options):
        done = self.work.wait(*arguments, **options)
        fill, self.fill = self.fill, None
        if fill is not None:
            fill()
        return done

    def __getattr__(self, name):
        return getattr(self.work, name)


class ValueExchange:
    """Functions of PyTorch's that move tensors between ranks, with what they move."""

    NAMES = (
        "broadcast",
        "all_reduce",
        "all_gather",
        "all_gather_into_tensor",
        "send",
        "recv",
        "isend",
        "irecv",
        "batch_isend_irecv",
    )

    def __init__(self, torch, public):
        import torch.distributed.distributed_c10d as c10d

        self.torch = torch
        self.public = public
        self.c10d = c10d
        self.rounds = {}
        self.quiet = False
        self.originals = {name: getattr(c10d, name) for name in self.NAMES if hasattr(c10d, name)}

    def install(self):
        """Puts the functions in the place of PyTorch's."""
        for name in self.originals:
            function = getattr(self, name)  # one object, by which PyTorch tells sends from receives
            for module in (self.c10d, self.public):
                setattr(module, name, function)
        names = ("all_reduce", "all_gather_into_tensor", "broadcast")
        ENGINES[0].install("_c10d_functional", dict.fromkeys(names, self.functional))

    @contextlib.contextmanager
    def alone(self):
        """Lets functions of PyTorch's call each other as before."""
        before, self.quiet = self.quiet, True
        try:
            yield
        finally:
            self.quiet = before

    def run(self, name, *arguments, **options):
        with self.alone():
            return self.originals[name](*arguments, **options)

    def moves(self, group, *tensors):
        """True if values go over the store. All ranks of the group find the same."""
        if self.quiet or not ENGINES or self.c10d._rank_not_in_group(group):
            return False
        fits = (tensor.is_cuda and tensor.numel() * tensor.element_size() <= SMALL for tensor in tensors)
        return all(fits) and not self.torch.cuda.is_current_stream_capturing()

    def ranks_of(self, group):
        return tuple(self.public.get_process_group_ranks(group or self.c10d._get_default_group()))

    def place(self, *exchange):
        """The name of an exchange: the same on all ranks that take part, and another one each time."""
        self.rounds[exchange] = self.rounds.get(exchange, -1) + 1
        return "/".join(map(str, ("ptmem/sent", *exchange, self.rounds[exchange])))

    def say(self, place, tensor):
        """Sends the values of a tensor, or that they are not known."""
        known = ENGINES[0].trust(tensor) == KNOWN
        said = ENGINES[0].read(tensor).contiguous().tolist() if known else None
        self.c10d._get_default_store().set(f"{place}/{self.public.get_rank()}", pickle.dumps(said))

    def hear(self, place, sender, like):
        """The values that a rank sent, on the host; None if it did not know them."""
        store, key = self.c10d._get_default_store(), f"{place}/{sender}"
        try:
            store.wait([key], datetime.timedelta(seconds=LONGEST_WAIT))
            said = pickle.loads(store.get(key))
        except RuntimeError:  # The rank has failed, or its store has gone.
            return None
        return None if said is None else self.torch.tensor(said, dtype=like.dtype, device="cpu").reshape(like.shape)

    def fill(self, place, sender, tensor):
        values = self.hear(place, sender, tensor)
        if values is not None:
            ENGINES[0].store(tensor, values, KNOWN)

    def broadcast(self, tensor, src=None, group=None, async_op=False, group_src=None):
        options = {} if group_src is None else {"group_src": group_src}
        done = self.run("broadcast", tensor, src, group, async_op, **options)
        if self.moves(group, tensor):
            ranks = self.ranks_of(group)
            source = ranks[group_src] if group_src is not None else src or 0
            place = self.place("broadcast", ranks, source)
            if source == self.public.get_rank():
                self.say(place, tensor)
            else:
                self.fill(place, source, tensor)
        return done

    def all_reduce(self, tensor, op=None, group=None, async_op=False):
        kinds = self.public.ReduceOp
        op = kinds.SUM if op is None else op
        kind = next((name for name in REDUCTIONS if op == getattr(kinds, name.upper())), None)
        place = None
        if self.reduces(kind, tensor) and self.moves(group, tensor):
            place = self.place("reduce", self.ranks_of(group))
            self.say(place, tensor)
        done = self.run("all_reduce", tensor, op, group, async_op)
        if place is not None:
            heard = [self.hear(place, rank, tensor) for rank in self.ranks_of(group)]
            if all(values is not None for values in heard):
                ENGINES[0].store(tensor, self.reduced(kind, heard), KNOWN)
        return done

    def reduces(self, kind, tensor):
        """True for reductions of whole numbers: those of others depend on the order of the ranks."""
        is_whole = not (tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == self.torch.bool)
        return is_whole and kind in REDUCTIONS

    def reduced(self, kind, heard):
        return getattr(self.torch.stack(heard), REDUCTIONS[kind])(0).to(heard[0].dtype)

    def functional(self, operator, arguments, named, tensors):
        """Values of a collective that returns what it makes: those of DTensor, and of compiled programs."""
        call = Call(operator, arguments, named, tensors)
        group = self.c10d._resolve_process_group(call.value("group_name"))
        tensor, kind, source = call.value("input"), call.value("reduce_op"), call.value("src")
        if not (kind is None or self.reduces(kind, tensor)) or not self.moves(group, tensor):
            return call.work()
        ranks = self.ranks_of(group)
        place = self.place(operator.base, ranks)
        self.say(place, tensor)
        heard = [self.hear(place, rank, tensor) for rank in (ranks if source is None else [ranks[source]])]
        if any(values is None for values in heard):
            return call.work()
        return call.work([self.torch.cat(heard) if kind is None else self.reduced(kind, heard)], KNOWN)

    def gather(self, name, given, tensor, parts, group, async_op):
        """Runs an all-gather of PyTorch's, and fills the part of each rank."""
        place = None
        if self.moves(group, tensor):
            place = self.place("gather", self.ranks_of(group))
            self.say(place, tensor)
        done = self.run(name, given, tensor, group, async_op)
        if place is not None:
            for rank, part in zip(self.ranks_of(group), parts):
                self.fill(place, rank, part)
        return done

    def all_gather(self, tensor_list, tensor, group=None, async_op=False):
        return self.gather("all_gather", tensor_list, tensor, tensor_list, group, async_op)

    def all_gather_into_tensor(self, output_tensor, input_tensor, group=None, async_op=False):
        count = 1 if self.c10d._rank_not_in_group(group) else len(self.ranks_of(group))
        parts = output_tensor.detach().reshape(count, *input_tensor.shape).unbind(0) if count > 1 else ()
        return self.gather("all_gather_into_tensor", output_tensor, input_tensor, parts, group, async_op)

    def peer(self, group, rank, options):
        """The number of the other rank of a message in the whole job; None for any."""
        of_group = options.get("group_dst", options.get("group_src"))
        return rank if of_group is None else self.ranks_of(group)[of_group]

    def post(self, tensor, peer, group):
        if peer is not None and self.moves(group, tensor):
            self.say(self.place("message", self.public.get_rank(), peer), tensor)

    def expect(self, tensor, peer, group):
        """A function that fills a tensor with the message of a peer; None if nothing is sent."""
        if peer is None or not self.moves(group, tensor):
            return None
        return functools.partial(self.fill, self.place("message", peer, self.public.get_rank()), peer, tensor)

    def send(self, tensor, dst=None, group=None, *rest, **options):
        self.post(tensor, self.peer(group, dst, options), group)
        return self.run("send", tensor, dst, group, *rest, **options)

    def isend(self, tensor, dst=None, group=None, *rest, **options):
        self.post(tensor, self.peer(group, dst, options), group)
        return self.run("isend", tensor, dst, group, *rest, **options)

    def recv(self, tensor, src=None, group=None, *rest, **options):
        fill = self.expect(tensor, self.peer(group, src, options), group)
        done = self.run("recv", tensor, src, group, *rest, **options)
        if fill is not None:
            fill()
        return done

    def irecv(self, tensor, src=None, group=None, *rest, **options):
        fill = self.expect(tensor, self.peer(group, src, options), group)
        work = self.run("irecv", tensor, src, group, *rest, **options)
        return work if fill is None or work is None else Received(work, fill)

    def batch_isend_irecv(self, operations):
        fills = []
        for operation in operations:
            exchange = self.post if "isend" in operation.op.__name__ else self.expect
            fills.append(exchange(operation.tensor, operation.peer, operation.group))
        works = self.run("batch_isend_irecv", operations)
        fills = [fill for fill in fills if fill is not None]
        if works and fills:
            works[-1] = Received(works[-1], lambda: [fill() for fill in fills])
        return works
