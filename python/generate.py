#!/usr/bin/env python3
"""Completes the JSON Schemas in docs/schemas, and writes results.py from them: python3 python/generate.py [--check]

Schemas are published whole: each has its own definitions, and copies of those of shared.json to which it refers.

In python/ptmem_gate/results.py, each object of a contract becomes a dataclass, each named enumeration an alias.
Objects that are the same in several contracts are one class; where they differ, those of the later contract have its
name before theirs.
"""

from __future__ import annotations

import json
import sys
import textwrap
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional

ROOT = Path(__file__).resolve().parent.parent
SCHEMAS = ROOT / "docs" / "schemas"
SHARED = SCHEMAS / "shared.json"
OUTPUT = ROOT / "python" / "ptmem_gate" / "results.py"
WIDTH = 120

HEAD = '''"""The results of the commands, as their JSON contracts describe them. Sizes are bytes.

Made from docs/schemas by python/generate.py: do not edit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Optional

from ._result import Result
'''


@dataclass(frozen=True)
class Contract:
    """A contract, and where the object lies that a command prints."""

    name: str
    file: str
    root: str
    definition: Optional[str] = None


CONTRACTS = (
    Contract("Diff", "ptmem.diff-2.schema.json", "Comparison"),
    Contract("Profile", "ptmem.profile-1.schema.json", "Snapshot", definition="report"),
    Contract("Leak", "ptmem.leak-1.schema.json", "Leaks"),
    Contract("Suite", "ptmem.suite-1.schema.json", "Suite"),
    Contract("Job", "ptmem.ranks-1.schema.json", "Ranks"),
)

#: Where a schema refers to its definitions.
REFERENCE = "#/$defs/"

#: Stands for the name of a class in its own text, until it is known.
NAME = "<name>"

PLAIN = {"integer": "int", "string": "str", "boolean": "bool", "number": "float", "null": "None"}


def layout(node: Any, indent: int = 0, before: int = 0) -> str:
    """JSON whose lists of plain values have one line each, as have objects that fit; `before` columns are taken."""
    if isinstance(node, list) and not any(isinstance(value, (dict, list)) for value in node):
        return json.dumps(node, ensure_ascii=False)
    if not node or not isinstance(node, (dict, list)):
        return json.dumps(node, ensure_ascii=False)
    items = [("", value) for value in node] if isinstance(node, list) else [(f'"{key}": ', node[key]) for key in node]
    opening, closing = "[]" if isinstance(node, list) else "{}"
    line = f"{opening} {', '.join(key + layout(value) for key, value in items)} {closing}"
    if indent + before + len(line) <= WIDTH and "\n" not in line:
        return line
    pad = " " * (indent + 2)
    lines = ",\n".join(pad + key + layout(value, indent + 2, len(key)) for key, value in items)
    return f"{opening}\n{lines}\n{' ' * indent}{closing}"


def references(node: Any) -> set[str]:
    """The definitions to which a part of a schema refers."""
    if isinstance(node, list):
        return set().union(*map(references, node))
    if not isinstance(node, dict):
        return set()
    found = set().union(*map(references, node.values()))
    reference = node.get("$ref")
    return found | {reference.removeprefix(REFERENCE)} if isinstance(reference, str) else found


def reached(schema: dict[str, Any], known: dict[str, Any]) -> set[str]:
    """The definitions that a schema needs, including those that other definitions need."""
    found: set[str] = set()
    new = references({key: value for key, value in schema.items() if key != "$defs"})
    while new:
        found |= new
        new = set().union(*(references(known[name]) for name in new)) - found
    return found


def published() -> dict[Path, str]:
    """The text of every schema: its own definitions, and the shared ones that it needs, each in their order."""
    shared = json.loads(SHARED.read_text(encoding="utf-8"))
    texts = {SHARED: layout(shared) + "\n"}
    owners: dict[str, Path] = {}
    for path in sorted(SCHEMAS.glob("*.schema.json")):
        schema = json.loads(path.read_text(encoding="utf-8"))
        own = {name: node for name, node in schema.get("$defs", {}).items() if name not in shared["$defs"]}
        known = {**own, **shared["$defs"]}
        needed = reached(schema, known)
        for name in own:
            if name not in needed:
                raise SystemExit(f"{path}: nothing refers to the definition '{name}'")
            if name in owners:
                raise SystemExit(
                    f"{path}: '{name}' is also defined in {owners[name]}: move it to {SHARED}, or rename it"
                )
            owners[name] = path
        if needed:
            schema["$defs"] = {name: node for name, node in known.items() if name in needed}
        texts[path] = layout(schema) + "\n"
    return texts


def camel(name: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))


def optional(hint: str) -> str:
    return hint if hint.startswith("Optional[") else f"Optional[{hint}]"


def literal(values: list[Any]) -> str:
    known = [json.dumps(value) for value in values if value is not None]
    hint = f"Literal[{', '.join(known)}]"
    return optional(hint) if None in values else hint


def docstring(text: str, indent: int) -> str:
    pad = " " * indent
    if len(text) + indent + 6 <= WIDTH:
        return f'{pad}"""{text}"""\n'
    lines = textwrap.wrap(text, WIDTH - indent, break_long_words=False)
    return f'{pad}"""' + f"\n{pad}".join(lines_of(lines, text, indent)) + f'\n{pad}"""\n'


def lines_of(lines: list[str], text: str, indent: int) -> list[str]:
    """The first line is three characters shorter: it begins with the quotes."""
    first = textwrap.wrap(text, WIDTH - indent - 3, break_long_words=False)[0]
    rest = text[len(first) :].strip()
    return [first, *textwrap.wrap(rest, WIDTH - indent, break_long_words=False)] if rest else lines


