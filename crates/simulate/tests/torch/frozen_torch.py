"""Imports PyTorch so that Python's garbage collector never looks at what that made: a second of three in most tests.

Before a recording begins, the collector runs, and at the end of Python. What a program makes itself it finds as ever.
"""

import gc

gc.disable()
import torch  # noqa: E402
import torch._dynamo  # noqa: E402, F401  The first optimizer imports it.

gc.freeze()
gc.enable()
