"""Digests of what a program ran: equal ones show that two recordings are of the same program.

A part that is not known is None, and is never equal to another. `ptmem simulate` copies
this file to the programs that it records: it imports nothing of the package. docs/snapshot-format.md describes the
facts.
"""

from __future__ import annotations

import hashlib
import os
import sys
import sysconfig
from collections.abc import Iterable
from typing import Callable, Optional

#: The folder that holds this file's package, which is another one in each simulated run.
OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

#: Variables that differ from run to run and name the run alone: of shells, of jobs in CI, of rendezvous.
OF_THE_RUN = frozenset(
    [
        "_",
        "OLDPWD",
        "PWD",
        "SHLVL",
        "TERM",
        "HOSTNAME",
        "MASTER_PORT",
        "TORCHELASTIC_RUN_ID",
        "TORCHELASTIC_ERROR_FILE",
        "INVOCATION_ID",
        "JOURNAL_STREAM",
        "SSH_CLIENT",
        "SSH_CONNECTION",
        "SSH_TTY",
        "SSH_AUTH_SOCK",
        "PYTEST_CURRENT_TEST",
        "PTMEM_SIMULATE_HOOK",
        "PTMEM_SIMULATE_PROGRAM",
        "PTMEM_SIMULATE_RECORD",
        "PTMEM_SIMULATE_SAID",
        "PTMEM_SIMULATE_STACKS",
        "PTMEM_SIMULATE_STEPS",
        "PTMEM_SIMULATE_WATCH",
        "PTMEM_SIMULATE_WORKING_TREE",
    ]
)
OF_THE_RUN_PREFIXES = ("GITHUB_", "RUNNER_", "CI_")

#: The settings of `ptmem simulate`, and those of them that differ in each run.
SETTINGS = "PTMEM_SIMULATE"
SETTINGS_OF_THE_RUN = ("hook=", "ledger=", "parent=")

#: Folders of libraries of the system. A checkout may be elsewhere in /usr.
SYSTEM = ("/usr/lib", "/usr/lib64", "/usr/local/lib", "/usr/local/cuda", "/lib", "/lib64", "/opt/conda")

#: A larger installed library counts by its size, and if a program opened more than that, nobody may say what it was.
MOST_READ = 64 << 20


class Ran:
    """The code that this process ran. `opened` returns the files that it read, or None if some were not recorded."""

    def __init__(self, opened: Callable[[], Optional[Iterable[str]]] = lambda: None) -> None:
        self._opened = opened
        #: The script: Python forgets it before it calls what is to run at its end.
        self._main: Optional[str] = getattr(sys.modules.get("__main__"), "__file__", None)

    def facts(self, root: Optional[str]) -> dict[str, Optional[str]]:
        """The digests; `root` is the checkout in which the program runs."""
        return {
            "code": _digest(_code(self._main)),
            "opened": _digest(self._contents_of_opened(root)),
            "arguments": _digest(_arguments(root)),
            "environment": _digest(_environment(root)),
        }

    def _contents_of_opened(self, root: Optional[str]) -> Optional[list[str]]:
        """Files of the checkout that were opened, with their contents: those of modules are code."""
        opened = self._opened()
        if root is None or opened is None:
            return None
        modules = {os.path.realpath(file) for file in _files_of_modules().values() if isinstance(file, str)}
        stdlib = os.path.realpath(sysconfig.get_paths()["stdlib"]) + os.sep
        paths = {path for path in opened if not path.startswith(stdlib) and not _is_of_packages(path)} - modules
        files = sorted(path for path in paths if not os.path.isdir(path))
        if not all(map(os.path.isfile, files)) or sum(map(os.path.getsize, files)) > MOST_READ:
            return None
        return [f"{os.path.relpath(path, root)} {_content(path)}" for path in files]


def _digest(parts: Optional[Iterable[str]]) -> Optional[str]:
    return None if parts is None else hashlib.sha1("\0".join(parts).encode(errors="replace")).hexdigest()


def _content(path: str) -> str:
    digest = hashlib.sha1()
    try:
        with open(path, "rb") as file:
            for block in iter(lambda: file.read(1 << 20), b""):
                digest.update(block)
    except OSError:
        return ""
    return digest.hexdigest()


def _code(main: Optional[str]) -> Optional[list[str]]:
    """The Python files and native libraries of this process; None if some of the code has no file."""
    if main is None and not (hasattr(sys, "orig_argv") and sys.argv[0] == "-c"):
        return None  # It came from standard input, or a person types it. Of -c, the arguments have it.
    files = _files_of_modules()
    files["__main__"] = main and os.path.abspath(main)
    found = []
    for name, file in sorted(files.items()):
        # PyTorch's namespaces of operators have a relative name of no file.
        if isinstance(file, str) and os.path.isabs(file):
            if not os.path.isfile(file):
                return None  # In an archive, or gone.
            found.append(f"{name} {_of_code(file)}")
    mapped = _mapped_libraries()
    if mapped is None:
        return None
    return found + [f"{os.path.basename(path)} {_of_code(path)}" for path in sorted(mapped)]


def _files_of_modules() -> dict[str, object]:
    return {name: getattr(module, "__file__", None) for name, module in list(sys.modules.items())}


def _of_code(path: str) -> str:
    """The contents; of a large installed library the size."""
    size = os.path.getsize(path)
    return str(size) if size > MOST_READ and _is_installed(path) else _content(path)


def _is_installed(path: str) -> bool:
    places = (sys.prefix, sys.base_prefix, sysconfig.get_paths()["purelib"], *SYSTEM)
    return any(path.startswith(place + os.sep) for place in places) or _is_of_packages(path)


def _is_of_packages(path: str) -> bool:
    return f"{os.sep}site-packages{os.sep}" in path or f"{os.sep}dist-packages{os.sep}" in path


def _mapped_libraries() -> Optional[set[str]]:
    """Native libraries of this process that are not installed, such as extensions that a program builds."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
            paths = {line[line.find("/") :].rstrip("\n") for line in file if ".so" in line and "/" in line}
    except OSError:
        return None
    own = OWN + os.sep
    return {path for path in paths if not _is_installed(path) and not path.startswith(own) and os.path.isfile(path)}


def _arguments(root: Optional[str]) -> list[str]:
    """The words after the interpreter, and the folder in which it was started."""
    words = list(getattr(sys, "orig_argv", sys.argv)[1:])
    folder = os.path.realpath(os.getcwd())
    return [_relative(word, root) for word in [folder, *words]]


def _environment(root: Optional[str]) -> list[str]:
    variables = {name: value for name, value in os.environ.items() if not _is_of_the_run(name)}
    settings = os.environ.get(SETTINGS, "").split(";")
    variables[SETTINGS] = ";".join(part for part in settings if not part.startswith(SETTINGS_OF_THE_RUN))
    return [f"{name}={_relative(value, root)}" for name, value in sorted(variables.items())]


def _is_of_the_run(name: str) -> bool:
    return name in OF_THE_RUN or name.startswith(OF_THE_RUN_PREFIXES)


def _relative(text: str, root: Optional[str]) -> str:
    """A text without the folders that each checkout and each simulated run has for itself."""
    text = text.replace(OWN, "")
    return text if root is None else text.replace(root, ".")
