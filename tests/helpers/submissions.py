"""Submissions for the tests: the released notebook with answers, what is done to it, and what it must earn.

`earned` is the oracle: it runs a rebuilt notebook's code cells from the top in this process, as nbgrader's kernel does,
and judges the functions that stand at a question's test cell.
"""

from __future__ import annotations

import contextlib
import copy
import io
import json
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from autograders import notebooks
from autograders.course import Course
from autograders.intake.reading.reading import read_notebook
from autograders.intake.reading.rebuild import rebuild
from autograders.probes import observe_cases
from autograders.questions.question import QUESTIONS, answer_to, encode_inputs

FIRST, SECOND = "03a-training-recipe", "03b-debug-ladder"
CLIP, ACCUMULATE, WORDS = "03a-clip", "03a-accumulate", "03a-p5"
RIGHT = {CLIP: "right_loops", ACCUMULATE: "right_weighted"}
TEXT = "eval() changes layers, no_grad() records nothing."
Notebook = dict[str, Any]


@cache
def source_of(question: str, answer: str) -> str:
    """An answer of the bank."""
    return answer_to(question, answer)


def handed_in(course: Course, answers: Mapping[str, str] = RIGHT, text: str = TEXT) -> Notebook:
    """The first released notebook with answers of the bank and a text, as JSON-ready data."""
    nb: Notebook = json.loads(course.notebook("release", FIRST).read_text("utf-8"))
    for question, answer in answers.items():
        cell_of(nb, question)["source"] = source_of(question, answer)
    if text:
        cell_of(nb, WORDS)["source"] = text
    return nb


def cell_of(nb: Notebook, grade_id: str) -> dict[str, Any]:
    """The first cell with an nbgrader id."""
    return nb["cells"][position_of(nb, grade_id)]


def position_of(nb: Notebook, grade_id: str) -> int:
    """Where it stands."""
    ids = [cell["metadata"].get("nbgrader", {}).get("grade_id") for cell in nb["cells"]]
    return ids.index(grade_id)


def code(source: str, **fields: Any) -> dict[str, Any]:
    """A code cell of the student's own."""
    return {"cell_type": "code", "metadata": {}, "source": source, "outputs": [], "execution_count": None, **fields}


def text_cell(source: str) -> dict[str, Any]:
    """A text cell of the student's own."""
    return {"cell_type": "markdown", "metadata": {}, "source": source}


def rebuilt(course: Course, nb: Notebook) -> Any:
    """The submission as it is graded."""
    read = read_notebook(json.dumps(nb).encode("utf-8", "surrogatepass")).notebook
    return rebuild(read, notebooks.read(course.notebook("release", FIRST)))


def notes(nb: Any) -> str:
    """What rebuilding said."""
    return "; ".join(nb.metadata["lecture"]["notes"])


def edited(nb: Notebook, edit: Callable[[Notebook], None]) -> Notebook:
    """A copy with an edit."""
    nb = copy.deepcopy(nb)
    edit(nb)
    return nb


def earned(nb: Any, question_id: str) -> float:
    """The points of one question when the notebook runs from the top."""
    question, namespace = QUESTIONS[question_id], {"__name__": "__main__"}
    with contextlib.redirect_stdout(io.StringIO()):
        for cell in nb.cells:
            if cell.metadata.get("nbgrader", {}).get("grade_id") == question.test_id:
                break
            if cell.cell_type == "code" and "demo" not in cell.metadata.get("tags", []):
                with contextlib.suppress(BaseException):
                    exec(compile(cell.source, cell.id, "exec"), namespace)
    missing = [name for name in question.public.functions if name not in namespace]
    if missing:
        return 0.0
    functions = tuple(namespace[name] for name in question.public.functions)
    cases = question.draw(b"test", "v", 0)
    seen = observe_cases(question.id, functions, encode_inputs(cases))
    return question.judge(cases, [{"question": question.id, "cases": seen}]).points
