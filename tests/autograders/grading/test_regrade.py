"""A judge that changed is applied to stored observations: no code runs, and what a person gave stays."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from conftest import MIXED, MixedClass, copy_course

from autograders import notebooks
from autograders.__main__ import main
from autograders.course import Course, CourseError
from autograders.grading.grade import grade
from autograders.grading.journal import read_record
from autograders.grading.regrade import regrade
from autograders.nbgrader.database import open_gradebook
from autograders.questions.description import Description
from autograders.questions.descriptions.clip import QUESTION as CLIP
from autograders.questions.graded_parts import Graded
from autograders.questions.question import QUESTIONS, answer_to
from autograders.questions.seeds import read_secret
from autograders.results.explanation import explain_points
from autograders.results.known_scores import question_points
from autograders.results.report import assignment_report
from autograders.results.rows import rows
from autograders.sandbox.execute import ProbedExecute

pytestmark = pytest.mark.slow

ORIGINAL = Description.judge


def describe(monkeypatch: pytest.MonkeyPatch, **changes: Any) -> None:
    """Change the description of 03a-clip."""
    changed = dataclasses.replace(QUESTIONS["03a-clip"], description=dataclasses.replace(CLIP, **changes))
    monkeypatch.setitem(QUESTIONS, "03a-clip", changed)


def lenient(description: Description, cases: Any, observations: Any, *rest: Any) -> Any:
    """Another judge of 03a-clip: the direction is worth its points whatever was returned."""
    verdict = ORIGINAL(description, cases, observations, *rest)
    if description.id != "03a-clip":
        return verdict
    parts = tuple(
        dataclasses.replace(part, points=part.maximum, message="a gift") if part.name == "direction" else part
        for part in verdict.parts
    )
    return dataclasses.replace(verdict, parts=parts, misconception=None)


@pytest.fixture
def course(mixed_graded: MixedClass, tmp_path: Path) -> Course:
    """The graded mixed class, the test's own."""
    return copy_course(mixed_graded.course, tmp_path / "course")


@pytest.fixture
def changed_judge(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Description, "judge", lenient)


@pytest.fixture
def no_code_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a notebook was run")

    monkeypatch.setattr(ProbedExecute, "preprocess", refuse)


def files(course: Course) -> dict[Path, bytes]:
    found = [path for path in course.root.rglob("*") if path.is_file() and path.name != ".writer"]
    return {path.relative_to(course.root): path.read_bytes() for path in found}


def give(course: Course, student: str, cell: str, score: float, comment: str) -> None:
    """What a person does in formgrader."""
    with open_gradebook(course) as gradebook:
        grade = gradebook.find_grade(cell, MIXED, MIXED, student)
        grade.manual_score, grade.needs_manual_grade = score, False
        gradebook.find_comment(cell.removesuffix("-test"), MIXED, MIXED, student).manual_comment = comment
        gradebook.db.commit()


def given(course: Course, student: str, cell: str) -> tuple[float | None, bool, str | None]:
    with open_gradebook(course) as gradebook:
        grade = gradebook.find_grade(cell, MIXED, MIXED, student)
        comment = gradebook.find_comment(cell.removesuffix("-test"), MIXED, MIXED, student).comment
        return grade.manual_score, bool(grade.needs_manual_grade), comment


def test_the_same_judge_changes_nothing(course: Course, no_code_runs: None) -> None:
    before = files(course)
    assert regrade(course, [MIXED], write=True) == []
    assert files(course) == before


def test_without_write_the_changes_are_shown_and_nothing_is_written(
    course: Course, changed_judge: None, no_code_runs: None, capsys: pytest.CaptureFixture[str]
) -> None:
    before = files(course)
    assert main(["regrade", "--course", str(course.root), "--assignment", MIXED, "--question", "03a-clip"]) == 0
    out = capsys.readouterr().out
    assert files(course) == before
    (line,) = [line for line in out.splitlines() if line.startswith("wrong")]
    assert line.split()[:4] == ["wrong", "03a-clip", "5", "8"]
    assert "direction: 0 → 3, a gift" in line
    assert "misconception: per-parameter → none" in line
    assert "1 of them in points (nothing written: add --write)" in out


