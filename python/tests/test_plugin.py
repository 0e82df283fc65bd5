"""The plugin of pytest, in runs of their own: with a stand-in for PyTorch, and with PyTorch on simulated GPUs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

import pytest
from conftest import PACKAGE
from ptmem_gate._pytest.plugin import is_supported
from ptmem_gate._pytest.rules import Rule, Rules
from ptmem_gate._pytest.stored import file_name
from ptmem_gate._pytest.summary import line, size

#: A PyTorch whose history is that of a fixture: what a test "allocates" is the snapshot that is dumped after it.
FAKE = """
import os, pickle, sys
sys.path.insert(0, {tests!r})
from fake_torch import FakeTorch, Release
fake = FakeTorch(Release.V2_8)
sys.modules.update(fake.modules())
chosen = []

def snapshot():
    name = chosen[min(len(chosen) - 1, len(dumped))] if chosen else "before.pkl"
    dumped.append(name)
    with open(os.path.join({fixtures!r}, name), "rb") as file:
        return pickle.load(file)

dumped = []
fake.snapshot = snapshot
sys.modules["torch"].cuda.memory._snapshot = snapshot

def use(*names):
    del dumped[:]
    chosen[:] = names

fake.use = use
"""


@dataclass
class Project:
    """A project with tests."""

    folder: Path
    environment: dict[str, str]

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text, encoding="utf-8")

    def run(self, *words: str, expected: int) -> str:
        """Runs pytest and returns what it prints."""
        command = [sys.executable, "-m", "pytest", "-p", "ptmem_gate._pytest.plugin", "-p", "no:cacheprovider", *words]
        finished = subprocess.run(
            command, check=False, capture_output=True, text=True, cwd=self.folder, env=self.environment
        )
        assert finished.returncode == expected, finished.stdout + finished.stderr
        return finished.stdout + finished.stderr

    def limit(self, text: str) -> None:
        """Writes the limits of all tests."""
        self.write("ptmem.toml", f"[[pytest]]\n{text}\n")

    def stored(self) -> list[str]:
        return sorted(str(path.relative_to(self.folder)) for path in self.folder.rglob("*.ptmem.json"))


def project(folder: Path, environment: dict[str, str], tests: str) -> Project:
    made = Project(folder, environment)
    made.write("pytest.ini", "[pytest]\naddopts = --strict-markers\n")
    made.write("test_model.py", tests)
    return made


@pytest.fixture
def faked(tmp_path: Path, fixtures: Path) -> Project:
    """A project whose GPU is a stand-in."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PTMEM_SIMULATE")}
    environment["PYTHONPATH"] = str(PACKAGE)
    made = project(tmp_path, environment, TESTS)
    made.write("conftest.py", FAKE.format(tests=str(Path(__file__).parent), fixtures=str(fixtures)))
    return made


TESTS = """
import os
import pytest
from conftest import fake

@pytest.mark.gpu_memory
def test_step():
    fake.use(os.environ.get("SNAPSHOT", "before.pkl"))
    fake.allocate("step")

def test_plain():
    pass
"""


def true_peak(path: Path) -> int:
    """The peak that the allocator of a fixture counted."""
    return int(json.loads(path.read_text(encoding="utf-8"))["devices"]["0"]["peak"]["allocated"])


def test_a_test_is_compared_with_its_stored_profile(faked: Project, fixtures: Path) -> None:
    # A gate that compares with nothing never passes.
    missing = faked.run(expected=1)
    assert "no stored profile __gpu_memory__/test_model/test_step.ptmem.json" in missing
    assert "pytest --ptmem-update 'test_model.py::test_step'" in missing
    assert faked.stored() == []

    stored = faked.run("--ptmem-update", expected=0)
    assert faked.stored() == ["__gpu_memory__/test_model/test_step.ptmem.json"]
    assert (
        "test_model.py::test_step  peak 280.14 MiB, stored as __gpu_memory__/test_model/test_step.ptmem.json, ok"
        in stored
    )

    assert "test_model.py::test_step  peak 280.14 MiB (as stored), ok" in faked.run(expected=0)

    faked.environment["SNAPSHOT"] = "after.pkl"
    failed = faked.run("--junitxml=report.xml", expected=1)
    assert "GPU memory: peak grew by 53.80 MiB to 333.95 MiB, allowed 5 %" in failed
    assert "attention (model.py:40)" in failed
    assert "[[accept]]" not in failed
    assert "test_model.py::test_step  peak 333.95 MiB (+53.80 MiB, +19.2 %), FAIL" in failed

    case = ElementTree.parse(faked.folder / "report.xml").getroot().find(".//testcase[@name='test_step']")
    assert case is not None
    facts = {one.get("name"): one.get("value") for one in case.iter("property")}
    assert facts == {
        "gpu_memory.peak": str(true_peak(fixtures / "after.json")),
        "gpu_memory.stored_peak": str(true_peak(fixtures / "before.json")),
        "gpu_memory.verdict": "regression",
    }
    failure = case.find("failure")
    assert failure is not None
    assert "FAIL peak grew" in (failure.text or "")

    faked.run("--ptmem-update", expected=0)
    faked.run(expected=0)


