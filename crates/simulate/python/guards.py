"""Conditions that only lead to an error or a message: they make no difference to memory."""

import ast
import functools
import inspect
import linecache
import sys
import types

# Names of functions and objects that only print, warn or log.
REPORTING = frozenset(("print", "warn", "log", "logger", "logging", "warnings"))
# Functions and methods that only make a text, or a number for one.
TEXTS = frozenset(("str", "repr", "len", "type", "tuple", "list", "format", "join", "item", "tolist", "size", "dim"))
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
# Expressions that can make a tensor.
MAKING = (ast.Call, ast.BinOp, ast.Compare, ast.Subscript, ast.UnaryOp, ast.NamedExpr, ast.Await)
# Expressions with a decision of their own.
DECIDING = (ast.IfExp, ast.Lambda, ast.comprehension)


@functools.cache
def guards(file):
    """Lines of conditions in a file that only lead to an error or a message."""
    tree = parsed(file)
    scopes = [tree, *(node for node in ast.walk(tree) if isinstance(node, FUNCTIONS))]
    return frozenset(line for scope in scopes for line in Scope(file, scope).guards())


@functools.cache
def returned(file):
    """Lines of a file that return a condition to the caller, which decides by it."""
    found = (node for node in ast.walk(parsed(file)) if isinstance(node, ast.Return))
    plain = (node for node in found if not any(isinstance(part, DECIDING) for part in ast.walk(node)))
    return frozenset(line for node in plain for line in range(node.lineno, node.end_lineno + 1))


@functools.cache
def parsed(file):
    """The syntax tree of a file; an empty one if there is none."""
    try:
        return ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError, RecursionError):
        return ast.Module(body=[], type_ignores=[])


class Scope:
    """The statements of a module or a function. `callers` are the functions whose check of this one is under way."""

    def __init__(self, file, node, callers=()):
        self.file, self.node, self.callers = file, node, callers
        self.messages = frozenset()
        if isinstance(node, FUNCTIONS):
            self.find_messages()

    def own_nodes(self):
        """The nodes without those of the functions and classes inside."""
        waiting = list(self.node.body)
        while waiting:
            node = waiting.pop()
            yield node
            if not isinstance(node, (*FUNCTIONS, ast.ClassDef)):
                waiting.extend(ast.iter_child_nodes(node))

    def find_messages(self):
        """Finds the local names that hold only texts and constants, and that are used only in messages and errors."""
        nodes = list(ast.walk(self.node))
        names = [node for node in nodes if isinstance(node, ast.Name)]
        texts = {id(target) for node in nodes for target in targets_of_text(node)}
        shared = {name for node in nodes if isinstance(node, (ast.Global, ast.Nonlocal)) for name in node.names}
        stored = {name.id for name in names if not isinstance(name.ctx, ast.Load)}
        others = {name.id for name in names if not isinstance(name.ctx, ast.Load) and id(name) not in texts}
        self.messages = stored - others - shared
        while True:
            reported = {id(part) for node in self.own_nodes() if self.only_reports(node) for part in ast.walk(node)}
            used = {name.id for name in names if isinstance(name.ctx, ast.Load) and id(name) not in reported}
            if not self.messages & used:
                return
            self.messages -= used

    def guards(self):
        for node in self.own_nodes():
            is_guard = isinstance(node, ast.If) and self.all_report([*node.body, *chained(node)])
            if is_guard or isinstance(node, ast.Assert):
                yield from range(node.lineno, node.test.end_lineno + 1)

    def all_report(self, statements):
        return all(map(self.only_reports, statements))

    def only_reports(self, node):
        """True for a statement that fails, prints, warns or logs, or only makes the text for that."""
        if isinstance(node, (ast.Pass, ast.Raise, ast.Assert, ast.Import, ast.ImportFrom)):
            return True
        if isinstance(node, ast.If):
            return not computes(node.test) and self.all_report([*node.body, *chained(node)])
        if isinstance(node, ast.Return):
            return bool(self.callers) and (node.value is None or not computes(node.value))
        if isinstance(node, ast.Expr):
            return isinstance(node.value, ast.Constant) or self.is_report(node.value)
        return any(target.id in self.messages for target in targets_of_text(node))

    def is_report(self, call):
        """True for a call that prints, warns or logs its arguments."""
        if not isinstance(call, ast.Call) or any(map(computes, [*call.args, *(word.value for word in call.keywords)])):
            return False
        names = names_of(call.func)
        is_known = bool(names) and (names[0] in REPORTING or bool(REPORTING & set(names[1:-1])))
        return is_known or (bool(names) and self.calls_reporter(names))

    def calls_reporter(self, names):
        """True for the name of a function, looked up in this module, that does nothing else."""
        function = inspect.unwrap(functools.reduce(attribute, names, module_of(self.file)))
        if not isinstance(function, types.FunctionType):
            return False
        file, line = function.__code__.co_filename, function.__code__.co_firstlineno
        node = function_at(file, line)
        if node is None or (file, line) in self.callers:
            return node is not None
        return Scope(file, node, (*self.callers, (file, line))).body_only_reports()

    def body_only_reports(self):
        return self.all_report(self.node.body)


