"""First-order mutants of an answer: each is one small edit of its text, as a student's slip would be."""

from __future__ import annotations

import ast
import itertools
import types
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from .slips import Edit, Names, Text, edits_of


@dataclass(frozen=True)
class Mutant:
    """An edited answer: its whole text, the operator, and the edit as old and new text of the line."""

    source: str
    operator: str
    old: str
    new: str

    def __str__(self) -> str:
        return f"{self.operator}: {self.old}  →  {self.new}"


def mutants(source: str, types_of: Names) -> list[Mutant]:
    """Every mutant of an answer's text, without those that compile to the same code as the answer or another one."""
    tree = ast.parse(source)
    text = Text(source)
    compiled = {_code(source)}
    kept = []
    for edits in _groups(tree, text, types_of):
        changed = text.edited(edits)
        code = _code(changed)
        if code is not None and code not in compiled:
            compiled.add(code)
            first = min(edits, key=lambda edit: edit.start)
            old = text.line(first)
            new = Text(changed).line(Edit("", first.start, first.start, ""))
            kept.append(Mutant(changed, first.operator, old, new))
    return kept


def _code(source: str) -> tuple[object, ...] | None:
    """What a text compiles to, without names of files and numbers of lines; None for no program."""
    try:
        return _content(compile(source, "answer", "exec"))
    except (SyntaxError, ValueError):
        return None


def _content(code: types.CodeType) -> tuple[object, ...]:
    constants = tuple(
        _content(item) if isinstance(item, types.CodeType) else (type(item).__name__, repr(item))
        for item in code.co_consts
    )
    return code.co_code, code.co_names, code.co_varnames, code.co_freevars, constants


def _groups(tree: ast.AST, text: Text, types_of: Names) -> Iterator[list[Edit]]:
    """The edits of each mutant: every single one, and the same one everywhere in a statement or in the answer."""
    edits = list(edits_of(tree, text, types_of))
    yield from ([edit] for edit in edits)
    same: dict[tuple[str, str, str], list[Edit]] = {}
    for edit in edits:
        same.setdefault((edit.operator, text.source[edit.start : edit.end], edit.new), []).append(edit)
    for group in same.values():
        if len(group) > 1 and not _overlapping(group):
            yield group
    for statement in ast.walk(tree):
        if isinstance(statement, ast.stmt) and not isinstance(statement, ast.FunctionDef | ast.ClassDef):
            start, end = text.place(statement)
            for group in same.values():
                inside = [edit for edit in group if start <= edit.start and edit.end <= end]
                if 1 < len(inside) < len(group) and not _overlapping(inside):
                    yield inside


def _overlapping(edits: Iterable[Edit]) -> bool:
    ordered = sorted(edits, key=lambda edit: edit.start)
    return any(a.end > b.start for a, b in itertools.pairwise(ordered))