def as_an_older_checkout_wrote(record: dict[str, Any]) -> dict[str, Any]:
    """A journal record without the kinds of its reasons."""
    questions = {
        name: {field: value for field, value in verdict.items() if field not in ("incident_kind", "incident_detail")}
        for name, verdict in record["questions"].items()
    }
    apart = ("reasons", "checksum", "observations_bytes", "observations_digest")
    kept = {name: value for name, value in record.items() if name not in apart}
    return kept | {"questions": questions, "schema": 2}


def test_a_journal_without_kinds_is_read_and_nothing_in_it_has_changed(course: Course) -> None:
    before = {row.student: (row.state, row.reason) for row in rows(course, [MIXED])}
    for path in course.journal(MIXED, "x").parent.iterdir():
        content = as_an_older_checkout_wrote(json.loads(path.read_text("utf-8")))
        checksum = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
        path.write_text(json.dumps({**content, "checksum": checksum}), "utf-8")
    assert regrade(course, [MIXED]) == []
    assert {row.student: (row.state, row.reason) for row in rows(course, [MIXED])} == before
    told = {incident.what for incident in assignment_report(course, MIXED, names=False).incidents}
    assert told == {"another incident"}


def test_with_write_gradebook_notebook_journal_and_feedback_agree(
    course: Course, changed_judge: None, no_code_runs: None
) -> None:
    untouched = {student: read_record(course, MIXED, student) for student in ("syntax", "killer", "forger")}
    (change,) = [change for change in regrade(course, [MIXED], write=True) if change.after != change.before]
    assert (change.student, change.question, change.before, change.after) == ("wrong", "03a-clip", 5, 8)
    assert question_points(course, MIXED, "wrong") == {"03a-accumulate": 3, "03a-clip": 8}
    record = read_record(course, MIXED, "wrong")
    assert record is not None
    assert record.questions["03a-clip"]["points"] == 8
    assert record.regrades == [{"question": "03a-clip", "before": 5, "after": 8}]
    nb = notebooks.read(course.notebook("autograded", MIXED, "wrong"))
    cell = next(c for c in nb.cells if c.metadata.get("nbgrader", {}).get("grade_id") == "03a-clip-test")
    assert cell.outputs[0].data["text/plain"] == "8.0"
    assert "a gift" in cell.outputs[1].data["text/plain"]
    assert [output.output_type for output in cell.outputs].count("execute_result") == 1
    assert main(["feedback", "--quiet", "--course", str(course.root), "--assignment", MIXED]) == 0
    assert "a gift" in course.notebook("feedback", MIXED, "wrong").with_suffix(".html").read_text("utf-8")
    assert regrade(course, [MIXED], write=True) == []
    for student, before in untouched.items():
        after = read_record(course, MIXED, student)
        assert after is not None
        assert before is not None
        assert (after.state, after.reason) == (before.state, before.reason)


def test_a_regrade_gives_what_running_the_notebook_again_gives(course: Course, changed_judge: None) -> None:
    regrade(course, [MIXED], write=True)
    regraded = read_record(course, MIXED, "wrong")
    grade(course, [MIXED], ["wrong"], force=True, progress=False)
    rerun = read_record(course, MIXED, "wrong")
    assert regraded is not None
    assert rerun is not None
    assert regraded.questions == rerun.questions
    assert question_points(course, MIXED, "wrong") == {"03a-accumulate": 3, "03a-clip": 8}


def test_manual_scores_and_comments_survive_and_those_touched_wait_for_a_person(
    course: Course, changed_judge: None, no_code_runs: None, capsys: pytest.CaptureFixture[str]
) -> None:
    give(course, "wrong", "03a-clip-test", 6, "half is right")
    give(course, "wrong", "03a-p5", 1.5, "good example")
    give(course, "right", "03a-clip-test", 7, "style")
    assert main(["regrade", "--course", str(course.root), "--assignment", MIXED, "--write"]) == 0
    assert "the manual score 6 stands" in capsys.readouterr().out
    assert given(course, "wrong", "03a-clip-test") == (6, True, "half is right")
    assert given(course, "wrong", "03a-p5") == (1.5, False, "good example")
    assert given(course, "right", "03a-clip-test") == (7, False, "style")
    found = {row.student: row for row in rows(course, [MIXED])}
    assert found["wrong"].score == 3 + 6 + 1.5
    assert found["wrong"].auto_score == 3 + 8