def chained(condition):
    """The statements of the other branches; the condition of an `elif` counts as part of the first."""
    other = condition.orelse
    while len(other) == 1 and isinstance(other[0], ast.If) and other[0].col_offset == condition.col_offset:
        yield from other[0].body
        other = other[0].orelse
    yield from other


def targets_of_text(node):
    """The names to which a statement assigns a text or a constant."""
    if isinstance(node, ast.Assign) and is_text(node.value):
        return [target for target in node.targets if isinstance(target, ast.Name)]
    is_other = isinstance(node, (ast.AnnAssign, ast.AugAssign)) and node.value is not None and is_text(node.value)
    return [node.target] if is_other and isinstance(node.target, ast.Name) else []


def is_text(node):
    """True for a constant, and for a text made without computing a tensor."""
    is_joined = isinstance(node, ast.BinOp) and (is_text(node.left) or is_text(node.right))
    is_formatted = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and is_text(node.func.value)
    return isinstance(node, (ast.Constant, ast.JoinedStr)) or ((is_joined or is_formatted) and not computes(node))


def computes(expression):
    """True if an expression can make a tensor."""
    return any(isinstance(node, MAKING) and not makes_no_tensor(node) for node in ast.walk(expression))


def makes_no_tensor(node):
    """True for an expression that makes a text, a number or a view, although others of its kind can make a tensor."""
    if isinstance(node, ast.Call):
        return (names_of(node.func) or [getattr(node.func, "attr", "")])[-1] in TEXTS
    if isinstance(node, ast.BinOp):
        return is_string(node.left) or is_string(node.right)
    if isinstance(node, ast.Compare):
        return all(isinstance(way, (ast.Is, ast.IsNot)) for way in node.ops)
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.Not) or isinstance(node.operand, ast.Constant)
    return isinstance(node, ast.Subscript) and not computes(node.slice) and not isinstance(node.slice, ast.Name)


def is_string(node):
    joined = isinstance(node, ast.BinOp) and (is_string(node.left) or is_string(node.right))
    return joined or isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def names_of(function):
    """The names in a call, outer ones first: a, b, c for `a.b().c`."""
    names = []
    while isinstance(function, (ast.Attribute, ast.Call)):
        if isinstance(function, ast.Attribute):
            names.insert(0, function.attr)
        function = function.value if isinstance(function, ast.Attribute) else function.func
    return [function.id, *names] if isinstance(function, ast.Name) else []


def attribute(owner, name):
    return getattr(owner, "__dict__", {}).get(name)


def module_of(file):
    """The module that was read from a file. Reads no attribute that the module would compute."""
    return next((module for module in list(sys.modules.values()) if attribute(module, "__file__") == file), None)


def function_at(file, line):
    """The function that begins at this line, with its decorators."""
    functions = (node for node in ast.walk(parsed(file)) if isinstance(node, FUNCTIONS))
    return next((node for node in functions if line == min(part.lineno for part in (node, *node.decorator_list))), None)
