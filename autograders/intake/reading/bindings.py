"""What a cell's code binds and defines, also where it is broken: answers are found by the functions they define."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from .submission_limits import MAX_CODE

_BINDS = re.compile(r"^(?:async\s+def|def|class)\s+(\w+)|^(\w+)\s*(?::[^=\n]+)?=[^=]", re.MULTILINE)
_DEFINITIONS = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def names_bound(source: str) -> set[str]:
    """The names that a cell's top level binds: functions, classes, assignments, imports; also of broken code."""
    tree = parsed(source)
    if tree is None:
        return {name for pair in _BINDS.findall(source) for name in pair if name}
    return {name for statement in tree.body for name in _bound(statement)}


def definitions(source: str) -> dict[str, str]:
    """The imports, functions and classes of a cell's top level: each one's text, by itself normalised."""
    tree = parsed(source)
    lines = source.splitlines()
    texts = {}
    for node in [] if tree is None else tree.body:
        if isinstance(node, _DEFINITIONS):
            first = min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", ()))])
            text = "\n".join(lines[first - 1 : node.end_lineno])
            texts[_normalised(node, text)] = text
    return texts


def _normalised(node: ast.stmt, text: str) -> str:
    try:
        return ast.dump(node)
    except RecursionError:  # a sum of a thousand terms
        return text


def parsed(source: str) -> ast.Module | None:
    """The syntax tree of a cell without its line magics, or None."""
    if len(source) > MAX_CODE:  # a text cell that is where code is looked for
        return None
    code = "\n".join("" if line.startswith(("%", "!", "?")) else line for line in source.splitlines())
    try:
        return ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _bound(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield statement.name
    elif isinstance(statement, ast.Import | ast.ImportFrom):
        yield from (alias.asname or alias.name.split(".")[0] for alias in statement.names)
    elif isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        yield from (node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name))