def test_absolute_limits_need_no_stored_profile(faked: Project) -> None:
    faked.limit('max = ["1GiB", "reserved=1MiB"]')
    assert "GPU memory: reserved is 306.00 MiB, allowed 1.00 MiB" in faked.run(expected=1)
    faked.run("--ptmem-update", expected=1)
    assert faked.stored() == []


def test_an_update_holds_to_absolute_limits_all_the_same(faked: Project) -> None:
    faked.limit('max-growth = "5%"\nmax = "1MiB"')
    assert "GPU memory: peak is 280.14 MiB, allowed 1.00 MiB" in faked.run("--ptmem-update", expected=1)


def test_what_cannot_be_compared_fails(faked: Project) -> None:
    faked.run("--ptmem-update", expected=0)
    faked.environment["SNAPSHOT"] = "state-only.pkl"
    output = faked.run(expected=1)
    assert "GPU memory: peak is inconclusive: " in output
    assert "INCONCLUSIVE" in output


MEASURED = """
import os
import pytest
from conftest import fake

@pytest.fixture(scope="session")
def made():
    print("made in", os.getpid())
    yield []
    print("given back")

@pytest.mark.gpu_memory
def test_step(made):
    assert made == []  # A second run must not see what the first one left.
    made.append(1)
    with open("runs", "a") as runs:
        runs.write("records " if fake.enabled else "measures ")
    fake.use(os.environ.get("SNAPSHOT", "before.pkl"))
    fake.allocate("step")
    fake.highest = int(os.environ.get("HIGHEST", "293750000"))
"""


@pytest.mark.parametrize(
    ("limit", "highest", "snapshot", "runs", "message"),
    [
        ("5%", 293_750_000, "before.pkl", "measures", ""),
        ("5%", 350_000_000, "after.pkl", "measures records", "attention (model.py:40)"),
        ("5%", 350_000_000, "before.pkl", "measures records", "a second run, recorded in a process of its own"),
        ("stack=5%", 350_000_000, "before.pkl", "records", ""),
    ],
)
def test_a_test_is_recorded_only_where_its_counters_exceed_a_limit(
    faked: Project, limit: str, highest: int, snapshot: str, runs: str, message: str
) -> None:
    faked.write("pytest.ini", "[pytest]\naddopts = --strict-markers\nptmem_measure = true\n")
    faked.write("test_model.py", MEASURED)
    faked.limit(f'max-growth = "{limit}"')
    faked.run("--ptmem-update", expected=0)
    (faked.folder / "runs").unlink()
    faked.environment.update(HIGHEST=str(highest), SNAPSHOT=snapshot)
    output = faked.run(expected=1 if message else 0)
    assert message in output
    assert (faked.folder / "runs").read_text().split() == runs.split()
    assert output.count("test_model.py::test_step  peak ") == 1


def test_a_measured_test_that_fails_by_itself_runs_once(faked: Project) -> None:
    faked.write("pytest.ini", "[pytest]\nptmem_measure = true\n")
    faked.write("test_model.py", MEASURED + "    assert False, 'its own error'\n")
    assert "its own error" in faked.run(expected=1)
    assert (faked.folder / "runs").read_text().split() == ["measures"]


OUT_OF_MEMORY = """
import pytest
from conftest import fake

@pytest.mark.gpu_memory
def test_large():
    fake.use("oom.pkl")
    fake.run_out_of_memory()
"""


