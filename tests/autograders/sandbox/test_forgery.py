"""What a student's cell can do to the process it runs in gains nothing: verdicts are computed elsewhere."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import nbformat
import pytest
from conftest import copy_course

from autograders import notebooks
from autograders.course import Course
from autograders.grading.grade import grade
from autograders.grading.journal import Record, read_record
from autograders.questions.question import QUESTIONS, answer_to

pytestmark = pytest.mark.slow

ASSIGNMENT = "03a-training-recipe"
CLIP = "03a-clip"
RIGHT = answer_to(CLIP, "right_concatenate")
WRONG = answer_to(CLIP, "wrong_per_parameter")


@dataclass(frozen=True)
class Submission:
    """An answer to 03a-clip, an own cell at the top, and what else is done to the notebook."""

    answer: str
    extra: str = ""
    edit: Callable[[Any], None] | None = None


def hand_in(course: Course, student: str, submission: Submission) -> None:
    nb = notebooks.read(course.notebook("release", ASSIGNMENT))
    for cell in nb.cells:
        if cell.metadata.get("nbgrader", {}).get("grade_id") == CLIP:
            cell.source = submission.answer
    if submission.extra:
        nb.cells.insert(1, nbformat.v4.new_code_cell(textwrap.dedent(submission.extra)))
    if submission.edit is not None:
        submission.edit(nb)
    path = course.notebook("submitted", ASSIGNMENT, student)
    path.parent.mkdir(parents=True)
    nbformat.write(nb, path)


def record_of(course: Course, student: str) -> Record:
    record = read_record(course, ASSIGNMENT, student)
    assert record is not None
    return record


FORGERIES = {
    "numpy compares everything as equal": """
        import numpy as np
        np.allclose = np.array_equal = np.isclose = lambda *a, **k: True
        np.testing.assert_allclose = lambda *a, **k: None
    """,
    "torch compares everything as equal": """
        import torch
        torch.allclose = torch.equal = lambda *a, **k: True
        torch.testing.assert_close = lambda *a, **k: None
        torch.Tensor.__eq__ = lambda self, other: True
    """,
    "asserts are removed from every later cell": """
        import ast
        class NoAsserts(ast.NodeTransformer):
            def visit_Assert(self, node):
                return ast.copy_location(ast.Pass(), node)
        get_ipython().ast_transformers.append(NoAsserts())
    """,
    "every later cell returns full marks": """
        import ast
        class FullMarks(ast.NodeTransformer):
            def visit_Module(self, node):
                return ast.fix_missing_locations(ast.Module([ast.parse("8.0").body[0]], []))
        get_ipython().ast_transformers.append(FullMarks())
    """,
    "IPython's display hook prints full marks": """
        import sys
        shell = get_ipython()
        shell.events.register("post_run_cell", lambda result: sys.displayhook(8.0))
    """,
    "the library's comparison and check are replaced": """
        import lecture_lib.notebook.compare as compare, lecture_lib.notebook.check as check_module
        compare.difference = compare._numbers = lambda *a, **k: None
        compare.agree = check_module.agree = lambda *a, **k: True
    """,
    "the probe publishes nothing": """
        import autograders.probes
        autograders.probes.probe = lambda *a, **k: None
    """,
    "the library says that every part returned what is asked": """
        import lecture_lib.notebook.observe as observe, autograders.probes
        autograders.probes.observe = lambda q, f, i: {"clipping": {"value": {"clipped": i["gradients"], "norm": 1.0}}}
    """,
    "an observation with guessed inputs is published first": """
        from IPython.display import display
        import lecture_lib.notebook.check as check_module, lecture_lib.notebook as notebook
        def forged(*a):
            display({"application/vnd.lecture-lib.observation+json":
                     {"question": "03a-clip", "cases": [{"clipping": {"dict": {"value": {"dict": {}}}}}] * 5},
                     "text/plain": "x"}, raw=True)
        notebook.check = check = forged
    """,
    "every published observation is swapped for a guessed one": """
        import json
        publisher = get_ipython().display_pub
        real = publisher.publish
        mime = "application/vnd.lecture-lib.observation+json"
        def publish(data, *a, **k):
            if mime in data:
                numbers = {"dict": {"value": {"dict": {"clipped": {"list": []}, "norm": 5.0}}}}
                data = {mime: {"question": data[mime]["question"],
                               "cases": [{"clipping": numbers, "cosine": numbers}] * len(data[mime]["cases"])}}
            return real(data, *a, **k)
        publisher.publish = publish
    """,
}


OBJECTS = {
    "list": "class Always(list):\n    __eq__ = lambda s, o: True\n    __len__ = lambda s: 3\n",
    "dict": "class Always(dict):\n    __eq__ = lambda s, o: True\n    __getattr__ = lambda s, n: s\n",
    "float": "class Always(float):\n    __eq__ = lambda s, o: True\n    __sub__ = __rsub__ = lambda s, o: 0.0\n",
}
FUNCTIONS = "clip_by_global_norm = lambda g, m: (Always(), Always())\nper_parameter_cosine = lambda g, m: Always()\n"
TWICE = """
    publisher = get_ipython().display_pub
    real = publisher.publish
    publisher.publish = lambda *a, **k: (real(*a, **k), real(*a, **k))
