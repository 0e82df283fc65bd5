#!/usr/bin/env python3
"""Holds programs on a simulated GPU against the same on the CPU: which operators ran, and the sizes of their results.

    python3 compare.py --ptmem target/release/ptmem --python PYTHON [--out FILE] [PROGRAM...]

PYTHON has PyTorch and what requirements.txt lists. Prints a table. Ends with 1 if a program differs and its run does
not state that something followed from values which are not known.
"""

import argparse
import contextlib
import difflib
import fnmatch
import functools
import json
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
# Functions that PyTorch runs by other operators on a GPU, by design: they count as one operator on both devices.
AS_ONE = (
    "torch.nn.functional.scaled_dot_product_attention",
    "torch.nn.functional.group_norm",
    "torch._VF.dropout",
    "torch._VF.lstm",
    "torch._VF.gru",
    "torch._VF.rnn_tanh",
    "torch._VF.gru_cell",
    "torch.nn.functional.one_hot",
)
# Operators that are not compared, with the reason.
LEFT_OUT = {
    "move or name values, which a program for one device does not do": "_to_copy copy_ lift_fresh* detach* alias",
    "pin memory of the host, for copies": "is_pinned* pin_memory _pin_memory",
    "ask for libraries of a GPU, and arrange weights for them": "_use_cudnn* _use_miopen* _cudnn_rnn_flatten_weight",
    "make what batch normalization keeps for the backward pass, empty on the CPU": "empty",
}
# Operators of one device, and the name that they have on the other. Their further results are of one device too.
SAME = {
    "cudnn_batch_norm": "native_batch_norm",
    "cudnn_batch_norm_backward": "native_batch_norm_backward",
    "unique_dim": "unique_dim",
}


def hidden(function):
    """The same function, whose lines are none of the program: their file has no name."""
    function.__code__ = function.__code__.replace(co_filename="<notes>")
    return function


class Notes:
    """The operators that a program runs, with the sizes of their results."""

    def __init__(self, torch):
        from torch.utils._python_dispatch import TorchDispatchMode

        self.torch, self.ran, self.paused = torch, [], 0

        def dispatch(_, function, types, arguments=(), named=None):
            result = function(*arguments, **(named or {}))
            self.note(function.__name__.split(".")[0], result)
            return result

        self.mode = type("Mode", (TorchDispatchMode,), {"__torch_dispatch__": hidden(dispatch)})

    def note(self, name, result):
        if self.paused:
            return
        parts = [part for part in flat(result) if isinstance(part, self.torch.Tensor)]
        sizes = [part._nested_tensor_size().tolist() if part.is_nested else list(part.shape) for part in parts]
        self.ran.append([name, sizes])

    @contextlib.contextmanager
    def pause(self):
        self.paused += 1
        yield
        self.paused -= 1

    def as_one(self, name, function):
        """The same function, noted as one operator, and its backward pass as another."""
        torch = self.torch

        class One(torch.autograd.Function):
            @staticmethod
            @hidden
            def forward(context, shape, *values):
                taken = [value.detach() if isinstance(value, torch.Tensor) else value for value in values]
                for ours, value in zip(taken, values, strict=True):
                    if isinstance(value, torch.Tensor):
                        ours.requires_grad_(value.requires_grad)
                arguments, named = torch.utils._pytree.tree_unflatten(taken, shape)
                with self.pause(), torch.enable_grad():
                    result = function(*arguments, **named)
                    # Each device has the results in an order of its own.
                    context.taken, context.result = taken, [part.contiguous() for part in flat(result)]
                self.note(name, result)
                return tuple(part.detach() for part in context.result)

            @staticmethod
            @hidden
            def backward(context, *gradients):
                wanted = [isinstance(value, torch.Tensor) and value.requires_grad for value in context.taken]
                inputs = [value for value, take in zip(context.taken, wanted, strict=True) if take]
                with self.pause():
                    found = torch.autograd.grad(context.result, inputs, gradients, allow_unused=True)
                    found = [part if part is None else part.contiguous() for part in found]
                self.note(name + "_backward", found)
                found = iter(found)
                return None, *[next(found) if take else None for take in wanted]

        @hidden
        def call(*arguments, **named):
            values, shape = torch.utils._pytree.tree_flatten((arguments, named))
            results = One.apply(shape, *values)
            return results if len(results) > 1 else results[0]

        return call


