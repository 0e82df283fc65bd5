"""The process of one test under `ptmem simulate`: python -m ptmem_gate._pytest.child TASK"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest


class Reporter:
    """Writes each report of the test to a file, for the process that started this one."""

    def __init__(self, config: pytest.Config, path: str) -> None:
        self.config = config
        self.path = path

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        data = self.config.hook.pytest_report_to_serializable(config=self.config, report=report)
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps(data, default=str) + "\n")

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            print(report.longreprtext)


def main() -> int:
    task: dict[str, Any] = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    sys.path[:] = [*task["path"], *(place for place in sys.path if place not in task["path"])]
    config = pytest.Config.fromdictargs(task["options"], task["args"])
    config.pluginmanager.register(Reporter(config, task["reports"]), "ptmem-gate-reporter")
    return int(config.hook.pytest_cmdline_main(config=config))


if __name__ == "__main__":
    sys.exit(main())
