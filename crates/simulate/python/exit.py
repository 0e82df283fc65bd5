"""How the program ends: the reason where Python itself does not keep it, and the exit status."""

import functools
import os
import sys
import tempfile
import threading


class Exit:
    """The failure of the exception that ends the program."""

    def __init__(self):
        #: The file for the exit status; None until a recording is written.
        self.status_file = None
        #: The failure of the call of `sys.exit` that ended the program.
        self.left_by = None
        leave = sys.exit

        @functools.wraps(leave)  # With its name: pickle finds it by that.
        def leave_noted(status=None, /):
            try:
                leave(status)
            except SystemExit as error:
                error.ptmem_passage = Passage(self, failure_of(error))
                raise

        sys.exit = leave_noted

    def failure(self):
        """The error that ends the program, or its status in words; None on success."""
        error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
        return error or self.left_by or failure_of(leaving_process())

    def note_status(self, folder):
        """Has the library write the exit status to a file: Python cannot know it before its own end."""
        import ctypes

        note = getattr(ctypes.CDLL(None), "ptmem_simulate_note_exit", None)
        # The folder is gone where the process outlives the command.
        if note is not None and os.path.isdir(folder):
            file, self.status_file = tempfile.mkstemp(prefix="exit-", dir=folder)
            os.close(file)
            note(os.fsencode(self.status_file))


class Passage:
    """Goes with the exception of `sys.exit`: it is dropped below all code of Python only if nothing catches that.

    When `atexit` calls its functions, Python keeps no such exception any more. In a thread, it ends that alone; in
    those functions, after the end of the main thread, it ends nothing.
    """

    def __init__(self, of_program, failure):
        self.of_program, self.failure = of_program, failure

    def __del__(self):
        main = threading.main_thread()
        if threading.get_ident() == main.ident and main.is_alive() and not has_caller():
            self.of_program.left_by = self.failure

    def __reduce__(self):
        return object, ()  # The copy of an exception, in another process too, ends nothing here.


def has_caller():
    """True if code of Python called the function that asks."""
    try:
        sys._getframe(2)
    except ValueError:
        return False
    return True


def leaving_process():
    """The exception that ends a process of multiprocessing, which calls its functions while it passes; None if none."""
    from multiprocessing.process import BaseProcess

    error = sys.exc_info()[1]
    trace = error and error.__traceback__
    return error if trace and trace.tb_frame.f_code is BaseProcess._bootstrap.__code__ else None


def failure_of(error):
    """An error, or what led to a call of `sys.exit`, or its status in words; None without an error or with status 0."""
    if not isinstance(error, SystemExit):
        return error
    # A parent sees the lowest byte.
    status = error.code & 0xFF if isinstance(error.code, int) else 1
    if error.code is None or status == 0:
        return None
    if error.__context__ is not None:
        return error.__context__
    return f"exit status {status}" if isinstance(error.code, int) else f"exit status {status}: {error.code}"