def test_memory_that_runs_out_while_measured_is_recorded(faked: Project) -> None:
    faked.write("pytest.ini", "[pytest]\nptmem_measure = true\n")
    faked.write("test_model.py", OUT_OF_MEMORY)
    output = faked.run(expected=1)
    assert "OutOfMemoryError" in output
    assert "largest stacks when memory ran out" in output


LEAKS = """
import pytest
from conftest import fake

@pytest.mark.gpu_memory(leak=True, rounds=4)
def test_leak():
    if not fake.events:
        fake.use(*{snapshots})
    fake.allocate("step")

def test_rounds():
    assert len(fake.calls) == 2 and len(fake.events) == 0
"""


@pytest.mark.parametrize(
    ("allowed", "series", "expected"), [("0B", "leak", 1), ("1GiB", "leak", 0), ("0B", "no-leak", 0)]
)
def test_a_test_that_leaks_fails(faked: Project, fixtures: Path, allowed: str, series: str, expected: int) -> None:
    folder = fixtures / f"{series}-series"
    snapshots = [f"{folder.name}/{path.name}" for path in sorted(folder.glob("*.pkl"))]
    # The first run warms up.
    snapshots.insert(0, snapshots[0])
    assert len(snapshots) == 4
    faked.write("test_model.py", LEAKS.format(snapshots=snapshots))
    faked.limit(f'max-leak = "{allowed}"')
    output = faked.run(expected=expected)
    if expected == 1:
        assert "GPU memory: train_step (train.py:30): leak is 850.00 KiB, allowed 0 B per snapshot" in output
        assert "the test ran 4 times; Python's garbage collector ran before each dump" in output
    assert output.count("test_model.py::test_leak") >= 1


def test_outcomes_of_pytest_are_left_alone(faked: Project) -> None:
    faked.write("ptmem.toml", "[[pytest]]\nmax = '1MiB'\n[[pytest]]\ntests = '*::TestClass::*'\nmax = '1GiB'\n")
    faked.write(
        "test_model.py",
        """
import pytest
from conftest import fake

pytestmark = pytest.mark.gpu_memory

@pytest.mark.xfail(reason="too large", strict=True)
def test_expected_to_fail():
    fake.allocate("step")

@pytest.mark.skip
def test_skipped():
    raise AssertionError

def test_fails_by_itself():
    fake.allocate("step")
    assert False, "its own error"

class TestClass:
    def test_of_a_class(self):
        fake.allocate("step")
""",
    )
    output = faked.run("-rA", expected=1)
    assert "1 failed, 1 passed, 1 skipped, 1 xfailed" in output
    assert "its own error" in output


def test_memory_that_runs_out_is_explained(faked: Project) -> None:
    faked.write("test_model.py", OUT_OF_MEMORY)
    output = faked.run(expected=1)
    assert "OutOfMemoryError" in output
    assert "largest stacks when memory ran out" in output


@pytest.mark.parametrize(
    ("marker", "message"),
    [
        ('gpu_memory("5%")', "gpu_memory takes its arguments by name: leak, rounds, stacks"),
        ('gpu_memory(leek="5%")', "gpu_memory does not know 'leek'; expected one of: leak, rounds, stacks"),
        ('gpu_memory(max_growth="5%")', "'max_growth'; limits are in [[pytest]] of ptmem.toml; expected"),
        ("gpu_memory(leak='1MiB')", "leak: found '1MiB', expected True; max-leak of ptmem.toml allows some"),
        ("gpu_memory(stacks='c')", "stacks: found 'c', expected 'all' or 'python'"),
        ("gpu_memory(leak=True, rounds=1)", "rounds: found 1, expected a number from 3 on"),
    ],
)
def test_a_wrong_limit_stops_the_run(faked: Project, marker: str, message: str) -> None:
    faked.write("test_model.py", f"import pytest\n\n@pytest.mark.{marker}\ndef test_step():\n    pass\n")
    assert message in faked.run(expected=4)


def test_a_limit_that_the_tool_refuses_fails_the_test(faked: Project) -> None:
    faked.limit('max = "one GiB"')
    assert "the memory of this test cannot be judged: " in faked.run(expected=1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[pytest]]\nmax-grow = '5%'", "[[pytest]] has no key 'max-grow'; expected one of: tests, max-growth"),
        ("[[pytest]", "the entries [[pytest]] cannot be read"),
        ("pytest = 5", "the entries [[pytest]] cannot be read"),
    ],
)
def test_a_wrong_file_stops_the_run(faked: Project, text: str, message: str) -> None:
    faked.write("ptmem.toml", text)
    assert message in faked.run(expected=4)


