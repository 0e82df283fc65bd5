"""A recording with shapes has the stacks of one without."""

from __future__ import annotations

from typing import Any

from ptmem_gate._watch import shapes


def frames(*names: str) -> list[dict[str, Any]]:
    """Frames of functions, each written as its name and its file."""
    pairs = [name.split("@") for name in names]
    return [{"name": name, "filename": file, "line": 1} for name, file in pairs]


def test_frames_of_the_dispatch_mode_leave_the_stacks() -> None:
    program = ["forward@nn/linear.py", "step@train.py"]
    mode = ["__call__@/lib/torch/_ops.py", f"__torch_dispatch__@{shapes.__file__}"]
    around = ["_fn@/lib/torch/_dynamo/eval_frame.py", "inner@/lib/torch/_compile.py"]
    stack = frames("empty@torch.so", *mode, *around, "at::_ops::mm::call@torch.so", *program)
    plain = frames("empty@torch.so", "at::_ops::mm::call@torch.so", *program)
    # What the program calls by itself stays.
    other = frames("__call__@/lib/torch/_ops.py", "inner@/lib/torch/_compile.py", *program)
    snapshot: dict[str, Any] = {
        "segments": [{"blocks": [{"frames": stack}, {}]}],
        "device_traces": [[{"frames": stack}, {"frames": list(other)}, {"frames": []}]],
    }
    watch = shapes.Shapes(None)
    watch.leave(snapshot)
    assert snapshot["segments"][0]["blocks"][0]["frames"] == plain
    assert [event["frames"] for event in snapshot["device_traces"][0]] == [plain, other, []]