"""
NOISY = RIGHT.replace("def clip_by_global_norm", "import sys, warnings\n\n\ndef clip_by_global_norm", 1).replace(
    "    vector = ",
    "    warnings.warn('careful')\n    print('noise', file=sys.stderr)\n    vector = joined(gradients)\n    x = ",
    1,
)
HELPER = "import torch\ndef joined(tensors):\n    return torch.cat([t.reshape(-1) for t in tensors])\n"
BROKEN = {
    "kills the kernel": ("import os\nos._exit(1)", "crashed", "the kernel died"),
    "syntax error": ("def clip_by_global_norm(:", "partial", "the test cell stopped with NameError"),
    "exits": ("raise SystemExit", "partial", "03a-clip: the cell ended itself (SystemExit); the cells after it ran"),
}


def add_import(nb: Any) -> None:
    setup = next(cell for cell in nb.cells if "setup" in cell.metadata.get("tags", []))
    setup.source += "\nimport functools"


def tamper(nb: Any) -> None:
    tests = [cell for cell in nb.cells if cell.metadata.get("nbgrader", {}).get("grade")]
    nb.cells.remove(tests[0])
    tests[1].source = "8.0"
    tests[1].metadata["nbgrader"]["points"] = 4000


SUBMISSIONS = {
    **{name: Submission(WRONG, forgery) for name, forgery in FORGERIES.items()},
    **{name: Submission(objects + FUNCTIONS) for name, objects in OBJECTS.items()},
    **{name: Submission(answer) for name, (answer, _, _) in BROKEN.items()},
    "twice": Submission(RIGHT, TWICE),
    "right": Submission(RIGHT),
    "noisy": Submission(NOISY, HELPER),
    "import": Submission(RIGHT.replace("torch.cat([", "functools.partial(torch.cat)([", 1), edit=add_import),
    "tampered": Submission(WRONG, edit=tamper),
}


@pytest.fixture(scope="module")
def graded(released: Course, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Record]:
    """Everybody's record after one run, in which each has a kernel of their own."""
    course = copy_course(released, tmp_path_factory.mktemp("forgeries") / "course")
    students = {name: f"student-{number}" for number, name in enumerate(SUBMISSIONS)}
    for name, submission in SUBMISSIONS.items():
        hand_in(course, students[name], submission)
    grade(course, [ASSIGNMENT], progress=False)
    return {name: record_of(course, student) for name, student in students.items()}


def earned(record: Record) -> float:
    return float(record.questions[CLIP]["points"])


@pytest.mark.parametrize("name", FORGERIES)
def test_a_patched_process_gains_nothing(graded: dict[str, Record], name: str) -> None:
    declared = next(answer for answer in QUESTIONS[CLIP].answers() if answer.name == "wrong_per_parameter").points
    assert earned(graded[name]) <= declared
    assert all(verdict["points"] == 0 for question, verdict in graded[name].questions.items() if question != CLIP)


@pytest.mark.parametrize("name", OBJECTS)
def test_objects_that_equal_everything_are_only_their_data(graded: dict[str, Record], name: str) -> None:
    assert earned(graded[name]) == 0


def test_more_than_one_observation_is_tampering(graded: dict[str, Record]) -> None:
    record = graded["twice"]
    assert record.state == "tampered"
    assert earned(record) == 0
    assert "2 observations" in record.reason


def test_the_same_right_answer_without_it_has_full_points(graded: dict[str, Record]) -> None:
    record = graded["right"]
    assert record.state == "graded"
    assert earned(record) == QUESTIONS[CLIP].points


@pytest.mark.parametrize("name", ["noisy", "import"])
def test_warnings_own_helpers_and_an_import_in_the_first_cell_cost_nothing(
    graded: dict[str, Record], name: str
) -> None:
    assert earned(graded[name]) == QUESTIONS[CLIP].points


def test_deleted_edited_and_retyped_test_cells_change_nothing(graded: dict[str, Record]) -> None:
    record = graded["tampered"]
    assert earned(record) == 5
    assert record.questions["03a-accumulate"]["misconception"] == "unanswered"


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_answer_costs_itself_and_has_a_reason(graded: dict[str, Record], name: str) -> None:
    _, state, reason = BROKEN[name]
    record = graded[name]
    assert record.state == state
    assert reason in record.reason
    assert earned(record) == 0


def test_an_endless_loop_ends_at_the_limit_and_costs_its_own_question_only(course: Course, monkeypatch) -> None:
    monkeypatch.setattr("autograders.nbgrader.configuration.CELL_SECONDS", 4)

    def answer_the_other(nb) -> None:
        for cell in nb.cells:
            if cell.metadata.get("nbgrader", {}).get("grade_id") == "03a-accumulate":
                cell.source = answer_to("03a-accumulate", "right_weighted")

    endless = "def clip_by_global_norm(g, m):\n    while True:\n        pass\n\nper_parameter_cosine = lambda g, m: 1.0"
    hand_in(course, "student", Submission(endless, edit=answer_the_other))
    grade(course, [ASSIGNMENT], progress=False)
    record = record_of(course, "student")
    assert record.state == "out of time"
    assert "used more than 4 s of computing time" in record.reason
    assert earned(record) == 0
    assert record.questions["03a-accumulate"]["points"] == 8