def test_the_last_entry_that_matches_counts() -> None:
    rules = Rules(
        (
            {"max-growth": ["5%", "stack:*a=b*=1MiB"], "strict": True},
            {"tests": "test_a.py::*", "max-growth": {"peak": "1%"}, "max": "1GiB"},
            {"tests": ["nothing", "*test_b[x]"], "max-leak": "1MiB", "strict": False},
        )
    )
    assert rules.of("test_c.py::test_b").max_growth == {"peak": "5%", "stack:*a=b*": "1MiB"}
    assert rules.of("test_a.py::test_b[x]") == Rule(
        {"peak": "1%", "stack:*a=b*": "1MiB"}, {"peak": "1GiB"}, "1MiB", strict=False
    )
    assert rules.of("test_c.py::test_b[y]").strict


def test_the_nearest_file_up_to_the_root_of_the_repository_counts(tmp_path: Path) -> None:
    below = tmp_path / "repository" / "package"
    below.mkdir(parents=True)
    (tmp_path / "ptmem.toml").write_text("[[pytest]]\nmax = '1GiB'\n")
    assert Rules.nearest(below).of("x").max == {"peak": "1GiB"}
    (below.parent / ".git").mkdir()
    assert Rules.nearest(below) == Rules()
    (below.parent / ".github").mkdir()
    (below.parent / ".github" / "ptmem.toml").write_text("[[pytest]]\nmax = '2GiB'\n")
    assert Rules.nearest(below).of("x").max == {"peak": "2GiB"}


def test_without_pytorch_or_a_gpu_marked_tests_are_skipped(faked: Project) -> None:
    faked.write("test_model.py", "import pytest\n\n@pytest.mark.gpu_memory\ndef test_step():\n    pass\n")
    faked.write("conftest.py", "import sys\nsys.modules['torch'] = None\n")
    assert "PyTorch cannot be imported" in faked.run("-rs", expected=0)


def test_other_projects_are_not_touched(faked: Project) -> None:
    faked.write("conftest.py", "import sys\nsys.modules['torch'] = None\n")
    faked.write("test_model.py", "def test_plain():\n    pass\n")
    output = faked.run(expected=0)
    assert "GPU memory" not in output
    assert "gpu_memory(leak=True)" in faked.run("--markers", expected=0)


REAL = """
import os
import pytest
import torch
from torch import nn

held = []

@pytest.fixture
def model():
    return nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 256)).cuda()

@pytest.mark.gpu_memory
def test_step(model):
    model(torch.randn(int(os.environ.get("BATCH", "64")), 256, device="cuda")).sum().backward()

@pytest.mark.gpu_memory(leak=True, rounds=4)
@pytest.mark.parametrize("leaks", [False, True])
def test_leak(leaks):
    block = torch.empty(1 << 10, device="cuda")
    if leaks:
        held.append(block)

def test_plain():
    assert torch.cuda.is_available()
"""


@pytest.fixture
def simulated(tmp_path: Path, real_torch: dict[str, str]) -> Project:
    return project(tmp_path, dict(real_torch), REAL)


def test_pytorch_runs_on_a_simulated_gpu(simulated: Project) -> None:
    updated = simulated.run("--ptmem-simulate", "--ptmem-update", expected=1)
    assert simulated.stored() == ["__gpu_memory__/test_model/test_step.simulated.ptmem.json"]
    assert "simulated: nothing was computed" in updated
    assert "3 passed" in updated
    assert "test_model.py::test_leak[True]   4.00 KiB stay in each run, FAIL" in updated
    assert "test_model.py::test_leak[False]  nothing stays, ok" in updated

    # Each test has a process of its own, so that the order of tests changes nothing.
    same = simulated.run("--ptmem-simulate", "-k", "step or plain", expected=0)
    assert "(as stored), ok" in same

    simulated.environment["BATCH"] = "8192"
    failed = simulated.run("--ptmem-simulate", "-k", "step", "--ptmem-gpu", "t4", expected=1)
    assert "GPU memory: peak grew by" in failed
    assert "test_step (test_model.py:" in failed


