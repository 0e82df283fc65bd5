"""Answers that a program asks other ranks or the device for, and that a simulated GPU cannot give.

Each function here replaces one of PyTorch's or of transformers'. What it allocates is what it allocated before.
"""


def exchange_objects(torch):
    """Lets ranks send each other Python objects through the store of their job: the simulated NCCL moves no values."""
    import torch.distributed as public

    if not public.is_available():
        return
    import torch.distributed.distributed_c10d as c10d

    rounds = {}

    def store_of(group):
        """The store of a group and a name for this exchange; None where the group sends values itself."""
        group = group or c10d._get_default_group()
        if "nccl" not in str(c10d.get_backend(group)).lower():
            return None
        name = f"ptmem/{rounds.setdefault(group, 0)}"
        rounds[group] += 1
        if hasattr(c10d, "_get_process_group_store"):
            return c10d._get_process_group_store(group), name
        return c10d._world.pg_map[group][1], name

    def send(store, name, rank, thing):
        import pickle

        store.set(f"{name}/{rank}", pickle.dumps(thing))

    def receive(store, name, rank):
        import pickle

        return pickle.loads(store.get(f"{name}/{rank}"))

    def rank_in_group(group, rank, rank_of_group):
        if rank_of_group is not None:
            return rank_of_group
        return public.get_group_rank(group, rank or 0) if group is not None else rank or 0

    def all_gather_object(object_list, obj, group=None, *rest, **options):
        found = None if c10d._rank_not_in_group(group) else store_of(group)
        if found is None:
            return gather_all(object_list, obj, group, *rest, **options)
        send(*found, public.get_rank(group), obj)
        for rank in range(public.get_world_size(group)):
            object_list[rank] = receive(*found, rank)
        return None

    def gather_object(obj, object_gather_list=None, dst=None, group=None, *rest, **options):
        found = None if c10d._rank_not_in_group(group) else store_of(group)
        if found is None:
            return gather(obj, object_gather_list, dst, group, *rest, **options)
        send(*found, public.get_rank(group), obj)
        if object_gather_list is not None:
            for rank in range(public.get_world_size(group)):
                object_gather_list[rank] = receive(*found, rank)
        return None

    def broadcast_object_list(object_list, src=None, group=None, *rest, **options):
        found = None if c10d._rank_not_in_group(group) else store_of(group)
        if found is None:
            return broadcast(object_list, src, group, *rest, **options)
        in_group = rank_in_group(group, src, options.get("group_src"))
        if public.get_rank(group) == in_group:
            send(*found, in_group, list(object_list))
        else:
            object_list[:] = receive(*found, in_group)
        return None

    def scatter_object_list(output, inputs=None, src=None, group=None, *rest, **options):
        found = None if c10d._rank_not_in_group(group) else store_of(group)
        if found is None:
            return scatter(output, inputs, src, group, *rest, **options)
        in_group = rank_in_group(group, src, options.get("group_src"))
        if public.get_rank(group) == in_group:
            send(*found, in_group, list(inputs))
        output[0] = receive(*found, in_group)[public.get_rank(group)]
        return None

    gather_all, gather = c10d.all_gather_object, c10d.gather_object
    broadcast, scatter = c10d.broadcast_object_list, c10d.scatter_object_list
    for function in (all_gather_object, gather_object, broadcast_object_list, scatter_object_list):
        for module in (c10d, public):
            setattr(module, function.__name__, function)


def end_generation(utils):
    """Ends the loops of transformers' generate() at their greatest length, which the host knows.

    They ask the device, after each token, whether all sequences have ended; it never says so.
    """
    mixin, criteria = utils.GenerationMixin, utils.StoppingCriteriaList
    goes_on = getattr(mixin, "_has_unfinished_sequences", None)
    if goes_on is None:
        return  # Releases before 4.39 compare lengths on the host.
    check = criteria.__call__
    long_enough = []

    def check_and_measure(self, input_ids, scores, *rest, **options):
        lengths = [limit.max_length for limit in self if hasattr(limit, "max_length")]
        if lengths and input_ids.shape[-1] >= min(lengths):
            long_enough.append(True)
        return check(self, input_ids, scores, *rest, **options)

    def goes_on_until_long_enough(self, *arguments, **options):
        ended = bool(long_enough)
        long_enough.clear()
        return goes_on(self, *arguments, **options) and not ended

    criteria.__call__ = check_and_measure
    mixin._has_unfinished_sequences = goes_on_until_long_enough
    if hasattr(mixin, "_beam_search_has_unfinished_sequences"):
        beams_go_on = mixin._beam_search_has_unfinished_sequences

        def beams_go_on_until_long_enough(*arguments, **options):
            beams_go_on(*arguments, **options)
            return not long_enough

        mixin._beam_search_has_unfinished_sequences = staticmethod(beams_go_on_until_long_enough)
