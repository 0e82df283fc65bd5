"""Answers that a rank asks other ranks for: the simulated NCCL moves no values between them.

Each function here replaces one of PyTorch's or of DeepSpeed's. What it allocates is what it allocated before.
"""

import sys
import time

# Seconds that a rank waits at its end for the others.
LONGEST_WAIT = 120
# Seconds in which NCCL's thread has looked at least once, on a busy machine too.
LONGEST_LOOK = 0.4


def exchange_objects(torch):
    """Has ranks exchange Python objects and small values through the store of their job, if this PyTorch has ranks."""
    import torch.distributed as public
    from ptmem_simulate_sent import ValueExchange

    if public.is_available():
        ObjectExchange(torch, public).install()
        ValueExchange(torch, public).install()


def tell_sizes_of_splits(torch):
    """Tells the library how many ranks a part of a group has: NCCL itself would ask all ranks of the group."""
    import ctypes

    import torch.distributed as public

    group = getattr(public, "ProcessGroup", None)
    split = getattr(group, "split_group", None)
    tell = getattr(ctypes.CDLL(None), "ptmem_simulate_split_into", None)
    if split is None or tell is None:
        return  # Older releases do not ask NCCL for the size.

    def split_group(self, ranks, *arguments, **options):
        tell(len(ranks))
        try:
            return split(self, ranks, *arguments, **options)
        finally:
            tell(0)

    group.split_group = split_group


class AsRank0:
    """A module of DeepSpeed's for ranks to talk to each other, in which this rank has the number 0."""

    def __init__(self, module):
        self.module = module

    def __getattr__(self, name):
        return getattr(self.module, name)

    def get_rank(self, *_):
        return 0


def agree_on_lists(utils):
    """Lets ranks of DeepSpeed find that they have the same lists: a broadcast does not bring the values of rank 0.

    As rank 0, each sends its own.
    """
    check = getattr(utils, "assert_ints_same_as_other_ranks", None)
    if check is None:
        return

    def assert_ints_same_as_other_ranks(ints):
        module = utils.dist
        utils.dist = AsRank0(module)
        try:
            return check(ints)
        finally:
            utils.dist = module

    utils.assert_ints_same_as_other_ranks = assert_ints_same_as_other_ranks


def settle_buckets(torch):
    """Gives NCCL's thread time to let go of the first buckets of DistributedDataParallel before there are new ones.

    It looks every 100 ms. A simulated step is shorter, so chance would decide which comes first. A real step is often
    longer.
    """
    from weakref import WeakKeyDictionary, WeakSet

    module = torch.nn.parallel.DistributedDataParallel
    prepare = getattr(module, "_pre_forward", None)
    if prepare is None:
        return
    synchronized, settled = WeakKeyDictionary(), WeakSet()

    def prepare_settled(self, *inputs, **options):
        steps = synchronized.get(self, 0)
        # In a static graph, the first step only finds the order of the second, which new buckets follow.
        if steps == 1 + self.static_graph and self not in settled:
            settled.add(self)
            time.sleep(LONGEST_LOOK)
        if torch.is_grad_enabled() and self.require_backward_grad_sync:
            synchronized[self] = steps + 1
        return prepare(self, *inputs, **options)

    module._pre_forward = prepare_settled


