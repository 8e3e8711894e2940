"""The small edits of a program that a student's slip would be, node by node of its syntax tree."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

Names = Mapping[str, str]
"""The type of each variable, by its name: only variables of equal type are exchanged."""

_CONFUSED = (
    ("mean", "sum"),
    ("max", "min"),
    ("argmax", "argmin"),
    ("amax", "amin"),
    ("any", "all"),
    ("train", "eval"),
    ("train", "val"),
    ("state_dict", "named_parameters"),
    ("buffers", "parameters"),
    ("var", "std"),
    ("median", "mean"),
    ("floor", "ceil"),
    ("log", "log2"),
    ("log_softmax", "softmax"),
    ("sorted", "list"),
    ("zeros_like", "ones_like"),
    ("zeros", "ones"),
    ("numel", "dim"),
    ("len", "max"),
    ("first", "last"),
    ("float32", "float64"),
    ("float16", "bfloat16"),
    ("deepcopy", "copy"),
    ("add_", "copy_"),
    ("append", "extend"),
    ("keys", "values"),
    ("items", "keys"),
)
_OPERATORS: dict[type, tuple[str, ...]] = {
    ast.Add: ("-",),
    ast.Sub: ("+",),
    ast.Mult: ("/", "+"),
    ast.Div: ("*", "//"),
    ast.FloorDiv: ("/",),
    ast.Mod: ("//",),
    ast.Pow: ("*",),
    ast.MatMult: ("*",),
}
_COMPARISONS: dict[type, tuple[str, ...]] = {
    ast.Lt: ("<=", ">"),
    ast.LtE: ("<", ">="),
    ast.Gt: (">=", "<"),
    ast.GtE: (">", "<="),
    ast.Eq: ("!=",),
    ast.NotEq: ("==",),
    ast.Is: ("is not",),
    ast.IsNot: ("is",),
    ast.In: ("not in",),
    ast.NotIn: ("in",),
}


@dataclass(frozen=True)
class Edit:
    """`new` in the place of the text from `start` to `end`, in characters."""

    operator: str
    start: int
    end: int
    new: str


class Text:
    """A program's text with the places of its nodes in characters."""

    def __init__(self, source: str) -> None:
        self.source = source
        lines = source.splitlines(keepends=True)
        self._starts = [0, *itertools.accumulate(map(len, lines))]
        self._lines = lines

    def place(self, node: ast.AST) -> tuple[int, int]:
        """Where a node begins and ends."""
        return (
            self._offset(node.lineno, node.col_offset),  # type: ignore[attr-defined]
            self._offset(node.end_lineno, node.end_col_offset),  # type: ignore[attr-defined]
        )

    def of(self, node: ast.AST) -> str:
        """A node as it is written."""
        start, end = self.place(node)
        return self.source[start:end]

    def _offset(self, line: int, column: int) -> int:
        # Columns of the syntax tree count bytes.
        return self._starts[line - 1] + len(self._lines[line - 1].encode()[:column].decode())

    def edited(self, edits: Sequence[Edit]) -> str:
        """The text after edits that do not overlap."""
        text = self.source
        for edit in sorted(edits, key=lambda edit: -edit.start):
            text = text[: edit.start] + edit.new + text[edit.end :]
        return text

    def line(self, edit: Edit) -> str:
        """The line, or lines, that an edit touches."""
        start = self.source.rfind("\n", 0, edit.start) + 1
        end = self.source.find("\n", edit.end)
        return " ".join(self.source[start : end if end >= 0 else None].split())


def edits_of(tree: ast.AST, text: Text, types_of: Names) -> Iterator[Edit]:
    """Every single edit of a program, those that compile to the same code included."""
    for node in ast.walk(tree):
        for operator, target, new in _changes(node, text, types_of):
            start, end = target if isinstance(target, tuple) else text.place(target)
            yield Edit(operator, start, end, new)


