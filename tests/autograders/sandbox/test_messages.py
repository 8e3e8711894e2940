"""Whatever a student's kernel sends, the notebook stays valid and small; it costs the question that sent it."""

from __future__ import annotations

import copy
import json
import shutil
from typing import Any

import nbformat
import pytest
from helpers.submissions import ACCUMULATE, CLIP, FIRST, cell_of, handed_in, source_of
from hypothesis import given
from hypothesis import strategies as st
from nbformat.v4 import new_code_cell, new_notebook, output_from_msg

from autograders.course import Course
from autograders.grading.grade import grade
from autograders.grading.journal import Record, read_record
from autograders.grading.states import State
from autograders.intake.reading.submission_limits import MAX_MESSAGE, MAX_NESTING, MAX_OBSERVATION, MAX_VALUES
from autograders.nbgrader.judge_cells import _cell_seconds
from autograders.notebooks import as_text, code_cell
from autograders.probes import MIME
from autograders.probes.codec import MalformedObservation
from autograders.questions.observation_size import refuse_large, within_limits
from autograders.questions.question import QUESTIONS
from autograders.sandbox.messages import is_shallow, plain
from autograders.sandbox.output import Meter

pytestmark = pytest.mark.slow

RIGHT: dict[str, dict[str, Any]] = {
    "stream": {"name": "stdout", "text": "1\n"},
    "error": {"ename": "ValueError", "evalue": "no", "traceback": ["a", "b"]},
    "display_data": {"data": {"text/plain": "1", MIME: {"a": [1]}}, "metadata": {}, "transient": {"display_id": "x"}},
    "execute_result": {"data": {"text/plain": ["1", "2"]}, "metadata": {"a": 1}, "execution_count": 3},
    "status": {"execution_state": "idle"},
    "execute_input": {"code": "1", "execution_count": 3},
    "comm_open": {"comm_id": "1", "target_name": "jupyter.widget", "data": {"state": {}}},
    "clear_output": {"wait": True},
}
TEXTS = st.text(st.characters(), max_size=4) | st.just("\ud800")
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=4) | st.just("\ud800"),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters(), max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)


def message(kind: str, content: Any) -> dict[str, Any]:
    return {"msg_type": kind, "header": {"msg_type": kind}, "parent_header": {}, "content": content}


@pytest.mark.parametrize("kind", RIGHT)
def test_what_a_kernel_sends_by_itself_is_kept_as_it_is(kind: str) -> None:
    sent = message(kind, RIGHT[kind])
    assert plain(copy.deepcopy(sent)) == sent


@given(kind=st.sampled_from(list(RIGHT)), data=st.data())
def test_what_is_kept_of_any_message_a_notebook_can_hold(kind: str, data: st.DataObject) -> None:
    content = data.draw(JUNK | st.just(copy.deepcopy(RIGHT[kind])))
    if isinstance(content, dict):
        for field in data.draw(st.sets(st.sampled_from([*RIGHT[kind], "execution_count", "transient"]))):
            content[field] = data.draw(JUNK | st.dictionaries(st.sampled_from(["text/plain", MIME]), JUNK))
    kept = plain(json.loads(json.dumps(message(kind, content))))
    if kept is None:
        return
    cell = new_code_cell()
    if kind in ("stream", "error", "display_data", "execute_result"):
        assert Meter(1000).takes(kept, cell)
        cell.outputs.append(output_from_msg(kept))
    if "execution_count" in kept["content"]:
        cell["execution_count"] = kept["content"]["execution_count"]
    nb = new_notebook(cells=[cell])
    nbformat.validate(nb)
    as_text(nb).encode("utf-8", "strict")


def test_how_deep_is_too_deep() -> None:
    deep: Any = 1
    for _ in range(MAX_NESTING - 1):
        deep = [deep]
    assert is_shallow(deep)
    assert not is_shallow([deep])


