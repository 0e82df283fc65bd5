#!/usr/bin/env python3
"""Holds what a simulated GPU calls known against the host, for PyTorch's own samples of its operators and all types.

    ptmem simulate -- python3 crates/simulate/benches/public/known.py [--samples N] [OPERATOR...]

Needs numpy and expecttest beside PyTorch. Prints operators that fail on the simulated GPU alone, and values that are
wrong although they are called known: there must be none. Ends with 1 if there are.
"""

import argparse
import collections
import itertools
import sys
import warnings

import torch

# How certain a result is, as the library counts it.
CERTAINTY = "known", "doubtful", "supposed", "absent"
# Operators by chance, those whose samples reach past what a copy to the device keeps, and those of libraries.
LEFT_OUT = (
    "as_strided rand bernoulli normal cauchy exponential geometric log_normal uniform multinomial empty new_empty "
    "resize nn.functional.dropout nn.functional.alpha_dropout nn.functional.feature nn.functional.rrelu "
    "nn.functional.scaled nn.functional.conv nn.functional.ctc linalg. fft. sparse svd signal stft istft jiterator"
)


def on_device(value):
    if isinstance(value, torch.Tensor):
        return value.cuda()
    return "cuda" if isinstance(value, str) and value == "cpu" else value


def samples(operator, most):
    """Arguments of an operator, for each type that it takes."""
    for kind in sorted(operator.dtypes, key=str):
        try:
            yield from itertools.islice(operator.sample_inputs("cpu", kind), most)
        except Exception as error:  # Some need packages that are not there.
            print(f"{operator.name}: no samples of {kind}: {error}", file=sys.stderr)


def compare(operator, sample, engine):
    """How certain each result is, and whether it is wrong."""
    tree = torch.utils._pytree
    try:
        expected = operator(sample.input, *sample.args, **sample.kwargs)
    except Exception:
        return
    first, rest, named = tree.tree_map(on_device, (sample.input, sample.args, sample.kwargs))
    found = operator(first, *rest, **named)
    for host, device in zip(tree.tree_flatten(expected)[0], tree.tree_flatten(found)[0]):
        plain = isinstance(host, torch.Tensor) and not host.is_complex() and host.layout is torch.strided
        if plain and device.is_cuda and host.numel() and host.shape == device.shape:
            values, trust = engine.read(device.detach())
            equal = torch.equal(host.detach().double().nan_to_num(7.25), values.double().nan_to_num(7.25))
            yield CERTAINTY[trust], trust == 0 and not equal


def main():
    from ptmem_simulate_operators import ENGINES
    from torch.testing._internal.common_methods_invocations import op_db

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=2)
    parser.add_argument("operators", nargs="*")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    counts, problems = collections.Counter(), {}
    for operator in op_db:
        left_out = operator.name.startswith(tuple(LEFT_OUT.split()))
        if left_out or (options.operators and operator.name not in options.operators):
            continue
        for sample in samples(operator, options.samples):
            try:
                for certainty, wrong in compare(operator, sample, ENGINES[0]):
                    counts[certainty] += 1
                    counts["wrong"] += wrong
                    if wrong:
                        problems[operator.name] = "WRONG"
            except Exception as error:
                problems.setdefault(operator.name, f"{type(error).__name__}: {error}"[:150])
    for name, problem in problems.items():
        print(f"{name}: {problem}")
    print(dict(counts))
    return 1 if counts["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
