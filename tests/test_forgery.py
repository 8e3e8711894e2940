"""What a student's cell can do to the process it runs in gains nothing: verdicts are computed elsewhere."""

from __future__ import annotations

import textwrap

import nbformat
import pytest

from autograders import notebooks
from autograders.course import Course
from autograders.grade import grade
from autograders.journal import Record, read_record
from autograders.questions import ANSWERS, QUESTIONS

ASSIGNMENT = "03a-training-recipe"
CLIP = "03a-clip"
RIGHT = (ANSWERS / CLIP / "right_concatenate.py").read_text("utf-8")
WRONG = (ANSWERS / CLIP / "wrong_per_parameter.py").read_text("utf-8")


def graded(course: Course, answer: str, *, extra: str = "", edit=None) -> Record:
    """Grade one submission with `answer` to 03a-clip, after an own cell at the top with `extra`."""
    nb = notebooks.read(course.notebook("release", ASSIGNMENT))
    for cell in nb.cells:
        if cell.metadata.get("nbgrader", {}).get("grade_id") == CLIP:
            cell.source = answer
    if extra:
        nb.cells.insert(1, nbformat.v4.new_code_cell(textwrap.dedent(extra)))
    if edit is not None:
        edit(nb)
    path = course.notebook("submitted", ASSIGNMENT, "student")
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(nb, path)
    grade(course, [ASSIGNMENT], progress=False)
    record = read_record(course, ASSIGNMENT, "student")
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


def earned(record: Record) -> float:
    return float(record.questions[CLIP]["points"])


@pytest.mark.parametrize("name", FORGERIES)
def test_a_patched_process_gains_nothing(course: Course, name: str) -> None:
    declared = next(answer for answer in QUESTIONS[CLIP].answers() if answer.name == "wrong_per_parameter").points
    record = graded(course, WRONG, extra=FORGERIES[name])
    assert earned(record) <= declared
    assert all(verdict["points"] == 0 for question, verdict in record.questions.items() if question != CLIP)


@pytest.mark.parametrize(
    "objects",
    [
        "class Always(list):\n    __eq__ = lambda s, o: True\n    __len__ = lambda s: 3\n",
        "class Always(dict):\n    __eq__ = lambda s, o: True\n    __getattr__ = lambda s, n: s\n",
        "class Always(float):\n    __eq__ = lambda s, o: True\n    __sub__ = __rsub__ = lambda s, o: 0.0\n",
    ],
    ids=["list", "dict", "float"],
)
def test_objects_that_equal_everything_are_only_their_data(course: Course, objects: str) -> None:
    functions = (
        "clip_by_global_norm = lambda g, m: (Always(), Always())\nper_parameter_cosine = lambda g, m: Always()\n"
    )
    assert earned(graded(course, objects + functions)) == 0


def test_more_than_one_observation_is_tampering(course: Course) -> None:
    twice = """
        publisher = get_ipython().display_pub
        real = publisher.publish
        publisher.publish = lambda *a, **k: (real(*a, **k), real(*a, **k))
    """
    record = graded(course, RIGHT, extra=twice)
    assert record.state == "tampered"
    assert earned(record) == 0
    assert "2 observations" in record.reason


def test_the_same_right_answer_without_it_has_full_points(course: Course) -> None:
    record = graded(course, RIGHT)
    assert record.state == "graded"
    assert earned(record) == QUESTIONS[CLIP].points


def test_stderr_warnings_and_own_helpers_cost_nothing(course: Course) -> None:
    noisy = RIGHT.replace("def clip_by_global_norm", "import sys, warnings\n\n\ndef clip_by_global_norm", 1).replace(
        "    vector = ",
        "    warnings.warn('careful')\n    print('noise', file=sys.stderr)\n    vector = joined(gradients)\n    x = ",
        1,
    )
    helper = "import torch\ndef joined(tensors):\n    return torch.cat([t.reshape(-1) for t in tensors])\n"
    assert earned(graded(course, noisy, extra=helper)) == QUESTIONS[CLIP].points


def test_an_import_added_to_the_first_cell_survives(course: Course) -> None:
    def add_import(nb) -> None:
        setup = next(cell for cell in nb.cells if "setup" in cell.metadata.get("tags", []))
        setup.source += "\nimport functools"

    answer = RIGHT.replace("torch.cat([", "functools.partial(torch.cat)([", 1)
    assert earned(graded(course, answer, edit=add_import)) == QUESTIONS[CLIP].points


def test_deleted_edited_and_retyped_test_cells_change_nothing(course: Course) -> None:
    def tamper(nb) -> None:
        tests = [cell for cell in nb.cells if cell.metadata.get("nbgrader", {}).get("grade")]
        nb.cells.remove(tests[0])
        tests[1].source = "8.0"
        tests[1].metadata["nbgrader"]["points"] = 4000

    record = graded(course, WRONG, edit=tamper)
    assert earned(record) == 5
    assert record.questions["03a-accumulate"]["misconception"] == "unanswered"


def test_an_endless_loop_ends_at_the_limit_and_costs_its_own_question_only(course: Course, monkeypatch) -> None:
    monkeypatch.setattr("autograders.course.CELL_SECONDS", 4)

    def answer_the_other(nb) -> None:
        for cell in nb.cells:
            if cell.metadata.get("nbgrader", {}).get("grade_id") == "03a-accumulate":
                cell.source = (ANSWERS / "03a-accumulate" / "right_weighted.py").read_text("utf-8")

    endless = "def clip_by_global_norm(g, m):\n    while True:\n        pass\n\nper_parameter_cosine = lambda g, m: 1.0"
    record = graded(course, endless, edit=answer_the_other)
    assert record.state == "out of time"
    assert "used more than 4 s of computing time" in record.reason
    assert earned(record) == 0
    assert record.questions["03a-accumulate"]["points"] == 8


@pytest.mark.parametrize(
    ("answer", "state", "what"),
    [
        ("import os\nos._exit(1)", "crashed", "the kernel died"),
        ("def clip_by_global_norm(:", "partial", "the test cell stopped with NameError"),
        ("raise SystemExit", "partial", "the test cell stopped with NameError"),
    ],
    ids=["kills the kernel", "syntax error", "exits"],
)
def test_a_broken_answer_costs_itself_and_has_a_reason(course: Course, answer: str, state: str, what: str) -> None:
    record = graded(course, answer)
    assert record.state == state
    assert what in record.reason
    assert earned(record) == 0