@pytest.mark.parametrize(
    ("observation", "says"),
    [
        ({"array": "A" * (MAX_OBSERVATION + 1)}, f"more than {MAX_OBSERVATION:,} characters"),
        ([["x" * 100] for _ in range(MAX_OBSERVATION // 100 + 1)], "more than"),
        ([[]] * MAX_VALUES, f"more than {MAX_VALUES:,} values"),
        ({"x" * 600_000: "y" * 600_000}, f"more than {MAX_OBSERVATION:,} characters"),
    ],
    ids=["one text", "texts", "lists", "keys"],
)
def test_a_large_observation_is_not_kept_and_has_its_reason(observation: Any, says: str) -> None:
    with pytest.raises(MalformedObservation, match=says):
        refuse_large(observation)
    kept = within_limits(observation)
    assert len(json.dumps(kept)) < 200
    question = QUESTIONS[CLIP]
    for published in (kept, observation):
        verdict = question.judge(question.draw(b"secret", "v", 0), [published])
        assert verdict.points == 0
        assert says in str(verdict.incident)


def test_an_observation_within_the_limits_is_kept() -> None:
    observation = {"question": CLIP, "cases": [{"part": {"dict": {"value": {"list": [1, 2.5, "x"]}}}}] * 100}
    assert within_limits(observation) is observation


def test_an_explanation_is_cut() -> None:
    question = QUESTIONS[CLIP]
    cases = question.draw(b"secret", "v", 0)
    told = {"dict": {"raised": "x" * 100_000}}
    names = list(question.description.points)
    verdict = question.judge(cases, [{"question": CLIP, "cases": [dict.fromkeys(names, told)] * len(cases)}])
    assert verdict.points == 0
    assert max(len(part.message) for part in verdict.parts) <= MAX_MESSAGE


def test_forged_times_are_no_times() -> None:
    began, ended = "2026-01-01T00:00:00Z", "2026-01-01T00:00:02Z"
    times = {"a": ("1-01-01T00:00:00.0Z", ended), "b": (began, ended), "c": (began[:-1], ended), "d": (began, "x")}
    nb = new_notebook(cells=[code_cell("1", name) for name in times])
    for cell, (first, last) in zip(nb.cells, times.values(), strict=True):
        cell.metadata["execution"] = {"iopub.execute_input": first, "shell.execute_reply": last}
    assert _cell_seconds(nb) == {"b": 2.0}


FIELDS = """
import json
session, kernel = get_ipython().kernel.session, get_ipython().kernel
session.pack = lambda value: json.dumps(value, default=str).encode()
def send(kind, **content):
    session.send(kernel.iopub_socket, kind, content, parent=kernel.get_parent())
def forge():
    send("execute_result", execution_count={"a": 1}, data={"text/plain": 5, "image/png": "\\ud800"}, metadata={})
    send("display_data", data=["application/vnd.lecture-lib.observation+json"], metadata=None)
    send("display_data", data={"text/\\ud800": ["\\ud800"]}, metadata={"a": float("inf")})
    send("stream", name=["stdout"], text={"a": 1})
    send("error", ename=1, evalue=None, traceback="x")
    send("error", ename="No space left on device", evalue="database is locked", traceback=["\\ud800"])
    send("execute_input", execution_count="\\ud800", code=1)
    send("unheard_of", x=1)
"""
ALL_RIGHT = source_of(CLIP, "right_loops")
SIGNATURE = "def clip_by_global_norm(gradients, max_norm):"
ANSWERS = {
    "fields": (FIELDS + ALL_RIGHT.replace(SIGNATURE, f"{SIGNATURE}\n    forge()") + "\nforge()\n", True, State.GRADED),
    "surrogate": (f"{FIELDS}{ALL_RIGHT}\n{SIGNATURE}\n    raise ValueError('\\ud800')\n", False, State.GRADED),
    "large": (f"{ALL_RIGHT}\n{SIGNATURE}\n    return [torch.zeros(400, 500)] * 4, 1.0\n", False, State.PARTIAL),
    "one array": (f"{ALL_RIGHT}\n{SIGNATURE}\n    return [torch.zeros(900, 1000)] * 2, 1.0\n", False, State.GRADED),
}


@pytest.fixture(scope="module")
def records(released: Course, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Record]:
    """What became of each."""
    root = tmp_path_factory.mktemp("forged") / "course"
    shutil.copytree(released.root, root)
    course = Course(root)
    for student, (answer, _, _) in ANSWERS.items():
        nb = handed_in(course)
        cell_of(nb, CLIP)["source"] = answer
        path = course.notebook("submitted", FIRST, student)
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(nb), "utf-8")
    grade(course, [FIRST], progress=False)
    found = {student: read_record(course, FIRST, student) for student in ANSWERS}
    assert course.journal(FIRST, "large").stat().st_size < 200_000
    return {student: record for student, record in found.items() if record is not None}


@pytest.mark.parametrize("student", ANSWERS)
def test_a_forged_field_costs_its_own_question_at_most(records: dict[str, Record], student: str) -> None:
    _, right, state = ANSWERS[student]
    record = records[student]
    assert (record.state, record.reason if state == State.GRADED else "") == (state, "")
    assert record.questions[ACCUMULATE]["points"] == 8.0
    assert (record.questions[CLIP]["points"] == 8.0) == right
    if state == State.PARTIAL:
        assert f"more than {MAX_OBSERVATION:,} characters were published" in record.reason
