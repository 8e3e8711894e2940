"""What is asked of a student's code while it is graded. Runs in the student's process and knows no answers.

A hidden test cell calls `probe`. The inputs were drawn outside and lie as plain data in the folder that the
environment variable `LECTURE_PROBE_INPUTS` names; what the student's functions did with them is published as a display
of a private MIME type. The judge reads that after the notebook has ended, and draws the inputs again itself.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lecture_lib.notebook.check import name_functions, skip_practice
from lecture_lib.notebook.observe import observe
from lecture_lib.notebook.process_state import reset_process
from lecture_lib.notebook.registry import find_question, public_questions
from lecture_lib.notebook.replaced_functions import put_back_functions, remember_functions

from .codec import decode, encode

MIME = "application/vnd.lecture-lib.observation+json"
INPUTS_VARIABLE = "LECTURE_PROBE_INPUTS"
public_questions()  # read before kernels are forked, and not by each of them


def probe(question_id: str, *functions: Callable[..., Any]) -> None:
    """Publish what `functions` do on the hidden inputs. Without such inputs (a student's kernel) it does nothing."""
    folder = os.environ.get(INPUTS_VARIABLE)
    if folder is None:
        return
    from IPython.display import display

    cases = json.loads((Path(folder) / f"{question_id}.json").read_text("utf-8"))
    published = observe_question(question_id, functions, cases)
    display({MIME: published, "text/plain": "(observed)"}, raw=True)


def observe_question(question_id: str, functions: tuple[Callable[..., Any], ...], cases: list[Any]) -> dict[str, Any]:
    """What is published: the observation of each encoded case, and what the answer's code left changed."""
    remember_functions()
    observed = observe_cases(question_id, functions, cases)
    left = [*left_by_cells, *put_back_functions()]
    left_by_cells.clear()
    return {"question": question_id, "cases": observed, "left": left}


def observe_cases(question_id: str, functions: tuple[Callable[..., Any], ...], cases: list[Any]) -> list[Any]:
    """Observe every encoded case; each observation comes back encoded, in the order of the cases."""
    question = find_question(question_id)
    named = name_functions(question, functions)
    return [_encoded(observe(question, named, decode(case))) for case in cases]


left_by_cells: list[str] = []
"""What cells have left changed in the process since the last question."""


def reset_between_cells(shell: Any) -> None:
    """From now on every cell of an IPython shell starts with the standard settings, whatever the last cell changed.

    Checks try their visible cases alone.
    """
    remember_functions()
    skip_practice()
    shell.events.register("pre_run_cell", lambda info: left_by_cells.extend(reset_process()))


def _encoded(observation: dict[str, Any]) -> dict[str, Any]:
    """Encode part by part, so that one part's unreadable result costs that part only."""
    encoded = {}
    for part, result in observation.items():
        try:
            encoded[part] = encode(result)
        except TypeError as error:
            encoded[part] = encode({"raised": f"TypeError: {error}"})
    return encoded
