"""Runs a test in a process of its own, and takes over its reports."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Optional

import pytest
from _pytest.runner import runtestprotocol

from .._program import is_simulated
from .gate import MEASURED, SECTION, release_cache
from .hooks import CHILD, MEASURES, RECORDS

#: Options of this process that are not the other one's: it writes no files and starts no workers.
OWN: dict[str, Any] = {
    "xmlpath": None,
    "numprocesses": None,
    "maxprocesses": None,
    "dist": "no",
    "tx": [],
    "looponfail": False,
    "usepdb": False,
    "no_cov": True,
    "collectonly": False,
    "stepwise": False,
    "lf": False,
    "failedfirst": False,
    "keyword": "",
    "markexpr": "",
    "deselect": None,
    "maxfail": 0,
}


def run_measured(item: pytest.Item, nextitem: Optional[pytest.Item]) -> list[Any]:
    """The reports of a test that is measured, and where a limit may be exceeded those of a second, recorded run.

    The second run has a process of its own: fixtures of every scope and modules are made anew there.
    """
    first = run_isolated(item, MEASURES) if is_simulated() else runtestprotocol(item, nextitem=nextitem, log=False)
    verdict = next((dict(report.user_properties).get(MEASURED) for report in first if report.when == "call"), None)
    if verdict is None:
        return first
    if not is_simulated():
        release_cache(sys.modules["torch"])
    second = run_isolated(item, RECORDS)
    is_shown = any(report.when == "call" and report.outcome != "passed" for report in second)
    if is_shown or verdict == "inconclusive":
        return second
    for report in first:
        if report.when == "call":
            report.sections.append((SECTION, "a second run, recorded in a process of its own, kept all limits"))
    return first


def run_isolated(item: pytest.Item, mode: str) -> list[Any]:
    """The reports of the test, which is measured or recorded."""
    with tempfile.TemporaryDirectory(prefix="ptmem-gate-") as folder:
        task = Path(folder) / "task.json"
        reports = Path(folder) / "reports.jsonl"
        task.write_text(json.dumps(_task(item, reports)), encoding="utf-8")
        try:
            finished = subprocess.run(
                [sys.executable, "-m", "ptmem_gate._pytest.child", str(task)],
                check=False,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                cwd=item.config.rootpath,
                env={**os.environ, CHILD: mode},
            )
        except OSError as error:
            return [_crashed(item, str(error))]
        found = _read(item.config, reports)
        # A process that died in the middle has reported no end.
        if not found or found[-1].when != "teardown":
            said = finished.stdout.decode(errors="replace").rstrip()
            found.append(_crashed(item, f"the process of the test ended with {finished.returncode}\n\n{said}"))
        return found


def _task(item: pytest.Item, reports: Path) -> dict[str, Any]:
    config = item.config
    options = {name: value for name, value in vars(config.option).items() if _is_plain(value)}
    options.update(OWN)
    options["rootdir"] = str(config.rootpath)
    options["inifilename"] = str(config.inipath) if config.inipath else None
    options["basetemp"] = None
    plugins = list(options.get("plugins") or [])
    options["plugins"] = [*plugins, "no:terminal", "no:cacheprovider", "no:junitxml", "no:xdist"]
    return {"options": options, "args": [item.nodeid], "reports": str(reports), "path": sys.path}


def _is_plain(value: object) -> bool:
    """An option that can be passed to another process."""
    if isinstance(value, (list, tuple)):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, (bool, int, float, str))


def _read(config: pytest.Config, reports: Path) -> list[Any]:
    if not reports.exists():
        return []
    lines = reports.read_text(encoding="utf-8").splitlines()
    return [config.hook.pytest_report_from_serializable(config=config, data=json.loads(line)) for line in lines]


def _crashed(item: pytest.Item, reason: str) -> pytest.TestReport:
    return pytest.TestReport(
        nodeid=item.nodeid,
        location=item.location,
        keywords=dict.fromkeys(item.keywords, 1),
        outcome="failed",
        longrepr=reason,
        when="call",
    )
