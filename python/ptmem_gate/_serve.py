"""Recordings of a program that runs for long, begun and ended from outside."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal as signals
import sys
import threading
import time
from typing import Any, Optional

from ._callbacks import write_failure
from ._facts import last_line, path_of_rank
from ._history import History, Stacks, import_torch
from ._recording import MAX_ENTRIES
from ._result import PathLike

#: Seconds between looks at the file that asks for a recording.
PAUSE = 0.2


def serve(
    path: PathLike,
    *,
    signal: Optional[int] = None,
    max_entries: int = MAX_ENTRIES,
    stacks: Stacks = "all",
) -> None:
    """Lets a program that runs for long be recorded without a restart. For the top of the program.

        serve("server.pkl")

    While the file server.pkl.record exists, memory is recorded; once it is removed, or the program ends, server.pkl
    is written. With `signal`, such as signal.SIGUSR2, one signal begins a recording, and the next one ends it. Whenever
    memory runs out, the snapshot of that moment is written to server-oom.pkl.

    The history is on from here, so that weights have call stacks; `max_entries` bounds what it takes. Processes that
    are forked before they use the GPU are recorded as well. Each rank of a job writes a file of its own, as with
    record(). While a snapshot is written, the program waits.
    """
    server = Server(os.fspath(path), History(import_torch(), max_entries, stacks))
    if signal is not None:
        server.listen(signal)
    server.history.begin()
    server.history.watch_failures(server.out_of_memory)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=server.forked)
    atexit.register(server.close)
    server.follow()


class Server:
    """A program that is recorded when it is asked to."""

    def __init__(self, path: str, history: History) -> None:
        self.path = path
        #: While this file exists, memory is recorded.
        self.trigger = path + ".record"
        self.history = history
        history.goes_on = True
        self._process = os.getpid()
        self._is_signalled = False
        self._is_recording = False

    def listen(self, signal: int) -> None:
        """Follows a signal, in front of what the program does with it."""
        before = signals.getsignal(signal)

        def note(number: int, frame: Any) -> None:
            self._is_signalled = not self._is_signalled
            if callable(before):
                before(number, frame)

        signals.signal(signal, note)

    def follow(self) -> None:
        """Follows the file and the signals, in a thread."""
        threading.Thread(target=self._follow, name="ptmem_gate.serve", daemon=True).start()

    def _follow(self) -> None:
        while True:
            self.look()
            time.sleep(PAUSE)

    def forked(self) -> None:
        """Goes on in a child. One of a process that used the GPU cannot use it."""
        self._process = os.getpid()
        if not self.history.is_on:
            self.follow()

    def look(self) -> None:
        """Begins or ends a recording if that is asked for. The program goes on, whatever happens."""
        try:
            self._turn(self._is_signalled or os.path.exists(self.trigger))
        except Exception as error:
            print(f"ptmem_gate.serve: {last_line(error)}", file=sys.stderr)

    def _turn(self, asked: bool) -> None:
        if asked == self._is_recording or not self.history.is_on:
            return
        self._is_recording = asked
        self.history.facts.note_rank()
        file = path_of_rank(self.path, self.history.facts.rank)
        if asked:
            # Nothing must be taken for this recording before it is written.
            with contextlib.suppress(FileNotFoundError):
                os.remove(file)
            self.history.restart()
        else:
            lacks = self.history.write(file)
            if lacks is not None:
                print(f"ptmem_gate.serve: {lacks}", file=sys.stderr)

    def close(self) -> None:
        """Writes the recording that is on when the program ends."""
        if os.getpid() == self._process and self._is_recording:
            self._is_signalled = False
            self._turn(False)

    def out_of_memory(self) -> None:
        if os.getpid() == self._process:
            folder, name = os.path.split(self.path)
            stem, dot, suffix = name.partition(".")
            write_failure(self.history, os.path.join(folder, f"{stem}-oom{dot}{suffix}"))