class ObjectExchange:
    """Lets ranks send each other Python objects through the store of their job: the simulated NCCL moves no values.

    The functions have the parameters of PyTorch's. Tensors are allocated as there, with the sizes of the true objects.
    """

    NAMES = (
        "all_gather_object",
        "gather_object",
        "broadcast_object_list",
        "scatter_object_list",
        "send_object_list",
        "recv_object_list",
        "destroy_process_group",
    )

    def __init__(self, torch, public):
        import torch.distributed.distributed_c10d as c10d

        self.torch = torch
        self.public = public
        self.c10d = c10d
        self.rounds = {}
        self.originals = {name: getattr(c10d, name) for name in self.NAMES if hasattr(c10d, name)}

    def install(self):
        """Puts the functions in the place of PyTorch's."""
        import atexit

        for name in self.originals:
            for module in (self.c10d, self.public):
                setattr(module, name, getattr(self, name))
        atexit.register(self.wait_at_exit)

    def wait_at_exit(self):
        """Waits for the other ranks, unless this one fails."""
        if self.public.is_initialized() and not hasattr(sys, "last_value"):
            self.wait_for_all()

    def destroy_process_group(self, group=None):
        if group in (None, self.public.GroupMember.WORLD) and self.public.is_initialized():
            self.wait_for_all()
        return self.originals["destroy_process_group"](group)

    def wait_for_all(self):
        """Waits until all ranks have come to their end: no collective does it, and one of them has the store."""
        if "nccl" not in str(self.c10d.get_backend()).lower():
            return
        store = self.c10d._get_default_store()
        name, ranks = "ptmem/ended", self.public.get_world_size()
        deadline = time.monotonic() + LONGEST_WAIT
        try:
            store.add(name, 1)
            while store.add(name, 0) % ranks and time.monotonic() < deadline:
                time.sleep(0.02)
        except RuntimeError:
            pass  # The rank that has the store has seen all others come, and has gone.

    def sends_itself(self, group, device):
        """True if a group sends the values of objects: over NCCL no values go, but groups can have Gloo as well."""
        names = ("_get_object_coll_device", "_get_pg_default_device", "_get_pg_device")
        choose = next((getattr(self.c10d, name) for name in names if hasattr(self.c10d, name)), None)
        if device is None and choose is not None:
            device = choose(group)
        if device is not None and self.torch.device(device).type != "cuda":
            return True
        return "nccl" not in str(self.c10d.get_backend(group)).lower()

    def store_of(self, group, *ends, device=None):
        """The store of a group and a name for this exchange; None where the group sends values itself, or is not ours.

        `ends` are the ranks between which it is, where not all take part; `device` is that of the values, if given.
        """
        if self.c10d._rank_not_in_group(group):
            return None
        group = group or self.c10d._get_default_group()
        if self.sends_itself(group, device):
            return None
        place = (group, *ends)
        count = self.rounds.setdefault(place, 0)
        self.rounds[place] += 1
        name = "/".join(map(str, ("ptmem", *ends, count)))
        if hasattr(self.c10d, "_get_process_group_store"):
            return self.c10d._get_process_group_store(group), name
        return self.c10d._world.pg_map[group][1], name

    def send(self, found, rank, objects):
        import pickle

        store, name = found
        store.set(f"{name}/{rank}", pickle.dumps([pickle.dumps(thing) for thing in objects]))

    def receive(self, found, rank, held=()):
        """The objects that a rank sent, each pickled. `held` are the present contents of the list."""
        import pickle

        store, name = found
        return pickle.loads(store.get(f"{name}/{rank}"))

    def rank_in_group(self, group, rank, rank_of_group):
        if rank_of_group is not None:
            return rank_of_group
        return self.public.get_group_rank(group, rank or 0) if group is not None else rank or 0

    def run_original(self, name, size, *arguments, **options):
        """Runs a function of PyTorch's for what it allocates, as if the object of each rank had this size."""
        c10d, torch = self.c10d, self.torch
        to_tensor, to_object = c10d._object_to_tensor, c10d._tensor_to_object

        def to_sized_tensor(*of_object):
            values, length = to_tensor(*of_object)
            if size is not None:
                length.copy_(torch.tensor([size], device="cpu"))
            return values, length

        c10d._object_to_tensor, c10d._tensor_to_object = to_sized_tensor, lambda *_: None
        try:
            return self.originals[name](*arguments, **options)
        finally:
            c10d._object_to_tensor, c10d._tensor_to_object = to_tensor, to_object

    def take(self, packed, device, move):
        """Allocates what a rank that receives a list does: PyTorch's function would ask the device for the sizes."""
        torch = self.torch
        device = device or torch.device("cuda", torch.cuda.current_device())
        sizes = torch.empty(len(packed), dtype=torch.long, device=device)
        move(sizes)
        torch.sum(sizes).item()
        values = torch.empty(sum(map(len, packed)), dtype=torch.uint8, device=device)
        move(values)
        offset = 0
        for size in sizes:
            values[offset : offset + size]
            offset += size

    def unpack(self, packed, object_list):
        import pickle

        object_list[:] = [pickle.loads(thing) for thing in packed]

    def gathered(self, found, group, obj):
        """The packed objects of all ranks of a group."""
        self.send(found, self.public.get_rank(group), [obj])
        return [self.receive(found, rank)[0] for rank in range(self.public.get_world_size(group))]

    def all_gather_object(self, object_list, obj, group=None, *rest, **options):
        found = self.store_of(group)
        if found is None:
            return self.originals["all_gather_object"](object_list, obj, group, *rest, **options)
        packed = self.gathered(found, group, obj)
        self.run_original("all_gather_object", max(map(len, packed)), object_list, obj, group, *rest, **options)
        self.unpack(packed, object_list)
        return None

    def gather_object(self, obj, object_gather_list=None, dst=None, group=None, *rest, **options):
        if dst is None and options.get("group_dst") is None:
            dst = 0
        arguments = (obj, object_gather_list, dst, group, *rest)
        found = self.store_of(group)
        if found is None:
            return self.originals["gather_object"](*arguments, **options)
        packed = self.gathered(found, group, obj)
        self.run_original("gather_object", max(map(len, packed)), *arguments, **options)
        if object_gather_list is not None:
            self.unpack(packed, object_gather_list)
        return None

    def broadcast_object_list(self, object_list, src=None, group=None, device=None, **options):
        if src is None and options.get("group_src") is None:
            src = 0
        found = self.store_of(group, device=device)
        if found is None:
            return self.originals["broadcast_object_list"](object_list, src, group, device, **options)
        source = self.rank_in_group(group, src, options.get("group_src"))
        if self.public.get_rank(group) == source:
            self.send(found, source, object_list)
            return self.run_original("broadcast_object_list", None, object_list, src, group, device, **options)
        packed = self.receive(found, source, object_list)
        of_source = {"group_src": source} if options.get("group_src") is not None else {"src": src}
        self.take(packed, device, lambda tensor: self.public.broadcast(tensor, group=group, **of_source))
        self.unpack(packed, object_list)
        return None

    def scatter_object_list(
        self, scatter_object_output_list, scatter_object_input_list=None, src=None, group=None, **options
    ):
        if src is None and options.get("group_src") is None:
            src = 0
        arguments = (scatter_object_output_list, scatter_object_input_list, src, group)
        found = self.store_of(group)
        if found is None:
            return self.originals["scatter_object_list"](*arguments, **options)
        source = self.rank_in_group(group, src, options.get("group_src"))
        if self.public.get_rank(group) == source:
            self.send(found, source, scatter_object_input_list)
        held = scatter_object_input_list or scatter_object_output_list[:1] * self.public.get_world_size(group)
        packed = self.receive(found, source, held)
        self.run_original("scatter_object_list", None, *arguments, **options)
        mine = []
        self.unpack([packed[self.public.get_rank(group)]], mine)
        scatter_object_output_list[0] = mine[0]
        return None

    def send_object_list(self, object_list, dst=None, group=None, device=None, **options):
        target = self.rank_in_group(group, dst, options.get("group_dst"))
        mine = self.public.get_rank(group)
        found = self.store_of(group, mine, target, device=device)
        if found is not None:
            self.send(found, mine, object_list)
        return self.originals["send_object_list"](object_list, dst, group, device, **options)

    def recv_object_list(self, object_list, src=None, group=None, device=None, **options):
        nobody = src is None and options.get("group_src") is None
        source = self.rank_in_group(group, src, options.get("group_src"))
        found = None if nobody else self.store_of(group, source, self.public.get_rank(group), device=device)
        if found is None:
            return self.originals["recv_object_list"](object_list, src, group, device, **options)
        packed = self.receive(found, source, object_list)
        sender = self.public.get_global_rank(group, source) if group is not None else source

        def receive_tensor(tensor):
            if options.get("use_batch"):
                operation = self.public.P2POp(self.public.irecv, tensor, sender, group)
                self.public.batch_isend_irecv([operation]).pop().wait()
            else:
                self.public.recv(tensor, sender, group)

        self.take(packed, device, receive_tensor)
        self.unpack(packed, object_list)
        return sender