def flat(result):
    return list(result) if isinstance(result, (list, tuple)) else [result]


def trace(name, device, path):
    """Runs a program and writes what it ran."""
    import torch

    sys.path.insert(0, str(HERE))
    import programs

    notes = Notes(torch)
    for place in AS_ONE:
        owner, _, function = place.rpartition(".")
        owner = functools.reduce(getattr, owner.split(".")[1:], torch)
        setattr(owner, function, notes.as_one(function, getattr(owner, function)))
    torch.manual_seed(0)
    error = None
    try:
        with notes.mode():
            programs.run(name, device)
    except Exception as raised:
        error = f"{type(raised).__name__}: {raised}"[:200]
    pathlib.Path(path).write_text(json.dumps({"ran": notes.ran, "error": error}))


def listed(name):
    """The programs in a list of programs.py, which only a Python with PyTorch can import."""
    return (HERE / "programs.py").read_text().rpartition(f'{name} = """')[2].partition('"""')[0].split()


def compared(ran):
    """The operators that both devices have, as text."""
    left_out = " ".join(LEFT_OUT.values()).split()
    lines = []
    for name, sizes in ran:
        if not any(fnmatch.fnmatch(name, pattern) for pattern in left_out):
            sizes = sizes[:1] if name in SAME or name in SAME.values() else sizes
            lines.append(f"{SAME.get(name, name).strip('_')} {sizes}")
    return lines


def run(options, name, folder):
    """What a program did on both devices, and what the simulated run stated."""
    found = {}
    for device in ("cpu", "cuda"):
        path, report = folder / f"{name}-{device}.json", folder / f"{name}-report.json"
        command = [options.python, __file__, "--trace", name, device, str(path)]
        computed = ["--compute", "all"] if name in listed("DECISIONS") else []
        simulate = [options.ptmem, "simulate", *computed, "--report", str(report), "--"]
        # Both run under the library: PyTorch for CUDA cannot be imported without it.
        subprocess.run(simulate + command, capture_output=True, timeout=1200, check=False)
        died = {"ran": [], "error": "the process died"}
        found[device] = json.loads(path.read_text()) if path.exists() else died
    stated = json.loads(report.read_text())["followed_from_unknown_values"]
    return found["cpu"], found["cuda"], stated


def row(name, host, device, stated):
    """A row of the table, and whether the run hides a difference."""
    expected, ran = compared(host["ran"]), compared(device["ran"])
    matcher = difflib.SequenceMatcher(None, expected, ran, autojunk=False)
    blocks = matcher.get_opcodes()
    different = sum(max(b - a, d - c) for tag, a, b, c, d in blocks if tag != "equal")
    first = ""
    for tag, start, _, other, _ in blocks:
        if tag != "equal":
            first = f"`{[*expected, 'the end'][start]}` → `{[*ran, 'the end'][other]}`"
            break
    said = "; ".join(f"{part['count']} {part['what']}, first at {part['first']}" for part in stated)
    state = device["error"] or ("equal" if not different else f"{different} of {len(expected)} differ, first {first}")
    if host["error"]:
        state = f"fails on the CPU: {host['error']}"
    hidden = (bool(device["error"]) or different > 0) and not said
    return f"| {name} | {len(expected)} | {state} | {said} |", hidden


def main():
    if sys.argv[1:2] == ["--trace"]:
        return trace(*sys.argv[2:5])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ptmem", default="ptmem")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("programs", nargs="*")
    options = parser.parse_args()
    sys.path.insert(0, str(HERE))
    names = options.programs or [*listed("PROGRAMS"), *listed("DECISIONS")]
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            line, hidden = row(name, *run(options, name, options.out or pathlib.Path(folder)))
            failed += hidden
            print(line, flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