@dataclass(frozen=True)
class Field:
    name: str
    hint: str
    required: bool
    description: str

    def text(self) -> str:
        line = f"    {self.name}: {self.hint}" + ("" if self.required else " = None")
        return wrapped(line) + (docstring(self.description, 4) if self.description else "")


def wrapped(line: str) -> str:
    """A line, broken at its outermost bracket if it is too long; many choices have a line each."""
    if len(line) <= WIDTH:
        return line + "\n"
    before, _, rest = line.partition("[")
    inner, _, after = rest.rpartition("]")
    pad = " " * (len(line) - len(line.lstrip()))
    if len(pad) + 4 + len(inner) <= WIDTH or "[" in inner:
        body = wrapped(f"{pad}    {inner}")
    else:
        body = "".join(f"{pad}    {value},\n" for value in inner.split(", "))
    return f"{before}[\n{body}{pad}]{after}\n"


def named(template: str, name: str) -> str:
    """The definition of a template, under its name: a class, or the one line of an alias."""
    text = template.replace(NAME, name)
    return text if text.endswith("\n") else wrapped(text)


@dataclass
class Module:
    """The classes and aliases so far, by name, in the order in which they need each other."""

    texts: dict[str, str] = field(default_factory=dict)

    def add(self, contract: Contract, name: str, template: str) -> str:
        """Adds what a template, with the placeholder for its name, describes; the name under which it is known."""
        # The names of results are theirs, whatever the parts of another one are called.
        taken = {other.root for other in CONTRACTS if other is not contract}
        prefixes = ["", *(other.name for other in CONTRACTS)]
        for prefix in prefixes:
            known = prefix + name
            if known not in taken and self.texts.get(known) == named(template, known):
                return known
        for new in (name, contract.name + name):
            if new not in taken and new not in self.texts:
                self.texts[new] = named(template, new)
                return new
        raise SystemExit(f"{contract.file}: {name}: there are two of {contract.name + name} that differ")


@dataclass
class Reader:
    """Reads one schema into the module."""

    module: Module
    contract: Contract
    schema: dict[str, Any]

    def hint(self, node: dict[str, Any], name: str) -> str:
        """The type of a value; `name` is that of a class for it, if it needs one."""
        if "$ref" in node:
            definition = node["$ref"].rsplit("/", 1)[1]
            return self.definition(definition)
        if "const" in node:
            return literal([node["const"]])
        if "enum" in node:
            values = node["enum"]
            return literal(values) if all(isinstance(value, (str, type(None))) for value in values) else "int"
        if "anyOf" in node:
            hints = [self.hint(choice, name) for choice in node["anyOf"]]
            others = [hint for hint in hints if hint != "None"]
            if len(others) != 1:
                raise SystemExit(f"{self.contract.file}: {name}: a choice of {others}; expected one type, or null")
            return optional(others[0]) if "None" in hints else others[0]
        kind = node.get("type")
        if isinstance(kind, list):
            others = [self.hint({**node, "type": one}, name) for one in kind if one != "null"]
            return optional(others[0])
        if kind == "array":
            return f"list[{self.hint(node['items'], name.removesuffix('s'))}]"
        if kind == "object" and "properties" in node:
            return self.object(node, name)
        if kind == "object":
            return f"dict[str, {self.hint(node['additionalProperties'], name + 'Value')}]"
        return PLAIN[str(kind)]

    def definition(self, definition: str) -> str:
        node = self.schema["$defs"][definition]
        hint = self.hint(node, camel(definition))
        if "enum" in node and hint != "int":
            return self.module.add(self.contract, camel(definition), f"{NAME} = {hint}")
        return hint

    def object(self, node: dict[str, Any], name: str, base: str = "") -> str:
        required = node.get("required", [])
        fields = [
            self.field(key, value, f"{name}{camel(key)}", key in required) for key, value in node["properties"].items()
        ]
        fields.sort(key=lambda one: not one.required)
        options = "frozen=True, repr=False" if base else "frozen=True"
        text = f"@dataclass({options})\nclass {NAME}{base}:\n"
        if "description" in node:
            text += docstring(node["description"], 4) + "\n"
        return self.module.add(self.contract, name, text + "".join(one.text() for one in fields))

    def field(self, key: str, node: dict[str, Any], name: str, required: bool) -> Field:
        if not key.isidentifier():
            raise SystemExit(f"{self.contract.file}: '{key}' cannot be the name of a field")
        hint = self.hint(node, name)
        return Field(key, hint if required else optional(hint), required, node.get("description", ""))

    def read(self) -> None:
        root = self.schema["$defs"][self.contract.definition] if self.contract.definition else self.schema
        known = self.object(root, self.contract.root, base="(Result)")
        if known != self.contract.root:
            raise SystemExit(f"{self.contract.file}: {self.contract.root}: another one has this name")


def generate() -> str:
    module = Module()
    for contract in CONTRACTS:
        schema = json.loads((SCHEMAS / contract.file).read_text(encoding="utf-8"))
        Reader(module, contract, schema).read()
    text = HEAD
    after_class = False
    for body in module.texts.values():
        is_class = body.startswith("@")
        # Around classes there are two empty lines, between aliases none.
        text += ("\n\n" if is_class or after_class else "") + body
        after_class = is_class
    return text


def main() -> None:
    # The schemas first: results.py is made from the complete ones.
    for write in (published, lambda: {OUTPUT: generate()}):
        for path, text in write().items():
            if path.read_text(encoding="utf-8") == text:
                continue
            if sys.argv[1:] == ["--check"]:
                raise SystemExit(f"{path} is not what the schemas say: run python3 python/generate.py")
            path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
