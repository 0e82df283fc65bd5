"""Where the program decided by values that a simulated GPU does not know."""

import os
import sys

from ptmem_simulate_guards import guards, returned

# Kinds of decisions, by their numbers in the library, as recordings name them.
KINDS = ("sizes", "conditions", "whole numbers")
# Most places that a recording lists.
MOST_PLACES = 100


def place_of(file):
    """The path of a file within its package, if that is installed; its name otherwise."""
    return file.rpartition("/site-packages/")[2] if "/site-packages/" in file else os.path.basename(file)


class Place:
    """A line of the program, in a function; neither is known within the backward pass, which C++ runs."""

    def __init__(self, file=None, function=None, line=None, readers=()):
        self.file, self.function, self.line = file, function, line
        # The files and lines from the one that read the value, which may be PyTorch's, to this one and its callers that
        # get a condition returned.
        self.readers = readers

    @classmethod
    def current(cls, own, foreign):
        """The innermost line outside of `own` and `foreign`, prefixes of paths. The latter may have read the value.

        Code without a file, as of `python -c`, has a place only if no line of a file called it.
        """
        frame = sys._getframe()
        place, without_file, readers = None, None, []
        while frame is not None:
            file, line = frame.f_code.co_filename, frame.f_lineno
            if file.startswith("<"):
                if not file.startswith("<frozen "):
                    without_file = without_file or cls(file, frame.f_code.co_name, line, readers)
            elif not file.startswith(own):
                readers.append((file, line))
                if not file.startswith(foreign):
                    place = place or cls(file, frame.f_code.co_name, line, readers)
                    if line not in returned(file):
                        return place
            frame = frame.f_back
        return place or without_file or cls(readers=readers)

    def mark(self):
        """The file and the function, which survive a moved line: `train.py:has_nan`."""
        return f"{place_of(self.file)}:{self.function}" if self.file else "the backward pass"

    def line_text(self):
        return f"{place_of(self.file)}:{self.line}" if self.file else "the backward pass"

    def is_text(self):
        """True within the text of a tensor: it holds at most 1,000 elements, for as long as it is made."""
        return any(file.endswith("/torch/_tensor_str.py") for file, _ in self.readers)

    def is_guard(self):
        """True for a condition that only leads to an error or a message: it makes no difference to memory."""
        return any(line in guards(file) for file, line in self.readers)


class Guesses:
    """The decisions so far, by kind and place."""

    def __init__(self):
        self.counts = dict.fromkeys(range(len(KINDS)), 0)
        self.first = {}
        # Number of decisions, the line and the sum of the sizes, by kind and mark, in the order of the first ones.
        self.places = {}

    def add(self, kind, place, size=0):
        """Counts a decision, and the size that it gave. Returns the number of the place, from 1."""
        self.counts[kind] += 1
        self.first.setdefault(kind, place.line_text())
        key = kind, place.mark()
        if key in self.places or len(self.places) < MOST_PLACES:
            count, line, total = self.places.get(key, (0, place.line, 0))
            self.places[key] = count + 1, line, total + size
            return 1 + list(self.places).index(key)
        return MOST_PLACES + 1

    def facts(self):
        """The decisions as facts of a recording."""
        return {
            "followed": [[KINDS[kind], count, self.first[kind]] for kind, count in self.counts.items() if count],
            "guesses": [
                {"what": KINDS[kind], "at": mark, "line": line, "count": count, "total": total}
                for (kind, mark), (count, line, total) in self.places.items()
            ],
        }
