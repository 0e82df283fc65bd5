"""Runs the cells of a notebook that hold code, as a module whose file is the notebook."""

import json
import linecache


def load(path):
    names = {"__name__": path}
    with open(path, encoding="utf-8") as file:
        cells = json.load(file)["cells"]
    for number, cell in enumerate(cells):
        if cell["cell_type"] == "code":
            text = "".join(cell["source"])
            name = f"{path}[{number}]"
            linecache.cache[name] = len(text), None, text.splitlines(True), name
            exec(compile(text, name, "exec"), names)
    return names
