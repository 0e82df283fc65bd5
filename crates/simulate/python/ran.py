"""Digests of what a program ran, by which two recordings tell whether they are of the same program.

Each part is None where it is not known: then nobody may say that the programs are the same. `ptmem simulate` copies
this file to the programs that it records: it imports nothing of the package. docs/snapshot-format.md describes the
facts.
"""

from __future__ import annotations

import hashlib
import os
import struct
import sys
import sysconfig
from collections.abc import Iterable, Iterator
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
        "PTMEM_SIMULATE_WATCH",
    ]
)
OF_THE_RUN_PREFIXES = ("GITHUB_", "RUNNER_", "CI_")

#: The settings of `ptmem simulate`, and those of them that differ in each run.
SETTINGS = "PTMEM_SIMULATE"
SETTINGS_OF_THE_RUN = ("hook=", "ledger=", "parent=")

#: Bytes before the name of an entry in git's index, and the bit of its flags that stands for two more.
FIXED, EXTENDED = 62, 0x4000


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
            "opened": _digest(self._tracked_and_opened(root)),
            "arguments": _digest(_arguments(root)),
            "environment": _digest(_environment(root)),
        }

    def _tracked_and_opened(self, root: Optional[str]) -> Optional[list[str]]:
        """Files of the repository that were opened, with their contents."""
        opened = self._opened()
        tracked = None if root is None else tracked_files(root)
        if root is None or opened is None or tracked is None:
            return None
        names = {os.path.relpath(path, root).replace(os.sep, "/") for path in opened}
        return [f"{name} {_content(os.path.join(root, name))}" for name in sorted(names & tracked)]


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
    files = {name: getattr(module, "__file__", None) for name, module in list(sys.modules.items())}
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


def _of_code(path: str) -> str:
    """Of an installed library its size, since such files are large; of all else the contents."""
    is_native = not path.endswith((".py", ".pyc"))
    return str(os.path.getsize(path)) if is_native and _is_installed(path) else _content(path)


def _is_installed(path: str) -> bool:
    places = (sys.prefix, sys.base_prefix, sysconfig.get_paths()["purelib"], "/usr", "/lib", "/opt/conda")
    return any(path.startswith(place + os.sep) for place in places) or f"{os.sep}site-packages{os.sep}" in path


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


def tracked_files(root: str) -> Optional[set[str]]:
    """The files that git tracks in a checkout, from its index; None if it cannot be read."""
    folder = os.path.join(root, ".git")
    try:
        if os.path.isfile(folder):  # A worktree: the file names its folder.
            with open(folder, encoding="utf-8") as file:
                folder = os.path.join(root, file.read().partition("gitdir:")[2].strip())
        with open(os.path.join(folder, "index"), "rb") as index:
            return set(_names_in_index(index.read()))
    except (OSError, ValueError, IndexError, struct.error):
        return None


def _names_in_index(data: bytes) -> Iterator[str]:
    """Names of the entries of git's index, versions 2 to 4."""
    signature, version, count = struct.unpack_from(">4sII", data)
    if signature != b"DIRC" or version not in (2, 3, 4):
        raise ValueError("no index of a known version")
    at, name = 12, b""
    for _ in range(count):
        (flags,) = struct.unpack_from(">H", data, at + FIXED - 2)
        start = at + FIXED + (2 if flags & EXTENDED else 0)
        if version == 4:
            removed, start = _offset(data, start)
            name = name[: len(name) - removed]
        else:
            name = b""
        end = data.index(b"\0", start)
        name += data[start:end]
        yield name.decode(errors="surrogateescape")
        # Before version 4, entries end with one to eight zeros, on a multiple of eight bytes.
        at = end + 1 if version == 4 else at + (end - at) // 8 * 8 + 8


def _offset(data: bytes, at: int) -> tuple[int, int]:
    """A number of variable length as in git's packs, and where it ends."""
    value = data[at] & 0x7F
    while data[at] & 0x80:
        at += 1
        value = (value + 1) << 7 | data[at] & 0x7F
    return value, at + 1
