"""In a graded notebook, no cell changes what another one is worth, and the feedback says what was left behind."""

from __future__ import annotations

import nbformat
import pytest
from conftest import autograde

from autograders import notebooks
from autograders.course import Course
from autograders.grading.journal import read_record
from autograders.questions.question import answer_to

pytestmark = pytest.mark.slow

FIRST = "03a-training-recipe"
LEAVING = {
    "function": ("    torch.set_grad_enabled(False)", "torch.is_grad_enabled() is False"),
    "cell": ("torch.set_grad_enabled(False)", "torch.is_grad_enabled() is False"),
    "double": ("torch.set_default_dtype(torch.float64)", "torch.get_default_dtype() is torch.float64"),
    "patched": (
        "torch.optim.Optimizer.zero_grad = torch.nn.Linear.forward = lambda *a, **k: None",
        "torch.nn.modules.linear.Linear.forward was replaced",
    ),
    "inference": (
        "torch.set_default_device('meta')\n_kept = torch.inference_mode()\n_kept.__enter__()",
        "torch.is_inference_mode_enabled() is True",
    ),
    "files": (  # each call; after four of them a process would have no descriptor left
        "    globals().setdefault('_kept', []).extend(open('/dev/null') for _ in range(300))",
        "300 files are open",
    ),
}
"""Student -> what is added to a right answer of the first question, and how it is told."""


@pytest.fixture(scope="module")
def isolated(released: Course, tmp_path_factory: pytest.TempPathFactory) -> Course:
    """Students with right answers whose first one leaves something behind, graded once."""
    from conftest import copy_course

    course = copy_course(released, tmp_path_factory.mktemp("isolated") / "course")
    right = answer_to("03a-accumulate", "right_weighted")
    for student, (line, _) in LEAVING.items():
        nb = notebooks.read(course.notebook("release", FIRST))
        for cell in nb.cells:
            name = cell.metadata.get("nbgrader", {}).get("grade_id")
            if name == "03a-accumulate":
                cell.source = f"{right.rstrip()}\n{line}\n"  # indented: the last line of the function
            elif name == "03a-clip":
                cell.source = answer_to("03a-clip", "right_concatenate")
        path = course.notebook("submitted", FIRST, student)
        path.parent.mkdir(parents=True)
        nbformat.write(nb, path)
    done = autograde("grade", "--quiet", course=course)
    assert done.code == 0, done.out + done.err
    assert autograde("feedback", "--quiet", course=course).code == 0
    return course


@pytest.mark.parametrize("student", LEAVING)
def test_every_answer_is_worth_what_it_is_worth_alone(isolated: Course, student: str) -> None:
    record = read_record(isolated, FIRST, student)
    assert record is not None
    points = {name: verdict["points"] for name, verdict in record.questions.items()}
    # What a function leaves is put back after each part, not between the two epochs of one: its own second one suffers.
    assert points == {"03a-accumulate": 7.0 if student == "function" else 8.0, "03a-clip": 8.0}
    told = LEAVING[student][1]
    assert told in record.questions["03a-accumulate"]["left"]
    assert record.questions["03a-clip"]["left"] == []
    page = isolated.notebook("feedback", FIRST, student).with_suffix(".html").read_text("utf-8")
    assert told in page
    assert "builtins." not in page, "what the kernel itself hides in a cell is no change of the student's"
