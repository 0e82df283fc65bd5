"""Notes which files of the repository a program opens to read, in all of its processes that are a Python."""

import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
NOTES = os.path.join(HERE, "opened")
RUN = os.path.dirname(HERE) + os.sep


def root_around(folder):
    """The checkout around a folder, with a separator at its end."""
    while not os.path.exists(os.path.join(folder, ".git")):
        folder, below = os.path.dirname(folder), folder
        if folder == below:
            return None
    return os.path.realpath(folder) + os.sep


def is_of_interest(path, root):
    # In a linked worktree, .git is a file that names the folder of git.
    is_of_git = (path + os.sep).startswith(root + ".git" + os.sep)
    return path.startswith(root) and not is_of_git and not path.startswith(RUN) and not path.endswith(".pyc")


class WorkingTree:
    """What is read of the working tree of a gate: its base must read its own worktree.

    `ptmem gate` names the tree, the worktree of the base, the time at which the recording began, and the file for the
    names of what is read, each ended by a zero: names may be any bytes.
    """

    def __init__(self, text):
        root, own, began, self.notes = text.split("\n")
        self.root = os.path.realpath(root) + os.sep
        self.began = float(began)
        self.started = time.time()
        self.own = os.path.realpath(own) + os.sep if own else None
        # A cache or an environment may lie in the working tree.
        others = (os.path.realpath(folder) + os.sep for folder in (sys.prefix, self.root + ".git"))
        self.others = tuple(folder for folder in others if folder.startswith(self.root))

    def note(self, path):
        if self.own and path.startswith(self.own):
            # Also what another process of the recording made there, which the working tree may have had before.
            if os.path.isfile(path) and os.stat(path).st_mtime < self.started:
                self.write(path)
            return
        if not path.startswith(self.root) or path.startswith(self.others):
            return
        path = source_of(path)
        # Files that the recording makes are not those that it began with.
        if os.path.isfile(path) and os.stat(path).st_mtime < self.began:
            self.write(path)

    def write(self, path):
        with open(self.notes, "ab") as notes:
            notes.write(os.fsencode(path) + b"\0")


def source_of(path):
    """The file that a compiled one was made of, or else the file itself."""
    folder, name = os.path.split(path)
    if not name.endswith(".pyc") or os.path.basename(folder) != "__pycache__":
        return path
    return os.path.join(os.path.dirname(folder), name.split(".", 1)[0] + ".py")


def watch(_):
    """Begins to note."""
    root = root_around(os.getcwd())
    text = os.environ.get("PTMEM_SIMULATE_WORKING_TREE")
    tree = WorkingTree(text) if text else None
    if root is None and tree is None:
        return
    seen = set()

    def opened(event, arguments):
        if event != "open":
            return
        try:
            path, _, flags = arguments
            if isinstance(path, int):
                return
            path = os.path.realpath(os.fsdecode(path))
            # Files that the program makes are results, also where it reads them later.
            if (flags or 0) & os.O_TRUNC:
                seen.add(path)
            if (flags or 0) & os.O_ACCMODE == os.O_WRONLY or path in seen:
                return
            seen.add(path)
            if tree is not None:
                tree.note(path)
            if root is not None and is_of_interest(path, root):
                with open(NOTES, "a", encoding="utf-8", errors="surrogateescape") as notes:
                    notes.write(path + "\n")
        except Exception:  # The program goes on, and nobody may say what it opened.
            open(NOTES + ".failed", "w").close()
            if tree is not None:
                open(tree.notes + ".failed", "w").close()

    sys.addaudithook(opened)


def files():
    """The files that were opened so far; None if not known."""
    if os.path.exists(NOTES + ".failed") or root_around(os.getcwd()) is None:
        return None
    try:
        with open(NOTES, encoding="utf-8", errors="surrogateescape") as notes:
            return notes.read().splitlines()
    except FileNotFoundError:
        return []
