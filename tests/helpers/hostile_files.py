"""Files that have stopped, slowed or misled a grader: one student each, beside innocent ones."""

from __future__ import annotations

import copy
import io
import json
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np

from helpers.submissions import ACCUMULATE, CLIP, FIRST, Notebook, cell_of, code, position_of, source_of

INNOCENT = ("ada", "zoe")
"""First and last of the class: what harms the run harms one of them."""
FILL_THE_SOCKETS_FOLDER = """
import os, socket, json
from IPython import get_ipython
here = os.path.dirname(get_ipython().kernel.parent.connection_file) if hasattr(get_ipython(), "kernel") else "/tmp"
try:
    held = os.open(here, os.O_TMPFILE | os.O_RDWR)
    for _ in range(1000):
        os.write(held, bytes(1_000_000))
except OSError:
    pass
sockets = []
try:
    for number in range(50_000):
        sockets.append(socket.socket(socket.AF_UNIX))
        sockets[-1].bind(f"{here}/s{number}")
        sockets.pop().close()
except OSError:
    pass
"""
HOLD_SHARED_MEMORY = """
import mmap
held = []
for _ in range(50):
    held.append(mmap.mmap(-1, 100_000_000))
    for start in range(0, 100_000_000, 4096):
        held[-1][start] = 1
    held[-1].madvise(mmap.MADV_DONTNEED)
"""
BURN_IN_CHILDREN = """
import os, signal
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
while True:
    if os.fork() == 0:
        for _ in range(20_000_000): pass
        os._exit(0)
"""
SHOW_MUCH = """
import autograders.probes
observe = autograders.probes.observe_question
def enlarged(*given):
    seen = observe(*given)
    return {**seen, "cases": [{**case, "more": {"array": "A" * 45_000_000}} for case in seen["cases"][:1]]}
autograders.probes.observe_question = enlarged
"""
SHOW_MANY_ARRAYS = """
import autograders.probes
observe = autograders.probes.observe_question
small = {"array": "AAAAAAAAAAA=", "dtype": "float64", "shape": [1]}
def enlarged(*given):
    seen = observe(*given)
    many = {"dict": {"value": {"list": [small] * 100_000}}}
    return {**seen, "cases": [{**case, "more": many} for case in seen["cases"]]}
autograders.probes.observe_question = enlarged
"""
MARKUP = (
    "<script>document.title = 'taken'</script><img src=x onerror=\"document.title = 'taken'\">"
    "<iframe srcdoc=\"<script>parent.document.title = 'taken'</script>\"></iframe>[link](javascript:alert(1)) $x^2$"
)


def _replaced(question: str, source: str) -> Callable[[Notebook], None]:
    return lambda nb: cell_of(nb, question).update(source=source)


def _own(source: str) -> Callable[[Notebook], None]:
    """A cell of the student's own, between the first question and the second."""
    return lambda nb: nb["cells"].insert(position_of(nb, CLIP), code(source))


def _within(source: str) -> Callable[[Notebook], None]:
    """Behind the right answer to the first question, in its cell."""
    return _replaced(ACCUMULATE, f"{source_of(ACCUMULATE, 'right_weighted')}\n{source}")


def _field(name: str, value: Any) -> Callable[[Notebook], None]:
    return lambda nb: cell_of(nb, ACCUMULATE).update({name: value})


def _surrogate(nb: Notebook) -> None:
    cell_of(nb, ACCUMULATE)["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "\udc80"}]


NOTEBOOKS: dict[str, Callable[[Notebook], None]] = {
    "conflicts": lambda nb: nb["cells"].append(code("<<<<<<<\n=======\n" * 1_000)),
    "long-cell": lambda nb: nb["cells"].append(code("x=1\n" * 250_000)),
    "deep-cell": _replaced(ACCUMULATE, "(" * 90_000 + ")" * 90_000),
    "sockets": _own(FILL_THE_SOCKETS_FOLDER),
    "shared-memory": _own(HOLD_SHARED_MEMORY),
    "children": _own(BURN_IN_CHILDREN),
    "exit": _own("exit"),
    "quit": _own("quit()"),
    "no-gradients": _within("torch.set_grad_enabled(False)"),
    "float64": _within("torch.set_default_dtype(torch.float64)"),
    "patched": _within("torch.optim.SGD.step = lambda *a, **k: None"),
    "forged-count": _field("execution_count", {"a": 1}),
    "forged-outputs": _field("outputs", {"a": [1]}),
    "surrogate": _surrogate,
    "much": _own(SHOW_MUCH),
    "many-arrays": _own(SHOW_MANY_ARRAYS),
    "markup": lambda nb: cell_of(nb, "03a-p5").update(source=MARKUP),
}
"""Student -> what is done to a notebook with right answers."""


def class_files(right: Notebook) -> dict[str, bytes]:
    """Path in the class's folder -> content; `right` is a notebook with right answers."""
    whole = json.dumps(right).encode()
    files = {f"{student}/{FIRST}.ipynb": whole for student in INNOCENT}
    for student, spoil in NOTEBOOKS.items():
        nb = copy.deepcopy(right)
        spoil(nb)
        files[f"{student}/{FIRST}.ipynb"] = json.dumps(nb).encode()
    files["conflicted/homework.ipynb"] = b"<<<<<<< HEAD\n" + b"<<<<<<<\n=======\n" * 1_100 + whole
    files["wide/wide.ipynb"] = json.dumps({**right, "cells": [code("")] * 60_000}).encode()
    files["nested/nested.ipynb"] = b"[" * 200_000
    files["pdf/homework.pdf"] = b"%PDF-1.4\n" + np.random.default_rng(0).bytes(5_000)
    files["archive/answers.zip"] = _zip({"answers.docx": b"PK\x03\x04 nothing", "notes.txt": b"see attached"})
    files["\x1b[31mred\nline/answers.ipynb"] = whole
    return files


def _zip(members: dict[str, bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()