def _changes(node: ast.AST, text: Text, types_of: Names) -> Iterator[tuple[str, ast.AST | tuple[int, int], str]]:
    """Operator, place and new text of each edit of one node."""
    of = text.of
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        for name, kind in types_of.items():
            if name != node.id and kind == types_of.get(node.id):
                yield "variable exchanged", node, name
        yield from (("confused", node, name) for name in _confused(node.id))
    elif isinstance(node, ast.Attribute):
        end = text.place(node)[1]
        for name in _confused(node.attr):
            yield "confused", (end - len(node.attr), end), name
    elif isinstance(node, ast.Constant):
        yield from (("constant", node, new) for new in _constants(node.value))
    elif isinstance(node, ast.BinOp):
        left, right = text.place(node.left)[1], text.place(node.right)[0]
        for symbol in _OPERATORS.get(type(node.op), ()):
            between = text.source[left:right]
            yield "operator", (left, right), re.sub(r"[-+*/%@]+", symbol, between, count=1)
        yield "operand dropped", node, of(node.left)
        yield "operand dropped", node, of(node.right)
        if not isinstance(node.op, ast.Add | ast.Mult):
            yield "operands exchanged", node, f"({of(node.right)}) {_symbol(text, node)} ({of(node.left)})"
    elif isinstance(node, ast.UnaryOp):
        yield "sign or not dropped", node, of(node.operand)
    elif isinstance(node, ast.Compare) and len(node.ops) == 1:
        left, right = text.place(node.left)[1], text.place(node.comparators[0])[0]
        for symbol in _COMPARISONS.get(type(node.ops[0]), ()):
            yield "comparison", (left, right), f" {symbol} "
        if isinstance(node.ops[0], ast.Eq):
            close = f"(abs(({of(node.left)}) - ({of(node.comparators[0])})) < 1e-3)"
            yield "close taken for equal", node, close
    elif isinstance(node, ast.BoolOp):
        for value in node.values:
            operands = [of(operand) for operand in node.values if operand is not value]
            word = " and " if isinstance(node.op, ast.And) else " or "
            yield "condition dropped", node, word.join(f"({operand})" for operand in operands)
    elif isinstance(node, ast.IfExp):
        yield "branch taken always", node, of(node.body)
        yield "branch taken always", node, of(node.orelse)
    elif isinstance(node, ast.Call):
        yield from _calls(node, text)
    elif isinstance(node, ast.Subscript):
        yield from _subscripts(node, text)
    elif isinstance(node, ast.List | ast.Set) and len(node.elts) > 1:
        for item in node.elts:
            rest = ", ".join(of(element) for element in node.elts if element is not item)
            yield "element dropped", node, f"[{rest}]" if isinstance(node, ast.List) else f"{{{rest}}}"
    elif isinstance(node, ast.Return) and node.value is not None:
        yield "return dropped", node, of(node.value)
    elif isinstance(node, ast.If):
        yield "condition fixed", node.test, "True"
        yield "condition fixed", node.test, "False"
    elif isinstance(node, ast.Expr | ast.Assign | ast.AugAssign | ast.Continue | ast.Break):
        if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            yield "statement dropped", node, "pass"
        if isinstance(node, ast.AugAssign):
            yield "added to instead of set", node, f"{of(node.target)} = {of(node.value)}"
    elif isinstance(node, ast.comprehension):
        for condition in node.ifs:
            yield "filter dropped", condition, "True"


def _symbol(text: Text, node: ast.BinOp) -> str:
    between = text.source[text.place(node.left)[1] : text.place(node.right)[0]]
    symbol = re.search(r"[-+*/%@]+", between)
    return symbol[0] if symbol else "-"


def _confused(name: str) -> Iterator[str]:
    """Names that are taken for `name`, whole or a part between underscores."""
    for pair in _CONFUSED:
        for word, taken in (pair, pair[::-1]):
            if name == word:
                yield taken
            elif word in name.split("_"):
                yield "_".join(taken if part == word else part for part in name.split("_"))


def _constants(value: object) -> tuple[str, ...]:
    if isinstance(value, bool):
        return (str(not value),)
    if isinstance(value, int):
        return tuple(str(new) for new in dict.fromkeys((value + 1, value - 1, 0, -value)) if new != value)
    if isinstance(value, float):
        return tuple(repr(new) for new in dict.fromkeys((value * 2, value / 2, 0.0, 1.0, -value)) if new != value)
    return ()


def _calls(node: ast.Call, text: Text) -> Iterator[tuple[str, ast.AST | tuple[int, int], str]]:
    of = text.of
    positional = [argument for argument in node.args if not isinstance(argument, ast.Starred)]
    if isinstance(node.func, ast.Attribute):
        yield "call dropped", node, of(node.func.value)
    if positional:
        yield "call dropped", node, of(positional[0])
    for first, second in itertools.pairwise(positional):
        start, end = text.place(first)[0], text.place(second)[1]
        yield "arguments exchanged", (start, end), f"{of(second)}, {of(first)}"
    arguments = [*node.args, *node.keywords]
    for dropped in arguments:
        if len(arguments) > 1:
            rest = ", ".join(of(argument) for argument in arguments if argument is not dropped)
            yield "argument dropped", node, f"{of(node.func)}({rest})"
    if isinstance(node.func, ast.Name) and node.func.id == "range":
        last = node.args[-1] if len(node.args) < 3 else node.args[1]
        yield "loop bound", last, f"{of(last)} - 1"
        yield "loop bound", last, f"{of(last)} + 1"
        if len(node.args) == 1:
            yield "loop bound", last, f"1, {of(last)}"


def _subscripts(node: ast.Subscript, text: Text) -> Iterator[tuple[str, ast.AST | tuple[int, int], str]]:
    of = text.of
    if not isinstance(node.ctx, ast.Load):
        return
    yield "subscript dropped", node, of(node.value)
    if isinstance(node.slice, ast.Slice):
        for bound in (node.slice.lower, node.slice.upper):
            if bound is not None:
                yield "slice bound", bound, f"{of(bound)} + 1"
                yield "slice bound", bound, f"{of(bound)} - 1"
    elif not isinstance(node.slice, ast.Tuple | ast.Constant):
        yield "index", node.slice, f"({of(node.slice)}) - 1"