def test_a_new_attempt_says_which_manual_scores_it_touches(course: Course) -> None:
    give(course, "wrong", "03a-clip-test", 6, "half is right")
    give(course, "wrong", "03a-p5", 1.5, "good example")
    path = course.notebook("submitted", MIXED, "wrong")
    nb = notebooks.read(path)
    for cell in nb.cells:
        if cell.metadata.get("nbgrader", {}).get("grade_id") == "03a-clip":
            cell.source = answer_to("03a-clip", "right_concatenate")
    path.write_text(json.dumps(nb), "utf-8")
    grade(course, [MIXED], ["wrong"], progress=False)
    assert question_points(course, MIXED, "wrong")["03a-clip"] == 8
    assert given(course, "wrong", "03a-clip-test") == (6, True, "half is right")
    assert given(course, "wrong", "03a-p5") == (1.5, False, "good example")  # the same answer as before
    (row,) = [row for row in rows(course, [MIXED]) if row.student == "wrong"]
    assert "the manual score 6 of 03a-clip was given to an earlier answer" in row.reason
    assert "03a-p5" not in row.reason
    assert row.by_hand_open == 1
    assert row.attempts == 2


def test_other_hidden_inputs_are_not_judged_by_old_observations(
    course: Course, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    draw = CLIP.draw
    describe(monkeypatch, draw=lambda stream: draw(stream.spawn(1)[0]))
    before = files(course)
    command = ["regrade", "--write", "--course", str(course.root), "--assignment", MIXED]
    assert main(command) == 3
    assert "`autograde grade --force` runs it again" in capsys.readouterr().out
    assert files(course) == before


def test_a_judge_that_gives_other_points_than_were_released_is_refused(
    course: Course, monkeypatch: pytest.MonkeyPatch
) -> None:
    describe(monkeypatch, parts=(*CLIP.parts, Graded("style", 5, ("clipping.norm",))))
    before = files(course)
    with pytest.raises(CourseError, match=r"released with 8 points, its judge gives 13 now"):
        regrade(course, [MIXED], write=True)
    assert files(course) == before


def test_an_unknown_question_is_refused_with_the_known_ones(course: Course) -> None:
    with pytest.raises(CourseError, match=r"no question 03a-clop .* 03a-clip"):
        regrade(course, [MIXED], ["03a-clop"])


@pytest.mark.parametrize("moment", ["before the notebook", "before the journal"])
def test_a_killed_regrade_is_finished_by_the_next(course: Course, changed_judge: None, moment: str) -> None:
    import autograders.grading.regrade

    name = {"before the notebook": "write_text_atomically", "before the journal": "write_record"}[moment]
    child = os.fork()
    if child == 0:
        setattr(autograders.grading.regrade, name, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
        regrade(course, [MIXED], write=True)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    record = read_record(course, MIXED, "wrong")
    assert record is not None
    assert record.questions["03a-clip"]["points"] == 5
    found = {change.student: change.after for change in regrade(course, [MIXED], write=True)}
    assert found["wrong"] == 8
    assert question_points(course, MIXED, "wrong") == {"03a-accumulate": 3, "03a-clip": 8}
    record = read_record(course, MIXED, "wrong")
    assert record is not None
    assert len(record.regrades) == 1


def test_an_instructor_is_shown_what_decided(course: Course) -> None:
    told = explain_points(course, [MIXED], "wrong", "03a-clip")
    record = read_record(course, MIXED, "wrong")
    assert record is not None
    cases = QUESTIONS["03a-clip"].draw(read_secret(course.secret), record.version, record.pool or 0)
    assert told.count("  case ") == len(cases)
    assert f"max_norm = {cases[0].inputs['max_norm']}" in told
    assert "✗ clipping.clipped: expected [" in told
    assert "✓ clipping.norm" in told
    assert "misconception: per-parameter" in told
    with pytest.raises(CourseError, match="nothing of nobody was graded that holds 03a-clip"):
        explain_points(course, [MIXED], "nobody", "03a-clip")
    with pytest.raises(CourseError, match="no question 03a-clop; there are: 03a-accumulate"):
        explain_points(course, [MIXED], "wrong", "03a-clop")