def test_pytorch_is_measured_and_then_recorded(simulated: Project) -> None:
    simulated.run("--ptmem-simulate", "--ptmem-update", "-k", "step", expected=0)
    simulated.write("pytest.ini", "[pytest]\nptmem_simulate = true\nptmem_measure = true\n")
    assert "(as stored), ok" in simulated.run("-k", "step", expected=0)
    simulated.environment["BATCH"] = "8192"
    failed = simulated.run("-k", "step", expected=1)
    assert "GPU memory: peak grew by" in failed
    assert "test_step (test_model.py:" in failed


def test_a_process_that_dies_fails_its_test_alone(simulated: Project) -> None:
    simulated.write(
        "test_model.py",
        """
import os
import pytest

@pytest.mark.gpu_memory
def test_dies():
    print("last words", flush=True)
    os._exit(7)

def test_plain():
    pass
""",
    )
    output = simulated.run("--ptmem-simulate", expected=1)
    assert "the process of the test ended with 7" in output
    assert "1 failed, 1 passed" in output


RECORDING = """
import sys
import torch
from torch import nn
from ptmem_gate import record

compiled = sys.argv[1] == "compiled"
with record(sys.argv[2], steps=3) as recording:
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64)).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    forward = torch.compile(model, backend="eager") if compiled else model
    for _ in range(4):
        with recording.step():
            forward(torch.randn(32, 64, device="cuda")).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
"""


@pytest.mark.parametrize("kind", ["plain", "compiled"])
def test_pytorch_is_recorded(simulated: Project, tool: str, kind: str) -> None:
    from ptmem_gate import show

    simulated.write("program.py", RECORDING)
    path = simulated.folder / "recorded.pkl"
    command = [tool, "simulate", "--", sys.executable, "program.py", kind, str(path)]
    finished = subprocess.run(
        command, check=False, capture_output=True, text=True, cwd=simulated.folder, env=simulated.environment
    )
    assert finished.returncode == 0, finished.stderr
    (device,) = show(path, config=False).devices
    assert [phase.name for phase in device.phases if phase.depth == 0] == ["ProfilerStep"]
    assert device.allocated.exact
    # Weights and optimizer state are from before the step, and have call stacks all the same.
    assert all(stack.bucket != "before-recording" for stack in device.stacks if stack.baseline)
    assert device.allocated.baseline is not None
    assert device.allocated.baseline > 3 * 2 * 64 * 64 * 4


@pytest.mark.parametrize(
    ("pytest_version", "pluggy_version", "expected"),
    [
        ("9.2.0", "1.7.0", True),
        ("7.0.1", "1.2.0", True),
        ("10.0.0rc1", "2.0.0", True),
        ("6.2.5", "1.5.0", False),
        ("7.4.0", "1.0.0", False),
    ],
)
def test_old_releases_of_pytest_are_left_alone(pytest_version: str, pluggy_version: str, expected: bool) -> None:
    assert is_supported(pytest_version, pluggy_version) is expected


def test_file_names_are_plain_and_never_shared() -> None:
    assert file_name("TestX.test_step[8-bf16]") == "TestX.test_step[8-bf16]"
    slashes, colons = file_name("test[a/b]"), file_name("test[a:b]")
    assert slashes != colons
    assert "/" not in slashes
    assert len(file_name("x" * 500)) < 140
    assert file_name("x" * 500) != file_name("x" * 501)


@pytest.mark.parametrize(
    ("count", "expected"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.50 KiB"), (5 << 30, "5.00 GiB"), (1 << 55, "32768.00 TiB")],
)
def test_sizes_are_those_of_the_tool(count: int, expected: str) -> None:
    assert size(count) == expected


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"peak": 1024, "stored_peak": 2048, "verdict": "pass"}, "peak 1.00 KiB (-1.00 KiB, -50.0 %), ok"),
        ({"peak": 1024, "stored_peak": 0, "verdict": "regression"}, "peak 1.00 KiB (+1.00 KiB), FAIL"),
        ({"leaked_per_run": 10, "verdict": "inconclusive"}, "10 B stay in each run, INCONCLUSIVE"),
    ],
)
def test_a_line_of_the_summary(facts: dict[str, object], expected: Optional[str]) -> None:
    assert line(facts) == expected
