"""Types and shapes of the tensors that operators make: a dispatch mode sees each operator."""

from __future__ import annotations

import itertools
from typing import Any, Callable, Optional

#: PyTorch's own frames inside of a dispatch mode, and around it.
INSIDE = ("torch/_ops.py",)
AROUND = ("torch/_dynamo/eval_frame.py", "torch/_compile.py")

#: Functions of this file that the stacks of a program go through.
OWN = ("__torch_dispatch__", "ctc_loss_of_numbers")

#: Arguments of `ctc_loss`.
LENGTHS = ("input_lengths", "target_lengths")

#: Operators whose results are kept; later ones have no shapes.
MOST_OPERATORS = 2_000_000

#: Short names of types.
TYPES = {
    "float32": "f32",
    "float64": "f64",
    "float16": "f16",
    "bfloat16": "bf16",
    "int64": "i64",
    "int32": "i32",
    "int16": "i16",
    "int8": "i8",
    "uint8": "u8",
    "complex64": "c64",
}


class Shapes:
    """The shapes of tensors, by the number of the operator that made them and their addresses."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._made: dict[int, dict[int, str]] = {}
        self._numbers = itertools.count(1)
        self._mode: Any = None
        self._ctc_loss: Any = None

    def install(self, number_runs: Callable[[int], None]) -> None:
        """Watches operators. `number_runs` receives the number of the operator that runs in this thread; 0 for none."""
        from torch.utils import _python_dispatch, _pytree

        shapes = self

        class Mode(_python_dispatch.TorchDispatchMode):  # type: ignore[misc]
            @classmethod
            def ignore_compile_internals(cls) -> bool:
                """Lets torch.compile compile, which it does not under other modes."""
                return True

            def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                number = next(shapes._numbers)
                number_runs(number)
                try:
                    result = function(*args, **(kwargs or {}))
                finally:
                    number_runs(0)
                if number < MOST_OPERATORS and not getattr(function, "is_view", False):
                    shapes._keep(number, _pytree.tree_leaves(result))
                return result

        self._mode = Mode()
        self._mode.__enter__()
        self._replace_ctc_loss()

    def _replace_ctc_loss(self) -> None:
        """PyTorch makes numbers of lengths on the host, but not under a dispatch mode, where it then fails."""
        torch, ctc_loss = self._torch, self._torch.ctc_loss

        def ctc_loss_of_numbers(*args: Any, **options: Any) -> Any:
            # The third and the fourth are the lengths.
            lengths = [_on_host(torch, of) for of in args[2:4]]
            options.update((name, _on_host(torch, options[name])) for name in LENGTHS if name in options)
            return ctc_loss(*args[:2], *lengths, *args[4:], **options)

        self._ctc_loss = ctc_loss
        torch.ctc_loss = ctc_loss_of_numbers

    def remove(self) -> None:
        if self._mode is not None:
            self._mode.__exit__(None, None, None)
            self._mode = None
            self._torch.ctc_loss = self._ctc_loss

    def _keep(self, number: int, results: list[Any]) -> None:
        found = {}
        for result in results:
            place = address(self._torch, result)
            if place is not None:
                found[place] = describe(getattr(result, "_local_tensor", result))
        if found:
            self._made[number] = found

    def leave(self, snapshot: dict[str, Any]) -> None:
        """Takes the frames of this watch out of the stacks: they hide the operators that the program calls."""
        held = [block for segment in snapshot.get("segments", ()) for block in segment["blocks"]]
        events = [event for trace in snapshot.get("device_traces", ()) for event in trace]
        # Equal stacks of a snapshot are one list.
        for frames in {id(of["frames"]): of["frames"] for of in held + events if of.get("frames")}.values():
            own = _own_frames(frames)
            if own:
                frames[:] = [frame for at, frame in enumerate(frames) if at not in own]

    def of(self, number: int, place: int) -> str:
        """Type and shape of the tensor that an operator created at an address; empty if it is not a tensor."""
        return self._made.get(number, {}).get(place, "")


def _own_frames(frames: list[dict[str, Any]]) -> set[int]:
    """The indices of the frames of the functions of this file, and of those that PyTorch puts around them."""
    python = [at for at, frame in enumerate(frames) if frame["filename"].endswith(".py")]
    own: set[int] = set()
    for order, at in enumerate(python):
        if frames[at]["filename"] == __file__ and frames[at]["name"] in OWN:
            inside = itertools.takewhile(lambda at: frames[at]["filename"].endswith(INSIDE), python[:order][::-1])
            around = itertools.takewhile(lambda at: frames[at]["filename"].endswith(AROUND), python[order + 1 :])
            own.update([at, *inside, *around])
    return own


def address(torch: Any, tensor: Any) -> Optional[int]:
    """The address of the block behind a tensor on a device."""
    local = getattr(tensor, "_local_tensor", tensor)  # of one that is spread over ranks
    if not isinstance(local, torch.Tensor) or not local.is_cuda:
        return None
    try:
        return int(local.untyped_storage().data_ptr()) or None
    except (RuntimeError, NotImplementedError, AttributeError):  # a tensor without memory, or of another layout
        return None


def addresses(torch: Any, tensor: Any) -> list[int]:
    """The addresses of the blocks behind a tensor on a device: a sparse one has one for its indices as well."""
    is_sparse = isinstance(tensor, torch.Tensor) and tensor.layout is torch.sparse_coo
    found = [address(torch, part) for part in ([tensor._indices(), tensor._values()] if is_sparse else [tensor])]
    return [place for place in found if place is not None]


def describe(tensor: Any) -> str:
    """Type and shape, such as `bf16 [8, 2048, 4096]`."""
    name = str(tensor.dtype).replace("torch.", "")
    return f"{TYPES.get(name, name)} {list(tensor.shape)}"


def _on_host(torch: Any, lengths: Any) -> Any:
    # Numbers in place of a tensor on the host.
    return lengths.tolist() if isinstance(lengths, torch.Tensor) and not lengths.is_cuda else lengths
