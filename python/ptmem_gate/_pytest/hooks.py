"""The hooks. Whatever a run without marked tests does not need is imported when it is needed."""

from __future__ import annotations

import os
from collections.abc import Generator
from typing import TYPE_CHECKING, Any, Optional

import pytest

from .._program import is_simulated
from .limits import MARKER, Limits

if TYPE_CHECKING:
    from .gate import Gate, Settings

LIMITS: pytest.StashKey[Limits] = pytest.StashKey()
GATE: pytest.StashKey[Gate] = pytest.StashKey()

#: Set in the process of a single test: MEASURES or RECORDS.
CHILD = "PTMEM_GATE_PYTEST_CHILD"
MEASURES = "measures"
RECORDS = "records"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("ptmem-gate", "GPU memory (ptmem-gate)")
    group.addoption(
        "--ptmem-update",
        action="store_true",
        help="Store the profiles of tests with max_growth as they are now, beside the test files",
    )
    group.addoption(
        "--ptmem-simulate",
        action="store_true",
        help="Run tests marked gpu_memory on a simulated GPU, each in a process of its own (Linux)",
    )
    group.addoption("--ptmem-gpu", metavar="NAME", help="The GPU to simulate; ptmem simulate --gpu list names them")
    parser.addini("ptmem_simulate", "Run tests marked gpu_memory on a simulated GPU", type="bool", default=False)
    parser.addini("ptmem_gpu", "The GPU to simulate", default="a100")
    parser.addini(
        "ptmem_measure",
        "Compare counters, and run a test again to record it only where they exceed a limit",
        type="bool",
        default=False,
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARKER)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Generator[None, Any, Any]:
    """Begins again under `ptmem simulate`, before a conftest.py imports PyTorch, and before output is captured."""
    wanted = early_config.known_args_namespace.ptmem_simulate or early_config.getini("ptmem_simulate")
    if wanted and not is_simulated():
        from .simulated import begin_again

        begin_again(early_config)
    return (yield)


def settings_of(config: pytest.Config) -> Settings:
    from .gate import Settings

    return Settings(
        update=bool(config.getoption("ptmem_update")),
        measures=bool(config.getini("ptmem_measure")) and os.environ.get(CHILD) != RECORDS,
        simulated=is_simulated(),
        root=str(config.rootpath),
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Reads the limits early: a wrong one stops the run before the first test."""
    marked = [item for item in items if item.get_closest_marker("gpu_memory") is not None]
    if not marked:
        return
    from .rules import Rules

    rules = Rules.nearest(config.rootpath)
    for item in marked:
        limits = Limits.of(item, rules)
        if limits is not None:
            item.stash[LIMITS] = limits


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: Optional[pytest.Item]) -> Optional[bool]:
    """Runs a marked test in a process of its own, if GPUs are simulated: what ran before it is then all the same.

    A test that is measured first may run twice.
    """
    limits = item.stash.get(LIMITS, None)
    if limits is None or CHILD in os.environ:
        return None
    measures = settings_of(item.config).measures_first(limits)
    if not measures and not is_simulated():
        return None
    from .isolated import run_isolated, run_measured

    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for report in run_measured(item, nextitem) if measures else run_isolated(item, RECORDS):
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Records from before the fixtures of the test, so that what they make has call stacks."""
    limits = item.stash.get(LIMITS, None)
    if limits is not None:
        from .._history import RecordingError
        from .gate import Gate

        try:
            gate = Gate(item, limits, settings_of(item.config))
        except RecordingError as error:
            pytest.skip(str(error))
        if not gate.torch.cuda.is_available():
            pytest.skip("no GPU was found; pytest --ptmem-simulate runs this test on a simulated one")
        gate.begin()
        item.stash[GATE] = gate


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    gate = item.stash.get(GATE, None)
    try:
        result = yield
    except Exception as error:
        if gate is not None:
            gate.explain(error)
        raise
    if gate is not None:
        gate.judge()
    return result


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, Any, Any]:
    gate = item.stash.get(GATE, None)
    if gate is not None:
        gate.end()
        del item.stash[GATE]
    return (yield)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    from .summary import lines

    found = lines(terminalreporter.stats)
    if found:
        terminalreporter.section("GPU memory" + (", simulated: nothing was computed" if is_simulated() else ""))
        for line in found:
            terminalreporter.write_line(line)
