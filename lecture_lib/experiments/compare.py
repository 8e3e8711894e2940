"""Two runs beside each other: what was changed, and what came of it."""

from __future__ import annotations

import html
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from .record import RunRecord

_ABSENT = "(none)"


@dataclass(frozen=True)
class Comparison:
    """What differs between two records.

    Attributes:
        changes: what was chosen differently: (name, first, second); config keys dotted, data, split, seed, precision.
        code: whether the code is known to be the same; else why not.
        hardware: what differs in processor, GPU and versions.
        metrics: (name, last of the first, last of the second, difference) of each number that both have.

    """

    changes: tuple[tuple[str, Any, Any], ...]
    code: str
    hardware: tuple[tuple[str, Any, Any], ...]
    metrics: tuple[tuple[str, float, float, float], ...]

    @property
    def verdict(self) -> str:
        """Whether the difference can be put down to one change."""
        count = len(self.changes) + (self.code == "the code differs")
        if count == 1 and self.code in ("", "the code differs"):
            return "one change: the difference can be put down to it, within the spread between seeds"
        doubt = f"; {self.code}" if self.code else ""
        if count == 0:
            return f"no change was chosen{doubt}"
        return f"{count} change(s): the difference cannot be put down to one of them{doubt}"

    def __str__(self) -> str:
        lines = [self.verdict]
        for title, rows in (("changed", self.changes), ("hardware", self.hardware)):
            lines += [f"  {title}  {name}: {first} -> {second}" for name, first, second in rows]
        lines += [f"  {name}: {a:.6g} -> {b:.6g} ({difference:+.6g})" for name, a, b, difference in self.metrics]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = [("changed", name, first, second, "") for name, first, second in self.changes]
        rows += [("hardware", name, first, second, "") for name, first, second in self.hardware]
        rows += [("metric", name, f"{a:.6g}", f"{b:.6g}", f"{d:+.6g}") for name, a, b, d in self.metrics]
        head = "".join(f'<th scope="col">{name}</th>' for name in ("kind", "what", "first", "second", "difference"))
        body = "".join(
            f'<tr><td>{kind}</td><th scope="row">{html.escape(name)}</th>'
            + "".join(f"<td>{html.escape(str(cell))}</td>" for cell in cells)
            + "</tr>"
            for kind, name, *cells in rows
        )
        caption = f"<caption>{html.escape(self.verdict)}</caption>"
        return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def compare_records(first: RunRecord, second: RunRecord) -> Comparison:
    """What differs between two runs, and their last metrics side by side.

    An ablation changes one thing at a time; the verdict says whether these two do.
    Source: lecture part 4, ablations.

    Args:
        first: for example the baseline.
        second: for example the run with one change.

    """
    chosen = [
        {**dict(_flat("config", record.config)), "data": record.data_id, "split": record.split_id, "seed": record.seed}
        | {"precision": record.precision}
        for record in (first, second)
    ]
    return Comparison(
        _different(*chosen),
        _code(first.code, second.code),
        _different(first.hardware, second.hardware),
        tuple(_metrics(first, second)),
    )


def _flat(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Nested settings by dotted names."""
    if isinstance(value, dict) and value:
        for key, part in value.items():
            yield from _flat(f"{name}.{key}", part)
    else:
        yield name, value


def _different(first: dict[str, Any], second: dict[str, Any]) -> tuple[tuple[str, Any, Any], ...]:
    names = [*first, *(name for name in second if name not in first)]
    pairs = [(name, first.get(name, _ABSENT), second.get(name, _ABSENT)) for name in names]
    return tuple((name, a, b) for name, a, b in pairs if not _equal(a, b))


def _equal(a: Any, b: Any) -> bool:
    # NaN is not equal to NaN, and True is equal to 1: neither is what a reader of settings means.
    both_nan = isinstance(a, float) and isinstance(b, float) and math.isnan(a) and math.isnan(b)
    return both_nan or (a == b and isinstance(a, bool) == isinstance(b, bool))


def _code(first: dict[str, Any], second: dict[str, Any]) -> str:
    commits = first.get("commit"), second.get("commit")
    if None in commits:
        return "the code of one of them is not known"
    if commits[0] != commits[1]:
        return "the code differs"
    if first.get("dirty") or second.get("dirty"):
        return "files differed from the commit, so the code may differ"
    return ""


def _metrics(first: RunRecord, second: RunRecord) -> Iterator[tuple[str, float, float, float]]:
    if not (first.metrics and second.metrics):
        return
    first_row, second_row = first.metrics[-1], second.metrics[-1]
    for name, value in first_row.items():
        numbers = isinstance(value, int | float) and isinstance(second_row.get(name), int | float)
        # The number of the epoch is not a result.
        if numbers and name != "epoch":
            yield name, value, second_row[name], second_row[name] - value
