"""Names the modules that a program imports as it starts and that are not installed, with the line of the first import.

    python imports.py WORD...

The words are those of the command that starts the program; those that name its files count. Only imports that run for
certain count: at the top of the program, and of its own modules that it imports there. Where the program changes the
search path, nothing is certain. Runs with the Python of the program, in its folder.
"""

import ast
import importlib.util
import os
import sys

FOUND_ELSEWHERE = ("sys.path", "sys.meta_path", "site.addsitedir", "sys.modules")


def parsed(path):
    """The syntax tree of a module, or None if it cannot be parsed or changes the search path."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
        return None if any(word in text for word in FOUND_ELSEWHERE) else ast.parse(text)
    except (OSError, SyntaxError, ValueError):
        return None


def imports(tree):
    """The absolute imports at the top of a module, with their lines."""
    for statement in tree.body:
        if isinstance(statement, ast.Import):
            for alias in statement.names:
                yield alias.name, statement.lineno
        elif isinstance(statement, ast.ImportFrom) and not statement.level and statement.module:
            yield statement.module, statement.lineno


class Search:
    def __init__(self, folder):
        sys.path[0] = folder
        self.folder = os.path.realpath(folder)
        self.missing = {}
        self.seen = set()
        self.is_certain = True

    def is_own(self, origin):
        """True for a file of the program."""
        if not origin or not origin.endswith(".py") or "site-packages" in origin:
            return False
        return os.path.realpath(origin).startswith(self.folder + os.sep)

    def look_into(self, path):
        """Follows the imports of a file of the program."""
        if path in self.seen:
            return
        self.seen.add(path)
        tree = parsed(path)
        if tree is None:
            self.is_certain = False
            return
        for name, line in imports(tree):
            top = name.partition(".")[0]
            spec = importlib.util.find_spec(top)
            if spec is None:
                self.missing.setdefault(top, f"{os.path.relpath(path)}:{line}")
            elif self.is_own(spec.origin):
                self.look_into(spec.origin)


def files(words):
    """The files of the program, and the folders that its imports begin from."""
    for before, word in zip(["", *words], words):
        if before == "-m":
            path = word.replace(".", os.sep) + ".py"
            if os.path.isfile(path):
                yield path, os.getcwd()
        elif word.endswith(".py") and os.path.isfile(word):
            yield word, os.path.dirname(os.path.abspath(word))


def main(words):
    if "PYTHONPATH" in os.environ or any("PYTHONPATH" in word for word in words):
        return []
    missing = {}
    for path, folder in files(words):
        search = Search(folder)
        search.look_into(path)
        if search.is_certain:
            missing.update({**search.missing, **missing})
    return [f"{name} ({place})" for name, place in sorted(missing.items())]


if __name__ == "__main__":
    found = main(sys.argv[1:])
    if found:
        print("\n".join(found))
    sys.exit(1 if found else 0)
