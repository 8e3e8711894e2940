"""Reads and writes a question's visible cases: JSON beside the question, written when the course is built."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from .question import Misconception, PublicCase, PublicQuestion


def with_visible_cases(question: PublicQuestion, path: Path) -> PublicQuestion:
    """`question` with the cases and the words of its misconceptions that the file at `path` holds."""
    written = json.loads(path.read_text("utf-8"))
    cases, practice = (
        tuple(PublicCase(**{"mistakes": {}, **_arrays(case)}) for case in written.get(name, []))
        for name in ("cases", "practice")
    )
    texts = {name: Misconception(**words) for name, words in written["misconceptions"].items()}
    return replace(question, cases=cases, practice=practice, misconceptions=texts)


def as_json(
    cases: tuple[PublicCase, ...], practice: tuple[PublicCase, ...], misconceptions: Mapping[str, Misconception]
) -> str:
    """What `with_visible_cases` reads. Numbers keep every bit."""
    objects = [_entries(_lists(asdict(case)), "   ") for case in cases]
    drawn = ",\n  ".join(practice_json(case) for case in practice)
    words = _entries({name: asdict(text) for name, text in misconceptions.items()}, "  ")
    listed = ",\n  ".join(objects)
    return f'{{\n "cases": [\n  {listed}\n ],\n "practice": [\n  {drawn}\n ],\n "misconceptions": {words}\n}}\n'


def practice_json(case: PublicCase) -> str:
    """A drawn case in one line: nobody reads it, and no mistake is looked for in it."""
    content = {"name": case.name, "inputs": case.inputs, "expected": case.expected}
    return json.dumps(_lists(content), ensure_ascii=False, separators=(",", ":"))


def _entries(mapping: Mapping[str, Any], indent: str) -> str:
    """A JSON object with an entry a line; the mistakes' too, so that a change is seen where it is."""
    lines = [
        f"{json.dumps(name)}: "
        + (_entries(value, indent + " ") if name == "mistakes" else json.dumps(value, ensure_ascii=False))
        for name, value in mapping.items()
    ]
    return "{\n" + indent + f",\n{indent}".join(lines) + "\n" + indent[:-1] + "}"


def _lists(value: Any) -> Any:
    if isinstance(value, np.str_):  # a word that was drawn
        return str(value)
    if isinstance(value, np.ndarray | np.generic):
        array = np.asarray(value)
        # With dtype and shape, which a list does not have: float32 would come back as float64, an empty matrix as [].
        return {"array": array.tolist(), "dtype": array.dtype.name, "shape": list(array.shape)}
    if isinstance(value, Mapping):
        return {str(key): _lists(item) for key, item in value.items()}
    return [_lists(item) for item in value] if isinstance(value, list | tuple) else value


def _arrays(value: Any) -> Any:
    if isinstance(value, dict) and value.keys() == {"array", "dtype", "shape"}:
        return np.array(value["array"], value["dtype"]).reshape(value["shape"])
    if isinstance(value, dict):
        return {key: _arrays(item) for key, item in value.items()}
    return [_arrays(item) for item in value] if isinstance(value, list) else value
